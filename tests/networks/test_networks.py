import doctest
import math
import sys
from functools import cache
from itertools import pairwise, product

import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse.linalg import eigsh

from destiny import networks
from destiny.errors import MissingExtraError, NetworkError
from destiny.networks import spectrum
from destiny.networks.weights import RULES, assemble, metropolis

SMALL = {
    "one": lambda **w: networks.ring(1, **w),
    "two": lambda **w: networks.ring(2, **w),
    "ring": lambda **w: networks.ring(9, **w),
    "path": lambda **w: networks.path(8, **w),
    "star": lambda **w: networks.star(7, **w),
    "complete": lambda **w: networks.complete(6, **w),
    "grid": lambda **w: networks.grid(3, 5, **w),
    "torus": lambda **w: networks.torus(4, 3, **w),
    "hypercube": lambda **w: networks.hypercube(4, **w),
    "exponential": lambda **w: networks.exponential(13, **w),
    "erdos_renyi": lambda **w: networks.erdos_renyi(20, 0.3, seed=4, **w),
    "random_regular": lambda **w: networks.random_regular(14, 3, seed=4, **w),
    "random_geometric": lambda **w: networks.random_geometric(18, 0.5, seed=4, **w),
    "small_world": lambda **w: networks.small_world(16, 4, 0.2, seed=4, **w),
}


@cache
def small(name, rule="metropolis"):
    return SMALL[name](weights=rule)


def norm_of_disagreement(W):
    return np.linalg.norm(W.toarray() - 1 / W.shape[0], 2)


# The laws every network obeys


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", SMALL)
def test_mixing_matrix_obeys_the_laws(name, rule):
    network = small(name, rule)
    W, d = network.W, network.agents
    dense = W.toarray()
    assert isinstance(W, sparse.csr_array)
    assert W.dtype == np.float64
    assert (dense == dense.T).all()
    np.testing.assert_allclose(dense.sum(axis=1), 1, atol=1e-14)
    assert W.nnz == d + 2 * len(network.edges), "links and the diagonal are stored, nothing else"
    assert all((np.diff(W.indices[a:b]) > 0).all() for a, b in pairwise(W.indptr))
    assert (dense[nx.to_numpy_array(network.graph) + np.eye(d) == 0] == 0).all()
    assert network.weights == rule
    assert network.at(0) is network.at(10**9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", SMALL)
def test_lambda_is_the_norm_of_disagreement(name, rule):
    network = small(name, rule)
    assert network.lambda_ == pytest.approx(norm_of_disagreement(network.W), abs=1e-13)
    assert network.lambda_ < 1
    assert network.spectral_gap == pytest.approx(1 - network.lambda_, abs=1e-15)


@pytest.mark.parametrize("name", SMALL)
def test_diameter_degrees_and_links_are_those_of_networkx(name):
    network = small(name)
    assert network.diameter == nx.diameter(network.graph)
    assert network.degrees.tolist() == [degree for _, degree in sorted(network.graph.degree)]
    assert network.edges.tolist() == sorted(sorted(edge) for edge in network.graph.edges)


def test_diameter_in_several_chunks(monkeypatch):
    monkeypatch.setattr(sys.modules["destiny.networks.network"], "CHUNK", 100)
    assert networks.grid(7, 9).diameter == 14


def test_nobody_can_write_into_a_network():
    network = networks.ring(5)
    for part in (network.edges, network.W.data, network.W.indices, network.W.indptr):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 0
    with pytest.raises(AttributeError):
        network.name = "other"


# Shapes


@pytest.mark.parametrize(
    ("network", "graph"),
    [
        (networks.ring(7), nx.cycle_graph(7)),
        (networks.path(7), nx.path_graph(7)),
        (networks.star(7), nx.star_graph(6)),
        (networks.complete(7), nx.complete_graph(7)),
        (networks.grid(3, 4), nx.grid_2d_graph(3, 4)),
        (networks.torus(3, 4), nx.grid_2d_graph(3, 4, periodic=True)),
        (networks.torus(1, 5), nx.cycle_graph(5)),
        (networks.torus(2, 2), nx.grid_2d_graph(2, 2)),
        (networks.hypercube(3), nx.hypercube_graph(3)),
        (networks.exponential(11), nx.circulant_graph(11, [1, 2, 4, 8])),
        (networks.exponential(16), nx.circulant_graph(16, [1, 2, 4, 8])),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_regular_shapes_are_those_of_networkx(network, graph):
    relabeled = nx.convert_node_labels_to_integers(graph, ordering="sorted")
    assert {tuple(sorted(edge)) for edge in relabeled.edges} == set(map(tuple, network.edges.tolist()))


@pytest.mark.parametrize(
    "make",
    [
        networks.ring,
        networks.path,
        networks.star,
        networks.complete,
        networks.exponential,
        lambda d: networks.from_edges([], d),
        lambda d: networks.from_edges([]),
        lambda d: networks.grid(d, d),
        lambda d: networks.torus(d, d),
        lambda d: networks.hypercube(d - 1),
        lambda d: networks.erdos_renyi(d, 0),
        lambda d: networks.random_regular(d, 0),
    ],
)
def test_a_single_agent_talks_to_itself(make):
    network = make(1)
    assert network.W.toarray().tolist() == [[1.0]]
    assert network.edges.shape == (0, 2)
    assert (network.lambda_, network.diameter, network.rounds_to_average()) == (0, 0, 0)
    assert "agents" in str(network)


RANDOM = {
    "erdos-renyi": lambda seed: networks.erdos_renyi(32, 0.1, seed),  # connected in 28 % of the draws
    "random-regular": lambda seed: networks.random_regular(30, 3, seed),
    "random-geometric": lambda seed: networks.random_geometric(40, 0.25, seed),
    "small-world": lambda seed: networks.small_world(30, 4, 0.3, seed),
}


@pytest.mark.parametrize("kind", RANDOM)
def test_random_networks_are_connected_and_functions_of_the_seed(kind):
    drawn = [RANDOM[kind](seed) for seed in range(8)]
    assert all(nx.is_connected(network.graph) for network in drawn)
    again = RANDOM[kind](3)
    assert (again.edges == drawn[3].edges).all()
    assert (again.W != drawn[3].W).nnz == 0
    assert len({network.edges.tobytes() for network in drawn}) == len(drawn)


@pytest.mark.parametrize("seed", range(3))
def test_random_networks_have_the_shape_asked_for(seed):
    assert (networks.random_regular(30, 5, seed).degrees == 5).all()
    assert len(networks.small_world(30, 6, 0.5, seed).edges) == 90
    links = len(networks.erdos_renyi(200, 0.3, seed).edges)
    pairs = 200 * 199 / 2
    assert abs(links - 0.3 * pairs) < 6 * math.sqrt(pairs * 0.3 * 0.7), "six standard deviations"
    assert len(networks.random_geometric(25, 1.5, seed).edges) == 300, "all within the diagonal of the square"


# Weights


def test_metropolis_by_hand():
    network = networks.from_edges([(0, 1), (0, 2), (0, 3), (1, 2)])
    expected = [
        [1 / 4, 1 / 4, 1 / 4, 1 / 4],
        [1 / 4, 5 / 12, 1 / 3, 0],
        [1 / 4, 1 / 3, 5 / 12, 0],
        [1 / 4, 0, 0, 3 / 4],
    ]
    np.testing.assert_allclose(network.W.toarray(), expected, rtol=1e-15)


@pytest.mark.parametrize("seed", range(3))
def test_rules_against_their_formulas(seed):
    base = networks.erdos_renyi(15, 0.3, seed)
    laplacian = nx.laplacian_matrix(base.graph, nodelist=range(15)).toarray()
    eigenvalues = np.linalg.eigvalsh(laplacian)
    by_formula = {
        "max-degree": np.eye(15) - laplacian / (base.degrees.max() + 1),
        "best-constant": np.eye(15) - 2 * laplacian / (eigenvalues[1] + eigenvalues[-1]),
        "lazy": (np.eye(15) + base.W.toarray()) / 2,
    }
    for rule, expected in by_formula.items():
        found = networks.erdos_renyi(15, 0.3, seed, weights=rule).W.toarray()
        np.testing.assert_allclose(found, expected, atol=1e-14)


def test_small_eps_makes_a_bipartite_network_slow():
    base = networks.ring(8)
    slow = networks.from_weights(metropolis(base.edges, 8, eps=1e-3))
    assert base.lambda_ == pytest.approx(0.805, abs=1e-3)
    assert slow.lambda_ == pytest.approx(0.999, abs=1e-3)
    with pytest.raises(NetworkError, match="eps must be a positive number"):
        metropolis(base.edges, 8, eps=0)


@pytest.mark.parametrize("name", SMALL)
def test_fdla_is_never_slower_than_the_best_constant(name):
    best = small(name, "best-constant").lambda_
    assert small(name, "fdla").lambda_ <= best + 1e-12


@pytest.mark.parametrize("name", ["ring", "star", "complete", "hypercube"])
def test_fdla_is_the_best_constant_where_all_links_look_alike(name):
    # convexity and symmetry: averaging the optimum over the automorphisms gives one weight for all links
    fastest, constant = small(name, "fdla").lambda_, small(name, "best-constant").lambda_
    assert fastest == pytest.approx(constant, abs=1e-12)


def test_fdla_finds_the_optimum_of_a_barbell():
    # two cliques of 4 and a bridge; by symmetry three weights: at the bridge's ends, within, on the bridge
    graph = nx.barbell_graph(4, 0)
    edges = np.array(graph.edges)
    ends = np.isin(edges, [3, 4]).sum(axis=1)

    def slowness(weights):
        L = nx.laplacian_matrix(_weighted(graph, edges, weights[ends]), nodelist=range(8)).toarray()
        return np.linalg.norm(np.eye(8) - L - 1 / 8, 2)

    options = {"xatol": 1e-10, "fatol": 1e-10, "maxiter": 5000, "maxfev": 5000}
    starts = product([0.1, 0.3], [0.2], [0.1, 0.3])
    reference = min(minimize(slowness, s, method="Nelder-Mead", options=options).fun for s in starts)
    assert networks.from_graph(graph, weights="fdla").lambda_ == pytest.approx(reference, abs=1e-4)


def _weighted(graph, edges, weights):
    weighted = nx.Graph()
    weighted.add_weighted_edges_from((i, j, w) for (i, j), w in zip(edges, weights, strict=True))
    return weighted


# Spectrum, distances


@pytest.mark.parametrize("d", [3, 4, 7, 16, 101])
def test_lambda_in_closed_form(d):
    step = lambda angle: 1 - math.cos(angle)  # noqa: E731
    assert networks.ring(d).lambda_ == pytest.approx(1 - 2 / 3 * step(2 * math.pi / d), abs=1e-13)
    assert networks.path(d).lambda_ == pytest.approx(1 - 2 / 3 * step(math.pi / d), abs=1e-13)
    assert networks.star(d).lambda_ == pytest.approx(1 - 1 / d, abs=1e-13)
    assert networks.complete(d).lambda_ == pytest.approx(0, abs=1e-13)
    assert networks.torus(5, d).lambda_ == pytest.approx(1 - 2 / 5 * step(2 * math.pi / max(5, d)), abs=1e-13)


@pytest.mark.parametrize("dimension", [2, 3, 6])
def test_lambda_of_a_hypercube(dimension):
    expected = (dimension - 1) / (dimension + 1)
    assert networks.hypercube(dimension).lambda_ == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("solver", ["lanczos", "factored"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", sorted(set(SMALL) - {"one"}))
def test_the_sparse_solvers_agree_with_the_dense_one(name, rule, solver, monkeypatch):
    W = small(name, rule).W
    monkeypatch.setattr(spectrum, "DENSE", 1)
    if solver == "factored":
        monkeypatch.setattr(spectrum, "_lanczos", lambda *_: None)
    assert spectrum.gap(W) == pytest.approx(1 - norm_of_disagreement(W), abs=1e-9)


@pytest.mark.parametrize("d", [1500, 10_000])
def test_lambda_of_a_long_ring(d):
    exact = 2 / 3 * (1 - math.cos(2 * math.pi / d))
    assert networks.ring(d).spectral_gap == pytest.approx(exact, rel=1e-6)


def test_lambda_of_a_long_ring_with_both_ends_of_the_spectrum_near_one():
    d, weight = 10_000, 0.5 - 1e-8
    network = networks.from_weights(assemble(networks.ring(d).edges, np.full(d, weight), d))
    exact = 1 - max(1 - 2 * weight * (1 - math.cos(2 * math.pi / d)), 4 * weight - 1)
    assert network.spectral_gap == pytest.approx(exact, rel=1e-6)


def test_lambda_of_a_large_random_network():
    network = networks.random_regular(10_000, 4, seed=1)
    start = np.random.default_rng(0).standard_normal(10_000)
    top = eigsh(network.W, k=2, which="LA", v0=start, return_eigenvectors=False)
    assert network.lambda_ == pytest.approx(np.sort(top)[0], abs=1e-8)
    assert network.lambda_ == pytest.approx((2 * math.sqrt(3) + 1) / 5, abs=2e-3), "Friedman's theorem"


def test_a_hundred_thousand_agents_take_memory_linear_in_the_links():
    network = networks.ring(100_000)
    assert network.W.nnz == 300_000
    assert network.W.indices.dtype == np.int32
    assert (networks.random_regular(10_000, 4).W.nnz) == 50_000


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("accuracy", [0.5, 1e-3, 1e-6])
def test_rounds_to_average_are_enough_and_one_less_is_not(name, accuracy):
    network = small(name)
    rounds = network.rounds_to_average(accuracy)
    reach = np.linalg.matrix_power(network.W.toarray() - 1 / network.agents, rounds)
    assert network.agents == 1 or np.linalg.norm(reach, 2) <= accuracy * (1 + 1e-9)
    assert rounds <= 1 or network.lambda_ ** (rounds - 1) > accuracy


# What is refused, and how


@pytest.mark.parametrize(
    ("W", "message"),
    [
        (np.ones((2, 3)), r"square.*found shape \(2, 3\)"),
        (np.ones(3), r"two dimensions; found shape \(3,\)"),
        (np.empty((0, 0)), r"square.*found shape \(0, 0\)"),
        ([["a", "b"]], "must hold numbers"),
        ([[0.5, np.nan], [0.5, 0.5]], r"finite; found W\[0, 1\] = nan"),
        ([[0.5, 0.5], [0.4, 0.6]], r"symmetric; W\[0, 1\] = 0.5 but W\[1, 0\] = 0.4"),
        ([[0.5, 0.4], [0.4, 0.6]], r"sum to 1; row 0 sums to 0.9"),
        (np.eye(3), r"connected; found 3 components, and no path from agent 1 to agent 0"),
        ([[0, 1], [1, 0]], "lambda = .* below 1; found 1"),
        ([[-1, 2], [2, -1]], "lambda = .* below 1; found 3"),
        (networks.ring(4).W.toarray() * 3 - 2 * np.eye(4), "lambda = .* below 1; found 3"),
    ],
)
def test_bad_weights_are_refused_with_a_sentence(W, message):
    with pytest.raises(NetworkError, match=message):
        networks.from_weights(W)


@pytest.mark.parametrize("weight", [0.5, 0.5001])
def test_large_matrices_that_never_average_are_refused(weight):
    d = 3000  # above the dense solves
    with pytest.raises(NetworkError, match=r"lambda = .* below 1; found 1"):
        networks.from_weights(assemble(networks.ring(d).edges, np.full(d, weight), d))


def test_swapping_halves_hide_no_rounding():
    # three thirds need not give 1 exactly; what is left on the diagonal is no listening to oneself
    biadjacency = np.full((3, 3), 1 / 3)
    W = np.block([[np.zeros((3, 3)), biadjacency], [biadjacency, np.zeros((3, 3))]])
    with pytest.raises(NetworkError, match="lambda"):
        networks.from_weights(W)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("metropolitan", "one of metropolis, max-degree, best-constant, lazy, fdla; found 'metropolitan'"),
        (np.full((4, 4), 0.25), r"0 where there is no link; W\[0, 2\] = 0.25"),
        (np.eye(4), "found 4 components"),
        (np.eye(3), r"4 x 4 for 4 agents; found shape \(3, 3\)"),
    ],
)
def test_weights_that_do_not_fit_the_links_are_refused(weights, message):
    with pytest.raises(NetworkError, match=message):
        networks.ring(4, weights=weights)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: networks.ring(0), "agents must be an integer of at least 1; found 0"),
        (lambda: networks.ring(2.5), "agents must be an integer of at least 1; found 2.5"),  # type: ignore[arg-type]
        (lambda: networks.ring(True), "agents must be an integer"),
        (lambda: networks.grid(2, -1), "cols must be an integer of at least 1; found -1"),
        (lambda: networks.hypercube(-1), "dimension must be an integer of at least 0"),
        (lambda: networks.erdos_renyi(8, 1.5), r"prob must be a probability in \[0, 1\]; found 1.5"),
        (lambda: networks.erdos_renyi(8, "half"), "prob must be a probability"),  # type: ignore[arg-type]
        (lambda: networks.erdos_renyi(8, 0.5, seed=-1), "seed must be an integer of at least 0"),
        (lambda: networks.erdos_renyi(64, 0.01), "1000 draws, as prob = 0.01 is too small for 64 agents"),
        (lambda: networks.random_regular(5, 3), "degree 3 for 5 agents"),
        (lambda: networks.random_regular(6, 1), "degree = 1 is too small for 6 agents"),
        (lambda: networks.random_geometric(9, 0), "radius must be a positive number; found 0"),
        (lambda: networks.small_world(9, 3, 0.1), "even and below agents; found degree 3 for 9 agents"),
        (lambda: networks.ring(501, weights="fdla"), "fdla .* up to 500 agents; found 501"),
        (lambda: networks.ring(2001, weights="best-constant"), "up to 2000 agents; found 2001"),
        (lambda: networks.from_edges([(0, 1), (2, 3)]), "2 components, and no path from agent 2 to agent 0"),
        (lambda: networks.from_edges([(1, 2), (2, 3)]), "no path from agent 0 to agent 1"),
        (lambda: networks.from_edges([(0, 1), (1, 5)], 3), r"agents 0 to 2; found \(1, 5\)"),
        (lambda: networks.from_edges([(0, 1), (1, -1)], 3), r"agents 0 to 2; found \(1, -1\)"),
        (lambda: networks.from_edges([(0.5, 1)]), "pairs of agent indices"),
        (lambda: networks.from_edges([(0, 1, 7)]), r"pairs of agent indices.*found shape \(1, 3\)"),
        (lambda: networks.from_edges([(0, 1), (2,)]), "pairs of agent indices"),
        (lambda: networks.from_graph(nx.DiGraph([(0, 1)])), "undirected; found a directed graph"),
        (lambda: networks.from_graph(nx.MultiGraph([(0, 1)])), "simple graph; found a multigraph"),
        (lambda: networks.from_graph(nx.Graph()), "at least 1 agent; found an empty graph"),
        (lambda: networks.from_file("absent.txt"), "must exist; found none at absent.txt"),
        (lambda: networks.ring(4).rounds_to_average(0), "accuracy must be a positive number"),
    ],
)
def test_bad_arguments_are_refused_with_a_sentence(make, message):
    with pytest.raises(NetworkError, match=message):
        make()


# Networks of the user's own


def test_direction_repeats_and_self_loops_do_not_matter():
    network = networks.from_edges([(2, 1), (1, 2), (0, 1), (0, 0), (0, 1)])
    assert network.edges.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("labels", "order"),
    [
        (["c", "a", "b"], ["a", "b", "c"]),
        ([30, 10, 20], [10, 20, 30]),
        (["c", 1, (2,)], ["c", 1, (2,)]),  # cannot be sorted: as they come
    ],
)
def test_labels_of_a_graph_become_indices_in_order(labels, order):
    graph = nx.path_graph(3)
    graph = nx.relabel_nodes(graph, dict(enumerate(labels)))
    graph.add_edge(labels[0], labels[0])
    expected = {tuple(sorted((order.index(a), order.index(b)))) for a, b in pairwise(labels)}
    assert set(map(tuple, networks.from_graph(graph).edges.tolist())) == expected


@pytest.mark.parametrize("suffix", [".txt", ".csv", ".graphml"])
def test_files_give_the_network_back(tmp_path, suffix):
    network = networks.erdos_renyi(25, 0.2, seed=1)
    path = tmp_path / f"links{suffix}"
    if suffix == ".graphml":
        nx.write_graphml(network.graph, path)
    else:
        separator = "," if suffix == ".csv" else " "
        rows = [f"{i}{separator}{j}{separator}0.5" for i, j in network.edges[::-1]]
        path.write_text("# links\n" + "\n".join(rows))
    read = networks.from_file(path)
    assert (read.edges == network.edges).all()
    assert read.name == path.name
    assert (networks.from_file(str(path), weights="lazy").W.diagonal() >= 0.5).all()


@pytest.mark.parametrize(
    ("name", "text"), [("a.graphml", "<graphml"), ("a.txt", "0\x00"), ("a.npy", "not an array")]
)
def test_damaged_files_are_refused_with_a_sentence(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    read = networks.from_weights if name.endswith("npy") else networks.from_file
    with pytest.raises(NetworkError, match=f"{name}|at least 1 agent"):
        read(path)


def test_given_weights_come_as_arrays_sparse_or_files(tmp_path):
    expected = networks.grid(3, 3, weights="fdla")
    dense = expected.W.toarray()
    np.save(tmp_path / "W.npy", dense)
    sources = [dense, dense.tolist(), sparse.coo_array(dense), sparse.csc_matrix(dense)]
    for source in [*sources, tmp_path / "W.npy", str(tmp_path / "W.npy")]:
        network = networks.from_weights(source)
        np.testing.assert_allclose(network.W.toarray(), dense, atol=1e-15)
        assert (network.edges == expected.edges).all()
        assert network.weights == "given"


def test_rounding_in_given_weights_is_evened_out():
    rough = networks.ring(6).W.toarray()
    rough += np.random.default_rng(0).uniform(-1e-12, 1e-12, (6, 6))
    network = networks.from_weights(rough)
    W = network.W.toarray()
    assert (W == W.T).all()
    np.testing.assert_allclose(W.sum(axis=1), 1, atol=2e-16)
    assert len(network.edges) == 6, "noise makes no links"


def test_a_link_of_weight_zero_is_no_link():
    W = networks.path(4).W.toarray()
    network = networks.ring(4, weights=W)
    assert network.edges.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert network.diameter == 3


# What it tells


def test_facts_are_plain_and_printed():
    network = networks.star(5)
    facts = network.facts()
    assert facts == {
        "name": "star",
        "agents": 5,
        "links": 4,
        "degree_min": 1,
        "degree_mean": 1.6,
        "degree_max": 4,
        "diameter": 2,
        "weights": "metropolis",
        "lambda": pytest.approx(0.8),
        "spectral_gap": pytest.approx(0.2),
        "rounds_to_1e-6": 62,
    }
    assert {type(value) for value in facts.values()} <= {str, int, float}
    text = str(network)
    assert text.startswith("star\n")
    assert all(key.replace("_", " ") in text for key in facts if key != "name")
    assert repr(network) == "<Network 'star': 5 agents, 4 links, weights metropolis>"


@pytest.mark.parametrize("name", ["one", "ring", "erdos_renyi"])
def test_draw_writes_a_picture(tmp_path, name):
    pytest.importorskip("matplotlib")
    path = small(name).draw(tmp_path / "network.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_drawing_without_matplotlib_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[plot\]" in a checkout'):
        networks.ring(3).draw(tmp_path / "network.png")


def test_the_example_of_the_package_runs():
    results = doctest.testmod(networks)
    assert results.attempted > 0
    assert results.failed == 0


# By name


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("ring", {}, networks.ring(12)),
        ("path", {}, networks.path(12)),
        ("star", {"weights": "lazy"}, networks.star(12, weights="lazy")),
        ("complete", {}, networks.complete(12)),
        ("grid", {}, networks.grid(3, 4)),
        ("grid", {"rows": 2}, networks.grid(2, 6)),
        ("grid", {"cols": 2}, networks.grid(6, 2)),
        ("torus", {}, networks.torus(3, 4)),
        ("exponential", {}, networks.exponential(12)),
        ("erdos-renyi", {"prob": 0.4, "seed": 2}, networks.erdos_renyi(12, 0.4, 2)),
        ("random-regular", {"degree": 3}, networks.random_regular(12, 3)),
        ("random-geometric", {"radius": 0.6}, networks.random_geometric(12, 0.6)),
        ("small-world", {"degree": 4, "prob": 0.2}, networks.small_world(12, 4, 0.2)),
        ("edges", {"edges": networks.ring(12).edges}, networks.ring(12)),
    ],
)
def test_build_by_name(kind, options, expected):
    network = networks.build(kind, 12, **options)
    assert (network.edges == expected.edges).all()
    assert (network.W != expected.W).nnz == 0
    assert set(options) <= set(networks.options_of(kind))


def test_build_from_files_knows_the_agents(tmp_path):
    (tmp_path / "links.txt").write_text("0 1\n1 2\n")
    np.save(tmp_path / "W.npy", networks.ring(5).W.toarray())
    assert networks.build("file", path=tmp_path / "links.txt").agents == 3
    assert networks.build("weights", 5, path=tmp_path / "W.npy").agents == 5
    assert networks.build("hypercube", 8).name == "hypercube of dimension 3"
    with pytest.raises(NetworkError, match=r"links.txt must have 4 agents; found 3"):
        networks.build("file", 4, path=tmp_path / "links.txt")


def test_build_with_losses():
    network = networks.build("ring", 6, loss=0.3, seed=5)
    assert isinstance(network, networks.LinkLoss)
    assert (network.prob, network.seed, network.network.name) == (0.3, 5, "ring")


@pytest.mark.parametrize(
    ("kind", "agents", "options", "message"),
    [
        ("rings", 4, {}, "one of ring, path, .* found 'rings'"),
        ("ring", None, {}, "ring needs the option 'agents'"),
        ("ring", 4, {"prob": 0.5}, "ring has no option 'prob'; it takes agents, weights, loss"),
        ("ring", 4, {"seed": 1}, "ring has no option 'seed'"),
        ("erdos-renyi", 4, {}, "erdos-renyi needs the option 'prob'"),
        ("file", None, {}, "file needs the option 'path'"),
        ("hypercube", 12, {}, "power of two as number of agents; found 12: use 8 or 16"),
        ("grid", 12, {"rows": 5}, "rows \\* cols must be the number of agents, 12; found 5 x 2"),
    ],
)
def test_build_refuses_with_a_sentence(kind, agents, options, message):
    with pytest.raises(NetworkError, match=message):
        networks.build(kind, agents, **options)
