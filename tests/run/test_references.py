"""What bytes are held against."""

import numpy as np

import destiny


def test_bytes_stand_beside_all_data_and_one_matrix_per_agent():
    problem = destiny.problems.pca.synthetic(n=10, m=70, p=2, xi=0.8, agents=7, seed=0)
    network = destiny.networks.path(7)  # the root is agent 3: levels 3, 2, 1, 0, 1, 2, 3
    result = destiny.solve(problem, network)
    assert result.least_bytes == 8 * 10 * 2 * 6
    assert result.data_bytes == 8 * 10 * 10 * (3 + 2 + 1 + 1 + 2 + 3)
    assert "all data to one agent: 9.6 kB; one n x p matrix per agent: 960 B" in str(result)
    assert result.summary()["data_bytes"] == 9600
    compared = str(destiny.compare(problem, network, ["averaged-model", "averaged-krylov"]))
    assert compared.count("to hold bytes against: all data to one agent: 9.6 kB") == 1


def test_where_samples_are_not_counted_or_nobody_sends_there_is_less_to_say():
    data = [np.random.default_rng(k).standard_normal((6, 20)) for k in range(3)]
    dictionary = destiny.solve(
        destiny.problems.SDL([a.T for a in data], p=2), destiny.networks.ring(3), rounds=20
    )
    assert dictionary.data_bytes is None
    assert dictionary.references == "one n x p matrix per agent: 192 B"
    alone = destiny.solve(destiny.problems.PCA([a.T for a in data[:1]], p=2), destiny.networks.complete(1))
    assert alone.references == ""
