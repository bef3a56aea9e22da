"""Spaces, people, sources, keys and settings; nobody changes settings but by a diff that another person approves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from memory_core.admission import Admission, Credential, new_key_text
from memory_core.errors import conflict, forbidden, invalid, not_found
from memory_core.formats import chain
from memory_core.formats.canonical import canonical
from memory_core.formats.evidence import take_evidence
from memory_core.model import (
    OPERATOR,
    ROLES,
    SCOPES,
    ChainVerdict,
    Clock,
    Key,
    NewId,
    Person,
    SettingsChange,
    Source,
    Space,
)
from memory_core.policy import LANGUAGES, Policy, check_setting, in_force
from memory_core.rules.limits import check_text
from memory_core.rules.staleness import day_around
from memory_core.storage import identities, ledger
from memory_core.storage import schema as tables
from memory_core.storage.prospect_notes import move_daily_saves
from memory_core.storage.session import Store, Unit

T = TypeVar("T")

_MAX_NAME = 200
_MAX_REASON = 2_000
_THRESHOLDS = ("overlap.", "redaction.refuse_at", "redaction.mask_at")


@dataclass(frozen=True, slots=True)
class Spaces:
    """The operator's and the admins' acts on a workbench's spaces."""

    store: Store
    admission: Admission
    now: Clock
    new_id: NewId

    # -- spaces -----------------------------------------------------------------------------------

    def create_space(self, name: str, language: str = "en", timezone: str = "UTC") -> Space:
        """Create a space with both flags on and the given settings as version 1."""
        name = check_text("name", name, _MAX_NAME)
        if language not in LANGUAGES:
            raise invalid("language", "choice", f"one of {', '.join(LANGUAGES)}")
        settings = {"language": language, "timezone": timezone}
        for setting, value in settings.items():
            check_setting(setting, value)
        space = Space(
            space_id=self.new_id(),
            name=name,
            outreach=True,
            subscription=True,
            settings_version=1,
            created_at=self.now(),
        )
        self.store.create_space(
            space.space_id,
            lambda connection: identities.insert_space(connection, space, settings),
            lambda unit: ledger.append(unit, OPERATOR, "admin", "create_space"),
        )
        return space

    def set_flags(self, space_id: str, flags: Mapping[str, bool]) -> Space:
        """Switch the outreach add-on or the subscription; effective from the next call of anybody."""

        def act(unit: Unit) -> Space:
            identities.set_flags(unit, flags)
            ledger.append(unit, OPERATOR, "admin", "set_space", facts=dict(flags))
            return identities.space_of(unit)

        return self.store.write(space_id, act)

    def destroy_space(self, space_id: str) -> None:
        """Forget the space's data keys: its content, its copies in backups too, can never be read again."""
        self.store.destroy_space(
            space_id, lambda unit: ledger.append(unit, OPERATOR, "admin", "destroy_space"), self.now()
        )

    def list_spaces(self) -> list[Space]:
        return self.store.look(identities.all_spaces)

    def find_space(self, what: str, value: str) -> str | None:
        """Find the space in which an id of a person, source or key lives; operators only."""
        columns = {
            "person": tables.people.c.person_id,
            "source": tables.sources.c.source_id,
            "key": tables.keys.c.key_id,
        }
        return self.store.look(lambda connection: identities.space_holding(connection, columns[what], value))

    # -- people, sources, keys --------------------------------------------------------------------

    def create_person(
        self, space_id: str, name: str, roles: Sequence[str], email: str | None = None
    ) -> tuple[Person, str]:
        """Add a person and a key of theirs with every scope; the key's text is given here and never again."""
        unknown = [role for role in roles if role not in ROLES]
        if unknown or not roles:
            raise invalid("role", "choice", f"one or more of {', '.join(ROLES)}")
        person = Person(
            person_id=self.new_id(),
            name=check_text("name", name, _MAX_NAME),
            email=None if email is None else check_text("email", email, 320),
            roles=tuple(dict.fromkeys(roles)),
            disabled=False,
            created_at=self.now(),
        )

        def act(unit: Unit) -> str:
            identities.space_of(unit)
            identities.insert_person(unit, person)
            ledger.append(
                unit,
                OPERATOR,
                "admin",
                "create_person",
                ids={"person_id": person.person_id},
                facts={"roles": list(person.roles)},
            )
            return self._issue(unit, None, person.person_id, SCOPES, None)[1]

        return person, self.store.write(space_id, act)

    def disable_person(self, space_id: str, person_id: str) -> None:
        """Take a person's roles and keys out of force, from the next call on."""

        def act(unit: Unit) -> None:
            identities.person(unit, person_id)
            identities.disable_person(unit, person_id)
            ledger.append(unit, OPERATOR, "admin", "disable_person", ids={"person_id": person_id})

        self.store.write(space_id, act)

    def create_source(
        self, space_id: str, name: str, vendor: str | None = None, purposes: Sequence[str] = ()
    ) -> Source:
        source = Source(
            source_id=self.new_id(),
            name=check_text("name", name, _MAX_NAME),
            vendor=None if vendor is None else check_text("vendor", vendor, _MAX_NAME),
            purposes=tuple(check_text("purpose", purpose, _MAX_NAME) for purpose in purposes),
            created_at=self.now(),
        )

        def act(unit: Unit) -> None:
            identities.space_of(unit)
            identities.insert_source(unit, source)
            ledger.append(unit, OPERATOR, "admin", "create_source", ids={"source_id": source.source_id})

        self.store.write(space_id, act)
        return source

    def create_key(
        self,
        space_id: str,
        *,
        source_id: str | None,
        person_id: str,
        scopes: Sequence[str],
        expires_at: datetime | None = None,
    ) -> tuple[Key, str]:
        """Issue a key of a source on behalf of its owner, or of a person alone.

        A source's key always holds `context`. The text is given here and never again.
        """
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown:
            raise invalid("scope", "choice", f"one or more of {', '.join(SCOPES)}")
        if expires_at is not None and expires_at <= self.now():
            raise invalid("expires", "future", "must lie in the future")

        def act(unit: Unit) -> tuple[Key, str]:
            owner = identities.person(unit, person_id)
            if owner.disabled:
                raise invalid("owner", "enabled", "the person is disabled")
            if source_id is not None:
                identities.source(unit, source_id)
            wanted = [*scopes, "context"] if source_id is not None else list(scopes or SCOPES)
            return self._issue(unit, source_id, person_id, wanted, expires_at)

        return self.store.write(space_id, act)

    def revoke_key(self, space_id: str, key_id: str) -> None:
        """Take a key out of force, from the next call on."""

        def act(unit: Unit) -> None:
            if not identities.has_key(unit, key_id):
                raise not_found("key")
            identities.revoke_key(unit, key_id, self.now())
            ledger.append(unit, OPERATOR, "admin", "revoke_key", ids={"key_id": key_id})

        self.store.write(space_id, act)

    def list_people(self, space_id: str) -> list[Person]:
        return self.store.read(space_id, identities.all_people)

    def list_sources(self, space_id: str) -> list[Source]:
        return self.store.read(space_id, identities.all_sources)

    def list_keys(self, space_id: str) -> list[Key]:
        return self.store.read(space_id, identities.all_keys)

    # -- settings ---------------------------------------------------------------------------------

    def policy(self, space_id: str) -> tuple[int, Policy]:
        """Give the version of the settings and the policy in force."""

        def look(unit: Unit) -> tuple[int, Policy]:
            space, settings = identities.space_and_settings(unit)
            return space.settings_version, in_force(settings)

        return self.store.read(space_id, look)

    def settings_history(self, space_id: str) -> list[tuple[int, dict[str, Any], str | None, datetime]]:
        return list(self.store.read(space_id, identities.versions))

    def list_changes(self, space_id: str, status: str | None = None) -> list[SettingsChange]:
        return self.store.read(space_id, lambda unit: identities.all_changes(unit, status))

    def propose_settings(
        self,
        credential: Credential | None,
        space_id: str,
        diff: Mapping[str, Any],
        reason: str,
        evidence: bytes | None = None,
        base_version: int | None = None,
    ) -> SettingsChange:
        """Propose a diff against the current version; null returns a setting to its default.

        `credential` None is the operator. `evidence` is the JSON of an evaluation report, required where a threshold
        changes and then of the same model; its figures and digests are kept. Raises `invalid_input`, or `outdated`
        where `base_version` is no longer the current one.
        """
        actor = OPERATOR
        if credential is not None:
            principal, _ = self.admission.admit(credential, "propose_settings")
            actor, space_id = principal.actor, principal.space.space_id
        reason = check_text("reason", reason, _MAX_REASON)
        if not diff:
            raise invalid("set", "empty", "name at least one setting")
        for name, value in diff.items():
            check_setting(name, value)
        try:
            # An approval hashes the diff: what has no canonical form could never be decided.
            canonical(dict(diff))
        except (ValueError, RecursionError):
            raise invalid(
                "set", "value", "must be whole numbers up to 2^53, finite numbers and plain text"
            ) from None
        taken = None if evidence is None else take_evidence(evidence)
        _check_evidence(diff, taken)

        def act(unit: Unit) -> SettingsChange:
            space, current = identities.space_and_settings(unit)
            if base_version is not None and base_version != space.settings_version:
                raise _outdated(base_version, space.settings_version)
            in_force(_applied(current, diff))
            if _applied(current, diff) == current:
                raise invalid("set", "no_change", "the settings have these values already")
            change = SettingsChange(
                change_id=self.new_id(),
                base_version=space.settings_version,
                diff=dict(diff),
                reason=reason,
                evidence=taken,
                status="pending",
                proposed_by=actor,
                created_at=self.now(),
                decided_by=None,
                decided_at=None,
                decision_reason=None,
            )
            identities.insert_change(unit, change)
            ledger.append(
                unit,
                actor,
                "admin",
                "propose_settings",
                ids={"change_id": change.change_id},
                facts={"base_version": change.base_version, "settings": sorted(diff)},
            )
            return change

        return self.store.write(space_id, act)

    def decide_settings(
        self, credential: Credential, change_id: str, *, approve: bool, reason: str | None = None
    ) -> SettingsChange:
        """Approve or reject a pending change as an admin other than its proposer.

        In a space with a single admin that person may approve their own change; the receipt says so. Raises
        `role_missing`, `not_found`, `already_decided` or `outdated`; then nothing has changed.
        """
        principal, _ = self.admission.admit(credential, "decide_settings")
        reason = None if reason is None else check_text("reason", reason, _MAX_REASON)

        def act(unit: Unit) -> SettingsChange:
            change = identities.change(unit, change_id)
            if change.status != "pending":
                raise conflict(
                    "already_decided",
                    f"the change was {change.status} before",
                    status=change.status,
                    decided_by=change.decided_by.person_id if change.decided_by else None,
                )
            own = change.proposed_by.person_id == principal.actor.person_id
            single = own and identities.count_admins(unit) == 1
            if own and not single:
                raise forbidden(
                    "role_missing", "another admin than the proposer must decide", rule="four_eyes"
                )
            space, current = identities.space_and_settings(unit)
            version = space.settings_version
            if approve:
                if change.base_version != version:
                    raise _outdated(change.base_version, version)
                settings = _applied(current, change.diff)
                policy = in_force(settings)
                version += 1
                identities.insert_settings(unit, version, settings, change_id, self.now())
                if policy.timezone != in_force(current).timezone:
                    move_daily_saves(unit, day_around(self.now(), policy.timezone)[0])
            status = "approved" if approve else "rejected"
            identities.decide_change(unit, change_id, status, principal.actor, self.now(), reason)
            ledger.append(
                unit,
                principal.actor,
                "admin",
                "approve_settings" if approve else "reject_settings",
                ids={"change_id": change_id},
                facts={
                    "settings_version": version,
                    "own_change_of_single_admin": single,
                    "diff_digest": unit.digest("settings_diff", canonical(change.diff)),
                },
            )
            return identities.change(unit, change_id)

        return self.store.write(principal.space.space_id, act)

    # -- receipts ---------------------------------------------------------------------------------

    def verify_receipts(self, space_id: str, saved_head: str | None = None) -> ChainVerdict:
        """Verify the space's chain step by step, and its end against the head row and a head saved elsewhere."""

        def look(unit: Unit) -> ChainVerdict:
            verdict = chain.verify(ledger.stored(unit.connection, space_id), saved_head)
            seq, head = ledger.head(unit.connection, space_id)
            if verdict.ok and (seq, head) != (verdict.receipts, verdict.head):
                return chain.cut(verdict)
            return verdict

        return self.store.read(space_id, look)

    def head(self, space_id: str) -> tuple[int, str]:
        """Give the number of receipts and the hash of the last, to be saved outside the database."""
        return self.store.read(space_id, lambda unit: ledger.head(unit.connection, space_id))

    def export_receipts(self, space_id: str, consume: Callable[[Iterator[dict[str, Any]]], T]) -> T:
        """Hand the whole chain to `consume`, oldest first, as `receipts verify --file` reads it back."""
        return self.store.read(
            space_id,
            lambda unit: consume(
                {**receipt.body, "hash": receipt.hash} for receipt in ledger.stored(unit.connection, space_id)
            ),
        )

    # -- parts ------------------------------------------------------------------------------------

    def _issue(
        self,
        unit: Unit,
        source_id: str | None,
        person_id: str,
        scopes: Sequence[str],
        expires_at: datetime | None,
    ) -> tuple[Key, str]:
        key = Key(
            key_id=self.new_id(),
            source_id=source_id,
            person_id=person_id,
            scopes=tuple(dict.fromkeys(scopes)),
            expires_at=expires_at,
            revoked_at=None,
            created_at=self.now(),
        )
        text, secret_hash = new_key_text(unit.space_id, key.key_id)
        identities.insert_key(unit, key, secret_hash)
        ids = {"key_id": key.key_id, "person_id": person_id}
        if source_id is not None:
            ids["source_id"] = source_id
        ledger.append(unit, OPERATOR, "admin", "create_key", ids=ids, facts={"scopes": list(key.scopes)})
        return key, text


def _applied(settings: Mapping[str, Any], diff: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**settings, **diff}
    return {name: value for name, value in merged.items() if value is not None}


def _check_evidence(diff: Mapping[str, Any], taken: Mapping[str, Any] | None) -> None:
    for name in diff:
        if not name.startswith(_THRESHOLDS):
            continue
        if taken is None:
            raise invalid(
                "evidence", "required", "a change of thresholds needs the evaluation report behind it"
            )
        area, model = name.split(".")[:2]
        if taken["kind"] != area or (area == "overlap" and taken["model"] != model):
            raise invalid(
                "evidence", "model", "must be a report of the kind and model whose threshold changes"
            )


def _outdated(base_version: int, settings_version: int) -> Exception:
    return conflict(
        "outdated",
        "the settings changed since this change was proposed",
        base_version=base_version,
        settings_version=settings_version,
    )
