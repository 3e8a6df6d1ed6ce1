"""Gradients by JAX and PyTorch: against closed forms and each other, on threads, and what mistakes say."""

import sys
import threading
from importlib.util import find_spec

import numpy as np
import pytest

import destiny
from destiny.algorithms import DRSGD
from destiny.errors import MissingExtraError, ProblemError
from destiny.problems import custom

N, P, D = 8, 3, 4


@pytest.fixture
def rng():
    return np.random.default_rng(4)  # one seed: every new function is compiled


@pytest.fixture(params=["jax", "torch"])
def library(request):
    """Name and array functions of a library that differentiates."""
    name = {"jax": "jax.numpy", "torch": "torch"}[request.param]
    reason = f"{request.param} is not installed here"
    return request.param, pytest.importorskip(name, reason=reason)


def silos(sizes=(30, 30, 41, 30)):
    rng = np.random.default_rng(3)
    return [(rng.standard_normal((m, N)), rng.standard_normal((m, P))) for m in sizes]


def stack(rng, agents=D):
    return rng.standard_normal((agents, N, P)) / 3


def closed(kind):
    """Value and gradient of a loss by hand, and the value in any array library."""
    if kind == "log cosh":
        return (
            lambda X, A, B: np.sum(np.log(np.cosh(A @ X - B))),
            lambda X, A, B: A.T @ np.tanh(A @ X - B),
            lambda xp: lambda X, A, B: xp.sum(xp.log(xp.cosh(A @ X - B))),
        )
    if kind == "quartic":
        return (
            lambda X, A, B: np.sum((A @ X) ** 4) / 4,
            lambda X, A, B: A.T @ (A @ X) ** 3,
            lambda xp: lambda X, A, B: xp.sum((A @ X) ** 4) / 4,
        )
    return (  # log det(I + X^T A^T A X)
        lambda X, A, B: np.linalg.slogdet(np.eye(P) + X.T @ A.T @ A @ X)[1],
        lambda X, A, B: 2 * A.T @ A @ X @ np.linalg.inv(np.eye(P) + X.T @ A.T @ A @ X),
        lambda xp: lambda X, A, B: xp.linalg.slogdet(eye(xp) + X.T @ A.T @ A @ X)[1],
    )


def eye(xp):
    return xp.eye(P, dtype=xp.float64)


def problem(library, function, **options):
    name, xp = library
    return custom.problem(function(xp), **({"shape": (N, P), "autodiff": name, "data": silos()} | options))


def logcosh(xp):
    return closed("log cosh")[2](xp)


@pytest.mark.parametrize("kind", ["log cosh", "quartic", "log det"])
def test_values_and_gradients_are_those_of_the_closed_form(library, kind, rng):
    value, gradient, function = closed(kind)
    X = stack(rng)
    ours, by_hand = problem(library, function), custom.problem(value, gradient, data=silos(), shape=(N, P))
    found, expected = ours.host(range(D)), by_hand.host(range(D))
    np.testing.assert_allclose(found.value(X), expected.value(X), rtol=1e-12)
    size = np.abs(expected.gradient(X)).max()
    np.testing.assert_allclose(found.gradient(X), expected.gradient(X), rtol=1e-12, atol=1e-13 * size)
    assert found.gradient(X).dtype == np.float64
    assert destiny.check_gradient(found, X)


def test_all_ways_to_hold_data(library, rng):
    name, xp = library
    X = stack(rng, 2)
    expected = problem(library, logcosh).host([2, 0]).gradient(X)
    single = [(A.astype(np.float32), B.astype(np.float32)) for A, B in silos()]
    for data in (
        [{"A": A, "B": B} for A, B in silos()],
        [tuple(map(locked, pair)) for pair in silos()],
        [(xp.asarray(A.astype(np.float32)), B) for A, B in single],
        lambda agent: silos()[agent],
    ):
        found = problem(library, logcosh, data=data, agents=D).host([2, 0]).gradient(X)
        rtol = (
            1e-4 if isinstance(data, list) and isinstance(data[0], tuple) and data[0][1].itemsize == 4 else 0
        )
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=10 * rtol)
    functions = [lambda X, i=i: logcosh(xp)(X, *map(tensors(name, xp), silos()[i])) for i in range(D)]
    listed = custom.problem(functions, shape=(N, P), autodiff=name)
    np.testing.assert_allclose(listed.host([2, 0]).gradient(X), expected, rtol=1e-13, atol=1e-13)


def tensors(name, xp):
    return xp.from_numpy if name == "torch" else xp.asarray


def locked(array):
    """A read-only array, as a memory-mapped file is."""
    array = array.copy()
    array.flags.writeable = False
    return array


def test_same_bits_on_threads(library):
    network = destiny.networks.ring(D)
    big = silos((3000, 3000, 2000, 3000))  # large enough for either library to use several cores if let
    ours = problem(library, logcosh, data=big)
    one, two = (
        destiny.solve(ours, network, rounds=60, engine=destiny.engines.local(threads)) for threads in (1, 2)
    )
    assert (one.agents == two.agents).all()


def test_batches_are_the_closed_forms(library, rng):
    value, gradient, function = closed("log cosh")
    X = stack(rng)
    options = {"data": silos(), "shape": (N, P), "batch": 6, "reduction": "sum", "seed": 2}
    ours, by_hand = problem(library, function, **options), custom.problem(value, gradient, **options)
    expected = by_hand.host(range(D)).sample(X, 5)
    np.testing.assert_allclose(ours.host(range(D)).sample(X, 5), expected, rtol=1e-11, atol=1e-11)
    network = destiny.networks.ring(D)
    a, b = (destiny.solve(problem, network, DRSGD(), rounds=40) for problem in (ours, by_hand))
    np.testing.assert_allclose(a.agents, b.agents, atol=1e-9)


SHAPED = {
    "vector": (lambda xp: lambda X, A, B: A @ X, r"agent 2's value must be one number; found .*\(41, 3\)"),
    "single": (
        lambda xp: lambda X, A, B: single(xp, xp.sum(X)),
        "agent 2's value must be float64; found float32; X is float64",
    ),
    "nothing": (lambda xp: lambda X, A, B: None, "agent 2's value must be one number .*; found NoneType"),
}


def single(xp, number):
    return number.float() if hasattr(number, "float") else number.astype(xp.float32)


@pytest.mark.parametrize("case", SHAPED)
def test_mistakes_name_the_agent_the_expected_and_the_found(library, case):
    function, words = SHAPED[case]
    hosted = problem(library, function).host([2])
    for ask in (hosted.value, hosted.gradient):
        with pytest.raises(ProblemError, match=words):
            ask(np.ones((1, N, P)))


def test_errors_of_the_users_own_name_the_agent(library):
    hosted = problem(library, lambda xp: lambda X, A, B: xp.sum(X @ X)).host([2])
    with pytest.raises((TypeError, RuntimeError)) as caught:
        hosted.gradient(np.ones((1, N, P)))
    assert "raised by agent 2's gradient" in caught.value.__notes__


def test_what_is_not_a_number_at_the_start_names_the_agent(library):
    function = lambda xp: lambda X, A, B: xp.sum(X**2) * xp.sum(B)  # noqa: E731
    data = silos()
    data[3][1][0, 0] = np.nan
    with pytest.raises(ProblemError, match="the gradient of agent 3 is not finite at the start"):
        destiny.solve(problem(library, function, data=data), destiny.networks.ring(D))


@pytest.mark.parametrize(("name", "title"), [("jax", "JAX"), ("torch", "PyTorch")])
def test_a_missing_library_names_the_extra(name, title, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    words = rf'autodiff="{name}" needs {title}: pip install "\.\[{name}\]"'
    with pytest.raises(MissingExtraError, match=words):
        custom.problem(lambda X: X.sum(), shape=(N, P), agents=2, autodiff=name)


def test_the_two_libraries_agree(rng):
    jnp = pytest.importorskip("jax.numpy", reason="jax is not installed here")
    torch = pytest.importorskip("torch", reason="torch is not installed here")
    X = stack(rng)
    one, two = (
        problem(library, logcosh).host(range(D)).gradient(X) for library in (("jax", jnp), ("torch", torch))
    )
    np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


# JAX alone


def test_jax_compiles_once_for_each_shape_and_leaves_the_users_setting_alone(rng):
    jnp = pytest.importorskip("jax.numpy", reason="jax is not installed here")
    traced = []

    def function(X, A, B):
        traced.append(A.shape)
        return jnp.sum(A @ X * B)

    ours = custom.problem([function] * D, data=silos(), shape=(N, P), autodiff="jax")
    for _ in range(2):
        hosted = ours.host(range(D))
        for _ in range(3):
            hosted.gradient(stack(rng))
    assert sorted(traced) == [(30, N), (41, N)]
    assert jnp.ones(1).dtype == jnp.float32


def test_pymanopt_leaves_the_users_setting_of_jax_alone():
    jnp = pytest.importorskip("jax.numpy", reason="jax is not installed here")
    if find_spec("pymanopt") is None:  # importing it here would change the setting
        pytest.skip("pymanopt is not installed here")
    problem = destiny.problems.pca.synthetic(n=6, m=20, p=2, xi=0.7, agents=1)
    destiny.solve(problem, destiny.networks.complete(1), destiny.algorithms.Pymanopt(), rounds=1)
    assert jnp.ones(1).dtype == jnp.float32


def test_jax_refuses_data_that_are_no_numbers():
    pytest.importorskip("jax", reason="jax is not installed here")
    ours = custom.problem(lambda X, name: X.sum(), data=["a", "b"], shape=(N, P), autodiff="jax")
    with pytest.raises(ProblemError, match=r"agent 1's data must be arrays, .*; found str"):
        ours.host([1])


# PyTorch alone


def test_torch_leaves_a_modules_parameters_and_its_threads_alone(rng):
    torch = pytest.importorskip("torch", reason="torch is not installed here")
    layer = torch.nn.Linear(P, 2, dtype=torch.float64)
    ours = custom.problem(
        lambda X, A, B: layer(A @ X).square().sum(), data=silos(), shape=(N, P), autodiff="torch"
    )
    before, X = torch.get_num_threads(), stack(rng)
    slope = ours.host(range(D)).gradient(X)
    W, b = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    expected = [2 * A.T @ (A @ x @ W.T + b) @ W for x, (A, _) in zip(X, silos(), strict=True)]
    np.testing.assert_allclose(slope, expected, rtol=1e-11, atol=1e-11)
    assert layer.weight.grad is None
    assert torch.get_num_threads() == before


def test_torch_is_held_to_one_core_in_every_thread():
    torch = pytest.importorskip("torch", reason="torch is not installed here")
    seen = []

    def function(X):
        seen.append(torch.get_num_threads())
        return X.sum()

    hosted = custom.problem(function, shape=(N, P), agents=1, autodiff="torch").host([0])
    threads = [threading.Thread(target=hosted.gradient, args=(np.ones((1, N, P)),)) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    assert seen == [1, 1, 1]


def test_torch_refuses_a_value_without_a_way_back_to_x():
    pytest.importorskip("torch", reason="torch is not installed here")
    ours = custom.problem(lambda X: X.detach().sum(), shape=(N, P), agents=2, autodiff="torch")
    with pytest.raises(
        ProblemError, match="agent 1's value must be computed from X by PyTorch; found no way"
    ):
        ours.host([1]).gradient(np.ones((1, N, P)))


def test_a_tensor_changed_in_place_is_noticed_and_the_callers_array_is_safe():
    pytest.importorskip("torch", reason="torch is not installed here")
    held = [np.ones((5, N))]

    def value(X, A):
        A *= 0.9
        return ((A @ X) ** 2).sum()

    changing = custom.problem(value, shape=(N, P), data=held, autodiff="torch")
    with pytest.raises(ProblemError, match=r"agent 0's value must leave its data as they are"):
        changing.host([0]).value(np.ones((1, N, P)))
    assert (held[0] == 1).all()
