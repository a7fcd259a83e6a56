from .along import SectionView as SectionView
from .element import Element as Element
from .row import Touching as Touching
from .view import SiteView as SiteView, View as View, Whole as Whole
