"""Controllers: actuators whose efforts depend on the motion."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array, as_array, namespace
from undula.core.errors import ModelError, as_vector, not_negative
from undula.elements.actuator import Actuator
from undula.elements.element import changed
from undula.elements.observable import Observable
from undula.elements.site import Site, as_site
from undula.elements.view import SiteView
from undula.laws.law import Law, as_law, motion_law
from undula.lie import so3
from undula.numerics.small import cross, matmul, matvec, tmatvec


class ProportionalDerivative(Actuator):
    """Effort = -kp (x - reference) - kd (v - reference rate), coordinate by coordinate.

    **Arguments:**

    - `kp` [N m/rad or N/m], `kd` [N m s/rad or N s/m]: one number, or one per coordinate.
    - `reference`: a law, or constant coordinates [rad or m].
    """

    kp: Array
    kd: Array
    reference: Law

    not_negative = ("kp", "kd")

    def __init__(self, kp: Any, kd: Any, reference: Any, name: str | None = None):
        for what, gain in (("kp", kp), ("kd", kd)):
            not_negative(gain, f"ProportionalDerivative: {what}")
        self.name, self.sites, self.coordinates = name, (), ()
        self.kp, self.kd = as_array(kp), as_array(kd)
        self.reference = as_law(reference)

    def over(self, coordinates, name):
        n = len(coordinates)
        for what, x in (("kp", self.kp), ("kd", self.kd), ("reference", self.reference)):
            if x.shape not in ((), (n,)):
                words = ", ".join(coordinates)
                raise ModelError(f"{what} of the controller of {words} has the shape {x.shape}; it must be ({n},).")
        gains = {what: namespace(x).broadcast_to(x, (n,)) for what, x in (("kp", self.kp), ("kd", self.kd))}
        return changed(super().over(coordinates, name), **gains)

    def effort(self, at):
        wanted, rate, _ = self.reference(at.t)
        return -self.kp * (at.x - wanted) - self.kd * (at.v - rate)

    def linear(self):
        return self.kp, self.kd

    def followed(self):
        return (self.reference,)


class Follower(Actuator):
    """A controller that makes the frame of a site track a given motion with an external wrench, like a thruster or a hand.

    **Arguments:**

    - `site`: a body's name or a site; `motion`: a law (6,) of position [m] and rotation vector [rad] in the world.
    - `stiffness` (6,) [N/m, N m/rad], `damping` (6,) [N s/m, N m s/rad]: gains on the (linear, angular) errors in the
      site's frame.
    """

    motion: Law
    stiffness: Float[Array, "6"]
    damping: Float[Array, "6"]

    not_negative = ("stiffness", "damping")

    def __init__(self, site: str | Site, motion: Law, stiffness: Any, damping: Any, name: str | None = None):
        place = as_site(site, "a follower")
        self.name, self.sites, self.coordinates = name, (place,), ()
        what = f"the follower on {place.words}"
        self.motion = as_pose_law(motion, what)
        self.stiffness, self.damping = (
            not_negative(as_vector(x, 6, f"{n} of {what}"), f"{n} of {what}")
            for n, x in (("stiffness", stiffness), ("damping", damping))
        )

    def wrench(self, at):
        (s,) = at.sites
        pose, twist = pose_errors(s, self.motion(at.t))
        return self.stiffness * pose + self.damping * twist

    def followed(self):
        return (self.motion,)


class TwistFollower(Actuator):
    """A controller that makes a site track the twist of a given motion with an external wrench (document 002, (3.65)).

    The wrench is gain e + integral_gain ∫ e dt with e = Ad(g⁻¹ g_d) η_d - η, the error of the twist in the site's frame. The
    integral begins at zero with the run. Unlike a `Follower`, it does not see the error of the pose, which may drift.

    **Arguments:**

    - `site`: a body's name or a site; `motion`: a law (6,) of position [m] and rotation vector [rad] in the world: g_d.
    - `gain` (6,) [N s/m, N m s/rad], `integral_gain` (6,) [N/m, N m/rad].
    """

    motion: Law
    gain: Float[Array, "6"]
    integral_gain: Float[Array, "6"]

    not_negative = ("gain", "integral_gain")
    observables = (Observable("error", "m/s, rad/s", ("twist",), "error of the twist, in the site's frame"),)

    def __init__(self, site: str | Site, motion: Law, gain: Any, integral_gain: Any, name: str | None = None):
        place = as_site(site, "a follower")
        self.name, self.sites, self.coordinates = name, (place,), ()
        what = f"the twist follower on {place.words}"
        self.motion = as_pose_law(motion, what)
        self.gain, self.integral_gain = (
            not_negative(as_vector(x, 6, f"{n} of {what}"), f"{n} of {what}")
            for n, x in (("gain", gain), ("integral_gain", integral_gain))
        )

    def error(self, at) -> Float[Array, "6"]:
        """e = Ad(g⁻¹ g_d) η_d - η (002, 3.66)."""
        (s,) = at.sites
        x, dx, _ = self.motion(at.t)
        R, turn = so3.to_matrix(so3.exp(x[3:])), so3.dexp(x[3:])
        relative, apart = matmul(s.R.T, R), tmatvec(s.R, x[:3] - s.p)
        V, W = tmatvec(s.R, dx[:3]), matvec(relative, matvec(turn, dx[3:]))
        return jnp.concatenate([V + cross(apart, W), W]) - s.twist

    def start(self):
        return np.zeros(6)

    def rate(self, at):
        return self.error(at)

    def wrench(self, at):
        return self.gain * self.error(at) + self.integral_gain * at.z  # (002, 3.65)

    def observe(self, at):
        return {"error": self.error(at)}

    def followed(self):
        return (self.motion,)


def as_pose_law(motion: Any, what: str) -> Law:
    """A law of position [m] and rotation vector [rad], refused in the name of `what` if it is something else."""
    return motion_law(motion, (6,), f"motion of {what}")


def pose_errors(s: SiteView, motion: tuple[Array, Array, Array]) -> tuple[Float[Array, "6"], Float[Array, "6"]]:
    """From a site to a wanted pose (position [m], rotation vector [rad], and their rates): displacement of the origin and
    rotation vector, and the difference of the two origins' velocities and of the angular velocities, in the site's frame."""
    x, dx, _ = motion
    relative = matmul(s.R.T, so3.to_matrix(so3.exp(x[3:])))
    pose = jnp.concatenate([tmatvec(s.R, x[:3] - s.p), so3.log(so3.from_matrix(relative))])
    spin = matvec(relative, matvec(so3.dexp(x[3:]), dx[3:]))
    return pose, jnp.concatenate([tmatvec(s.R, dx[:3]), spin]) - s.twist
