"""Sealed fields open in their own place with their own key, and nowhere else."""

from __future__ import annotations

from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from memory_core.errors import Kind, MemoryCoreError
from memory_core.formats.envelope import (
    KEY_BYTES,
    KEY_ID_BYTES,
    NONCE_BYTES,
    VERSION,
    SpaceKeys,
    key_id_of,
    new_key,
    new_key_id,
    sealing_key_id,
    unwrap,
    wrap,
)

FIRST, SECOND = "01" * KEY_ID_BYTES, "02" * KEY_ID_BYTES
PLACE = ("prospect_notes", "note-1", "body")
TEXT = "Kelva raised 12 million."


def keys(space_id: str = "space-1", *, current: str = FIRST, known: tuple[str, ...] = (FIRST,)) -> SpaceKeys:
    return SpaceKeys(
        space_id=space_id,
        sealing_id=current,
        ciphers={key_id: AESGCM(bytes.fromhex(key_id) * 4) for key_id in known},
        index_key=b"i" * KEY_BYTES,
    )


def refusal(opened_by: SpaceKeys, sealed: bytes, place: tuple[str, str, str] = PLACE) -> MemoryCoreError:
    with pytest.raises(MemoryCoreError) as caught:
        opened_by.open(*place, sealed)
    assert caught.value.kind is Kind.UNAVAILABLE
    assert TEXT not in str(caught.value.args) + str(caught.value.details)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return caught.value


@pytest.mark.parametrize("plain", [b"", b"\0", TEXT.encode(), b"x" * 100_000])
def test_what_was_sealed_opens_to_the_same_bytes(plain: bytes) -> None:
    assert keys().open(*PLACE, keys().seal(*PLACE, plain)) == plain


def test_a_sealed_field_is_version_key_id_nonce_and_ciphertext() -> None:
    sealed = keys().seal(*PLACE, TEXT.encode())
    assert sealed[0] == VERSION
    assert sealed[1 : 1 + KEY_ID_BYTES].hex() == FIRST == sealing_key_id(sealed)
    assert len(sealed) == 1 + KEY_ID_BYTES + NONCE_BYTES + len(TEXT) + 16
    assert TEXT.encode() not in sealed


def test_equal_texts_are_sealed_to_different_bytes() -> None:
    sealed = {keys().seal(*PLACE, TEXT.encode()) for _ in range(50)}
    nonces = {each[1 + KEY_ID_BYTES : 1 + KEY_ID_BYTES + NONCE_BYTES] for each in sealed}
    assert len(sealed) == len(nonces) == 50


@pytest.mark.parametrize(
    "place",
    [
        ("settings_changes", "note-1", "body"),
        ("prospect_notes", "note-2", "body"),
        ("prospect_notes", "note-1", "title"),
        ("prospect_note", "snote-1", "body"),
        ("prospect_notes", "note-", "1body"),
        ("prospect_notes", "", "note-1body"),
        ("note-1", "prospect_notes", "body"),
    ],
)
def test_a_field_moved_to_another_table_row_or_name_does_not_open(place: tuple[str, str, str]) -> None:
    assert "altered or moved" in refusal(keys(), keys().seal(*PLACE, TEXT.encode()), place).message


def test_a_field_moved_to_another_space_does_not_open_even_under_the_same_key() -> None:
    sealed = keys("space-1").seal(*PLACE, TEXT.encode())
    assert "altered or moved" in refusal(keys("space-2"), sealed).message


def test_space_and_table_cannot_lend_each_other_letters() -> None:
    sealed = keys("space-1").seal(*PLACE, TEXT.encode())
    refusal(keys("space-1p"), sealed, ("rospect_notes", "note-1", "body"))


def test_every_altered_byte_is_noticed() -> None:
    sealed = keys().seal(*PLACE, b"short")
    for position in range(len(sealed)):
        altered = bytearray(sealed)
        altered[position] ^= 0x01
        refusal(keys(), bytes(altered))


def test_every_truncation_is_noticed() -> None:
    sealed = keys().seal(*PLACE, b"short")
    for length in range(len(sealed)):
        refusal(keys(), sealed[:length])


def test_bytes_behind_the_end_are_noticed() -> None:
    refusal(keys(), keys().seal(*PLACE, b"short") + b"\0")


@pytest.mark.parametrize("version", [0, VERSION + 1, 255])
def test_an_unknown_version_is_told_apart_from_an_altered_field(version: int) -> None:
    sealed = bytes([version]) + keys().seal(*PLACE, TEXT.encode())[1:]
    refused = refusal(keys(), sealed)
    assert "format" in refused.message
    assert refused.details == {"table": "prospect_notes", "field": "body"}


def test_a_missing_data_key_is_named_by_its_id() -> None:
    sealed = keys(current=SECOND, known=(SECOND,)).seal(*PLACE, TEXT.encode())
    assert refusal(keys(), sealed).details["key_id"] == SECOND


def test_a_key_is_looked_up_by_its_id_and_never_tried_out() -> None:
    sealed = keys(known=(FIRST, SECOND)).seal(*PLACE, TEXT.encode())
    relabelled = sealed[:1] + bytes.fromhex(SECOND) + sealed[1 + KEY_ID_BYTES :]
    refusal(keys(known=(FIRST, SECOND)), relabelled)


def test_what_an_earlier_key_sealed_opens_after_another_key_took_over() -> None:
    sealed = keys().seal(*PLACE, TEXT.encode())
    rotated = keys(current=SECOND, known=(FIRST, SECOND))
    assert rotated.open(*PLACE, sealed) == TEXT.encode()
    assert sealing_key_id(rotated.seal(*PLACE, b"new")) == SECOND


def test_keys_are_not_shown() -> None:
    shown = repr(keys())
    assert "AESGCM" not in shown
    assert "iiii" not in shown


# -- data keys under the master key ---------------------------------------------------------------


def test_a_wrapped_key_opens_under_its_master_key_alone() -> None:
    master, data_key = new_key(), new_key()
    wrapped = wrap(master, data_key)
    assert data_key not in wrapped
    assert unwrap(master, wrapped) == data_key
    with pytest.raises(MemoryCoreError) as caught:
        unwrap(new_key(), wrapped)
    assert caught.value.code == "unavailable"


def test_every_altered_byte_and_truncation_of_a_wrapped_key_is_noticed() -> None:
    master = b"m" * KEY_BYTES
    wrapped = wrap(master, b"d" * KEY_BYTES)
    broken = [wrapped[:length] for length in range(len(wrapped))] + [wrapped + b"\0", wrapped + b"\0" * 8]
    for position in range(len(wrapped)):
        altered = bytearray(wrapped)
        altered[position] ^= 0x80
        broken.append(bytes(altered))
    for each in broken:
        with pytest.raises(MemoryCoreError) as caught:
            unwrap(master, each)
        assert caught.value.kind is Kind.UNAVAILABLE
        assert "mmmm" not in str(caught.value)


def test_keys_and_ids_are_drawn_anew_each_time() -> None:
    assert len({new_key() for _ in range(20)}) == len({new_key_id() for _ in range(20)}) == 20
    assert len(new_key()) == KEY_BYTES
    assert len(bytes.fromhex(new_key_id())) == KEY_ID_BYTES


def test_a_master_key_has_one_name_that_does_not_reveal_it() -> None:
    key = b"m" * KEY_BYTES
    assert key_id_of(key) == key_id_of(bytes(key)) != key_id_of(b"n" * KEY_BYTES)
    assert key_id_of(key) != sha256(key).hexdigest()[: 2 * KEY_ID_BYTES]
    assert key.hex()[:8] not in key_id_of(key)


# -- keyed hashes ---------------------------------------------------------------------------------


def test_equal_values_have_equal_digests_within_a_space_only() -> None:
    other = SpaceKeys(space_id="space-2", sealing_id=FIRST, ciphers={}, index_key=b"j" * KEY_BYTES)
    assert keys().digest("domain", "kelva.example") == keys().digest("domain", "kelva.example")
    assert keys().digest("domain", "kelva.example") != other.digest("domain", "kelva.example")


def test_a_digest_depends_on_purpose_order_and_bounds_of_its_parts() -> None:
    digests = {
        keys().digest("domain", "ab", "c"),
        keys().digest("domain", "a", "bc"),
        keys().digest("domain", "c", "ab"),
        keys().digest("domain", "abc"),
        keys().digest("domain", "abc", ""),
        keys().digest("campaign", "abc"),
    }
    assert len(digests) == 6


def test_a_digest_is_no_plain_hash_that_could_be_guessed() -> None:
    assert keys().digest("domain", "kelva.example") not in (
        sha256(b"kelva.example").hexdigest(),
        sha256(b"domainkelva.example").hexdigest(),
    )
