"""For any bytes and any two places: a sealed field opens in its own place and nowhere else."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memory_core.errors import MemoryCoreError
from memory_core.formats.envelope import SpaceKeys, unwrap, wrap

STEADY = settings(deadline=None, derandomize=True)
KEY_ID = "0f" * 8
NAMES = st.text(max_size=12)
PLACES = st.tuples(NAMES, NAMES, NAMES, NAMES)
KEYS = st.binary(min_size=32, max_size=32)


def keys(space_id: str, index_key: bytes = b"i" * 32) -> SpaceKeys:
    return SpaceKeys(
        space_id=space_id, sealing_id=KEY_ID, ciphers={KEY_ID: AESGCM(b"k" * 32)}, index_key=index_key
    )


@STEADY
@given(PLACES, st.binary(max_size=2_000))
def test_any_bytes_come_back_from_their_place(place: tuple[str, str, str, str], plain: bytes) -> None:
    space, *rest = place
    assert keys(space).open(*rest, keys(space).seal(*rest, plain)) == plain


@STEADY
@given(PLACES, PLACES, st.binary(max_size=50))
def test_no_two_places_open_each_others_fields(
    place: tuple[str, str, str, str], other: tuple[str, str, str, str], plain: bytes
) -> None:
    assume(place != other)
    sealed = keys(place[0]).seal(*place[1:], plain)
    with pytest.raises(MemoryCoreError):
        keys(other[0]).open(*other[1:], sealed)


@STEADY
@given(st.lists(NAMES, min_size=4, max_size=4), st.integers(0, 30), st.data())
def test_moving_a_letter_across_a_bound_is_another_place(
    names: list[str], cut: int, data: st.DataObject
) -> None:
    joined = "".join(names)
    bounds = sorted(data.draw(st.lists(st.integers(0, len(joined)), min_size=3, max_size=3)))
    parts = [joined[start:end] for start, end in zip([0, *bounds], [*bounds, len(joined)], strict=True)]
    assume(parts != names)
    sealed = keys(names[0]).seal(*names[1:], b"plain")
    with pytest.raises(MemoryCoreError):
        keys(parts[0]).open(*parts[1:], sealed)


@STEADY
@given(st.binary(max_size=200), st.data())
def test_any_change_of_the_sealed_bytes_is_noticed(plain: bytes, data: st.DataObject) -> None:
    sealed = keys("space").seal("table", "row", "field", plain)
    start = data.draw(st.integers(0, len(sealed)))
    end = data.draw(st.integers(start, len(sealed)))
    changed = sealed[:start] + data.draw(st.binary(max_size=end - start + 3)) + sealed[end:]
    assume(changed != sealed)
    with pytest.raises(MemoryCoreError):
        keys("space").open("table", "row", "field", changed)


@STEADY
@given(st.binary(max_size=200))
def test_bytes_that_were_never_sealed_do_not_open_and_break_nothing(sealed: bytes) -> None:
    with pytest.raises(MemoryCoreError):
        keys("space").open("table", "row", "field", sealed)


@STEADY
@given(KEYS, KEYS, KEYS)
def test_a_data_key_opens_under_the_master_key_that_wrapped_it_alone(
    master: bytes, other: bytes, data_key: bytes
) -> None:
    wrapped = wrap(master, data_key)
    assert unwrap(master, wrapped) == data_key
    assume(master != other)
    with pytest.raises(MemoryCoreError):
        unwrap(other, wrapped)


@STEADY
@given(st.lists(st.text(max_size=8), max_size=4), st.lists(st.text(max_size=8), max_size=4))
def test_two_lists_of_parts_share_a_digest_only_where_they_are_equal(
    one: list[str], other: list[str]
) -> None:
    assert (keys("s").digest("purpose", *one) == keys("s").digest("purpose", *other)) == (one == other)
