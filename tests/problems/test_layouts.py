"""Tables as pandas, pyarrow, R and Excel write them: read as they were written, or refused in words."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import destiny
from destiny.config.problem import ExperimentProblem, build_problem
from destiny.config.tables import read
from destiny.errors import DestinyError, ProblemError

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet files need pyarrow")

TABLE = pd.DataFrame({"age": [61.5, 48.0, 70.25], "bmi": [27.1, 31.0, 22.4], "visits": [1200, 15, 31000]})
OTHER = pd.DataFrame({"age": [33.5, 80.0], "bmi": [19.5, 24.0], "visits": [7, 2400]})
IDS = TABLE.assign(id=["P1", "P2", "P3"])[["id", *TABLE.columns]]
WARDS = TABLE.assign(ward=["A", "B", "A"])
GAPS = TABLE.assign(bmi=[27.1, np.nan, 22.4])
NUMBERED = TABLE.assign(patient_id=[204, 17, 1003])[["patient_id", *TABLE.columns]]
TWICE = NUMBERED.assign(patient_id=[204, 17, 204])
COUNTED = TABLE.assign(row=[41, 42, 43])[["row", *TABLE.columns]]
VISITS = TABLE[["visits", "age", "bmi"]]
SPECTRA = pd.DataFrame([[0.11, 0.25, 0.13], [0.21, 0.14, 0.17]])


@dataclass(frozen=True)
class Layout:
    """Files of some parties, the settings to read them, and what must come of it."""

    files: dict[str, bytes | Callable[[Path], object]]
    """Contents, or what writes them, by name."""
    settings: dict[str, Any] = field(default_factory=dict)
    tables: list[Any] | None = None
    """The tables that were written, one for each party; None if they are refused."""
    refused: str = ""
    """Words of the refusal."""
    labels: list[Any] | None = None
    note: str = ""
    """Words of the warning."""


def to_csv(frame: Any, **options: Any) -> Callable[[Path], object]:
    options = {"index": False} | options
    return lambda path: frame.to_csv(path, **options)


def to_parquet(frame: Any, **options: Any) -> Callable[[Path], object]:
    return lambda path: frame.to_parquet(path, **options)


def arrow(columns: dict[str, Any]) -> Callable[[Path], object]:
    return lambda path: parquet.write_table(pa.table(columns), path)


def excel(rows: list[list[Any]], **options: Any) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, "excel", **options).writerows(rows)

    return write


def reads(writer: Any, table: Any = TABLE, name: str = "a.csv", **settings: Any) -> Layout:
    return Layout({name: writer}, settings, [table])


def refuses(writer: Any, words: str, name: str = "a.csv", **settings: Any) -> Layout:
    return Layout({name: writer}, settings, refused=words)


def two(one: Any, other: Any, tables: Any = None, refused: str = "", **settings: Any) -> Layout:
    return Layout({"a.csv": one, "b.csv": other}, settings, tables, refused)


def labeled(writer: Any, labels: list[Any], table: Any = TABLE, name: str = "a.csv", **more: Any) -> Layout:
    return Layout({name: writer}, {"labels": "ward"} | more, [table], labels=labels)


LISTS = [list(TABLE.columns), *TABLE.to_numpy().tolist()]
R = b'"","age","bmi","visits"\n"1",61.5,27.1,1200\n"2",48,31,15\n"3",70.25,22.4,31000\n'
R_BARE = b'"age","bmi","visits"\n61.5,27.1,1200\n48,31,15\n70.25,22.4,31000\n'
R_CSV2 = b'"";"age";"bmi";"visits"\n"1";61,5;27,1;1200\n"2";48;31;15\n"3";70,25;22,4;31000\n'
R_TABLE = b'"age" "bmi" "visits"\n"1" 61.5 27.1 1200\n"2" 48 31 15\n"3" 70.25 22.4 31000\n'
R_TABLE_BARE = R_TABLE.replace(b'"1" ', b"").replace(b'"2" ', b"").replace(b'"3" ', b"")
READR = b"age,bmi,visits\n61.5,27.1,1200\n48,31,15\n70.25,22.4,31000\n"
GERMAN = b"age;bmi;visits\r\n61,5;27,1;1200\r\n48;31;15\r\n70,25;22,4;31000\r\n"
THOUSANDS = b"age;bmi;visits\r\n61,5;27,1;1.200\r\n48,0;31,0;15\r\n70,25;22,4;31.000\r\n"
SHEETS = b'age,bmi,visits\r\n"61,5","27,1",1200\r\n48,31,15\r\n"70,25","22,4",31000\r\n'
UNITED = b'age,bmi,visits\r\n61.5,27.1,"1,200"\r\n48,31,15\r\n70.25,22.4,"31,000"\r\n'
UNICODE = "\ufeff" + GERMAN.decode().replace(";", "\t").replace(",", ".")
NUMBERS: dict[str, Any] = {"header": False}
EUROPE: dict[str, Any] = {"sep": ";", "decimal": ","}
WARD = to_csv(WARDS)


def wards(values: list[Any], dtype: Any = None) -> Any:
    return TABLE.assign(ward=pd.array(values, dtype) if dtype else values)


def header(names: list[Any], frame: Any = SPECTRA) -> Any:
    return frame.set_axis(names, axis=1)


def beside(*extra: str, end: bytes = b"\n") -> bytes:
    """TABLE with a column more, as text."""
    lines = READR.split(b"\n")[:4]
    return end.join(line + b"," + text.encode() for line, text in zip(lines, extra, strict=True)) + end


LAYOUTS = {
    # pandas, to_csv
    "pandas": reads(to_csv(TABLE)),
    "pandas, index": refuses(to_csv(TABLE, index=True), "index = 0"),
    "pandas, index, told": reads(to_csv(TABLE, index=True), index=0),
    "pandas, named index": reads(to_csv(IDS.set_index("id"), index=True), index="id"),
    "pandas, named index, not told": refuses(to_csv(IDS.set_index("id"), index=True), 'index = "id"'),
    "pandas, two indices": reads(
        to_csv(IDS.assign(day=[1, 1, 2]).set_index(["id", "day"]), index=True), index=["id", "day"]
    ),
    "pandas, index read and written": refuses(to_csv(TABLE.reset_index(names="Unnamed: 0")), "index = 0"),
    "pandas, columns without names": refuses(to_csv(SPECTRA), "header"),
    "pandas, columns without names, told": reads(to_csv(SPECTRA), SPECTRA, header=True),
    "pandas, columns without names, index": reads(to_csv(SPECTRA, index=True), SPECTRA, index=0),
    "pandas, no header": refuses(to_csv(TABLE, header=False), "header = false"),
    "pandas, no header, told": reads(to_csv(TABLE, header=False), **NUMBERS),
    "pandas, index and no header": refuses(to_csv(TABLE, index=True, header=False), "header"),
    "pandas, index and no header, told": reads(to_csv(TABLE, index=True, header=False), index=0, **NUMBERS),
    "pandas, semicolons": refuses(to_csv(TABLE, sep=";"), 'sep = ";"'),
    "pandas, semicolons, told": reads(to_csv(TABLE, sep=";"), sep=";"),
    "pandas, decimal commas": refuses(to_csv(TABLE, sep=";", decimal=","), 'decimal = ","'),
    "pandas, decimal commas, told": reads(to_csv(TABLE, sep=";", decimal=","), **EUROPE),
    "pandas, decimal commas between commas": reads(to_csv(TABLE, decimal=","), decimal=","),
    "pandas, all quoted": reads(to_csv(TABLE, quoting=csv.QUOTE_ALL)),
    "pandas, all quoted, no header": refuses(to_csv(TABLE, quoting=csv.QUOTE_ALL, header=False), "header"),
    "pandas, tabs": reads(to_csv(TABLE, sep="\t"), name="a.tsv"),
    "pandas, tabs in .txt": refuses(to_csv(TABLE, sep="\t"), r'sep = "\\t"', name="a.txt"),
    "pandas, commas in .txt": reads(to_csv(TABLE), name="a.txt"),
    "pandas, commas in .tsv": refuses(to_csv(TABLE), 'sep = ","', name="a.tsv"),
    "pandas, compressed": reads(to_csv(TABLE), name="a.csv.gz"),
    "pandas, compressed tabs": reads(to_csv(TABLE, sep="\t"), name="a.tsv.gz"),
    "pandas, exponents": reads(to_csv(TABLE, float_format="%.6e")),
    "pandas, byte order mark": reads(to_csv(TABLE, encoding="utf-8-sig")),
    "pandas, UTF-16": reads(to_csv(TABLE.rename(columns={"age": "größe"}), encoding="utf-16")),
    "pandas, UTF-16 without a mark": refuses(to_csv(TABLE, encoding="utf-16-le"), "utf-16-le"),
    "pandas, UTF-16 without a mark, told": reads(to_csv(TABLE, encoding="utf-16-le"), encoding="utf-16-le"),
    "pandas, cp1252": refuses(to_csv(TABLE.rename(columns={"age": "größe"}), encoding="cp1252"), "cp1252"),
    "pandas, cp1252, told": reads(
        to_csv(TABLE.rename(columns={"age": "größe"}), encoding="cp1252"), encoding="cp1252"
    ),
    "pandas, CRLF": reads(to_csv(TABLE, lineterminator="\r\n")),
    "pandas, CR": reads(to_csv(TABLE, lineterminator="\r")),
    "pandas, gap": refuses(to_csv(GAPS), "gaps"),
    "pandas, gap, told": reads(to_csv(GAPS), GAPS, gaps=True),
    "pandas, NaN": refuses(to_csv(GAPS, na_rep="NaN"), "'NaN' in line 3"),
    "pandas, <NA>": reads(to_csv(GAPS.astype({"bmi": "Float64"}), na_rep="<NA>"), GAPS, gaps=True),
    "pandas, None": reads(to_csv(GAPS, na_rep="None"), GAPS, gaps=True),
    "a dash": refuses(to_csv(GAPS, na_rep="-"), "na_values"),
    "a dash, told": reads(to_csv(GAPS, na_rep="-"), GAPS, gaps=True, na_values=["-"]),
    "-999, told": reads(to_csv(GAPS, na_rep="-999"), GAPS, gaps=True, na_values=["-999.0"]),
    "-999, told as a gap, not allowed": refuses(to_csv(GAPS, na_rep="-999"), "'-999'", na_values=["-999"]),
    "pandas, booleans": refuses(to_csv(TABLE.assign(sick=[True, False, True])), "'True' in line 2"),
    "pandas, dates": refuses(to_csv(TABLE.assign(day=pd.date_range("2024-01-01", periods=3))), "index"),
    "pandas, text": refuses(WARD, 'index = "ward"'),
    "pandas, text, columns chosen": reads(WARD, columns=["age", "bmi", "visits"]),
    "pandas, text with a line break": reads(
        to_csv(TABLE.assign(note=["a\nb", "c", 'd "e", f'])), index="note"
    ),
    "pandas, a name twice": refuses(to_csv(TABLE.set_axis(["age", "bmi", "age"], axis=1)), "'age' 2 times"),
    "pandas, a name twice elsewhere": reads(
        to_csv(TABLE.assign(x=1, y=2).set_axis(["age", "bmi", "visits", "x", "x"], axis=1)),
        columns=["age", "bmi", "visits"],
    ),
    # Headers of numbers
    "years": refuses(to_csv(header([1990, 1995, 2000])), "header"),
    "years, told": reads(to_csv(header([1990, 1995, 2000])), SPECTRA, header=True),
    "minutes": refuses(to_csv(header([0, 30, 60])), "header"),
    "wavelengths": refuses(to_csv(header([400.5, 402.5, 404.5])), "header"),
    "falling wavenumbers": refuses(to_csv(header([4000, 3998, 3996])), "header"),
    "years between names": refuses(to_csv(header(["id", 1995, 2000])), "header"),
    "years beside row names": refuses(to_csv(header([1990, 1995, 2000]), index=True), "header", index=0),
    "years beside row names, told": reads(
        to_csv(header([1990, 1995, 2000]), index=True), SPECTRA, index=0, header=True
    ),
    "years by name": reads(to_csv(header([1990, 1995, 2000])), SPECTRA[[2, 0]], columns=["2000", "1990"]),
    "years at all parties": two(
        to_csv(header([1990, 1995, 2000])), to_csv(header([1990, 1995, 2000])), refused="header"
    ),
    # Whole numbers that are row labels
    "ids": Layout({"a.csv": to_csv(NUMBERED)}, {}, [NUMBERED], note='index = "patient_id" leaves it out'),
    "ids, told": reads(to_csv(NUMBERED), index="patient_id"),
    "ids, columns chosen": reads(to_csv(NUMBERED), columns=["age", "bmi", "visits"]),
    "ids in Parquet": Layout({"a.parquet": to_parquet(NUMBERED)}, {}, [NUMBERED], note="'patient_id'"),
    "ids at the end": Layout(
        {"a.csv": to_csv(TABLE.assign(ID=[5, 3, 9]))}, {}, [TABLE.assign(ID=[5, 3, 9])], note="'ID'"
    ),
    "ids, twice the same": reads(to_csv(TWICE), TWICE),
    "rows that are counted": Layout({"a.csv": to_csv(COUNTED)}, {}, [COUNTED], note="'row' counts the rows"),
    "whole numbers without a sign of ids": reads(to_csv(VISITS), VISITS),
    # Several parties
    "two parties": two(to_csv(TABLE), to_csv(OTHER), [TABLE, OTHER]),
    "another order": two(to_csv(TABLE), to_csv(OTHER[["bmi", "age", "visits"]]), refused="order"),
    "another order, told": two(
        to_csv(TABLE),
        to_csv(OTHER[["bmi", "age", "visits"]]),
        [TABLE, OTHER],
        columns=["age", "bmi", "visits"],
    ),
    "one header missing": two(to_csv(TABLE), to_csv(OTHER, header=False), refused="b.csv must say whether"),
    "one header missing, told": two(
        to_csv(TABLE), to_csv(OTHER, header=False), refused="header", csv={"b.csv": NUMBERS}
    ),
    "the first header missing, told": two(
        to_csv(TABLE, header=False), to_csv(OTHER), refused="header", csv={"a.csv": NUMBERS}
    ),
    "no header anywhere": two(
        to_csv(TABLE, header=False), to_csv(OTHER, header=False), [TABLE, OTHER], **NUMBERS
    ),
    "a column more": two(to_csv(TABLE), to_csv(OTHER.assign(x=1)), refused="4|x"),
    "ids in another order": two(
        to_csv(IDS),
        to_csv(IDS[["id"]].assign(sugar=[1.0, 2.0, 3.0])[::-1]),
        refused="'P3' instead of 'P1' in row 0",
        index="id",
        split="columns",
    ),
    "ids in the same order": two(
        to_csv(IDS),
        to_csv(IDS[["id"]].assign(sugar=[1.0, 2.0, 3.0])),
        [TABLE, pd.DataFrame({"sugar": [1.0, 2.0, 3.0]})],
        index="id",
        split="columns",
    ),
    "ids 1 and 1.0": two(
        to_csv(TABLE.assign(id=[1, 2, 3])),
        to_csv(pd.DataFrame({"id": [1.0, 2.0, 3.0], "sugar": [1.0, 2.0, 3.0]})),
        [TABLE, pd.DataFrame({"sugar": [1.0, 2.0, 3.0]})],
        index="id",
        split="columns",
    ),
    "a hole in rows joined by order": two(
        to_csv(TABLE), b"x,y\n1,2\n,\n3,4\n5,6\n", refused="line 3", split="columns"
    ),
    # R
    "R, write.csv": refuses(R, "index = 0"),
    "R, write.csv, told": reads(R, index=0),
    "R, write.csv, no row names": reads(R_BARE),
    "R, write.csv2": refuses(R_CSV2, 'decimal = ","'),
    "R, write.csv2, told": reads(R_CSV2, index=0, **EUROPE),
    "R, write.table": refuses(R_TABLE, 'write.table .* set sep = " " and index = 0', name="a.txt"),
    "R, write.table, separator told": refuses(R_TABLE, "write.table .* set index = 0", name="a.txt", sep=" "),
    "R, write.table, tabs": refuses(
        R_TABLE.replace(b" ", b"\t"), r'write.table .* set sep = "\\t" and index = 0', name="a.txt"
    ),
    "R, write.table, German": refuses(
        R_TABLE.replace(b" ", b";").replace(b".", b","), 'sep = ";" and index = 0 and decimal = ","'
    ),
    "R, write.table, told": reads(R_TABLE, name="a.txt", sep=" ", index=0),
    "R, write.table, no row names": reads(R_TABLE_BARE, name="a.txt", sep=" "),
    "R, write.table, commas": refuses(R_TABLE.replace(b" ", b","), "write.table .* set index = 0"),
    "R, write.table, commas, told": reads(R_TABLE.replace(b" ", b","), index=0),
    "R, write.table, no names": refuses(R_TABLE_BARE.split(b"\n", 1)[1], "header", sep=" "),
    "R, a matrix": refuses(b'"1","2","3"\n0.11,0.25,0.13\n0.21,0.14,0.17\n', "header"),
    "R, a matrix without names": reads(b'"V1","V2","V3"\n0.11,0.25,0.13\n0.21,0.14,0.17\n', SPECTRA),
    "R, NA": refuses(R_BARE.replace(b"31,", b"NA,"), "'NA' in line 3"),
    "R, NA, told": reads(R_BARE.replace(b"31,", b"NA,"), GAPS, gaps=True),
    "R, Inf": refuses(R_BARE.replace(b"31,", b"Inf,"), "finite"),
    "readr, write_csv": reads(READR),
    "readr, write_excel_csv": reads(b"\xef\xbb\xbf" + READR),
    "readr, write_csv2": reads(GERMAN.replace(b"\r", b""), **EUROPE),
    "readr, write_tsv": reads(READR.replace(b",", b"\t"), name="a.tsv"),
    "readr, write_delim": reads(READR.replace(b",", b" "), name="a.txt", sep=" "),
    # Excel
    "Excel": reads(excel(LISTS)),
    "Excel, UTF-8": reads(b"\xef\xbb\xbf" + GERMAN, **EUROPE),
    "Excel, German": refuses(GERMAN, 'sep = ";" and decimal = ","'),
    "Excel, German, told": reads(GERMAN, **EUROPE),
    "Excel, sep=": reads(b"sep=;\r\n" + GERMAN, decimal=","),
    "Excel, thousands": refuses(THOUSANDS, 'thousands = "."', **EUROPE),
    "Excel, thousands, told": reads(THOUSANDS, thousands=".", **EUROPE),
    "Excel, US thousands": refuses(UNITED, 'thousands = ","'),
    "Excel, US thousands, told": reads(UNITED, thousands=","),
    "thousands that are none": refuses(UNITED.replace(b"1,200", b"1,20"), "'1,20'", thousands=","),
    "Swiss thousands": reads(
        UNITED.replace(b'"1,200"', b"1'200").replace(b'"31,000"', b"31'000"), thousands="'"
    ),
    "French thousands": reads(THOUSANDS.decode().replace(".", "\u202f").encode(), thousands=" ", **EUROPE),
    "Google Sheets, German": refuses(SHEETS, 'decimal = ","'),
    "Google Sheets, German, told": reads(SHEETS, decimal=","),
    "decimal commas, no separator told": refuses(GERMAN, 'sep = ";"', decimal=","),
    "Excel, Unicode text": reads(UNICODE.encode("utf-16-le"), name="a.tsv"),
    "Excel, Unicode text, big-endian": reads(UNICODE.encode("utf-16-be"), name="a.tsv"),
    "Excel, rows of separators": Layout(
        {"a.csv": READR + b",,\r\n,,\r\n"},
        {},
        [TABLE],
        note="rows without any entry are left out: 2, the first in line",
    ),
    "Excel, rows of separators with gaps": Layout(
        {"a.csv": GERMAN + b";;\r\n" * 3},
        EUROPE | {"gaps": True},
        [TABLE],
        note="rows without any entry are left out: 3, the first in line",
    ),
    "Excel, rows of separators among others": Layout(
        {"a.csv": excel([*LISTS[:2], ["", "", ""], *LISTS[2:]])}, {}, [TABLE], note="the first in line 3"
    ),
    "Excel, quoted rows without entry": Layout(
        {"a.csv": READR + b'"","",""\n'},
        {},
        [TABLE],
        note="rows without any entry are left out: 1, the first in line",
    ),
    "Excel, empty rows above": reads(b",,\n" + READR),
    "blank lines": reads(READR.replace(b"\n", b"\n\n")),
    "Excel, an empty column": refuses(beside("", "", "", ""), "none for column 3"),
    "Excel, an empty column, columns chosen": reads(beside("", "", "", ""), columns=["age", "bmi", "visits"]),
    "separators at the end of the lines below": refuses(
        READR.replace(b"00\n", b"00,\n").replace(b"15\n", b"15,\n"), "remove the commas at the end"
    ),
    "a title": refuses(b"LIS export\n" + READR, "skiprows = 1"),
    "a title, told": reads(b"LIS export\n" + READR, skiprows=1),
    "a title with separators": refuses(b"LIS export,,\n" + READR, "skiprows"),
    "a title and a blank line": refuses(b"LIS export\n\n" + READR, "skiprows = 2"),
    "a title and a blank line, told": reads(b"LIS export\n\n" + READR, skiprows=2),
    "a title above semicolons": refuses(b"LIS export\r\n" + GERMAN, "skiprows = 1"),
    "a title above two columns": refuses(b"Export\n12,5\n13,7\n", "skiprows = 1 .* or sep"),
    "a unit below the header": refuses(READR.replace(b"visits\n", b"visits\ny,kg,1\n"), "'y' in line 2"),
    "one column with decimal commas": refuses(b"x\n1,5\n2,5\n", 'sep = ";" and decimal = ","'),
    "one column with decimal commas, told": reads(
        b"x\n1,5\n2,5\n", pd.DataFrame({"x": [1.5, 2.5]}), **EUROPE
    ),
    "underscores": refuses(b"x,y\n1_000,2\n", "'1_000'"),
    "an empty file": refuses(b"\n\n", "blank lines"),
    "nothing below the lines to skip": refuses(READR, "correct skiprows", skiprows=9),
    "spreadsheets": refuses(b"PK\x03\x04", "one of .*csv", name="a.xlsx"),
    # Parquet
    "Parquet": reads(to_parquet(TABLE), name="a.parquet"),
    "Parquet, rows chosen": reads(to_parquet(TABLE.iloc[[2, 0, 1]]), TABLE.iloc[[2, 0, 1]], "a.parquet"),
    "Parquet, named index": reads(to_parquet(IDS.set_index("id")), name="a.parquet"),
    "Parquet, no index": reads(to_parquet(TABLE, index=False), name="a.parquet"),
    "Parquet, two indices": reads(
        to_parquet(IDS.assign(day=[1, 1, 2]).set_index(["id", "day"])), name="a.parquet"
    ),
    "Parquet, pyarrow": reads(arrow({"age": [1.5, 2.5]}), pd.DataFrame({"age": [1.5, 2.5]}), "a.parquet"),
    "Parquet, gaps": reads(to_parquet(GAPS), GAPS, "a.parquet"),
    "Parquet, text": refuses(to_parquet(IDS), "'id'", name="a.parquet"),
    "Parquet, ids in another order": Layout(
        {
            "a.parquet": to_parquet(IDS.set_index("id")),
            "b.parquet": to_parquet(IDS[["id"]].assign(sugar=[1.0, 2.0, 3.0]).set_index("id")[::-1]),
        },
        {"split": "columns"},
        refused="'P3' instead of 'P1' in row 0",
    ),
    # Labels
    "labels": labeled(WARD, ["A", "B", "A"]),
    "labels beside an index": labeled(to_csv(WARDS, index=True), ["A", "B", "A"], index=0),
    "labels beside R's row names": labeled(
        R_TABLE.replace(b'visits"', b'visits" "ward"')
        .replace(b"00\n", b'00 "A"\n')
        .replace(b"15\n", b'15 "B"\n'),
        ["A", "B", "A"],
        name="a.txt",
        sep=" ",
        index=0,
    ),
    "labels beside names that nobody asked for": labeled(
        to_csv(WARDS.assign(x="?", y="?").set_axis(["age", "bmi", "visits", "ward", "x", "x"], axis=1)),
        ["A", "B", "A"],
        columns=["age", "bmi", "visits"],
    ),
    "labels of numbers": labeled(to_csv(wards([1, 2, 1])), [1, 2, 1]),
    "labels 1.0": labeled(to_csv(wards([1.0, 2.0, 1.0])), [1, 2, 1]),
    "labels with decimal commas": labeled(
        to_csv(wards([3.5, 2.25, 1.0]), sep=";", decimal=","), [3.5, 2.25, 1.0], **EUROPE
    ),
    "labels with points, decimal commas told": refuses(
        GERMAN.replace(b"visits\r\n", b"visits;ward\r\n")
        .replace(b"00\r\n", b"00;1.200\r\n")
        .replace(b"15\r\n", b"15;2.500\r\n"),
        'thousands = "."',
        labels="ward",
        **EUROPE,
    ),
    "labels NA": refuses(to_csv(wards(["A", "NA", "B"])), "'?NA'?|none in row 1", labels="ward"),
    "labels None": refuses(to_csv(wards(["A", "None", "B"])), "row 1", labels="ward"),
    "labels nan": refuses(to_csv(wards([1.0, np.nan, 2.0]), na_rep="nan"), "row 1", labels="ward"),
    "labels empty": refuses(to_csv(wards(["A", None, "B"])), "none in row 1", labels="ward"),
    "labels in na_values": refuses(
        to_csv(wards(["A", "unknown", "B"])), "none in row 1", labels="ward", na_values=["unknown"]
    ),
    "labels of many digits": labeled(
        beside("ward", *("12345678901234567890", "12345678901234567891", "1")),
        ["12345678901234567890", "12345678901234567891", "1"],
    ),
    "labels among the features": refuses(
        to_csv(wards([1, 2, 1])), "no feature", labels="ward", columns=["age", "ward"]
    ),
    "labels True": labeled(to_csv(wards([True, False, True])), [True, False, True]),
    "labels TRUE, as R writes": labeled(beside("ward", "TRUE", "FALSE", "TRUE"), [True, False, True]),
    "labels, category": labeled(
        to_parquet(wards(["A", "B", "A"], "category")), ["A", "B", "A"], name="a.parquet"
    ),
    "labels, category with a gap": refuses(
        to_parquet(wards(["A", None, "B"], "category")), "none in row 1", "a.parquet", labels="ward"
    ),
    "labels, text with a gap": refuses(
        to_parquet(wards(["A", None, "B"])), "none in row 1", "a.parquet", labels="ward"
    ),
    "labels, Int64": labeled(to_parquet(wards([1, 2, 1], "Int64")), [1, 2, 1], name="a.parquet"),
    "labels, Int64 with a gap": refuses(
        to_parquet(wards([1, None, 2], "Int64")), "none in row 1", "a.parquet", labels="ward"
    ),
    "labels, boolean": labeled(
        to_parquet(wards([True, False, True], "boolean")), [True, False, True], name="a.parquet"
    ),
    "labels, boolean with a gap": refuses(
        to_parquet(wards([True, None, False], "boolean")), "none in row 1", "a.parquet", labels="ward"
    ),
    "labels, float with a gap": refuses(
        to_parquet(wards([1.0, None, 2.0])), "none in row 1", "a.parquet", labels="ward"
    ),
    "labels 1 and 1.0": Layout(
        {"a.csv": to_csv(wards([1, 2, 1])), "b.csv": to_csv(wards([1.0, 2.0, 1.0]))},
        {"labels": "ward"},
        [TABLE, TABLE],
        labels=[1, 2, 1, 1, 2, 1],
    ),
    "labels 1 and 1.0 beside text": Layout(
        {"a.csv": to_csv(wards([1, 2, 1])), "b.csv": to_csv(wards(["1.0", "2.0", "other"]))},
        {"labels": "ward"},
        [TABLE, TABLE],
        labels=["1", "2", "1", "1", "2", "other"],
    ),
    "labels 1 in .csv and 1.0 in .parquet": Layout(
        {"a.csv": to_csv(wards([1, 2, 1])), "b.parquet": to_parquet(wards([1.0, 2.0, 1.0]))},
        {"labels": "ward"},
        [TABLE, TABLE],
        labels=[1, 2, 1, 1, 2, 1],
    ),
    "labels True and TRUE": Layout(
        {"a.csv": to_csv(wards([True, False, True])), "b.csv": beside("ward", "TRUE", "FALSE", "TRUE")},
        {"labels": "ward"},
        [TABLE, TABLE],
        labels=[True, False, True] * 2,
    ),
    "labels TRUE and 1": two(
        beside("ward", "TRUE", "FALSE", "TRUE"), to_csv(wards([1, 0, 1])), refused="alike", labels="ward"
    ),
    "labels yes and Yes": two(
        to_csv(wards(["yes", "no", "no"])),
        to_csv(wards(["Yes", "No", "No"])),
        refused="spelled alike",
        labels="ward",
    ),
    "labels a and A at one party": two(
        to_csv(wards(["a", "A", "a"])), to_csv(wards(["a", "a", "a"])), [TABLE, TABLE], labels="ward"
    ),
    "labels and rows of separators": Layout(
        {"a.csv": beside("ward", "A", "B", "A") + b",,,\n"},
        {"labels": "ward"},
        [TABLE],
        labels=["A", "B", "A"],
        note="rows without any entry are left out: 1, the first in line",
    ),
}


def write(folder: Path, files: dict[str, Any]) -> list[Path]:
    for name, content in files.items():
        (folder / name).write_bytes(content) if isinstance(content, bytes) else content(folder / name)
    return [folder / name for name in files]


def by_experiment(files: list[Path], settings: dict[str, Any]) -> list[Any]:
    """The same tables as an experiment file reads them."""
    table = {"kind": "pca", "p": 1, "agents": len(files), "samples": "rows"}
    table |= {"data": [file.name for file in files]}
    table |= {key.replace("_", "-"): value for key, value in settings.items()}
    asked = read(ExperimentProblem, table, "[problem]")
    problem: Any = build_problem(asked, asked.agents, files[0].parent)
    problem.host(range(problem.agents))
    return [problem.data.load(agent).table for agent in range(problem.agents)]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_table_is_read_as_it_was_written_or_refused(tmp_path, name):
    layout = LAYOUTS[name]
    files, settings = write(tmp_path, layout.files), layout.settings
    also_experiment = not settings.keys() & {"labels", "gaps", "split", "csv"}
    if layout.tables is None:
        with pytest.raises(ProblemError, match=layout.refused) as caught:
            destiny.Silos(files, **settings)
        assert "\n" not in str(caught.value)
        if also_experiment:
            with pytest.raises(DestinyError, match=layout.refused):
                by_experiment(files, settings)
        return
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        silos = destiny.Silos(files, **settings)
        found = [list(silos)]
        if also_experiment and not silos.gaps:
            found.append(by_experiment(files, settings))
    for tables in found:
        for part, table in zip(tables, layout.tables, strict=True):
            np.testing.assert_allclose(part, table.to_numpy(float), rtol=1e-6)
    if layout.labels is not None:
        assert np.asarray(silos.labels).tolist() == layout.labels
    assert bool(notes) == bool(layout.note)
    assert all(layout.note in str(note.message) for note in notes)
