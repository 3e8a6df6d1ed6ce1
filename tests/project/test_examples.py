"""Every example runs, keeps the promises it ends with, and draws its picture."""

import importlib

import pytest

from destiny.errors import ProblemError
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


def test_files_with_columns_in_another_order_are_refused_by_the_example(tmp_path):
    pytest.importorskip("sklearn", reason="the example needs scikit-learn")
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    for file, header in zip(files, ("x,y", "y,x"), strict=True):
        (tmp_path / file).write_text(f"{header}\n1,2\n3,5\n4,1\n")
    with pytest.raises(ProblemError, match=r"in the order of a\.csv"):
        importlib.import_module("examples.pca_three_files").main(None, files)


def test_every_example_with_a_picture_is_run():
    files = (ROOT / "examples").glob("*.py")
    assert {path.stem for path in files if "--picture" in path.read_text()} == set(EXAMPLES)
