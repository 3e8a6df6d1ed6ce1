"""The site builds without a warning, documents every public name and loads nothing from elsewhere."""

import html.parser
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import zlib

import pytest

import destiny
from tests.helpers import ROOT
from tests.helpers.doc_blocks import script

PUBLIC = [
    destiny,
    *(part for name in destiny.__all__ if isinstance(part := getattr(destiny, name), type(destiny))),
    *(
        importlib.import_module(f"destiny.{name}")
        for name in ("agents", "diagnosis", "errors", "estimators", "protocols", "report")
    ),
]


TEXTS = ("ARCHITECTURE.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md")
PROJECT = ("zensical.toml", "benchopt_stiefel", "docs", "examples", "src", *TEXTS)


def build(folder):
    """Build the project in a folder, as ``make docs`` does; what comes out is in ``site`` there."""
    subprocess.run([sys.executable, folder / "docs" / "math_font.py"], check=True)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    path = os.pathsep.join([str(folder / "docs"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")  # Zensical writes only into the folder of its configuration
    for name in PROJECT:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


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


@pytest.fixture(scope="module")
def check():
    return script(ROOT / "docs" / "check_site.py")


def test_no_link_is_dead_and_every_page_is_in_the_navigation(site, check):
    assert not list(check.dead_links(site))
    assert not list(check.navigation(ROOT))


def test_dead_links_are_seen(tmp_path, check):
    (tmp_path / "b.html").write_text('<h2 id="here">b</h2>')
    links = ["b.html", "b.html#here", "b.html#there", "c.html", "#nowhere", "https://example.org/x"]
    body = "".join(f'<a href="{link}">x</a>' for link in links)
    (tmp_path / "a.html").write_text(f'{body}<img src="no.png">')
    found = [line.split()[1] for line in check.dead_links(tmp_path)]
    assert found == ["b.html#there", "c.html", "#nowhere", "no.png"]


def test_pages_missing_in_the_navigation_or_on_disk_are_seen(tmp_path, check):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "alone.md").write_text("# Alone")
    nav = '[project]\nnav = [{ "A" = "gone.md" }, { "B" = [{ "C" = "deep/gone.md" }] }]\n'
    (tmp_path / "zensical.toml").write_text(nav)
    found = [line.split("docs/")[1].split()[0] for line in check.navigation(tmp_path)]
    assert found == ["deep/gone.md", "gone.md", "alone.md"]


def test_formulas_are_mathematics(site):
    page = (site / "method.html").read_text(encoding="utf-8")
    assert page.count("<math ") > 10
    assert (site / "assets" / "math.woff").stat().st_size < 400_000
    for path in site.rglob("*.html"):
        text = re.sub(
            r"<(pre|code|script|style)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL
        )
        assert not re.search(r"\$[^$<]*[\\_^][^$<]*\$", text), f"a formula of {path.name} was not understood"


def test_readers_see_nothing_that_is_for_the_tests(site):
    for path in site.rglob("*.html"):
        assert not re.search(r"filename[^>]*>not run", path.read_text(encoding="utf-8")), path.name


def test_every_picture_says_what_it_shows(site):
    for path in site.rglob("*.html"):
        pictures = re.findall(r"<img\b[^>]*>", path.read_text(encoding="utf-8"))
        assert not [p for p in pictures if not re.search(r'alt="[^"]+"', p)], path.name


def test_the_active_entry_of_the_sidebar_can_be_read():
    """WCAG 2.2: a contrast of 4.5 to its background, which is white with a little of the same color."""
    css = (ROOT / "docs" / "assets" / "site.css").read_text()
    color, share = re.search(r"--md-accent-fg-color--transparent: #(\w{6})(\w\w);", css).groups()
    assert f"--md-accent-fg-color: #{color};" in css

    def luminance(channels):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    text = [int(color[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    behind = [1 - (1 - c) * int(share, 16) / 255 for c in text]
    assert (luminance(behind) + 0.05) / (luminance(text) + 0.05) >= 4.5


def test_parameters_of_solve_are_described_one_by_one():
    doc = inspect.getdoc(destiny.solve)
    for name in inspect.signature(destiny.solve).parameters:
        assert re.search(rf"^{name} : \S", doc, re.MULTILINE), name


def test_parameters_described_together_have_types_of_their_own(site):
    page = re.sub("<[^>]+>|\\s+", "", (site / "api" / "solving.html").read_text(encoding="utf-8"))
    assert "network(Topology)" in page
    assert "seed(int,default:0)" in page


def test_a_formula_with_a_slip_is_refused():
    module = script(ROOT / "docs" / "site_markdown.py")
    assert "<msup>" in module.mathml("X^2")
    with pytest.raises(ValueError, match=r"\\nosuch"):
        module.mathml(r"\nosuch x")
    with pytest.raises(ValueError, match="aligned"):
        module.mathml(r"\begin{aligned} a &= b \end{aligned}")
