"""The parts of the pages that contain measured numbers: name -> (results they need, function of their values)."""

from collections.abc import Callable
from pathlib import Path

FUNCTIONS = ("inverse dynamics", "mass matrix", "forward dynamics")


def sig(x: float | None, digits: int = 2) -> str:
    """A number with the given number of significant digits, without an exponent; a dash for None."""
    if x is None:
        return "-"
    rounded = float(f"{x:.{digits}g}")
    return f"{rounded:.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:.{digits}g}"


def duration(us: float) -> str:
    """Microseconds or milliseconds."""
    return f"{sig(us)} us" if us < 1000 else f"{sig(us / 1000)} ms"


def rate(x: float) -> str:
    """A large number such as 4.3e9."""
    mantissa, power = f"{x:.1e}".split("e")
    return f"{mantissa}e{int(power)}"


def listed(values: list, form: Callable = sig) -> str:
    """A list such as "1, 2 and 3"."""
    words = [form(x) for x in values]
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def provenance(found: dict[str, dict]) -> str:
    """Where the numbers come from."""
    if not found:
        return "No results of this version are recorded yet; the numbers below are of earlier states of the code."
    rows = []
    for name, x in found.items():
        where = x["device"] if name.startswith("gpu") else x["processor"]
        more = ", with changes" if x["changed"] else ""
        versions = f"undula {x['versions']['undula']}, JAX {x['versions'].get('jax', '?')}"
        rows.append([f"`{name}.json`", x["commit"][:10] + more, x["date"][:10], where, versions])
    return table(["results", "commit", "date", "machine", "versions"], rows)


def dynamics_table(v: dict) -> str:
    def cell(x: dict) -> str:
        return f"{x['us'] / x['pinocchio_us']:.2f} ({sig(x['us'])} us)"

    rows = [[name, *(cell(row[f]) for f in FUNCTIONS)] for name, row in v["table"].items()]
    return table(["model", *FUNCTIONS], rows)


def dynamics_batch(v: dict) -> str:
    def span(chains: bool) -> str:
        ratios = [
            row[f]["map_us"] / row[f]["pinocchio_us"]
            for name, row in v["table"].items()
            if name.startswith("chain") == chains
            for f in FUNCTIONS
        ]
        return f"{min(ratios):.1f} to {max(ratios):.1f}" if ratios else "-"

    return (
        f"A batch of 256 by `lax.map` on one core takes {span(True)} times Pinocchio's time per instance for chains,\n"
        f"{span(False)} times for the robots."
    )


def cpu_batches(v: dict) -> str:
    row = next(iter(v["table"].values()))
    inverse, forward = row["inverse dynamics"], row["forward dynamics"]
    slower = sorted(x["vmap_us"] / x["map_us"] for x in (inverse, forward))
    return (
        f"For 256 states of an 11-link chain on one core, `lax.map` takes {sig(inverse['map_us'])} us per instance for inverse and "
        f"{sig(forward['map_us'])} us for forward\ndynamics; `vmap` takes {slower[0]:.1f} and {slower[1]:.1f} times as long."
    )


def gradient(v: dict) -> str:
    g = v["gradient"]
    methods = g["methods"]
    return (
        f"The gradient of a {g['steps']}-step simulation of {g['links']} links with respect to the masses takes as long as "
        f"{methods['RungeKutta4']['ratio']:.1f} simulations (Runge-Kutta)\nor {methods['SemiImplicitEuler']['ratio']:.1f} (semi-implicit Euler)."
    )


def scaling(v: dict) -> str:
    from record import exponent

    s = v["scaling"]
    rows = [
        [
            f"{name}{' (n² entries)' if name == 'mass matrix' else ''}",
            *(sig(x) for x in us),
            f"{exponent(s['links'], us):.2f}",
        ]
        for name, us in s["us"].items()
    ]
    head = ["links", *(str(n) for n in s["links"]), "fitted exponent"]
    return f"{table(head, rows)}\n\nEach of them compiles in at most {sig(s['compile_s'])} s."


def option(v: dict) -> str:
    ratio = v["option"]["slow_us"] / v["option"]["fast_us"]
    return (
        f"The inverse dynamics of 11 links then takes {sig(v['option']['fast_us'])} us instead of {sig(v['option']['slow_us'])} us: "
        f"{ratio:.0f} times less."
    )


def _gpu(v: dict) -> dict:
    largest = {}
    for row in v["rows"]:
        key = row["function"], row["batching"]
        if key not in largest or row["batch"] > largest[key]["batch"]:
            largest[key] = row
    return largest


def gpu(v: dict) -> str:
    rows = _gpu(v)

    def cell(f: str, batching: str, shares: bool) -> str:
        x = rows.get((f, batching))
        if x is None:
            return "-"
        return rate(x["per_s"]) + (f" ({x['memory']:.0%}, {x['flops']:.0%})" if shares else "")

    lines = [[f, *(cell(f, b, b == "lanes, fused") for b in ("lanes, fused", "lanes, XLA", "vmap"))] for f in FUNCTIONS]
    head = [
        "calls per second",
        "`lanes`, fused (share of memory bandwidth, of float64 arithmetic)",
        "`lanes`, XLA",
        "`jax.vmap`",
    ]
    return (
        f"On one {v['device']}, a batch of {rate(_largest(v))} of the chain of {v['links']}, in float64:\n\n"
        + table(head, lines)
    )


def _largest(v: dict) -> int:
    return max(row["batch"] for row in v["rows"])


def gpu_short(v: dict) -> str:
    rows = _gpu(v)
    fused, mapped = ([rate(rows[f, b]["per_s"]) for f in FUNCTIONS] for b in ("lanes, fused", "vmap"))
    return (
        f"On one {v['device']}, a batch of {rate(_largest(v))} of the chain of {v['links']} as one fused kernel (`un.lanes`): "
        f"{fused[0]} inverse dynamics, {fused[1]} mass matrices,\n{fused[2]} forward dynamics per second; by `jax.vmap` {listed(mapped, str)}."
    )


def gpu_compile(v: dict) -> str:
    rows = _gpu(v)
    inverse, forward = (rows[f, "lanes, fused"]["compile_s"] for f in ("inverse dynamics", "forward dynamics"))
    return f"A kernel takes from {sig(inverse)} s (inverse dynamics of {v['links']} links) to {sig(forward)} s (forward dynamics) to compile."


def constraints(v: dict) -> str:
    rows = [
        [
            name,
            *(str(x[k]) for k in ("bodies", "rows", "unknown")),
            duration(x["step_us"]),
            duration(x["reduction_us"]),
        ]
        for name, x in v["table"].items()
    ]
    d, long, g = v["driven"], v["long"], v["gradient"]
    return (
        table(["system", "bodies", "rows", "unknown velocities", "a step", "a reduction"], rows)
        + f"\n\n{long['simulated_s']:g} s of snake-acm at dt = 1 ms take {sig(long['wall_s'])} s. With two rows and "
        f"{listed(d['links'], str)} driven links a step takes {listed(d['us'])} us: the exponent\nis {d['exponent']:.1f}. "
        f"The reduction itself is cubic in the rows. The gradient of {g['steps']} steps of a snakeboard takes as long as "
        f"{g['ratio']:.1f} simulations, and\n{sig(g['compile_s'])} s to compile."
    )


def gpu_gaits(v: dict) -> str:
    return (
        f"On one {v['device']}, {rate(v['batch'])} snakeboard gaits of {v['steps']} steps in one call (`vmap`) take {sig(v['wall_s'])} s: "
        f"{rate(v['per_s'])} steps per second."
    )


def rods_table(v: dict) -> str:
    keys = ("undula", "pyelastica", "soromox", "document", "sorosim")
    rows = [[name, *(sig(x[k]) for k in keys)] for name, x in v["table"].items()]
    return table(["rod", "undula", "PyElastica", "SoRoMoX", "document", "SoRoSim"], rows)


def rods_more(v: dict) -> str:
    a, modes, rods = v["accuracy"], v["modes"], v["rods"]
    three, six = a["undula, 3 modes"], a["undula, 6 modes"]
    other = f", PyElastica's by {a['PyElastica']['error']:.1%}" if "PyElastica" in a else ""
    return (
        f"This is not at equal accuracy: with 3 modes the tip of the soft cantilever is off by up to {three['error']:.1%} of the length over 2 s{other}. "
        f"With 6 modes\nit is off by {six['error']:.1%}, at {sig(six['wall'])} wall seconds per simulated second.\n\n"
        f"The inverse dynamics of a rod with 21 nodes and 15 coordinates takes {sig(v['inverse_us'])} us (Gotelli 2024, table 5.3: 500 us). "
        f"A step costs {listed(modes['us'])} us with\n{listed(modes['modes'], str)} modes. {listed(rods['rods'], str)} rods on one clamp take "
        f"{listed(rods['us'])} us per step: the exponent is {rods['exponent']:.1f}."
    )


def gpu_rods(v: dict) -> str:
    quickest = max(v["rows"], key=lambda x: (x["batch"], x["per_s"]))["newton"]
    rows = [x for x in v["rows"] if x["newton"] == quickest]
    return (
        f"On one {v['device']}, `jax.vmap` over tendon-driven fingers (12 nodes, 3 modes, implicit steps to 1e-8) does "
        f"{listed([x['per_s'] for x in rows], rate)} steps per second in batches of\n{listed([x['batch'] for x in rows], rate)}; "
        f"SoRoMoX publishes {rate(v['published_per_s'])} (one segment, batch 256, RTX 5090)."
    )


def contact(v: dict) -> str:
    rows = [
        [name, sig(x["wall"]), sig(x["us"]), sig(x.get("mujoco")), sig(x["document"], 3)]
        for name, x in v["table"].items()
    ]
    side, links = v["table"]["aiko-sidewinding"], v["links"]

    def speed(w: list[float]) -> str:
        return f"{(w[0] ** 2 + w[1] ** 2) ** 0.5:.4f} m/s"

    return (
        table(["run", "undula", "us per step", "MuJoCo", "document"], rows)
        + f"\n\nThe mean velocity of sidewinding is {speed(side['velocity'])}, MuJoCo's {speed(side['mujoco_velocity'])}; in steps of 1/1000 s it is "
        f"{speed(v['coarse']['velocity'])}, at {sig(v['coarse']['wall'])} wall seconds per\nsecond. {listed(links['links'], str)} links take "
        f"{listed(links['us'])} us per step over the first 2 s: straight starts close all contacts, and many\ncontacts of long robots are solved together."
    )


def contact_errors(v: dict) -> str:
    errors, steps = v["errors"]["errors"], v["errors"]["steps"]
    flat, side = errors["aiko-lateral-isotropic"], errors["aiko-sidewinding"]
    rolling = v["rolling"]
    lying, lifting = rolling["aiko-lateral-isotropic"], rolling["aiko-sidewinding"]
    return (
        "Displacements of a flat robot with isotropic friction are small differences of large motions: against steps of "
        f"1/{steps[-1]} s, the way of [aiko-lateral-isotropic](gallery/aiko-lateral-isotropic.md) is\noff by {flat[0]:.1%} with steps of 1/{steps[0]} s and by "
        f"{flat[1]:.1%} with 1/{steps[1]} s; that of [aiko-sidewinding](gallery/aiko-sidewinding.md), which depends on which links touch first, by "
        f"{side[0]:.1%} and {side[1]:.1%}.\nWith rolling friction (0.02) the flat robot takes {lying['ratio']:.1f} times as many iterations as without; "
        f"{lifting['missed']} of {lifting['steps']} steps of the one that\nlifts and rolls miss the tolerance, which the message of the run says."
    )


def gpu_contact(v: dict, single: dict) -> str:
    rows, narrow = [[x for x in w["rows"] if x["most"] == 20] for w in (v, single)]
    long = next(x for x in v["rows"] if x["most"] == 200)
    return (
        f"On one {v['device']} one vmapped call (20 iterations at most) does "
        f"{listed([x['per_s'] for x in rows], rate)} robot-steps per second in batches of {listed([x['batch'] for x in rows], rate)} in float64, and "
        f"{listed([x['per_s'] for x in narrow], rate)} in\nfloat32; {rows[-1]['missed']:.0%} of the steps miss the tolerance in float64, "
        f"{narrow[-1]['missed']:.0%} in float32. With 200 iterations at most {long['missed']:.1%} miss it, at {rate(long['per_s'])} robot-steps\nper second for "
        f"{rate(long['batch'])} robots in float64."
    )


def first_answer(v: dict) -> str:
    some = ("satellite", "snake-acm", "aiko-sidewinding", "hexapod", "drones-payload", "bicycle-whipple")
    rows = [
        [
            f"`{name}`",
            *(f"{x[kind][key]:.1f}" for kind in ("cold", "warm") for key in ("first_s", "wall_s")),
            str(x["lines"]),
        ]
        for name, x in ((name, v["entries"][name]) for name in some if name in v["entries"])
    ]
    head = ["entry", "cold: first samples [s]", "cold: whole command [s]", "warm: first samples [s]"]
    s = v["summary"]
    return (
        f"{table([*head, 'warm: whole command [s]', 'lines of MLIR'], rows)}\n\n"
        f"Over all {len(v['entries'])} entries the whole command takes {s['cold_wall_s']['median']:.1f} s (median; worst "
        f"{s['cold_wall_s']['worst']:.1f} s) with an empty cache and {s['warm_wall_s']['median']:.1f} s (worst "
        f"{s['warm_wall_s']['worst']:.1f} s) from then on; the first\nsamples are there after {s['cold_first_s']['median']:.1f} s (worst "
        f"{s['cold_first_s']['worst']:.1f} s) and {s['warm_first_s']['median']:.1f} s (worst {s['warm_first_s']['worst']:.1f} s)."
    )


BLOCKS: dict[str, tuple[tuple[str, ...], Callable]] = {
    "provenance": ((), provenance),
    "dynamics-table": (("dynamics",), dynamics_table),
    "dynamics-batch": (("dynamics",), dynamics_batch),
    "dynamics-gradient": (("dynamics",), gradient),
    "dynamics-scaling": (("dynamics",), scaling),
    "fast-loops": (("dynamics",), option),
    "cpu-batches": (("dynamics",), cpu_batches),
    "constraints": (("constraints",), constraints),
    "rods-table": (("rods",), rods_table),
    "rods-more": (("rods",), rods_more),
    "contact": (("contact",), contact),
    "contact-errors": (("contact",), contact_errors),
    "first-answer": (("first_answer",), first_answer),
    "gpu": (("gpu",), gpu),
    "gpu-short": (("gpu",), gpu_short),
    "gpu-compile": (("gpu",), gpu_compile),
    "gpu-gaits": (("gpu_gaits",), gpu_gaits),
    "gpu-rods": (("gpu_rods",), gpu_rods),
    "gpu-contact": (("gpu_contact", "gpu_contact32"), gpu_contact),
}

SCRIPTS: dict[str, str] = {
    "dynamics": "run.py", "constraints": "constraints.py", "rods": "rods.py", "contact": "contact.py", "gallery": "gallery.py",
    "first_answer": "first_answer.py",
    "gpu": "gpu.py", "gpu_gaits": "gpu_gaits.py", "gpu_rods": "gpu_rods.py",
    "gpu_contact": "gpu_contact.py", "gpu_contact32": "gpu_contact.py --float32",
}  # fmt: skip


def missing(folder: Path) -> list[str]:
    """Results that the pages need but that are not in the folder."""
    return [name for name in SCRIPTS if not (folder / f"{name}.json").exists()]
