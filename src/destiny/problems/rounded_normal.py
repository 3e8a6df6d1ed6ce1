"""Normal numbers rounded to whole ones, sampled exactly, from a key: no floating point takes part."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import count as count_up

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Whole = NDArray[np.int64]
Truth = NDArray[np.bool_]

WORD = 64  # bits of a uniform number that are drawn at once
SPARE = 32  # candidates more than are needed on average: few numbers are then drawn in one pass


def rounded_normal(key: bytes, count: int, bits: int, word: int = WORD) -> Whole:
    """``count`` independent numbers floor(G), where G is normal with mean 0 and standard deviation 2^bits.

    Every whole number k has exactly the probability Phi((k + 1) / 2^bits) - Phi(k / 2^bits), by the algorithm
    of Karney (Sampling exactly from the normal distribution, ACM TOMS 42, 2016), which compares uniform
    numbers and computes nothing else. SHAKE-256 of ``key`` gives the uniform numbers: nobody can predict them
    without the key. The same key, count and bits give the same numbers on every machine.

    Parameters
    ----------
    key : bytes
        A secret, followed by the purpose of the numbers.
    count : int
        How many.
    bits : int
        From 1 to 54.
    word : int
        Bits of a uniform number that are drawn at once; fewer than 64 for tests alone.
    """
    uniforms = Uniforms(key, word)
    whole, fraction = _half_normal(uniforms, count)
    # 2^bits (whole + fraction), rounded down: further bits of the fraction cannot change it.
    size = (whole << bits) + (fraction[0] >> np.uint64(word - bits)).astype(np.int64)
    # The floor of -y is -(floor(y) + 1), which is ~floor(y).
    return np.asarray(np.where(uniforms.coins(count), size, ~size))


class Uniforms:
    """Independent uniform numbers between 0 and 1, of which as many bits are made as comparisons need.

    A number is a column of two words: its first bits, and its place in the stream, from which further bits
    follow. An array of numbers is thus ``(2, count)``.
    """

    def __init__(self, key: bytes, word: int = WORD) -> None:
        self.key, self.word = key, word
        self.drawn = self.calls = 0

    def draw(self, count: int) -> Words:
        """The next ``count`` numbers."""
        stream = self._hash(8 * count, b"first", self.calls)
        numbers = np.empty((2, count), dtype=np.uint64)
        numbers[0] = np.frombuffer(stream, dtype="<u8") >> np.uint64(WORD - self.word)
        numbers[1] = np.arange(self.drawn, self.drawn + count, dtype=np.uint64)
        self.calls, self.drawn = self.calls + 1, self.drawn + count
        return numbers

    def coins(self, count: int) -> Truth:
        """Whether each of ``count`` new numbers is below 1/2."""
        return self.low(self.draw(count))

    def low(self, numbers: Words) -> Truth:
        """Whether each number is below 1/2."""
        return np.asarray(numbers[0] < np.uint64(1 << (self.word - 1)))

    def less(self, a: Words, b: Words) -> Truth:
        """Whether a < b, column by column."""
        less = np.asarray(a[0] < b[0])
        for i in np.flatnonzero(a[0] == b[0]):
            less[i] = self._less_further(int(a[1, i]), int(b[1, i]))
        return less

    def _less_further(self, a: int, b: int) -> bool:
        """The same of two numbers, known by their places, that agree in their first bits."""
        for depth in count_up():
            x, y = (self._hash(8, b"further", place, depth) for place in (a, b))
            if x != y:
                return x < y
        raise AssertionError  # two numbers are never equal

    def _hash(self, length: int, label: bytes, *places: int) -> bytes:
        text = self.key + label + b"".join(place.to_bytes(8) for place in places)
        return hashlib.shake_256(text).digest(length)


def _half_normal(uniforms: Uniforms, count: int) -> tuple[Whole, Words]:
    """Absolute values of standard normal numbers: their whole parts k and their fractions x.

    Their density exp(-(k + x)^2 / 2) is exp(-k/2) exp(-k(k - 1)/2) exp(-k x) exp(-x^2/2). k is drawn by the
    first factor, x uniformly, and the pair is kept with a probability equal to the other three factors.
    """
    whole, fraction = np.empty(0, dtype=np.int64), np.empty((2, 0), dtype=np.uint64)
    while (left := count - len(whole)) > 0:
        k, x = _candidates(uniforms, 2 * left + SPARE)
        whole, fraction = np.append(whole, k[:left]), np.append(fraction, x[:, :left], axis=1)
    return whole, fraction


def _candidates(uniforms: Uniforms, count: int) -> tuple[Whole, Words]:
    """Whole parts and fractions, about 49 of 100 of which are kept."""
    k, x = _geometric(uniforms, count), uniforms.draw(count)
    kept = _all(k * (k - 1), lambda some: _exp_half(uniforms, some.size))
    k, x = k[kept], x[:, kept]
    kept = _all(k, lambda some: _exp(uniforms, x[:, some]))
    k, x = k[kept], x[:, kept]
    kept = _exp(uniforms, x, squared=True)
    return k[kept], x[:, kept]


def _geometric(uniforms: Uniforms, count: int) -> Whole:
    """Whole numbers k >= 0 with probabilities proportional to exp(-k/2)."""
    k, going = np.zeros(count, dtype=np.int64), np.arange(count)
    while going.size:
        going = going[_exp_half(uniforms, going.size)]
        k[going] += 1
    return k


def _all(times: Whole, trial: Callable[[Whole], Truth]) -> Truth:
    """Whether as many trials as ``times`` says all succeed; ``trial`` is given the places that are tried."""
    good, tried, going = np.ones(len(times), dtype=np.bool_), 0, np.flatnonzero(times)
    while going.size:
        good[going] = trial(going)
        tried += 1
        going = going[good[going] & (times[going] > tried)]
    return good


def _exp_half(uniforms: Uniforms, count: int) -> Truth:
    """True with probability exp(-1/2), as `_exp`."""
    even, first = np.ones(count, dtype=np.bool_), uniforms.draw(count)
    low = uniforms.low(first)
    even[low] = ~_exp(uniforms, first[:, low])
    return even


def _exp(uniforms: Uniforms, x: Words, squared: bool = False) -> Truth:
    """True with probability exp(-x), or exp(-x^2/2) if ``squared``, by von Neumann (1951).

    The longest run x > U1 > U2 > ... of uniform numbers has at least j numbers with probability x^j / j!, and
    its length is thus even with probability exp(-x). If every number of the run must also find a coin and
    another uniform number below x, the probability is (x^2/2)^j / j!.
    """
    even, last = np.ones(x.shape[1], dtype=np.bool_), x
    going = np.arange(x.shape[1])
    while going.size:
        following = uniforms.draw(going.size)
        longer = uniforms.less(following, last)
        if squared:
            longer &= uniforms.coins(going.size)
            longer &= uniforms.less(uniforms.draw(going.size), x[:, going])
        going, last = going[longer], following[:, longer]
        even[going] ^= True
    return even
