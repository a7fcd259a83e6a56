"""The Newmark family: Newmark, HHT, generalised alpha (document 002, section 4.2 and appendix B)."""

import abc
from typing import ClassVar

import equinox as eqx

from undula.core.errors import UndulaError, real
from undula.integrate.implicit import Coefficients, Implicit


class _Alpha(Implicit):
    """The family of Newmark, HHT and generalised alpha, defined by four parameters."""

    order: ClassVar[int] = 2
    dissipates: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def numbers(self) -> tuple[float, float, float, float]:
        """alpha_m, alpha_f, beta, gamma."""

    def coefficients(self, v, memory, dt):
        am, af, beta, gamma = self.numbers
        f = (1 - gamma / beta) * v + dt * (1 - gamma / (2 * beta)) * memory.pseudo
        # (1 - am) a' + am a = (1 - af) q'' + af q''_n: (4.11) with its sign corrected
        h = -(1 - am) / ((1 - af) * beta * dt) * v + (
            ((1 - am) * (1 - 1 / (2 * beta)) + am) * memory.pseudo - af * memory.acceleration
        ) / (1 - af)
        return Coefficients(gamma / (beta * dt), f, (1 - am) / (dt**2 * beta * (1 - af)), h, 1.0)  # (4.12)

    def finish(self, v, memory, velocity, acceleration):
        am, af, _, _ = self.numbers
        pseudo = ((1 - af) * acceleration + af * memory.acceleration - am * memory.pseudo) / (1 - am)
        return velocity, acceleration, pseudo


class Newmark(_Alpha):
    """Newmark's method; (1/4, 1/2), the default, has order 2 and no numerical damping (document 002, appendix B)."""

    beta: float = eqx.field(static=True, default=0.25)
    gamma: float = eqx.field(static=True, default=0.5)

    def __check_init__(self):
        for name in ("beta", "gamma"):
            real(getattr(self, name), name, 0.0, 10.0)
        if not (self.gamma >= 0.5 and self.beta >= (self.gamma + 0.5) ** 2 / 4 - 1e-12):
            raise UndulaError(
                f"beta = {self.beta}, gamma = {self.gamma}; Newmark's method is stable for gamma >= 1/2 and "
                "beta >= (gamma + 1/2)^2 / 4."
            )

    @property
    def numbers(self):
        return 0.0, 0.0, self.beta, self.gamma


class GeneralisedAlpha(_Alpha):
    """Generalised alpha (Chung and Hulbert; on groups, Arnold and Bruels): order 2; `rho` in [0, 1] is the spectral radius at
    high frequencies, 1: no damping (4.9), (4.10)."""

    rho: float = eqx.field(static=True, default=0.8)

    def __check_init__(self):
        real(self.rho, "rho", 0.0, 1.0)

    @property
    def numbers(self):
        am, af = (2 * self.rho - 1) / (self.rho + 1), self.rho / (self.rho + 1)
        gamma = 0.5 - am + af
        return am, af, (gamma + 0.5) ** 2 / 4, gamma


class HHT(_Alpha):
    """The method of Hilber, Hughes and Taylor: order 2, `rho` in [1/2, 1] as for generalised alpha."""

    rho: float = eqx.field(static=True, default=0.8)

    def __check_init__(self):
        real(self.rho, "rho", 0.5, 1.0)

    @property
    def numbers(self):
        af = (1 - self.rho) / (1 + self.rho)
        return 0.0, af, (1 + af) ** 2 / 4, 0.5 + af
