"""Every Python block of the documentation runs, and ends well."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, page.name, "exec"), names)
    assert "destiny" in names


def test_the_file_of_the_documentation_is_accepted(tmp_path):
    import numpy as np

    from destiny import experiment

    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/experiment-files.md").read_text(), re.DOTALL)
    (tmp_path / "experiment.toml").write_text(text)
    np.save(tmp_path / "A.npy", np.random.default_rng(0).standard_normal((30, 320)))
    asked = experiment.read(tmp_path / "experiment.toml")
    assert (asked.problem.shape, asked.problem.agents, list(asked.algorithms)) == ((30, 10), 32, ["DESTINY"])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_page_of_methods_is_what_the_code_says():
    spec = importlib.util.spec_from_file_location("methods_page", ROOT / "docs" / "methods.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "methods.md").read_text() == module.page(), "run python docs/methods.py"
