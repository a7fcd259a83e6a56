"""Material laws of rods other than linear elasticity: the internal wrench as a function of X, the strain and its rate.

f = R(X, xi, dxi) (004, 29), as the derivative of an energy per unit length plus a stress that no energy stores.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array, as_array, zeros
from undula.core.errors import ModelError, is_traced, numbers, real, reason, shown
from undula.numerics.small import matvec

SHEARED = (1, 2)
NEEDS_STIFFNESS = "needs a stiffness: give the rod E and a section, or `stiffness`"
NEEDS_SECTION = "needs a section: give the rod one"


class SectionProperties(NamedTuple):
    """Area [m^2], second moments about y and z, and torsion constant [m^4] of a section in its stress-free state."""

    area: Any
    Iy: Any
    Iz: Any
    J: Any


class Strained(NamedTuple):
    """A section of a rod as its material law sees it.

    - `X` [m]; `xi`, `dxi` (6,): strain (Gx, Gy, Gz, Kx, Ky, Kz) [1, 1/m] and its rate [1/s, 1/(m s)]; `reference` (6,): the
      stress-free strain; `strain`: xi - reference.
    - `stiffness` (6, 6): H of (2.10), from the rod's E, G and section, or as given to the rod [N, N m, N m^2].
    - `section`: its `SectionProperties`.
    """

    X: Float[Array, ""]
    xi: Float[Array, "6"]
    dxi: Float[Array, "6"]
    reference: Float[Array, "6"]
    given_stiffness: Any = None
    given_section: SectionProperties | None = None

    @property
    def strain(self) -> Float[Array, "6"]:
        return self.xi - self.reference

    @property
    def stiffness(self) -> Float[Array, "6 6"]:
        if self.given_stiffness is None:
            raise ModelError(NEEDS_STIFFNESS)
        return self.given_stiffness

    @property
    def section(self) -> SectionProperties:
        if self.given_section is None:
            raise ModelError(NEEDS_SECTION)
        return self.given_section


class MaterialLaw(eqx.Module):
    """The law of a rod's material, in place of linear elasticity: `Rod(..., material=law)`.

    A subclass keeps its parameters in array fields and defines one of these methods or both; the internal wrench is the
    derivative of `energy_density` by the strain plus `inelastic_stress`. A rod's scalar `damping` adds D = mu H to it.
    """

    def energy_density(self, at: Strained) -> Float[Array, ""]:
        """Stored energy per unit length [J/m], a function of X and the strain; it counts as potential energy."""
        raise NotImplementedError

    def inelastic_stress(self, at: Strained) -> Float[Array, "6"]:
        """An internal wrench that no energy stores, e.g. of viscosity, positive in tension [N, N m]; its power counts as that
        of dampers."""
        raise NotImplementedError

    def check(self, stiffness: Any, what: str) -> None:
        """Raises a `ModelError` if the law cannot be used with a stiffness (6, 6); `what`: the law and its rod, in words."""


def stores(law: MaterialLaw) -> bool:
    """Whether a law stores energy."""
    return type(law).energy_density is not MaterialLaw.energy_density


def loses(law: MaterialLaw) -> bool:
    """Whether a law has a stress that no energy stores."""
    return type(law).inelastic_stress is not MaterialLaw.inelastic_stress


class MooneyRivlin(MaterialLaw):
    """Incompressible rubber: sections shrink as the rod is stretched, and bend and twist more easily.

    The energy per volume is C1 (I1 - 3) + C2 (I2 - 3), with C1 + C2 = E / 6 and C2 = `share` times that sum; `share` is 0 for a
    neo-Hookean material. E and the section are those of the rod; G = E / 3, which is the rod's default.

    **Derivation.** A fibre of stretch l that contracts freely at constant volume has transverse stretches l^(-1/2), hence
    I1 = l^2 + 2/l, I2 = 2 l + 1/l^2, and the energy per volume

        W(l) = C1 (l^2 + 2/l - 3) + C2 (2 l + 1/l^2 - 3) ,  W'(l) = 2 (C1 + C2/l) (l - l^-2) ,
        W''(l) = C1 (2 + 4/l^3) + 6 C2/l^4 ,  W''(1) = 6 (C1 + C2) = E .

    Let l be the stretch of the centre line. Volume is conserved if the section, of area A, second moments I and torsion
    constant J at rest, shrinks by l^(-1/2) in all directions: its area is A/l, its second moments I/l^2. The fibre at (Y, Z) at
    rest is then at (Y, Z) l^(-1/2), and a change k of the curvature per unit length at rest stretches it by k Y l^(-1/2)
    more. To second order in this, the energy per unit length at rest is

        A W(l) + W''(l) I k^2 / (2 l) :

    the axial force is A W'(l) = E A (l - l^-2)/3 for a neo-Hookean rod, and the bending stiffness I W''(l)/l falls from E I as
    the rod is stretched. A twist t per unit length shears the material at the radius r l^(-1/2) by t r l^(-1/2), which adds t^2
    r^2 / l to I1 and t^2 r^2 / l^2 to I2; a shear g of the sections adds g^2 and g^2 / l. So their energies are

        (C1/l + C2/l^2) J t^2 ,  (C1 + C2/l) A g^2 (times the shear factor).

    For bending and twist, the energy is accurate if the stretch of the outer fibres due to them is small compared with 1.
    The stretch is 1 + Gx - Gx of the reference.
    """

    share: Array

    def __init__(self, share: Any = 0.0):
        real(share, "share of a Mooney-Rivlin law", 0.0, 1.0)
        self.share = as_array(share)

    def energy_density(self, at):
        H, (e, gy, gz, t, ky, kz) = jnp.diag(at.stiffness), at.strain
        l, c = jnp.where(1 + e > 0, 1 + e, jnp.nan), self.share  # NaN: a step that turns the rod inside out has failed
        first, second = 1 - c, c  # C1 and C2, times 6 / E
        stretch = (first * (l**2 + 2 / l - 3) + second * (2 * l + 1 / l**2 - 3)) / 6
        # each factor is 1 at rest, where H is the stiffness
        shear = first + second / l
        twist = first / l + second / l**2
        bend = (first * (1 + 2 / l**3) / 3 + second / l**4) / l
        sheared = H[1] * gy**2 + H[2] * gz**2
        bent = H[4] * ky**2 + H[5] * kz**2
        return H[0] * stretch + (shear * sheared + twist * H[3] * t**2 + bend * bent) / 2

    def check(self, stiffness, what):
        _refuse_coupled(stiffness, what)


class NeoHookean(MooneyRivlin):
    """An incompressible neo-Hookean rod: the axial force at the stretch l is E A (l - l^-2) / 3, the bending stiffness
    E I (1 + 2 l^-3) / (3 l). See `MooneyRivlin` for the derivation."""

    def __init__(self):
        super().__init__(0.0)


class Cubic(MaterialLaw):
    """A law that stiffens (or softens) with the strain: H e + c e^3 for each component of the strain e = xi - reference.

    - `coefficients` c (6,), over (Gx, Gy, Gz, Kx, Ky, Kz) [N; N m^4 for torsion and curvatures]. H is that of the rod.

    With the rod's `damping`, the material is a nonlinear Kelvin-Voigt solid.
    """

    coefficients: Float[Array, "6"]

    def __init__(self, coefficients: Any):
        shape = (
            coefficients.shape
            if is_traced(coefficients)
            else numbers(coefficients, "coefficients of a cubic law").shape
        )
        if shape != (6,):
            raise ModelError(f"coefficients of a cubic law have the shape {shape}; it must be (6,): Gx, Gy, ..., Kz.")
        if not is_traced(coefficients) and not np.all(np.isfinite(np.asarray(coefficients, dtype=float))):
            raise ModelError(f"coefficients of a cubic law = {coefficients}; they must be finite.")
        self.coefficients = as_array(coefficients)

    def energy_density(self, at):
        e = at.strain
        return (e * matvec(at.stiffness, e)).sum() / 2 + (self.coefficients * e**4).sum() / 4


def _refuse_coupled(stiffness: Any, what: str) -> None:
    """Refuses a stiffness that couples strains, for laws that are derived for a homogeneous section."""
    if not is_traced(stiffness) and np.any(stiffness - np.diag(np.diag(stiffness)) != 0):
        raise ModelError(f"{what} needs a diagonal stiffness: it has no terms that couple different strains.")


def check_law(law: Any, stiffness: Any, section: SectionProperties | None, time_constant: bool, what: str) -> None:
    """Raises a `ModelError` if a material law cannot be used on a rod: `stiffness` (6, 6) and `section`, at its root, or None;
    `time_constant`: whether its damping is a multiple of its stiffness."""
    if not isinstance(law, MaterialLaw):
        raise ModelError(
            f"material of {what} = {shown(law)}; it must be a material law, e.g. undula.rods.NeoHookean(). Linear elasticity "
            "is given by E and a section, or a stiffness."
        )
    own, words = type(law).__name__, f"the material {type(law).__name__} of {what}"
    if not (stores(law) or loses(law)):
        raise ModelError(f"{words} would do nothing: {own} defines neither energy_density nor inelastic_stress.")
    six = zeros(6)
    at = Strained(zeros(()), six, six, six, None if stiffness is None else zeros((6, 6)), section)
    for method, wanted, defined in (("energy_density", (), stores(law)), ("inelastic_stress", (6,), loses(law))):
        if defined:
            found = _shape(getattr(law, method), at, words)
            if found != wanted:
                raise ModelError(f"{method} of {words} has the shape {found}; it must be {wanted}.")
    if stiffness is not None:
        law.check(stiffness, words)
        if not time_constant and not _reads_stiffness(law, at):
            raise ModelError(f"E, or the stiffness, of {what} would not be used: its material {own} does not read it.")


def _shape(method: Any, at: Strained, words: str) -> Any:
    try:
        return eqx.filter_eval_shape(lambda at: jnp.asarray(method(at), dtype=float), at).shape
    except ModelError as error:
        raise ModelError(f"{words} {str(error).rstrip('.')}.") from None
    except Exception as error:
        raise ModelError(f"{words} cannot be computed: {reason(error)}.") from error


def _reads_stiffness(law: MaterialLaw, at: Strained) -> bool:
    without = at._replace(given_stiffness=None)
    methods = [m for m, has in ((law.energy_density, stores(law)), (law.inelastic_stress, loses(law))) if has]
    try:
        for method in methods:
            eqx.filter_eval_shape(method, without)
    except ModelError as error:
        return NEEDS_STIFFNESS in str(error)
    return False
