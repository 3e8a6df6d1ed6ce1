"""The key of an agent for one run, in a file that nobody else may read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from destiny.agents import certificates
from destiny.agents.transport.tls import check_key
from destiny.errors import CheckpointError

FILE = "private-sums.key"


@dataclass(frozen=True)
class RunKey:
    """The key of this agent for one run (X25519)."""

    private: X25519PrivateKey

    @classmethod
    def new(cls) -> RunKey:
        return cls(X25519PrivateKey.generate())

    @classmethod
    def keep(cls, folder: Path, begun: bool, sent: bool) -> RunKey:
        """The key in a folder, readable by its owner alone; a new one where the run has not begun.

        A run that has sent numbers cannot go on with another key, as its masks would not cancel. A key of
        which there is no log is not used again: nobody knows what was sent under its masks, by an earlier
        run of the same name for instance.

        Parameters
        ----------
        begun : bool
            Whether there is a log of this run.
        sent : bool
            Whether numbers of this run were sent.
        """
        path = folder / FILE
        if not begun:
            path.unlink(missing_ok=True)
        if path.exists():
            check_key(path)
            raw = path.read_bytes()
            if len(raw) != 32:
                raise CheckpointError(f"{path} is damaged: all agents must start a new run")
            return cls(X25519PrivateKey.from_private_bytes(raw))
        if sent:
            raise CheckpointError(
                f"{path} is missing, and masks of another key would not cancel: bring it back, or let all "
                "agents start a new run"
            )
        key = cls.new()
        certificates.write(path, key.private.private_bytes_raw(), secret=True)
        return key

    @property
    def public(self) -> bytes:
        """The key to tell others."""
        return self.private.public_key().public_bytes_raw()
