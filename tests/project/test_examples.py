"""Every example runs, keeps the promises it ends with, and draws its picture."""

import importlib

import pytest

from tests.helpers import ROOT

EXAMPLES = {
    "procrustes_over_silos": [],
    "matrix_completion": [],
    "robust_pca": [],
    "pca_three_files": ["sklearn"],
    "sparse_digits": ["sklearn"],
    "two_views": ["sklearn"],
    "wineries": ["sklearn"],
    "three_hospitals": ["sklearn", "pandas"],
    "newspapers": ["sklearn"],
    "photographers": ["sklearn"],
    "turbines": ["sklearn"],
    "libraries": ["sklearn"],
    "private_screening": ["sklearn"],
    "ica_contrast": ["jax"],
    "orthogonal_layer": ["torch", "sklearn"],
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_ends_well_and_draws_its_picture(name, tmp_path, capsys):
    for module in EXAMPLES[name]:
        pytest.importorskip(module, reason=f"{name} needs {module}, which is not installed here")
    importlib.import_module(f"examples.{name}").main(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out


def test_every_example_with_a_picture_is_run():
    files = (ROOT / "examples").glob("*.py")
    assert {path.stem for path in files if "--picture" in path.read_text()} == set(EXAMPLES)
