"""Numbers as integers modulo 2^64 (narrow words) or 2^384 (wide words), for sums that are exact in any order.

A wide word holds a number without a scale: six limbs of 64 bits, the least first, in two's complement, in
multiples of 2^-192. A narrow word holds a number relative to a bound that every agent knows. Both travel as
unsigned 64-bit integers, the least byte first (`WORD`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from destiny.errors import DestinyError
from destiny.protocols import Array

WORD = np.dtype("<u8")
LIMBS = 6  # of a wide word
LEAST = -192  # exponent of the unit of wide words: the last of 53 bits of 2^-140
TINY = LEAST + 52  # exponent of the least number that wide words hold exactly
MOST = 125  # exponent of the largest number in wide words
ROOM = 58  # 2^58 numbers of 2^125 are a total of 2^183; wide words would wrap at 2^191
BITS = 61  # of a narrow word at its bound: two more are left for rounding and excess, and one is the sign
EXCESS = 1e-9  # by which rounding may lift a number above its bound, relative to the bound
PIECE = 2**14  # numbers that are worked on at a time
LARGEST_BOUND = 2.0**1023  # numbers above a bound by its excess are still finite

Words = NDArray[np.uint64]
Exponents = NDArray[np.intc]


class OutOfRangeError(DestinyError, OverflowError):
    """A number that words cannot hold, or a total that no such numbers have.

    The text shows the number: it is for the agent that raises it, not for the others.

    Attributes
    ----------
    entry : int
        Which of the numbers.
    said : str
        What it must be, and what it is.
    block : int or None
        Which of the arrays of a sum it is in, where that is known.
    """

    block: int | None = None

    def __init__(self, entry: int, said: str, name: str = "") -> None:
        super().__init__(f"{name or f'Entry {entry}'} {said}")
        self.entry, self.said = entry, said


def to_wide(numbers: Array) -> Words:
    """Wide words ``(k, 6)`` of numbers ``(k,)``.

    A magnitude between 2^-140 and 2^125 is held exactly. A smaller one is rounded to the nearest multiple of
    2^-192, and half a multiple to the even one. A larger one, NaN and infinity raise `OutOfRangeError`.
    """
    sizes = np.abs(numbers)
    if not (fits := sizes <= 2.0**MOST).all():
        k = int(np.argmin(fits))
        raise OutOfRangeError(
            k,
            f"must be a finite number between -2^{MOST} and 2^{MOST} ({2.0**MOST:.2g}), "
            f"but is {numbers[k]:.6g}. Measure the data in other units, or correct them.",
        )
    # The size is digits * 2^(LEAST + shift), where digits are an integer of at most 53 bits.
    shift = np.maximum(np.frexp(sizes)[1] - (LEAST + 53), 0)
    digits = np.rint(np.ldexp(sizes, -LEAST - shift)).astype(np.uint64)
    limb, bit = np.divmod(shift.astype(np.uint64), np.uint64(64))
    rows, first = np.arange(len(numbers)), limb.astype(np.intp)
    words = np.zeros((len(numbers), LIMBS), dtype=np.uint64)
    words[rows, first] = digits << bit
    words[rows, first + 1] = _upper_half(digits, bit)
    below = numbers < 0
    words[below] = _negative(words[below])
    return words.astype(WORD, copy=False)


def from_wide(words: Words) -> Array:
    """The float64 numbers ``(k,)`` nearest to wide words ``(k, 6)``; of two, the even one.

    A total above 2^183 in magnitude, the total of 2^58 numbers of 2^125, raises `OutOfRangeError`.
    """
    sizes = words.astype(np.uint64)  # a copy
    below = sizes[:, -1] >> np.uint64(63) == 1
    sizes[below] = _negative(sizes[below])
    used = sizes != 0
    rows, low = np.arange(len(sizes)), np.argmax(used, axis=1)
    high = LIMBS - 1 - np.argmax(used[:, ::-1], axis=1)
    high[~used.any(axis=1)] = 0
    top = sizes[rows, high]
    after = np.where(high > 0, sizes[rows, high - 1], np.uint64(0))
    # The highest 63 bits, and a last one that says whether there are more: rounding sees no difference.
    length = _bit_length(top)
    bit = (64 - length).astype(np.uint64) % np.uint64(64)  # a number 0 has length 0, and no bits to shift
    leading = (top << bit) | _upper_half(after, bit)
    more = (after << bit != 0) | (low < high - 1)
    leading = leading >> np.uint64(1) | (leading & np.uint64(1)) | more
    numbers: Array = np.ldexp(leading.astype(np.float64), 64 * high + length - 63 + LEAST)
    if not (fits := numbers <= 2.0 ** (MOST + ROOM)).all():
        k = int(np.argmin(fits))
        raise OutOfRangeError(
            k,
            f"of a total must be between -2^{MOST + ROOM} and 2^{MOST + ROOM}, but is "
            f"{(-1) ** int(below[k]) * numbers[k]:.6g}: the agents have not added up numbers of one sum.",
        )
    return np.where(below, -numbers, numbers)


def to_narrow(numbers: Array, bounds: Array) -> Words:
    """Narrow words ``(k,)`` of numbers ``(k,)``, rounded to multiples of the bound's unit.

    Parameters
    ----------
    numbers : ndarray (k,)
        A number above its bound by more than `EXCESS`, NaN and infinity raise `OutOfRangeError`.
    bounds : ndarray () or (k,)
        At least the total over all agents of the magnitudes, the same at every agent. The unit is 2^(E - 61)
        for the least E with bound < 2^E. Numbers whose bound is 0 must be 0.
    """
    E, most = _units_of(bounds, numbers.shape)
    words = np.empty(len(numbers), dtype=np.int64)
    for part in _pieces(len(numbers)):
        if not (fits := np.abs(numbers[part]) <= most[part]).all():
            k = part.start + int(np.argmin(fits))
            why = "the data differ from those of the bound, or are not finite."
            raise OutOfRangeError(
                k,
                f"must be a finite number of at most {most[k]:.6g} in magnitude, its bound, but is "
                f"{numbers[k]:.6g}: {_too_small(most[k]) or why}",
            )
        words[part] = np.rint(np.ldexp(numbers[part], BITS - E[part]))
    return words.view(np.uint64).astype(WORD, copy=False)


def from_narrow(words: Words, bounds: Array) -> Array:
    """The float64 numbers ``(k,)`` nearest to narrow words ``(k,)``; of two, the even one.

    A total above its bound by more than `EXCESS` raises `OutOfRangeError`. Totals below 2^-1022 are rounded
    twice.
    """
    E, most = _units_of(bounds, words.shape)
    signed = words.astype(np.uint64, copy=False).view(np.int64)
    numbers: Array = np.empty(len(words))
    for part in _pieces(len(words)):
        with np.errstate(over="ignore"):  # infinity is above every bound
            numbers[part] = np.ldexp(signed[part].astype(np.float64), E[part] - BITS)
        if not (fits := np.abs(numbers[part]) <= most[part]).all():
            k = part.start + int(np.argmin(fits))
            why = "the agents have not added up numbers of one sum, or their bounds differ."
            raise OutOfRangeError(
                k,
                f"of a total must be at most {most[k]:.6g} in magnitude, its bound, but is "
                f"{numbers[k]:.6g}: {_too_small(most[k]) or why}",
            )
    return numbers


def add_into(total: Words, words: Words) -> None:
    """Add words to a total, in place: modulo 2^64 where both are ``(k,)``, modulo 2^384 where ``(k, 6)``."""
    _check_shapes(total, words)
    np.add(total, words, out=total)
    if total.ndim == 1:
        return
    carry = (total < words)[:, :-1]
    while carry.any():  # once, unless a limb is full: a carry goes one limb further each time
        upper = total[:, 1:]
        upper += carry
        carry = (carry & (upper == 0))[:, :-1]
        total = upper


def subtract_from(total: Words, words: Words) -> None:
    """Subtract words from a total, in place; the inverse of `add_into`."""
    _check_shapes(total, words)
    if total.ndim == 1:
        np.subtract(total, words, out=total)
        return
    np.invert(total, out=total)  # -1 - total
    add_into(total, words)
    np.invert(total, out=total)


def _too_small(bound: float) -> str:
    """Why a bound may not hold, if that is because it was itself a total in wide words; otherwise empty."""
    if bound >= 2.0**TINY:
        return ""
    return f"the bound is a total below {2.0**TINY:.0e}, which is rounded. Measure the data in other units."


def _pieces(count: int) -> list[slice]:
    """Parts of long arrays: what is computed on the way stays in the cache, and takes no fresh memory."""
    return [slice(start, start + PIECE) for start in range(0, count, PIECE)]


def _check_shapes(total: Words, words: Words) -> None:
    if total.shape != words.shape or total.shape[1:] not in ((), (LIMBS,)):
        raise ValueError(
            f"Words must have the shape (k,) or (k, {LIMBS}) of their total, but there are {words.shape} "
            f"and {total.shape}."
        )


def _negative(words: Words) -> Words:
    negative = np.zeros_like(words)
    subtract_from(negative, words)
    return negative


def _upper_half(words: Words, bit: Words) -> Words:
    """The bits that a shift to the left by 0 to 63 bits moves out of words of 64 bits."""
    return (words >> np.uint64(1)) >> (np.uint64(63) - bit)


def _bit_length(words: Words) -> NDArray[np.intp]:
    """The numbers of bits of integers: 0 of 0, 64 of 2^64 - 1."""
    # Without the bit after its first one, no integer is rounded up to the next power of 2.
    return np.frexp((words & ~(words >> np.uint64(1))).astype(np.float64))[1].astype(np.intp)


def exponents(bounds: Array) -> Exponents:
    """The least E with bound < 2^E; 0 of a bound 0."""
    if not (fits := (bounds >= 0) & (bounds <= LARGEST_BOUND)).all():
        k = int(np.argmin(fits))
        raise OutOfRangeError(
            k,
            f"must be between 0 and 2^1023, but is {bounds.flat[k]:.6g}. "
            "Measure the data in other units, or correct them.",
            f"Bound {k}",
        )
    return np.asarray(np.frexp(bounds)[1])


def _units_of(bounds: Array, shape: tuple[int, ...]) -> tuple[Exponents, Array]:
    """The exponent of every number, and the most that it may be."""
    if bounds.shape not in ((), shape) or len(shape) != 1:
        raise ValueError(
            f"There must be a bound for each of (k,) numbers, or one for all, but there are {bounds.shape} "
            f"and {shape}."
        )
    return np.broadcast_to(exponents(bounds), shape), np.broadcast_to(bounds * (1 + EXCESS), shape)
