"""Every gallery entry with its default parameters: the metrics printed on its page.

python benchmarks/gallery.py [--quick]     (part of make bench)
"""

from record import options, write

import undula as un  # isort: skip
from undula import gallery
from undula.scenario.scenario import run_scenario


def main() -> None:
    quick = options(__doc__).quick
    found = {}
    for name in gallery.NAMES[:2] if quick else gallery.NAMES:
        done = run_scenario(gallery.load(name))
        found[name] = dict(
            status=done.run.status,
            steps=done.run.steps,
            wall_s=done.run.wall_s,
            metrics={key: float(value) for key, value in done.metrics.items()},
        )
        print(f"{name:24s} {done.run.status:12s} {done.run.wall_s:8.2f} s  {done.run.message}", flush=True)
    write("gallery", found, quick)


if __name__ == "__main__":
    print(f"undula {un.__version__}")
    main()
