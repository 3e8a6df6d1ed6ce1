"""The laws of ARCHITECTURE.md that are not a property of one part alone."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from destiny import registry
from tests.helpers import ROOT

SOURCE = ROOT / "src" / "destiny"

BASIS = {"errors", "notebook", "protocols", "registry", "validation"}

# What the files of each room may import from the package beside their own room; nothing else is allowed.
MAY_IMPORT = {
    "errors": set(),
    "notebook": set(),
    "registry": set(),
    "protocols": {"errors"},
    "validation": {"errors"},
    "geometry": BASIS,
    "storage": BASIS,
    "problems": BASIS | {"geometry"},
    "networks": BASIS,
    "datasets": {"errors", "validation"},
    "algorithms": BASIS | {"geometry"},
    "engines": BASIS | {"storage"},
    "run": BASIS | {"geometry", "storage", "problems", "algorithms", "engines"},
    "config": BASIS - {"notebook"} | {"networks", "problems", "algorithms"},
    "experiments": BASIS | {"config", "problems", "networks", "datasets", "algorithms", "engines", "run"},
    "estimators": BASIS | {"geometry", "problems", "networks", "engines", "run"},
    "agents": BASIS
    | {"config", "geometry", "storage", "problems", "networks", "engines", "run", "experiments"},
    "diagnosis": BASIS | {"geometry", "problems", "networks", "algorithms", "engines", "run", "experiments"},
    "report": BASIS | {"storage", "run", "experiments"},
    "extensions": BASIS
    | {"geometry", "storage", "problems", "networks", "algorithms", "engines", "run"}
    | {"config", "experiments", "estimators", "agents", "report"},
    "cli": {
        "config",
        "errors",
        "registry",
        "validation",
        "networks",
        "problems",
        "engines",
        "run",
        "experiments",
        "agents",
        "diagnosis",
        "report",
    },
}
CORE = BASIS | {"config", "geometry", "networks", "problems", "algorithms", "engines", "run", "storage"}
FACE = {"__init__", "__main__", "_version"}


def imports(path: Path) -> set[str]:
    """Modules a file imports when it runs, lazily too, as names below ``destiny``; "" is the package."""
    names = set()
    for node in _nodes(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.ImportFrom)
            and node.level == 0
            and (node.module or "").split(".")[0] == "destiny"
        ):
            for alias in node.names:
                dotted = f"{node.module}.{alias.name}"
                while not _file(dotted):
                    dotted = dotted.rpartition(".")[0]
                names.add(dotted.removeprefix("destiny").removeprefix("."))
        elif isinstance(node, ast.Import):
            names |= {
                a.name.removeprefix("destiny").removeprefix(".")
                for a in node.names
                if a.name.split(".")[0] == "destiny"
            }
    return names


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node, but for what only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from _nodes(node)


def _file(dotted: str) -> bool:
    path = SOURCE.parent / Path(*dotted.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def rooms() -> dict[str, list[Path]]:
    paths: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        paths.setdefault(path.relative_to(SOURCE).with_suffix("").parts[0], []).append(path)
    return paths


def test_every_room_has_a_law():
    assert rooms().keys() - FACE == MAY_IMPORT.keys()


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_what_its_law_allows_and_nothing_else(room):
    for path in rooms()[room]:
        used = {name.split(".")[0] for name in imports(path)} - {room, "_version"}
        assert used <= MAY_IMPORT[room], path.relative_to(SOURCE)


def test_the_core_imports_no_other_room():
    for room in CORE:
        assert MAY_IMPORT[room] <= CORE, room


def test_an_extension_is_reached_by_registration_alone():
    """`registry.BUILT_IN` names them; no other room imports one, in no way, and none imports another."""
    assert not [room for room, may in MAY_IMPORT.items() if "extensions" in may]
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).parts
        if parts[0] == "extensions":
            others = {name for name in imports(path) if name.startswith("extensions.")}
            assert {name.split(".")[1] for name in others} <= {parts[1]}, path
        elif parts != ("registry.py",):
            texts = {
                node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)
            }
            named = {
                text for text in texts if isinstance(text, str) and text.startswith("destiny.extensions.")
            }
            assert not any(map(_file, named)), path
    assert all(map(_file, registry.BUILT_IN))
    assert len(registry.extensions()) == len(registry.BUILT_IN)


def test_no_import_cycle_lazy_imports_included():
    graph = {}
    for path in SOURCE.rglob("*.py"):
        name = (
            ".".join(path.relative_to(SOURCE).with_suffix("").parts)
            .removesuffix("__init__")
            .removesuffix(".")
        )
        graph[name] = imports(path) - {name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a cycle of imports: {' -> '.join(error.args[1])}")


def test_no_module_imports_the_package_itself():
    """A module imports modules: a name of `destiny/__init__.py`, such as the version, makes a cycle."""
    modules = {path.stem for path in SOURCE.glob("*.py")} | {path.name for path in SOURCE.iterdir()}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert all(alias.name != "destiny" for alias in node.names), path
            elif isinstance(node, ast.ImportFrom) and node.module == "destiny":
                assert {alias.name for alias in node.names} <= modules, path


def test_no_file_of_tests_is_long_or_imports_another():
    """What several tests need is in `tests/helpers`."""
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 600, path
        for node in ast.walk(ast.parse(text)):
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            )
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            parts = {part for name in names for part in name.split(".")}
            assert not [part for part in parts if part.startswith("test_") or part == "conftest"], path


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
        "from destiny.protocols import Agents, Array\n\n\n"
        "def step(X: Array, agents: Agents) -> Array:\n"
        "    return agents.mean(X)\n"
    )
    # With the settings and the cache of make types: seconds instead of fifteen.
    shared = [f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={ROOT / '.mypy_cache'}"]
    told, _, code = api.run([str(tmp_path / "peek.py"), *shared])
    assert code == 1
    assert '"Agents" has no attribute "mean"' in told
