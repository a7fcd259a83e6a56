"""Drawing data of a run for figures and pages: shapes, poses between samples, signals without rounding noise."""

from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from undula.core.errors import UndulaError
from undula.view.checked import check_shape, check_surface, parsed

TINY = 1e-9  # a part of a signal below this fraction of its scale is rounding, not motion
ZERO = 1e-12  # data all below this are rounding errors of zero

KINDS = {"box": 3, "cylinder": 2, "capsule": 2, "sphere": 1, "ellipsoid": 3}  # number of sizes of each kind

SIGNS = np.array(list(product((-1, 1), repeat=3)))  # of the corners of a box


def body_shapes(data: xr.Dataset) -> list[list[dict[str, Any]]]:
    """The shapes of each body, as dictionaries (see `undula.Shape`); none if the file has none."""
    shapes = parsed(data, "shapes") or [[] for _ in data["body"]]
    if len(shapes) != data.sizes["body"]:
        raise UndulaError(f"the attribute shapes is for {len(shapes)} bodies; the run has {data.sizes['body']}.")
    for name, body in zip(data["body"].values, shapes):
        if not isinstance(body, list):
            raise UndulaError(
                f"the run cannot be drawn: its attribute shapes has no list of shapes for the body {name}."
            )
        for shape in body:
            check_shape(shape, KINDS, f"a shape of the body {name}")
    return shapes


def body_parents(data: xr.Dataset) -> list[int]:
    """The parent of each body, -1 for the base; by default the base is the parent of all others."""
    count = data.sizes["body"]
    parents = parsed(data, "parents")
    if len(parents) != count:
        return [-1] + [0] * (count - 1)
    for k, p in enumerate(parents):
        if not isinstance(p, int) or not -1 <= p < k:
            raise UndulaError(
                f"the run cannot be drawn: the parent of body {k} is {p}; parents come before their bodies."
            )
    return parents


def half_extents(shape: dict[str, Any]) -> np.ndarray:
    """Half the edges of the box around a shape, in its own axes [m]; a capsule's length excludes its caps."""
    size = np.asarray(shape["size"], float)
    match shape["kind"]:
        case "box":
            return size / 2
        case "cylinder":
            return np.array([size[0], size[0], size[1] / 2])
        case "capsule":
            return np.array([size[0], size[0], size[1] / 2 + size[0]])
        case "sphere":
            return np.repeat(size, 3)
        case _:
            return size


def in_body(shape: dict[str, Any], points: Any) -> np.ndarray:
    """Points (..., 3) from the shape's own axes to the body frame [m]."""
    return rotate(np.asarray(shape["quaternion"], float), np.asarray(points, float)) + np.asarray(
        shape["position"], float
    )


def tips(data: xr.Dataset) -> dict[int, np.ndarray]:
    """Ends of the last bodies of the tree, in their own frames [m]: the farthest ends of their shapes."""
    shapes, parents = body_shapes(data), body_parents(data)
    out = {}
    for k in set(range(len(parents))) - set(parents):
        ends = [in_body(s, np.diag(sign * half_extents(s))) for s in shapes[k] for sign in (-1, 1)]
        if ends:
            points = np.concatenate(ends)
            out[k] = points[np.argmax(np.linalg.norm(points, axis=1))]
    return out


def bounds(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """(lowest, highest) corner [m] of the box around all bodies at all samples, shapes included."""
    position, quaternion = data["body_position"].values, data["body_quaternion"].values
    low, high = position.min((0, 1)), position.max((0, 1))
    for k, shapes in enumerate(body_shapes(data)):
        for shape in shapes:
            corners = in_body(shape, SIGNS * half_extents(shape))
            world = position[:, k, None] + rotate(quaternion[:, k, None], corners)
            low, high = np.minimum(low, world.min((0, 1))), np.maximum(high, world.max((0, 1)))
    return low, high


def surroundings(data: xr.Dataset) -> list[dict[str, Any]]:
    """Surfaces that the bodies could touch, as shapes in the world near the bodies (see `undula.Shape`), and reliefs.

    A horizontal plane below all bodies is left out, as viewers draw the ground anyway.
    """
    low, high = bounds(data)
    size = float((high - low).max()) or 1.0
    out = []
    for x in parsed(data, "surroundings"):
        check_surface(x)
        match x["kind"]:
            case "plane":
                out += _sheet(np.array(x["normal"], float), np.array(x["point"], float), low, high, size)
            case "post":
                height = max(1.4 * float(high[2] - low[2]), 0.05 * size)
                place = [*x["place"], float(low[2]) + height / 2]
                out.append(_placed("cylinder", [x["radius"], height], place))
            case "ball":
                out.append(_placed("sphere", [x["radius"]], x["centre"]))
            case _:
                out.append(x)
    return out


def _placed(kind: str, size: list[float], position: Any, quaternion: Any = (1.0, 0, 0, 0)) -> dict[str, Any]:
    numbers = {"position": position, "quaternion": quaternion}
    return {"kind": kind, "size": size} | {k: [float(v) for v in x] for k, x in numbers.items()}


def _sheet(normal: np.ndarray, point: np.ndarray, low: np.ndarray, high: np.ndarray, size: float) -> list[dict]:
    """A thin box with its upper side in a plane, as large as the box of the run plus a margin; none for the ground."""
    if normal[2] > 1 - 1e-9 and point[2] <= low[2] + 1e-2 * size:
        return []
    across = np.cross(normal, [0, 0, 1.0] if abs(normal[2]) < 1 - 1e-9 else [0, -1.0, 0])
    across /= np.linalg.norm(across)
    down = np.cross(across, normal)
    corners = np.array(list(product(*zip(low, high))))
    middle = corners.mean(0) - normal * ((corners.mean(0) - point) @ normal)
    half = [np.abs((corners - middle) @ direction).max() + 0.2 * size for direction in (down, across)]
    thick = 0.01 * size
    turn = quaternion_of(np.stack([down, np.cross(normal, down), normal], 1))
    return [_placed("box", [float(2 * half[0]), float(2 * half[1]), thick], middle - normal * thick / 2, turn)]


def quaternion_of(R: np.ndarray) -> np.ndarray:
    """The unit quaternion of a rotation matrix."""
    K = np.array(
        [
            [np.trace(R), R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]],
            [0, R[0, 0] - R[1, 1] - R[2, 2], R[0, 1] + R[1, 0], R[0, 2] + R[2, 0]],
            [0, 0, R[1, 1] - R[0, 0] - R[2, 2], R[1, 2] + R[2, 1]],
            [0, 0, 0, R[2, 2] - R[0, 0] - R[1, 1]],
        ]
    )
    q = np.linalg.eigh(K, UPLO="U")[1][:, -1]  # K = 4 q q^T - identity
    return q if q[0] >= 0 else -q


def relief_mesh(relief: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """(vertices [m], triangles) of a relief; cells with a missing corner are left out."""
    z = np.array(relief["z"], float)
    sides = [np.linspace(relief[k][0], relief[k][1], n) for k, n in zip("xy", z.shape)]
    x, y = np.meshgrid(*sides, indexing="ij")
    i, j = np.meshgrid(*(np.arange(n - 1) for n in z.shape), indexing="ij")
    a = (i * z.shape[1] + j).reshape(-1)
    b, c, d = a + z.shape[1], a + z.shape[1] + 1, a + 1
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    there = np.isfinite(z).reshape(-1)
    vertices = np.stack([x, y, np.nan_to_num(z)], -1).reshape(-1, 3)
    return vertices, faces[there[faces].all(1)].astype(np.uint32)


def outline(shape: dict[str, Any], i: int, j: int) -> np.ndarray:
    """The outline (points, 2) [m] of a shape in the world, seen along the axis that is neither i nor j; of a relief, a section.

    Shapes that would cover the whole view, such as sheets and reliefs from above, have none.
    """
    seen = 3 - i - j
    if shape["kind"] == "relief":
        z = np.array(shape["z"], float)
        if seen == 2:
            return np.zeros((0, 2))
        cut = z[:, z.shape[1] // 2] if seen == 1 else z[len(z) // 2]
        start, stop = shape["xy"[1 - seen]]
        return np.stack([np.linspace(start, stop, len(cut)), cut], 1)
    half = half_extents(shape)
    if shape["kind"] == "box" and abs(rotate(np.array(shape["quaternion"]), np.array([0, 0, 1.0]))[seen]) > 0.5:
        return np.zeros((0, 2))
    points = SIGNS
    if shape["kind"] != "box":
        turn = np.linspace(0, 2 * np.pi, 73)
        circle = np.stack([np.cos(turn), np.sin(turn), 0 * turn], 1)
        ends = [circle - [0, 0, 1], circle + [0, 0, 1]]
        points = np.concatenate(
            ends if shape["kind"] == "cylinder" else [circle, circle[:, [0, 2, 1]], circle[:, [2, 0, 1]]]
        )
    from scipy.spatial import ConvexHull, QhullError

    flat = in_body(shape, points * half)[:, [i, j]]
    try:
        return flat[ConvexHull(flat).vertices]
    except QhullError:  # too thin to have an outline
        return np.zeros((0, 2))


def rotate(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Vectors rotated by unit quaternions (w, x, y, z); leading axes broadcast."""
    w, r = quaternion[..., :1], quaternion[..., 1:]
    twice = 2 * np.cross(r, vector)
    return vector + w * twice + np.cross(r, twice)


def slerp(a: np.ndarray, b: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Unit quaternions at a fraction s (0 to 1) of the shorter path from a to b, at constant angular velocity."""
    cosine = (a * b).sum(-1)
    b = np.where(cosine[..., None] < 0, -b, b)  # q and -q are the same attitude
    angle = np.arccos(np.clip(np.abs(cosine), 0, 1))
    small = angle < 1e-6  # the sines cancel, and a straight line is exact to rounding
    sine = np.where(small, 1, np.sin(angle))
    first = np.where(small, 1 - s, np.sin((1 - s) * angle) / sine)
    second = np.where(small, s, np.sin(s * angle) / sine)
    out = first[..., None] * a + second[..., None] * b
    return out / np.linalg.norm(out, axis=-1, keepdims=True)


def inverse(quaternion: np.ndarray) -> np.ndarray:
    """The inverse rotation of unit quaternions."""
    return quaternion * np.array([1.0, -1.0, -1.0, -1.0])


def times_quaternion(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quaternion of the rotation by b, then by a; leading axes broadcast."""
    (w, u), (x, v) = (a[..., :1], a[..., 1:]), (b[..., :1], b[..., 1:])
    real = w * x - (u * v).sum(-1, keepdims=True)
    return np.concatenate([real, w * v + x * u + np.cross(u, v)], -1)


def resample(data: xr.Dataset, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions [m] (times, bodies, 3) and quaternions (times, bodies, 4) of the bodies at instants [s].

    Each body is interpolated in its parent's frame, so that links keep their lengths between samples.
    """
    t, position, quaternion = (data[x].values for x in ("time", "body_position", "body_quaternion"))
    if not len(t):
        raise UndulaError("the run has no samples, so there is nothing to draw.")
    k = np.clip(np.searchsorted(t, times, side="right") - 1, 0, max(len(t) - 2, 0))
    following = np.minimum(k + 1, len(t) - 1)
    s = np.clip((times - t[k]) / np.where(following > k, t[following] - t[k], 1.0), 0, 1)
    out_p, out_q = np.empty((len(times), *position.shape[1:])), np.empty((len(times), *quaternion.shape[1:]))
    for body, parent in enumerate(body_parents(data)):  # parents come first
        p, q = position[:, body], quaternion[:, body]
        if parent >= 0:
            back = inverse(quaternion[:, parent])
            p, q = rotate(back, p - position[:, parent]), times_quaternion(back, q)
        p, q = p[k] + s[:, None] * (p[following] - p[k]), slerp(q[k], q[following], s)
        if parent >= 0:
            p, q = out_p[:, parent] + rotate(out_q[:, parent], p), times_quaternion(out_q[:, parent], q)
        out_p[:, body], out_q[:, body] = p, q
    return out_p, out_q


def frame_times(data: xr.Dataset, rate: float, count_limit: int) -> np.ndarray:
    """Evenly spaced instants [s] from the first sample to the last: `rate` per second, but at most `count_limit`."""
    t = data["time"].values
    if not len(t):
        raise UndulaError("the run has no samples, so there is nothing to draw.")
    duration = float(t[-1] - t[0])
    count = int(np.clip(np.ceil(duration * rate) + 1, 2, count_limit)) if duration > 0 else 1
    return np.linspace(t[0], t[-1], count)


def capsule_mesh(radius: float, length: float, around: int = 24, rings: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """(vertices [m], triangles) of a capsule along z; `length`: distance between the centres of its caps.

    Vertices are shared, so that it is shaded smoothly.
    """
    tilt = np.linspace(0, np.pi / 2, rings)
    z = np.concatenate([length / 2 + radius * np.cos(tilt), -length / 2 - radius * np.cos(tilt[::-1])])
    r = radius * np.concatenate([np.sin(tilt), np.sin(tilt[::-1])])
    turn = np.linspace(0, 2 * np.pi, around, endpoint=False)
    circle = np.stack([np.cos(turn), np.sin(turn)], -1)
    vertices = np.concatenate([r[:, None, None] * circle, np.broadcast_to(z[:, None, None], (len(z), around, 1))], -1)
    i, j = np.meshgrid(np.arange(len(z) - 1), np.arange(around), indexing="ij")
    a, b = i * around + j, i * around + (j + 1) % around
    faces = np.stack([np.stack([a, a + around, b + around], -1), np.stack([a, b + around, b], -1)])
    return vertices.reshape(-1, 3), faces.reshape(-1, 3).astype(np.uint32)


def sticks(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """End points (time, sticks, 2, 3) [m] of the lines from each body's origin to its parent's and to the tips of the
    tree; and the origins (time, bodies, 3) [m]."""
    position, parents = data["body_position"].values, body_parents(data)
    pairs = [np.stack([position[:, p], position[:, k]], 1) for k, p in enumerate(parents) if p >= 0]
    for k, tip in tips(data).items():
        end = position[:, k] + rotate(data["body_quaternion"].values[:, k], tip)
        pairs.append(np.stack([position[:, k], end], 1))
    if not pairs:
        return np.zeros((len(position), 0, 2, 3)), position
    return np.stack(pairs, 1), position


def view_plane(points: np.ndarray) -> tuple[int, int]:
    """The two axes along which points (..., 3) spread most, in order; x and y if all are equal."""
    spread = np.ptp(points.reshape(-1, 3), axis=0)
    spread = np.where(spread > TINY * spread.max(initial=0), spread, 0)
    leave = 2 - int(np.argmin(spread[::-1]))  # the last of the smallest
    first, second = (k for k in range(3) if k != leave)
    return first, second


def instants(time: np.ndarray, count: int) -> np.ndarray:
    """Indices of samples that are roughly evenly spaced in time, including the first and the last."""
    wanted = np.linspace(time[0], time[-1], count)
    return np.unique(np.abs(time[:, None] - wanted).argmin(0))


def attitude(quaternion: np.ndarray) -> tuple[np.ndarray, list[str], str]:
    """(values, names, label) of the attitude without jumps: the angle if the axis is fixed, the rotation vector if the
    angle stays below half a turn, the quaternion otherwise."""
    flips = np.cumprod(np.where((quaternion[1:] * quaternion[:-1]).sum(1) < 0, -1, 1))
    q = quaternion * np.concatenate([[1], flips])[:, None]
    q = q if q[0, 0] >= 0 else -q
    sine = np.linalg.norm(q[:, 1:], axis=1)
    axis = q[np.argmax(sine), 1:] / max(sine.max(), ZERO)
    along = q[:, 1:] @ axis
    if np.abs(q[:, 1:] - along[:, None] * axis).max() < 1e-7:
        name = next((n for n, e in zip("xyz", np.eye(3)) if abs(axis @ e) > 1 - 1e-9), None)
        sign = 1.0 if name is None else float(np.sign(axis["xyz".index(name)]))
        about = f"about {name}" if name else "about ({:.2g}, {:.2g}, {:.2g})".format(*axis)
        return 2 * np.unwrap(np.arctan2(sign * along, q[:, 0]))[:, None], [about], "rotation [rad]"
    angle = 2 * np.arctan2(sine, q[:, 0])
    if angle.max() < 0.97 * np.pi:
        scale = np.where(sine > ZERO, angle / np.maximum(sine, ZERO), 2.0)
        return q[:, 1:] * scale[:, None], ["x", "y", "z"], "rotation vector [rad]"
    return q, ["w", "x", "y", "z"], "quaternion [1]"


# Signals.


def tidy(x: Any) -> np.ndarray:
    """The values, or zeros where a column (or a whole 1D array) stays below 1e-12, which is rounding noise."""
    x = np.asarray(x, float)
    return np.where(np.abs(x).max(0, initial=0) < ZERO, 0.0, x)


def moving(x: np.ndarray, scale: float = 0.0) -> np.ndarray:
    """Which columns change by more than the rounding of the largest value in x or of `scale`."""
    if not x.size:
        return np.zeros(x.shape[1:], bool)
    return np.ptp(x, axis=0) > max(ZERO, TINY * max(float(np.abs(x).max()), scale))


def present(x: np.ndarray) -> np.ndarray:
    """Which columns are not zero up to rounding of the largest value."""
    return np.abs(x).max(0, initial=0) > max(ZERO, TINY * float(np.abs(x).max(initial=0)))


def mean_rate(t: np.ndarray, energy: np.ndarray) -> np.ndarray:
    """Mean rate of change since the previous sample [W]; zero at the first one."""
    return np.append(0.0, np.diff(energy) / np.diff(t)) if len(t) else energy


def energy_rate(time: np.ndarray, energy: np.ndarray) -> np.ndarray:
    """Time derivative [W] of an energy [J], by a spline: finite differences have visible errors with few samples."""
    if len(time) < 2:
        return np.full(len(time), np.nan)
    if len(time) < 4:
        return np.gradient(energy, time)
    from scipy.interpolate import CubicSpline

    return CubicSpline(time, energy)(time, 1)


def colour_limit(x: np.ndarray) -> tuple[float, bool]:
    """The end of a colour scale that is symmetric about zero, and whether rare peaks lie beyond it."""
    size = np.abs(x)
    top, usual = float(size.max(initial=0)), float(np.quantile(size, 0.995)) if size.size else 0.0
    return (usual, True) if 0 < usual < top / 3 else (top or 1.0, False)
