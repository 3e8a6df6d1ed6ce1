"""Tables in .csv files: what is read from them, and the sentence about those that cannot be used."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from destiny import agents, networks, solve
from destiny.agents import scaffold
from destiny.config import tables
from destiny.config.problem import ExperimentProblem, build_problem
from destiny.engines.same_settings import columns_of, difference
from destiny.errors import DestinyError, ProblemError
from destiny.experiments import result_folder
from destiny.problems import PCA
from destiny.problems.cached import CachedProblem
from destiny.problems.data import files as data
from destiny.problems.data.csv import guess_keys
from destiny.problems.data.csv_layout import Csv
from tests.helpers.agent_party import Party

ROWS = np.array([[1.5, 2.0, 3.0], [4.0, 5.25, 6.0], [7.0, 8.0, 10.0], [0.5, 1.0, 2.0]])
PLAIN = "a,b,c\n1.5,2,3\n4,5.25,6\n7,8,10\n0.5,1,2\n"
SWAPPED = "b,a,c\n2,1.5,3\n5.25,4,6\n8,7,10\n1,0.5,2\n"
GERMAN = "a;b;c\n1,5;2;3\n4;5,25;6\n7;8;10\n0,5;1;2\n"
PANDAS = ",a,b,c\n0,1.5,2,3\n1,4,5.25,6\n2,7,8,10\n3,0.5,1,2\n"
UNNAMED = "0,1,2\n1.5,2,3\n4,5.25,6\n7,8,10\n0.5,1,2\n"
PATIENTS = 'id,a,b,c\n"Doe, J",1.5,2,3\nRoe,4,5.25,6\nPoe,7,8,10\nLoe,0.5,1,2\n'


def write(folder: Path, files: dict[str, str]) -> None:
    """Files with these contents, compressed if they are named so."""
    for name, text in files.items():
        content = text.encode()
        (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)


def read(folder: Path, files: dict[str, str], **keys: Any) -> Any:
    """The problem of an experiment file with these keys, its data loaded."""
    write(folder, files)
    table = {"kind": "pca", "data": "s{agent}.csv", "samples": "rows", "p": 2, "agents": 2} | keys
    given = {k: v for k, v in table.items() if v is not None}
    asked = tables.read(ExperimentProblem, given, "[problem]")
    problem = build_problem(asked, asked.agents, folder)
    problem.host(range(problem.agents))
    return problem


def both(text: str) -> dict[str, str]:
    return {"s0.csv": text, "s1.csv": text}


READ = {
    "a header": (both(PLAIN), {}),
    "no header": (both(PLAIN.partition("\n")[2]), {"header": False}),
    "a comment as header": (both("# " + PLAIN), {}),
    "numbers as header": (both(UNNAMED), {"header": True}),
    "numbers that are none": (both("0,1,2\n1.5,2,3\n"), {"header": False}),
    "quoted": (both(PLAIN.replace("a,b,c", '"a","b","c"').replace("4,", '"4",')), {}),
    "semicolons and decimal commas": (both(GERMAN), {"sep": ";", "decimal": ","}),
    "decimal commas, no header": (
        both(GERMAN[6:].replace(";2;3", ";2,0;3,0")),
        {"sep": ";", "decimal": ",", "header": False},
    ),
    "points in a column left out": (
        both(GERMAN.replace("\n", ";01.02.2024\n").replace("c;01.02.2024", "c;day")),
        {"sep": ";", "decimal": ",", "index": "day"},
    ),
    "Excel's line with the separator": (both("sep=;\n" + GERMAN), {"sep": ";", "decimal": ","}),
    "tabs": (both(PLAIN.replace(",", "\t")), {"sep": "\t"}),
    "spaces": (both(PLAIN.replace(",", " ")), {"sep": " "}),
    "bars": (both(PLAIN.replace(",", "|")), {"sep": "|"}),
    "an index by its number": (both(PANDAS), {"index": 0}),
    "an index of columns without names": (both(PANDAS.replace("a,b,c", "0,1,2")), {"index": 0}),
    "an index by its name": (both(PATIENTS), {"index": "id"}),
    "columns in one order": ({"s0.csv": PLAIN, "s1.csv": SWAPPED}, {"columns": ["a", "b", "c"]}),
    "columns of tables with more": ({"s0.csv": PLAIN, "s1.csv": PATIENTS}, {"columns": ["a", "b", "c"]}),
    "compressed": ({"s0.csv.gz": PLAIN, "s1.csv.gz": PLAIN}, {"data": "s{agent}.csv.gz"}),
    "a list": ({"x.csv": PLAIN, "y.csv": PLAIN, "z.csv": "?"}, {"data": ["y.csv", "x.csv"]}),
    "a list of two kinds": ({"x.csv": PLAIN, "y.csv.gz": PLAIN}, {"data": ["x.csv", "y.csv.gz"]}),
}


@pytest.mark.parametrize("case", READ)
def test_what_is_read(tmp_path, case):
    files, keys = READ[case]
    problem = read(tmp_path, files, **keys)
    expected = {"numbers that are none": [[0, 1, 2], [1.5, 2, 3]]}.get(case, ROWS)
    for agent in range(2):
        np.testing.assert_array_equal(problem.data.load(agent).table, expected)


def test_columns_are_chosen_and_ordered(tmp_path):
    problem = read(tmp_path, both(PATIENTS), columns=["c", "a"])
    np.testing.assert_array_equal(problem.data.load(1).table, ROWS[:, [2, 0]])
    assert problem.column_names == {"data": ("c", "a")}


def test_one_file_for_all(tmp_path):
    problem = read(tmp_path, {"all.csv": PATIENTS}, data="all.csv", index=0, header=True)
    np.testing.assert_array_equal(problem.data.load(1).table, ROWS[2:])
    assert problem.column_names == {"data": ("a", "b", "c")}


def test_samples_may_be_named_columns(tmp_path):
    """Their names differ from agent to agent, and may come twice."""
    files = {"s0.csv": "tumor,tumor\n1,2\n3,4\n", "s1.csv": "healthy,other\n1,2\n3,4\n"}
    problem = read(tmp_path, files, samples="columns", p=1)
    np.testing.assert_array_equal(problem.data.load(0).table, [[1, 3], [2, 4]])
    assert problem.column_names == {}


NUMBERS = {"p": 1}
REFUSED = {
    # Headers that differ
    "columns in another order": (
        {"s0.csv": PLAIN, "s1.csv": SWAPPED},
        {},
        "agent 1's data (s1.csv) must have the columns of agent 0's data (s0.csv), in the same order; "
        "found 'b' instead of 'a' as column 0 (b, a, c instead of a, b, c); write the same header "
        "everywhere, or set columns = [...]",
    ),
    "other columns": (
        {"s0.csv": PLAIN, "s1.csv": PLAIN.replace("c\n", "d\n")},
        {},
        "found 'd' instead of 'c' as column 2",
    ),
    "fewer columns": ({"s0.csv": PLAIN, "s1.csv": "a,b\n1,2\n"}, {}, "found 2 columns instead of 3"),
    "one without a header": (
        {"s0.csv": PLAIN, "s1.csv": "4,5,6\n7,8,9\n"},
        {},
        "s1.csv must say whether its first line is a header; found 4, 5, 6 there",
    ),
    "one whose first line is taken for a header": (
        {"s0.csv": PLAIN, "s1.csv": "4,5,6\n7,8,9\n"},
        {"header": True},
        "found '4' instead of 'a' as column 0",
    ),
    # Headers in doubt
    "numbers from 0": (
        both(UNNAMED),
        {},
        "s0.csv must say whether its first line is a header; found 0, 1, 2 there; "
        "set header = true, or header = false if it is data",
    ),
    "quoted numbers": (
        both(PLAIN.replace("a,b,c", '"1","2","3"')),
        {},
        "set header = true, or header = false",
    ),
    "a row label and numbers": (
        both("x,2019,2020\nP1,1,2\nP2,3,4\n"),
        {"index": 0},
        "found 2019, 2020 there; set header = true",
    ),
    "a row without a label": (both(",2019,2020\nP1,1,2\nP2,3,4\n"), {}, "set header = true"),
    "some names, some numbers": (
        both("a,2\n3,4\n"),
        NUMBERS,
        "found 2 there; set header = true",
    ),
    "an index of pandas": (
        both(PANDAS),
        {},
        "s0.csv must name every column; found none for the first, as pandas writes for row labels; "
        "set index = 0 to leave it out",
    ),
    "an index of pandas, unnamed columns": (both(PANDAS.replace("a,b,c", "0,1,2")), {}, "set index = 0"),
    "an index of pandas, read and written": (both("Unnamed: 0" + PANDAS), {}, "set index = 0"),
    "an index, samples in columns": (both(PANDAS), {"samples": "columns"}, "set index = 0"),
    "samples forgotten": (
        both(PLAIN),
        {"samples": None},
        's0.csv must say what its lines are; found the header a, b, c; set samples = "rows" if each line '
        'is a sample, samples = "columns" if each is a feature',
    ),
    "samples forgotten, no header": (
        both("1,2\n3,4\n"),
        {"samples": None, "header": False},
        's0.csv must say what its lines are; found no header; set samples = "rows"',
    ),
    "samples of one file forgotten": (
        {"all.csv": PLAIN},
        {"data": "all.csv", "samples": None},
        'set samples = "rows" if each line is a sample',
    ),
    "a name twice": (
        both("a,b,a\n1,2,3\n4,5,6\n"),
        {},
        "s0.csv must give every column its own name; found the name 'a' 2 times; rename them, "
        "choose others with columns, or set skiprows if there are lines above the table",
    ),
    "a name missing": (both("a,b,\n1,2,3\n4,5,6\n"), {}, "found none for column 2; rename them"),
    "years": (
        both(PLAIN.replace("a,b,c", "2019,2020,2021")),
        {},
        "found 2019, 2020, 2021 there; set header = true, or header = false",
    ),
    # Another layout
    "points between thousands": (
        both("a;b;c\n1.234;5;6\n7;8;9\n"),
        {"sep": ";", "decimal": ","},
        'found points; set decimal = "." if they are decimal points, or thousands = "."',
    ),
    "a point between thousands further down": (
        both(GERMAN + 9 * "1,5;2;3\n" + "1.234;2;3\n"),
        {"sep": ";", "decimal": ","},
        "found '1.234' in line 15; set thousands = \".\"",
    ),
    "thousands and a decimal comma": (
        both(GERMAN + "1.234,5;2;3\n"),
        {"sep": ";", "decimal": ","},
        "found '1.234,5' in line 6; set thousands = \".\"",
    ),
    "a comma of either kind": (
        both(PLAIN + '"1,234",2,3\n'),
        {},
        'found \'1,234\' in line 6; set decimal = "," if it is a decimal comma, or thousands = ","',
    ),
    "lines above the table": (
        both("LIS export\n" + PLAIN),
        {},
        "found 1 in line 1 and 3 in line 2; set skiprows = 1",
    ),
    "semicolons": (
        both(PLAIN.replace(",", ";")),
        {},
        's0.csv must hold numbers separated by commas; found semicolons between them; set sep = ";"',
    ),
    "semicolons, samples forgotten": (both(PLAIN.replace(",", ";")), {"samples": None}, 'set sep = ";"'),
    "semicolons without a header": (both("1;2\n3;4\n"), {}, 'set sep = ";"'),
    "semicolons and decimal commas": (
        both(GERMAN),
        {},
        'found semicolons between them and decimal commas; set sep = ";" and decimal = ","',
    ),
    "decimal commas": (both(GERMAN), {"sep": ";"}, 'found decimal commas; set decimal = ","'),
    "one column with decimal commas": (
        both("x\n1,5\n2,5\n"),
        NUMBERS,
        "found 1 in line 1 and 2 in line 2; set skiprows = 1 if the table begins in line 2, or index = 0 if "
        'lines begin with row names, as R writes them, or sep = ";" and decimal = "," if they are decimal '
        "commas",
    ),
    "a decimal comma further down": (
        both("a;b;c\n" + "1;2;3\n" * 9 + "1,5;2;3\n"),
        {"sep": ";"},
        "found '1,5' in line 11; set decimal = \",\"",
    ),
    "tabs": (both(PLAIN.replace(",", "\t")), {}, 'found tabs between them; set sep = "\\t"'),
    "spaces": (both(PLAIN.replace(",", " ")), {}, 'found spaces between them; set sep = " "'),
    "commas": (
        both(PLAIN),
        {"sep": ";"},
        'separated by semicolons; found commas between them; set sep = ","',
    ),
    "a long line of text": (
        both("a,b,c\n1,2,3\n4,5," + 600 * "x"),
        {},
        f"found '{37 * 'x'}...' in line 3; correct it, or leave",
    ),
    "text in a column": (
        both(PATIENTS),
        {},
        "found 'Doe, J' in line 2; correct it, or leave the column out with index = \"id\" or columns",
    ),
    "text in a column without a header": (
        both("1,2,x\n3,4,y\n"),
        {"header": False},
        "leave the column out with index = 2",
    ),
    "a ragged line": (
        both(PLAIN + "1,2,3,4\n"),
        {"columns": ["a"], "p": 1},
        "must have 3 fields in every line; found 4 in line 6",
    ),
    # Files and agents
    "a file too many": (
        {**both(PLAIN), "s2.csv": PLAIN},
        {},
        "s{agent}.csv' must match one file per agent; found s2.csv, which none of the 2 agents takes "
        "(they are numbered from 0); set agents, or give a list of files",
    ),
    "numbers from 1": (
        {"s1.csv": PLAIN, "s2.csv": PLAIN},
        {},
        "found s2.csv, which none of the 2 agents takes",
    ),
    "a list too short": (
        {"s0.csv": PLAIN},
        {"data": ["s0.csv"]},
        "[problem] data must name a different file for each of the 2 agents; found ['s0.csv']",
    ),
    "a file twice": ({"s0.csv": PLAIN}, {"data": ["s0.csv"] * 2}, "name a different one for each"),
    "a list of numbers": ({}, {"data": [1, 2]}, "data must be a text or a list of texts; found [1, 2]"),
    "{i}": (both(PLAIN), {"data": "s{i}.csv"}, "write for example s{agent}.csv"),
    "a star": (both(PLAIN), {"data": "s*.csv"}, "write for example s{agent}.csv"),
    "%d": (both(PLAIN), {"data": "s%d.csv"}, "write for example s{agent}.csv"),
    # Keys
    "n_components": (both(PLAIN), {"n_components": 2}, "has no key 'n_components'; did you mean 'p'?"),
    "n_agents": (both(PLAIN), {"n_agents": 2}, "did you mean 'agents'?"),
    "delimiter": (both(PLAIN), {"delimiter": ";"}, "did you mean 'sep'?"),
    "sampels": (both(PLAIN), {"sampels": "rows"}, "did you mean 'samples'?"),
    "an unknown column": (
        both(PLAIN),
        {"columns": ["a", "age"]},
        "s0.csv must have one column 'age'; found a, b, c; correct columns",
    ),
    "a misspelled column": (
        both("weight,height\n1,2\n"),
        {"index": "heigth"},
        "found 'height'; correct index",
    ),
    "an index too far": (both(PLAIN), {"index": 3}, "must have a column 3, counted from 0, to leave out"),
    "nothing but an index": (both("a\n1\n"), {"index": 0}, "must have columns besides its index"),
    "nothing but an index, no header": (both("2\n1\n"), {"index": 0}, "must have columns besides"),
    "a negative index": (both(PLAIN), {"index": -1}, "[problem] index must be a name, a number from 0"),
    "names without a header": (
        both(PLAIN),
        {"header": False, "index": "a"},
        "need a header; found header = false",
    ),
    "no columns": (both(PLAIN), {"columns": []}, "[problem] columns must be a list of different names"),
    "two separators": (both(PLAIN), {"sep": ", "}, "[problem] sep must be one character"),
    "the same twice": (both(PLAIN), {"decimal": ","}, 'found points; set decimal = "."'),
    "keys of tables for arrays": (
        {},
        {"data": "s.npy", "sep": ";"},
        "[problem] sep belongs to data or targets in .csv files: leave it out, or give the file a name that "
        "ends in .csv, .tsv or .txt",
    ),
    "keys of targets without any": (
        both(PLAIN),
        {"target-index": 0},
        "[problem] target-index belongs to targets in .csv files",
    ),
    "not compressed": (
        {"s0.csv.gz": PLAIN, "s1.csv.gz": PLAIN},
        {"data": "s{agent}.csv.gz"},
        "s1.csv.gz must be a .gz file; found",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    files, keys, sentence = REFUSED[case]
    if case == "not compressed":
        (tmp_path / "s1.csv.gz").write_text(PLAIN)
        files = {"s0.csv.gz": PLAIN}
    with pytest.raises(DestinyError) as caught:
        read(Path(), files, **keys)
    found = str(caught.value)
    assert sentence in found
    assert "\n" not in found
    assert len(found) < 330 or "has no key" in found


TARGETS = "y,z\n1,2\n3,4\n5,7\n6,8\n"
OLSR = {"kind": "olsr", "targets": "t{agent}.csv", "p": None}


def targets(one: str, other: str) -> dict[str, str]:
    return both(PLAIN) | {"t0.csv": one, "t1.csv": other}


def test_targets_have_names_and_columns_of_their_own(tmp_path):
    files = both(PATIENTS) | {"t0.csv": TARGETS, "t1.csv": TARGETS}
    keys = OLSR | {"index": "id", "target-columns": ["z"]}
    problem = read(tmp_path, files, **keys)
    np.testing.assert_array_equal(problem.tables[1].load(0).table, [[2], [4], [7], [8]])
    assert problem.column_names == {"data": ("a", "b", "c"), "targets": ("z",)}


def test_data_and_targets_may_be_columns_of_one_file(tmp_path):
    problem = read(
        tmp_path,
        both(PATIENTS),
        **OLSR
        | {
            "targets": "s{agent}.csv",
            "columns": ["a", "b"],
            "target-columns": ["c"],
        },
    )
    np.testing.assert_array_equal(problem.data.load(0).table, ROWS[:, :2])
    np.testing.assert_array_equal(problem.tables[1].load(0).table, ROWS[:, 2:])


REFUSED_TARGETS = {
    "in another order": (targets(TARGETS, TARGETS.replace("y,z", "z,y")), "set target-columns = [...]"),
    "numbers from 0": (targets(TARGETS.replace("y,z", "0,1"), TARGETS), "set header = true"),
    "an index": (targets(",y,z\n0,1,2\n", ",y,z\n0,1,2\n"), "set target-index = 0"),
    "a name twice": (targets(TARGETS.replace("z", "y"), TARGETS), "choose others with target-columns"),
    "semicolons": (targets(TARGETS.replace(",", ";"), TARGETS), 'set sep = ";"'),
    "a file too many": (
        targets(TARGETS, TARGETS) | {"t2.csv": TARGETS},
        "found t2.csv, which none of the 2 agents",
    ),
}


@pytest.mark.parametrize("case", REFUSED_TARGETS)
def test_targets_are_held_to_the_same(tmp_path, case):
    files, sentence = REFUSED_TARGETS[case]
    with pytest.raises(DestinyError) as caught:
        read(tmp_path, files, **OLSR)
    assert sentence in str(caught.value)


LABELED = "id,y\nDoe; J,1\nRoe,3\nPoe,5\nLoe,6\n".replace("Doe; J", '"Doe, J"')
BACKWARDS = "id,y\nLoe,6\nPoe,5\nRoe,3\n" + '"Doe, J",1\n'


@pytest.mark.parametrize("whole", [False, True])
def test_row_labels_of_data_and_targets_are_compared(tmp_path, whole):
    """Each agent compares its own two files; nothing about them is sent."""
    names = {"data": "all.csv", "targets": "y.csv"} if whole else {}
    keys = OLSR | names | {"index": "id", "target-index": "id"}
    for text in (LABELED, BACKWARDS):
        files = both(PATIENTS) | {"t0.csv": LABELED, "t1.csv": text, "all.csv": PATIENTS, "y.csv": text}
        if text == LABELED:
            np.testing.assert_array_equal(read(tmp_path, files, **keys).tables[1].load(1).table[-1, 0], 6)
            continue
        with pytest.raises(
            DestinyError, match=r"agent \d's targets.* found other row labels, 'Loe' instead of"
        ):
            read(tmp_path, files, **keys)
        read(tmp_path, files, **keys | {"target-index": None, "target-columns": ["y"]})  # nothing to compare


def test_an_agent_compares_row_labels_of_its_files(tmp_path):
    party = Party(
        tmp_path,
        networks.path(2),
        problem='kind = "olsr"\ndata = "x.csv"\ntargets = "y.csv"\nsamples = "rows"\nindex = "id"\n'
        'target-index = "id"',
    )
    write(party.home(0), {"x.csv": PATIENTS, "y.csv": LABELED})
    agents.read(party.home(0) / "agent.toml").problem.host([0])
    write(party.home(0), {"y.csv": BACKWARDS})
    with pytest.raises(DestinyError, match="found other row labels"):
        agents.read(party.home(0) / "agent.toml").problem.host([0])


def test_patterns_in_folders_and_with_digits(tmp_path):
    for k in range(3):
        (tmp_path / f"site-{k:02d}").mkdir()
        write(tmp_path / f"site-{k:02d}", {"x.csv": PLAIN})
    template = tmp_path / "site-{agent:02d}" / "x.csv"
    assert len(data.silos(template, 3, "rows")) == 3
    with pytest.raises(DestinyError, match="none of the 2 agents takes"):
        data.silos(template, 2, "rows")


def test_files_given_by_hand_are_compared(tmp_path):
    write(tmp_path, {"s0.csv": PLAIN, "s1.csv": SWAPPED})
    files = [data.File(str(tmp_path / name), "rows") for name in ("s0.csv", "s1.csv")]
    with pytest.raises(DestinyError, match="found 'b' instead of 'a'"):
        PCA(files, 1)


def test_only_headers_of_other_agents_files_are_read(tmp_path):
    """A process reads the numbers of the agents it hosts; others' headers are compared all the same."""
    write(tmp_path, {"s0.csv": PLAIN, "s1.csv": PLAIN + 6 * "1,2,3\n" + "not,a,number\n"})
    problem = PCA(data.silos(tmp_path / "s{agent}.csv", 2, "rows"), 1)
    assert problem.shape == (3, 1)
    problem.host([0])
    with pytest.raises(DestinyError, match=r"s1\.csv must hold numbers .* found 'not' in line 12"):
        problem.host([1])


def test_results_keep_the_names(tmp_path):
    problem = CachedProblem(read(tmp_path, both(PLAIN)))
    network = networks.complete(2)
    results = {"one": solve(problem, network, rounds=30)}
    result_folder.describe(tmp_path / "out", problem, network, results)
    about = json.loads((tmp_path / "out" / "about.json").read_text())
    assert about["columns"] == {"data": ["a", "b", "c"]}


def test_agents_compare_columns_without_telling_names(tmp_path):
    party = Party(
        tmp_path, networks.path(2), problem='kind = "pca"\ndata = "own.csv"\np = 2\nsamples = "rows"'
    )
    texts = {"own.csv": PLAIN}, {"own.csv": SWAPPED}
    for i, files in enumerate(texts):
        write(party.home(i), files)
    here, there = (agents.read(party.home(i) / "agent.toml") for i in range(2))
    assert here.hello.digest != there.hello.digest
    name, one, other = difference(here.common, there.common) or ("", "", "")
    assert name == "columns.data.order of names (digest)"  # neither their number nor the names themselves
    assert one != other
    write(party.home(1), {"own.csv": PLAIN})
    assert agents.read(party.home(1) / "agent.toml").hello.digest == here.hello.digest


def test_an_agent_has_one_file(tmp_path):
    party = Party(tmp_path, networks.path(2))
    party.write(0, problem='kind = "pca"\ndata = ["x.csv", "y.csv"]\np = 2\nsamples = "rows"')
    with pytest.raises(DestinyError, match=r"data must be a text; found \[.*\] \(the agent's own file"):
        agents.read(party.home(0) / "agent.toml")


def test_init_gives_each_agent_its_file_of_a_list(tmp_path):
    (tmp_path / "e.toml").write_text(
        '[problem]\nkind = "pca"\ndata = ["in/x.csv", "in/y.csv"]\nsamples = "rows"\np = 2\nagents = 2\n'
        '[network]\nkind = "path"\n'
    )
    scaffold.write_agent_files(
        str(tmp_path / "e.toml"), "127.0.0.1:7000,127.0.0.1:7001", tmp_path / "party", "run"
    )
    found = [tables.load(path)["problem"] for path in sorted(tmp_path.glob("party/*/agent.toml"))]
    assert [table["data"] for table in found] == ["x.csv", "y.csv"]


def test_layouts_may_differ_between_agents(tmp_path):
    """What is compared is what was read: the names of the chosen columns, in order."""
    write(tmp_path, {"x.csv": PLAIN, "y.csv": GERMAN})
    one = PCA([data.File(str(tmp_path / "x.csv"), "rows")], 1)
    other = PCA([data.File(str(tmp_path / "y.csv"), "rows", data.Csv(sep=";", decimal=","))], 1)
    assert columns_of(one) == columns_of(other) != {}


def test_other_encodings_are_named(tmp_path):
    (tmp_path / "s.csv").write_bytes(PLAIN.replace("a,", "größe,").encode("cp1252"))
    with pytest.raises(DestinyError, match=r's\.csv must be text in UTF-8; found byte .*"CSV UTF-8"'):
        data.load(tmp_path / "s.csv", "rows")


def test_a_byte_order_mark_before_an_experiment(tmp_path):
    (tmp_path / "e.toml").write_text("[problem]\np = 2\n", encoding="utf-8-sig")
    assert tables.load(tmp_path / "e.toml") == {"problem": {"p": 2}}


def test_a_scale_of_zero_is_refused(tmp_path):
    with pytest.raises(DestinyError, match=r"scale must be a number .* not 0; found 0"):
        read(tmp_path, both(PLAIN), scale=0)


def test_letters_of_windows_programs_are_read_and_recognized(tmp_path):
    path = tmp_path / "w.csv"
    path.write_text("Größe;Straße\n1,5;3\n2,5;4\n", encoding="cp1252")
    keys = guess_keys(path)
    assert keys == {
        "samples": "rows",
        "encoding": "cp1252",
        "sep": ";",
        "decimal": ",",
        "columns": ["Größe", "Straße"],
    }
    layout = Csv(**{key: keys[key] for key in ("sep", "decimal", "encoding", "columns")})
    np.testing.assert_array_equal(data.read_file(path, layout).rows, [[1.5, 3], [2.5, 4]])
    path.write_bytes("a;b\n1;ö\n".encode())
    with pytest.raises(ProblemError, match='must be text in ascii; found byte 0xc3; set encoding = "utf-8"'):
        data.read_file(path, Csv(sep=";", encoding="ascii"))
