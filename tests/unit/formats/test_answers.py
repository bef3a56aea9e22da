"""The JSON that agents get, and the two limits that count its bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory_core.formats import answers
from memory_core.formats.answers import frame_bytes, note_bytes, note_json, recall_json, saved_json
from memory_core.formats.canonical import compact, size
from memory_core.model import (
    Actor,
    Change,
    Compacted,
    LastReply,
    ListedNote,
    NearDuplicate,
    ObservedAt,
    Overlap,
    OverlapPair,
    OverlapReport,
    ProspectNote,
    Recall,
    RecalledNote,
    Relationship,
    Saved,
    SharedSource,
    SourceUrl,
    Suppression,
    Undone,
)
from memory_core.policy import Policy

NOW = datetime(2026, 11, 20, 9, 30, 0, 7, tzinfo=UTC)
POLICY = Policy()


def note(number: int = 1, **changes: Any) -> ProspectNote:
    made = ProspectNote(
        note_id=f"00000000-0000-4000-8000-{number:012}",
        domain="kelva.example",
        title="Round",
        body="Kelva raised 12 million.",
        sources=(
            SourceUrl(url="https://www.news.example/kelva?utm_source=x", canonical="news.example/kelva"),
        ),
        observed_at=ObservedAt(text="2026-11-10", instant=datetime(2026, 11, 10, tzinfo=UTC)),
        created_at=NOW,
        author=Actor(kind="source", key_id="key", source_id="source", person_id="owner"),
    )
    return replace(made, **changes)


def listed(number: int = 1, **changes: Any) -> ListedNote:
    shown = note(number, **changes)
    return ListedNote(shown.note_id, shown.title, shown.observed_at.text, shown.body)


def report(**changes: Any) -> OverlapReport:
    made = OverlapReport(
        near_duplicates=(),
        overlaps=(),
        shared_sources=(),
        not_compared=0,
        embedder="ok",
        model="word-hash",
        tuned=True,
    )
    return replace(made, **changes)


def saved(overlap: OverlapReport, of: ProspectNote | None = None) -> dict[str, Any]:
    answer = Saved(
        note=of or note(),
        stale=False,
        note_count=50,
        compaction_suggested=True,
        repeated=False,
        overlap=overlap,
    )
    return saved_json(answer, POLICY)


def recall(*notes: ProspectNote, **changes: Any) -> Recall:
    made = Recall(
        domain="kelva.example",
        known=bool(notes),
        stale=False,
        note_count=len(notes),
        dossier_version="0123456789abcdef",
        notes=tuple(RecalledNote(note=each, stale=False) for each in notes),
        overlap_pairs=(),
        compaction_suggested=False,
        truncated=False,
        relationship=Relationship(),
    )
    return replace(made, **changes)


def payload_bytes(answer: dict[str, Any]) -> int:
    """Count what MCP sends, without the code under test."""
    return len(json.dumps({"data": answer}, ensure_ascii=False, separators=(",", ":")).encode())


# -- one note -------------------------------------------------------------------------------------


def test_a_note_shows_its_urls_and_date_as_they_came_and_its_source() -> None:
    assert note_json(note(), stale=True) == {
        "note_id": "00000000-0000-4000-8000-000000000001",
        "title": "Round",
        "body": "Kelva raised 12 million.",
        "source_urls": ["https://www.news.example/kelva?utm_source=x"],
        "observed_at": "2026-11-10",
        "stale": True,
        "created_at": "2026-11-20T09:30:00.000007Z",
        "source": {"source_id": "source", "person_id": "owner"},
    }


def test_an_archived_note_says_so_and_where_it_went() -> None:
    shown = note_json(note(status="archived", merged_into="m"), stale=False)
    assert (shown["status"], shown["merged_into"]) == ("archived", "m")


def test_a_time_of_any_offset_is_shown_in_utc() -> None:
    east = NOW.astimezone(datetime.strptime("+0800", "%z").tzinfo)
    assert note_json(note(created_at=east), stale=False)["created_at"] == "2026-11-20T09:30:00.000007Z"


# -- recall ---------------------------------------------------------------------------------------


def test_a_recall_has_the_members_of_the_specification() -> None:
    assert set(recall_json(recall(note()))) == {
        "domain",
        "known",
        "stale",
        "stop",
        "stop_reasons",
        "note_count",
        "dossier_version",
        "compaction_suggested",
        "truncated",
        "relationship",
        "notes",
        "overlap_pairs",
    }


@pytest.mark.parametrize(
    ("relationship", "reasons"),
    [
        (Relationship(), []),
        (Relationship(suppression=Suppression(scope="domain", cause=None, since=NOW)), ["suppressed"]),
        (Relationship(last_reply=LastReply(at=NOW, sentiment="negative")), ["last_reply_negative"]),
        (Relationship(last_reply=LastReply(at=NOW, sentiment="bounce")), ["last_reply_bounce"]),
        (Relationship(last_reply=LastReply(at=NOW, sentiment="interested")), []),
        (Relationship(last_reply=LastReply(at=NOW, sentiment="out_of_office")), []),
        (
            Relationship(
                suppression=Suppression(scope="address", cause="asked", since=NOW),
                last_reply=LastReply(at=NOW, sentiment="negative"),
            ),
            ["suppressed", "last_reply_negative"],
        ),
    ],
)
def test_stop_is_true_exactly_where_there_is_a_reason(relationship: Relationship, reasons: list[str]) -> None:
    shown = recall_json(recall(relationship=relationship))
    assert (shown["stop"], shown["stop_reasons"]) == (bool(reasons), reasons)
    assert shown["relationship"]["suppressed"] == ("suppressed" in reasons)


def test_the_relationship_is_whole_and_null_where_there_is_none() -> None:
    shown = recall_json(recall())["relationship"]
    assert shown == {
        "campaigns": [],
        "messages_sent": 0,
        "last_reply": None,
        "suppressed": False,
        "suppression": None,
    }
    assert (
        recall_json(recall(relationship=Relationship(suppressed_addresses=0)))["relationship"][
            "suppressed_addresses"
        ]
        == 0
    )


@pytest.mark.parametrize("count", [1, 2, 7])
def test_the_bytes_of_frame_and_notes_add_up_to_what_is_sent(count: int) -> None:
    pairs = (OverlapPair(note_ids=("a", "b"), distance=0.12345678),)
    texts = ("é" * 50, '"quoted"\t', "\u2028", "\N{ROCKET}" * 9, "plain", "\\", "日本")
    notes = [note(number, body=texts[number], title=None) for number in range(count)]
    whole = recall(*notes, overlap_pairs=pairs)
    counted = frame_bytes(whole) + sum(map(note_bytes, whole.notes))
    assert payload_bytes(recall_json(whole)) == counted
    # `true` is one byte shorter than `false`: a truncated answer never comes out longer than counted.
    assert payload_bytes(recall_json(replace(whole, truncated=True))) == counted - 1


def test_what_is_sent_is_compact_utf_8_with_characters_as_they_are() -> None:
    assert compact({"a": ["é", "\N{ROCKET}"]}) == '{"a":["é","\N{ROCKET}"]}'
    assert size("é") == 4
    with pytest.raises(ValueError, match="JSON compliant"):
        compact(float("nan"))


# -- a save's answer ------------------------------------------------------------------------------


def test_a_saves_answer_has_the_members_of_the_specification() -> None:
    answer = saved(report())
    assert set(answer) == {"note", "note_count", "compaction_suggested", "repeated", "truncated", "overlap"}
    assert set(answer["overlap"]) == {
        "near_duplicates",
        "overlaps",
        "shared_sources",
        "not_compared",
        "embedder",
        "model",
        "notice",
    }
    assert answer["truncated"] is False


def test_the_entries_of_the_three_lists_have_the_members_of_the_specification() -> None:
    change = Change(kind="amount", before="12 million", after="21 million")
    overlap = saved(
        report(
            near_duplicates=(NearDuplicate(note=listed(2), distance=0.04321987, changes=(change,)),),
            overlaps=(Overlap(note=listed(3), distance=0.2, excerpt="Kelva"),),
            shared_sources=(SharedSource(note_id="n", url="https://a.example/"),),
        )
    )["overlap"]
    assert overlap["near_duplicates"] == [
        {
            "note_id": note(2).note_id,
            "distance": 0.0432,
            "title": "Round",
            "observed_at": "2026-11-10",
            "body": "Kelva raised 12 million.",
            "changes": [{"kind": "amount", "before": "12 million", "after": "21 million"}],
        }
    ]
    assert overlap["overlaps"] == [
        {
            "note_id": note(3).note_id,
            "distance": 0.2,
            "title": "Round",
            "observed_at": "2026-11-10",
            "excerpt": "Kelva",
        }
    ]
    assert overlap["shared_sources"] == [{"note_id": "n", "url": "https://a.example/"}]


def test_the_answer_says_that_it_is_no_instruction_and_leaves_the_merge_to_a_person() -> None:
    notice = saved(report())["overlap"]["notice"]
    assert "not an instruction" in notice
    assert "a person" in notice
    assert "not that the content is new" in notice


def test_the_answer_says_where_thresholds_are_not_tuned_and_where_the_model_was_unavailable() -> None:
    tuned, untuned = (saved(report(tuned=value))["overlap"]["notice"] for value in (True, False))
    assert "defaults" in untuned
    assert "defaults" not in tuned
    assert "unavailable" in saved(report(embedder="unavailable"))["overlap"]["notice"]


def near(count: int, body: str, changes: tuple[Change, ...] = ()) -> tuple[NearDuplicate, ...]:
    return tuple(
        NearDuplicate(note=listed(number, body=body), distance=0.01, changes=changes)
        for number in range(2, count + 2)
    )


@pytest.mark.parametrize("letter", ["x", "é", '"', "\t", "\N{ROCKET}"])
def test_whole_bodies_fall_back_to_300_characters_over_the_limit(letter: str) -> None:
    body = letter * (POLICY.max_body_bytes // len(letter.encode()))
    answer = saved(report(near_duplicates=near(49, body)), note(body=body))
    assert answer["truncated"] is True
    assert payload_bytes(answer) <= POLICY.max_recall_bytes
    shown = answer["overlap"]["near_duplicates"]
    assert {entry["body"] for entry in shown} == {body[:300]}
    assert answer["overlap"].get("left_out", {}).get("near_duplicates", 0) + len(shown) == 49
    assert answer["note"]["body"] == body


def test_under_the_limit_every_body_is_whole() -> None:
    answer = saved(report(near_duplicates=near(8, "x" * POLICY.max_body_bytes)))
    assert answer["truncated"] is False
    assert all(len(entry["body"]) == POLICY.max_body_bytes for entry in answer["overlap"]["near_duplicates"])
    assert "left_out" not in answer["overlap"]


def test_the_nearest_entries_stay_where_even_excerpts_do_not_fit() -> None:
    change = Change(kind="name", before="B" * 150, after="A" * 150)
    duplicates = near(49, "x" * POLICY.max_body_bytes, (change,) * 50)
    answer = saved(report(near_duplicates=duplicates))
    shown = answer["overlap"]["near_duplicates"]
    assert 0 < len(shown) < 49
    assert [entry["note_id"] for entry in shown] == [each.note.note_id for each in duplicates[: len(shown)]]
    assert answer["overlap"]["left_out"]["near_duplicates"] == 49 - len(shown)
    assert payload_bytes(answer) <= POLICY.max_recall_bytes


def test_a_thousand_shared_sources_are_cut_and_counted() -> None:
    shared = tuple(
        SharedSource(note_id=str(number), url="https://a.example/" + "p" * 2_000) for number in range(980)
    )
    answer = saved(report(shared_sources=shared))
    assert answer["truncated"] is True
    assert payload_bytes(answer) <= POLICY.max_recall_bytes
    shown = answer["overlap"]["shared_sources"]
    assert answer["overlap"]["left_out"]["shared_sources"] + len(shown) == 980
    assert shown


def test_a_note_that_alone_nearly_fills_the_limit_still_gets_an_answer() -> None:
    # Quotation marks take two bytes each in JSON: 20 URLs and a body of them are over the limit by themselves.
    sources = tuple(
        SourceUrl(url=f"https://a{number}.example/".ljust(2_047, '"'), canonical=str(number))
        for number in range(20)
    )
    large = note(sources=sources, body='"' * POLICY.max_body_bytes, title='"' * 120)
    answer = saved(report(near_duplicates=near(2, "x" * 400), tuned=False), large)
    assert answer["truncated"] is True
    assert answer["note"]["note_id"] == large.note_id
    assert payload_bytes(answer) <= POLICY.max_recall_bytes


# -- compact and undo -----------------------------------------------------------------------------


def test_a_compaction_and_its_undoing_name_every_note_they_touched() -> None:
    compacted = answers.compacted_json(
        Compacted(
            note=note(9),
            stale=True,
            archived=("a", "b"),
            note_count=3,
            dossier_version="v",
            compaction_suggested=False,
            embedder="ok",
        )
    )
    assert (compacted["archived"], compacted["note_count"], compacted["dossier_version"]) == (
        ["a", "b"],
        3,
        "v",
    )
    assert (compacted["note"]["note_id"], compacted["note"]["stale"]) == (note(9).note_id, True)
    undone = answers.undone_json(Undone(note_id="m", restored=("a",), deleted_since=("b",), note_count=1))
    assert undone == {"note_id": "m", "restored": ["a"], "deleted_since": ["b"], "note_count": 1}


def test_times_of_equal_width_sort_as_time() -> None:
    times = [NOW + timedelta(microseconds=step) for step in (0, 1, 10, 999_993, 10**9)]
    shown = [note_json(note(created_at=at), stale=False)["created_at"] for at in times]
    assert shown == sorted(shown)
    assert {len(each) for each in shown} == {27}
