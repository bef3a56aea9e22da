"""The order of checks up to the fields, written once: size, key, scope or role, flags of the space.

Every use case passes here first; what follows (fields, existence, ownership, redactor, and in one transaction
repeats, state, quota, caps, act and receipt) stands in the use case itself, in that order.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from uuid import UUID

from memory_core.errors import Kind, MemoryCoreError, too_large, unauthenticated
from memory_core.model import Actor, Principal
from memory_core.policy import Policy, in_force
from memory_core.rules import permission
from memory_core.storage import identities
from memory_core.storage.session import Store, Unit

Clock = Callable[[], datetime]
NewId = Callable[[], str]


@dataclass(frozen=True, slots=True)
class KeyText:
    """A credential as a caller holds it; never shown in a log or a repr."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPerson:
    """A person of a space who acts in person (signed in), or whom the operator names on the command line."""

    space_id: str
    person_id: str
    by_operator: bool = True


Credential = KeyText | NamedPerson


def new_key_text(space_id: str, key_id: str) -> tuple[str, str]:
    """Draw a key: its text, shown once, which carries the space's and the key's id, and the hash to keep."""
    secret = secrets.token_urlsafe(32)
    return f"mwk_{UUID(space_id).hex}_{UUID(key_id).hex}_{secret}", _hash(secret)


class Admission:
    """Lets a caller through to an act, or refuses."""

    def __init__(self, store: Store, now: Clock) -> None:
        self._store = store
        self._now = now

    def admit(self, credential: Credential, act: str, size_bytes: int = 0) -> tuple[Principal, Policy]:
        """Give the caller and the policy in force in its space.

        Raises, in this order: `payload_too_large`, `unauthenticated`, `scope_missing` or `role_missing`,
        `outreach_not_enabled` or `subscription_inactive`.
        """
        # 1. The size of the request.
        limit = Policy().max_request_bytes
        if size_bytes > limit:
            raise too_large("request", limit)

        def enter(unit: Unit) -> tuple[Principal, Policy]:
            # 2. The key.
            principal = self._principal(unit, credential)
            settings = identities.settings_at(unit, principal.space.settings_version)
            # 3. Scope or role. 4. The flags of the space.
            permission.check(act, principal)
            return principal, in_force(settings)

        space_id = _space_id(credential)
        try:
            return self._store.read(space_id, enter)
        except MemoryCoreError as error:
            # A key of a space that is gone answers as any other wrong key.
            if error.kind is Kind.NOT_FOUND and isinstance(credential, KeyText):
                raise unauthenticated() from None
            raise

    def recognise(self, key: KeyText) -> Principal:
        """Give who a key belongs to, without an act. Raises `unauthenticated`."""
        try:
            return self._store.read(_space_id(key), lambda unit: self._principal(unit, key))
        except MemoryCoreError as error:
            raise unauthenticated() if error.kind is Kind.NOT_FOUND else error from None

    def _principal(self, unit: Unit, credential: Credential) -> Principal:
        space = identities.space_of(unit)
        if isinstance(credential, NamedPerson):
            person = identities.person(unit, credential.person_id)
            if person.disabled:
                raise unauthenticated("the person is disabled")
            kind = "operator" if credential.by_operator else "person"
            return Principal(
                space=space,
                actor=Actor(kind=kind, person_id=person.person_id),  # type: ignore[arg-type]
                scopes=frozenset(),
                roles=frozenset(person.roles),
            )
        _, _, key_id, secret = _parts(credential)
        found = identities.key_and_hash(unit, key_id)
        # The comparison runs for an unknown key too, so that time tells nothing.
        expected = found[1] if found else _hash("")
        if not hmac.compare_digest(expected, _hash(secret)) or found is None:
            raise unauthenticated()
        key = found[0]
        now = self._now()
        if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now):
            raise unauthenticated()
        person = identities.person(unit, key.person_id)
        if person.disabled and key.source_id is None:
            raise unauthenticated()
        # A disabled owner holds no role any more: the keys issued on their behalf still read, but write nothing.
        return Principal(
            space=space,
            actor=Actor(
                kind="person" if key.source_id is None else "source",
                key_id=key.key_id,
                source_id=key.source_id,
                person_id=key.person_id,
            ),
            scopes=frozenset(key.scopes),
            roles=frozenset(() if person.disabled else person.roles),
        )


def _space_id(credential: Credential) -> str:
    return credential.space_id if isinstance(credential, NamedPerson) else _parts(credential)[1]


def _parts(credential: KeyText) -> tuple[str, str, str, str]:
    try:
        prefix, space_hex, key_hex, secret = credential.text.split("_", 3)
        space_id, key_id = str(UUID(hex=space_hex)), str(UUID(hex=key_hex))
        secret.encode()
    except (ValueError, UnicodeError):
        raise unauthenticated() from None
    if prefix != "mwk":
        raise unauthenticated()
    return prefix, space_id, key_id, secret


def _hash(secret: str) -> str:
    # 256 random bits need no slow hash: there is nothing to guess.
    return sha256(secret.encode()).hexdigest()
