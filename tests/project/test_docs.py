"""Every code block of the documentation runs, or says why it cannot; no link is dead; pages are current."""

import re

import pytest
from typer.testing import CliRunner

from destiny.cli import app
from tests.helpers import ROOT, doc_blocks

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
OPTIONAL = ("torch",)  # too large to ask for in every environment
COMMAND = re.compile(r"^\$? *(import|from|pip|mpiexec|srun|make|python|destiny [a-z]+) \S", re.MULTILINE)


def name(page):
    return str(page.relative_to(ROOT).with_suffix(""))


def run_by_tests(page):
    return any(block.runs for block in doc_blocks.blocks(page))


@pytest.mark.parametrize("page", list(filter(run_by_tests, PAGES)), ids=name)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        doc_blocks.run(page, tmp_path)
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        pytest.skip(f"the rest of {page.name} needs {error.name}, which is not installed here")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_is_not_run_says_why_or_is_no_code(page):
    text = page.read_text(encoding="utf-8")
    found = doc_blocks.blocks(page)
    assert 2 * len(found) == len(re.findall(r"^ *```", text, re.MULTILINE)), "a block that was not understood"
    for block in found:
        if block.title.startswith(doc_blocks.NOT_RUN):
            assert len(block.title) > len(doc_blocks.NOT_RUN) + 5, block.title
        elif not block.runs:
            assert not COMMAND.search(block.code), f"this is code, and must be run:\n{block.code}"


def test_the_file_of_the_documentation_is_accepted(tmp_path):
    import numpy as np

    from destiny.experiments import file

    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/experiment-files.md").read_text(), re.DOTALL)
    (tmp_path / "experiment.toml").write_text(text)
    np.save(tmp_path / "A.npy", np.random.default_rng(0).standard_normal((320, 30)))
    asked = file.read(tmp_path / "experiment.toml")
    assert (asked.problem.shape, asked.problem.agents, list(asked.algorithms)) == ((30, 10), 32, ["DESTINY"])


def test_the_dry_run_on_the_page_is_what_the_command_prints(tmp_path, monkeypatch):
    page = ROOT / "docs" / "howto" / "new.md"
    monkeypatch.chdir(tmp_path)
    doc_blocks.run(page, tmp_path)
    printed = CliRunner().invoke(app, ["run", "study.toml", "--dry"]).stdout
    (shown,) = [block.code for block in doc_blocks.blocks(page) if block.language == "text"]
    assert printed == shown


def test_extras_are_installed_from_a_checkout():
    """Until the package is on an index, its name there could be anybody's."""
    for path in [*PAGES, *(ROOT / "src").rglob("*.py"), *(ROOT / "deploy").iterdir()]:
        assert not re.search(r"pip install [^\n`]*destiny-stiefel", path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_page_of_methods_is_what_the_code_says():
    written = doc_blocks.script(ROOT / "docs" / "methods.py").page()
    assert (ROOT / "docs" / "methods.md").read_text() == written, "run python docs/methods.py"


def test_the_page_of_the_paper_s_experiments_is_what_the_runs_say():
    written = doc_blocks.script(ROOT / "docs" / "reproduction.py").page()
    assert (ROOT / "docs" / "reproduction.md").read_text() == written, "run python docs/reproduction.py"


def test_the_gallery_has_every_example_and_its_picture():
    gallery = doc_blocks.script(ROOT / "docs" / "gallery.py")
    page = ROOT / "docs" / "gallery.md"
    assert page.read_text() == gallery.page(), "run python docs/gallery.py"
    for example in (ROOT / "examples").glob("*.py"):
        assert f"examples/{example.name}" in page.read_text()
        assert f"]({gallery.picture(example)})" in page.read_text(), example.name
        assert (ROOT / "docs" / gallery.picture(example)).exists(), example.name


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "images").rglob("*.png")), ids=lambda p: p.name)
def test_pictures_are_small_and_used(picture):
    assert picture.stat().st_size < 80_000
    used = picture.relative_to(ROOT / "docs").as_posix()
    assert any(used in page.read_text(encoding="utf-8") for page in PAGES)
