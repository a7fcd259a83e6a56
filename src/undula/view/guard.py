"""A viser server that is closed to everyone but the user of this machine.

viser answers any web page: a site open in the user's browser could connect to the 3D page and control it, and a single
message from a client makes the page public through a tunnel. Neither can be switched off in viser 1.1, so this module relies on
viser's internals, and raises an error if they have changed. The host name in the request is checked, too, because a foreign
name can be made to resolve to this machine.
"""

import http
import io
import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any
from urllib.parse import urlsplit

from undula.core.errors import UndulaError

LOCAL = ("127.0.0.1", "localhost")
EVERYWHERE = "0.0.0.0"  # all addresses of this machine
WRITTEN_FOR = re.compile(r"1\.1(\.|$)")  # versions of viser

_patching = threading.Lock()  # the replacements below affect the whole process


def make_server(host: str, port: int) -> Any:
    """A viser server that answers only its own page, under a name of this machine, and is never shared."""
    viser = checked_viser()
    import websockets.asyncio.server as sockets

    original, guarded = sockets.serve, []

    def serve(*args: Any, process_request: Callable[..., Any] | None = None, **options: Any) -> Any:
        def answer(connection: Any, request: Any) -> Any:
            if not is_allowed(request.headers, host):
                return connection.respond(http.HTTPStatus.FORBIDDEN, "only pages of this machine are answered\n")
            return None if process_request is None else process_request(connection, request)

        guarded.append(answer)
        return original(*args, process_request=answer, **options)

    base: Any = viser.ViserServer

    class Private(base):
        def request_share_url(self, verbose: bool = True) -> None:
            """Does nothing: the page is never made public."""

    with _patching, _replaced(sockets, "serve", serve), silence():
        server = Private(host=host, port=port, verbose=False)
    if not guarded:
        stop_server(server)
        raise _unknown(f"viser {viser.__version__} does not listen by websockets.asyncio.server.serve")
    return server


def stop_server(server: Any) -> None:
    with _patching, silence():
        server.stop()


def checked_viser() -> Any:
    """The package viser, if it is a version whose internals are known."""
    try:
        import viser
        import viser._messages
    except ImportError as problem:
        raise UndulaError(f"the 3D page needs the package viser, which cannot be imported: {problem}.") from None
    if not WRITTEN_FOR.match(viser.__version__):
        raise _unknown(f"viser {viser.__version__} is installed")
    if not (hasattr(viser.ViserServer, "request_share_url") and hasattr(viser._messages, "ShareUrlRequest")):
        raise _unknown(f"viser {viser.__version__} shares pages in an unknown way")
    return viser


def is_allowed(headers: Any, host: str) -> bool:
    """Whether a request comes from the page itself: to a name of this machine and, for a WebSocket, from the same port."""
    hosts, origins = headers.get_all("Host"), headers.get_all("Origin")
    asked = _name_and_port(f"//{hosts[0]}") if len(hosts) == 1 else None
    if asked is None or not _is_ours(asked[0], host):
        return False
    if not origins and headers.get("Upgrade", "").lower() != "websocket":
        return True  # a browser that opens the page sends no origin
    page = _name_and_port(origins[0]) if len(origins) == 1 and origins[0].startswith("http://") else None
    return page is not None and _is_ours(page[0], host) and page[1] == asked[1]


def _name_and_port(address: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(address)
        return (parts.hostname or "", parts.port or 80)
    except ValueError:
        return None


def _is_ours(name: str, host: str) -> bool:
    """Whether others cannot make the name resolve to this machine; on all addresses, any IP address and the host's name."""
    if name in LOCAL or name == host:
        return True
    if host != EVERYWHERE:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == socket.gethostname().lower()
    return True


def _unknown(what: str) -> UndulaError:
    return UndulaError(
        f"the 3D page cannot be closed to other web sites: {what}, and undula knows viser 1.1; install 'viser>=1.1,<1.2'."
    )


@contextmanager
def silence() -> Iterator[None]:
    """Suppresses viser's banner on standard output and, where rich bypasses that, in notebooks."""
    import rich

    with _replaced(rich, "print", lambda *_, **__: None), redirect_stdout(io.StringIO()):
        yield


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)
