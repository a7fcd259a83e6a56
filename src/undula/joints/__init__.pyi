from .joint import Joint as Joint, Mimic as Mimic
from .kind import Kind as Kind, kind_of_pose as kind_of_pose
