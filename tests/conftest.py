import signal

import hypothesis
import numpy as np
import pytest

# No test is timed: on a loaded machine an example may take a second.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")

# What a shell runs in the background ignores SIGINT, and so does every process it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=range(3))
def rng(request):
    return np.random.default_rng(request.param)


class Handler:
    """A user's signal handler that goes on; ``received`` are the signals it was called with."""

    def __init__(self):
        self.received = []

    def __call__(self, number, frame):
        self.received.append(number)


@pytest.fixture
def handler():
    """Install a user's handler of a signal for the length of a test."""
    before = {}

    def install(number):
        mine = Handler()
        before.setdefault(number, signal.signal(number, mine))
        return mine

    yield install
    for number, old in before.items():
        signal.signal(number, old)
