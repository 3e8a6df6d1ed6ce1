"""Words hold numbers exactly, are rounded once, add up in any order, and never wrap in silence."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from destiny.engines import words
from destiny.engines.words import (
    BITS,
    EXCESS,
    LIMBS,
    WORD,
    OutOfRangeError,
    add_into,
    from_narrow,
    from_wide,
    subtract_from,
    to_narrow,
    to_wide,
)
from destiny.errors import DestinyError

UNIT = Fraction(1, 2**192)
exact = st.builds(np.ldexp, st.sampled_from([-1.0, 1.0]) | st.floats(-2, 2), st.integers(-139, 124)).filter(
    lambda x: x == 0 or 2.0**-140 <= abs(x) <= 2.0**125
)
small = st.floats(-(2.0**-139), 2.0**-139)
limbs = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])
wide = st.lists(limbs, min_size=LIMBS, max_size=LIMBS)


def integers(array):
    """What wide words ``(k, 6)`` or narrow words ``(k,)`` stand for, as Python's integers."""
    bytes_ = np.ascontiguousarray(array, dtype="<u8")
    return [int.from_bytes(row.tobytes(), "little", signed=True) for row in bytes_]


def wrapped(value, bits):
    """The integer of so many bits, in two's complement, that is equal to this one modulo 2^bits."""
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def as_wide(values):
    raw = b"".join((v % 2**384).to_bytes(48, "little") for v in values)
    return np.frombuffer(raw, dtype="<u8").reshape(-1, LIMBS).copy()


def power_above(bound):
    """The least power of 2 above a bound, whose denominator is a power of 2; 1 of 0."""
    numerator, denominator = float(bound).as_integer_ratio()
    return Fraction(2 ** numerator.bit_length(), denominator)


@given(st.lists(exact, max_size=8))
@example([2.0**125, -(2.0**125), 2.0**-140, -(2.0**-140), 0.0, -0.0])
@example([np.nextafter(2.0**125, 0), np.nextafter(2.0**-140, 1), -np.nextafter(2.0**-140, 1)])
def test_wide_words_hold_all_bits_of_a_number(values):
    held = to_wide(np.array(values))
    assert held.dtype == WORD
    assert held.shape == (len(values), LIMBS)
    assert [k * UNIT for k in integers(held)] == [Fraction(float(x)) for x in values]
    assert from_wide(held).tolist() == values


@given(st.lists(small, min_size=1, max_size=8))
@example([2.0**-193, 3 * 2.0**-193, -(2.0**-193), -3 * 2.0**-193, 5e-324, np.nextafter(2.0**-193, 1)])
def test_small_numbers_are_rounded_to_the_nearest_unit(values):
    """Python rounds fractions half to even as well."""
    assert integers(to_wide(np.array(values))) == [round(Fraction(x) / UNIT) for x in values]


@given(
    st.lists(st.builds(lambda v, s: v >> s, st.integers(-(2**375), 2**375), st.integers(0, 380)), min_size=1)
)
@example([0, 1, -1, 2**375, -(2**375), 2**64 - 1, 2**64, 2**128 - 1, 2**320 - 1, -(2**320)])
@example(
    [2**53 + 1, 2**53 + 3, 2**54 - 1, 2**64 - 2**10, 2**64 - 2**10 - 1, 2**63 + 2**10, 2**63 + 2**10 + 1]
)  # halves, and nearly
@example(
    [s * ((2**53 + odd) * 2**200 + 2**199 + rest) for s in (1, -1) for odd in (0, 1) for rest in (-1, 0, 1)]
)
@example([2**300 + 2**247 + more for more in (0, 1, 2**64, 2**180)])  # what is far below decides
def test_wide_totals_are_rounded_once_half_to_even(values):
    """Python divides integers with one rounding, half to even."""
    assert from_wide(as_wide(values)).tolist() == [v / 2**192 for v in values]


def test_thousands_of_wide_numbers_at_once(rng):
    values = rng.standard_normal(8170) * 2.0 ** rng.integers(-130, 120, 8170)
    held = to_wide(values)
    np.testing.assert_array_equal(from_wide(held), values)
    total = to_wide(np.zeros(1))
    for row in held:
        add_into(total, row[None])
    assert from_wide(total)[0] == float(sum(map(Fraction, values.tolist())))


def test_there_is_room_for_2_to_the_58_of_the_largest_numbers():
    largest = np.array([2.0**125, -(2.0**125)])
    total = to_wide(largest)
    for _ in range(58):
        add_into(total, total.copy())
    assert from_wide(total).tolist() == (largest * 2.0**58).tolist()
    add_into(total, total.copy())
    with pytest.raises(
        OutOfRangeError, match=r"^Entry 0 of a total must be between -2\^183 and 2\^183, but is"
    ):
        from_wide(total)


@pytest.mark.parametrize("value", [np.nextafter(2.0**125, np.inf), -1e40, np.inf, -np.inf, np.nan])
def test_what_wide_words_cannot_hold_is_refused(value):
    with pytest.raises(OutOfRangeError, match=rf"^Entry 2 must be .* but is {value:.6g}".replace("+", r"\+")):
        to_wide(np.array([1.0, 2.0**125, value, value]))


numbers_and_bounds = st.lists(
    st.floats(5e-324, 2.0**1023).flatmap(lambda b: st.tuples(st.floats(-b, b), st.just(b))), max_size=8
)


@given(numbers_and_bounds)
@example([(0.0, 0.0), (1.0, 1.0), (-1.0, 1.0), (2.0**1023, 2.0**1023), (-5e-324, 5e-324), (1e-300, 1e300)])
def test_narrow_words_are_the_nearest_multiples_of_the_unit(pairs):
    values, bounds = np.array(pairs).reshape(-1, 2).T
    held = to_narrow(values, bounds)
    assert held.dtype == WORD
    assert held.shape == values.shape
    scaled = [Fraction(x) * 2**BITS / power_above(b) for x, b in zip(values, bounds, strict=True)]
    assert integers(held) == [round(v) for v in scaled]
    found, normal = from_narrow(held, bounds), bounds > 2.0**-1022
    coarse = np.ldexp(bounds, -BITS) + np.spacing(np.abs(values)) / 2
    assert (np.abs(found - values)[normal] <= coarse[normal]).all()


@given(st.floats(1e-300, 1e300), st.lists(st.floats(-1, 1), min_size=1, max_size=40))
def test_totals_within_the_bound_never_wrap(bound, parts):
    """Shares of the bound: all magnitudes together are at most it, up to rounding."""
    shares = np.array(parts) / max(float(sum(map(abs, map(Fraction, parts)))), 1e-9)
    values, bounds = np.clip(shares, -1, 1) * bound, np.array([bound])
    total = np.zeros(1, dtype=np.uint64)
    for value in values:
        add_into(total, to_narrow(np.array([value]), bounds))
    true = float(sum(map(Fraction, values.tolist())))
    assert abs(from_narrow(total, bounds)[0] - true) <= len(parts) * bound * 2.0**-BITS + np.spacing(
        abs(true)
    )


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        (2.0 * (1 + 2e-9), 2.0),
        (-3e-300, 1e-300),
        (5e-324, 0.0),
        (2.0**70, 1.0),  # 0 modulo 2^64
        (np.nan, 1.0),
        (np.inf, 1.0),
        (-np.inf, 0.0),
        (1.0, np.nan),
        (1.0, np.inf),
        (0.0, -1.0),
        (1.0, 1.5e308),
    ],
)
def test_what_narrow_words_cannot_hold_is_refused(value, bound):
    with pytest.raises(OutOfRangeError, match=r"^(Entry|Bound) 1 must be "):
        to_narrow(np.array([1.0, value]), np.array([1.0, bound]))


def test_rounding_may_lift_a_number_a_little_above_its_bound():
    bounds = np.array([1.0, 3.0, np.nextafter(4.0, 0), 2.0**1023])
    values = bounds * (1 + EXCESS / 2)
    np.testing.assert_allclose(from_narrow(to_narrow(values, bounds), bounds), values, rtol=2.0**-52)


@pytest.mark.parametrize("bound", [0.0, 1e-300, 1.0, 2.0**1023])
def test_narrow_totals_above_their_bound_are_refused(bound):
    """Such as those of masks that have not cancelled."""
    held = np.array([0, 2**62], dtype=np.uint64)
    with pytest.raises(OutOfRangeError, match=r"^Entry 1 of a total must be at most "):
        from_narrow(held, np.array([1.0, bound]))
    with pytest.raises(OutOfRangeError, match=r"^Entry 1 of a total must be at most "):
        from_narrow(np.negative(held), np.array([1.0, bound]))


def test_errors_are_those_of_the_package_and_of_python():
    assert issubclass(OutOfRangeError, DestinyError)
    assert issubclass(OutOfRangeError, OverflowError)


@given(st.lists(st.tuples(wide, wide), min_size=1, max_size=5))
@example([([2**64 - 1] * LIMBS, [1] + [0] * 5), ([2**64 - 1] * LIMBS, [2**64 - 1] * LIMBS)])
@example([([0] * LIMBS, [1] + [0] * 5), ([2**64 - 1, 2**64 - 1, 5, 0, 0, 0], [1, 0, 2**64 - 6, 0, 0, 0])])
def test_carries_are_those_of_long_integers(pairs):
    one, two = np.array(pairs, dtype=np.uint64).transpose(1, 0, 2)
    before = two.copy()
    for change, sign in ((add_into, 1), (subtract_from, -1)):
        total = one.copy()
        change(total, two)
        expected = [wrapped(a + sign * b, 384) for a, b in zip(integers(one), integers(two), strict=True)]
        assert integers(total) == expected
    np.testing.assert_array_equal(two, before)
    narrow = one[:, 0].copy()
    subtract_from(narrow, two[:, 0].copy())
    assert integers(narrow) == [
        wrapped(int(a) - int(b), 64) for a, b in zip(one[:, 0], two[:, 0], strict=True)
    ]


@given(st.lists(wide, min_size=2, max_size=12), st.randoms(use_true_random=False), st.booleans())
def test_every_order_and_every_tree_has_the_same_bits(rows, random, narrow):
    parts = [np.array([row], dtype=np.uint64) for row in rows]
    parts = [part[0] for part in parts] if narrow else parts  # six narrow words, or a wide one
    expected = np.zeros_like(parts[0])
    for part in parts:
        add_into(expected, part)
    while len(parts) > 1:  # any two, until one is left
        random.shuffle(parts)
        total = parts.pop().copy()
        add_into(total, parts.pop())
        parts.append(total)
    np.testing.assert_array_equal(parts[0], expected)


@pytest.mark.parametrize("change", [add_into, subtract_from])
@pytest.mark.parametrize(
    ("total", "other"),
    [((3,), (1,)), ((6, 6), (6,)), ((2, 6), (1, 6)), ((2, 5), (2, 5)), ((2, 6, 1), (2, 6, 1))],
)
def test_words_of_another_shape_are_refused(change, total, other):
    with pytest.raises(ValueError, match="must have the shape"):
        change(np.zeros(total, dtype=np.uint64), np.zeros(other, dtype=np.uint64))


@pytest.mark.parametrize(("shape", "bounds"), [((3,), (1,)), ((1,), (3,)), ((2, 3), (3,)), ((2, 3), (2, 3))])
def test_bounds_of_another_shape_are_refused(shape, bounds):
    with pytest.raises(ValueError, match="There must be a bound for each"):
        to_narrow(np.zeros(shape), np.ones(bounds))
    with pytest.raises(ValueError, match="There must be a bound for each"):
        from_narrow(np.zeros(shape, dtype=np.uint64), np.ones(bounds))


def test_the_bytes_are_the_same_on_every_machine():
    """Written down by hand: little endian, 1 is 2^192 units; and 1 of a bound 1 < 2^1 is 2^60 units."""
    one, minus = bytes(24) + b"\1" + bytes(23), bytes(24) + b"\xff" * 24
    assert to_wide(np.array([1.0, -1.0])).tobytes() == one + minus
    held = to_narrow(np.array([1.0, -1.0]), np.ones(2))
    assert held.tobytes() == bytes(7) + b"\x10" + bytes(7) + b"\xf0"


def test_bit_lengths_next_to_powers_of_2():
    near = sorted({min(max(2**e + d, 0), 2**64 - 1) for e in range(65) for d in (-1, 0, 1)})
    assert all(a < b for a, b in pairwise(near))
    found = words._bit_length(np.array(near, dtype=np.uint64)).tolist()
    assert found == [v.bit_length() for v in near]
