"""Aiko among posts: lateral undulation that pushes against them goes forward, where friction alone does not."""

import numpy as np

import undula as un
from undula.gallery import aiko
from undula.scenario.scenario import Parameter, Setup


def places(p: dict) -> np.ndarray:
    """(posts, 2): in a row along x, left and right in turn: behind the flanks of the wave that the body runs along [m]."""
    x, y = aiko.laid(p)[1][::-1].T  # from the tail to the head
    rising = np.flatnonzero((y[:-1] <= 0) & (y[1:] > 0))
    i = rising[0] if len(rising) else 0
    first = x[i] - y[i] * (x[i + 1] - x[i]) / (y[i + 1] - y[i]) if len(rising) else x[0]
    k = np.arange(p["posts"])
    return np.stack([first - p["post_shift"] + k * p["post_spacing"], p["post_offset"] * (-1.0) ** k], 1)


def build(p: dict) -> Setup:
    system = aiko.robot(p, [un.contact.Plane(), un.contact.Posts(places(p), p["post_radius"])])

    def start(system: un.System) -> un.State:
        lying = aiko.lying(system, p)
        return (
            lying
            if np.asarray(un.contact.contact_gaps(system, lying)).min() >= 0
            else un.contact.separated(system, lying)
        )

    return Setup(system, start, t_end=p["duration"], dt=1 / 4000)


def metrics(setup: Setup, data) -> dict[str, float]:
    p = setup.parameters
    posts = data.contact.str.endswith(".1").values  # the second surface
    force = data.contact_force.values[:, posts]
    # spheres are next to the post that they push
    link = np.array([int(name.split(".")[0].removeprefix("link")) - 1 for name in data.contact.values[posts]])
    away = aiko.centres(data, p)[:, link, None, :2] - places(p)
    nearest = (away**2).sum(-1).argmin(-1)
    return aiko.metrics(setup, data) | {
        "push_mean": force[1:, :, 0].sum(1).mean(),
        "posts_touched": len(np.unique(nearest[np.linalg.norm(force, axis=-1) > 0])),
    }


SCENARIO = aiko.entry(
    "aiko-obstacles",
    "The snake robot Aiko by lateral undulation among posts, friction 0.2 in all directions: forward along x",
    "Transeth et al. 2008, section VIII-D, with posts of our own",
    build,
    more=(
        Parameter("posts", 12, "", "number of posts", low=1, high=1000),
        Parameter("post_radius", 0.03, "m", "radius of the posts", low=0, open_low=True),
        Parameter("post_shift", 0.056, "m", "from the robot's first rising flank back to the first post, on the left"),
        Parameter("post_spacing", 0.375, "m", "from a post to the next one along x", low=0, open_low=True),
        Parameter("post_offset", 0.075, "m", "from the line that the robot starts on to the posts' centres, across"),
    ),
    metrics=metrics,
    metric_units=aiko.UNITS | {"push_mean": "N", "posts_touched": "1"},
    amplitude_h=40 * aiko.DEGREE,
)
