"""Which process hosts which agents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from destiny.errors import SettingsError
from destiny.validation import is_whole


def assign_ranks(
    agents: int, ranks: int, per_rank: int | Sequence[int] | None = None, table: Sequence[int] | None = None
) -> NDArray[np.intp]:
    """The rank of every agent ``(d,)``: evenly in order, so many for each rank, or as a table says.

    Parameters
    ----------
    agents, ranks : int
    per_rank : int or sequence of int, optional
        Agents of every rank (the last may have fewer), or of each.
    table : sequence of int, optional
        The rank of each agent.
    """
    if per_rank is not None and table is not None:
        raise SettingsError("give agents-per-rank or map, not both: each says who hosts whom")
    if table is not None:
        return _checked(table, agents, ranks)
    if per_rank is None:
        if ranks > agents:
            raise SettingsError(
                f"at most as many ranks as agents: found {ranks} ranks for {agents} agents; "
                f"start {agents} or fewer"
            )
        sizes = [agents // ranks + (rank < agents % ranks) for rank in range(ranks)]
    elif is_whole(per_rank):
        sizes = _equal(agents, ranks, int(per_rank))
    else:
        sizes = _listed(agents, ranks, per_rank)  # type: ignore[arg-type]
    return np.repeat(np.arange(ranks), sizes)


def _equal(agents: int, ranks: int, size: int) -> list[int]:
    if size < 1 or -(-agents // size) != ranks:
        right = f"start {-(-agents // size)} ranks" if size >= 1 else "it must be at least 1"
        raise SettingsError(
            f"agents-per-rank = {size} does not deal {agents} agents out to {ranks} ranks: {right}"
        )
    return [min(size, agents - size * rank) for rank in range(ranks)]


def _listed(agents: int, ranks: int, sizes: Sequence[int]) -> list[int]:
    whole = isinstance(sizes, Sequence) and all(is_whole(size) and size >= 1 for size in sizes)
    if not whole or len(sizes) != ranks or sum(sizes) != agents:
        raise SettingsError(
            f"agents-per-rank must be a whole number, or {ranks} of them, each at least 1, that add up to "
            f"{agents} agents; found {sizes!r}"
        )
    return list(sizes)


def _checked(table: Sequence[int], agents: int, ranks: int) -> NDArray[np.intp]:
    if len(table) != agents or not all(is_whole(rank) for rank in table):
        raise SettingsError(f"map must name the rank of each of {agents} agents; found {table!r}")
    owner = np.array(table, dtype=np.intp)
    if set(owner.tolist()) != set(range(ranks)):
        raise SettingsError(
            f"map must use the ranks 0 to {ranks - 1}, each at least once, as {ranks} were started; "
            f"found {sorted(set(owner.tolist()))}"
        )
    return owner


def spell(numbers: Sequence[int] | NDArray[np.intp]) -> str:
    """Some numbers for people: 3, 5 to 8."""
    parts = np.split(np.asarray(numbers), np.flatnonzero(np.diff(numbers) != 1) + 1)
    return ", ".join(f"{p[0]} to {p[-1]}" if len(p) > 2 else ", ".join(map(str, p)) for p in parts if len(p))
