"""Who is let through, and in which order what is looked at: size, key, scope or role, flags, then the fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from memory_core.admission import KeyText, NamedPerson, new_key_text
from memory_core.compose import Workbench
from memory_core.errors import Kind, MemoryCoreError
from memory_core.model import ROLES, SCOPES
from tests.conftest import Clock, Desk, make_desk

NOTE = {
    "domain": "kelva.example",
    "body": "Kelva raised 12 million.",
    "source_urls": ["https://news.example/kelva"],
    "observed_at": "2026-11-10",
}


def refusal(act: Callable[[], Any]) -> MemoryCoreError:
    with pytest.raises(MemoryCoreError) as caught:
        act()
    return caught.value


def source_key(desk: Desk, *scopes: str, owner: str | None = None, **more: Any) -> KeyText:
    _, text = desk.bench.spaces.create_key(
        desk.space_id,
        source_id=desk.source_id,
        person_id=owner or desk.owner.person_id,
        scopes=scopes,
        **more,
    )
    return KeyText(text)


def person_key(desk: Desk, person_id: str, *scopes: str) -> KeyText:
    _, text = desk.bench.spaces.create_key(desk.space_id, source_id=None, person_id=person_id, scopes=scopes)
    return KeyText(text)


def person(desk: Desk, *roles: str) -> str:
    return desk.bench.spaces.create_person(desk.space_id, "Pat", roles)[0].person_id


def recall(desk: Desk, key: KeyText | NamedPerson) -> Any:
    return desk.bench.prospects.recall(key, {"domain": "kelva.example"})


def save(desk: Desk, key: KeyText | NamedPerson) -> Any:
    return desk.bench.prospects.save(key, NOTE)


# -- keys -----------------------------------------------------------------------------------------


def test_a_key_lets_its_source_in_as_itself_on_behalf_of_its_owner(desk: Desk) -> None:
    principal, policy = desk.bench.admission.admit(desk.key, "recall")
    assert principal.space.space_id == desk.space_id
    assert (principal.actor.kind, principal.actor.source_id) == ("source", desk.source_id)
    assert principal.actor.person_id == desk.owner.person_id
    assert principal.roles == {"outreach_admin"}
    assert policy.max_body_bytes == 10_240


def test_every_key_of_a_source_holds_context(desk: Desk) -> None:
    for scopes in ((), ("outreach_read",), ("context",)):
        key = source_key(desk, *scopes)
        held = desk.bench.admission.recognise(key).scopes
        assert held == {*scopes, "context"}


def test_a_persons_key_holds_what_it_was_given_and_all_where_nothing_was_named(desk: Desk) -> None:
    recognise = desk.bench.admission.recognise
    assert recognise(person_key(desk, desk.owner.person_id, "outreach_read")).scopes == {"outreach_read"}
    assert recognise(person_key(desk, desk.owner.person_id)).scopes == set(SCOPES)
    assert recognise(desk.admin_key).scopes == set(SCOPES)


def test_writing_the_agent_memory_is_only_held_where_it_was_asked_for(desk: Desk) -> None:
    assert "agent_memory:write" not in desk.bench.admission.recognise(desk.key).scopes
    asked = source_key(desk, "agent_memory:write")
    assert "agent_memory:write" in desk.bench.admission.recognise(asked).scopes


def test_a_key_is_stored_as_a_hash_and_shown_nowhere(desk: Desk) -> None:
    secret = desk.key.text.rsplit("_", 1)[-1]
    desk.save()
    assert secret.encode() not in desk.files()
    assert secret not in repr(desk.key)
    assert secret not in repr(desk.bench.spaces.list_keys(desk.space_id))


def test_key_texts_carry_their_space_and_differ_in_their_secret() -> None:
    space_id, key_id = str(uuid4()), str(uuid4())
    (one, one_hash), (other, other_hash) = (new_key_text(space_id, key_id) for _ in range(2))
    assert one.startswith(f"mwk_{space_id.replace('-', '')}_{key_id.replace('-', '')}_")
    assert one != other
    assert one_hash != other_hash


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "",
        lambda text: text[:-1],
        lambda text: text + "A",
        lambda text: text.upper(),
        lambda text: text.replace("mwk_", "sk_"),
        lambda text: "mwk",
        lambda text: "mwk___",
        lambda text: "mwk_zz_zz_secret",
        lambda text: text + "\ud83d",
        lambda text: text + "é",
        lambda text: "mwk_" + "0" * 32 + text[36:],
        lambda text: text[:37] + "0" * 32 + text[69:],
        lambda text: text.rsplit("_", 1)[0] + "_",
        lambda text: "x" * 1_000_000,
        lambda text: "mwk_" + text,
    ],
)
def test_every_wrong_key_is_refused_in_the_same_words(desk: Desk, spoil: Callable[[str], str]) -> None:
    key = KeyText(spoil(desk.key.text))
    if key.text == desk.key.text:
        pytest.fail("the key was not spoiled")
    for act in (lambda: recall(desk, key), lambda: desk.bench.admission.recognise(key)):
        refused = refusal(act)
        assert (refused.kind, refused.code, refused.details) == (Kind.UNAUTHENTICATED, "unauthenticated", {})
        assert refused.message == "the key is missing, unknown, expired or revoked"


def test_a_secret_opens_its_own_key_alone(desk: Desk) -> None:
    other = source_key(desk, "outreach_read")
    mixed = KeyText(other.text[:69] + desk.key.text[69:])
    assert refusal(lambda: recall(desk, mixed)).code == "unauthenticated"


def test_a_key_expires_at_its_instant(desk: Desk, clock: Clock) -> None:
    key = source_key(desk, "outreach_read", expires_at=clock() + timedelta(hours=1))
    clock.move(hours=1, microseconds=-1)
    recall(desk, key)
    clock.move(microseconds=1)
    refused = refusal(lambda: recall(desk, key))
    assert (refused.code, refused.message) == (
        "unauthenticated",
        "the key is missing, unknown, expired or revoked",
    )


def test_a_key_that_has_expired_already_is_not_issued(desk: Desk, clock: Clock) -> None:
    refused = refusal(lambda: source_key(desk, "outreach_read", expires_at=clock()))
    assert (refused.details["field"], refused.details["rule"]) == ("expires", "future")


def test_a_revoked_key_is_refused_on_the_next_call_and_no_other_is(desk: Desk) -> None:
    recall(desk, desk.key)
    spare = source_key(desk, "outreach_read")
    key_id = desk.bench.admission.recognise(desk.key).actor.key_id
    assert key_id
    desk.bench.spaces.revoke_key(desk.space_id, key_id)
    assert refusal(lambda: recall(desk, desk.key)).code == "unauthenticated"
    assert refusal(lambda: desk.bench.admission.recognise(desk.key)).code == "unauthenticated"
    recall(desk, spare)


def test_revoking_again_keeps_the_first_time(desk: Desk, clock: Clock) -> None:
    key_id = desk.bench.admission.recognise(desk.key).actor.key_id
    assert key_id
    first = clock()
    for _ in range(2):
        desk.bench.spaces.revoke_key(desk.space_id, key_id)
        clock.move(hours=1)
    [key] = [key for key in desk.bench.spaces.list_keys(desk.space_id) if key.key_id == key_id]
    assert key.revoked_at == first


# -- scopes and roles, through the use cases ------------------------------------------------------


def test_a_source_reads_with_one_scope_and_writes_with_the_other(desk: Desk) -> None:
    reader, writer = source_key(desk, "outreach_read"), source_key(desk, "outreach_write")
    recall(desk, reader)
    save(desk, writer)
    assert refusal(lambda: save(desk, reader)).details == {"scope": "outreach_write"}
    assert refusal(lambda: recall(desk, writer)).details == {"scope": "outreach_read"}


def test_a_source_writes_only_while_its_owner_holds_the_role(desk: Desk) -> None:
    for roles in (("integration",), ("admin",), ("integration", "admin")):
        key = source_key(desk, "outreach_read", "outreach_write", owner=person(desk, *roles))
        recall(desk, key)
        assert refusal(lambda key=key: save(desk, key)).code == "role_missing"  # type: ignore[misc]


def test_a_disabled_owners_keys_still_read_but_write_nothing(desk: Desk) -> None:
    before = desk.save()["note_count"]
    desk.bench.spaces.disable_person(desk.space_id, desk.owner.person_id)
    assert recall(desk, desk.key).note_count == before
    assert refusal(lambda: save(desk, desk.key)).code == "role_missing"
    compact = {"domain": "kelva.example", "note_ids": [], "body": "x", "expected_note_count": 1}
    assert refusal(lambda: desk.bench.prospects.compact(desk.key, compact)).code == "role_missing"


def test_a_disabled_persons_own_keys_open_nothing(desk: Desk) -> None:
    key = person_key(desk, desk.owner.person_id)
    recall(desk, key)
    desk.bench.spaces.disable_person(desk.space_id, desk.owner.person_id)
    for act in (
        lambda: recall(desk, key),
        lambda: desk.bench.admission.recognise(key),
        lambda: recall(desk, desk.owner),
        lambda: desk.bench.prospects.delete(desk.owner, str(uuid4())),
    ):
        assert refusal(act).code == "unauthenticated"


def test_a_disabled_person_gets_no_key(desk: Desk) -> None:
    desk.bench.spaces.disable_person(desk.space_id, desk.owner.person_id)
    for issue in (lambda: source_key(desk), lambda: person_key(desk, desk.owner.person_id)):
        assert refusal(issue).details["rule"] == "enabled"


def test_a_persons_key_needs_the_scope_and_the_role(desk: Desk) -> None:
    outreach, integration = person(desk, "outreach_admin"), person(desk, "integration")
    save(desk, person_key(desk, outreach, "outreach_write"))
    assert refusal(lambda: save(desk, person_key(desk, outreach, "outreach_read"))).code == "scope_missing"
    assert refusal(lambda: save(desk, person_key(desk, integration, "outreach_write"))).code == "role_missing"
    recall(desk, person_key(desk, integration, "outreach_read"))


def test_any_role_reads_a_dossier(desk: Desk) -> None:
    for role in ROLES:
        recall(desk, NamedPerson(space_id=desk.space_id, person_id=person(desk, role)))


def test_no_key_of_a_source_deletes_undoes_or_decides(desk: Desk) -> None:
    everything = source_key(desk, *SCOPES, owner=person(desk, *ROLES))
    note_id = desk.save()["note"]["note_id"]
    prospects, spaces = desk.bench.prospects, desk.bench.spaces
    for act in (
        lambda: prospects.delete(everything, note_id),
        lambda: prospects.undo_compaction(everything, note_id),
        lambda: spaces.propose_settings(everything, desk.space_id, {"language": "de"}, "why"),
        lambda: spaces.decide_settings(everything, str(uuid4()), approve=True),
        lambda: desk.bench.admission.admit(everything, "read_receipts"),
    ):
        assert refusal(act).kind is Kind.FORBIDDEN
    assert desk.recall()["note_count"] == 1


def test_a_persons_note_names_the_person_and_their_key_and_no_source(desk: Desk) -> None:
    saved, _ = save(desk, person_key(desk, desk.owner.person_id))
    assert saved.note.author.kind == "person"
    assert saved.note.author.source_id is None
    assert saved.note.author.person_id == desk.owner.person_id


def test_the_receipt_of_a_named_person_says_that_the_operator_named_them(desk: Desk) -> None:
    recall(desk, desk.admin)
    recall(desk, replace(desk.admin, by_operator=False))
    rows = desk.bench.spaces.export_receipts(desk.space_id, list)
    assert [row["actor"]["kind"] for row in rows[-2:]] == ["operator", "person"]
    assert {row["actor"]["person_id"] for row in rows[-2:]} == {desk.admin.person_id}


# -- flags of the space ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "code"), [("outreach", "outreach_not_enabled"), ("subscription", "subscription_inactive")]
)
def test_a_flag_stops_every_verb_of_the_prospect_memory_from_the_next_call_on(
    desk: Desk, flag: str, code: str
) -> None:
    note_id = desk.save()["note"]["note_id"]
    desk.bench.spaces.set_flags(desk.space_id, {flag: False})
    prospects = desk.bench.prospects
    for act in (
        lambda: recall(desk, desk.key),
        lambda: save(desk, desk.key),
        lambda: prospects.compact(desk.key, {}),
        lambda: prospects.writing_guide(desk.key, {"language": "en"}),
        lambda: prospects.show(desk.admin, note_id),
        lambda: prospects.delete(desk.admin, note_id),
        lambda: prospects.undo_compaction(desk.admin, note_id),
    ):
        refused = refusal(act)
        assert (refused.kind, refused.code) == (Kind.FORBIDDEN, code)
    desk.bench.spaces.set_flags(desk.space_id, {flag: True})
    assert recall(desk, desk.key).note_count == 1


def test_a_flag_of_one_space_stops_no_other(desk: Desk, clock: Clock) -> None:
    other = make_desk(desk.bench, clock, "Other")
    desk.bench.spaces.set_flags(desk.space_id, {"outreach": False})
    save(other, other.key)


# -- the order of checks --------------------------------------------------------------------------


def test_the_size_of_the_request_comes_before_the_key(desk: Desk) -> None:
    prospects, wrong = desk.bench.prospects, KeyText("wrong")
    for verb in (prospects.recall, prospects.save, prospects.compact, prospects.writing_guide):
        refused = refusal(lambda verb=verb: verb(wrong, {}, size_bytes=1_048_577))  # type: ignore[misc]
        assert (refused.code, refused.details["limit"]) == ("payload_too_large", 1_048_576)
        refused = refusal(lambda verb=verb: verb(wrong, {}, size_bytes=1_048_576))  # type: ignore[misc]
        assert refused.code == "unauthenticated"


def test_key_then_scope_then_role_then_flags_then_fields(desk: Desk) -> None:
    desk.bench.spaces.set_flags(desk.space_id, {"outreach": False})
    nothing: dict[str, Any] = {}
    owner = person(desk, "integration")

    def code(key: KeyText) -> str:
        return refusal(lambda: desk.bench.prospects.save(key, nothing)).code

    assert code(KeyText("mwk_wrong")) == "unauthenticated"
    assert code(source_key(desk, owner=owner)) == "scope_missing"
    assert code(source_key(desk, "outreach_write", owner=owner)) == "role_missing"
    assert code(source_key(desk, "outreach_write")) == "outreach_not_enabled"
    desk.bench.spaces.set_flags(desk.space_id, {"outreach": True})
    assert code(source_key(desk, "outreach_write")) == "invalid_input"


# -- spaces ---------------------------------------------------------------------------------------


def test_case_056_without_a_space_nobody_gets_in(bench: Workbench, desk: Desk) -> None:
    recall(desk, desk.key)
    nowhere = KeyText("mwk_" + desk.key.text.split("_", 2)[2])
    assert refusal(lambda: recall(desk, nowhere)).code == "unauthenticated"
    unknown = NamedPerson(space_id=str(uuid4()), person_id=desk.admin.person_id)
    assert refusal(lambda: recall(desk, unknown)).code == "not_found"


def test_a_person_of_one_space_is_nobody_in_another(desk: Desk, clock: Clock) -> None:
    other = make_desk(desk.bench, clock, "Other")
    stranger = refusal(lambda: recall(desk, replace(desk.admin, space_id=other.space_id)))
    nobody = refusal(lambda: recall(desk, NamedPerson(space_id=other.space_id, person_id=str(uuid4()))))
    assert (stranger.code, stranger.message, stranger.details) == (
        nobody.code,
        nobody.message,
        nobody.details,
    )
    assert stranger.code == "not_found"


def test_a_key_moved_to_another_space_opens_nothing(desk: Desk, clock: Clock) -> None:
    other = make_desk(desk.bench, clock, "Other")
    moved = KeyText(desk.key.text.replace(desk.space_id.replace("-", ""), other.space_id.replace("-", "")))
    assert moved.text != desk.key.text
    assert refusal(lambda: recall(desk, moved)).code == "unauthenticated"


def test_a_key_of_a_destroyed_space_is_as_any_wrong_key(desk: Desk) -> None:
    desk.bench.spaces.destroy_space(desk.space_id)
    for act in (lambda: recall(desk, desk.key), lambda: desk.bench.admission.recognise(desk.key)):
        refused = refusal(act)
        assert (refused.code, refused.message) == (
            "unauthenticated",
            "the key is missing, unknown, expired or revoked",
        )
    assert refusal(lambda: recall(desk, desk.admin)).code == "not_found"
