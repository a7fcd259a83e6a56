"""3D pages of a run: a self-contained animated file, or a server with controls."""

import html
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from undula.core.errors import UndulaError, a_dataset, a_path, real
from undula.record.netcdf import replacing
from undula.view import shapes
from undula.view.checked import check_poses
from undula.view.guard import make_server, stop_server

MOST_FRAMES = 400  # a few hundred kilobytes for a robot of ten bodies
FOV = 0.7  # vertical field of view of the camera [rad]
ASPECT = 1.4  # aspect ratio of the window for which the camera is set; wider windows show more
PLAIN = (0.52, 0.58, 0.66)  # colour of bodies that have none
LINK = (0.38, 0.42, 0.47)
TRAIL = (0.84, 0.37, 0.0)
AROUND = (0.80, 0.76, 0.69)  # colour of the surroundings
SPEEDS = ("0.1", "0.25", "0.5", "1", "2", "4")


def write_html(
    data: xr.Dataset,
    path: str | os.PathLike,
    fps: float = 30.0,
    speed: float = 1.0,
    most_frames: int = MOST_FRAMES,
) -> Path:
    """Writes a 3D animation of a run into one HTML file, which needs no network, and returns its path.

    **Arguments:**

    - `fps`: frames per second, fewer if the animation would have more than `most_frames`; poses between samples
      are interpolated.
    - `speed`: simulated seconds per second; 1 is real time.
    """
    for name, value in (("fps", fps), ("speed", speed), ("most_frames", most_frames)):
        real(value, name, above=0.0)
    a_path(path, "path")
    check_poses(a_dataset(data, "data"))
    times = shapes.frame_times(data, fps / speed, int(most_frames))
    position, quaternion = shapes.resample(data, times)
    with replacing(path) as part:
        server = _server(port=0)
        try:
            scene = _Scene(server, data)
            recorder = server.get_scene_serializer()
            with server.atomic():  # otherwise each message would wake the server's thread
                for k in range(len(times)):
                    scene.show(position[k], quaternion[k])
                    if len(times) > 1:  # the recording of a single instant is a still: it has no duration
                        recorder.insert_sleep(float(times[1] - times[0]) / speed)
            page = recorder.as_html()
        finally:
            stop_server(server)
        part.write_text(_captioned(page, data, speed), encoding="utf-8")
    return Path(path)


def serve(data: xr.Dataset, port: int = 8080, block: bool = True, host: str = "127.0.0.1") -> Any:
    """Shows a run in the browser, with play and pause, speed, a time slider and a camera button.

    It prints the address, with another port if `port` is taken. With `block` it returns at Ctrl-C; otherwise it
    returns the viser server at once, and `.stop()` ends it. Only the page itself is answered, under a name of this machine:
    web sites open in the same browser are refused, and so is sharing the page through viser.
    """
    if not 0 <= port <= 65535:
        raise UndulaError(f"port = {port} is not allowed; it must be a whole number from 0 to 65535.")
    check_poses(data)
    if not data.sizes["time"]:
        raise UndulaError("the run has no samples, so there is nothing to draw.")
    server = _server(port, host)
    blocking = True
    try:
        player = _Player(server, data)
        shown = "localhost" if host in ("127.0.0.1", "0.0.0.0") else host
        print(f"3D page: http://{shown}:{server.get_port()}", flush=True)
        if not block:
            blocking = False
            player.run_beside()
            return server
        print("Ctrl-C ends it.", flush=True)
        player.run()
    except KeyboardInterrupt:
        pass
    finally:
        if blocking:
            stop_server(server)
    return None


class _Scene:
    """The nodes of a run in a viser scene: one frame per body, which contains its shapes and links."""

    def __init__(self, server: Any, data: xr.Dataset):
        self.server = server
        self.low, self.high = shapes.bounds(data)
        position, quaternion = (data[f"body_{x}"].values[0] for x in ("position", "quaternion"))
        self.size = float((self.high - self.low).max()) or 1.0
        self.parents = shapes.body_parents(data)
        self.marker = _marker_radius(data["body_position"].values, self.parents, self.size)
        self.names = [f"/bodies/{str(name).replace('/', '∕')}" for name in data["body"].values]  # / means a child
        self.frames = [
            server.scene.add_frame(name, show_axes=False, position=_short(p), wxyz=_short(q))
            for name, p, q in zip(self.names, position, quaternion)
        ]
        self.links: dict[int, Any] = {}
        self.offsets: dict[int, np.ndarray] = {}  # of the links' ends from the parents, as drawn [m]
        for k, (name, drawn) in enumerate(zip(self.names, shapes.body_shapes(data))):
            for i, shape in enumerate(drawn):
                _add_shape(server.scene, f"{name}/{shape['kind']}_{i}", shape)
            if not drawn:
                self._add_marker(k)
        self._add_trail(data)
        self._add_surroundings(data)
        self._add_ground()
        self.camera, self.target = _camera(self.low, self.high)
        self._set_camera()
        self.show(position, quaternion)

    def show(self, position: np.ndarray, quaternion: np.ndarray) -> None:
        """Moves the bodies to positions [m] and quaternions. viser sends only what has changed."""
        for frame, p, q in zip(self.frames, position, quaternion):
            frame.position, frame.wxyz = _short(p), _short(q)
        for k, link in self.links.items():
            p = self.parents[k]
            offset = shapes.rotate(shapes.inverse(quaternion[p]), position[k] - position[p])
            if np.abs(offset - self.offsets.get(k, np.inf)).max() > 1e-6 * self.size:  # constant for most joints
                self.offsets[k] = offset
                link.position, link.wxyz = _short(offset / 2), _short(_turn_to(offset))
                link.scale = (1.0, 1.0, max(float(np.linalg.norm(offset)), 1e-6 * self.size))

    def _add_marker(self, k: int) -> None:
        """A body without shapes: axes for the base; for others, a ball and a rod to the parent."""
        scene, r = self.server.scene, self.marker
        if self.parents[k] < 0:
            scene.add_frame(f"{self.names[k]}/axes", axes_length=4 * r, axes_radius=0.4 * r)
            return
        scene.add_icosphere(f"{self.names[k]}/ball", radius=r, color=PLAIN)
        rod = f"{self.names[self.parents[k]]}/rod_{k}"
        self.links[k] = scene.add_cylinder(rod, radius=0.5 * r, height=1.0, color=LINK)

    def _add_trail(self, data: xr.Dataset) -> None:
        """The path of the base, if it moves."""
        path = data["base_position"].values
        if len(path) < 2 or not shapes.moving(path, self.size).any():
            return
        path = path[np.linspace(0, len(path) - 1, min(len(path), MOST_FRAMES)).astype(int)].astype(np.float32)
        segments = np.stack([path[:-1], path[1:]], 1)
        self.server.scene.add_line_segments("/trail", segments, TRAIL, thickness=2.0, thickness_units="screen")

    def _add_surroundings(self, data: xr.Dataset) -> None:
        """The surfaces that the bodies could touch."""
        self.bottom = float(self.low[2])
        for i, shape in enumerate(shapes.surroundings(data)):
            name = f"/surroundings/{shape['kind']}_{i}"
            if shape["kind"] == "relief":
                vertices, faces = shapes.relief_mesh(shape)
                self.server.scene.add_mesh_simple(name, vertices.astype(np.float32), faces, color=AROUND, side="double")
            else:
                _add_shape(self.server.scene, name, shape | {"colour": AROUND})
                vertices = shapes.in_body(shape, shapes.SIGNS * shapes.half_extents(shape))
            self.bottom = min(self.bottom, float(vertices[:, 2].min()))

    def _add_ground(self) -> None:
        """A grid just below everything, on round coordinates."""
        cell = 10.0 ** float(np.floor(np.log10(self.size / 4)))
        cell *= 5 if self.size / cell > 25 else 2 if self.size / cell > 10 else 1
        centre = np.round((self.low + self.high) / 2 / (5 * cell)) * 5 * cell
        self.server.scene.add_grid(
            "/ground",
            infinite_grid=True,
            fade_distance=8 * self.size,
            fade_strength=1.5,
            cell_size=cell,
            section_size=5 * cell,
            cell_color=(196, 202, 210),
            section_color=(140, 150, 162),
            plane_color=(243, 245, 248),
            plane_opacity=1.0,
            shadow_opacity=0.25,
            position=(float(centre[0]), float(centre[1]), self.bottom - 0.004 * self.size),
        )

    def _set_camera(self) -> None:
        camera = self.server.initial_camera
        camera.position, camera.look_at, camera.fov = self.camera, self.target, FOV
        camera.near, camera.far = 0.002 * self.size, 200 * self.size


class _Player:
    """Controls of a served page, and the loop that moves the bodies."""

    def __init__(self, server: Any, data: xr.Dataset):
        self.server, self.data = server, data
        self.scene = _Scene(server, data)
        self.first, self.last = float(data["time"].values[0]), float(data["time"].values[-1])
        duration = max(self.last - self.first, 1e-9)
        gui = server.gui
        gui.set_panel_label("undula")
        gui.add_markdown(f"**{data.attrs.get('scenario', 'run')}**  \n{data.attrs.get('class', '')}")
        self.button = gui.add_button("Pause", icon="player-pause")
        self.slider = gui.add_slider("time [s]", self.first, self.first + duration, duration / 1000, self.first)
        self.speed = gui.add_dropdown("speed", SPEEDS, initial_value="1")
        self.playing, self.alive = self.last > self.first, True
        self.button.on_click(lambda _: self._toggle())
        gui.add_button("Reset camera", icon="camera").on_click(lambda _: self._reset_camera())

    def run(self) -> None:
        """Plays in a loop, in real time, until the server stops."""
        t, last = self.slider.value, time.perf_counter()
        while self.alive:
            now = time.perf_counter()
            if abs(self.slider.value - t) > 1e-12:  # the user moved it
                t = self.slider.value
            elif self.playing:
                t += (now - last) * float(self.speed.value)
                t = t if t <= self.last else self.first
                self.slider.value = t
            last = now
            position, quaternion = shapes.resample(self.data, np.array([t]))
            with self.server.atomic():
                self.scene.show(position[0], quaternion[0])
            time.sleep(1 / 40)

    def run_beside(self) -> None:
        """Plays in a thread; stopping the server first ends the loop, which would otherwise write to a closed server."""
        thread = threading.Thread(target=self.run, daemon=True)
        server, stop = self.server, self.server.stop

        def ending() -> None:
            self.alive = False
            thread.join(timeout=2.0)
            server.stop = stop
            stop_server(server)

        server.stop = ending
        thread.start()

    def _toggle(self) -> None:
        self.playing = not self.playing
        self.button.label = "Pause" if self.playing else "Play"
        self.button.icon = "player-pause" if self.playing else "player-play"

    def _reset_camera(self) -> None:
        for client in self.server.get_clients().values():
            client.camera.up_direction = (0.0, 0.0, 1.0)
            client.camera.position, client.camera.look_at = self.scene.camera, self.scene.target


def _add_shape(scene: Any, name: str, shape: dict[str, Any]) -> None:
    size, colour = [float(x) for x in shape["size"]], tuple(shape.get("colour") or PLAIN)
    pose = {"position": tuple(shape["position"]), "wxyz": tuple(shape["quaternion"]), "color": colour}
    match shape["kind"]:
        case "box":
            scene.add_box(name, dimensions=tuple(size), **pose)
        case "cylinder":
            scene.add_cylinder(name, radius=size[0], height=size[1], **pose)
        case "sphere":
            scene.add_icosphere(name, radius=size[0], subdivisions=4, **pose)
        case "ellipsoid":
            scene.add_icosphere(name, radius=1.0, subdivisions=4, scale=tuple(size), **pose)
        case _:
            radius, length = size
            vertices, faces = shapes.capsule_mesh(radius, length)
            scene.add_mesh_simple(name, vertices.astype(np.float32), faces, **pose)


def _marker_radius(position: np.ndarray, parents: list[int], size: float) -> float:
    """Radius [m] of the balls: it scales with the robot and its links, not with the length of its path."""
    robot = float(np.ptp(position, axis=1).max())
    lengths = [np.linalg.norm(position[0, k] - position[0, p]) for k, p in enumerate(parents) if p >= 0]
    links = [x for x in lengths if x > 1e-3 * robot]
    if not links:
        return 0.02 * size
    return float(min(0.025 * robot, 0.2 * np.median(links)))


def _camera(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(position, target) [m] of a camera that sees the whole box, looking across the plane of a flat motion."""
    extent = np.maximum(high - low, 1e-6 * max(float((high - low).max()), 1e-6))
    flat = extent < 0.25 * extent.max()
    if flat[2]:
        back = np.array([0.25, -0.75, 1.0])
    elif flat[1] and not flat[0]:
        back = np.array([0.3, -1.0, 0.25])
    elif flat[0] and not flat[1]:
        back = np.array([1.0, -0.3, 0.25])
    else:
        back = np.array([0.6, -1.0, 0.5])
    back /= np.linalg.norm(back)
    right = np.cross([0, 0, 1], back)
    right /= np.linalg.norm(right)
    corners = (np.stack(np.meshgrid(*[[-0.5, 0.5]] * 3), -1).reshape(-1, 3)) * extent
    tangent = 0.88 * np.tan(FOV / 2)  # 0.88: a margin around the box
    across = np.abs(corners @ right) / (tangent * ASPECT) + corners @ back
    along = np.abs(corners @ np.cross(back, right)) / tangent + corners @ back
    target = (low + high) / 2
    return target + max(across.max(), along.max()) * back, target


def _turn_to(vector: np.ndarray) -> np.ndarray:
    """Quaternion that turns z into the direction of a vector."""
    length = float(np.linalg.norm(vector))
    if length < 1e-12:
        return np.array([1.0, 0, 0, 0])
    x, y, z = vector / length
    if z < -1 + 1e-9:
        return np.array([0.0, 1, 0, 0])
    q = np.array([1 + z, -y, x, 0])
    return q / np.linalg.norm(q)


def _short(x: np.ndarray) -> tuple[float, ...]:
    """Single precision is sufficient for drawing, and the zeros that it leaves in a double compress well."""
    return tuple(float(v) for v in np.asarray(x, np.float32))


def _server(port: int, host: str = "127.0.0.1") -> Any:
    try:
        with socket.socket() as probe:  # viser would try port after port on a foreign address
            probe.bind((host, 0))
    except OSError as problem:
        raise UndulaError(f"cannot open a port on host = {host} for the 3D page: {problem.strerror}.") from None
    return make_server(host, port)


def _captioned(page: str, data: xr.Dataset, speed: float) -> str:
    """The page with the scenario's name as its title and in a corner."""
    name = html.escape(str(data.attrs.get("scenario", "run")))
    note = html.escape(str(data.attrs.get("class", "")))
    pace = "" if speed == 1 else f" &middot; speed &times; {speed:g}"
    style = "position:fixed;top:14px;left:18px;z-index:5;pointer-events:none;"
    style += "font:13px/1.4 system-ui,sans-serif;color:#556"
    caption = f'<div style="{style}"><b style="font-size:16px;color:#223">{name}</b>{pace}<br>{note}</div>'
    page = page.replace("<title>Viser</title>", f"<title>{name}</title>", 1)
    end = page.rindex("</body>")
    return page[:end] + caption + page[end:]
