"""Checks of mixing matrices; each error names the entries and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse, triu

from destiny.errors import NetworkError
from destiny.networks import spectrum
from destiny.networks.links import Links, require_connected, tidy
from destiny.networks.weights import assemble

ROUNDING = 1e-10  # tolerance for matrices computed elsewhere in double precision; smaller weights count as 0
SMALLEST_GAP = 1e-10  # smallest 1 - lambda of a computed spectrum that is not rounding


def as_mixing(matrix: Any) -> csr_array[Any, Any]:
    """Check a matrix given by the user and return it as a mixing matrix ``(d, d)``.

    The result has the upper triangle of the matrix, mirrored, and a diagonal that completes every row to 1:
    without rounding errors in either, no round changes the network average. Raises `NetworkError`.
    """
    W = _as_csr(matrix)
    check_matrix(W)
    upper = triu(W, 1, format="coo")
    keep = np.abs(upper.data) > ROUNDING
    places = np.stack([upper.row[keep], upper.col[keep]], axis=1).astype(np.int64)
    return assemble(places, upper.data[keep], W.shape[0])


def check_matrix(W: csr_array[Any, Any]) -> None:
    """Raise `NetworkError` unless W is square, finite and symmetric with rows that sum to 1."""
    rows, cols = W.shape
    if rows != cols or rows == 0:
        raise NetworkError(
            f"mixing matrix must be square, a row per agent; found shape ({rows}, {cols}): give d x d weights"
        )
    if not np.isfinite(W.data).all():
        i, j = _place(W, int(np.argmin(np.isfinite(W.data))))
        raise NetworkError(f"mixing matrix must be finite; found W[{i}, {j}] = {W[i, j]}: replace that entry")
    _check_symmetric(W)
    sums = W.sum(axis=1)
    i = int(np.abs(sums - 1).argmax())
    if abs(sums[i] - 1) > ROUNDING:
        raise NetworkError(
            f"every row of the mixing matrix must sum to 1; row {i} sums to {sums[i]:.10g}: "
            f"change W[{i}, {i}] by {1 - sums[i]:.3g}"
        )


def check_network(W: csr_array[Any, Any], links: Links, *, connected: bool = True) -> None:
    """Raise `NetworkError` for weights off the links, and for weights with lambda = 1.

    A network that need not be ``connected`` must have nonnegative weights and a positive diagonal instead.
    """
    agents = W.shape[0]
    check_support(W, links)
    own = W.diagonal()
    if not connected:  # one of several matrices: together they average if each has these properties
        if W.data.min() < 0 or own.min() <= 0:
            raise NetworkError(
                "weights of a network in pieces must be nonnegative with a positive diagonal; "
                f"found W[{own.argmin()}, {own.argmin()}] = {own.min():.10g} and smallest weight "
                f"{W.data.min():.10g}: use metropolis"
            )
        return
    require_connected(links, agents)
    require_connected(weighted_links(W), agents, "the links with a weight other than 0")
    # nonnegative with a positive diagonal entry: lambda < 1 by Perron-Frobenius, no solve needed
    if W.data.min() >= 0 and own.max() > ROUNDING:
        return
    distance = spectrum.gap(W)
    if distance < SMALLEST_GAP:
        found = f"{1 - distance:.10g}" if distance else "1 or more"
        raise NetworkError(
            f"mixing matrix must have lambda = ||W - 11^T/d||_2 below 1; found {found}, with which agents "
            "never agree: use (I + W) / 2, or weights='metropolis'"
        )


def weighted_links(W: csr_array[Any, Any]) -> Links:
    """Links with a nonzero weight, ``(E, 2)``."""
    rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
    upper = (rows < W.indices) & (np.abs(W.data) > ROUNDING)
    return tidy(np.stack([rows[upper], W.indices[upper]], axis=1), W.shape[0])


def _as_csr(matrix: Any) -> csr_array[Any, Any]:
    sparse = issparse(matrix)
    if sparse:
        W: csr_array[Any, Any] = csr_array(matrix, dtype=np.float64)
        return W
    try:
        dense = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise NetworkError(
            f"mixing matrix must hold numbers, a row per agent; found {type(matrix)}"
        ) from error
    if dense.ndim != 2:
        raise NetworkError(
            f"mixing matrix must have two dimensions; found shape {dense.shape}: give d x d weights"
        )
    return csr_array(dense)


def _check_symmetric(W: csr_array[Any, Any]) -> None:
    difference = abs(W - W.T).tocsr()
    if difference.nnz == 0 or difference.data.max() <= ROUNDING:
        return
    i, j = sorted(_place(difference, int(difference.data.argmax())))
    raise NetworkError(
        f"mixing matrix must be symmetric; W[{i}, {j}] = {W[i, j]:.10g} but W[{j}, {i}] = {W[j, i]:.10g}: "
        "links work both ways with one weight, such as (W + W.T) / 2"
    )


def check_support(W: csr_array[Any, Any], links: Links) -> None:
    """Raise `NetworkError` for a weight where there is no link."""
    agents, weighted = W.shape[0], weighted_links(W)
    foreign = weighted[~np.isin(weighted @ [agents, 1], links @ [agents, 1])]
    if len(foreign):
        i, j = foreign[0]
        raise NetworkError(
            f"mixing matrix must be 0 where there is no link; W[{i}, {j}] = {W[i, j]:.10g} but agents {i} "
            f"and {j} are not linked: set it to 0 or add the link"
        )


def _place(W: csr_array[Any, Any], entry: int) -> tuple[int, int]:
    """Row and column of a stored entry."""
    return int(np.searchsorted(W.indptr, entry, side="right")) - 1, int(W.indices[entry])
