from .combine import Product as Product, Sum as Sum, stack as stack
from .integral import Integral as Integral
from .law import Constant as Constant, Function as Function, Law as Law
from .measured import Sampled as Sampled
from .splines import CubicSpline as CubicSpline, QuinticSpline as QuinticSpline
from .timing import Delayed as Delayed, Retimed as Retimed, SoftStart as SoftStart
from .waves import Polynomial as Polynomial, Quintic as Quintic, Sinusoid as Sinusoid, TravellingWave as TravellingWave
