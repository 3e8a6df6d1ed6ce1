"""The server of `destiny serve`: on this machine only, read-only, standard library only.

Addresses never become paths: what is not in the list of jobs is not there. A request must name this machine
as its host, so that a page from elsewhere, whose name was made to point here, learns nothing.
"""

from __future__ import annotations

import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from string import Template
from urllib.parse import unquote, urlsplit

from destiny.errors import SettingsError
from destiny.report.html.markup import tag
from destiny.report.html.page import asset
from destiny.report.live import jobs as listing
from destiny.report.live.pages import LivePage, index_page, job_page, run_page

ADDRESS, PORT = "127.0.0.1", 8765
ASSETS = {
    "page.css": "text/css",
    "live.css": "text/css",
    "charts.js": "text/javascript",
    "page.js": "text/javascript",
    "live.js": "text/javascript",
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
TIMEOUT = 10.0  # seconds for a request to arrive
CACHED = 8  # pages kept


class Site:
    """What a folder looks like at this moment; pages are kept until a file changes."""

    def __init__(self, root: Path) -> None:
        self.root, self.search = root, listing.Search(root)
        self.pages: dict[str, tuple[str, LivePage]] = {}
        self.lock = threading.Lock()

    def page(self, address: str) -> tuple[str, LivePage] | None:
        """The page of an address, and a tag that changes with it; None if there is none."""
        with self.lock:  # one at a time: a page is made once, whoever asks for it
            found = self.search.jobs()
            kind, _, name = address.removeprefix("/").partition("/")
            name = unquote(name, errors="replace")
            if kind == "job":
                chosen = [job for job in found if job.key == name]
            elif kind == "agents":
                chosen = [job for job in found if job.agent and job.run == name]
            else:
                chosen = found
            if address != "/" and not (kind in ("job", "agents") and chosen):
                return None
            mark = listing.fingerprint([job.path for job in chosen])
            if address not in self.pages or self.pages[address][0] != mark:
                while len(self.pages) >= CACHED:
                    self.pages.pop(next(iter(self.pages)))
                self.pages[address] = (mark, self.make(kind, name, chosen))
            return self.pages[address]

    def make(self, kind: str, name: str, chosen: list[listing.Job]) -> LivePage:
        if kind == "job":
            return job_page(chosen[0])
        return run_page(name, chosen) if kind == "agents" else index_page(self.root, chosen)


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD; everything else is refused."""

    site: Site
    server_version, sys_version = "destiny", ""
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT

    def do_GET(self) -> None:
        if not self.is_local():
            self.answer(HTTPStatus.FORBIDDEN, "text/plain", b"ask for localhost\n")
            return
        parts = urlsplit(self.path)
        kind, _, name = parts.path.removeprefix("/").partition("/")
        if kind == "assets" and name in ASSETS:
            self.answer(HTTPStatus.OK, ASSETS[name], asset(name).encode())
            return
        found = self.site.page(parts.path)
        if found is None:
            self.answer(HTTPStatus.NOT_FOUND, "text/plain", b"there is nothing here; / lists what there is\n")
            return
        mark, page = found
        if parts.query != "json":
            self.answer(HTTPStatus.OK, "text/html", document(page, mark).encode())
        elif self.headers.get("If-None-Match") == f'"{mark}"':
            self.answer(HTTPStatus.NOT_MODIFIED, "application/json", b"", mark)
        else:
            content = {"title": page.title, "body": page.body, "data": json.loads(page.data)}
            self.answer(HTTPStatus.OK, "application/json", json.dumps(content).encode(), mark)

    def refuse(self) -> None:
        """Refuse what would change something."""
        self.close_connection = True  # what the request brings is not read
        self.answer(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"this can only be looked at\n")

    do_HEAD = do_GET
    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = refuse

    def is_local(self) -> bool:
        """Whether the request names this machine and this port as its host."""
        assert isinstance(self.server, Server)
        port = self.server.server_port
        return self.headers.get("Host") in (f"{ADDRESS}:{port}", f"localhost:{port}")

    def answer(self, code: HTTPStatus, kind: str, body: bytes, mark: str | None = None) -> None:
        """Send a response with the headers that every one has."""
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if mark is not None:
            self.send_header("ETag", f'"{mark}"')
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: who looks at results is nobody's business."""


class Server(ThreadingHTTPServer):
    """One thread for each request; they end with the program."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a browser that goes away is no error, and a page that fails is logged by its reader."""


def document(page: LivePage, mark: str) -> str:
    """The whole page."""
    template = (files("destiny.report") / "assets" / "live.html").read_text(encoding="utf-8")
    title = tag("title", f"{page.title} | DESTINY")
    return Template(template).substitute(title=title, body=page.body, data=page.data, mark=mark)


def open_server(root: str | Path, port: int = PORT) -> Server:
    """A server of a folder, on this machine only; call ``serve_forever``, and ``server_close`` in the end."""
    root = Path(root)
    if not root.is_dir():
        raise SettingsError(f"serve needs a folder; found {'a file' if root.exists() else 'none'}: {root}")
    handler = type("FolderHandler", (Handler,), {"site": Site(root)})
    try:
        return Server((ADDRESS, port), handler)
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SettingsError(f"--port {port} cannot be used: {why}; choose another, 0 for any") from error
