"""The order of checks up to the fields, written once: size, key, scope or role, flags of the space.

Every use case passes here first; what follows (fields, existence, ownership, redactor, and in one transaction
repeats, state, quota, caps, act and receipt) stands in the use case itself, in that order.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from uuid import UUID

from memory_core.errors import too_large, unauthenticated
from memory_core.model import Actor, Clock, Principal, Space
from memory_core.policy import Policy, in_force
from memory_core.rules import permission
from memory_core.storage import identities
from memory_core.storage.session import Connection, Store

_MAX_REQUEST_BYTES = Policy().max_request_bytes


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
        self._policies: dict[str, tuple[int, Policy]] = {}

    def admit(self, credential: Credential, act: str, size_bytes: int = 0) -> tuple[Principal, Policy]:
        """Give the caller and the policy in force in its space.

        Raises, in this order: `payload_too_large`, `unauthenticated`, `scope_missing` or `role_missing`,
        `outreach_not_enabled` or `subscription_inactive`.
        """
        # 1. The size of the request.
        if size_bytes > _MAX_REQUEST_BYTES:
            raise too_large("request", _MAX_REQUEST_BYTES)

        def enter(connection: Connection) -> tuple[Principal, Policy]:
            # 2. The key.
            principal, settings = self._principal(connection, credential)
            # 3. Scope or role. 4. The flags of the space.
            permission.check(act, principal)
            return principal, self._policy(principal.space, settings)

        return self._store.look(enter)

    def _policy(self, space: Space, settings: Mapping[str, Any]) -> Policy:
        # A version of the settings never changes, so its policy is made once.
        version, policy = self._policies.get(space.space_id, (0, None))
        if policy is None or version != space.settings_version:
            policy = in_force(settings)
            self._policies[space.space_id] = (space.settings_version, policy)
        return policy

    def recognise(self, key: KeyText) -> Principal:
        """Give who a key belongs to, without an act. Raises `unauthenticated`."""
        return self._store.look(lambda connection: self._principal(connection, key)[0])

    def _principal(
        self, connection: Connection, credential: Credential
    ) -> tuple[Principal, Mapping[str, Any]]:
        if isinstance(credential, NamedPerson):
            caller = identities.caller_by_name(connection, credential.space_id, credential.person_id)
            if caller.disabled:
                raise unauthenticated("the person is disabled")
            actor = Actor(kind="operator" if credential.by_operator else "person", person_id=caller.person_id)
        else:
            caller = self._holder(connection, credential)
            actor = Actor(
                kind="person" if caller.source_id is None else "source",
                key_id=caller.key_id,
                source_id=caller.source_id,
                person_id=caller.person_id,
            )
        # A disabled owner holds no role any more: the keys issued on their behalf still read, but write nothing.
        roles = frozenset(() if caller.disabled else caller.roles)
        principal = Principal(space=caller.space, actor=actor, scopes=frozenset(caller.scopes), roles=roles)
        return principal, caller.settings

    def _holder(self, connection: Connection, credential: KeyText) -> identities.Caller:
        """Give who holds the key. A key of a space that is gone answers as any other wrong key."""
        space_id, key_id, secret = _parts(credential)
        caller = identities.caller_by_key(connection, space_id, key_id)
        # The comparison runs for an unknown key too, so that time tells nothing.
        expected = caller.secret_hash if caller else _hash("")
        if not hmac.compare_digest(expected, _hash(secret)) or caller is None:
            raise unauthenticated()
        expired = caller.expires_at is not None and caller.expires_at <= self._now()
        if expired or caller.revoked_at is not None or (caller.disabled and caller.source_id is None):
            raise unauthenticated()
        return caller


def _parts(credential: KeyText) -> tuple[str, str, str]:
    try:
        prefix, space_hex, key_hex, secret = credential.text.split("_", 3)
        space_id, key_id = str(UUID(hex=space_hex)), str(UUID(hex=key_hex))
        secret.encode()
    except (ValueError, UnicodeError):
        raise unauthenticated() from None
    if prefix != "mwk":
        raise unauthenticated()
    return space_id, key_id, secret


def _hash(secret: str) -> str:
    # 256 random bits need no slow hash: there is nothing to guess.
    return sha256(secret.encode()).hexdigest()
