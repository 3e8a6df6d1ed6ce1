"""Whatever bytes come, in whatever pieces, the parser takes whole messages or refuses them."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from destiny.agents.outbox import Outbox, To
from destiny.agents.transport import messages as wire
from destiny.agents.transport.messages import HEADER, Header, Hello, Kind, Refusal

LARGEST = 4096
BOUNDED = settings(max_examples=200, deadline=None, database=None)
SHORT = settings(BOUNDED, max_examples=25)

kinds = st.sampled_from(list(Kind))
texts = st.text(max_size=40)
counts = st.integers(0, 2**63 - 1)
jsons = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8)
hellos = st.builds(
    Hello,
    agent=texts,
    index=counts,
    run=texts,
    version=texts,
    digest=texts,
    settings=st.dictionaries(texts, jsons, max_size=5),
    degree=counts,
    need=counts,
)


def room(header):
    """Like a link's: what is too long was refused before any memory is taken."""
    if header.length > LARGEST:
        raise Refusal("too long")
    return memoryview(bytearray(header.length))


def feed(raw, cuts):
    """Messages found in bytes that come in pieces."""
    reader, found, position = wire.Reader(room), [], 0
    for cut in [*sorted(cuts), len(raw)]:
        while position < min(cut, len(raw)):
            space = reader.buffer()
            assert len(space) > 0
            piece = raw[position : min(cut, position + len(space))]
            space[: len(piece)] = piece
            position += len(piece)
            if (whole := reader.advance(len(piece))) is not None:
                found.append((whole[0], bytes(whole[1])))
    return found


@BOUNDED
@given(st.binary(max_size=2000), st.lists(st.integers(0, 2000), max_size=20))
def test_any_bytes_are_taken_or_refused(raw, cuts):
    try:
        found = feed(raw, cuts)
    except Refusal:
        return
    assert sum(HEADER.size + header.length for header, _ in found) <= len(raw)


@BOUNDED
@given(
    st.lists(st.tuples(kinds, counts, counts, st.binary(max_size=300)), max_size=6),
    st.lists(st.integers(0, 3000), max_size=30),
)
def test_messages_survive_any_cuts(messages, cuts):
    raw = b"".join(Header(k, r, m, len(c)).pack() + c for k, r, m, c in messages)
    assert feed(raw, cuts) == [(Header(k, r, m, len(c)), c) for k, r, m, c in messages]


@BOUNDED
@given(st.binary(min_size=HEADER.size, max_size=HEADER.size))
def test_a_header_is_understood_exactly_or_refused(raw):
    try:
        header = Header.unpack(raw)
    except Refusal:
        return
    assert header.pack() == raw


@BOUNDED
@given(kinds, st.integers(0, 2**64 - 1), st.integers(0, 255), st.integers(0, 255))
def test_one_changed_byte_of_a_header_is_refused_or_another_header(kind, round, place, value):
    raw = bytearray(Header(kind, round, 1, 8).pack())
    raw[place % HEADER.size] = value
    try:
        found = Header.unpack(raw)
    except Refusal:
        return
    assert found.pack() == bytes(raw)


@BOUNDED
@given(st.binary(max_size=500))
def test_any_words_are_a_hello_or_refused(raw):
    with pytest.raises(Refusal):
        Hello.unpack(raw)


@SHORT
@given(st.dictionaries(st.sampled_from([*Hello.__dataclass_fields__, "more"]), jsons))
def test_any_table_is_a_hello_or_refused(table):
    try:
        found = Hello.unpack(json.dumps(table).encode())
    except Refusal:
        return
    assert found.need >= 0


@BOUNDED
@given(hellos)
def test_a_hello_survives_the_way_there(hello):
    raw = hello.pack()
    assert Hello.unpack(raw[HEADER.size :]) == hello


@pytest.mark.parametrize("levels", [wire.MAX_DEPTH, wire.MAX_DEPTH + 2, 100, 500, 900, 1300, 1360])
def test_json_of_many_levels_is_refused_whatever_the_parser_takes(levels):
    raw = b'{"a":' * levels + b"1" + b"}" * levels
    if levels <= wire.MAX_DEPTH:
        assert list(wire.decode_json(raw)) == ["a"]
    else:
        with pytest.raises(Refusal, match=r"sent (JSON with more than|words that are no JSON)"):
            wire.decode_json(raw)


@BOUNDED
@given(st.binary(max_size=600))
def test_any_reason_is_one_printable_line_or_refused(raw):
    try:
        assert wire.read_reason(raw).isprintable()
    except Refusal:
        return


@SHORT
@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 9))
def test_what_was_sent_is_found_again_from_the_disk(prune, more, every):
    import tempfile
    from pathlib import Path

    from destiny.storage import npz

    with tempfile.TemporaryDirectory() as name:
        folder, outbox = Path(name), Outbox()
        end = 31 + more
        for k in range(end):
            if k and k % every == 0:
                if files := outbox.unsaved_file(folder, k):
                    npz.write(files)
                outbox.mark_saved(folder, k)
                outbox.prune(min(prune, k))
            outbox.add(k, [np.full((1, 3), float(k)), np.ones((1, 1))])
        last = (end - 1) // every * every
        found = Outbox.load(folder, last)
        assert found.first <= min(prune, last)
        for k in range(found.first, last):
            assert np.frombuffer(found.messages[k][To.ALL].content).tolist() == [k, k, k, 1]
