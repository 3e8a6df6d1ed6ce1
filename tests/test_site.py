"""The site builds without a warning, documents every public name and loads nothing from elsewhere."""

import html.parser
import importlib
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import destiny

ROOT = Path(__file__).parents[1]
PUBLIC = [
    destiny,
    *(part for name in destiny.__all__ if isinstance(part := getattr(destiny, name), type(destiny))),
    *(
        importlib.import_module(f"destiny.{name}")
        for name in ("agents", "diagnosis", "errors", "estimators", "protocols", "report")
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def documented(site):
    """Every name of the API reference, from the inventory that other projects link by."""
    *_, packed = (site / "objects.inv").read_bytes().split(b"\n", 4)
    return {line.split()[0] for line in zlib.decompress(packed).decode().splitlines()}


def own(module):
    """The public names of a module: those it lists, or those it defines."""
    defined = [
        n for n, v in vars(module).items() if n[0] != "_" and getattr(v, "__module__", "") == module.__name__
    ]
    return getattr(module, "__all__", defined)


def test_every_public_name_is_in_the_reference(site):
    known = documented(site)
    by_hand = (ROOT / "docs/api/engines.md").read_text()  # functions in the shadow of a module of their name
    names = [f"{module.__name__}.{name}" for module in PUBLIC for name in own(module)]
    missing = [n for n in names if not {n, f"{n}.{n.split('.')[-1]}"} & known and f"`{n}(" not in by_hand]
    assert not missing
    assert len(names) > 150


class Loaded(html.parser.HTMLParser):
    """What a page makes a browser fetch by itself."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        assert re.fullmatch("[a-z][a-z0-9-]*", tag), f"<{tag} ...> was meant as text"
        attrs = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed"):
            self.found.append(attrs.get("src"))
        if tag == "link" and attrs.get("rel") != "canonical":
            self.found.append(attrs.get("href"))


def test_nothing_is_loaded_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert loaded.found, page
        for address in filter(None, loaded.found):
            assert "//" not in address, f"{page.name} loads {address}"
            if page.name != "404.html":  # its addresses start at the site's root
                assert (page.parent / address.split("?")[0].split("#")[0]).exists(), f"{page.name}: {address}"
    for sheet in site.rglob("*.css"):
        assert "url(http" not in sheet.read_text(encoding="utf-8"), sheet.name


def test_pages_can_be_opened_from_disk(site):
    """A link names the file and not its folder, which only a server would make sense of."""
    home = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="quickstart.html"' in home
    assert 'href="howto/index.html"' in home
