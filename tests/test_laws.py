"""The laws of ARCHITECTURE.md that are not a property of one part alone."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "destiny"

# What each part may import from the package; everything may import types, errors and stiefel.
FORBIDDEN = {
    "algorithms": {"engines", "problems", "networks", "metrics", "run", "drive", "stopping", "cli", "agents"},
    "problems": {"engines", "networks", "algorithms", "run", "drive", "metrics", "stopping", "agents"},
    "networks": {"engines", "problems", "algorithms", "run", "drive", "metrics", "stopping", "agents"},
    "engines": {"algorithms", "problems", "networks", "run", "drive", "metrics", "stopping", "agents"},
    "metrics.py": {"engines", "algorithms", "problems", "networks", "run", "drive"},
    "steps.py": {"engines", "algorithms", "problems", "networks", "run", "drive", "metrics"},
    "gossip.py": {"engines", "algorithms", "problems", "networks", "run", "drive", "metrics"},
    "plots.py": {"engines", "algorithms", "problems", "networks", "run", "drive"},
    "output.py": {"engines", "algorithms", "problems", "networks", "run", "drive"},
    "facts.py": {"engines", "algorithms", "problems", "networks", "run", "drive"},
    "report": {
        "engines",
        "algorithms",
        "problems",
        "networks",
        "run",
        "drive",
        "agents",
        "metrics",
        "stopping",
    },
    "types.py": {"errors", "engines", "algorithms", "problems", "networks", "run", "stiefel"},
}


def imported(path: Path) -> set[str]:
    """First-level names of the package a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "destiny":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("destiny."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("destiny.")}
    return found


@pytest.mark.parametrize("part", FORBIDDEN)
def test_data_move_to_the_right_only(part):
    paths = sorted((SOURCE / part).glob("*.py")) if (SOURCE / part).is_dir() else [SOURCE / part]
    assert paths
    for path in paths:
        assert not imported(path) & FORBIDDEN[part], path.name


def test_no_module_imports_the_package_itself():
    """A module imports modules: a name that `destiny/__init__.py` has, such as the version, makes a cycle."""
    modules = {path.stem for path in SOURCE.glob("*.py")} | {path.name for path in SOURCE.iterdir()}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert all(alias.name != "destiny" for alias in node.names), path
            elif isinstance(node, ast.ImportFrom) and node.module == "destiny":
                assert {alias.name for alias in node.names} <= modules, path


def test_no_pickle_anywhere():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text
        assert "allow_pickle=True" not in text


def test_every_public_name_is_there_and_documented():
    import destiny

    for name in destiny.__all__:
        assert (getattr(destiny, name).__doc__ or "").strip(), name


def test_the_type_checker_refuses_an_algorithm_that_looks_at_the_whole_network(tmp_path):
    from mypy import api

    (tmp_path / "peek.py").write_text(
        "from destiny.types import Agents, Array\n\n\n"
        "def step(X: Array, agents: Agents) -> Array:\n"
        "    return agents.mean(X)\n"
    )
    # With the settings and the cache of make types: seconds instead of fifteen.
    root = SOURCE.parents[1]
    shared = [f"--config-file={root / 'pyproject.toml'}", f"--cache-dir={root / '.mypy_cache'}"]
    told, _, code = api.run([str(tmp_path / "peek.py"), *shared])
    assert code == 1
    assert '"Agents" has no attribute "mean"' in told
