from undula.model.reactions import Bound as Bound, Cone as Cone, Least as Least, Projected as Projected
