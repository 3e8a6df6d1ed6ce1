"""Matrices from files: what is read, when it is read, and what is said about files that cannot be used."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from destiny.errors import ProblemError
from destiny.problems import OLSR, PCA, SDL, pca, sdl
from destiny.problems.data import files

MATRIX = np.random.default_rng(0).standard_normal((4, 6))


def write(folder: Path, suffix: str, matrix: np.ndarray = MATRIX) -> Path:
    """A file with one matrix."""
    path = folder / f"file{suffix}"
    if suffix == ".npy":
        np.save(path, matrix)
    elif suffix == ".npz":
        np.savez(path, matrix)
    elif suffix == ".mat":
        scipy.io.savemat(path, {"A": matrix})
    else:
        np.savetxt(path, matrix, delimiter=",", fmt="%.17g")
    return path


def layout(path: Path) -> files.Csv | None:
    """What a .csv file of numbers alone needs."""
    return files.Csv(header=False) if path.suffix == ".csv" else None


@pytest.fixture(params=[".npy", ".npz", ".mat", ".csv"])
def suffix(request):
    return request.param


# What is read


def test_every_format_gives_the_matrix(tmp_path, suffix):
    path = write(tmp_path, suffix)
    np.testing.assert_array_equal(files.load(path, "rows", layout(path)), MATRIX)
    np.testing.assert_array_equal(files.load(str(path), "columns", layout(path)), MATRIX.T)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "int16", "bool"])
@pytest.mark.parametrize("kind", [".npy", ".npz", ".mat"])
def test_binary_formats_keep_the_dtype(tmp_path, kind, dtype):
    matrix = (np.arange(12).reshape(3, 4) % 2).astype(dtype)
    loaded = files.load(write(tmp_path, kind, matrix))
    np.testing.assert_array_equal(loaded, matrix)
    # MATLAB's logical is kept in bytes.
    assert loaded.dtype == ("uint8" if (kind, dtype) == (".mat", "bool") else dtype)


@pytest.mark.parametrize("kind", [".npz", ".mat"])
def test_one_of_several_arrays_by_name(tmp_path, kind):
    path = tmp_path / f"several{kind}"
    arrays = {"A": MATRIX, "B": 2 * MATRIX}
    np.savez(path, **arrays) if kind == ".npz" else scipy.io.savemat(path, arrays)
    np.testing.assert_array_equal(files.load(f"{path}:B"), 2 * MATRIX)
    with pytest.raises(
        ProblemError, match=rf"several{kind} must hold a single matrix; found A, B; name one as in"
    ):
        files.load(path)
    with pytest.raises(ProblemError, match=rf"several{kind} must hold 'C'; found A, B"):
        files.load(f"{path}:C")


def test_mat_chooses_the_only_matrix_of_numbers(tmp_path):
    path = tmp_path / "mixed.mat"
    scipy.io.savemat(path, {"A": MATRIX, "note": "some text", "cube": np.ones((2, 2, 2)), "z": MATRIX * 1j})
    np.testing.assert_array_equal(files.load(path), MATRIX)
    with pytest.raises(ProblemError, match=r"mixed\.mat must be 2-D.*found 3-D"):
        files.load(f"{path}:cube")
    with pytest.raises(ProblemError, match=r"mixed\.mat must be real numbers; found dtype complex128"):
        files.load(f"{path}:z")


@pytest.mark.parametrize("convert", [scipy.sparse.csc_array, scipy.sparse.csc_matrix])
def test_sparse_mat_is_made_dense(tmp_path, monkeypatch, convert):
    matrix = np.where(MATRIX > 0, MATRIX, 0)
    path = tmp_path / "sparse.mat"
    scipy.io.savemat(path, {"X": convert(matrix)})
    loaded = files.load(path)
    assert type(loaded) is np.ndarray
    np.testing.assert_array_equal(loaded, matrix)
    monkeypatch.setattr(files, "DENSE_LIMIT", 100)
    with pytest.raises(
        ProblemError, match=r"sparse\.mat must fit .* when made dense; found .*\(4, 6\).*split it"
    ):
        files.load(path)


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n3,4\n",
        "1,2\n3,4",
        "a,b\n1,2\n3,4\n",
        '"first name","x"\n1,2\n\n3,4\n\n',
        "\n# a, b\n1, 2\r\n3, 4\r\n",
        "\ufeff1,2\n3,4\n",
        "\ufeffa,b\n1e0,2.\n+3,0.4e1\n",
    ],
)
def test_csv_with_and_without_header(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode("utf-8"))
    header = not text.strip("\ufeff").startswith("1")
    np.testing.assert_array_equal(files.load(path, "columns", files.Csv(header=header)), [[1, 3], [2, 4]])


def test_csv_of_one_line_or_one_column_is_still_a_matrix(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("1,2,3\n")
    assert files.load(path, "rows", layout(path)).shape == (1, 3)
    path.write_text("x\n1\n2\n3\n")
    assert files.load(path, samples="rows").shape == (3, 1)


FLOATS = [
    0.1,
    -1 / 3,
    5e-324,
    1.7976931348623157e308,
    2.0**53 + 2,
    1e22,
    9007199254740993.0,
    -0.0,
    123456.789e-30,
]


@pytest.mark.parametrize(
    "settings", [{}, {"index": "id"}, {"labels": "id"}, {"na_values": ["?"]}, {"gaps": True}]
)
def test_every_way_of_reading_gives_the_nearest_double(tmp_path, settings):
    """As Python's own float does, by NumPy (all columns are plain numbers) and line by line alike."""
    texts = [f"{x!r}" for x in FLOATS] + [
        "0.1000000000000000055511151231257827",
        "1e-400",
        "12345678901234567890",
    ]
    rows = [[*texts[k:], *texts[:k]] for k in range(len(texts))]
    names = ["id", *(f"x{k}" for k in range(len(texts) - 1))]
    (tmp_path / "s.csv").write_text("\n".join(",".join(row) for row in [names, *rows]) + "\n")
    found = files.read_file(tmp_path / "s.csv", files.Csv(**settings)).rows
    expected = np.array([[float(text) for text in row] for row in rows])[:, len(names) - found.shape[1] :]
    assert found.tobytes() == expected.tobytes()
    assert found.shape[1] == len(names) - bool(settings.keys() & {"index", "labels"})


@pytest.mark.parametrize("settings", [{}, {"index": "x0"}, {"decimal": ","}, {"gaps": True}])
def test_reading_needs_little_more_memory_than_the_numbers(tmp_path, settings):
    sep, point = (";", ",") if "decimal" in settings else (",", ".")
    line = sep.join(f"{k}{point}0123456789" for k in range(20)) + "\n"
    header = sep.join(f"x{k}" for k in range(20)) + "\n"
    (tmp_path / "s.csv").write_text(
        header + line * 6_000 + (sep * 19).join(["1", "\n"]) * ("gaps" in settings)
    )
    tracemalloc.start()
    try:
        rows = files.read_file(tmp_path / "s.csv", files.Csv(sep=sep, **settings)).rows
        assert tracemalloc.get_traced_memory()[1] < 2 * rows.nbytes
    finally:
        tracemalloc.stop()


def test_a_sparse_matrix_of_scipy_is_made_dense(tmp_path, monkeypatch):
    matrix = np.where(MATRIX > 0, MATRIX, 0)
    scipy.sparse.save_npz(tmp_path / "sparse.npz", scipy.sparse.csc_array(matrix))
    np.testing.assert_array_equal(files.load(tmp_path / "sparse.npz", "columns"), matrix.T)
    monkeypatch.setattr(files, "DENSE_LIMIT", 100)
    with pytest.raises(ProblemError, match=r"sparse\.npz must fit .* when made dense"):
        files.load(tmp_path / "sparse.npz")


# When it is read


def test_npy_is_mapped_and_only_hosted_rows_are_looked_at(tmp_path):
    matrix = MATRIX.copy()
    matrix[1, 5] = np.nan
    path = write(tmp_path, ".npy", matrix)
    loaded = files.load(path, samples="columns")
    assert isinstance(loaded, np.memmap)
    problem = pca.from_data(loaded, 2, 2)
    X = np.random.default_rng(1).standard_normal((1, 4, 2))
    good = matrix[:, :3]
    np.testing.assert_allclose(problem.host([0]).gradient(X)[0], -good @ good.T @ X[0])
    with pytest.raises(
        ProblemError, match=r"agent 1's data \(.*file\.npy\) must be finite; found nan at sample 2, feature 1"
    ):
        problem.host([1])


def test_mapped_images_stay_where_they_are(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (9, 4), dtype=np.uint8)
    loaded = files.load(write(tmp_path, ".npy", images), samples="rows")
    hosted = sdl.from_data(loaded, 1, 3).host([1])
    assert np.shares_memory(hosted._streams[0].samples, loaded)
    X = np.full((1, 4, 1), 0.5)
    part = images[3:6].T.astype(float)
    np.testing.assert_allclose(hosted.gradient(X)[0], -part @ (part.T @ X[0]) ** 3)


@pytest.mark.parametrize("kind", ["pca", "olsr", "sdl"])
def test_silos_are_read_one_by_one(tmp_path, suffix, kind):
    template = tmp_path / f"silo-{{agent:02d}}{suffix}"
    silos = files.silos(template, 3, "columns", layout(template))
    write(tmp_path, suffix).rename(tmp_path / f"silo-01{suffix}")  # the only file this machine has
    targets = [np.ones((6, 2))] * 3
    problem = {
        "pca": lambda: PCA(silos, 2),
        "olsr": lambda: OLSR(silos, targets),
        "sdl": lambda: SDL(silos, 2),
    }[kind]()
    assert problem.shape == (4, 2)
    X = np.random.default_rng(1).standard_normal((1, 4, 2))
    in_memory = {
        "pca": lambda: PCA([MATRIX.T], 2),
        "olsr": lambda: OLSR([MATRIX.T], targets[:1]),
        "sdl": lambda: SDL([MATRIX.T], 2),
    }[kind]()
    np.testing.assert_array_equal(problem.host([1]).gradient(X), in_memory.host([0]).gradient(X))
    with pytest.raises(ProblemError, match=rf"silo-02{suffix} must be a file; found none"):
        problem.host([2])


def test_silos_need_one_file_or_a_number_of_features(tmp_path):
    silos = files.silos(tmp_path / "silo-{agent}.npy", 2)
    with pytest.raises(ProblemError, match=r"silo-0\.npy must be a file; found none"):
        PCA(silos, 2)
    assert PCA(silos, 2, n=7).shape == (7, 2)


def test_a_silo_without_samples(tmp_path):
    write(tmp_path, ".npy", np.ones((0, 3))).rename(tmp_path / "silo-0.npy")
    write(tmp_path, ".npy", np.ones((2, 3))).rename(tmp_path / "silo-1.npy")
    hosted = PCA(files.silos(tmp_path / "silo-{agent}.npy", 2), 1).host([0, 1])
    assert not hosted.gradient(np.ones((2, 3, 1)))[0].any()


@pytest.mark.parametrize(
    "template", ["silo.npy", "silo-{}.npy", "silo-{site}.npy", "silo-{agent", "silo-{0}"]
)
def test_templates_must_name_the_agent(template):
    with pytest.raises(ProblemError, match=r"must hold \{agent\} where the agent's number goes"):
        files.silos(template, 2)


# Files that cannot be used


def test_missing_and_empty_files(tmp_path, suffix):
    path = tmp_path / f"file{suffix}"
    with pytest.raises(ProblemError, match=rf"file{suffix} must be a file; found none; check the path"):
        files.load(path)
    path.touch()
    with pytest.raises(ProblemError, match=rf"file{suffix} must hold a matrix; found an empty file"):
        files.load(path)


def test_wrong_number_of_dimensions(tmp_path):
    for kind in (".npy", ".npz"):
        path = write(tmp_path, kind, np.ones(3))
        with pytest.raises(ProblemError, match=rf"file{kind}.* must be 2-D.*found 1-D of shape \(3,\)"):
            files.load(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite(tmp_path, suffix, bad):
    matrix = MATRIX.copy()
    matrix[2, 3] = bad
    path = write(tmp_path, suffix, matrix)
    words = rf"file{suffix}.* must be finite; found {bad} at sample 2, feature 3"
    if suffix == ".csv" and np.isnan(bad):
        words = r"file\.csv must hold numbers .* found 'nan' in line 3"
    with pytest.raises(ProblemError, match=words):
        pca.from_data(files.load(path, "rows", layout(path)), 2, 1).host([0])


@pytest.mark.parametrize("kind", [".npy", ".npz"])
def test_python_objects_are_refused(tmp_path, kind):
    path = write(tmp_path, kind, np.array([[1.0, "two", None]], dtype=object))
    with pytest.raises(
        ProblemError, match=rf"file{kind} must hold numbers; found Python objects.*can run code"
    ):
        files.load(path)


def test_text_is_not_a_number(tmp_path):
    with pytest.raises(ProblemError, match=r"file\.npy.* must be real numbers; found dtype <U1"):
        files.load(write(tmp_path, ".npy", np.array([["a", "b"]])))


@pytest.mark.parametrize("kind", [".npy", ".npz", ".mat"])
@pytest.mark.parametrize("length", [None, 1, 50, 150, 250])
def test_damaged_files(tmp_path, kind, length):
    path = write(tmp_path, kind)
    path.write_bytes(b"not what it says " * 20 if length is None else path.read_bytes()[:length])
    with pytest.raises(
        ProblemError, match=rf"file{kind} must be a {kind} file; found one that cannot be read"
    ):
        files.load(path)


def test_new_matlab_files_are_named(tmp_path):
    path = tmp_path / "new.mat"
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x89HDF\r\n" * 20)
    with pytest.raises(ProblemError, match=r"new\.mat must be a \.mat file; found .*7\.3"):
        files.load(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2\n3,x\n", "found 'x' in line 2"),
        ("a,b\n1,2\n\n3,\n", "found '' in line 4"),
        ("1,b\n3,4\n", "found 'b' in line 1"),
        ("1;2\n3;4\n", "found semicolons between them"),
        ("a,b\n1,2\n1,2,3\n", "must have 2 fields in every line; found 3 in line 3"),
        ("a,b,c\n1,2\n3,4\n", "must have 3 fields in every line; found 2 in line 2"),
        ("1,2\n3\n", "must have 2 fields in every line; found 1 in line 2"),
        ("\n \n", "found blank lines only"),
        ("a,b\n", "must hold numbers; found a header only"),
        ("1,0x10\n", "found '0x10' in line 1"),
    ],
)
def test_csv_mistakes_have_a_line_number(tmp_path, text, words):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ProblemError, match=words) as caught:
        files.load(path, "columns", files.Csv(header=text.startswith("a")))
    assert "table.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_csv_that_is_not_text(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"\xff\xfd\x00\x81" * 10)
    with pytest.raises(ProblemError, match=r"table\.csv must be text in UTF-8; found byte 0xff"):
        files.load(path)


def test_unknown_format_and_orientation(tmp_path):
    with pytest.raises(
        ProblemError,
        match=r"xlsx must be one of \.npy, \.npz, \.mat, \.csv, \.tsv, \.txt, \.parquet; found '\.xlsx'",
    ):
        files.load(tmp_path / "table.xlsx")
    with pytest.raises(ProblemError, match=r'samples must be "columns" or "rows"; found \'lines\''):
        files.load(write(tmp_path, ".npy"), samples="lines")
