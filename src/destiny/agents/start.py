"""What an agent checks before it calls anybody: at its start, and in ``destiny agents check``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from destiny.agents.settings import Settings
from destiny.agents.transport.own_certificate import check_own_certificate
from destiny.agents.transport.tls import Credentials
from destiny.errors import INSTALL, MissingExtraError
from destiny.protocols import AlgorithmBase
from destiny.run.agreement import LocalStop
from destiny.run.plan import Plan, make_plan

if TYPE_CHECKING:
    from destiny.agents.privacy.hiding import AgentHiding
    from destiny.agents.privacy.notary import Party


def plan_of(settings: Settings) -> Plan:
    """The run of a synchronous agent, checked; raises what does not go together."""
    s = settings
    assert isinstance(s.algorithm, AlgorithmBase)
    return make_plan(s.problem, s.network, s.algorithm, start=s.start, seed=s.seed, messages=s.messages)


def check_method(settings: Settings) -> Plan | None:
    """Raise what is wrong with the method of a synchronous agent; None of others."""
    if not isinstance(settings.algorithm, AlgorithmBase):
        return None
    plan = plan_of(settings)
    stop_rule(settings, plan)
    return plan


def check_start(settings: Settings) -> Credentials:
    """Raise what would end an agent of these settings at its start, its method apart; writes nothing.

    Files of [tls], the agent's own certificate as neighbors will check it, keys and names where messages are
    private, and the agent's data.
    """
    s = settings
    credentials = Credentials(s.files, s.authorities)
    called = s.listen.host if any(not n.dial for n in s.neighbors) else None
    check_own_certificate(s.files, called)
    if s.messages.private:
        hiding, party = _private_parts(s)
        hiding.check_party(party)
    s.problem.host([s.index])
    return credentials


def stop_rule(settings: Settings, plan: Plan) -> LocalStop | None:
    """How the agents agree to stop, None if they do not; raises if the method cannot be run by agents."""
    if settings.tolerance == 0:
        return None
    return LocalStop(plan.algorithm, plan.network, settings.tolerance)


def open_hiding(settings: Settings, folder: Path, turns: int = 0) -> AgentHiding | None:
    """Key and log of private messages, None where messages are plain; ``turns`` were made before."""
    if not settings.messages.private:
        return None
    hiding, party = _private_parts(settings)
    opened: AgentHiding = hiding.open_hiding(party, folder, turns, settings.hello.digest)
    return opened


def _private_parts(settings: Settings) -> tuple[Any, Party]:
    """The modules of private messages, which need the package cryptography, and who this agent is."""
    try:
        from destiny.agents.privacy import hiding
        from destiny.agents.privacy.notary import Party
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"private messages need cryptography: {INSTALL.format(extra='tls')}, or write private = false "
            "into [messages] of every agent's file"
        ) from error
    return hiding, Party(
        settings.run,
        settings.name,
        settings.index,
        settings.agents,
        [n.index for n in settings.neighbors],
        settings.files,
        {n.index: n.around for n in settings.neighbors if n.around is not None},
        settings.participants,
    )
