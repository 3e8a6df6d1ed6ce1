"""What can go wrong, in one sentence each: expected, found, what to do."""

INSTALL = 'pip install ".[{extra}]" in a checkout of DESTINY'
"""How to install an extra, for every `MissingExtraError`."""


class DestinyError(Exception):
    """Base of every error this package raises on purpose; its text is one sentence for a person."""

    code = 2  # with which a command ends


class ProblemError(DestinyError, ValueError):
    """Data, objectives or shapes that cannot be used."""


class NetworkError(DestinyError, ValueError):
    """A graph or a mixing matrix that cannot be used."""


class SettingsError(DestinyError, ValueError):
    """A setting, a file's key or a command-line option that cannot be used; ``option`` may name it."""

    def __init__(self, text: str, option: str = "") -> None:
        super().__init__(text)
        self.option = option


class MismatchError(SettingsError):
    """A method that cannot solve this problem; the text names both."""


class PrivacyError(DestinyError):
    """A run that would reveal more than its settings allow, if it continued."""


class CheckpointError(DestinyError):
    """A checkpoint that is missing, damaged or belongs to another run."""


class MissingExtraError(DestinyError, ImportError):
    """An optional dependency is not installed; the text names the extra."""
