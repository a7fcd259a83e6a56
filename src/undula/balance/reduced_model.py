"""The matrices of the reduced model of document 001 at an instant, by the names that it gives them.

Steps under constraints never form them (see `balance/reduced.py`): this is for reading, for control design and for tests.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Float

from undula.balance.assemble import field_of
from undula.balance.balance import Balance
from undula.balance.look import hold, moved
from undula.balance.reduced import reduced_accelerations, slip_forces
from undula.balance.rows import rates_of, row_count, rows_of
from undula.balance.solution import with_efforts
from undula.core.arrays import Array
from undula.model.arguments import checked
from undula.model.prepare import prepare
from undula.model.state import Acceleration, State
from undula.model.system import System
from undula.model.topology import GROUPS
from undula.numerics.programs import quickly_compiled
from undula.numerics.row_space import TOLERANCE
from undula.tree.driven import driven_motion
from undula.tree.snapshot import move, place

BASE = tuple(f"base.{x}" for x in ("vx", "vy", "vz", "wx", "wy", "wz"))


class ReducedModel(NamedTuple):
    """The reduced dynamics of a system at an instant (document 001, sections II to IV).

    Passive velocities eta+ (N,) are the base twist in its free directions, in the base's frame, then the rates of the
    coordinates that are not driven; active ones r_a' (s_a,) are those of driven coordinates, after a driven base. Units are
    m/s or rad/s for velocities, N or N m for forces, and those of their quotients for inertias [kg, kg m, kg m^2].

    Names: `passive` (N,), `active` (s_a,), and `reduced` (n_r,), the passive velocities that the rows leave to the dynamics:
    first those of the base (eta_r), then coordinates (r_p,dyn'). `external`: how many of `passive` are of the base (n).

    State: `eta` (N,), `eta_r` (n_r,), `dr_a` and `ddr_a` (s_a,), the driven velocities and accelerations.

    Rows, A eta+ + B_a r_a' + `driven` = 0 (10):

    - `A` (k, N), `B_a` (k, s_a), `driven` (k,): velocities that laws inside rows impose, such as that of a driven wheel.
    - `A_inverse` (N, k): the generalised inverse in use, the pseudo-inverse over the velocities that the rows determine.

    Kinematics, eta+ = J r_a' + H eta_r + `imposed` (11), and the same for accelerations with `bias` added:

    - `J` (N, s_a), `H` (N, n_r) with A H = 0, `imposed` (N,); `bias` (N,): J' r_a' + H' eta_r and what `imposed` contributes.
    - `compatibility` (k, s_a): (A J + B_a) r_a' + (the same for `driven`) vanishes only for driven motions that the rows allow.

    Free dynamics, M eta+' + M_a^T r_a'' = f + A^T lambda, M_a eta+' + m_aa r_a'' = Q_a + tau_a + B_a^T lambda (24):

    - `M` (N, N), `M_a` (s_a, N), `m_aa` (s_a, s_a); `f` (N,), `Q_a` (s_a,): inertial forces and those of all force models.

    Reduced dynamics, M_r eta_r' = f_r (23): `M_r` (n_r, n_r), `f_r` (n_r,).

    Active joints, tau_a = m_aa_tilde r_a'' - Q_a_tilde - B_a^T lambda_stat (6) (printed with a plus before the last term):

    - `m_aa_tilde` (s_a, s_a), `Q_a_tilde` (s_a,); `lambda_stat` (k,): the part of the reactions that moves nothing, which
      the rule of the system chooses; with led coordinates, it moves nothing together with their efforts.
    """

    passive: tuple[str, ...]
    active: tuple[str, ...]
    reduced: tuple[str, ...]
    external: int
    eta: np.ndarray
    eta_r: np.ndarray
    dr_a: np.ndarray
    ddr_a: np.ndarray
    A: np.ndarray
    B_a: np.ndarray
    driven: np.ndarray
    A_inverse: np.ndarray
    J: np.ndarray
    H: np.ndarray
    imposed: np.ndarray
    bias: np.ndarray
    compatibility: np.ndarray
    M: np.ndarray
    M_a: np.ndarray
    m_aa: np.ndarray
    f: np.ndarray
    Q_a: np.ndarray
    M_r: np.ndarray
    f_r: np.ndarray
    m_aa_tilde: np.ndarray
    Q_a_tilde: np.ndarray
    lambda_stat: np.ndarray

    # Blocks: the base's rows come first, its reduced velocities too

    @property
    def dynamic(self) -> int:
        """How many of the reduced velocities are the base's."""
        return sum(name in self.passive[: self.external] for name in self.reduced)

    @property
    def J_ext(self) -> Float[np.ndarray, "n s_a"]:
        """Base velocities per active velocity (13)."""
        return self.J[: self.external]

    @property
    def J_int(self) -> Float[np.ndarray, "s_p s_a"]:
        """Passive rates per active velocity (13)."""
        return self.J[self.external :]

    @property
    def H_ee(self) -> Float[np.ndarray, "n n_e"]:
        """Base velocities per reduced base velocity (13)."""
        return self.H[: self.external, : self.dynamic]

    @property
    def H_ep(self) -> Float[np.ndarray, "n n_p"]:
        """Base velocities per dynamic passive rate (13)."""
        return self.H[: self.external, self.dynamic :]

    @property
    def H_pe(self) -> Float[np.ndarray, "s_p n_e"]:
        """Passive rates per reduced base velocity (13); the document's (17) supposes that it is zero."""
        return self.H[self.external :, : self.dynamic]

    @property
    def D(self) -> Float[np.ndarray, "s_p n_p"]:
        """Passive rates per dynamic passive rate: H_pp of (13), D of (17)."""
        return self.H[self.external :, self.dynamic :]

    @property
    def M_r_tilde(self) -> Float[np.ndarray, "n_e n_e"]:
        """Inertia of the reduced base velocities, the dynamic passive ones eliminated (4)."""
        e, _, coupled, own = self._blocks()
        return e - coupled.T @ np.linalg.solve(own, coupled)

    @property
    def F_r_tilde(self) -> Float[np.ndarray, "n_e"]:
        """Force on the reduced base velocities (4): eta_r' = M_r_tilde^-1 F_r_tilde."""
        _, _, coupled, own = self._blocks()
        k = self.dynamic
        return self.f_r[:k] - coupled.T @ np.linalg.solve(own, self.f_r[k:])

    @property
    def m_pp_r(self) -> Float[np.ndarray, "n_p n_p"]:
        """Inertia of the dynamic passive rates (5)."""
        return self._blocks()[3]

    @property
    def Q_p_r_tilde(self) -> Float[np.ndarray, "n_p"]:
        """Force on the dynamic passive rates (5): r_p,dyn'' = m_pp_r^-1 Q_p_r_tilde."""
        k = self.dynamic
        return self.f_r[k:] - self._blocks()[2] @ np.linalg.solve(self.M_r_tilde, self.F_r_tilde)

    def _blocks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        k = self.dynamic
        return self.M_r[:k, :k], self.M_r[:k, k:], self.M_r[k:, :k], self.M_r[k:, k:]

    # Solutions

    @property
    def deta_r(self) -> Float[np.ndarray, "n_r"]:
        """Accelerations of the reduced velocities (23)."""
        return np.linalg.solve(self.M_r, self.f_r)

    @property
    def deta(self) -> Float[np.ndarray, "N"]:
        """Accelerations of the passive velocities: the derivative of (11)."""
        return self.H @ self.deta_r + self.J @ self.ddr_a + self.bias

    @property
    def tau_a(self) -> Float[np.ndarray, "s_a"]:
        """Efforts of the active joints (6)."""
        return self.m_aa_tilde @ self.ddr_a - self.Q_a_tilde - self.B_a.T @ self.lambda_stat


@checked
def reduced(system: System, state: State | None = None, t: float = 0.0) -> ReducedModel:
    """The matrices of document 001, (1) to (27), at a state and time [s], as NumPy arrays.

    Driven coordinates are set by their laws, and velocities are projected onto the rows, as in `hybrid_dynamics`. The rows are
    solved for velocities of the base as far as possible, so that passive coordinates are their own reduced velocities, as in
    the document's (17). Not for use inside `jax.jit`: shapes depend on ranks.
    """
    top = system.topology
    start = system.state() if state is None else state
    x = {key: np.asarray(value) for key, value in _instant(system, start, jnp.asarray(float(t))).items()}
    names = (*BASE, *system.coordinate_names)
    p = top.unknown
    own = np.array(GROUPS[top.base_group] if top.base_role == "driven" else (), dtype=int)
    a = np.concatenate([own, 6 + np.flatnonzero(top.driven)]).astype(int)
    n = int((p < 6).sum())
    A, B = x["A"][:, p], x["A"][:, a]
    fixed, free = _split(A, n)
    G = np.zeros((len(p), len(A)))
    G[fixed] = np.linalg.pinv(A[:, fixed])
    H = np.zeros((len(p), len(free)))
    H[free], H[fixed] = np.eye(len(free)), -G[fixed] @ A[:, free]
    J, bias = -G @ B, -G @ x["rates"]
    M, M_a, m_aa = x["M"][np.ix_(p, p)], x["M"][np.ix_(a, p)], x["M"][np.ix_(a, a)]
    f, Q_a, ddr_a = x["force"][p], x["force"][a], x["known"][a]
    f_r = H.T @ (f - M_a.T @ ddr_a - M @ (J @ ddr_a + bias))  # (67), (68)
    M_r = H.T @ M @ H  # (66)
    # (27) with the reduced accelerations inserted
    across = M_a + J.T @ M
    gain = H @ np.linalg.solve(M_r, H.T)
    m_tilde = m_aa + M_a @ J + J.T @ M @ J + J.T @ M_a.T - across @ gain @ across.T
    Q_tilde = Q_a + J.T @ f - across @ (bias + gain @ (f - M @ bias))
    deta = H @ np.linalg.solve(M_r, f_r) + J @ ddr_a + bias
    moving = G.T @ (M @ deta + M_a.T @ ddr_a - f)  # the first term of (26)
    return ReducedModel(
        passive=tuple(names[k] for k in p),
        active=tuple(names[k] for k in a),
        reduced=tuple(names[p[k]] for k in free),
        external=n,
        eta=x["velocity"][p],
        eta_r=x["velocity"][p][free],
        dr_a=x["velocity"][a],
        ddr_a=ddr_a,
        A=A,
        B_a=B,
        driven=x["driven"],
        A_inverse=G,
        J=J,
        H=H,
        imposed=-G @ x["driven"],
        bias=bias,
        compatibility=A @ J + B,
        M=M,
        M_a=M_a,
        m_aa=m_aa,
        f=f,
        Q_a=Q_a,
        M_r=M_r,
        f_r=f_r,
        m_aa_tilde=m_tilde,
        Q_a_tilde=Q_tilde,
        lambda_stat=x["reactions"] - moving,
    )


@quickly_compiled
def _instant(system: System, state: State, t: Any) -> dict[str, Array]:
    """Rows, inertia and forces over all velocities (6 + nv,), the forces and the rates of the rows without accelerations."""
    prepared = prepare(system)
    if system.constrained:
        held = hold(prepared, t, state)
        snap, rows = held.snap, held.rows
    else:
        given, known = driven_motion(system, t, state)
        snap = place(prepared, t, given, known)
        rows = rows_of(prepared, snap)
    known = snap.known
    still = move(prepared, snap._replace(known=Acceleration.zero(system.nv)), field_of(prepared, t))
    balance = Balance.of(prepared, still)
    reactions = jnp.zeros(0)
    if system.ideal:
        moving = moved(prepared, held)
        found, _, _ = with_efforts(prepared, held, moving, reduced_accelerations(prepared, held, moving))
        reactions = found.reactions[: row_count(system.ideal)]
    return dict(
        A=rows.A,
        driven=rows.driven,
        rates=rates_of(prepared, still),
        M=balance.inertia(np.arange(6 + system.nv)),
        force=slip_forces(prepared, still)[0] - balance.imbalance(),
        velocity=snap.state.velocity,
        known=known.whole,
        reactions=reactions,
    )


def _split(A: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Which velocities the rows are solved for, and the others; the first n columns, those of the base, have precedence."""
    size = np.linalg.norm(A, axis=1, keepdims=True)
    A = A / np.where(size > 1e-14, size, 1.0)
    Q = np.zeros((len(A), 0))
    fixed: list[int] = []
    for columns in (np.arange(n), np.arange(n, A.shape[1])):
        new = A[:, columns] - Q @ (Q.T @ A[:, columns])
        if not new.size:
            continue
        q, r, order = scipy.linalg.qr(new, mode="economic", pivoting=True)
        rank = int((np.abs(np.diag(r)) > TOLERANCE).sum())
        fixed += list(columns[order[:rank]])
        Q = np.concatenate([Q, q[:, :rank]], axis=1)
    return np.array(sorted(fixed), dtype=int), np.setdiff1d(np.arange(A.shape[1]), fixed)
