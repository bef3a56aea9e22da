"""Processes that write at once: nothing is lost, no quota or cap is passed by one, and of two that collide one wins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from sqlalchemy import select

from memory_core.storage.schema import daily_saves

Together = Callable[..., list[list[dict[str, Any]]]]
Finding = Callable[..., dict[str, Any]]


def saves_of_the_day(desk: Any) -> list[int]:
    return desk.bench.store.read(
        desk.space_id,
        lambda unit: list(
            unit.connection.scalars(
                select(daily_saves.c.saves).where(daily_saves.c.space_id == unit.space_id)
            )
        ),
    )


def kept_notes(desk: Any) -> dict[str, dict[str, Any]]:
    return desk.bench.transfers.export_notes(
        desk.space_id, lambda rows: {row["note_id"]: row for row in rows}
    )


def receipts_of(desk: Any, operation: str) -> list[dict[str, Any]]:
    return desk.bench.spaces.export_receipts(
        desk.space_id, lambda rows: [row for row in rows if row["operation"] == operation]
    )


def test_case_037_two_processes_with_100_saves_each_leave_200_notes(
    desk: Any, together: Together, finding: Finding
) -> None:
    """They write into the same four dossiers, up to the cap of each and the quota of the day."""
    lists = [
        [
            ("save", finding(f"Process {process} found fact {number}.", f"shared{number % 4}.example"))
            for number in range(100)
        ]
        for process in range(2)
    ]
    done = [outcome for outcomes in together(*lists) for outcome in outcomes]
    kept = kept_notes(desk)
    assert len(done) == len({outcome["note_id"] for outcome in done}) == 200
    assert set(kept) == {outcome["note_id"] for outcome in done}
    # Every save saw all that came before it: each dossier answered every count from 1 to 50 once.
    counts = Counter((kept[outcome["note_id"]]["domain"], outcome["note_count"]) for outcome in done)
    assert counts == {(f"shared{of}.example", count): 1 for of in range(4) for count in range(1, 51)}
    assert saves_of_the_day(desk) == [200]
    verdict = desk.bench.spaces.verify_receipts(desk.space_id)
    assert verdict.ok, verdict.problem
    assert len(receipts_of(desk, "save")) == 200


def test_four_processes_get_exactly_the_places_that_the_day_has_left(
    desk: Any, together: Together, finding: Finding
) -> None:
    for number in range(185):
        desk.save(f"Fact {number}.", domain=f"before{number // 50}.example")
    lists = [
        [
            ("save", finding(f"Racer {process}, fact {number}.", f"racer{process}.example"))
            for number in range(10)
        ]
        for process in range(4)
    ]
    done = [outcome for outcomes in together(*lists) for outcome in outcomes]
    refused = [outcome for outcome in done if "code" in outcome]
    assert len(done) - len(refused) == 15
    assert {outcome["code"] for outcome in refused} == {"daily_limit_reached"}
    # 09:30 in the zone of the space: the next day begins in 14.5 hours.
    assert {outcome["retry_after_s"] for outcome in refused} == {52_200}
    assert len(kept_notes(desk)) == 200
    assert saves_of_the_day(desk) == [200]
    assert desk.bench.spaces.verify_receipts(desk.space_id).ok


def test_four_processes_get_exactly_the_places_that_a_dossier_has_left(
    desk: Any, together: Together, finding: Finding
) -> None:
    """A refusal for a full dossier uses none of the day's quota."""
    lists = [
        [("save", finding(f"Racer {process}, fact {number}.")) for number in range(20)]
        for process in range(4)
    ]
    done = [outcome for outcomes in together(*lists) for outcome in outcomes]
    refused = [outcome for outcome in done if "code" in outcome]
    assert (len(done), len(refused)) == (80, 30)
    assert {(outcome["code"], outcome["note_count"], outcome["limit"]) for outcome in refused} == {
        ("domain_full", 50, 50)
    }
    assert desk.recall()["note_count"] == 50
    assert saves_of_the_day(desk) == [50]
    assert len(receipts_of(desk, "save")) == 50


def test_case_020_of_two_processes_that_save_one_text_one_stores_and_one_repeats(
    desk: Any, together: Together, finding: Finding
) -> None:
    texts = [("save", finding(f"Fact {number}.", f"same{number % 2}.example")) for number in range(40)]
    for one, other in zip(*together(texts, texts), strict=True):
        assert one["note_id"] == other["note_id"]
        assert sorted((one["repeated"], other["repeated"])) == [False, True]
        [repeat] = [outcome for outcome in (one, other) if outcome["repeated"]]
        assert repeat["near"] == [repeat["note_id"]]
    assert len(kept_notes(desk)) == 40
    assert saves_of_the_day(desk) == [40]


def test_case_047_one_idempotency_key_in_two_processes_at_once_is_one_note(
    desk: Any, together: Together, finding: Finding
) -> None:
    """The same request gives the same note twice; another request under the key is a conflict, whichever is first."""

    def requests(author: str) -> list[tuple[str, dict[str, Any]]]:
        same = [
            ("save", finding(f"Fact {number}.", idempotency_key=f"same-{number}")) for number in range(20)
        ]
        differing = [
            ("save", finding(f"{author} says {number}.", "other.example", idempotency_key=f"other-{number}"))
            for number in range(20)
        ]
        return same + differing

    one, other = together(requests("Ana"), requests("Olu"))
    for first, second in zip(one[:20], other[:20], strict=True):
        assert first["note_id"] == second["note_id"]
        assert sorted((first["repeated"], second["repeated"])) == [False, True]
    for first, second in zip(one[20:], other[20:], strict=True):
        codes = sorted(outcome.get("code", "stored") for outcome in (first, second))
        assert codes == ["conflict", "stored"]
    assert desk.recall()["note_count"] == 20
    assert desk.recall("other.example")["note_count"] == 20
    assert saves_of_the_day(desk) == [40]


def test_case_046_of_two_compactions_of_one_dossier_exactly_one_wins(desk: Any, together: Together) -> None:
    """Their notes do not even meet: it is the dossier that changed since both recalled it."""
    lists: list[list[Any]] = [[], []]
    for number in range(15):
        domain = f"merge{number}.example"
        ids = [desk.save(f"Fact {fact}.", domain=domain)["note"]["note_id"] for fact in range(4)]
        base = {
            "domain": domain,
            "expected_note_count": 4,
            "dossier_version": desk.recall(domain)["dossier_version"],
        }
        for process, chosen in enumerate((ids[:2], ids[2:])):
            lists[process].append(("compact", {**base, "note_ids": chosen, "body": f"Merged by {process}."}))
    for number, pair in enumerate(zip(*together(*lists), strict=True)):
        [won] = [outcome for outcome in pair if "note_id" in outcome]
        [lost] = [outcome for outcome in pair if "code" in outcome]
        now = desk.recall(f"merge{number}.example")
        assert lost["code"] == "note_count_changed"
        assert (lost["note_count"], lost["dossier_version"]) == (3, now["dossier_version"])
        assert now["note_count"] == 3
        assert won["note_id"] in {note["note_id"] for note in now["notes"]}
    assert len(receipts_of(desk, "compact")) == 15
    kept = kept_notes(desk).values()
    assert Counter(row["status"] for row in kept) == {"active": 45, "archived": 30}
    assert desk.bench.spaces.verify_receipts(desk.space_id).ok
