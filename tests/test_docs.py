"""Every Python block of the documentation runs, and ends well."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
OPTIONAL = ("torch",)  # too large to ask for in every environment
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCK.findall(page.read_text()):
        try:
            exec(compile(block, page.name, "exec"), names)
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            pytest.skip(f"the rest of {page.name} needs {error.name}, which is not installed here")
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


def test_the_method_of_contributing_passes_the_tests_it_will_be_put_under(tmp_path):
    from tests import test_methods as conformance

    (code, *_) = BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text())
    names: dict[str, object] = {"__name__": "contributed"}
    exec(compile(code, "CONTRIBUTING.md", "exec", dont_inherit=True), names)
    method = names["Descent"]
    assert method.kind == "descent"
    for test in (
        conformance.test_settings_and_states_are_frozen_and_a_step_is_pure,
        conformance.test_only_gradients_and_mixing_are_used,
        conformance.test_relabelling_the_agents_permutes_the_rows,
        conformance.test_equal_agents_walk_the_path_of_one_of_them,
        conformance.test_inexact_methods_stall_with_a_constant_step_and_say_so,
        conformance.test_multiplying_the_data_changes_nothing_by_default,
        conformance.test_a_step_far_too_long_ends_in_words,
        conformance.test_a_method_made_for_other_problems_refuses_naming_both,
    ):
        test(method)
    conformance.test_resuming_gives_the_bits_of_a_run_never_stopped(method, tmp_path)
    for auto in (False, True):
        conformance.test_rounds_and_scalars_are_those_it_states(method, auto)


def test_the_page_of_methods_is_what_the_code_says():
    spec = importlib.util.spec_from_file_location("methods_page", ROOT / "docs" / "methods.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "methods.md").read_text() == module.page(), "run python docs/methods.py"
