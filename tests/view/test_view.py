"""Result files, figures and 3D pages: saved data is read back, drawings match the data."""

import base64
import json
import re
import socket
import threading
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import jax.numpy as jnp
import matplotlib
import msgspec
import numpy as np
import pytest
import xarray as xr

import undula as un
from undula.contact.carried import surroundings
from undula.record import netcdf
from undula.view import guard, page, panels, plots, shapes


def _arm(name, base_role):
    """Two links in a plane, the first joint driven."""
    b = un.Builder(name)
    b.base("root", role=base_role, mass=1.0, inertia=0.1)
    rod = [un.Shape("capsule", (0.02, 0.2), (0.0, 0.0, -0.1), colour=(0.9, 0.4, 0.1))]
    swing = un.Revolute((0, 1, 0), motion=un.laws.Sinusoid(0.5, 3.0, 0.2))
    b.body("upper", "root", swing, 0.2, (0.0, 0.0, -0.1), 1e-3, shapes=rod)
    b.body(
        "lower",
        "upper",
        un.Revolute((0, 1, 0)),
        0.2,
        (0.0, 0.0, -0.1),
        1e-3,
        position=(0, 0, -0.2),
        shapes=rod,
    )
    s = b.build()
    return un.run(s, s.state(position=[0.3, 0.3]), t_end=0.3, dt=0.01).data


@pytest.fixture(scope="module")
def fixed():
    return _arm("arm", "fixed")


@pytest.fixture(scope="module")
def floating():
    return _arm("swimmer", "free")


@pytest.fixture(scope="module")
def many(fixed):
    """Seven times the coordinates, and bodies without shapes."""
    names = [f"joint{k}" for k in range(14)]
    data = fixed.isel(coordinate=[0, 1] * 7).assign_coords(coordinate=names)
    return data.assign_attrs(scenario="long arm", shapes="[[], [], []]")


@pytest.fixture(scope="module")
def single(floating):
    """One free body: no internal coordinates."""
    data = floating.isel(coordinate=slice(0, 0), body=slice(0, 1))
    data = data.assign_coords(coordinate=np.array([], dtype=str))
    return data.assign_attrs(scenario="stone", shapes="[[]]", parents="[-1]")


@pytest.fixture(params=["fixed", "many", "floating", "single"])
def run_data(request):
    return request.getfixturevalue(request.param)


# Result files.


def test_a_saved_run_comes_back_exactly(run_data, tmp_path):
    path = netcdf.save(run_data, tmp_path / "run.nc")
    back = netcdf.load(path)
    assert back.identical(run_data)
    assert all(back[n].dtype.kind == x.dtype.kind for n, x in run_data.variables.items())
    with xr.open_dataset(path) as users:  # as a user opens it, without undula
        assert users.load().identical(run_data)
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]
    path.unlink()  # the file is not held open


def test_a_run_without_coordinates_or_samples_survives(single, tmp_path):
    assert single.sizes["coordinate"] == 0
    for data in (single, single.isel(time=slice(0, 1)), single.isel(time=slice(0, 0))):
        back = netcdf.load(netcdf.save(data, tmp_path / "run.nc"))
        assert back.identical(data) and back.sizes == data.sizes
        assert back["role"].shape == (0,) and back["position"].shape == (data.sizes["time"], 0)


def test_large_variables_are_compressed(fixed, tmp_path):
    long = xr.concat([fixed] * 40, "time", data_vars="minimal", coords="minimal", compat="override")
    path = netcdf.save(long, tmp_path / "run.nc")
    assert path.stat().st_size < 0.5 * long.nbytes
    assert netcdf.load(path).identical(long)


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("missing/run.nc", "the folder {folder}/missing does not exist"),
        ("taken", "it is a folder"),
        ("file.txt/run.nc", "the folder {folder}/file.txt is not a folder"),
        ("x" * 300, "file name too long"),
    ],
)
def test_saving_where_one_cannot_is_refused(single, tmp_path, name, sentence):
    (tmp_path / "taken").mkdir()
    (tmp_path / "file.txt").write_text("text")
    for write in (netcdf.save, page.write_html):
        with pytest.raises(un.UndulaError) as refusal:
            write(single, tmp_path / name)
        assert str(tmp_path / name) in str(refusal.value)
        assert sentence.format(folder=tmp_path) in str(refusal.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file.txt", "taken"]


def test_a_failed_write_leaves_the_older_file(single, tmp_path):
    path = netcdf.save(single, tmp_path / "run.nc")
    bad = single.assign_attrs(handle=object())  # an attribute that cannot be stored in a file
    with pytest.raises(TypeError):
        netcdf.save(bad, path)
    assert netcdf.load(path).identical(single)
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]


def test_other_files_are_refused(single, tmp_path):
    (tmp_path / "text.nc").write_text("not a result")
    xr.Dataset({"a": ("x", [1.0])}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    whole = netcdf.save(single, tmp_path / "run.nc").read_bytes()
    (tmp_path / "half.nc").write_bytes(whole[: len(whole) // 2])
    for name, sentence in (
        ("absent.nc", "there is no such file"),
        ("text.nc", "it is not a NetCDF-4 file"),
        ("half.nc", "it is not a NetCDF-4 file, or it is damaged"),
        ("other.nc", "it is not a result file; it lacks time, base_position"),
        ("", "it is a folder"),
    ):
        with pytest.raises(un.UndulaError) as refusal:
            netcdf.load(tmp_path / name)
        assert str(tmp_path / name) in str(refusal.value) and sentence in str(refusal.value)


# Figures.


EXPECTED = {
    "fixed": ["path", "coordinates", "efforts", "energy"],
    "many": ["path", "coordinates", "efforts", "energy"],
    "floating": ["motion", "path", "coordinates", "efforts", "energy"],
    "single": ["motion", "path", "energy"],
}


@pytest.mark.parametrize(
    "which, samples",
    [*((which, None) for which in EXPECTED), ("fixed", 1), ("many", 1), ("single", 1), ("floating", 3)],
)
def test_figures_are_written(which, samples, request, tmp_path):
    data = request.getfixturevalue(which).isel(time=slice(0, samples))
    backend = matplotlib.get_backend(auto_select=False)
    written = plots.write_figures(data, tmp_path / "new" / "figures")
    names = [p.stem for p in written]
    if samples == 1:  # a single sample does not show which coordinates move
        assert set(names) <= set(EXPECTED[which]) and {"path", "energy"} <= set(names)
    else:
        assert names == EXPECTED[which]
    for path in written:
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 5000
    assert matplotlib.get_backend(auto_select=False) == backend


def test_a_run_without_samples_has_no_figures(fixed, tmp_path):
    assert plots.write_figures(fixed.isel(time=slice(0, 0)), tmp_path) == []


def test_figures_into_a_file_are_refused(fixed, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(un.UndulaError, match=r"cannot write figures into .*taken"):
        plots.write_figures(fixed, tmp_path / "taken")


def test_few_coordinates_are_lines_and_many_a_heat_map(fixed, many):
    few, lots = plots._coordinates(fixed), plots._coordinates(many)
    top = few.axes[0]
    assert not top.collections and len(few.axes) == 2
    np.testing.assert_array_equal([line.get_ydata() for line in top.get_lines()], fixed["position"].values.T)
    assert top.get_ylabel() == "coordinates [rad]"
    for ax, name in zip(lots.axes, ("position", "velocity")):
        assert not ax.get_lines()
        drawn = ax.collections[0].get_array().reshape(14, -1)
        np.testing.assert_array_equal(drawn, many[name].values.T)


def test_colours_tell_roles_apart():
    styles = panels._family_styles(np.array(["driven", "free", "driven", "free"]))
    red, blue = np.array([s["color"] for s in styles[::2]]), np.array([s["color"] for s in styles[1::2]])
    assert (red[:, 0] > red[:, 2]).all() and (blue[:, 2] > blue[:, 0]).all()
    many = panels._family_styles(np.array(["free"] * panels.MOST_LINES))
    assert len({(tuple(s["color"]), s["ls"]) for s in many}) == panels.MOST_LINES


def test_rounding_errors_are_drawn_as_zero():
    noise = 1e-14 * np.random.default_rng(0).standard_normal((50, 2))
    signal = np.linspace(0, 1e-6, 50)
    np.testing.assert_array_equal(shapes.tidy(noise), 0)
    np.testing.assert_array_equal(shapes.tidy(signal), signal)
    mixed = shapes.tidy(np.column_stack([noise, signal]))
    assert not mixed[:, :2].any() and mixed[-1, 2] == 1e-6
    assert shapes.moving(np.column_stack([noise, signal]))[-1] and not shapes.moving(9.81 + noise).any()


def test_a_constant_fills_a_quiet_axis(fixed):
    nothing = 0 * fixed["energy_kinetic"]
    last_digit = 5 + 1e-15 * np.arange(fixed.sizes["time"]) + nothing
    quiet = fixed.assign(energy_kinetic=last_digit, energy_potential=nothing, power_actuators=nothing)
    energy, power = plots._energy(quiet.assign(power_external=nothing)).axes
    assert energy.get_ylim()[0] < 0 and energy.get_ylim()[1] > 5
    assert np.ptp(power.get_ylim()) > 1e-6  # W, not 1e-13


def test_the_rate_of_energy_is_the_power(floating):
    t = floating["time"].values
    energy = (floating["energy_kinetic"] + floating["energy_potential"]).values
    power = (floating["power_actuators"] + floating["power_external"]).values
    error = shapes.energy_rate(t, energy) - power
    assert np.abs(error).max() < 1e-3 * np.abs(power).max()
    assert np.isnan(shapes.energy_rate(t[:1], energy[:1])).all()


def test_stick_figures_follow_the_bodies(fixed):
    lines, origins = shapes.sticks(fixed)
    position = fixed["body_position"].values
    np.testing.assert_array_equal(origins, position)
    assert lines.shape == (fixed.sizes["time"], 3, 2, 3)
    np.testing.assert_array_equal(lines[:, 1], position[:, [1, 2]])
    tip = np.linalg.norm(lines[:, 2, 1] - lines[:, 2, 0], axis=-1)
    np.testing.assert_allclose(tip, 0.22, rtol=1e-12)  # the rod and its cap
    assert shapes.view_plane(lines) == (0, 2)
    assert shapes.view_plane(np.zeros((4, 3))) == (0, 1)
    picked = shapes.instants(np.linspace(0, 1, 500), 8)
    assert len(picked) == 8 and picked[0] == 0 and picked[-1] == 499
    assert list(shapes.instants(np.array([0.0]), 8)) == [0]


def _quaternion(axis, angle):
    axis = np.asarray(axis, float) / np.linalg.norm(axis)
    angle = np.atleast_1d(angle)
    return np.concatenate([np.cos(angle / 2)[:, None], np.sin(angle / 2)[:, None] * axis], 1)


def test_the_attitude_is_drawn_without_jumps():
    angle = np.linspace(0, 20, 300)
    flipped = _quaternion((0, 0, -1), angle) * np.where(np.arange(300) % 7 == 3, -1, 1)[:, None]
    values, names, label = shapes.attitude(flipped)
    assert names == ["about z"] and label == "rotation [rad]"
    np.testing.assert_allclose(values[:, 0], -angle, atol=1e-9)
    wobble = _quaternion((1, 0, 0), 0.5 * np.sin(angle))
    tilted = shapes.times_quaternion(wobble, _quaternion((0, 1, 0), 0.5 * np.cos(angle)))
    values, names, label = shapes.attitude(tilted)
    assert label == "rotation vector [rad]" and np.abs(np.diff(values, axis=0)).max() < 0.1
    assert shapes.attitude(shapes.times_quaternion(wobble, _quaternion((0, 0, 1), angle)))[2] == "quaternion [1]"


# 3D pages.


def test_slerp_has_unit_norm_and_constant_speed():
    a, b = _quaternion((1, 2, 3), 0.3), _quaternion((1, 2, 3), 1.9)
    s = np.linspace(0, 1, 11)
    ends = np.repeat(a, 11, 0), np.repeat(-b, 11, 0)  # -b is the same attitude
    q = shapes.slerp(*ends, s)
    np.testing.assert_allclose(np.linalg.norm(q, axis=1), 1, rtol=1e-15)
    np.testing.assert_allclose(q, _quaternion((1, 2, 3), 0.3 + 1.6 * s), atol=1e-14)
    np.testing.assert_array_equal(shapes.slerp(a, a, s[:1]), a)


def test_resampling_hits_the_samples_and_keeps_links_rigid(fixed):
    t = fixed["time"].values
    position, quaternion = shapes.resample(fixed, t)
    np.testing.assert_allclose(position, fixed["body_position"].values, atol=1e-14)
    assert np.abs((quaternion * fixed["body_quaternion"].values).sum(-1)).min() > 1 - 1e-12
    position, quaternion = shapes.resample(fixed, np.linspace(0, t[-1], 333))
    np.testing.assert_allclose(np.linalg.norm(quaternion, axis=-1), 1, rtol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(position[:, 2] - position[:, 1], axis=-1), 0.2, rtol=1e-13)
    still, _ = shapes.resample(fixed.isel(time=slice(0, 1)), np.array([0.0, 1.0]))
    np.testing.assert_allclose(still[1], fixed["body_position"].values[0], atol=1e-14)


def test_the_number_of_frames_is_bounded(fixed):
    long = fixed.assign_coords(time=fixed["time"].values * 1e4)
    assert len(shapes.frame_times(fixed, 30.0, 400)) == 10
    times = shapes.frame_times(long, 30.0, 400)
    assert len(times) == 400 and times[0] == 0 and times[-1] == long["time"].values[-1]
    assert len(shapes.frame_times(fixed.isel(time=slice(0, 1)), 30.0, 400)) == 1


def _recording(path: Path) -> dict:
    """The recording that the page plays: viser's is zstd over msgpack, in base64."""
    import zstandard

    text = re.search(r'__VISER_EMBED_DATA__="([^"]+)"', path.read_text(encoding="utf-8")).group(1)
    packed = base64.b64decode(text)
    raw = zstandard.ZstdDecompressor().decompress(packed[8:], max_output_size=int.from_bytes(packed[:8], "little"))
    return msgspec.msgpack.decode(raw[8 : 8 + int.from_bytes(raw[:8], "little")])


def test_a_page_is_one_file_with_all_the_bodies(run_data, tmp_path, capsys):
    path = page.write_html(run_data, tmp_path / "run.html", fps=60.0)
    assert [p.name for p in tmp_path.iterdir()] == ["run.html"] and capsys.readouterr().out == ""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)\s*=\s*[\"'](?!data:)", text)
    assert f"<title>{run_data.attrs['scenario']}</title>" in text
    recording = _recording(path)
    nodes = {m["name"] for _, m in recording["messages"] if m["type"] == "FrameMessage"}
    assert {f"/bodies/{name}" for name in run_data["body"].values} <= nodes
    duration = float(run_data["time"].values[-1])
    instants = {t for t, _ in recording["messages"]}
    assert len(instants) <= 60 * duration + 2
    assert duration <= recording["durationSeconds"] < duration + 0.05


def test_a_page_ends_where_the_run_ends(floating, tmp_path):
    recording = _recording(page.write_html(floating, tmp_path / "run.html", fps=20.0, speed=0.1))
    moves = [m for _, m in recording["messages"] if m["type"] == "SetPositionMessage"]
    last = [m["position"] for m in moves if m["name"] == "/bodies/lower"][-1]
    np.testing.assert_allclose(last, floating["body_position"].values[-1, 2], atol=1e-4)
    assert recording["durationSeconds"] == pytest.approx(10 * float(floating["time"].values[-1]), rel=0.05)


def test_names_and_single_samples_do_not_break_a_page(fixed, tmp_path):
    data = fixed.isel(time=slice(0, 1)).assign_coords(body=["ground", "left/arm", "<b>"])
    data.attrs["scenario"] = "<script>alert(1)</script>"
    path = page.write_html(data, tmp_path / "run.html")
    assert "<script>alert" not in path.read_text(encoding="utf-8")
    assert _recording(path)["durationSeconds"] == 0


def test_what_a_page_cannot_show_is_refused(fixed, tmp_path):
    with pytest.raises(un.UndulaError, match="the run has no samples"):
        page.write_html(fixed.isel(time=slice(0, 0)), tmp_path / "run.html")
    with pytest.raises(un.UndulaError, match=r"fps = 0\.0 is not allowed"):
        page.write_html(fixed, tmp_path / "run.html", fps=0.0)
    with pytest.raises(un.UndulaError, match="port = 70000 is not allowed"):
        page.serve(fixed, port=70000)
    with pytest.raises(un.UndulaError, match=r"host = 192\.0\.2\.1"):  # an address for documentation, never ours
        page.serve(fixed, host="192.0.2.1")
    unknown = [[{"kind": "torus", "size": [1.0]}], [], []]
    with pytest.raises(un.UndulaError, match="torus"):
        page.write_html(fixed.assign_attrs(shapes=json.dumps(unknown)), tmp_path / "run.html")
    assert not list(tmp_path.iterdir())


def test_the_camera_sees_the_whole_box():
    for high in ((1, 2, 3), (4, 0.01, 2), (3, 3, 0.01), (0, 0, 0)):
        low, high = np.zeros(3), np.array(high, float)
        position, target = page._camera(low, high)
        ahead = (target - position) / np.linalg.norm(target - position)
        for corner in np.stack(np.meshgrid(*zip(low, high)), -1).reshape(-1, 3):
            ray = corner - position
            assert ray @ ahead > 0
            across = np.linalg.norm(ray - (ray @ ahead) * ahead) / (ray @ ahead)
            assert across < np.tan(page.FOV / 2) * np.hypot(1, page.ASPECT)


def test_a_page_is_served_and_stopped(fixed, capsys):
    server = page.serve(fixed, port=0, block=False)
    try:
        address = re.search(r"http://localhost:(\d+)", capsys.readouterr().out)
        assert urlopen(f"http://127.0.0.1:{address.group(1)}", timeout=10).status == 200
    finally:
        server.stop()


def test_shapes_have_the_extent_they_say():
    vertices, faces = shapes.capsule_mesh(0.1, 0.5)
    shape = {"kind": "capsule", "size": [0.1, 0.5], "position": [0, 0, 0], "quaternion": [1, 0, 0, 0]}
    np.testing.assert_allclose(np.abs(vertices).max(0), shapes.half_extents(shape), rtol=1e-12)
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    volume = (a * np.cross(b, c)).sum() / 6  # positive: the triangles face outwards
    assert volume == pytest.approx(np.pi * 0.01 * (0.5 + 4 / 3 * 0.1), rel=0.03)


# Contact surfaces.


class _Dome(un.contact.Surface):
    """A surface without a `drawing`: a ball of 0.3 m at (0.8, 0, 0)."""

    def distance(self, x):
        away = x - jnp.array([0.8, 0.0, 0.0])
        return jnp.sqrt((away * away).sum()) - 0.3


@pytest.fixture(scope="module")
def touched(floating):
    """A body that flies past all kinds of surfaces."""
    b = un.Builder("zoo")
    b.base("ball", role="free", mass=1.0, inertia=0.1)
    surfaces = dict(
        ground=un.contact.Plane(point=(0, 0, -0.1)),
        slope=un.contact.Plane(normal=(0.6, 0, 0.8), point=(0, 0, -1)),
        post=un.contact.Post((3.0, 4.0), 0.2),
        posts=un.contact.Posts([(3.0, 4.0), (1.0, 1.0)], [0.2, 0.3]),
        ball=un.contact.Sphere((3.0, 0, 0), 0.5),
        hills=un.contact.HeightField(lambda x, y: 0.1 * x - y * y - 2),
        dome=_Dome(),
        again=un.contact.Plane(point=(0, 0, -0.1)),
    )
    for name, surface in surfaces.items():
        b.add(un.contact.Contact(name, "ball", surface, radius=0.1))
    s = np.linspace(0, 1, floating.sizes["time"])[:, None, None]
    path = (1 - s) * np.array([1, 0, 0.8]) + s * np.array([1.5, 0, 0])
    data = floating.isel(body=slice(0, 1)).assign(body_position=(("time", "body", "axis"), path))
    shape = json.dumps([[{"kind": "sphere", "size": [0.1], "position": [0, 0, 0], "quaternion": [1, 0, 0, 0]}]])
    return data.assign_attrs(shapes=shape, parents="[-1]", surroundings=json.dumps(surroundings(b.build(), path)))


def test_surfaces_say_how_they_look(touched):
    found = json.loads(touched.attrs["surroundings"])
    assert [x["kind"] for x in found] == ["plane", "plane", "post", "post", "ball", "relief", "relief"]  # each once
    np.testing.assert_allclose(found[1]["normal"], [0.6, 0, 0.8])
    assert found[2] == {"kind": "post", "place": [3.0, 4.0], "radius": 0.2}
    hills, dome = found[5:]
    z = np.array(hills["z"], float)
    x, y = (np.linspace(*hills[k], len(z)) for k in "xy")
    np.testing.assert_allclose(z, 0.1 * x[:, None] - y**2 - 2, rtol=1e-4)
    assert x[0] < 0.9 and x[-1] > 1.6 and y[0] < -0.1 and y[-1] > 0.1  # around where the spheres were
    z = np.array(dome["z"], float)
    x, y = (np.linspace(*dome[k], len(z)) for k in "xy")
    square = 0.09 - (x[:, None] - 0.8) ** 2 - y**2
    there = np.isfinite(z)
    assert there.any() and (square[there] > -1e-9).all() and np.isnan(z[square < 0]).all()
    # between the sampled levels, the distance is interpolated linearly
    assert np.abs(z - np.sqrt(np.maximum(square, 0)))[square > 0.01].max() < 1e-3


def test_surroundings_are_drawn_where_they_are(touched, tmp_path):
    drawn = shapes.surroundings(touched)
    sheet, posts = drawn[0], [x for x in drawn if x["kind"] == "cylinder"]
    assert [x["kind"] for x in drawn] == ["box", "cylinder", "cylinder", "sphere", "relief", "relief"]  # no ground
    corners = shapes.in_body(sheet, shapes.SIGNS * shapes.half_extents(sheet))
    above = (corners - [0, 0, -1]) @ [0.6, 0, 0.8]
    np.testing.assert_allclose(
        np.sort(above), [-sheet["size"][2]] * 4 + [0] * 4, atol=1e-12
    )  # its upper side is the plane
    low, high = shapes.bounds(touched)
    assert all(p["position"][2] - p["size"][1] / 2 < low[2] + 1e-9 and p["size"][1] > (high - low)[2] for p in posts)
    vertices, faces = shapes.relief_mesh(drawn[-1])
    assert np.isfinite(vertices).all() and 0 < len(faces) < 2 * 48**2  # nothing is drawn beside the dome
    names = {
        m["name"] for _, m in _recording(page.write_html(touched, tmp_path / "run.html"))["messages"] if "name" in m
    }
    assert {f"/surroundings/{x['kind']}_{i}" for i, x in enumerate(drawn)} <= names


def test_outlines(touched):
    drawn = shapes.surroundings(touched)
    circle = shapes.outline(drawn[1], 0, 1)
    np.testing.assert_allclose(np.linalg.norm(circle - [3, 4], axis=1), 0.2, rtol=1e-9)
    assert np.ptp(shapes.outline(drawn[1], 0, 2)[:, 0]) == pytest.approx(0.4)
    np.testing.assert_allclose(np.ptp(shapes.outline(drawn[3], 1, 2), axis=0), 1.0, rtol=1e-2)  # a ball of 0.5 m
    edge = shapes.outline(drawn[0], 0, 2)
    assert np.abs(edge @ [0.6, 0.8] + 0.8).max() < 1.01 * drawn[0]["size"][2]
    assert (
        len(shapes.outline(drawn[0], 0, 1)) == len(shapes.outline(drawn[-1], 0, 1)) == 0
    )  # they would hide everything
    cut = shapes.outline(drawn[4], 0, 2)
    np.testing.assert_allclose(cut[:, 1], 0.1 * cut[:, 0] - 2, rtol=1e-4)
    with_them, without = (plots._path(x).axes[0] for x in (touched, touched.assign_attrs(surroundings="[]")))
    assert len(with_them.patches) == 6 and not without.patches
    assert with_them.get_xlim() == without.get_xlim()  # the robot fills the figure as before


def test_unknown_surroundings_are_refused(touched):
    with pytest.raises(un.UndulaError, match="cannot draw surroundings of the kind torus; the kinds are plane, post"):
        shapes.surroundings(touched.assign_attrs(surroundings=json.dumps([{"kind": "torus"}])))
    bare = touched.assign_attrs()
    del bare.attrs["surroundings"]  # a file of an older version
    assert shapes.surroundings(bare) == []


# Access to a page.


@pytest.fixture(scope="module")
def server(fixed):
    server = page.serve(fixed, port=0, block=False)
    yield server
    server.stop()


class TestGuard:
    def connect(self, server, origin, host="127.0.0.1", message=None):
        """The answer to a WebSocket: "open", or the status of the refusal."""
        import viser
        from websockets.exceptions import InvalidStatus
        from websockets.sync.client import connect

        port = server.get_port()
        origin = origin.format(port=port) if origin else None
        try:
            with connect(
                f"ws://{host}:{port}",
                sock=socket.create_connection(("127.0.0.1", port)),
                origin=origin,
                subprotocols=[f"viser-v{viser.__version__}"],
            ) as client:
                assert client.recv(timeout=20)
                if message is not None:
                    client.send(msgspec.msgpack.encode(message.as_serializable_dict([])))
                    client.ping().wait(20)  # the server has read all earlier messages
                return "open"
        except InvalidStatus as refusal:
            return refusal.response.status_code

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
    def test_the_page_itself_connects(self, server, host):
        assert self.connect(server, f"http://{host}:{{port}}", host) == "open"

    @pytest.mark.parametrize(
        "origin",
        [
            "http://evil.example",
            "http://localhost.evil.example:{port}",
            "http://localhost:1",  # another page on this machine
            "https://localhost:{port}",
            "null",
            None,
        ],
    )
    def test_other_pages_do_not(self, server, origin):
        assert self.connect(server, origin) == 403

    def test_names_that_others_made_lead_here_do_not(self, server):
        assert self.connect(server, "http://evil.example:{port}", "evil.example") == 403
        for host, status in (("evil.example", 403), ("127.0.0.1", 200), (f"localhost:{server.get_port()}", 200)):
            request = Request(f"http://127.0.0.1:{server.get_port()}", headers={"Host": host})
            try:
                assert urlopen(request, timeout=20).status == status
            except HTTPError as refusal:
                assert refusal.code == status

    def test_nobody_can_share_the_page(self, server, monkeypatch):
        from viser import _messages, _viser

        opened, asked = [], threading.Event()
        monkeypatch.setattr(_viser, "ViserTunnel", lambda *args: opened.append(args))
        server._websock_server.register_handler(_messages.ShareUrlRequest, lambda *_: asked.set())
        assert self.connect(server, "http://localhost:{port}", message=_messages.ShareUrlRequest()) == "open"
        assert asked.wait(20)
        server._thread_executor.submit(lambda: None).result(20)  # all work started by the message is done
        assert not opened and server._share_tunnel is None and server.request_share_url() is None

    def test_another_viser_is_refused_in_one_sentence(self, fixed, monkeypatch):
        import viser

        monkeypatch.setattr(viser, "__version__", "1.2.0")
        with pytest.raises(un.UndulaError, match=r"viser 1\.2\.0 is installed, .* install 'viser>=1\.1,<1\.2'\."):
            page.serve(fixed, port=0, block=False)
        monkeypatch.undo()
        monkeypatch.delattr(viser.ViserServer, "request_share_url")
        with pytest.raises(un.UndulaError, match="shares pages in an unknown way"):
            page.serve(fixed, port=0, block=False)

    def test_a_server_on_every_address_has_all_its_numbers(self):
        from websockets.datastructures import Headers

        for host, name, allowed in (
            ("0.0.0.0", "192.0.2.7", True),
            ("0.0.0.0", "evil.example", False),
            ("127.0.0.1", "192.0.2.7", False),
            ("192.0.2.7", "192.0.2.7", True),
        ):
            headers = Headers(Host=f"{name}:8080", Origin=f"http://{name}:8080", Upgrade="websocket")
            assert guard.is_allowed(headers, host) is allowed
        twice = Headers([("Host", "localhost"), ("Host", "evil.example")])
        assert not guard.is_allowed(twice, "127.0.0.1")
