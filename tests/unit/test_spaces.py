"""Spaces, people, sources and keys; settings that change by an approved diff only; the chain of receipts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import delete, text, update

from memory_core.admission import NamedPerson
from memory_core.compose import Workbench
from memory_core.errors import Kind, MemoryCoreError
from memory_core.formats.chain import GENESIS
from memory_core.model import SettingsChange
from memory_core.storage import schema
from tests.conftest import Clock, Desk, make_desk

NEAR, OVERLAP = "overlap.word-hash.near_duplicate_at", "overlap.word-hash.overlap_at"
FIGURE = {"name": "auc", "slice": "all", "value": 0.97, "n": 400}


def report(kind: str = "overlap", model: str = "word-hash") -> bytes:
    data = {"digest": "ab" * 32, "files": ["pairs.jsonl"], "rows": 400}
    return json.dumps({"kind": kind, "model": model, "data": data, "figures": [FIGURE]}).encode()


EVIDENCE = report()


def refusal(act: Callable[[], Any]) -> MemoryCoreError:
    with pytest.raises(MemoryCoreError) as caught:
        act()
    return caught.value


def same_refusal(one: Callable[[], Any], other: Callable[[], Any]) -> MemoryCoreError:
    """Check that two refusals tell the same, ids aside, and give the first."""
    first, second = refusal(one), refusal(other)
    assert (first.kind, first.code, first.message, first.details) == (
        second.kind,
        second.code,
        second.message,
        second.details,
    )
    return first


@pytest.fixture
def second(desk: Desk) -> NamedPerson:
    return named(desk, "admin")


@pytest.fixture
def other(desk: Desk, clock: Clock) -> Desk:
    return make_desk(desk.bench, clock, "Other")


def named(desk: Desk, *roles: str) -> NamedPerson:
    person, _ = desk.bench.spaces.create_person(desk.space_id, "Pat", roles)
    return NamedPerson(space_id=desk.space_id, person_id=person.person_id)


def propose(desk: Desk, who: NamedPerson | None, diff: dict[str, Any], **more: Any) -> SettingsChange:
    return desk.bench.spaces.propose_settings(who, desk.space_id, diff, "measured", **more)


def decide(
    desk: Desk, who: NamedPerson, change: SettingsChange, approve: bool = True, **more: Any
) -> SettingsChange:
    return desk.bench.spaces.decide_settings(who, change.change_id, approve=approve, **more)


def receipts(desk: Desk) -> list[dict[str, Any]]:
    return desk.bench.spaces.export_receipts(desk.space_id, list)


def last(desk: Desk) -> dict[str, Any]:
    return receipts(desk)[-1]


def tamper(desk: Desk, statement: Any) -> None:
    with desk.bench.store.engine.begin() as connection:
        connection.execute(statement)


# -- spaces ---------------------------------------------------------------------------------------


def test_a_new_space_has_both_flags_on_and_its_settings_as_version_one(bench: Workbench) -> None:
    space = bench.spaces.create_space("Halden", language="pt", timezone="America/Sao_Paulo")
    assert (space.outreach, space.subscription, space.settings_version) == (True, True, 1)
    version, policy = bench.spaces.policy(space.space_id)
    assert (version, policy.language, policy.timezone) == (1, "pt", "America/Sao_Paulo")
    assert bench.spaces.settings_history(space.space_id)[0][1] == {
        "language": "pt",
        "timezone": "America/Sao_Paulo",
    }


@pytest.mark.parametrize(
    ("name", "more", "field"),
    [
        ("", {}, "name"),
        ("   ", {}, "name"),
        ("x" * 201, {}, "name"),
        ("a\ud83d", {}, "name"),
        ("a\0b", {}, "name"),
        (None, {}, "name"),
        ("Halden", {"language": "it"}, "language"),
        ("Halden", {"timezone": "Mars/Olympus"}, "timezone"),
    ],
)
def test_a_space_with_a_wrong_field_is_refused_and_not_made(
    bench: Workbench, name: Any, more: dict[str, str], field: str
) -> None:
    assert refusal(lambda: bench.spaces.create_space(name, **more)).details["field"] == field
    assert bench.spaces.list_spaces() == []


def test_spaces_are_listed_oldest_first_and_a_destroyed_one_is_not(bench: Workbench, clock: Clock) -> None:
    made = []
    for name in ("B", "A", "C"):
        made.append(bench.spaces.create_space(name).space_id)
        clock.move(seconds=1)
    bench.spaces.destroy_space(made[1])
    assert [space.space_id for space in bench.spaces.list_spaces()] == [made[0], made[2]]


def test_of_a_destroyed_space_nothing_can_be_read_again_and_of_the_others_everything(
    desk: Desk, other: Desk
) -> None:
    note_id = desk.save()["note"]["note_id"]
    other.save()
    desk.bench.spaces.destroy_space(desk.space_id)
    spaces, prospects = desk.bench.spaces, desk.bench.prospects
    for act in (
        lambda: spaces.policy(desk.space_id),
        lambda: spaces.list_people(desk.space_id),
        lambda: spaces.verify_receipts(desk.space_id),
        lambda: prospects.show(desk.admin, note_id),
        lambda: desk.bench.transfers.export_notes(desk.space_id, list),
        lambda: spaces.destroy_space(desk.space_id),
        lambda: spaces.create_source(desk.space_id, "Scout"),
    ):
        assert refusal(act).code == "not_found"
    assert b"Halden" not in desk.files()
    assert other.recall()["note_count"] == 1


def test_destroying_a_space_that_is_not_there_is_not_found(bench: Workbench) -> None:
    assert refusal(lambda: bench.spaces.destroy_space(str(uuid4()))).code == "not_found"


# -- people, sources, keys ------------------------------------------------------------------------


@pytest.mark.parametrize("roles", [(), ("owner",), ("admin", "owner"), ("Admin",)])
def test_a_person_needs_known_roles(desk: Desk, roles: Sequence[str]) -> None:
    before = len(desk.bench.spaces.list_people(desk.space_id))
    assert refusal(lambda: named(desk, *roles)).details["field"] == "role"
    assert len(desk.bench.spaces.list_people(desk.space_id)) == before


def test_names_and_addresses_of_people_are_sealed(desk: Desk) -> None:
    person, _ = desk.bench.spaces.create_person(
        desk.space_id, "Plantedname", ("admin", "admin"), "planted@kelva.example"
    )
    assert person.roles == ("admin",)
    [found] = [
        each for each in desk.bench.spaces.list_people(desk.space_id) if each.person_id == person.person_id
    ]
    assert (found.name, found.email) == ("Plantedname", "planted@kelva.example")
    assert b"Plantedname" not in desk.files()
    assert b"planted@" not in desk.files()


def test_a_source_keeps_vendor_and_purposes_which_grant_nothing(desk: Desk) -> None:
    made = desk.bench.spaces.create_source(desk.space_id, "Scout 2", "Kelva", ("export", "admin"))
    listed = desk.bench.spaces.list_sources(desk.space_id)
    assert made in listed
    key, _ = desk.bench.spaces.create_key(
        desk.space_id, source_id=made.source_id, person_id=desk.owner.person_id, scopes=()
    )
    assert key.scopes == ("context",)


def test_an_unknown_scope_is_refused(desk: Desk) -> None:
    refused = refusal(
        lambda: desk.bench.spaces.create_key(
            desk.space_id, source_id=None, person_id=desk.owner.person_id, scopes=("root",)
        )
    )
    assert refused.details["field"] == "scope"


def test_case_052_ids_of_another_space_answer_as_ids_that_do_not_exist(desk: Desk, other: Desk) -> None:
    spaces = desk.bench.spaces
    nowhere = str(uuid4())
    key_id = spaces.list_keys(other.space_id)[-1].key_id
    change = propose(other, other.admin, {"language": "de"})

    def key(**of: Any) -> Callable[[], Any]:
        return lambda: spaces.create_key(desk.space_id, scopes=(), **of)

    pairs: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
        (
            lambda: spaces.disable_person(desk.space_id, other.owner.person_id),
            lambda: spaces.disable_person(desk.space_id, nowhere),
        ),
        (
            key(source_id=other.source_id, person_id=desk.owner.person_id),
            key(source_id=nowhere, person_id=desk.owner.person_id),
        ),
        (key(source_id=None, person_id=other.owner.person_id), key(source_id=None, person_id=nowhere)),
        (
            lambda: spaces.revoke_key(desk.space_id, key_id),
            lambda: spaces.revoke_key(desk.space_id, nowhere),
        ),
        (
            lambda: spaces.decide_settings(desk.admin, change.change_id, approve=True),
            lambda: spaces.decide_settings(desk.admin, nowhere, approve=True),
        ),
    ]
    before = (spaces.head(desk.space_id), spaces.head(other.space_id))
    for one, two in pairs:
        assert same_refusal(one, two).code == "not_found"
    assert (spaces.head(desk.space_id), spaces.head(other.space_id)) == before
    other.save()


def test_the_operator_finds_the_space_of_an_id(desk: Desk, other: Desk) -> None:
    find = desk.bench.spaces.find_space
    [key] = [key for key in other.bench.spaces.list_keys(other.space_id) if key.source_id]
    assert find("person", desk.owner.person_id) == desk.space_id
    assert find("source", desk.source_id) == desk.space_id
    assert find("key", key.key_id) == other.space_id
    assert find("person", str(uuid4())) is None


# -- settings: proposing --------------------------------------------------------------------------


def test_a_proposal_changes_nothing_until_it_is_approved(desk: Desk, second: NamedPerson) -> None:
    before = desk.bench.spaces.policy(desk.space_id)
    change = propose(desk, desk.admin, {"stale_after_days": 7})
    assert (change.status, change.base_version, change.diff) == ("pending", 1, {"stale_after_days": 7})
    assert desk.bench.spaces.policy(desk.space_id) == before
    approved = decide(desk, second, change)
    assert (approved.status, approved.decided_by and approved.decided_by.person_id) == (
        "approved",
        second.person_id,
    )
    version, policy = desk.bench.spaces.policy(desk.space_id)
    assert (version, policy.stale_after_days) == (2, 7)
    assert policy.digest() != before[1].digest()


def test_an_approved_setting_is_in_force_from_the_next_call_on(
    desk: Desk, second: NamedPerson, clock: Clock
) -> None:
    desk.save(observed_at="2026-11-10")
    assert desk.recall()["stale"] is False
    decide(desk, second, propose(desk, desk.admin, {"stale_after_days": 7, "compaction_suggested_over": 2}))
    assert desk.recall()["stale"] is True
    for number in range(2):
        answer = desk.save(f"Another finding {number}.")
    assert answer["compaction_suggested"] is True


def test_a_diff_keeps_what_it_does_not_name_and_null_returns_to_the_default(
    desk: Desk, second: NamedPerson
) -> None:
    decide(desk, second, propose(desk, desk.admin, {"stale_after_days": 7, "language": "de"}))
    decide(desk, second, propose(desk, desk.admin, {"stale_after_days": None}))
    policy = desk.bench.spaces.policy(desk.space_id)[1]
    assert (policy.stale_after_days, policy.language) == (30, "de")
    versions = [
        (version, settings) for version, settings, _, _ in desk.bench.spaces.settings_history(desk.space_id)
    ]
    assert versions == [
        (3, {"language": "de", "timezone": "UTC"}),
        (2, {"language": "de", "timezone": "UTC", "stale_after_days": 7}),
        (1, {"language": "en", "timezone": "UTC"}),
    ]


@pytest.mark.parametrize(
    ("diff", "rule"),
    [
        ({}, "empty"),
        ({"max_body_bytes": 1}, "setting_name"),
        ({"language": "de", "stale_after_day": 7}, "setting_name"),
        ({"stale_after_days": 0}, "setting_value"),
        ({"language": "en"}, "no_change"),
        ({"stale_after_days": None}, "no_change"),
        ({NEAR: 0.4}, "threshold_order"),
        ({OVERLAP: 0.05}, "threshold_order"),
    ],
)
def test_a_diff_that_cannot_come_into_force_is_not_proposed(
    desk: Desk, diff: dict[str, Any], rule: str
) -> None:
    refused = refusal(lambda: propose(desk, desk.admin, diff, evidence=EVIDENCE))
    assert (refused.code, refused.details["rule"]) == ("invalid_input", rule)
    assert desk.bench.spaces.list_changes(desk.space_id) == []


def test_a_threshold_must_not_contradict_one_that_is_in_force(desk: Desk, second: NamedPerson) -> None:
    decide(desk, second, propose(desk, desk.admin, {NEAR: 0.2}, evidence=EVIDENCE))
    refused = refusal(lambda: propose(desk, desk.admin, {OVERLAP: 0.15}, evidence=EVIDENCE))
    assert refused.details["rule"] == "threshold_order"


@pytest.mark.parametrize(
    "diff", [{NEAR: 0.08}, {OVERLAP: 0.25}, {"redaction.refuse_at": 0.6}, {"redaction.mask_at": 0.3}]
)
def test_a_threshold_needs_the_report_behind_it(desk: Desk, diff: dict[str, Any]) -> None:
    refused = refusal(lambda: propose(desk, desk.admin, diff))
    assert (refused.details["field"], refused.details["rule"]) == ("evidence", "required")
    kind = next(iter(diff)).split(".")[0]
    kept = propose(desk, desk.admin, diff, evidence=report(kind)).evidence
    assert kept is not None
    assert kept["figures"] == [FIGURE]
    assert kept["report_sha256"] == sha256(report(kind)).hexdigest()


@pytest.mark.parametrize("evidence", [report("redaction"), report(model="another-model")])
def test_case_004_a_threshold_takes_no_report_of_another_kind_or_model(desk: Desk, evidence: bytes) -> None:
    refused = refusal(lambda: propose(desk, desk.admin, {NEAR: 0.08}, evidence=evidence))
    assert (refused.details["field"], refused.details["rule"]) == ("evidence", "model")
    assert desk.bench.spaces.list_changes(desk.space_id) == []


@pytest.mark.parametrize(
    "evidence",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        report().replace(b"0.97", b"NaN"),
        report().replace(b"400}", b"1e999}"),
        report().replace(b'"all"', b'"lang=de"'),
    ],
)
def test_evidence_that_is_no_report_is_refused(desk: Desk, evidence: bytes) -> None:
    refused = refusal(lambda: propose(desk, desk.admin, {NEAR: 0.08}, evidence=evidence))
    assert (refused.code, refused.details["field"]) == ("invalid_input", "evidence")


def test_other_settings_need_no_evidence(desk: Desk) -> None:
    assert propose(desk, desk.admin, {"language": "de"}).evidence is None


@pytest.mark.parametrize("reason", ["", "  ", "x" * 2_001, None, "a\0"])
def test_a_proposal_needs_a_reason(desk: Desk, reason: Any) -> None:
    refused = refusal(
        lambda: desk.bench.spaces.propose_settings(desk.admin, desk.space_id, {"language": "de"}, reason)
    )
    assert refused.details["field"] == "reason"


def test_integration_and_admin_propose_and_nobody_else(desk: Desk) -> None:
    propose(desk, named(desk, "integration"), {"language": "de"})
    assert refusal(lambda: propose(desk, desk.owner, {"language": "de"})).code == "role_missing"


def test_a_proposal_goes_to_the_proposers_own_space_whatever_was_named(desk: Desk, other: Desk) -> None:
    desk.bench.spaces.propose_settings(desk.admin, other.space_id, {"language": "de"}, "why")
    assert desk.bench.spaces.list_changes(other.space_id) == []
    assert len(desk.bench.spaces.list_changes(desk.space_id)) == 1


def test_a_proposal_against_an_old_version_is_outdated(desk: Desk, second: NamedPerson) -> None:
    propose(desk, desk.admin, {"language": "fr"}, base_version=1)
    decide(desk, second, propose(desk, desk.admin, {"language": "de"}))
    refused = refusal(lambda: propose(desk, desk.admin, {"stale_after_days": 7}, base_version=1))
    assert (refused.kind, refused.code) == (Kind.CONFLICT, "outdated")
    assert refused.details == {"base_version": 1, "settings_version": 2}


# -- settings: deciding ---------------------------------------------------------------------------


def test_the_proposer_does_not_approve_while_another_admin_is_there(desk: Desk, second: NamedPerson) -> None:
    change = propose(desk, desk.admin, {"language": "de"})
    refused = refusal(lambda: decide(desk, desk.admin, change))
    assert (refused.kind, refused.code, refused.details) == (
        Kind.FORBIDDEN,
        "role_missing",
        {"rule": "four_eyes"},
    )
    assert desk.bench.spaces.list_changes(desk.space_id)[0].status == "pending"
    assert decide(desk, second, change).status == "approved"


def test_the_proposer_neither_approves_nor_rejects_where_another_admin_can(
    desk: Desk, second: NamedPerson
) -> None:
    change = propose(desk, desk.admin, {"language": "de"})
    for approve in (True, False):
        refused = refusal(lambda approve=approve: decide(desk, desk.admin, change, approve=approve))
        assert (refused.code, refused.details["rule"]) == ("role_missing", "four_eyes")
    assert decide(desk, second, change, approve=False).status == "rejected"


@pytest.mark.parametrize(
    "diff",
    [
        {"redaction.allowed_words": ["lone \ud83d"]},
        {
            "overlap.word-hash.judge": {
                "features": ["d"],
                "coefficients": [10**400],
                "intercept": 0,
                "labels_digest": "x",
            }
        },
        {
            "overlap.word-hash.judge": {
                "features": ["d"],
                "coefficients": [2**60],
                "intercept": 0,
                "labels_digest": "x",
            }
        },
    ],
)
def test_what_an_approval_could_not_hash_is_refused_when_proposed(desk: Desk, diff: dict[str, Any]) -> None:
    refused = refusal(lambda: propose(desk, desk.admin, diff, evidence=EVIDENCE))
    assert refused.code == "invalid_input"
    assert desk.bench.spaces.list_changes(desk.space_id) == []


def test_a_chain_whose_head_row_is_gone_does_not_verify(desk: Desk) -> None:
    assert desk.bench.spaces.verify_receipts(desk.space_id).ok
    desk.bench.store.write(
        desk.space_id,
        lambda unit: unit.connection.execute(
            delete(schema.receipt_heads).where(schema.receipt_heads.c.space_id == unit.space_id)
        ),
    )
    verdict = desk.bench.spaces.verify_receipts(desk.space_id)
    assert (verdict.ok, verdict.problem) == (False, "the chain was cut at its end")


def test_a_single_admin_approves_their_own_change_and_the_receipt_says_so(desk: Desk) -> None:
    decide(desk, desk.admin, propose(desk, desk.admin, {"language": "de"}))
    assert last(desk)["operation"] == "approve_settings"
    assert last(desk)["facts"]["own_change_of_single_admin"] is True


def test_an_admin_who_was_disabled_is_no_second_pair_of_eyes(desk: Desk, second: NamedPerson) -> None:
    desk.bench.spaces.disable_person(desk.space_id, second.person_id)
    decide(desk, desk.admin, propose(desk, desk.admin, {"language": "de"}))
    assert last(desk)["facts"]["own_change_of_single_admin"] is True


def test_four_eyes_hold_for_the_same_person_by_key_and_by_name(desk: Desk, second: NamedPerson) -> None:
    change = desk.bench.spaces.propose_settings(desk.admin_key, desk.space_id, {"language": "de"}, "why")
    assert refusal(lambda: decide(desk, desk.admin, change)).details["rule"] == "four_eyes"


@pytest.mark.parametrize("who", ["operator", "second"])
def test_somebody_elses_change_is_no_own_change(desk: Desk, second: NamedPerson, who: str) -> None:
    proposer = None if who == "operator" else second
    decide(desk, desk.admin, propose(desk, proposer, {"language": "de"}))
    assert last(desk)["facts"]["own_change_of_single_admin"] is False


def test_only_an_admin_decides(desk: Desk) -> None:
    change = propose(desk, desk.admin, {"language": "de"})
    for who in (desk.owner, named(desk, "integration"), named(desk, "integration", "outreach_admin")):
        for approve in (True, False):
            assert refusal(lambda who=who, a=approve: decide(desk, who, change, a)).code == "role_missing"  # type: ignore[misc]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("then", [True, False])
def test_a_change_is_decided_once_and_the_second_hears_by_whom(
    desk: Desk, second: NamedPerson, first: bool, then: bool
) -> None:
    change = propose(desk, desk.admin, {"language": "de"})
    decide(desk, second, change, first)
    refused = refusal(lambda: decide(desk, second, change, then))
    assert (refused.kind, refused.code) == (Kind.CONFLICT, "already_decided")
    assert refused.details == {"status": "approved" if first else "rejected", "decided_by": second.person_id}
    assert desk.bench.spaces.policy(desk.space_id)[0] == (2 if first else 1)


def test_of_two_changes_of_one_version_the_second_is_outdated_and_can_only_be_rejected(
    desk: Desk, second: NamedPerson
) -> None:
    one, two = (propose(desk, desk.admin, {"language": language}) for language in ("de", "fr"))
    decide(desk, second, one)
    refused = refusal(lambda: decide(desk, second, two))
    assert (refused.code, refused.details) == ("outdated", {"base_version": 1, "settings_version": 2})
    assert desk.bench.spaces.policy(desk.space_id)[1].language == "de"
    assert decide(desk, second, two, approve=False).status == "rejected"


def test_a_rejection_keeps_its_reason_and_changes_nothing(desk: Desk, second: NamedPerson) -> None:
    decide(desk, second, propose(desk, desk.admin, {"language": "de"}), approve=False, reason="too early")
    [change] = desk.bench.spaces.list_changes(desk.space_id, "rejected")
    assert change.decision_reason == "too early"
    assert desk.bench.spaces.policy(desk.space_id)[0] == 1
    assert desk.bench.spaces.list_changes(desk.space_id, "pending") == []


def test_thresholds_tuned_for_a_model_reach_its_overlap_reports(desk: Desk, second: NamedPerson) -> None:
    desk.save("alpha beta gamma delta")
    notice = desk.save("alpha beta gamma epsilon")["overlap"]
    assert [len(notice[name]) for name in ("near_duplicates", "overlaps")] == [0, 1]
    assert "defaults" in notice["notice"]
    decide(desk, second, propose(desk, desk.admin, {NEAR: 0.3}, evidence=EVIDENCE))
    overlap = desk.save("alpha beta gamma zeta")["overlap"]
    assert [len(overlap[name]) for name in ("near_duplicates", "overlaps")] == [2, 0]
    assert "defaults" not in overlap["notice"]


def test_reasons_are_sealed_and_receipts_name_settings_but_no_values(desk: Desk, second: NamedPerson) -> None:
    change = desk.bench.spaces.propose_settings(
        desk.admin, desk.space_id, {"redaction.allowed_words": ["Plantedword"]}, "Plantedreason"
    )
    decide(desk, second, change, reason="Planteddecision")
    for token in (b"Plantedreason", b"Planteddecision"):
        assert token not in desk.files()
    written = str(receipts(desk))
    assert "Planted" not in written
    assert receipts(desk)[-2]["facts"]["settings"] == ["redaction.allowed_words"]


def test_the_receipt_of_an_approval_holds_a_digest_of_what_was_approved(
    desk: Desk, second: NamedPerson
) -> None:
    digests = []
    for value in (7, 8, 7):
        decide(desk, second, propose(desk, desk.admin, {"stale_after_days": value}))
        digests.append(last(desk)["facts"]["diff_digest"])
    assert digests[0] == digests[2] != digests[1]


# -- receipts -------------------------------------------------------------------------------------


def test_every_act_of_an_operator_leaves_an_admin_receipt_in_order(desk: Desk) -> None:
    spaces = desk.bench.spaces
    spaces.set_flags(desk.space_id, {"outreach": True})
    spaces.revoke_key(desk.space_id, spaces.list_keys(desk.space_id)[0].key_id)
    spaces.disable_person(desk.space_id, desk.owner.person_id)
    rows = receipts(desk)
    assert [row["operation"] for row in rows] == [
        "create_space",
        *["create_person", "create_key"] * 2,
        "create_source",
        "create_key",
        "set_space",
        "revoke_key",
        "disable_person",
    ]
    assert {row["kind"] for row in rows} == {"admin"}
    assert {row["actor"]["kind"] for row in rows} == {"operator"}
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert {row["space_id"] for row in rows} == {desk.space_id}


def test_a_refused_act_leaves_no_receipt(desk: Desk, second: NamedPerson) -> None:
    before = desk.bench.spaces.head(desk.space_id)
    refusal(lambda: propose(desk, desk.admin, {"language": "en"}))
    refusal(lambda: desk.bench.spaces.revoke_key(desk.space_id, str(uuid4())))
    refusal(lambda: desk.bench.spaces.decide_settings(desk.owner, str(uuid4()), approve=True))
    assert desk.bench.spaces.head(desk.space_id) == before


def test_a_chain_links_each_receipt_to_the_one_before_and_verifies(desk: Desk) -> None:
    desk.save()
    rows = receipts(desk)
    assert [row["prev_hash"] for row in rows] == [GENESIS, *(row["hash"] for row in rows[:-1])]
    verdict = desk.bench.spaces.verify_receipts(desk.space_id)
    assert (verdict.ok, verdict.receipts, verdict.head) == (True, len(rows), rows[-1]["hash"])
    assert desk.bench.spaces.head(desk.space_id) == (len(rows), rows[-1]["hash"])


def test_two_spaces_have_chains_of_their_own(desk: Desk, other: Desk) -> None:
    before = desk.bench.spaces.head(desk.space_id)
    other.save()
    assert desk.bench.spaces.head(desk.space_id) == before
    assert other.bench.spaces.verify_receipts(other.space_id).ok


def of(desk: Desk, seq: int) -> Any:
    return (schema.receipts.c.space_id == desk.space_id) & (schema.receipts.c.seq == seq)


@pytest.mark.parametrize(
    "body",
    ["{}", "", "[]", "not json", '{"seq": 3}', '{"seq": 3, "counts": NaN}', "[" * 100_000],
)
def test_a_receipt_rewritten_in_the_database_is_named(desk: Desk, body: str) -> None:
    desk.save()
    tamper(desk, update(schema.receipts).where(of(desk, 3)).values(body=body))
    verdict = desk.bench.spaces.verify_receipts(desk.space_id)
    assert (verdict.ok, verdict.broken_seq) == (False, 3)


def test_one_changed_character_of_a_stored_receipt_is_named(desk: Desk) -> None:
    tamper(
        desk,
        text(
            "UPDATE receipts SET body = replace(body, '\"create_source\"', '\"create_sourcf\"') "
            f"WHERE space_id = '{desk.space_id}'"
        ),
    )
    verdict = desk.bench.spaces.verify_receipts(desk.space_id)
    assert (verdict.ok, verdict.broken_seq) == (False, 6)


def test_a_receipt_removed_from_the_database_is_named(desk: Desk) -> None:
    tamper(desk, delete(schema.receipts).where(of(desk, 2)))
    assert desk.bench.spaces.verify_receipts(desk.space_id).broken_seq == 2


def test_a_tail_cut_from_the_database_is_noticed_by_its_head_row(desk: Desk) -> None:
    seq, _ = desk.bench.spaces.head(desk.space_id)
    tamper(desk, delete(schema.receipts).where(of(desk, seq)))
    verdict = desk.bench.spaces.verify_receipts(desk.space_id)
    assert (verdict.ok, verdict.broken_seq) == (False, seq)


def test_a_tail_cut_together_with_its_head_row_is_noticed_against_a_saved_head(desk: Desk) -> None:
    seq, saved = desk.bench.spaces.head(desk.space_id)
    rows = receipts(desk)
    tamper(desk, delete(schema.receipts).where(of(desk, seq)))
    heads = schema.receipt_heads
    tamper(
        desk,
        update(heads).where(heads.c.space_id == desk.space_id).values(seq=seq - 1, hash=rows[-2]["hash"]),
    )
    assert desk.bench.spaces.verify_receipts(desk.space_id).ok
    verdict = desk.bench.spaces.verify_receipts(desk.space_id, saved)
    assert (verdict.ok, verdict.broken_seq) == (False, seq)


def test_case_085_a_chain_verifies_after_closing_and_opening_again(desk: Desk) -> None:
    desk.save()
    desk.bench.store.engine.dispose()
    assert desk.bench.spaces.verify_receipts(desk.space_id).ok
