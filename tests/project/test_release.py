"""One version everywhere, workflows that run what the Makefile has, and tools of one version."""

import re
import shutil
import subprocess
import tomllib

import pytest

import destiny
from tests.helpers import ROOT
from tools import release

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.fixture
def tree(tmp_path):
    """The files that name the version, as they are."""
    for name in (*release.COPIES, release.VERSION, "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def replace(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def set_version(tree, version):
    for name in (*release.COPIES, release.VERSION):
        replace(tree / name, destiny.__version__, version)


@pytest.mark.parametrize(("there", "installed"), [("", ".[plot,tls]"), (".ready", None), (".light", None)])
def test_demonstrations_install_what_they_need(there, installed, tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    if there:
        (tmp_path / ".venv").mkdir()
        (tmp_path / ".venv" / there).touch()
    planned = subprocess.run(
        ["make", "-n", "demo"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r'-e "(.*?)"', planned) == [installed] * (installed is not None)
    assert "examples/demo.py" in planned


def test_tests_install_everything_after_a_demonstration(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".light").touch()
    planned = subprocess.run(
        ["make", "-n", "lint"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r'-e "(.*?)"', planned) == [".[dev]"]


def test_there_is_one_version():
    assert destiny.__version__ == release.version()
    assert PROJECT["tool"]["hatch"]["version"]["path"] == release.VERSION.as_posix()
    assert list(release.different_copies()) == []


def test_the_changelog_begins_with_this_version():
    headings = re.findall(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == destiny.__version__.removesuffix(".dev0")


@pytest.mark.parametrize("name", release.COPIES)
def test_a_file_with_another_version_is_named(name, tree):
    replace(tree / name, destiny.__version__, "7.7.7")
    (problem,) = release.different_copies(tree)
    assert problem.startswith(name)
    assert problem.endswith("found 7.7.7")


def test_a_tree_is_released_under_its_own_version_with_a_dated_changelog(tree):
    set_version(tree, "7.7.7")
    (problem,) = release.obstacles("v7.7.7", tree)
    assert "CHANGELOG.md" in problem
    with (tree / "CHANGELOG.md").open("a", encoding="utf-8") as changelog:
        changelog.write("## [7.7.7] - 2027-01-31\n")
    assert list(release.obstacles("v7.7.7", tree)) == []
    (problem,) = release.obstacles("v7.7.8", tree)
    assert "v7.7.8" in problem


def test_a_version_in_development_is_not_released(tree):
    set_version(tree, "7.7.7.dev0")
    assert any("three numbers" in problem for problem in release.obstacles("v7.7.7.dev0", tree))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_use_exact_actions_and_targets_that_exist(workflow):
    text = workflow.read_text(encoding="utf-8")
    for action in re.findall(r"uses: *(.*)", text):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)
    for target in re.findall(r"run: make (\S+)", text):
        assert f"\n{target}:" in MAKEFILE
    assert "make " in text


def test_all_pythons_are_tested():
    matrix = re.search(r"python: \[(.*)\]", (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    supported = {c.rsplit(" ", 1)[1] for c in PROJECT["project"]["classifiers"] if "Python :: 3." in c}
    assert supported <= set(re.findall(r"3\.\d+", matrix[1]))


def test_ruff_has_one_version():
    versions = re.findall(
        r"\bruff==([\d.]+)",
        (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
        + (ROOT / "constraints.txt").read_text(encoding="utf-8"),
    )
    assert len(versions) == 3
    assert len(set(versions)) == 1
