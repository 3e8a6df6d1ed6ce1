"""Look for what a strict build lets pass: ``python docs/check_site.py SITE``.

Zensical refuses links between pages and to headings that lead nowhere. This looks at the built pages, so it also finds
missing pictures, links written in HTML, pages of the navigation that do not exist, and pages that are not in it.
"""

import html.parser
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]


class Page(html.parser.HTMLParser):
    """The addresses a page refers to, and the places in it that others may refer to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.places.add(value or "")
            elif name in ("href", "src") and value:
                self.links.append(value)


def dead_links(site: Path) -> Iterator[str]:
    """Every link of a page to a file, or to a place in a page, that does not exist."""
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    for path, page in pages.items():
        if path.name == "404.html":  # its addresses start at the root of a server
            continue
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            place = unquote(address.fragment)
            if not target.is_file():
                yield f"{path.relative_to(site.resolve())}: {link} does not exist"
            elif place and target in pages and place not in pages[target].places:
                yield f"{path.relative_to(site.resolve())}: {link} names no place in that page"


def pages_of(nav: object) -> Iterator[str]:
    """The pages of a navigation, or of a part of it."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for part in nav.values():
            yield from pages_of(part)
    elif isinstance(nav, list):
        for part in nav:
            yield from pages_of(part)


def navigation(root: Path) -> Iterator[str]:
    """Every page that the navigation names and that does not exist, or the other way round."""
    project = tomllib.loads((root / "zensical.toml").read_text(encoding="utf-8"))["project"]
    named = set(pages_of(project["nav"]))
    written = {path.relative_to(root / "docs").as_posix() for path in (root / "docs").rglob("*.md")}
    yield from (f"zensical.toml: there is no page docs/{page}" for page in sorted(named - written))
    yield from (f"zensical.toml: docs/{page} is not in the navigation" for page in sorted(written - named))


def main() -> None:
    """Print what is wrong, and end with 1 if anything is."""
    wrong = [*navigation(ROOT), *dead_links(Path(sys.argv[1]))]
    print("\n".join(wrong) or "no dead links")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
