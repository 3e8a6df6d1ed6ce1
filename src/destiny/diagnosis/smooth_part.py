"""A problem without its regulariser."""

from __future__ import annotations

from collections.abc import Sequence

from destiny.problems.own_problem import WrappedProblem
from destiny.problems.regularisers import HostedRegularised
from destiny.protocols import Hosted, ProblemBase


class SmoothPart(WrappedProblem):
    """The f of a problem f + r, which may be wrapped, as a problem read from a file is."""

    inner: ProblemBase

    @property
    def regulariser(self) -> None:
        """None: that is what is left out."""
        return

    def host(self, ids: Sequence[int]) -> Hosted:
        """The objectives of the agents ``ids``, without r beside them."""
        hosted = self.inner.host(ids)
        return hosted.hosted if isinstance(hosted, HostedRegularised) else hosted
