"""Read-only views of a running agent: a table for a terminal, a small page, Prometheus metrics."""

from __future__ import annotations

import asyncio
import html
import math
import socket
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from destiny.agents.event_log import EventLog
from destiny.agents.observation import View
from destiny.agents.transport.neighbor import Neighbor
from destiny.agents.transport.tls import Credentials
from destiny.errors import SettingsError

if TYPE_CHECKING:
    from rich.table import Table

MAX_REQUEST = 4096  # bytes; a browser's requests are shorter
REQUEST_TIMEOUT = 5.0  # seconds
COLUMNS = ("neighbor", "state", "last round", "received", "sent", "received a second", "connections")


def headline(view: View) -> str:
    """Phase, step, rate and residual of the run, in one line."""
    view.refresh()
    s = view.settings
    members = "" if view.members is None else f"; members: {', '.join(map(str, view.members)) or 'none'}"
    return (
        f"{s.name}, run {s.run}: {view.phase}; step {view.step}, {view.rate:.1f} rounds a second, "
        f"residual {view.residual:.1e}, feasibility {view.feasibility:.1e}{members}"
    )


def rows(view: View) -> list[tuple[str, ...]]:
    """A row for each neighbor, with the columns `COLUMNS`."""
    return [
        (
            n.name,
            state(n),
            "-" if (last := last_round(n)) is None else str(last),
            f"{n.bytes_in / 1e6:.2f} MB",
            f"{n.bytes_out / 1e6:.2f} MB",
            f"{view.rates.get(n.name, 0.0) / 1e6:.2f} MB",
            str(n.connection_count),
        )
        for n in view.connections.neighbors
    ]


def last_round(n: Neighbor) -> int | None:
    """The last round that has come from a neighbor, or the number of its messages if there are no rounds."""
    return n.heard or (n.next_in - 1 if n.next_in else None)


def state(n: Neighbor) -> str:
    """The state of a neighbor, in a few words."""
    if n.done:
        return "done"
    if not n.takes_part:
        return "has left" if n.standing == "left" else "has not come yet"
    return "connected" if n.connection is not None else n.trouble


class Terminal:
    """A live table on standard error."""

    def __init__(self, view: View) -> None:
        from rich.console import Console
        from rich.live import Live

        self.view = view
        self.live = Live(self.table(), console=Console(stderr=True), auto_refresh=False, transient=True)
        self.live.start()

    def __call__(self) -> None:
        """Draw the table anew; called several times a second."""
        self.live.update(self.table(), refresh=True)

    def table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(*COLUMNS, title=Text(headline(self.view)), title_justify="left")
        for row in rows(self.view):
            table.add_row(
                *map(Text, row)
            )  # a Text: rich interprets markup in strings, and peers may send some
        return table

    @staticmethod
    def is_available() -> bool:
        """Whether standard error is a terminal."""
        return sys.stderr.isatty()


def metrics(view: View) -> str:
    """Metrics in Prometheus' text format."""
    view.refresh()
    label = f'agent="{_escaped(view.settings.name)}",run="{_escaped(view.settings.run)}"'
    lines: list[str] = []
    for name, value, about in (
        ("step", view.step, "Steps taken"),
        ("round", view.round, "Rounds of communication"),
        ("rounds_per_second", view.rate, "Rounds a second, lately"),
        ("residual", view.residual, "Local residual"),
        ("feasibility", view.feasibility, "Norm of X^T X - I"),
        (
            "members",
            view.settings.agents if view.members is None else len(view.members),
            "Agents taking part",
        ),
    ):
        lines += [f"# HELP destiny_{name} {about}.", f"# TYPE destiny_{name} gauge"]
        lines.append(f"destiny_{name}{{{label}}} {_number(value)}")
    lines += [
        "# HELP destiny_days_left Days until a file of [tls] expires.",
        "# TYPE destiny_days_left gauge",
    ]
    lines += [
        f'destiny_days_left{{{label},file="{name}"}} {_number(days)}'
        for name, days in view.connections.tls.days_left(time.time()).items()
        if math.isfinite(days)
    ]
    for name, kind, about, of in (
        ("connected", "gauge", "Whether there is a connection", lambda n: int(n.connection is not None)),
        ("received_bytes_total", "counter", "Bytes received", lambda n: n.bytes_in),
        ("sent_bytes_total", "counter", "Bytes sent", lambda n: n.bytes_out),
        ("connections_total", "counter", "Connections made", lambda n: n.connection_count),
    ):
        lines += [f"# HELP destiny_neighbor_{name} {about}.", f"# TYPE destiny_neighbor_{name} {kind}"]
        lines += [
            f'destiny_neighbor_{name}{{{label},neighbor="{_escaped(n.name)}"}} {of(n)}'
            for n in view.connections.neighbors
        ]
    return "\n".join(lines) + "\n"


def page(view: View) -> str:
    """An HTML page that reloads itself."""
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows(view)
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=2>"
        f"<title>{html.escape(view.settings.name)}</title>"
        "<style>body{font:16px sans-serif;margin:2em}td,th{padding:.3em 1em;text-align:left}</style>"
        f"<h1>{html.escape(view.settings.name)}</h1><p>{html.escape(headline(view))}</p>"
        f"<table><tr>{head}</tr>{body}</table><p>{html.escape(days_left(view.connections.tls))}</p><h2>Events</h2><ul>{events(view.event_log)}</ul></html>"
    )


def days_left(credentials: Credentials) -> str:
    """When the files of [tls] expire, in one line."""
    remaining = {
        name: days for name, days in credentials.days_left(time.time()).items() if math.isfinite(days)
    }
    return "; ".join(
        f"{name} expires in {days:.1f} days" if days > 0 else f"{name} has expired"
        for name, days in remaining.items()
    )


def events(event_log: EventLog) -> str:
    """The latest events as HTML list items, newest first."""
    lines = []
    for e in reversed(event_log.recent):
        about = " ".join(str(e[key]) for key in ("time", "event", "peer") if key in e)
        lines.append(f"<li>{html.escape(': '.join([about, str(e['why'])] if 'why' in e else [about]))}</li>")
    return "".join(lines)


def serve(port: int) -> Callable[[View], Callable[[], None]]:
    """A watcher that serves page and metrics on the loopback address."""

    def start(view: View) -> Callable[[], None]:
        try:
            listener = socket.create_server(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            why = (isinstance(error, OSError) and error.strerror) or error
            raise SettingsError(f"--status {port} cannot be used: {why}") from error
        view.connections.spawn(_serving(view, listener))
        return lambda: None

    return start


async def _serving(view: View, listener: socket.socket) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                request = await reader.readuntil(b"\r\n\r\n")
            writer.write(respond(view, request))
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    try:
        async with await asyncio.start_server(answer, sock=listener, limit=MAX_REQUEST) as server:
            await server.serve_forever()
    except Exception as error:  # the run goes on without a page
        view.connections.on_view_error(error)


def respond(view: View, request: bytes) -> bytes:
    """The response to a request; anything but GET from localhost is rejected."""
    first, *headers = request.decode("latin-1").split("\r\n")
    method, _, path = first.partition(" ")
    path = path.partition(" ")[0]
    host = next((h.partition(":")[2].strip() for h in headers if h.lower().startswith("host:")), "localhost")
    if host.partition(":")[0] not in (
        "127.0.0.1",
        "localhost",
    ):  # a page elsewhere must not read this one
        return _response("403 Forbidden", "text/plain", "ask for localhost\n")
    if method != "GET":
        return _response("405 Method Not Allowed", "text/plain", "this can only be looked at\n")
    if path == "/":
        return _response("200 OK", "text/html; charset=utf-8", page(view))
    if path == "/metrics":
        return _response("200 OK", "text/plain; version=0.0.4; charset=utf-8", metrics(view))
    return _response("404 Not Found", "text/plain", "there is / and /metrics\n")


def _response(code: str, kind: str, text: str) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(float(value))
