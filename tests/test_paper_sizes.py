"""With nothing given but problem and network, the defaults converge at the sizes of the paper."""

import pytest

import destiny


@pytest.mark.parametrize("prob", [0.2, 0.4, 0.6])
@pytest.mark.parametrize(
    ("n", "m", "p", "xi", "d"), [(100, 3200, 5, 0.9, 32), (200, 6400, 5, 0.8, 16), (300, 3200, 10, 0.95, 32)]
)
def test_pca_at_the_sizes_of_the_paper(n, m, p, xi, d, prob):
    problem = destiny.problems.pca.synthetic(n, m, p, xi, agents=d, seed=0)
    result = destiny.solve(problem, destiny.networks.erdos_renyi(d, prob=prob, seed=0))
    assert result.converged, result
    known = destiny.problems.pca.solution(problem)
    assert destiny.stiefel.subspace_distance(result.X, known) < 1e-5
