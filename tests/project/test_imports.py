"""What importing the package loads, and that those who read it see the same names as those who run it."""

import ast
import os
import subprocess
import sys
from functools import cache

import pytest

import destiny
from tests.helpers import ROOT

FACE = ROOT / "src" / "destiny" / "__init__.py"
# Half a second and more together: whoever needs one of them waits for it then.
HEAVY = {
    "asyncio",
    "cryptography",
    "matplotlib",
    "msgspec",
    "networkx",
    "plotly",
    "rich",
    "scipy.io",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.sparse.csgraph",
    "scipy.sparse.linalg",
    "scipy.special",
    "sklearn",
}
DIAMETER = {"scipy.sparse.csgraph", "scipy.sparse.linalg", "scipy.linalg"}  # what SciPy needs to find it
SOLVE = (
    "from destiny import networks, problems, solve; "
    "solve(problems.pca.synthetic(n=6, m=20, p=2, xi=0.5, agents=3, seed=0), networks.ring(3), rounds=40)"
)


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import destiny", HEAVY | {"numpy", "scipy", "typer", "destiny.extensions"}),
        (
            "import destiny.cli",
            HEAVY
            | {"destiny.run.solve", "destiny.problems", "destiny.agents", "destiny.extensions.vertical"},
        ),
        (
            "import destiny.cli.run_file",
            HEAVY - {"msgspec"} | {"destiny.agents", "destiny.diagnosis", "destiny.report"},
        ),
        (
            "import destiny.agents",
            HEAVY - {"asyncio"} | {"destiny.diagnosis", "destiny.extensions", "destiny.report", "typer"},
        ),
        (
            SOLVE,
            HEAVY - DIAMETER
            | {"destiny.agents", "destiny.diagnosis", "destiny.experiments", "destiny.extensions", "typer"},
        ),
    ],
)
def test_nothing_is_loaded_that_is_not_needed(code, absent):
    loaded = modules_after(code)
    # Older versions of SciPy and Typer load more by themselves.
    theirs = modules_after("import scipy.sparse") if "scipy.sparse" in loaded else set()
    theirs |= modules_after("import typer") if "typer" in loaded else set()
    assert not (absent & loaded) - theirs


@cache
def modules_after(code):
    """What a new process has loaded after it."""
    told = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        env=os.environ | {"COVERAGE_PROCESS_CONFIG": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return frozenset(told.stdout.split())


def names_for_type_checkers() -> dict[str, object]:
    """What the block for type checkers imports, by the names it gives."""
    block = next(node for node in ast.parse(FACE.read_text()).body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    names: dict[str, object] = {}
    exec(compile(ast.Module(block.body, []), str(FACE), "exec"), names)
    return {name: value for name, value in names.items() if name != "__builtins__"}


def test_the_interpreter_gives_what_type_checkers_see():
    names = names_for_type_checkers()
    assert names.keys() | set(destiny.__all__) <= set(dir(destiny))
    for name, value in names.items():
        assert destiny.__getattr__(name) is value, name
    assert set(destiny._MODULES) | set(destiny._HOMES) == names.keys()


def test_public_modules_are_imported_by_their_public_names():
    told = """
import importlib
from destiny.stopping import Stop
import destiny.stopping
assert Stop("over").reason == "over"
for name, home in destiny._MODULES.items():
    module = importlib.import_module(f"destiny.{name}")
    assert module is importlib.import_module(home) is destiny.__getattr__(name), name
    assert module.__name__ == module.__spec__.name == home, name
"""
    subprocess.run([sys.executable, "-c", told], check=True)


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(AttributeError, match="module 'destiny' has no attribute 'sovle'"):
        destiny.sovle  # noqa: B018
    with pytest.raises(ImportError):
        from destiny import sovle  # noqa: F401
