"""Runs with messages of 8 and 16 bits: rounds and answers of 64, one set of bits, refusals."""

import json

import numpy as np
import pytest

import destiny
from destiny.algorithms import METHODS
from destiny.engines import Local
from destiny.engines.mixers import from_keys
from destiny.errors import CheckpointError, MismatchError, NetworkError, SettingsError
from destiny.storage.checkpoint import flatten
from tests.helpers.cli_experiments import main
from tests.helpers.small_problems import small_problem

PLAIN, EIGHT = "plain", destiny.Quantized(8)
TOGETHER = [m for m in METHODS if "alone" not in m.about and "totals" not in m.about]
nets = destiny.networks

# Small versions of the settings of the paper's figures, and the networks that mix worst.
SETTINGS = {
    "figure 3": (
        lambda: destiny.problems.pca.synthetic(n=60, m=480, p=4, xi=0.9, agents=12, seed=0),
        nets.erdos_renyi(12, prob=0.4, seed=1),
    ),
    "ring": (
        lambda: destiny.problems.pca.synthetic(n=40, m=640, p=3, xi=0.8, agents=16, seed=0),
        nets.ring(16),
    ),
    "path": (
        lambda: destiny.problems.pca.synthetic(n=40, m=400, p=3, xi=0.8, agents=8, seed=0),
        nets.path(8),
    ),
    "olsr": (
        lambda: destiny.problems.olsr.synthetic(n=40, m=300, p=3, agents=8, seed=0),
        nets.erdos_renyi(8, prob=0.6, seed=0),
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_rounds_and_answers_are_those_of_64_bits_at_a_fifth_of_the_bytes(name):
    make, network = SETTINGS[name]
    plain, eight = (
        destiny.solve(
            make(),
            network,
            destiny.DestinyAccelerated(),
            tolerance=1e-9,
            engine=Local(1),
            every=1,
            messages=messages,
        )
        for messages in (PLAIN, EIGHT)
    )
    assert plain.converged
    assert eight.converged
    assert eight.rounds <= 1.1 * plain.rounds  # on larger ones within 2 %: docs/howto/small-messages.md
    assert plain.bytes == 8 * plain.scalars
    assert eight.bytes <= 0.2 * plain.bytes
    assert eight.history["bytes"][-1] == eight.bytes
    np.testing.assert_allclose(eight.measures.objective, plain.measures.objective, rtol=1e-12, atol=1e-15)


def test_eleven_digits_are_reached():
    make, network = SETTINGS["ring"]
    result = destiny.solve(make(), network, tolerance=1e-11, messages=EIGHT)
    assert result.converged


def test_a_method_that_needs_whole_numbers_is_refused():
    make, network = SETTINGS["figure 3"]
    with pytest.raises(
        MismatchError, match=r"averaged-model averages by exact totals.* found messages of 8 bits"
    ):
        destiny.solve(make(), network, destiny.AveragedModel(), messages=EIGHT)


@pytest.mark.parametrize("method", TOGETHER, ids=lambda m: m.kind)
def test_every_method_ends_where_it_does_with_64_bits_and_has_one_set_of_bits(method):
    problem, network = small_problem("pca", 7), (nets.star if "star" in method.about else nets.ring)(7)
    plain, eight, one, three = (
        destiny.solve(
            problem, network, method(), rounds=rounds, every=0, engine=Local(threads), messages=messages
        )
        for rounds, threads, messages in ((200, 1, PLAIN), (200, 1, EIGHT), (40, 1, EIGHT), (40, 3, EIGHT))
    )
    for name, array in flatten(one.state).items():
        assert (array == flatten(three.state)[name]).all(), name
    assert (str(eight.message_kind), str(plain.message_kind)) == ("messages of 8 bits", "plain messages")
    assert eight.bytes < 0.3 * plain.bytes
    # As far as with 64 bits, whether that is far or not.
    assert eight.measures.worst <= 10 * max(plain.measures.worst, 1e-9)


@pytest.mark.parametrize("method", [destiny.DestinyAccelerated, destiny.algorithms.ATC], ids=lambda m: m.kind)
@pytest.mark.parametrize("threads", [(1, 1), (2, 3)])
def test_a_run_that_was_resumed_has_the_same_bits(method, threads, tmp_path):
    problem, network = small_problem("sdl", 6), nets.ring(6)
    options = {"messages": EIGHT, "tolerance": 1e-2, "local_stopping": True}
    whole = destiny.solve(problem, network, method(), engine=Local(1), **options)
    folder = {"checkpoint": tmp_path / "c", "checkpoint_every": 9}
    destiny.solve(problem, network, method(), rounds=50, engine=Local(threads[0]), **folder, **options)
    ended = destiny.solve(
        problem, network, method(), resume=True, engine=Local(threads[1]), **folder, **options
    )
    assert (ended.reason, ended.bytes) == (whole.reason, whole.bytes)
    for name, array in flatten(whole.state).items():
        assert (array == flatten(ended.state)[name]).all(), name


@pytest.mark.parametrize("kinds", [(8, 64), (64, 8), (8, 16)])
def test_a_checkpoint_of_other_messages_is_refused(kinds, tmp_path):
    problem, network = small_problem("pca"), nets.ring(6)
    first, second = (from_keys({"bits": bits}) for bits in kinds)
    destiny.solve(problem, network, rounds=40, checkpoint=tmp_path, messages=first)
    with pytest.raises(CheckpointError, match=f"belongs to another run: its messages is {first}, this"):
        destiny.solve(problem, network, checkpoint=tmp_path, resume=True, messages=second)


@pytest.mark.parametrize("standardize", [False, True])
def test_columns_of_very_different_size_are_centered_as_with_64_bits(standardize):
    rng = np.random.default_rng(3)
    scales = 10.0 ** np.arange(-4, 8)
    silos = [(rng.standard_normal((12, 20)) + 3) * scales[:, None] for _ in range(6)]
    problem = destiny.problems.centered(
        destiny.problems.PCA([a.T for a in silos], 2), standardize=standardize
    )
    plain, eight = (destiny.solve(problem, nets.ring(6), rounds=200, messages=m) for m in (PLAIN, EIGHT))
    np.testing.assert_allclose(eight.mean, plain.mean, rtol=1e-13)
    if standardize:
        np.testing.assert_allclose(eight.scale, plain.scale, rtol=1e-12)


class Flipping:
    """A network of a user's own that changes without saying so."""

    agents = 6

    def at(self, round):
        return (nets.ring(6) if round < 25 else nets.complete(6)).W.toarray()


REFUSED = {
    "changes": (nets.link_loss(nets.ring(6), 0.1), "messages of 8 bits need a static network"),
    "in turn": (nets.periodic([nets.ring(6), nets.complete(6)]), "leave bits out, or fix the network"),
    "changes silently": (Flipping(), "messages of 8 bits need .* this one changed on the way"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_networks_that_change_are_refused_in_a_sentence(case):
    network, words = REFUSED[case]
    with pytest.raises(NetworkError, match=words):
        destiny.solve(small_problem("pca"), network, rounds=60, messages=EIGHT)


def test_the_doctor_says_so_too():
    found = destiny.diagnose(small_problem("pca"), REFUSED["changes"][0], messages=EIGHT)
    (finding,) = [f for f in found.findings if f.about == "messages"]
    assert finding.level == "problem"
    assert "messages of 8 bits need a static network" in finding.text


@pytest.mark.parametrize("wrong", [4, 32, True, "8", 8.5])
def test_the_option_is_checked(wrong):
    with pytest.raises(SettingsError, match="bits must be 8 or 16; found"):
        destiny.Quantized(wrong)


def test_private_sums_have_64_bits():
    with pytest.raises(SettingsError, match=r"one kind of messages; .* one of private, bits"):
        from_keys({"private": True, "bits": 8})


def test_what_is_not_finite_ends_as_diverged():
    method = destiny.Destiny(1e9, destiny.steps.Constant(10.0))
    result = destiny.solve(small_problem("pca"), nets.ring(6), method, messages=EIGHT)
    assert result.reason.startswith("diverged")


EXPERIMENT = """
problem = { kind = "pca", agents = 6, p = 2, synthetic = { n = 10, m = 60, xi = 0.8 } }
network = { kind = "KIND" }
messages = { bits = 8 }
stop = { tolerance = 1e-6 }
[run]
checkpoint = 10
"""


def test_files_and_the_command_line_know_it(tmp_path, monkeypatch, capsys):
    path, out = tmp_path / "e.toml", tmp_path / "out"
    path.write_text(EXPERIMENT.replace("KIND", "ring"))
    assert main(monkeypatch, "run", path, "--out", out) == 0
    (entry,) = json.loads((out / "summary.json").read_text())
    assert entry["bits"] == 8
    assert entry["bytes"] < 0.35 * 8 * entry["scalars"]  # 10 x 2: units and probes weigh
    path.write_text(EXPERIMENT.replace("KIND", "ring").replace("= 8", "= 16"))
    assert main(monkeypatch, "run", path, "--out", out, "--resume") == 2
    assert "its [messages] is {'bits': 8}" in capsys.readouterr().err
    path.write_text(EXPERIMENT.replace("KIND", "ring").replace("= 8", "= 5"))
    assert main(monkeypatch, "run", path, "--out", tmp_path / "other") == 2
    assert "bits must be 8, 16 or 64; found 5" in capsys.readouterr().err
