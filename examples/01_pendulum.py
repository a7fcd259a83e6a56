"""A pendulum: build a model, run it, read the result.

python examples/01_pendulum.py
"""

import numpy as np

import undula as un

LENGTH, MASS = 1.0, 2.0  # m, kg

b = un.Builder("pendulum")  # gravity is (0, 0, -9.81) m/s^2 by default
b.base("ground")
b.body(
    "rod",
    parent="ground",
    joint=un.Revolute((0, 1, 0), name="hinge"),  # no law: the coordinate is free
    mass=MASS,
    com=(0, 0, -LENGTH / 2),
    inertia=un.solids.cylinder_inertia(MASS, 0.02, LENGTH),
    shapes=[un.Shape("capsule", (0.02, LENGTH), (0, 0, -LENGTH / 2))],
)
system = b.build()

run = un.run(system, system.state(position={"hinge": 0.05}), t_end=10.0, dt=1e-3)
print(run.status, "-", run.message)

angle = run.data.position.sel(coordinate="hinge")
ups = np.flatnonzero((angle.values[:-1] < 0) & (angle.values[1:] >= 0))
t, x = run.data.time.values, angle.values
crossings = t[ups] - x[ups] * (t[ups + 1] - t[ups]) / (x[ups + 1] - x[ups])
period = np.diff(crossings).mean()

about_hinge = un.solids.cylinder_inertia(MASS, 0.02, LENGTH)[0] + MASS * LENGTH**2 / 4
theory = 2 * np.pi * np.sqrt(about_hinge / (MASS * 9.81 * LENGTH / 2)) * (1 + 0.05**2 / 16)
energy = run.data.energy_kinetic + run.data.energy_potential
print(f"period: {period:.6f} s, theory: {theory:.6f} s")
print(f"largest change of the energy: {float(abs(energy - energy[0]).max()):.1e} J")
