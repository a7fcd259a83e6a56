"""Sites in a snapshot: their poses and twists, transfer of wrenches from them and of rows over their twists.

Views, wrenches and rows are derivatives and transposes of each other: the power of a wrench transferred from a site is
its product with the site's twist.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.elements.view import SiteView, Slide
from undula.joints.rod.basis import Basis
from undula.joints.rod.group import Pieces, scatter
from undula.laws.law import Law
from undula.lie.se3 import bracket, pull_back, push_wrench
from undula.model.packing import Group
from undula.model.prepare import PlacedSite, Prepared, placed_site
from undula.model.sites import MovingSection, PackedSite, Section
from undula.model.system import System
from undula.numerics.pick import pick, sum_into
from undula.numerics.small import cross, matmul, matvec, tmatvec
from undula.tree.relative import coordinate_columns
from undula.tree.snapshot import Snapshot


class Seen(NamedTuple):
    """A site of the m elements of a group in a snapshot: its view, its pose seen from the base, its accelerations.

    - `links`: of the frames before it, the index after the last one being the world; for moving sections, weights (m,
      links).
    - `gain` (m, 6): derivatives of its twist's components at the known accelerations; `ddxi` (m, 6) of the strain's rate.
    - `pieces`, `bent`: of the part of a rod between the link and the site; `end_shapes`: strain rates there for unit
      rates of the coordinates; `ddX` (m,): acceleration along the rod given by a law.
    """

    view: SiteView
    R: Array
    p: Array
    links: np.ndarray
    gain: Array | None
    ddxi: Array | None
    pieces: Pieces | None = None
    bent: Any = None
    end_shapes: Array | None = None
    ddX: Array | None = None


def see(
    prepared: Prepared,
    snap: Snapshot,
    group: Group,
    places: tuple[PlacedSite, ...],
    z: Any = (),
    gains: bool = False,
    still: bool = False,
) -> tuple[Seen, ...]:
    """The sites of a group; with `gains`, their accelerations too; `still`: with all velocities set to zero."""
    found = iter(jax.tree.leaves(z))
    out = []
    for k, (site, place) in enumerate(zip(group.sites, places)):
        X = next(found) if k in group.found else None
        out.append(_see(prepared, snap, site, place, X, gains, still))
    return tuple(out)


def see_site(prepared: Prepared, snap: Snapshot, site: PackedSite) -> Seen:
    """A site that does not belong to an element."""
    return _see(prepared, snap, site, placed_site(prepared.system, prepared.links, site), None, False, False)


def _see(
    prepared: Prepared, snap: Snapshot, site: PackedSite, place: PlacedSite, X: Any, gains: bool, still: bool
) -> Seen:
    top = prepared.system.topology
    if isinstance(site.section, MovingSection):
        return _moving(prepared, snap, site, place, X, gains, still)
    links = np.append(top.link_of_body, top.link_count)[np.array(site.bodies)]
    frame = _frames(snap, links, place, gains, still)
    if isinstance(site.section, Section):
        s = site.section
        return _behind(prepared, snap, site, frame, links, s.pieces, s.end_shapes, s.end_reference, s.X, gains, still)
    Rw, pw, V, W, gain, R, p = frame
    return Seen(SiteView(Rw, pw, V, W), R, p, links, gain, None)


def _frames(snap: Snapshot, links: np.ndarray, place: PlacedSite, gains: bool, still: bool) -> tuple[Any, ...]:
    """World pose, twist, acceleration (with the field), and pose seen from the base, of frames on links."""
    assert snap.R is not None
    n = snap.R.shape[0]
    world = bool((links == n).any())

    def taken(x, fill):
        return pick(jnp.concatenate([x, fill[None]]) if world else x, links)

    zero, one = jnp.zeros(3), jnp.eye(3)
    Rw, pw, R, p = taken(snap.Rw, one), taken(snap.pw, zero), taken(snap.R, one), taken(snap.p, zero)
    if still or snap.motion is None:
        V = W = pw * 0
    else:
        V, W = taken(snap.motion.V, zero), taken(snap.motion.W, zero)
    gain = None
    if gains and snap.motion is not None:
        dV, dW = snap.motion.dV, snap.motion.dW
        if snap.field is not None:  # accelerations of links are less the field, which is added back here
            dV = dV + jax.vmap(lambda R: tmatvec(R, snap.field))(snap.Rw)
        gain = jnp.concatenate([taken(dV, zero), taken(dW, zero)], axis=1)
    return _offset(place, Rw, pw, V, W, gain, R, p)


def _offset(place: Any, Rw: Any, pw: Any, V: Any, W: Any, gain: Any, R: Any, p: Any) -> tuple[Any, ...]:
    """The same for frames offset by (position, rotation) from these frames."""
    if place.position is not None:
        pw, p = (a + jax.vmap(matvec)(A, place.position) for a, A in ((pw, Rw), (p, R)))
        V = V + jax.vmap(cross)(W, place.position)
        if gain is not None:
            gain = jnp.concatenate([gain[:, :3] + jax.vmap(cross)(gain[:, 3:], place.position), gain[:, 3:]], axis=1)
    if place.rotation is not None:
        Rw, R = (jax.vmap(matmul)(A, place.rotation) for A in (Rw, R))
        V, W = (jax.vmap(tmatvec)(place.rotation, x) for x in (V, W))
        if gain is not None:
            halves = (jax.vmap(tmatvec)(place.rotation, x) for x in (gain[:, :3], gain[:, 3:]))
            gain = jnp.concatenate(list(halves), axis=1)
    return Rw, pw, V, W, gain, R, p


# Sections of rods


def _behind(
    prepared: Prepared,
    snap: Snapshot,
    site: PackedSite,
    frame: tuple[Any, ...],
    links: Any,
    pieces: Pieces,
    end_shapes: Array,
    end_reference: Array,
    X: Array,
    gains: bool,
    still: bool,
) -> Seen:
    """The sites at the far ends of pieces that begin in the given frames."""
    Rw, pw, V, W, gain, R, p = frame
    q, v = pieces.own(snap.state.q), pieces.own(snap.state.v)
    v = 0 * v if still else v
    bent = pieces.bend(q)
    T, d = (x[:, 0] for x in pieces.poses(bent))
    across = pieces.twists(bent, v)[:, 0]
    eta = jax.vmap(pull_back)(T, d, jnp.concatenate([V, W], axis=1))
    ddxi = None
    if gain is not None:
        dv = pieces.own(snap.known.v)
        # (3.9) across the piece
        gain = jax.vmap(pull_back)(T, d, gain) + jax.vmap(bracket)(eta, across)
        gain = gain + pieces.twists(bent, dv)[:, 0] + pieces.biases(bent, v)[:, 0]
        ddxi = _strain(pieces, end_shapes, 0 * end_reference, dv)
    eta = eta + across
    pw, p = (a + jax.vmap(matvec)(A, d) for a, A in ((pw, Rw), (p, R)))
    Rw, R = (jax.vmap(matmul)(A, T) for A in (Rw, R))
    Rw, pw, V, W, gain, R, p = _offset(site, Rw, pw, eta[:, :3], eta[:, 3:], gain, R, p)
    xi = _strain(pieces, end_shapes, end_reference, q)
    dxi = _strain(pieces, end_shapes, 0 * end_reference, v)
    return Seen(SiteView(Rw, pw, V, W, X, xi, dxi), R, p, links, gain, ddxi, pieces, bent, end_shapes)


def _strain(pieces: Pieces, shapes: Array, reference: Array, x: Array) -> Float[Array, "m 6"]:
    return jax.vmap(lambda S, x, r: _all_six(pieces.strains, S, x, r))(shapes, x, reference)


def _all_six(strains: tuple[int, ...], shapes: Float[Array, "strains modes"], x: Array, reference: Any) -> Array:
    """reference + shapes x, for all six strains, of which some are blocked."""
    own = (shapes * x).sum(-1)
    moved = jnp.stack([own[strains.index(c)] if c in strains else jnp.zeros(()) for c in range(6)])
    return reference + moved


def _moving(
    prepared: Prepared, snap: Snapshot, site: PackedSite, place: PlacedSite, X: Any, gains: bool, still: bool
) -> Seen:
    """Sections whose abscissae move: their pieces are selected by masks, so that shapes stay fixed."""
    s = site.section
    assert isinstance(s, MovingSection)
    m = len(site.bodies)
    dX = ddX = None
    moves = True
    if X is None:
        if isinstance(s.X, Law):
            X, dX, ddX = jax.vmap(lambda law: law(snap.t))(s.X)
        else:
            X, moves = s.X, False
    top = prepared.system.topology

    # the frames before the pieces, with weight 1 for the piece that contains X
    fractions = jax.lax.stop_gradient(X / s.length)
    starts = s.starts
    after = jnp.concatenate([starts[:, 1:], jnp.full((m, 1), jnp.inf)], axis=1)
    first = jnp.arange(starts.shape[1]) == 0
    mask = (((fractions[:, None] >= starts) | first) & (fractions[:, None] < after)).astype(float)
    links = top.link_of_body[np.array(s.frames)]  # (m, pieces)
    frames = []
    for k in range(links.shape[1]):
        here = place if k == 0 else PlacedSite(None, None)
        frames.append(_frames(snap, links[:, k], here, gains, still))

    def chosen(parts):
        if parts[0] is None:
            return None
        return sum(_times(mask[:, k], x) for k, x in enumerate(parts))

    frame = tuple(chosen([f[i] for f in frames]) for i in range(7))
    weights = sum(mask[:, k, None] * np.eye(top.link_count)[links[:, k]] for k in range(links.shape[1]))
    start = (mask * starts).sum(1)

    pieces, end_shapes, end_reference = _part(s, start, X)
    whole = _behind(prepared, snap, site, frame, weights, pieces, end_shapes, end_reference, X, gains, still)
    if not moves:
        return whole
    view = whole.view._replace(
        dX=dX, slide=_slide(s, site, pieces.own(snap.state.q), pieces.own(snap.state.v), X, still)
    )
    return whole._replace(view=view, ddX=ddX)


def _slide(s: MovingSection, site: PackedSite, q: Array, v: Array, X: Float[Array, "m"], still: bool) -> Slide:
    """Views of sections that move along their rods."""

    def one(length, constant, q, v, X):
        def strains(X):
            shapes = _shapes(s, X[None] / length)[0]
            return _all_six(s.strains, shapes, q, _reference(s, constant, X)), _all_six(s.strains, shapes, v, 0.0)

        def slopes(X):
            return jax.jvp(strains, (X,), (jnp.ones(()),))[1]

        (slope, rate), (bend, _) = jax.jvp(slopes, (X,), (jnp.ones(()),))
        return slope, rate, bend

    slope, rate, bend = jax.vmap(one)(s.length, s.constant, q, 0 * v if still else v, X)
    offset = None
    if site.position is not None or site.rotation is not None:
        m = len(site.bodies)
        R = jnp.tile(jnp.eye(3), (m, 1, 1)) if site.rotation is None else site.rotation
        p = jnp.zeros((m, 3)) if site.position is None else site.position
        offset = jax.vmap(lambda R, p: jax.vmap(lambda e: pull_back(R, p, e), 0, 1)(jnp.eye(6)))(R, p)
    return Slide(slope, rate, bend, offset)


def _times(weight: Float[Array, "m"], x: Array) -> Array:
    return weight.reshape(-1, *(1,) * (x.ndim - 1)) * x


def _part(s: MovingSection, start: Float[Array, "m"], X: Float[Array, "m"]) -> tuple[Pieces, Array, Array]:
    """The part of a piece from the fraction `start` to X, and the arrays for the strains at X."""

    def one(length, start, constant, X):
        fraction = X / length
        at = start + (fraction - start) * jnp.asarray(s.gauss)
        ends = jnp.concatenate([at, fraction[None]])
        shapes = _shapes(s, ends)  # (gauss + 1, strains, modes)
        reference = jax.vmap(lambda x: _reference(s, constant, x * length))(ends)
        step = X - start * length
        return shapes[:-1, :, None], reference[:-1, :, None], step[None], shapes[-1], reference[-1]

    shapes, reference, steps, end_shapes, end_reference = jax.vmap(one)(s.length, start, s.constant, X)
    pieces = Pieces(shapes, reference, steps, s.strains, s.present, s.coordinates, s.total)
    return pieces, end_shapes, end_reference


def _shapes(s: MovingSection, at: Float[Array, "points"]) -> Float[Array, "points strains modes"]:
    """Strains of unit coordinates at fractions of the length."""
    if s.points:  # values of an imposed field, interpolated between its points
        hats = jnp.stack([jnp.interp(at, jnp.asarray(s.points), unit) for unit in jnp.eye(len(s.points))], -1)
        n = len(s.points)
        out = jnp.zeros((len(at), len(s.strains), n * len(s.strains)))
        for k in range(len(s.strains)):
            out = out.at[:, k, k * n : (k + 1) * n].set(hats)
        return out
    counts = [b.count for b in s.bases]
    out = jnp.zeros((len(at), len(s.strains), sum(counts)))
    first = 0
    for k, basis in enumerate(s.bases):
        assert isinstance(basis, Basis)
        out = out.at[:, k, first : first + basis.count].set(basis.values(at).T)
        first += basis.count
    return out


def _reference(s: MovingSection, constant: Array, X: Array) -> Float[Array, "6"]:
    return constant if s.function is None else jnp.asarray(s.function(X), dtype=float)


# Wrenches and rows


def carry_wrench(
    prepared: Prepared, snap: Snapshot, site: PackedSite, place: PlacedSite, seen: Seen, wrench: Float[Array, "m 6"]
) -> tuple[Float[Array, "links 6"], Float[Array, "nv"] | None]:
    """Wrenches at sites, in their frames, as wrenches on links, in the links' frames, and efforts on strains of rods."""
    system = prepared.system
    n = system.topology.link_count
    if seen.pieces is None:
        on_link = pushed(place, wrench)
        return sum_into(on_link, seen.links, n), None
    at_section = pushed(site, wrench)
    T, d = (x[:, 0] for x in seen.pieces.poses(seen.bent))
    before = jax.vmap(push_wrench)(T, d, at_section)
    efforts = _on_strains(system, seen.pieces, seen.pieces.project(seen.bent, at_section[:, None]))
    if isinstance(site.section, MovingSection):
        # the frame before the first piece is not that of its link
        links = system.topology.link_of_body[np.array(site.section.frames)]
        weights = [(seen.links * np.eye(n)[links[:, k]]).sum(1) for k in range(links.shape[1])]
        total = sum_into(_times(weights[0], pushed(place, before)), links[:, 0], n)
        for k in range(1, links.shape[1]):
            total = total + sum_into(_times(weights[k], before), links[:, k], n)
        return total, efforts
    return sum_into(pushed(place, before), seen.links, n), efforts


def pushed(place: Any, wrench: Float[Array, "m 6"]) -> Float[Array, "m 6"]:
    """Wrenches in offset frames, transferred to the frames that they are offset from."""
    f, c = wrench[:, :3], wrench[:, 3:]
    if place.rotation is not None:
        f, c = (jax.vmap(matvec)(place.rotation, x) for x in (f, c))
    if place.position is not None:
        c = c + jax.vmap(cross)(place.position, f)
    return wrench if place.rotation is None and place.position is None else jnp.concatenate([f, c], axis=1)


def _on_strains(system: System, pieces: Pieces, efforts: Float[Array, "m modes"]) -> Float[Array, "nv"]:
    """Efforts on the coordinates of rods, summed over members, which may be on the same rod."""
    places = system.nv - pieces.total + np.array(pieces.coordinates)
    return sum_into(efforts.reshape(-1), places.reshape(-1), system.nv)


def carry_rows(
    prepared: Prepared, snap: Snapshot, site: PackedSite, seen: Seen, rows: Float[Array, "m k 6"]
) -> Float[Array, "m k n"]:
    """Rows over the twists of sites, in their frames, as rows over (base twist, coordinates)."""

    def to_base(R, p, w):  # from a row over the site's twist to one over the twist at the base's origin
        f, c = matvec(R, w[:3]), matvec(R, w[3:])
        return jnp.concatenate([f, c + cross(p, f)])

    based = jax.vmap(lambda R, p, w: jax.vmap(lambda w: to_base(R, p, w))(w))(seen.R, seen.p, rows)
    out = over_velocities(prepared.system, snap, seen.links, based)
    pieces = seen.pieces
    if pieces is None:
        return out
    # the strains between the link and the site also move the site
    at_section = jax.vmap(lambda w: pushed(site, w), 1, 1)(rows)
    own = jax.vmap(lambda w: pieces.project(seen.bent, w[:, None]), 1, 1)(at_section)
    return out + over_strains(prepared.system, pieces, own)


def over_strains(system: System, pieces: Pieces, own: Float[Array, "m k modes"]) -> Float[Array, "m k n"]:
    """Rows over (base twist, coordinates), from rows over the coordinates of the rods that pieces belong to."""
    places = 6 + system.nv - pieces.total + np.array(pieces.coordinates)
    return (own[..., None] * np.eye(6 + system.nv)[places][:, None]).sum(2)


def over_velocities(system: System, snap: Snapshot, links: Any, row: Float[Array, "m k 6"]) -> Float[Array, "m k n"]:
    """Rows over (base twist, coordinates), from rows over the twists of links, in the base's frame, at its origin.

    `links` (m,): their indices (the one after the last is the world), or weights (m, links).
    """
    top, S = system.topology, snap.S
    assert S is not None
    m, k = row.shape[:2]
    if isinstance(links, np.ndarray) and links.ndim == 1:
        above = np.concatenate([top.ancestors, np.zeros((1, top.link_count), bool)])[links].astype(float)
        moves = (links < top.link_count).astype(float)  # the world does not move with the base
        row = row * moves[:, None, None]
    else:
        above = matmul(links, jnp.asarray(top.ancestors, dtype=float))
    joints = ((row[:, :, None] * S).sum(-1) * above[:, top.rate_link][:, None]).reshape(m * k, -1)
    joints = coordinate_columns(system, joints)
    if system.rods:
        flat = [_on_rods(x, g, row, above).reshape(m * k, -1) for x, g in zip(snap.bends, system.rods)]
        joints = joints + jax.vmap(lambda *x: scatter(system.rods, list(x), top.nv))(*flat)
    return jnp.concatenate([row, joints.reshape(m, k, -1)], axis=2)


def _on_rods(bends: Array, g: Any, row: Array, above: Any) -> Float[Array, "m k rods modes"]:
    """Rows over the coordinates of rods; `above` (m, links): which links lie between the base and each row's link."""
    return jnp.einsum("cki,rnmi,crn->ckrm", row, bends, jnp.asarray(above[:, np.array(g.links)], dtype=float))
