"""`destiny.Silos`: one object for tables of many kinds, checked once."""

import re

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sparse

import destiny
from destiny.errors import ProblemError
from destiny.problems import OLSR, PCA, SDL, MaskedPCA, pca
from destiny.problems.data import Csv, SiloValues
from destiny.problems.data.row_blocks import row_blocks

RNG = np.random.default_rng(0)
TABLES = [RNG.standard_normal((rows, 3)).round(3) for rows in (6, 4, 5)]
NAMES = ["age", "bmi", "pulse"]


def write_csv(folder, k, order=(0, 1, 2), header=True, text=None):
    rows = [[str(x) for x in row[list(order)]] for row in TABLES[k]]
    lines = [",".join(NAMES[j] for j in order)] if header else []
    lines += [",".join(row) for row in rows]
    if text:
        lines[3] = text
    path = folder / f"clinic-{k}.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def same(silos, expected=TABLES):
    assert len(silos) == len(expected)
    for part, table in zip(silos, expected, strict=True):
        np.testing.assert_array_equal(part.toarray() if sparse.issparse(part) else part, table)


def test_every_kind_of_table_gives_the_same_rows(tmp_path):
    pandas = pytest.importorskip("pandas")
    np.save(tmp_path / "a.npy", TABLES[0])
    np.savez(tmp_path / "b.npz", table=TABLES[1])
    sparse.save_npz(tmp_path / "c.npz", sparse.csc_array(TABLES[2]))
    same(destiny.Silos([tmp_path / "a.npy", str(tmp_path / "b.npz"), tmp_path / "c.npz"]))
    same(destiny.Silos([table.tolist() for table in TABLES]))
    same(destiny.Silos([pandas.DataFrame(table, columns=NAMES) for table in TABLES]))
    same(destiny.Silos([write_csv(tmp_path, k) for k in range(3)]))
    same(destiny.Silos([sparse.coo_array(table) for table in TABLES]))
    silos = destiny.Silos([tmp_path / "a.npy", *TABLES[1:]])
    assert isinstance(silos[0], np.memmap)
    assert silos.parties == ("a.npy", "silo 1", "silo 2")
    frame = pandas.DataFrame(sparse.eye_array(4).toarray()).astype(pandas.SparseDtype(float, 0.0))
    assert sparse.issparse(destiny.Silos([frame])[0])


@pytest.mark.parametrize("ending", ["npz", "mat"])
def test_one_array_of_several_by_name(tmp_path, ending):
    path, arrays = tmp_path / f"several.{ending}", {"X": TABLES[0], "Y": TABLES[1]}
    np.savez(path, **arrays) if ending == "npz" else scipy.io.savemat(path, arrays)
    with pytest.raises(ProblemError, match=f"name one as in several.{ending}:NAME"):
        destiny.Silos([path])
    same(destiny.Silos([f"{path}:Y"]), [TABLES[1]])


def test_parquet(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    for k, table in enumerate(TABLES):
        frame = pandas.DataFrame(table, columns=NAMES).assign(
            sort=["x", "y"] * (len(table) // 2) + ["x"] * (len(table) % 2)
        )
        frame[frame.columns[:: (-1) ** k]].to_parquet(tmp_path / f"{k}.parquet")
    files = [tmp_path / f"{k}.parquet" for k in range(3)]
    silos = destiny.Silos(files, columns=NAMES, labels="sort")
    same(silos)
    assert silos.columns == tuple(NAMES)
    assert silos.labels[1].tolist() == ["x", "y", "x", "y"]
    with pytest.raises(ProblemError, match=r"found .*string in column 'sort'"):
        destiny.Silos(files, columns=["age", "sort"])
    pandas.DataFrame(TABLES[0].astype(np.float32), columns=NAMES).to_parquet(tmp_path / "single.parquet")
    assert destiny.Silos([tmp_path / "single.parquet"])[0].dtype == np.float32
    file = destiny.problems.data.File(str(tmp_path / "single.parquet"), "rows")
    assert file.feature_names() == tuple(NAMES)
    np.testing.assert_allclose(file(), TABLES[0], rtol=1e-6)
    with pytest.raises(ProblemError, match='set samples = "rows"'):
        destiny.problems.data.load(tmp_path / "single.parquet", "columns")
    np.testing.assert_array_equal(destiny.problems.data.load(tmp_path / "single.parquet"), file())


def test_columns_in_another_order_are_refused_unless_chosen_by_name(tmp_path):
    files = [write_csv(tmp_path, 0), write_csv(tmp_path, 1, (2, 0, 1)), write_csv(tmp_path, 2)]
    with pytest.raises(
        ProblemError, match=r"clinic-1.csv: columns must be in the order of clinic-0.csv .*columns="
    ):
        destiny.Silos(files)
    silos = destiny.Silos(files, columns=["pulse", "age"])
    same(silos, [table[:, [2, 0]] for table in TABLES])
    assert silos.columns == ("pulse", "age")


def test_gaps_labels_and_decimal_commas(tmp_path):
    path = tmp_path / "klinik.csv"
    path.write_text("id;age;bmi;sort\n1;61;27,5;1\n2;;31,0;2\n3;70;NA;1\n")
    layout = Csv(sep=";", decimal=",", gaps=True, index="id")
    silos = destiny.Silos([path], labels="sort", csv=layout)
    np.testing.assert_array_equal(silos[0], [[61, 27.5], [np.nan, 31], [70, np.nan]])
    assert silos.gaps
    assert silos.columns == ("age", "bmi")
    assert silos.labels[0].tolist() == [1, 2, 1]
    assert silos.labels[0].dtype == np.int64
    with pytest.raises(ProblemError, match=r"found '' in line 3; .*gaps=True"):
        destiny.Silos([path], columns=["age"], csv=Csv(sep=";", decimal=","))
    with pytest.raises(ProblemError, match="one column 'sorte'; found 'sort'"):
        destiny.Silos([path], columns=["age", "bmi"], labels="sorte", csv=layout)
    masked = MaskedPCA(destiny.Silos([path], columns=["age", "bmi"], csv=layout), 1)
    assert masked.shape == (2, 1)


def test_gaps_beside_quoted_fields(tmp_path):
    path = tmp_path / "quoted.csv"
    path.write_text('"name","x","y"\n"a, ""b""","1.5",2\n"c",,4\n')
    silos = destiny.Silos([path], labels="name", csv=Csv(gaps=True))
    np.testing.assert_array_equal(silos[0], [[1.5, 2], [np.nan, 4]])
    assert silos.labels[0].tolist() == ['a, "b"', "c"]


def test_damaged_files_and_missing_labels(tmp_path):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "gap.csv"
    path.write_text("x,sort\n1.5,a\n2.5,\n")
    with pytest.raises(ProblemError, match=r"gap\.csv: every row must have a label; found none in row 1"):
        destiny.Silos([path], labels="sort")
    frame = pandas.DataFrame({"x": [1.0, 2.0], "sort": ["a", None]})
    with pytest.raises(ProblemError, match="silo 0: every row must have a label"):
        destiny.Silos([frame], labels="sort")
    with pytest.raises(ProblemError, match="columns must have different names; found 'x' twice"):
        destiny.Silos([pandas.DataFrame(np.ones((2, 2)), columns=["x", "x"])])
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    (tmp_path / "bad.parquet").write_text("hello")
    with pytest.raises(
        ProblemError, match=r"bad\.parquet must be a \.parquet file; found one that cannot be read"
    ):
        destiny.Silos([tmp_path / "bad.parquet"])


@pytest.mark.parametrize("rows", [[15], [-1], [[0, 1]], [0.5], np.ones(3, dtype=bool)])
def test_rows_that_are_not_there(rows):
    for silos in (
        destiny.Silos(TABLES),
        destiny.Silos([np.ones((15, 1)), np.ones((15, 2))], split="columns"),
    ):
        with pytest.raises(ProblemError, match="rows are"):
            silos[np.array(rows)]
    assert destiny.Silos(TABLES)[np.array([], dtype=int)].shape == (0, 3)


def test_labels_are_numbers_at_all_parties_or_at_none(tmp_path):
    for k, sort in enumerate(("1", "b")):
        (tmp_path / f"{k}.csv").write_text(f"x,sort\n1.5,{sort}\n2.5,2\n")
    files = [tmp_path / "0.csv", tmp_path / "1.csv"]
    silos = destiny.Silos(files, labels="sort")
    assert [part.tolist() for part in silos.labels] == [["1", "2"], ["b", "2"]]
    assert destiny.Silos(files[:1], labels="sort").labels[0].tolist() == [1, 2]


def test_labels_beside_a_party_without_rows():
    pandas = pytest.importorskip("pandas")
    empty = pandas.DataFrame({"x": np.array([], float), "sort": np.array([], object)})
    for sorts in ([True, False], [1, 2], ["a", "b"]):
        for order in (1, -1):
            frames = [pandas.DataFrame({"x": [1.5, 2.5], "sort": sorts}), empty][::order]
            assert np.asarray(destiny.Silos(frames, labels="sort").labels).tolist() == sorts


def test_shapes_parties_and_rows():
    silos = destiny.Silos(dict(zip("abc", TABLES, strict=True)))
    assert silos.shape == (15, 3)
    assert silos.sizes == (6, 4, 5)
    assert silos.parties == ("a", "b", "c")
    assert silos["b"] is silos[1]
    assert "3 parties, 15 rows, 3 columns" in repr(silos)
    assert "<td" in silos._repr_html_()
    rows = np.array([1, 6, 9, 14, 5])
    chosen = silos[rows, ...]
    same(chosen, [TABLES[0][[1, 5]], TABLES[1][[0, 3]], TABLES[2][[4]]])
    same(silos[np.arange(15) < 7], [TABLES[0], TABLES[1][:1], TABLES[2][:0]])
    labels = silos.per_row([np.arange(6), np.arange(6, 10), np.arange(10, 15)])
    np.testing.assert_array_equal(np.asarray(labels), np.arange(15))
    assert [part.tolist() for part in labels[rows]] == [[1, 5], [6, 9], [14]]
    assert labels.shape == (15,)
    with pytest.raises(ProblemError, match="silo 1: there must be a value for each of the 4 rows; found 3"):
        destiny.Silos(TABLES).per_row([np.arange(6), np.arange(3), np.arange(5)])
    with pytest.raises(ProblemError, match="would pool the rows"):
        np.asarray(silos)
    with pytest.raises(ProblemError, match="a party must be one of a, b, c; found 'd'"):
        silos["d"]


REFUSED = [
    ([], "at least one table"),
    ("a.csv", "a list of tables"),
    ([np.ones((2, 3)), np.ones((2, 4))], "silo 1: a table must have the 3 columns of silo 0; found 4"),
    ([np.ones(3)], "silo 0: a table must have rows and columns; found 1 dimensions"),
    ([np.ones((2, 3)), [[1, 2, "x"]]], "silo 1: .*found 'x'|silo 1: a table must have numbers"),
    ([np.array([[1.0, 2.0], [3.0, np.inf]])], "silo 0: .*; found infinity in row 1 of column 1: correct it"),
    ([sparse.csr_array([[0.0, -np.inf, 1.0]])], "silo 0: .*; found infinity in row 0 of column 1: correct"),
    ([np.full((1, 1), 1e30)], "in magnitude"),
    ([np.ones((1, 1), dtype="datetime64[D]")], "silo 0: a table must have numbers; found datetime64"),
    ([np.ones((2, 2)) + 1j], "real numbers"),
    ([np.ma.masked_equal([[1.0, 2.0], [3.0, 4.0]], 2.0)], "masked entries"),
    (["nowhere.csv"], "nowhere.csv must be a file; found none"),
]


@pytest.mark.parametrize(("tables", "message"), REFUSED)
def test_refusals_name_the_party(tables, message):
    with pytest.raises(ProblemError, match=message):
        destiny.Silos(tables)


def test_frames_of_every_kind_are_read_or_refused_by_row_and_column():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [1.0, np.inf, 3.0], "bmi": [1.0, 2.0, 3.0]})
    with pytest.raises(ProblemError, match=r"north: .*; found infinity in row 1 of column 'age': correct it"):
        destiny.Silos({"north": frame})
    text = pandas.DataFrame({"empty": [np.nan] * 3, "id": [None, "P1", "P2"]})
    with pytest.raises(
        ProblemError, match=r"north: .*; found 'P1' in row 1 of column 'id': leave the column"
    ):
        destiny.Silos({"north": text})
    stored = np.array([[1.0, np.nan], [np.nan, np.nan], [np.nan, 2.0]])
    filled = pandas.DataFrame(stored).astype(pandas.SparseDtype(float, np.nan))
    silos = destiny.Silos([filled])
    np.testing.assert_array_equal(silos[0], stored)
    assert silos.gaps
    same(destiny.Silos([pandas.DataFrame(np.eye(3)).astype(pandas.SparseDtype(float, 1.0))]), [np.eye(3)])


@pytest.mark.parametrize("kind", ["boolean", "Int64", "string", "category", "object", "float"])
def test_missing_labels_of_every_kind_are_refused(kind):
    pandas = pytest.importorskip("pandas")
    labels = pandas.Series([1, None, 0]).astype(kind)
    frame = pandas.DataFrame({"x": [1.0, 2.0, 3.0], "sort": labels})
    with pytest.raises(ProblemError, match="north: every row must have a label; found none in row 1"):
        destiny.Silos({"north": frame}, labels="sort")
    assert len(destiny.Silos({"north": frame.iloc[[0, 2]]}, labels="sort").labels["north"]) == 2


def test_frames_keep_their_row_labels():
    pandas = pytest.importorskip("pandas")
    labels = [[f"{party}{k}" for k in range(len(table))] for party, table in zip("abc", TABLES, strict=True)]
    frames = {
        party: pandas.DataFrame(table, its, NAMES)
        for party, table, its in zip("abc", TABLES, labels, strict=True)
    }
    silos = destiny.Silos(frames)
    for party, frame in silos.to_frames().items():
        pandas.testing.assert_frame_equal(frame, frames[party])
    chosen = silos[np.array([12, 7, 2, 0])].to_frames()
    assert [list(frame.index) for frame in chosen.values()] == [["a2", "a0"], ["b1"], ["c2"]]
    pandas.testing.assert_frame_equal(chosen["a"], frames["a"].iloc[[2, 0]])
    mixed = destiny.Silos([sparse.csr_array(TABLES[0]), TABLES[1]]).to_frames()
    np.testing.assert_array_equal(mixed["silo 0"].sparse.to_dense(), TABLES[0])
    assert list(mixed["silo 1"].index) == list(range(len(TABLES[1])))
    split = {"a": frames["a"][["age"]], "b": frames["a"][["bmi", "pulse"]]}
    for party, frame in destiny.Silos(split, split="columns").to_frames().items():
        pandas.testing.assert_frame_equal(frame, split[party])


def test_other_refusals():
    with pytest.raises(ProblemError, match="parties must name each of the 3 tables; found 1"):
        destiny.Silos(TABLES, parties=["a"])
    with pytest.raises(ProblemError, match="different names"):
        destiny.Silos(TABLES, parties=["a", "b", "a"])
    with pytest.raises(ProblemError, match="columns needs a table with named columns"):
        destiny.Silos(TABLES, columns=["a"])
    with pytest.raises(ProblemError, match="the same rows"):
        destiny.Silos(TABLES, split="columns")
    with pytest.raises(ProblemError, match='split must be "rows" or "columns"'):
        destiny.Silos(TABLES, split="both")


def test_columns_split_over_parties():
    pandas = pytest.importorskip("pandas")
    frames = [pandas.DataFrame(np.ones((4, 2)), columns=list(names)) for names in ("ab", "cd")]
    silos = destiny.Silos(frames, split="columns")
    assert silos.shape == (4, 4)
    assert silos.columns == ("a", "b", "c", "d")
    assert silos[np.array([0, 2]), ...].shape == (2, 4)
    with pytest.raises(ProblemError, match="different columns; found 'a' twice"):
        destiny.Silos([frames[0], frames[0]], split="columns")
    with pytest.raises(ProblemError, match='found split="columns"'):
        PCA(silos, 1)


def test_problems_take_silos(tmp_path):
    np.save(tmp_path / "a.npy", TABLES[0])
    silos = destiny.Silos([tmp_path / "a.npy", *TABLES[1:]])
    matrices = list(TABLES)
    X = np.linalg.qr(RNG.standard_normal((3, 2)))[0]
    stack = np.stack([X] * 3)
    for found, expected in (
        (PCA(silos, 2), PCA(matrices, 2)),
        (SDL(silos, 2), SDL(matrices, 2)),
        (MaskedPCA(silos, 2), MaskedPCA(matrices, 2)),
        (
            OLSR(silos, destiny.Silos([t[:, :2] for t in TABLES])),
            OLSR(matrices, [m[:, :2] for m in matrices]),
        ),
    ):
        assert found.shape == expected.shape
        np.testing.assert_array_equal(
            found.host(range(3)).gradient(stack), expected.host(range(3)).gradient(stack)
        )
    problem = PCA(silos, 2)
    result = destiny.solve(problem, destiny.networks.ring(3), tolerance=1e-9)
    assert destiny.stiefel.subspace_distance(result.X, pca.solution(problem)) < 1e-7
    with pytest.raises(ProblemError, match=re.escape("must be finite")):
        PCA(destiny.Silos([np.array([[np.nan, 1.0]])]), 1)


def test_values_know_their_shape():
    values = SiloValues([np.ones((2, 3)), np.ones((4, 3))], ["a", "b"])
    assert values.shape == (6, 3)
    assert values.ndim == 2
    assert repr(values) == "SiloValues(6 values of 2 parties)"


def test_labels_show_how_many_there_are_of_each():
    labels = SiloValues([["no", "yes", "no"], ["yes"], []], ["a", "b", "c"])
    assert repr(labels) == "SiloValues(4 values of 3 parties: 2 of no, 2 of yes)"
    shown = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", labels._repr_html_())
    assert shown == [*("party", "values", "no", "yes"), *"a321", *"b101", *"c000"]
    assert repr(SiloValues([np.arange(13.0)], ["a"])) == "SiloValues(13 values of 1 party)"


def test_files_that_look_otherwise_are_read_with_settings_of_their_party(tmp_path):
    (tmp_path / "north.csv").write_text("Größe;Gewicht\n1,5;2\n;4\n", encoding="utf-8")
    (tmp_path / "west.csv").write_text("Gewicht,Größe\n6,5.5\n", encoding="cp1252")
    files = {"north": tmp_path / "north.csv", "west": tmp_path / "west.csv"}
    own = {"west": {"sep": ",", "decimal": ".", "encoding": "cp1252"}}
    options = {"sep": ";", "decimal": ",", "gaps": True, "columns": ["Größe", "Gewicht"]}
    silos = destiny.Silos(files, csv=own, **options)
    np.testing.assert_array_equal(silos["north"], [[1.5, 2], [np.nan, 4]])
    np.testing.assert_array_equal(silos["west"], [[5.5, 6]])
    layouts = {name: Csv(sep=";", decimal=",", gaps=True) for name in files} | {
        "west": Csv(encoding="cp1252")
    }
    assert destiny.Silos(files, csv=layouts, columns=["Größe"]).shape == (3, 1)
    for changes, why in (
        ({"csv": {}}, r'west.csv must be text in UTF-8; found byte 0xf6, .*set encoding = "cp1252"'),
        (
            {"csv": {"west": {"encoding": "cp1252"}}},
            r'west.csv must hold numbers .*set sep = "," and decimal',
        ),
        ({"csv": {"vest": {}}}, "csv must be by party: north, west; found 'vest'"),
        ({"csv": {"west": {"seperator": ","}}}, "settings of .csv files are .* found 'seperator'"),
        ({"dezimal": ","}, "found 'dezimal': did you mean 'decimal'"),
        ({"csv": Csv()}, "given as csv or by its settings; found csv and sep, decimal, gaps"),
        ({"csv": ";"}, "csv must be destiny.problems.data.Csv.* found str"),
        ({"encoding": "klingon"}, "encoding must be a name such as .* found 'klingon'"),
    ):
        with pytest.raises(ProblemError, match=why):
            destiny.Silos(files, **{"csv": own, **options, **changes})
    with pytest.raises(ProblemError, match=r"found one name, '\*.csv': give sorted\(glob.glob\('\*.csv'\)\)"):
        destiny.Silos("*.csv")


def test_adding_up_repeated_entries_of_a_block_leaves_the_rows_alone():
    expected = np.arange(1.0, 25.0).reshape(6, 4)
    columns = np.tile([0, 0, 1, 1, 2, 2, 3, 3], 6)  # every entry as two halves
    rows = sparse.csr_array((np.repeat(expected.ravel() / 2, 2), columns, range(0, 49, 8)))
    for part, block in row_blocks(rows):
        block.sum_duplicates()
        np.testing.assert_array_equal(block.toarray(), expected[part])
    np.testing.assert_array_equal(rows.toarray(), expected)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_data_whose_squares_vanish_are_refused(kind):
    tiny = [kind(1e-100 * table) for table in TABLES]
    with pytest.raises(ProblemError, match=r"must reach 1e-40 in magnitude.*use other units"):
        destiny.Silos(tiny)
    with pytest.raises(ProblemError, match=r"must reach 1e-40 in magnitude.*use other units"):
        destiny.solve(PCA([np.asarray(1e-100 * t) for t in TABLES], p=2), destiny.networks.complete(3))
    assert destiny.Silos([kind(0 * table) for table in TABLES]).parts  # nothing but zeros is no mistake
