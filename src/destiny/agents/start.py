"""What an agent checks before it calls anybody: at its start, and in ``destiny agents check``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from destiny.agents.settings import Settings
from destiny.agents.transport.own_certificate import check_own_certificate
from destiny.agents.transport.tls import Credentials
from destiny.errors import INSTALL, MissingExtraError
from destiny.protocols import AlgorithmBase
from destiny.run.agreement import DecentralisedStop
from destiny.run.inputs import prepared_algorithm

if TYPE_CHECKING:
    from destiny.agents.privacy.setup import Privacy


def check_start(settings: Settings) -> Credentials:
    """Raise what would end an agent of these settings at its start; writes nothing.

    Files of [tls], the agent's own certificate as neighbours will check it, keys and names where sums are
    private, the method, and the agent's data.
    """
    s = settings
    credentials = Credentials(s.files, s.authorities)
    called = s.listen.host if any(not n.dial for n in s.neighbours) else None
    check_own_certificate(s.files, called)
    if s.messages.private:
        privacy_class().check(s)
    if isinstance(s.algorithm, AlgorithmBase):
        stop_rule(s, prepared_algorithm(s.algorithm, s.problem, s.network))
    s.problem.host([s.index])
    return credentials


def stop_rule(settings: Settings, algorithm: AlgorithmBase) -> DecentralisedStop:
    """How the agents agree to stop; raises if the method cannot be run by agents."""
    tolerance = settings.tolerance if settings.tolerance > 0 else None
    return DecentralisedStop(algorithm, settings.network, tolerance)


def open_privacy(settings: Settings, folder: Path, rounds: int = 0) -> Privacy | None:
    """Keys and log of private sums, None where messages are plain; ``rounds`` were made before."""
    return privacy_class().open(settings, folder, rounds) if settings.messages.private else None


def privacy_class() -> type[Privacy]:
    """`Privacy`, which needs the package cryptography."""
    try:
        from destiny.agents.privacy.setup import Privacy
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"private sums need cryptography: {INSTALL.format(extra='tls')}, or write private = false "
            "into [messages] of every agent's file"
        ) from error
    return Privacy
