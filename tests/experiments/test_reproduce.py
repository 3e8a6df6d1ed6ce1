"""The paper's figures as data, the claims, and running them: resumable, from files alone, honest."""

import json
import shutil
from math import inf
from pathlib import Path

import numpy as np
import pytest

import destiny
from destiny import cli
from destiny.errors import SettingsError
from destiny.experiments import batch
from destiny.experiments import file as experiment
from destiny.experiments.paper import claims, figures, reproduce
from destiny.run.history import COLUMNS, UNCOUNTED, History


def history(stationarity, consensus=None, every=10):
    made = History(COLUMNS[:UNCOUNTED])
    consensus = stationarity if consensus is None else consensus
    for k, (s, c) in enumerate(zip(stationarity, consensus, strict=True)):
        made.add(
            step=k,
            round=every * k,
            scalars=k,
            seconds=k,
            objective=0.0,
            stationarity=s,
            consensus=c,
            feasibility=0.0,
        )
    return made


FAST = [history([1, 1e-2, 1e-7, 1e-9]), history([1, 1e-7, 1e-8, 1e-9]), history([1, 1e-7, 1e-7, 1e-7])]
SLOW = [history([1, 1, 1e-2, 1e-7])] * 3
NEVER = [history([1, 1, 1, np.nan])] * 2 + [history([1, 1e-7, 1e-7, 1e-7])]


@pytest.mark.parametrize(
    ("runs", "rounds", "words"),
    [
        (FAST, [20, 10, 10], "10 (10-20)"),
        (SLOW, [30, 30, 30], "30"),
        (NEVER, [inf, inf, 10], "never in 2 of 3 seeds, else 10"),
        (NEVER[:1], [inf], "never (30 rounds)"),
        ([*FAST[:2], NEVER[0]], [20, 10, inf], "20 (10-20), never in 1 of 3 seeds"),
    ],
)
def test_when_a_level_is_reached(runs, rounds, words):
    found = claims.reach(runs, ["stationarity"], 1e-6)
    assert found.rounds == rounds
    assert str(found) == words


def test_a_level_must_be_kept_and_perfect_consensus_at_the_start_counts_for_nothing():
    assert claims.reach([history([0, 1, 1e-7])], ["consensus"], 1e-6).rounds == [20]
    assert claims.reach([history([1, 1e-7, 1])], ["consensus"], 1e-6).rounds == [inf]
    both = history([1, 1e-7, 1e-7], [1, 1, 1e-7])
    assert claims.reach([both], claims.BOTH, 1e-6).rounds == [20]  # the slower of the two


@pytest.mark.parametrize(
    ("claim", "holds", "told"),
    [
        ({"kind": "ahead", "of": "fast", "than": ["slow", "never"]}, True, "(20 fewer, 67%)"),
        ({"kind": "ahead", "of": "fast", "than": ["slow"], "factor": 3.0}, True, "30 of slow"),
        ({"kind": "ahead", "of": "fast", "than": ["slow"], "factor": 3.1}, False, "30 of slow"),
        ({"kind": "ahead", "of": "slow", "than": ["fast"]}, False, "(20 more, 200%)"),
        ({"kind": "ahead", "of": "never", "than": ["fast"]}, False, "never in 2 of 3 seeds"),
        ({"kind": "ahead", "of": "never", "than": ["never"]}, False, "never"),
        ({"kind": "ahead", "of": "fast", "than": ["fast"]}, False, "10 (10-20) of fast"),
        ({"kind": "competitive", "of": "slow", "than": ["fast"], "factor": 3.0}, True, "20 more"),
        ({"kind": "competitive", "of": "slow", "than": ["fast"], "factor": 2.9}, False, "20 more"),
        ({"kind": "competitive", "of": "never", "than": ["never"], "factor": 9.0}, False, "never"),
        ({"kind": "level", "of": "fast", "than": ["slow"], "factor": 3.0}, True, "slow 30"),
        ({"kind": "level", "of": "fast", "than": ["slow"], "factor": 2.9}, False, "slow 30"),
        ({"kind": "coincide", "among": ["fast", "slow"], "factor": 3.0}, True, "fast 10"),
        (
            {"kind": "coincide", "among": ["fast", "slow", "never"], "factor": 3.0},
            False,
            "within the factor: fast, slow",
        ),
        ({"kind": "coincide", "among": ["never", "never"]}, False, "never"),
        ({"kind": "fails", "of": ["never"]}, True, "never"),
        ({"kind": "fails", "of": ["never", "slow"]}, False, "slow 30"),
    ],
)
def test_claims_are_judged_by_the_runs(claim, holds, told):
    runs = {"a": {"fast": FAST, "slow": SLOW, "never": NEVER}}
    verdict = claims.judge({"text": "So it is.", **claim}, runs, {"a": "Panel A"})
    assert verdict.holds is holds
    assert told in verdict.measured
    assert verdict.measured.startswith("Panel A: rounds to 1e-06: ")


def test_who_fails_fails_on_most_seeds():
    for failing, seeds, holds in ((1, 2, False), (2, 3, True), (1, 1, True), (0, 2, False)):
        runs = {"a": {"x": [history([1, 1, np.nan])] * failing + [SLOW[0]] * (seeds - failing)}}
        verdict = claims.judge({"text": "x fails.", "kind": "fails", "of": "x"}, runs, {})
        assert verdict.holds is holds
        assert "ends at 1e+00" not in verdict.measured  # it ended at no number


def test_a_claim_must_hold_in_all_its_panels_and_one_without_any_is_not_decided():
    runs = {"a": {"x": FAST, "y": SLOW}, "b": {"x": SLOW, "y": FAST}}
    claim = {"text": "x first.", "kind": "ahead", "of": "x", "than": ["y"]}
    assert claims.judge(claim, runs, {}).word == "does not hold"
    assert claims.judge({**claim, "panels": ["a"]}, runs, {}).word == "holds"
    assert claims.judge({**claim, "panels": []}, runs, {}).word == "not decided"
    with pytest.raises(SettingsError, match=r"kind must be one of ahead, .*; found 'behind'"):
        claims.judge({**claim, "kind": "behind"}, runs, {})


@pytest.mark.parametrize("name", figures.NAMES)
@pytest.mark.parametrize("small", [False, True])
def test_the_files_are_complete_and_their_claims_name_methods_that_are_run(name, small):
    figure = figures.read(name, small)
    for panel in figure.panels:
        assert None not in experiment.read_algorithms(panel.tables["algorithm"], str).values()
        assert len(set(panel.labels)) == len(panel.labels)
        if small:  # the others take seconds to draw, or need files
            asked = experiment.make(panel.seeded(3), Path(), name)
            assert asked.problem.agents == asked.network.agents
    for claim in figure.claims:
        named = {claim["of"]} if isinstance(claim.get("of"), str) else set(claim.get("of", ()))
        named |= {*claim.get("than", ()), *claim.get("among", ())}
        assert named
        for panel in figure.panels:
            assert panel.name not in claim["panels"] or named <= set(panel.labels)


def test_the_sizes_are_those_of_the_paper():
    def size(name):
        panel = figures.read(name).panels[0].tables
        return {**panel["problem"].get("synthetic", {}), **panel["network"], **panel["problem"]}

    def some(name, *keys):
        return tuple(size(name)[key] for key in keys)

    keys = ("n", "m", "p", "xi", "agents", "prob")
    assert some("figure1", *keys) == (100, 3200, 5, 0.9, 32, 0.5)
    assert some("figure2", *keys) == (200, 6400, 5, 0.8, 16, 0.5)
    assert some("figure3", *keys) == (300, 3200, 10, 0.95, 32, 0.2)
    assert some("figure4", "agents", "dataset") == (32, "cora-DS")
    assert some("figure5", "agents", "dataset", "p") == (32, "mnist", 1)
    assert [panel.tables["network"]["prob"] for panel in figures.read("figure3").panels] == [0.2, 0.4, 0.6]


def test_literal_data_are_the_scaled_ones_with_another_penalty():
    """What Figure 3's file says of its curve for literal data."""
    network = destiny.networks.erdos_renyi(8, prob=0.7, seed=1)
    found = []
    for scale, beta in ((1.0, 1.0), (8**0.5, 8.0)):
        problem = destiny.problems.pca.synthetic(20, 80, 2, 0.8, agents=8, seed=1, scale=scale)
        method = destiny.Destiny(beta=beta, step_size=destiny.steps.PlainBB())
        found.append(destiny.solve(problem, network, method, rounds=25, tolerance=0).X)
    np.testing.assert_allclose(*found, atol=1e-6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Figure 5's small twin, one seed."""
    out = tmp_path_factory.mktemp("reproduced")
    reproduce.reproduce(["figure5"], out, seeds=1, small=True, progress=False)
    return out


def test_a_figure_leaves_everything_a_report_needs(folder):
    home = folder / "figure5"
    told = json.loads((home / "figure.json").read_text())
    assert told["small"]
    assert told["seeds"] == [0]
    assert [panel["name"] for panel in told["panels"]] == ["mnist"]
    assert 0 < told["seconds"]["measuring"] < told["seconds"]["total"]
    verdicts = json.loads((home / "claims.json").read_text())
    assert len(verdicts) == 3
    assert {verdict["holds"] for verdict in verdicts} <= {True, False}
    unit = home / "mnist" / "seed-0"
    assert (unit / "experiment.json").exists()
    labels = [entry["label"] for entry in json.loads((unit / "summary.json").read_text())]
    assert labels == figures.read("figure5").panels[0].labels
    assert not list(unit.glob("*/checkpoints"))
    assert all((unit / label / "history.csv").exists() for label in labels)


def test_the_verdicts_follow_from_the_files(folder):
    runs = reproduce.histories(folder, figures.read("figure5", small=True), 1)["mnist"]
    verdict = json.loads((folder / "figure5" / "claims.json").read_text())[0]
    ahead = all(
        claims.reach(runs["DESTINY"], [m], 1e-4).median < claims.reach(runs["DRGTA"], [m], 1e-4).median
        for m in claims.BOTH
    )
    assert verdict["holds"] is ahead


def test_what_is_there_is_not_run_again_and_what_is_missing_is(folder, monkeypatch):
    unit = folder / "figure5" / "mnist" / "seed-0"
    before = (unit / "DESTINY" / "history.csv").read_bytes()
    ran = []
    prepare = batch.prepare
    monkeypatch.setattr(batch, "prepare", lambda *run: ran.append(run[-1].label) or prepare(*run))
    reproduce.reproduce(["figure5"], folder, seeds=1, small=True, progress=False)
    assert ran == []
    (unit / "times.json").unlink()  # as if it had been stopped before its end
    reproduce.reproduce(["figure5"], folder, seeds=1, small=True, progress=False)
    assert ran == figures.read("figure5").panels[0].labels
    after = (unit / "DESTINY" / "history.csv").read_bytes()
    assert [line.split(b",")[:3] for line in before.split()] == [
        line.split(b",")[:3] for line in after.split()
    ]


def test_a_signal_ends_it_in_a_sentence_and_the_same_command_goes_on(tmp_path, monkeypatch, capsys):
    prepare = batch.prepare

    class Cut:
        """The second method is interrupted, as by Ctrl-C."""

        def __init__(self, run):
            self.run = run

        def go(self):
            result = self.run.go()
            object.__setattr__(result, "interrupted", "SIGINT")
            return result

    def cut(problem, network, method, options):
        run = prepare(problem, network, method, options)
        return Cut(run) if options.label == "DRGTA" else run

    words = ["reproduce", "figure5", "--small", "--seeds", "1", "--out", str(tmp_path / "out")]
    with monkeypatch.context() as patch:
        patch.setattr(batch, "prepare", cut)
        assert command(words) == 130
    assert "the same command goes on where it was" in capsys.readouterr().err
    assert command(words) == 0
    assert "figure5: Sparse dictionary learning on images, a small twin" in capsys.readouterr().out


def command(words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["destiny", *words])
        try:
            cli.main()
        except SystemExit as end:
            return end.code or 0
    return 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["figure6"],
            "figures are figure1, figure2, figure3, figure4, figure5, or all of them; found 'figure6'",
        ),
        (["figure1", "--seeds", "0"], "--seeds must be at least 1; found 0"),
        (["figure1", "--threads", "0"], "threads must be"),
        (["figure5", "--data", "nowhere"], "must be there"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_is_written(words, told, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("destiny.datasets.locations.download", no_network)
    assert command(["reproduce", *words, "--out", "out"]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def no_network(file, place):
    from destiny.datasets import locations

    raise destiny.ProblemError(locations.missing(file, place))


@pytest.mark.parametrize("content", ["garbage\n1\n", "step,round\n1\n", "step\nx\n", "", None])
def test_a_damaged_file_is_named_with_what_to_do(folder, tmp_path, content, capsys):
    shutil.copytree(folder / "figure5", tmp_path / "figure5")
    damaged = tmp_path / "figure5" / "mnist" / "seed-0" / "DESTINY" / "history.csv"
    if content is None:  # cut between two rows
        content = "\n".join(damaged.read_text().splitlines()[:5]) + "\n"
    damaged.write_text(content)
    assert command(["reproduce", "figure5", "--small", "--seeds", "1", "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "history.csv" in told
    assert "and give the same command again" in told


def test_what_is_done_needs_no_data_to_be_judged_again(folder, monkeypatch):
    monkeypatch.setattr("destiny.datasets.locations.FILES", {"digits": ()})
    monkeypatch.setattr("destiny.datasets.locations.find", None)
    assert reproduce.reproduce(["figure5"], folder, seeds=1, small=True, progress=False)


def test_a_report_shows_the_seeds_the_claims_speak_of(folder, tmp_path):
    from destiny.report.sources.results import read_figure

    shutil.copytree(folder / "figure5", tmp_path / "figure5")
    shutil.copytree(tmp_path / "figure5/mnist/seed-0", tmp_path / "figure5/mnist/seed-1")
    assert read_figure(tmp_path / "figure5").seeds == 1


def test_a_folder_of_another_kind_of_run_is_refused(folder, capsys):
    assert command(["reproduce", "figure5", "--seeds", "1", "--out", str(folder), "--data", "nowhere"]) == 2
    assert "holds another run" in capsys.readouterr().err
