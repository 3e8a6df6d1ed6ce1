"""How an agent hides its words in private sums: keys, masks that know the past, a log of what was sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from destiny.agents.privacy.notary import Party, SigningNotary
from destiny.agents.privacy.pair_masks import PairMasks, Past, pair_secret, partners
from destiny.agents.privacy.run_key import RunKey
from destiny.agents.privacy.sent_log import SentLog
from destiny.agents.statements import Statements, kept_run
from destiny.engines.private_sums import PREFIX
from destiny.engines.words import Exponents, Words
from destiny.errors import CheckpointError
from destiny.protocols import Array

PAST = f"{PREFIX}past"


class AgentHiding:
    """The masks of one agent in a run (`destiny.engines.private_sums.Hiding`).

    Parameters
    ----------
    notary : SigningNotary
        Who this agent is, and its key for the run.
    log : SentLog
    settings : str
        Digest of what all agents must have alike.
    """

    def __init__(self, notary: SigningNotary, log: SentLog, settings: str) -> None:
        self.notary, self.log, self.settings = notary, log, settings
        self.masks: PairMasks | None = None
        self.past = Past()

    def begin(self, statements: Statements) -> None:
        """The statements of all agents are here: share a secret with each partner."""
        said = [
            [index, table["name"], table["key"], table["links"]]
            for index, table in sorted(statements.known.items())
        ]
        agreed = hashlib.sha256(json.dumps(said).encode()).digest()
        self.past = Past(self.settings.encode(), agreed)
        me, key = self.notary.index, self.notary.secret
        self.masks = PairMasks(
            me,
            {
                j: pair_secret(key.private, self.notary.key_of(statements.known[j]), self.notary.run, me, j)
                for j in partners(self.notary.agents, agreed, me)
            },
        )

    def hide(self, turn: int, parts: Sequence[Words], units: Sequence[Exponents]) -> None:
        """Add the masks of a sum, once: other words for the same turn are refused."""
        assert self.masks is not None
        layout = [turn, [words.shape for words in parts], [each.shape for each in units]]
        told = b"".join([json.dumps(layout).encode(), *(each.astype("<i4").tobytes() for each in units)])
        agreed = hashlib.sha256(self.past.digest + told).digest()
        for place, words in enumerate(parts):
            self.masks.add_to(words, hashlib.sha256(agreed + str(place).encode()).digest())
        self.log.add(turn, parts)

    def learn(self, totals: Sequence[Words]) -> None:
        """The totals of a sum are a part of the past."""
        for words in totals:
            self.past.add(words.data)

    def arrays(self) -> dict[str, Array]:
        """The digest of the past, a number for each byte."""
        return {PAST: np.frombuffer(self.past.digest, dtype=np.uint8).astype(np.float64)[None]}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from the past of a checkpoint."""
        if not arrays:
            return
        if PAST not in arrays or arrays[PAST].shape != (1, len(self.past.digest)):
            raise ValueError("the past of its private sums is missing")
        self.past = Past.resume(arrays[PAST][0].astype(np.uint8).tobytes())


def open_hiding(party: Party, folder: Path, turns: int, settings: str) -> AgentHiding:
    """Key and log in the folder of the checkpoints; raises CheckpointError if one is lost or damaged.

    ``turns`` were made before the checkpoint, ``settings`` is the digest of what all agents must have alike.
    """
    log = SentLog(folder, party.run, turns)
    if not log.begun and kept_run(folder) == party.run:
        raise CheckpointError(
            f"{log.path} is missing or empty, and nobody knows what was sent under the key of this "
            "run: bring it back, or let all agents start a new run"
        )
    secret = RunKey.keep(folder, log.begun, sent=log.end > 0)
    log.begin()  # not before there is a new key: an old one would pass for that of this log
    return AgentHiding(SigningNotary(party, secret), log, settings)


def check_party(party: Party) -> None:
    """Raise SettingsError if the certificate cannot vouch for this agent; writes nothing."""
    SigningNotary(party, RunKey.new()).own()
