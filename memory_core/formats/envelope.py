"""Sealed fields: AES-256-GCM under a space's data key, bound to space, table, row and field.

A sealed field is `version (1) | key id (8) | nonce (12) | ciphertext and tag`. Version and key id are
authenticated together with the context, so a ciphertext moved to another row, field or space does not open. The
key is looked up by its id and never tried out: GCM does not commit to a key.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from memory_core.errors import unavailable

VERSION = 1
KEY_BYTES = 32
KEY_ID_BYTES = 8
NONCE_BYTES = 12
_HEADER_BYTES = 1 + KEY_ID_BYTES


def key_id_of(master_key: bytes) -> str:
    """Name a master key by 8 bytes of an HMAC under itself: two different keys never share a name by mistake."""
    return hmac.new(master_key, b"memory-core key id", sha256).digest()[:KEY_ID_BYTES].hex()


def new_key() -> bytes:
    """Draw 32 random bytes from the operating system."""
    return os.urandom(KEY_BYTES)


def new_key_id() -> str:
    """Draw the id of a data key: 8 random bytes, hexadecimal."""
    return os.urandom(KEY_ID_BYTES).hex()


def wrap(master_key: bytes, data_key: bytes) -> bytes:
    """Wrap a data key for storage (RFC 3394)."""
    return aes_key_wrap(master_key, data_key)


def unwrap(master_key: bytes, wrapped: bytes) -> bytes:
    """Unwrap a data key. Raises `unavailable` where the master key is another one or the bytes were altered."""
    try:
        return aes_key_unwrap(master_key, wrapped)
    except InvalidUnwrap:
        raise unavailable("a data key does not open with this master key") from None


@dataclass(frozen=True, slots=True)
class SpaceKeys:
    """The opened keys of one space: data keys by id, the one that seals, and the key of its keyed hashes."""

    space_id: str
    sealing_id: str
    ciphers: Mapping[str, AESGCM] = field(repr=False)
    index_key: bytes = field(repr=False)

    def seal(self, table: str, row: str, name: str, plain: bytes) -> bytes:
        """Seal one field. A fresh random nonce each time: equal texts give different bytes."""
        header = bytes([VERSION]) + bytes.fromhex(self.sealing_id)
        nonce = os.urandom(NONCE_BYTES)
        context = header + _context(self.space_id, table, row, name)
        return header + nonce + self.ciphers[self.sealing_id].encrypt(nonce, plain, context)

    def open(self, table: str, row: str, name: str, sealed: bytes) -> bytes:
        """Open one field. Raises `unavailable` where the key is gone, or the bytes or their place were altered."""
        header, nonce = sealed[:_HEADER_BYTES], sealed[_HEADER_BYTES : _HEADER_BYTES + NONCE_BYTES]
        if len(nonce) < NONCE_BYTES or header[0] != VERSION:
            raise unavailable(
                "a sealed field has a format this version does not know", table=table, field=name
            )
        cipher = self.ciphers.get(header[1:].hex())
        if cipher is None:
            raise unavailable(
                "a sealed field needs a data key that is not here", key_id=header[1:].hex(), field=name
            )
        try:
            return cipher.decrypt(
                nonce,
                sealed[_HEADER_BYTES + NONCE_BYTES :],
                header + _context(self.space_id, table, row, name),
            )
        except InvalidTag:
            raise unavailable(
                "a sealed field was altered or moved", table=table, row=row, field=name
            ) from None

    def digest(self, purpose: str, *parts: str) -> str:
        """Hash values under the space's own key: equal within the space, unguessable and unlinkable outside it."""
        encoded = [part.encode() for part in (purpose, *parts)]
        message = b"".join(len(part).to_bytes(4, "big") + part for part in encoded)
        return hmac.digest(self.index_key, message, "sha256").hex()


def sealing_key_id(sealed: bytes) -> str:
    """Read which data key sealed a field, without opening it."""
    return sealed[1:_HEADER_BYTES].hex()


def _context(space_id: str, table: str, row: str, name: str) -> bytes:
    # The lengths keep ("ab", "c") and ("a", "bc") apart. One formatting: a save opens fifty fields.
    place = f"{len(space_id)},{len(table)},{len(row)},{len(name)}:{space_id}{table}{row}{name}"
    return place.encode()
