"""Every row of the table of acts, for a source's key, a person's key and a person named or signed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, combinations
from typing import Literal

import pytest

from memory_core.errors import Kind, MemoryCoreError
from memory_core.model import ROLES, SCOPES, Actor, Principal, Space
from memory_core.rules import permission
from memory_core.rules.permission import ACTS, Act, check

SPACE = Space(
    space_id="00000000-0000-4000-8000-000000000001",
    name="Halden",
    outreach=True,
    subscription=True,
    settings_version=1,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)
Who = Literal["source", "person's key", "named person", "operator"]
ACTORS: dict[Who, Actor] = {
    "source": Actor(kind="source", key_id="k", source_id="s", person_id="p"),
    "person's key": Actor(kind="person", key_id="k", person_id="p"),
    "named person": Actor(kind="person", person_id="p"),
    "operator": Actor(kind="operator", person_id="p"),
}

# The specification's table, act by act: may a caller of this kind with these scopes and roles do it?
Scopes = frozenset[str]
Roles = frozenset[str]
Allowed = Callable[[Who, Scopes, Roles], bool]


def _reads(who: Who, scopes: Scopes, roles: Roles) -> bool:
    if who == "source":
        return "outreach_read" in scopes
    if who == "person's key":
        return "outreach_read" in scopes and bool(roles)
    return bool(roles)


def _writes(who: Who, scopes: Scopes, roles: Roles) -> bool:
    by_key = who in ("source", "person's key")
    return by_key and "outreach_admin" in roles and "outreach_write" in scopes


def _people_with(*wanted: str) -> Allowed:
    return lambda who, scopes, roles: who != "source" and not roles.isdisjoint(wanted)


TABLE: dict[str, Allowed] = {
    "recall": _reads,
    "read_guide": _reads,
    "save": _writes,
    "compact": _writes,
    "delete_note": _people_with("outreach_admin", "admin"),
    "undo_compaction": _people_with("outreach_admin", "admin"),
    "propose_settings": _people_with("integration", "admin"),
    "decide_settings": _people_with("admin"),
    "read_receipts": _people_with("admin"),
}
PROSPECT_ACTS = ("recall", "read_guide", "save", "compact", "delete_note", "undo_compaction")


def _subsets(words: tuple[str, ...]) -> Iterator[frozenset[str]]:
    return map(frozenset, chain.from_iterable(combinations(words, size) for size in range(len(words) + 1)))


def caller(
    who: Who, scopes: Scopes = frozenset(), roles: Roles = frozenset(), space: Space = SPACE
) -> Principal:
    return Principal(space=space, actor=ACTORS[who], scopes=scopes, roles=roles)


def refused(act: str, principal: Principal) -> str | None:
    try:
        check(act, principal)
    except MemoryCoreError as error:
        return error.code
    return None


def test_the_table_names_every_act() -> None:
    assert set(TABLE) == set(ACTS)


@pytest.mark.parametrize("act", TABLE)
@pytest.mark.parametrize("who", ACTORS)
def test_every_combination_of_scopes_and_roles_is_decided_as_the_table_says(act: str, who: Who) -> None:
    for scopes in _subsets(SCOPES):
        for roles in _subsets(ROLES):
            assert (refused(act, caller(who, scopes, roles)) is None) == TABLE[act](who, scopes, roles), (
                scopes,
                roles,
            )


def test_a_missing_scope_is_named_before_a_missing_role() -> None:
    with pytest.raises(MemoryCoreError) as caught:
        check("save", caller("person's key", frozenset({"outreach_read"})))
    assert (caught.value.code, caught.value.details) == ("scope_missing", {"scope": "outreach_write"})
    with pytest.raises(MemoryCoreError) as caught:
        check("save", caller("person's key", frozenset({"outreach_write"}), frozenset({"integration"})))
    assert (caught.value.code, caught.value.details) == ("role_missing", {"roles": ["outreach_admin"]})


def test_what_only_people_do_is_refused_to_a_source_with_every_scope_and_role() -> None:
    for act in ("delete_note", "undo_compaction", "propose_settings", "decide_settings", "read_receipts"):
        with pytest.raises(MemoryCoreError) as caught:
            check(act, caller("source", frozenset(SCOPES), frozenset(ROLES)))
        assert caught.value.code == "role_missing"


@pytest.mark.parametrize("act", TABLE)
@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ({"outreach": False}, "outreach_not_enabled"),
        ({"subscription": False}, "subscription_inactive"),
        ({"outreach": False, "subscription": False}, "outreach_not_enabled"),
    ],
)
def test_the_flags_of_the_space_stop_the_prospect_memory_and_nothing_else(
    act: str, flags: dict[str, bool], code: str
) -> None:
    space = replace(SPACE, **flags)  # type: ignore[arg-type]
    principal = caller("person's key", frozenset(SCOPES), frozenset(ROLES), space)
    if act not in PROSPECT_ACTS:
        check(act, principal)
        return
    with pytest.raises(MemoryCoreError) as caught:
        check(act, principal)
    assert (caught.value.kind, caught.value.code) == (Kind.FORBIDDEN, code)


@pytest.mark.parametrize("who", ["source", "person's key"])
def test_scope_and_role_are_looked_at_before_the_flags(who: Who) -> None:
    off = replace(SPACE, outreach=False, subscription=False)
    with pytest.raises(MemoryCoreError) as caught:
        check("save", caller(who, frozenset(), frozenset(ROLES), off))
    assert caught.value.code == "scope_missing"
    with pytest.raises(MemoryCoreError) as caught:
        check("save", caller(who, frozenset(SCOPES), frozenset(), off))
    assert caught.value.code == "role_missing"


def test_context_implies_reading_the_agent_memory_and_not_writing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    acts = {
        "read": Act(scope="agent_memory", roles=ROLES),
        "write": Act(scope="agent_memory:write", roles=ROLES),
    }
    monkeypatch.setattr(permission, "ACTS", acts)
    check("read", caller("source", frozenset({"context"})))
    check("read", caller("source", frozenset({"agent_memory"})))
    for scope in ("context", "agent_memory"):
        with pytest.raises(MemoryCoreError) as caught:
            check("write", caller("source", frozenset({scope})))
        assert caught.value.code == "scope_missing"


def test_context_alone_opens_nothing_of_the_prospect_memory() -> None:
    for act in PROSPECT_ACTS:
        with pytest.raises(MemoryCoreError):
            check(act, caller("source", frozenset({"context"}), frozenset(ROLES)))
