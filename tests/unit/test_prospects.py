"""The prospect memory's use cases: what is stored, answered and refused, and what a receipt keeps of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import combinations, count
from math import sqrt
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from sqlalchemy import insert, select

from memory_core.admission import KeyText, NamedPerson
from memory_core.embedding import Embedder, Vector, WordHashEmbedder
from memory_core.errors import Kind, MemoryCoreError, unavailable
from memory_core.formats.answers import compacted_json, recall_json
from memory_core.model import Imported
from memory_core.rules.staleness import day_start
from memory_core.storage import schema
from tests.conftest import NOW, Clock, Desk, make_desk

LIMIT = 102_400
BODY = 10_240
TOKENS = ("plantedbody", "plantedtitle", "plantedpath", "planteddomain", "plantedkey", "plantedfocus")


def refusal(act: Callable[[], Any]) -> MemoryCoreError:
    with pytest.raises(MemoryCoreError) as caught:
        act()
    return caught.value


def payload(answer: dict[str, Any]) -> int:
    """Count the bytes that an agent gets, without the code under test."""
    return len(json.dumps({"data": answer}, ensure_ascii=False, separators=(",", ":")).encode())


def receipts(desk: Desk) -> list[dict[str, Any]]:
    return desk.bench.spaces.export_receipts(desk.space_id, list)


def ids(recalled: dict[str, Any]) -> list[str]:
    return [note["note_id"] for note in recalled["notes"]]


def saved_id(desk: Desk, body: str, **fields: Any) -> str:
    note_id: str = desk.save(body, **fields)["note"]["note_id"]
    return note_id


def compact(desk: Desk, note_ids: Sequence[str], body: str = "Merged.", **fields: Any) -> dict[str, Any]:
    given = {"domain": "kelva.example", "note_ids": list(note_ids), "body": body, **fields}
    if "expected_note_count" not in given:
        given["expected_note_count"] = desk.recall(given["domain"])["note_count"]
    return compacted_json(desk.bench.prospects.compact(desk.key, given))


def export(desk: Desk) -> list[dict[str, Any]]:
    return desk.bench.transfers.export_notes(desk.space_id, list)


def bring(desk: Desk, rows: Sequence[Any]) -> Imported:
    return desk.bench.transfers.import_notes(desk.space_id, enumerate(rows, 1))


_numbers = count(1)


def row(body: str, /, **fields: Any) -> dict[str, Any]:
    """Give one row of an export, with an id of its own."""
    return {
        "note_id": str(UUID(int=(7 << 76) | (2 << 62) | next(_numbers))),
        "domain": "kelva.example",
        "body": body,
        "source_urls": ["https://news.example/kelva"],
        "observed_at": "2026-11-10",
        "created_at": "2026-11-11T08:00:00.000000Z",
        "author": {"kind": "source", "source_id": "s", "person_id": "p"},
        "status": "active",
        **fields,
    }


def fill(desk: Desk, bodies: Sequence[str], **fields: Any) -> list[str]:
    """Store many notes at once."""
    rows = [row(body, **fields) for body in bodies]
    done = bring(desk, rows)
    assert done.written == len(rows), done.refused
    return [each["note_id"] for each in rows]


def start_of(desk: Desk, day: str) -> datetime:
    """Give the first instant of a day in the space's zone."""
    return day_start(date.fromisoformat(day), desk.bench.spaces.policy(desk.space_id)[1].timezone)


def set_saves(desk: Desk, day: str, saves: int) -> None:
    starts_at = start_of(desk, day)
    with desk.bench.store.engine.begin() as connection:
        connection.execute(
            insert(schema.daily_saves).values(
                space_id=desk.space_id, starts_at=starts_at, saves=saves, last_at=starts_at
            )
        )


def saves_of(desk: Desk, day: str) -> int:
    columns = schema.daily_saves.c
    with desk.bench.store.engine.connect() as connection:
        found = connection.scalar(
            select(columns.saves).where(
                columns.space_id == desk.space_id, columns.starts_at == start_of(desk, day)
            )
        )
    return found or 0


def with_embedder(desk: Desk, embedder: Embedder) -> Desk:
    """Give the same desk with another model behind it."""
    bench = desk.bench
    prospects = replace(bench.prospects, embedder=embedder)
    transfers = replace(bench.transfers, embedder=embedder)
    return replace(desk, bench=replace(bench, embedder=embedder, prospects=prospects, transfers=transfers))


class Placed:
    """Puts a body `d=0.25 ...` at that distance from `d=0`; a body without a place has no vector."""

    def __init__(self, model_id: str = "placed") -> None:
        self.model_id = model_id

    def load(self) -> None:
        """Load nothing."""

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [self._place(text) for text in texts]

    def _place(self, text: str) -> Vector | None:
        found = re.match(r"d=([0-9.]+)", text)
        if found is None:
            return None
        cosine = 1 - float(found[1])
        return np.array([cosine, sqrt(max(0.0, 1 - cosine * cosine))], dtype=np.float32)


class Down(WordHashEmbedder):
    """A model that is missing."""

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        raise unavailable("the model is missing")


class Meanwhile(WordHashEmbedder):
    """Lets something happen while the model works, once."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act: Callable[[], Any] | None = act

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        act, self.act = self.act, None
        if act is not None:
            act()
        return super().embed(texts)


@pytest.fixture
def other(desk: Desk, clock: Clock) -> Desk:
    return make_desk(desk.bench, clock, "Other")


@pytest.fixture
def placed(desk: Desk) -> Desk:
    return with_embedder(desk, Placed())


# -- save: what is stored -------------------------------------------------------------------------


def test_a_saved_note_comes_back_as_it_was_given(desk: Desk) -> None:
    body = "# Round\n\n\tKelva raised **12** million.\r\n é 日本 \N{ROCKET} "
    answer = desk.save(body, title=" Series \n B ", source_urls=["https://WWW.News.example/a?utm_source=x"])
    assert (answer["repeated"], answer["note_count"], answer["compaction_suggested"]) == (False, 1, False)
    [note] = desk.recall()["notes"]
    assert note == answer["note"]
    assert (note["body"], note["title"]) == (body, "Series B")
    assert note["source_urls"] == ["https://WWW.News.example/a?utm_source=x"]
    assert (note["observed_at"], note["created_at"]) == ("2026-11-10", "2026-11-20T09:30:00.000000Z")
    assert note["source"] == {"source_id": desk.source_id, "person_id": desk.owner.person_id}


@pytest.mark.parametrize(
    "given",
    [
        "kelva.example",
        "KELVA.Example.",
        "www.kelva.example",
        "https://www.kelva.example/careers?x=1#y",
        "HTTPS://WWW.Kelva.example:443/about",
        "Jo@Kelva.example",
        "mailto:jo@kelva.example",
    ],
)
def test_case_058_every_spelling_of_a_company_finds_its_dossier(desk: Desk, given: str) -> None:
    desk.save()
    assert desk.recall(given)["domain"] == "kelva.example"
    assert desk.recall(given)["note_count"] == 1
    assert desk.save(domain=given)["repeated"] is True


def test_case_122_a_look_alike_is_another_company(desk: Desk) -> None:
    desk.save(domain="notkelva.example")
    for look_alike in ("kelva.example", "kelva.example.ar", "kelvalabs.example", "notkelva-example.example"):
        recalled = desk.recall(look_alike)
        assert (recalled["known"], recalled["notes"]) == (False, [])
    for pattern in ("%kelva.example", "notkelv_.example"):
        assert refusal(lambda pattern=pattern: desk.recall(pattern)).code == "invalid_input"  # type: ignore[misc]


@pytest.mark.parametrize(
    "domain", ["co.uk", "localhost", "10.0.0.1", "", "jo@gmail.com", None, 7, ["kelva.example"]]
)
def test_case_062_what_is_no_company_is_refused_by_every_verb(desk: Desk, domain: Any) -> None:
    for act in (
        lambda: desk.recall(domain),
        lambda: desk.save(domain=domain),
        lambda: compact(desk, [], domain=domain, expected_note_count=0),
    ):
        refused = refusal(act)
        assert (refused.code, refused.details["field"]) == ("invalid_input", "domain")
    assert export(desk) == []


def test_case_068_a_lone_surrogate_is_refused_cleanly_and_other_notes_are_fine(desk: Desk) -> None:
    for fields in (
        {"body": "deal closed \ud83d"},
        {"title": "\ud83d"},
        {"domain": "\ud83d.example"},
        {"source_urls": ["https://a.example/\ud83d"]},
        {"observed_at": "\ud83d"},
        {"idempotency_key": "\ud83d"},
    ):
        refused = refusal(lambda fields=fields: desk.save(**fields))  # type: ignore[misc]
        assert (refused.code, refused.details["field"]) == ("invalid_input", next(iter(fields)))
    assert desk.save()["note_count"] == 1


def test_case_034_created_at_does_not_depend_on_the_hosts_zone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.save()
    for zone in ("Asia/Shanghai", "America/Sao_Paulo", "UTC"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        try:
            assert desk.recall()["notes"][0]["created_at"] == "2026-11-20T09:30:00.000000Z"
            answer = desk.save(f"A finding made in {zone}.")
            assert answer["note"]["created_at"] == "2026-11-20T09:30:00.000000Z"
        finally:
            monkeypatch.undo()
            time.tzset()


def test_case_016_a_contradicting_fact_leaves_both(desk: Desk) -> None:
    desk.save("Kelva likes pilots.")
    desk.save("Kelva dislikes pilots.")
    assert desk.recall()["note_count"] == 2


def test_no_text_of_a_note_is_in_any_file(desk: Desk) -> None:
    desk.save(
        "plantedbody",
        title="plantedtitle",
        source_urls=["https://a.example/plantedpath"],
        domain="planteddomain.example",
        idempotency_key="plantedkey",
    )
    compact_ids = [saved_id(desk, f"plantedbody {n}", domain="planteddomain.example") for n in range(2)]
    desk.recall("planteddomain.example", focus="plantedfocus")
    compact(desk, compact_ids, "plantedbody merged", domain="planteddomain.example")
    content = desk.files()
    for token in TOKENS:
        assert token.encode() not in content, token


# -- save: limits at their boundary ---------------------------------------------------------------


@pytest.mark.parametrize("letter", ["x", "é", "日", "\N{ROCKET}"])
def test_a_body_of_10240_bytes_is_stored_whole_and_one_more_byte_refused(desk: Desk, letter: str) -> None:
    size = len(letter.encode())
    body = letter * (BODY // size) + "x" * (BODY % size)
    assert len(body.encode()) == BODY
    assert desk.save(body)["note"]["body"] == body
    refused = refusal(lambda: desk.save(body + "x"))
    assert (refused.code, refused.details["limit"]) == ("payload_too_large", BODY)
    assert desk.recall()["note_count"] == 1


def test_twenty_sources_are_stored_and_one_more_refused(desk: Desk) -> None:
    urls = [f"https://a.example/{number}" for number in range(21)]
    assert desk.save(source_urls=urls[:20])["note"]["source_urls"] == urls[:20]
    for wrong in (urls, [], None, "https://a.example/1"):
        assert refusal(lambda wrong=wrong: desk.save(source_urls=wrong)).details["field"] == "source_urls"  # type: ignore[misc]


def test_a_title_of_120_characters_stays_and_a_longer_one_is_cut(desk: Desk) -> None:
    assert desk.save(title="t" * 120)["note"]["title"] == "t" * 120
    assert desk.save("Other.", title="u" * 121)["note"]["title"] == "u" * 120


def test_a_day_in_the_future_is_stored_and_more_refused(desk: Desk) -> None:
    edge = NOW + timedelta(hours=24)
    assert desk.save(observed_at=edge.isoformat())["note"]["observed_at"] == edge.isoformat()
    later = (edge + timedelta(microseconds=1)).isoformat()
    assert refusal(lambda: desk.save(observed_at=later)).details["rule"] == "future"


@pytest.mark.parametrize("observed_at", [None, "", "yesterday", "2026-11-31", "2026-11-10T10:00", 20261110])
def test_case_035_a_date_that_is_none_or_without_an_offset_is_refused(desk: Desk, observed_at: Any) -> None:
    assert refusal(lambda: desk.save(observed_at=observed_at)).details["field"] == "observed_at"


def test_the_51st_note_of_a_domain_is_refused_and_takes_nothing_of_the_quota(desk: Desk) -> None:
    fill(desk, [f"Finding number {number}." for number in range(49)])
    assert desk.save()["note_count"] == 50
    refused = refusal(lambda: desk.save("One more."))
    assert (refused.kind, refused.code) == (Kind.CONFLICT, "domain_full")
    assert refused.details == {"note_count": 50, "limit": 50}
    assert saves_of(desk, "2026-11-20") == 1
    assert desk.save("One more.", domain="other.example")["note_count"] == 1


def test_compaction_is_suggested_over_eight_notes(desk: Desk) -> None:
    fill(desk, [f"Finding number {number}." for number in range(7)])
    assert desk.save("The eighth.")["compaction_suggested"] is False
    assert desk.recall()["compaction_suggested"] is False
    assert desk.save("The ninth.")["compaction_suggested"] is True
    assert desk.recall()["compaction_suggested"] is True


@pytest.mark.parametrize(
    ("observed_at", "stale"),
    [
        ("2026-10-21T09:30:00Z", False),
        ("2026-10-21T09:29:59.999999Z", True),
        ("2026-10-21T11:30:00+02:00", False),
        ("2026-10-22", False),
        ("2026-10-21", True),
    ],
)
def test_case_035_exactly_30_days_old_is_not_stale(desk: Desk, observed_at: str, stale: bool) -> None:
    answer = desk.save(observed_at=observed_at)
    recalled = desk.recall()
    assert (answer["note"]["stale"], recalled["stale"], recalled["notes"][0]["stale"]) == (stale,) * 3


def test_a_bare_date_counts_from_its_start_in_the_spaces_zone(desk: Desk, clock: Clock) -> None:
    there = make_desk(desk.bench, clock, "There", timezone="America/Sao_Paulo")
    there.save(observed_at="2026-11-10")
    # The date began at 03:00 in UTC.
    clock.at = datetime(2026, 12, 10, 3, 0, tzinfo=UTC)
    assert there.recall()["stale"] is False
    clock.move(microseconds=1)
    assert there.recall()["stale"] is True


def test_a_dossier_is_stale_when_its_newest_fact_is_or_when_there_is_none(desk: Desk, clock: Clock) -> None:
    assert (desk.recall()["known"], desk.recall()["stale"]) == (False, True)
    desk.save("Old.", observed_at="2026-01-01")
    assert (desk.recall()["known"], desk.recall()["stale"]) == (True, True)
    desk.save("New.")
    recalled = desk.recall()
    assert recalled["stale"] is False
    assert [note["stale"] for note in recalled["notes"]] == [False, True], (
        "a stale note is returned like the others"
    )


# -- save: the day's quota ------------------------------------------------------------------------


def test_case_106_the_200th_save_of_a_day_is_stored_and_the_201st_waits_for_midnight(
    desk: Desk, clock: Clock
) -> None:
    set_saves(desk, "2026-11-20", 198)
    desk.save("The 199th.")
    desk.save("The 200th.", domain="other.example")
    refused = refusal(lambda: desk.save("The 201st."))
    assert (refused.kind, refused.code, refused.details["limit"]) == (
        Kind.LIMITED,
        "daily_limit_reached",
        200,
    )
    assert refused.details["retry_after_s"] == 14 * 3600 + 30 * 60
    clock.move(seconds=refused.details["retry_after_s"] - 1)
    assert refusal(lambda: desk.save("The 201st.")).details["retry_after_s"] == 1
    clock.move(seconds=1)
    assert desk.save("The 201st.")["note_count"] == 2


def test_a_part_of_a_second_to_wait_counts_as_a_whole_one(desk: Desk, clock: Clock) -> None:
    clock.at = datetime(2026, 11, 20, 23, 59, 59, 999_000, tzinfo=UTC)
    set_saves(desk, "2026-11-20", 200)
    assert refusal(desk.save).details["retry_after_s"] == 1


@pytest.mark.parametrize(
    ("zone", "now", "day", "wait"),
    [
        ("America/Sao_Paulo", "2026-11-20T02:59:59Z", "2026-11-19", 1),
        ("America/Sao_Paulo", "2026-11-20T03:00:00Z", "2026-11-20", 86_400),
        ("Asia/Tokyo", "2026-11-20T09:30:00Z", "2026-11-20", 19_800),
        # The clocks go back on this day: it has 25 hours.
        ("America/New_York", "2026-11-01T04:00:00Z", "2026-11-01", 90_000),
        # They go forward on this one: 23 hours.
        ("Europe/Lisbon", "2026-03-29T00:00:00Z", "2026-03-29", 82_800),
    ],
)
def test_a_day_of_the_quota_is_a_day_in_the_spaces_zone(
    desk: Desk, clock: Clock, zone: str, now: str, day: str, wait: int
) -> None:
    there = make_desk(desk.bench, clock, "There", timezone=zone)
    clock.at = datetime.fromisoformat(now)
    set_saves(there, day, 200)
    observed = {"observed_at": "2026-01-10"}
    assert refusal(lambda: there.save(**observed)).details["retry_after_s"] == wait
    clock.move(seconds=wait)
    assert there.save(**observed)["note_count"] == 1


def move_to(desk: Desk, zone: str) -> None:
    """Change the zone of a space with a single admin."""
    spaces = desk.bench.spaces
    change = spaces.propose_settings(desk.admin, desk.space_id, {"timezone": zone}, "The team moved.")
    spaces.decide_settings(desk.admin, change.change_id, approve=True)


def test_a_change_of_the_zone_opens_no_second_quota(desk: Desk, clock: Clock) -> None:
    set_saves(desk, "2026-11-20", 198)
    assert desk.save("The 199th.")["note_count"] == 1
    move_to(desk, "Pacific/Niue")
    assert desk.save("The 200th.")["note_count"] == 2
    # 09:30 in UTC is the evening before in Niue and the evening of the same date in Auckland.
    for zone in ("UTC", "Pacific/Auckland", "Pacific/Niue", "America/Sao_Paulo"):
        move_to(desk, zone)
        assert refusal(lambda: desk.save("The 201st.")).code == "daily_limit_reached", zone
    # Midnight in the last zone, and the quota is whole again.
    clock.move(seconds=refusal(lambda: desk.save("The 201st.")).details["retry_after_s"])
    assert desk.save("The 201st.")["note_count"] == 3
    assert saves_of(desk, "2026-11-21") == 1


def test_what_was_saved_before_the_new_zones_day_is_not_counted_in_it(desk: Desk, clock: Clock) -> None:
    set_saves(desk, "2026-11-20", 200)
    clock.move(hours=3)
    # Midnight in Auckland was at 11:00 in UTC; the last save was before it.
    move_to(desk, "Pacific/Auckland")
    assert desk.save()["note_count"] == 1
    assert saves_of(desk, "2026-11-21") == 1


def test_the_quota_of_one_space_leaves_another_alone(desk: Desk, other: Desk) -> None:
    set_saves(desk, "2026-11-20", 200)
    assert refusal(desk.save).code == "daily_limit_reached"
    assert other.save()["note_count"] == 1


def test_a_repeat_a_compaction_and_an_import_take_none_of_the_quota(desk: Desk) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    desk.save("Finding 0.")
    desk.save("Finding 1.")
    fill(desk, ["Imported."])
    compact(desk, [one, two])
    assert saves_of(desk, "2026-11-20") == 2


def test_a_repeat_works_when_the_day_and_the_dossier_are_full(desk: Desk) -> None:
    first = desk.save()["note"]["note_id"]
    fill(desk, [f"Finding number {number}." for number in range(49)])
    assert refusal(lambda: desk.save("New.")).code == "domain_full"
    with desk.bench.store.engine.begin() as connection:
        connection.execute(schema.daily_saves.update().values(saves=200))
    answer = desk.save()
    assert (answer["repeated"], answer["note"]["note_id"], answer["note_count"]) == (True, first, 50)


def test_a_compaction_works_when_the_day_is_full(desk: Desk) -> None:
    note_ids = fill(desk, ["One.", "Two."])
    set_saves(desk, "2026-11-20", 200)
    assert compact(desk, note_ids)["note_count"] == 1


def test_the_daily_limit_is_told_before_the_full_dossier(desk: Desk) -> None:
    fill(desk, [f"Finding number {number}." for number in range(50)])
    set_saves(desk, "2026-11-20", 200)
    assert refusal(lambda: desk.save("New.")).code == "daily_limit_reached"


# -- save: exact repeats --------------------------------------------------------------------------

FIRST = {
    "body": "Kelva raised 12 million. Northwind led.",
    "title": "Series B",
    "source_urls": ["https://news.example/a?id=7&page=2", "https://blog.example/b"],
    "observed_at": "2026-11-10",
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"body": "  Kelva raised 12 million.\r\n\tNorthwind   led.\n"},
        {"title": "  Series\n B "},
        {"observed_at": " 2026-11-10 "},
        {"source_urls": ["https://blog.example/b", "https://news.example/a?id=7&page=2"]},
        {
            "source_urls": [
                "http://www.news.example/a/?page=2&id=7&utm_source=x#top",
                "https://BLOG.example:443/b",
            ]
        },
        {"source_urls": [*FIRST["source_urls"], "https://blog.example/b?fbclid=1"]},
    ],
)
def test_case_010_a_repeat_but_for_white_space_and_the_urls_spelling_stores_nothing(
    desk: Desk, changes: dict[str, Any]
) -> None:
    first = desk.save(**FIRST)
    answer = desk.save(**{**FIRST, **changes})
    assert answer["repeated"] is True
    assert answer["note"] == first["note"]
    assert answer["note_count"] == 1
    [near] = answer["overlap"]["near_duplicates"]
    assert (near["note_id"], near["distance"]) == (first["note"]["note_id"], 0)
    assert near["changes"] == []
    assert answer["overlap"]["overlaps"] == answer["overlap"]["shared_sources"] == []


@pytest.mark.parametrize(
    "changes",
    [
        {"title": "Series C"},
        {"title": None},
        {"title": "series B"},
        {"observed_at": "2026-11-11"},
        {"observed_at": "2026-11-10T00:00:00Z"},
        {"source_urls": ["https://news.example/a?id=8&page=2", "https://blog.example/b"]},
        {"source_urls": ["https://blog.example/b"]},
    ],
)
def test_case_010_another_title_date_or_source_is_stored_and_found_at_distance_0(
    desk: Desk, changes: dict[str, Any]
) -> None:
    first = desk.save(**FIRST)["note"]["note_id"]
    answer = desk.save(**{**FIRST, **changes})
    assert (answer["repeated"], answer["note_count"]) == (False, 2)
    assert answer["note"]["note_id"] != first
    [near] = answer["overlap"]["near_duplicates"]
    assert (near["note_id"], near["distance"], near["changes"]) == (first, 0, [])


def test_a_body_in_another_case_is_another_note(desk: Desk) -> None:
    desk.save("kelva raised 12 million.")
    assert desk.save("Kelva raised 12 million.")["repeated"] is False


def test_a_repeat_has_one_near_duplicate_though_others_lie_as_near(desk: Desk) -> None:
    first = desk.save()["note"]["note_id"]
    desk.save(observed_at="2026-11-11")
    answer = desk.save()
    assert [near["note_id"] for near in answer["overlap"]["near_duplicates"]] == [first]
    assert answer["repeated"] is True


def test_an_archived_or_deleted_note_is_repeated_by_none(desk: Desk) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    compact(desk, [one, two])
    assert desk.save("Finding 0.")["repeated"] is False
    desk.bench.prospects.delete(desk.admin, saved_id(desk, "Deleted."))
    assert desk.save("Deleted.")["repeated"] is False


def test_a_repeat_of_another_source_answers_with_the_first_ones_note(desk: Desk) -> None:
    first = desk.save()
    source = desk.bench.spaces.create_source(desk.space_id, "Second")
    _, text = desk.bench.spaces.create_key(
        desk.space_id, source_id=source.source_id, person_id=desk.owner.person_id, scopes=("outreach_write",)
    )
    answer = replace(desk, key=KeyText(text)).save()
    assert (answer["repeated"], answer["note"]) == (True, first["note"])


def test_case_020_of_two_saves_at_once_one_is_stored_and_the_other_repeats_it(desk: Desk) -> None:
    racing = with_embedder(desk, Meanwhile(lambda: first.append(desk.save())))
    first: list[dict[str, Any]] = []
    answer = racing.save()
    assert (first[0]["repeated"], answer["repeated"]) == (False, True)
    assert answer["note"] == first[0]["note"]
    assert desk.recall()["note_count"] == 1


def test_case_020_of_two_near_duplicates_at_once_the_second_is_flagged(desk: Desk) -> None:
    first: list[dict[str, Any]] = []
    racing = with_embedder(desk, Meanwhile(lambda: first.append(desk.save())))
    answer = racing.save(observed_at="2026-11-11")
    [near] = answer["overlap"]["near_duplicates"]
    assert near["note_id"] == first[0]["note"]["note_id"]


def test_case_040_no_transaction_is_open_while_a_model_works(desk: Desk) -> None:
    checked_out: list[int] = []

    def look() -> None:
        checked_out.append(desk.bench.store.engine.pool.checkedout())  # type: ignore[attr-defined]

    note_ids = fill(
        with_embedder(desk, Meanwhile(look)), [f"Long {number} ".ljust(BODY, "x") for number in range(12)]
    )
    with_embedder(desk, Meanwhile(look)).save("A finding.")
    compact(with_embedder(desk, Meanwhile(look)), note_ids[:2])
    with_embedder(desk, Meanwhile(look)).recall(focus="finding")
    with_embedder(desk, Meanwhile(look)).bench.transfers.embed_notes(desk.space_id, others_too=True)
    assert checked_out == [0, 0, 0, 0]


# -- save: idempotency keys -----------------------------------------------------------------------


def test_case_047_the_same_key_and_request_replays_the_same_note(desk: Desk) -> None:
    first = desk.save(idempotency_key="run-1")
    again = desk.save(idempotency_key="run-1")
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert again["note"] == first["note"]
    assert desk.recall()["note_count"] == 1


def test_case_047_the_same_key_with_another_request_is_a_conflict(desk: Desk) -> None:
    desk.save(idempotency_key="run-1")
    for changes in (
        {"body": "Another body."},
        {"title": "Another title"},
        {"observed_at": "2026-11-11"},
        {"source_urls": ["https://news.example/other"]},
        {"domain": "other.example"},
    ):
        refused = refusal(lambda changes=changes: desk.save(**changes, idempotency_key="run-1"))  # type: ignore[misc]
        assert (refused.kind, refused.code) == (Kind.CONFLICT, "conflict")
        assert refused.details == {"field": "idempotency_key"}
    assert len(export(desk)) == 1


def test_a_key_whose_save_was_a_repeat_is_kept_as_well(desk: Desk) -> None:
    first = desk.save()
    assert desk.save(idempotency_key="run-1")["note"] == first["note"]
    assert refusal(lambda: desk.save("Another.", idempotency_key="run-1")).code == "conflict"


def test_a_key_replays_a_note_that_was_merged_since_and_stores_nothing(desk: Desk) -> None:
    one = desk.save(idempotency_key="run-1")["note"]["note_id"]
    compact(desk, [one, saved_id(desk, "Two.")])
    answer = desk.save(idempotency_key="run-1")
    assert (answer["repeated"], answer["note"]["note_id"], answer["note"]["status"]) == (
        True,
        one,
        "archived",
    )
    assert desk.recall()["note_count"] == 1


def test_a_key_whose_note_was_deleted_brings_nothing_back(desk: Desk) -> None:
    note_id = desk.save(idempotency_key="run-1")["note"]["note_id"]
    desk.bench.prospects.delete(desk.admin, note_id)
    refused = refusal(lambda: desk.save(idempotency_key="run-1"))
    assert (refused.code, refused.details) == ("conflict", {"note_id": note_id})
    assert export(desk) == []


def test_a_key_is_kept_for_24_hours(desk: Desk, clock: Clock) -> None:
    desk.save(idempotency_key="run-1")
    clock.move(hours=24)
    assert refusal(lambda: desk.save("Another.", idempotency_key="run-1")).code == "conflict"
    clock.move(microseconds=1)
    assert desk.save("Another.", idempotency_key="run-1")["repeated"] is False


def test_a_key_of_a_refused_save_is_not_kept(desk: Desk) -> None:
    note_ids = fill(desk, [f"Finding number {number}." for number in range(50)])
    assert refusal(lambda: desk.save("New.", idempotency_key="run-1")).code == "domain_full"
    desk.bench.prospects.delete(desk.admin, note_ids[0])
    assert desk.save("Another.", idempotency_key="run-1")["repeated"] is False


def test_a_key_counts_for_one_source_over_all_its_keys(desk: Desk) -> None:
    spaces = desk.bench.spaces
    desk.save(idempotency_key="run-1")

    def key_of(source_id: str) -> Desk:
        _, text = spaces.create_key(
            desk.space_id, source_id=source_id, person_id=desk.owner.person_id, scopes=("outreach_write",)
        )
        return replace(desk, key=KeyText(text))

    assert (
        refusal(lambda: key_of(desk.source_id).save("Another.", idempotency_key="run-1")).code == "conflict"
    )
    second = spaces.create_source(desk.space_id, "Second")
    assert key_of(second.source_id).save("Another.", idempotency_key="run-1")["repeated"] is False


def test_a_key_of_one_space_is_free_in_another(desk: Desk, other: Desk) -> None:
    desk.save(idempotency_key="run-1")
    assert other.save("Another.", idempotency_key="run-1")["repeated"] is False


def test_a_key_replays_when_the_day_is_full(desk: Desk) -> None:
    first = desk.save(idempotency_key="run-1")
    with desk.bench.store.engine.begin() as connection:
        connection.execute(schema.daily_saves.update().values(saves=200))
    assert desk.save(idempotency_key="run-1")["note"] == first["note"]


@pytest.mark.parametrize("key", ["", "  ", "k" * 201, 7, ["k"], "a\0"])
def test_a_malformed_key_is_refused(desk: Desk, key: Any) -> None:
    assert refusal(lambda: desk.save(idempotency_key=key)).details["field"] == "idempotency_key"
    assert desk.save(idempotency_key="k" * 200)["repeated"] is False


# -- save: the overlap report ---------------------------------------------------------------------


def test_case_001_a_changed_amount_is_stored_and_reported(desk: Desk) -> None:
    first = desk.save("Halden Bank closed its series B round: 12 million from Northwind in Oslo this week.")
    second = desk.save("Halden Bank closed its series B round: 21 million from Northwind in Oslo this week.")
    assert second["note"]["note_id"] != first["note"]["note_id"]
    assert second["repeated"] is False
    near = second["overlap"]["near_duplicates"][0]
    assert near["note_id"] == first["note"]["note_id"]
    assert 0 < near["distance"] <= 0.10
    [change] = near["changes"]
    assert ("12" in change["before"], "21" in change["after"]) == (True, True)
    assert {note["body"] for note in desk.recall()["notes"]} == {
        first["note"]["body"],
        second["note"]["body"],
    }


def test_case_002_a_changed_date_is_stored_and_named(desk: Desk) -> None:
    words = "The contract of Kelva with Northwind for the Oslo office renews on"
    desk.save(f"{words} 15 October.")
    [near] = desk.save(f"{words} 16 October.")["overlap"]["near_duplicates"]
    assert near["changes"] == [{"kind": "date", "before": "15 October", "after": "16 October"}]
    assert desk.recall()["note_count"] == 2


def test_case_011_an_update_is_kept_beside_the_old_fact_newer_first(desk: Desk) -> None:
    desk.save("The lease runs for 5 years.", observed_at="2026-11-01")
    desk.save("The lease runs for 6 years.", observed_at="2026-11-12")
    assert [note["body"] for note in desk.recall()["notes"]] == [
        "The lease runs for 6 years.",
        "The lease runs for 5 years.",
    ]


def test_case_017_the_same_text_lies_at_distance_0_and_nothing_in_common_in_no_list(desk: Desk) -> None:
    desk.save("alpha beta gamma")
    desk.save("one two three")
    overlap = desk.save("alpha beta gamma", title="Again")["overlap"]
    assert [near["distance"] for near in overlap["near_duplicates"]] == [pytest.approx(0, abs=1e-6)]
    assert overlap["overlaps"] == []


@pytest.mark.parametrize(
    ("distance", "lists"),
    [
        (0, (1, 0)),
        (0.0999, (1, 0)),
        (0.1001, (0, 1)),
        (0.2999, (0, 1)),
        (0.3001, (0, 0)),
        (1, (0, 0)),
        (2, (0, 0)),
    ],
)
def test_a_note_is_in_the_list_that_its_distance_says(
    placed: Desk, distance: float, lists: tuple[int, int]
) -> None:
    placed.save(f"d={distance} first")
    overlap = placed.save("d=0 second")["overlap"]
    assert (len(overlap["near_duplicates"]), len(overlap["overlaps"])) == lists
    assert overlap["not_compared"] == 0


def test_both_lists_are_nearest_first_with_the_right_distances(placed: Desk) -> None:
    for distance in (0.25, 0.05, 0.15, 0.09, 0.2):
        placed.save(f"d={distance} a finding")
    overlap = placed.save("d=0 another")["overlap"]
    assert [near["distance"] for near in overlap["near_duplicates"]] == [0.05, 0.09]
    assert [each["distance"] for each in overlap["overlaps"]] == [0.15, 0.2, 0.25]


def test_a_near_duplicate_shows_its_whole_body_and_an_overlap_300_characters(placed: Desk) -> None:
    near, far = "d=0.05 ".ljust(2_000, "é"), "d=0.2 ".ljust(2_000, "é")
    placed.save(near, title="Near", observed_at="2026-11-09")
    placed.save(far, title="Far", observed_at="2026-11-08")
    overlap = placed.save("d=0 new")["overlap"]
    [one], [two] = overlap["near_duplicates"], overlap["overlaps"]
    assert (one["body"], one["title"], one["observed_at"]) == (near, "Near", "2026-11-09")
    assert (two["excerpt"], two["title"], two["observed_at"]) == (far[:300], "Far", "2026-11-08")


def test_a_page_cited_by_another_note_is_named_as_the_new_note_spells_it(desk: Desk) -> None:
    first = saved_id(
        desk, "one two three", source_urls=["https://www.news.example/a/?utm_source=x", "https://b.example/"]
    )
    mine = ["http://news.example/a", "https://c.example/"]
    overlap = desk.save("alpha beta gamma", source_urls=mine)["overlap"]
    assert overlap["shared_sources"] == [{"note_id": first, "url": "http://news.example/a"}]
    assert overlap["near_duplicates"] == overlap["overlaps"] == []


def test_archived_and_deleted_notes_and_other_companies_are_not_compared(desk: Desk) -> None:
    one, two, three = (saved_id(desk, f"alpha beta gamma {number}") for number in range(3))
    compact(desk, [one, two], "zeta", title="Merged")
    desk.bench.prospects.delete(desk.admin, three)
    desk.save("alpha beta gamma 0", domain="other.example")
    overlap = desk.save("alpha beta gamma 0", source_urls=["https://fresh.example/"])["overlap"]
    assert overlap["near_duplicates"] == overlap["overlaps"] == overlap["shared_sources"] == []
    assert overlap["not_compared"] == 0


def test_case_053_a_report_never_crosses_spaces(desk: Desk, other: Desk) -> None:
    other.save()
    answer = desk.save(title="Mine")
    assert (answer["repeated"], answer["note_count"]) == (False, 1)
    overlap = answer["overlap"]
    assert overlap["near_duplicates"] == overlap["overlaps"] == overlap["shared_sources"] == []
    assert overlap["not_compared"] == 0


def test_nothing_is_refused_for_being_similar(desk: Desk) -> None:
    for day in range(1, 20):
        assert desk.save(observed_at=f"2026-11-{day:02}")["repeated"] is False
    assert desk.recall()["note_count"] == 19


def test_case_019_punctuation_of_another_width_is_stored_and_near(desk: Desk) -> None:
    first = saved_id(desk, "公司完成融资，金额为五百万。")
    [near] = desk.save("公司完成融资,金额为五百万.")["overlap"]["near_duplicates"]
    assert near["note_id"] == first


def test_49_near_duplicates_of_10_kb_are_answered_within_the_limit(desk: Desk) -> None:
    body = "word " * (BODY // 5)
    fill(desk, [f"{body[:-4]}{number:03}" for number in range(49)])
    answer = desk.save(body[:-4] + "999")
    assert answer["note_count"] == 50
    assert answer["truncated"] is True
    assert payload(answer) <= LIMIT
    shown = answer["overlap"]["near_duplicates"]
    assert len(shown) + answer["overlap"].get("left_out", {}).get("near_duplicates", 0) == 49
    assert {len(near["body"]) for near in shown} == {300}


# -- save: without a model, or with another -------------------------------------------------------


def test_case_115_without_a_model_the_note_is_saved_and_the_answer_says_what_was_not_compared(
    desk: Desk,
) -> None:
    first = saved_id(desk, "alpha beta gamma")
    down = with_embedder(desk, Down())
    answer = down.save("alpha beta gamma", title="Again")
    assert answer["note_count"] == 2
    overlap = answer["overlap"]
    assert (overlap["embedder"], overlap["not_compared"]) == ("unavailable", 1)
    assert overlap["near_duplicates"] == overlap["overlaps"] == []
    assert overlap["shared_sources"] == [{"note_id": first, "url": "https://news.example/kelva"}]
    assert "unavailable" in overlap["notice"]


def test_an_exact_repeat_needs_no_model(desk: Desk) -> None:
    first = desk.save()
    answer = with_embedder(desk, Down()).save()
    assert (answer["repeated"], answer["note"]) == (True, first["note"])
    assert answer["overlap"]["near_duplicates"][0]["distance"] == 0


def test_a_note_saved_without_a_model_is_embedded_later_and_then_found(desk: Desk) -> None:
    down = with_embedder(desk, Down())
    first = saved_id(down, "alpha beta gamma")
    assert desk.save("alpha beta gamma", title="Second")["overlap"]["not_compared"] == 1
    assert (
        refusal(lambda: down.bench.transfers.embed_notes(desk.space_id, others_too=False)).code
        == "unavailable"
    )
    progress: list[int] = []
    assert desk.bench.transfers.embed_notes(desk.space_id, others_too=False, progress=progress.append) == 1
    assert progress == [1]
    overlap = desk.save("alpha beta gamma", title="Third")["overlap"]
    assert overlap["not_compared"] == 0
    assert first in [near["note_id"] for near in overlap["near_duplicates"]]
    assert desk.bench.transfers.embed_notes(desk.space_id, others_too=False) == 0


def test_notes_of_another_model_are_never_compared_until_they_are_embedded_anew(desk: Desk) -> None:
    one, two = with_embedder(desk, Placed("model-one")), with_embedder(desk, Placed("model-two"))
    first = saved_id(one, "d=0 first")
    overlap = two.save("d=0 second")["overlap"]
    assert (overlap["model"], overlap["not_compared"], overlap["near_duplicates"]) == ("model-two", 1, [])
    assert two.recall()["overlap_pairs"] == []
    assert two.bench.transfers.embed_notes(desk.space_id, others_too=False) == 0
    assert two.bench.transfers.embed_notes(desk.space_id, others_too=True) == 1
    overlap = two.save("d=0 third")["overlap"]
    assert overlap["not_compared"] == 0
    assert first in [near["note_id"] for near in overlap["near_duplicates"]]
    assert len(two.recall()["overlap_pairs"]) == 3


def test_a_text_that_the_model_cannot_read_is_compared_with_nothing(placed: Desk) -> None:
    placed.save("d=0 readable")
    overlap = placed.save("\N{ROCKET}")["overlap"]
    assert (overlap["embedder"], overlap["not_compared"]) == ("ok", 1)
    assert placed.save("d=0 readable too")["overlap"]["not_compared"] == 1
    assert placed.bench.transfers.embed_notes(placed.space_id, others_too=True) == 0


def test_embedding_is_resumed_over_pages_and_touches_each_note_once(desk: Desk) -> None:
    down = with_embedder(desk, Down())
    for part in range(3):
        fill(down, [f"Finding {part} {number}" for number in range(40)], domain=f"company{part}.example")
    assert desk.bench.transfers.embed_notes(desk.space_id, others_too=False) == 120
    assert desk.bench.transfers.embed_notes(desk.space_id, others_too=True) == 0
    counted = [each["counts"]["notes"] for each in receipts(desk) if each["operation"] == "embed_notes"]
    assert counted == [100, 20]


def test_a_failure_that_is_not_the_models_absence_is_not_swallowed(desk: Desk) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        with_embedder(desk, Meanwhile(fail)).save()
    assert export(desk) == []


# -- recall ---------------------------------------------------------------------------------------


def test_an_unknown_company_has_an_empty_dossier_and_no_reason_to_stop(desk: Desk) -> None:
    recalled = desk.recall("nobody.example")
    assert recalled == {
        "domain": "nobody.example",
        "known": False,
        "stale": True,
        "stop": False,
        "stop_reasons": [],
        "note_count": 0,
        "dossier_version": recalled["dossier_version"],
        "compaction_suggested": False,
        "truncated": False,
        "relationship": recalled["relationship"],
        "notes": [],
        "overlap_pairs": [],
    }
    assert recalled["relationship"]["suppressed"] is False


def test_notes_come_newest_first_by_their_fact_and_then_by_their_saving(desk: Desk, clock: Clock) -> None:
    for body, observed_at in (
        ("early, saved first", "2026-11-05"),
        ("late", "2026-11-12T08:00:00+02:00"),
        ("early, saved last", "2026-11-05"),
        ("between", "2026-11-11"),
    ):
        desk.save(body, observed_at=observed_at)
        clock.move(seconds=1)
    bodies = [note["body"] for note in desk.recall()["notes"]]
    assert bodies == ["late", "between", "early, saved last", "early, saved first"]


def test_the_version_of_a_dossier_depends_on_its_active_notes_alone(desk: Desk) -> None:
    empty = desk.recall()["dossier_version"]
    desk.save()
    one = desk.recall()["dossier_version"]
    desk.save()
    desk.save(domain="other.example")
    assert desk.recall()["dossier_version"] == one != empty
    second = saved_id(desk, "Second.")
    assert desk.recall()["dossier_version"] not in (one, empty)
    desk.bench.prospects.delete(desk.admin, second)
    assert desk.recall()["dossier_version"] == one


def test_pairs_are_sought_among_the_20_newest_notes_nearest_first(placed: Desk) -> None:
    rows = [
        row(
            f"d={0.01 * number:.2f} finding",
            observed_at=f"2026-10-{number + 1:02}",
            created_at="2026-11-11T08:00:00Z",
        )
        for number in range(21)
    ]
    assert bring(placed, rows).written == 21
    pairs = placed.recall()["overlap_pairs"]
    oldest, *rest = (each["note_id"] for each in rows)
    assert {frozenset(pair["note_ids"]) for pair in pairs} == {
        frozenset(pair) for pair in combinations(rest, 2)
    }
    assert oldest not in {note_id for pair in pairs for note_id in pair["note_ids"]}
    distances = [pair["distance"] for pair in pairs]
    assert distances == sorted(distances)


def test_pairs_lie_within_the_overlap_distance(placed: Desk) -> None:
    zero, near, far = (saved_id(placed, f"d={distance} finding") for distance in (0, 0.29, 2))
    [pair] = placed.recall()["overlap_pairs"]
    assert (set(pair["note_ids"]), pair["distance"]) == ({zero, near}, 0.29)
    assert far not in pair["note_ids"]


@pytest.mark.parametrize("focus", ["", "  ", None])
def test_a_blank_focus_is_none(desk: Desk, focus: Any) -> None:
    assert desk.recall(focus=focus)["note_count"] == 0


@pytest.mark.parametrize("focus", ["x" * 1_001, 7, ["a"], "a\0", "\ud83d"])
def test_a_malformed_focus_is_refused(desk: Desk, focus: Any) -> None:
    assert refusal(lambda: desk.recall(focus=focus)).details["field"] == "focus"
    assert desk.recall(focus="x" * 1_000)["note_count"] == 0


def test_an_unknown_argument_is_refused(desk: Desk) -> None:
    assert refusal(lambda: desk.recall(space_id=desk.space_id)).details["rule"] == "unknown_field"
    assert refusal(lambda: desk.save(note_id=str(uuid4()))).details["rule"] == "unknown_field"


def long(words: str) -> str:
    """Give a body of 10,000 bytes that says these words and nothing else."""
    return (f"{words} " * 10_000)[:10_000]


NAMES = (
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "mu",
)


def test_a_dossier_of_exactly_the_limit_is_whole_and_one_byte_more_is_not(desk: Desk) -> None:
    for name in NAMES[:9]:
        desk.save(long(name))
    short = saved_id(desk, "x")
    left = LIMIT - payload(desk.recall())
    assert 0 < left < BODY
    desk.bench.prospects.delete(desk.admin, short)
    last = saved_id(desk, "x" * (1 + left))
    recalled = desk.recall()
    assert (payload(recalled), recalled["truncated"], len(recalled["notes"])) == (LIMIT, False, 10)
    desk.bench.prospects.delete(desk.admin, last)
    desk.save("x" * (2 + left))
    recalled = desk.recall()
    assert (recalled["truncated"], recalled["note_count"]) == (True, 10)
    assert len(recalled["notes"]) == 9
    assert payload(recalled) <= LIMIT


def test_case_103_a_dossier_over_the_limit_keeps_whole_notes_newest_first_and_counts_all(desk: Desk) -> None:
    rows = [row(long(name), observed_at=f"2026-11-{day:02}") for day, name in enumerate(NAMES, 1)]
    bring(desk, rows)
    recalled = desk.recall()
    assert payload(recalled) <= LIMIT
    assert (recalled["truncated"], recalled["note_count"], recalled["known"]) == (True, 12, True)
    assert len(recalled["notes"]) == 9, "as many as fit"
    bodies = {each["note_id"]: each["body"] for each in rows}
    assert all(note["body"] == bodies[note["note_id"]] for note in recalled["notes"])
    dates = [note["observed_at"] for note in recalled["notes"]]
    assert dates == sorted(dates, reverse=True)


def test_with_a_focus_the_notes_nearest_to_it_stay(desk: Desk) -> None:
    # The oldest two speak of the focus.
    rows = [
        row(long(name if day > 2 else f"pricing {name}"), observed_at=f"2026-11-{day:02}")
        for day, name in enumerate(NAMES, 1)
    ]
    bring(desk, rows)
    kept = ids(desk.recall(focus="pricing"))
    assert {rows[0]["note_id"], rows[1]["note_id"]} <= set(kept)
    assert payload(desk.recall(focus="pricing")) <= LIMIT


def test_without_a_focus_what_repeats_goes_first(desk: Desk) -> None:
    same = [row(long(f"alpha beta gamma {name}"), observed_at="2026-11-12") for name in NAMES[3:12]]
    alone = [
        row(long(f"{name} {name}x {name}y"), observed_at="2026-11-01") for name in ("one", "two", "three")
    ]
    bring(desk, same + alone)
    kept = set(ids(desk.recall()))
    assert {each["note_id"] for each in alone} <= kept, "novel notes stay though they are the oldest"


def test_notes_without_an_embedding_come_last_and_ties_newest_first(desk: Desk) -> None:
    bring(with_embedder(desk, Down()), [row(long(name), observed_at="2026-11-12") for name in NAMES[:6]])
    embedded = [row(long(name), observed_at="2026-11-01") for name in NAMES[6:12]]
    bring(desk, embedded)
    kept = desk.recall()
    assert {each["note_id"] for each in embedded} <= set(ids(kept))
    assert len(kept["notes"]) == 9


def test_without_any_embedding_the_newest_notes_stay(desk: Desk) -> None:
    down = with_embedder(desk, Down())
    rows = [row(long(name), observed_at=f"2026-11-{day:02}") for day, name in enumerate(NAMES, 1)]
    bring(down, rows)
    newest_first = [each["note_id"] for each in reversed(rows)]
    assert ids(down.recall()) == newest_first[:9]


def test_a_focus_without_a_model_still_gets_a_recall(desk: Desk) -> None:
    bring(desk, [row(long(name)) for name in NAMES])
    recalled = with_embedder(desk, Down()).recall(focus="pricing")
    assert recalled["truncated"] is True
    assert ids(recalled) == ids(desk.recall())


def test_characters_of_several_bytes_count_as_bytes(desk: Desk) -> None:
    bring(desk, [row(f"{number} ".ljust(3_000, "日")) for number in range(15)])
    recalled = desk.recall()
    assert recalled["truncated"] is True
    assert LIMIT - 10_000 < payload(recalled) <= LIMIT


# -- the relationship -----------------------------------------------------------------------------

MARCH = [
    {
        "kind": "campaign",
        "at": "2026-03-01T09:00:00Z",
        "domain": "kelva.example",
        "campaign": "Spring",
        "language": "de",
    },
    {"kind": "message", "at": "2026-03-02T09:00:00Z", "address": "jo@kelva.example", "campaign": "Spring"},
    {"kind": "reply", "at": "2026-03-03T09:00:00Z", "address": "jo@kelva.example", "sentiment": "negative"},
    {
        "kind": "suppression",
        "at": "2026-03-04T09:00:00Z",
        "domain": "kelva.example",
        "scope": "domain",
        "cause": "asked",
    },
]


def contact(desk: Desk, rows: Sequence[dict[str, Any]] = MARCH) -> Imported:
    return desk.bench.transfers.import_relationship(desk.space_id, enumerate(rows, 1))


def test_the_relationship_is_whole_also_where_no_note_is_known(desk: Desk) -> None:
    assert contact(desk).written == 4
    recalled = desk.recall()
    assert (recalled["known"], recalled["stop"]) == (False, True)
    assert recalled["stop_reasons"] == ["suppressed", "last_reply_negative"]
    assert recalled["relationship"]["messages_sent"] == 1
    assert recalled["relationship"]["campaigns"][0]["campaign"] == "Spring"
    assert recalled["relationship"]["suppression"]["scope"] == "domain"


def test_the_relationship_is_whole_also_where_notes_are_cut(desk: Desk) -> None:
    contact(desk)
    alone = desk.recall()["relationship"]
    bring(desk, [row(long(name)) for name in NAMES])
    recalled = desk.recall()
    assert (recalled["truncated"], recalled["relationship"], recalled["stop"]) == (True, alone, True)


def test_case_013_importing_the_relationship_again_changes_nothing(desk: Desk) -> None:
    contact(desk)
    before, head = desk.recall()["relationship"], len(receipts(desk))
    again = contact(desk)
    assert (again.rows, again.written, again.repeated) == (4, 0, 4)
    assert desk.recall()["relationship"] == before
    assert len(receipts(desk)) == head + 1, "only the recall"


def test_rows_that_are_refused_are_listed_by_line_and_take_no_neighbour_with_them(desk: Desk) -> None:
    broken = [MARCH[0], {"kind": "plantedkind"}, MARCH[1]]
    done = contact(desk, broken)
    assert (done.rows, done.written, len(done.refused)) == (3, 2, 1)
    assert (done.refused[0]["line"], done.refused[0]["code"]) == (2, "invalid_input")
    assert "plantedkind" not in str(done)


def test_case_125_compacting_the_notes_of_a_suppressed_company_keeps_the_stop(desk: Desk) -> None:
    contact(desk)
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    before = desk.recall()
    merged = compact(desk, [two, one])["note"]["note_id"]
    for _ in range(2):
        recalled = desk.recall()
        assert (recalled["stop"], recalled["stop_reasons"]) == (True, before["stop_reasons"])
        assert recalled["relationship"] == before["relationship"]
        if recalled["note_count"] == 1:
            desk.bench.prospects.undo_compaction(desk.admin, merged)


def test_a_relationship_of_one_space_is_none_of_another(desk: Desk, other: Desk) -> None:
    contact(desk)
    assert other.recall()["relationship"]["campaigns"] == []
    assert other.recall()["stop"] is False


# -- compaction -----------------------------------------------------------------------------------


def test_a_merged_note_replaces_the_chosen_ones_and_leaves_the_others(desk: Desk) -> None:
    one, two, three = (saved_id(desk, f"Finding {number}.") for number in range(3))
    answer = compact(desk, [one, three], "Both findings.", title="Merged")
    assert answer["archived"] == [one, three]
    assert answer["note_count"] == 2
    recalled = desk.recall()
    assert set(ids(recalled)) == {two, answer["note"]["note_id"]}
    assert answer["dossier_version"] == recalled["dossier_version"]
    assert (answer["note"]["body"], answer["note"]["title"]) == ("Both findings.", "Merged")


def test_the_replaced_notes_are_archived_with_a_pointer_and_can_be_shown(desk: Desk) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    merged = compact(desk, [one, two])["note"]["note_id"]
    for note_id in (one, two):
        shown = desk.bench.prospects.show(desk.admin, note_id).note
        assert (shown.status, shown.merged_into) == ("archived", merged)
    assert desk.bench.prospects.show(desk.admin, merged).note.status == "active"


def test_case_029_a_merged_note_cites_every_page_once_beyond_20_and_the_first_spelling_stays(
    desk: Desk,
) -> None:
    first = [f"https://a.example/{number}" for number in range(20)]
    second = [f"https://b.example/{number}" for number in range(19)] + [
        "http://www.a.example/0/?utm_source=x"
    ]
    one, two = saved_id(desk, "One.", source_urls=first), saved_id(desk, "Two.", source_urls=second)
    merged = compact(desk, [one, two])["note"]
    assert merged["source_urls"] == first + second[:19]
    assert desk.recall()["notes"][0]["source_urls"] == first + second[:19]


@pytest.mark.parametrize("dates", [("2026-10-06", "2026-11-12"), ("2026-11-12", "2026-10-06")])
def test_case_025_a_merged_note_has_the_earliest_date_and_is_as_stale(
    desk: Desk, dates: tuple[str, str]
) -> None:
    one, two = (saved_id(desk, f"Finding of {date}.", observed_at=date) for date in dates)
    answer = compact(desk, [one, two])["note"]
    assert (answer["observed_at"], answer["stale"]) == ("2026-10-06", True)
    assert answer["created_at"] == "2026-11-20T09:30:00.000000Z"
    assert desk.recall()["stale"] is True


def test_a_merged_note_is_compared_and_can_be_merged_again(desk: Desk) -> None:
    one, two, three = (saved_id(desk, f"Finding {number}.") for number in range(3))
    merged = compact(desk, [one, two], "alpha beta gamma")["note"]["note_id"]
    [near] = desk.save("alpha beta gamma", title="New")["overlap"]["near_duplicates"]
    assert near["note_id"] == merged
    assert compact(desk, [merged, three])["note_count"] == 2


def test_case_026_a_merged_body_over_the_limit_is_refused_and_nothing_changes(desk: Desk) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    before, head = desk.recall(), desk.bench.spaces.head(desk.space_id)
    refused = refusal(lambda: compact(desk, [one, two], "x" * (BODY + 1), expected_note_count=2))
    assert (refused.code, refused.details["limit"]) == ("payload_too_large", BODY)
    assert desk.bench.spaces.head(desk.space_id) == head
    assert desk.recall() == before
    assert compact(desk, [one, two], "x" * BODY)["note"]["body"] == "x" * BODY


@pytest.mark.parametrize("expected", [0, 1, 3, 50])
def test_another_note_count_changes_nothing_and_is_told_with_the_present_values(
    desk: Desk, expected: int
) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    before = desk.recall()
    refused = refusal(lambda: compact(desk, [one, two], expected_note_count=expected))
    assert (refused.kind, refused.code) == (Kind.CONFLICT, "note_count_changed")
    assert refused.details == {"note_count": 2, "dossier_version": before["dossier_version"]}
    assert desk.recall() == before


def test_one_deletion_and_one_addition_are_noticed_by_the_version_though_the_count_is_the_same(
    desk: Desk,
) -> None:
    one, two, three = (saved_id(desk, f"Finding {number}.") for number in range(3))
    seen = desk.recall()
    desk.bench.prospects.delete(desk.admin, three)
    desk.save("Added meanwhile.")
    lock = {"expected_note_count": seen["note_count"], "dossier_version": seen["dossier_version"]}
    refused = refusal(lambda: compact(desk, [one, two], **lock))
    assert (refused.code, refused.details["note_count"]) == ("note_count_changed", 3)
    assert refused.details["dossier_version"] == desk.recall()["dossier_version"] != seen["dossier_version"]
    assert compact(desk, [one, two], expected_note_count=3)["note_count"] == 2, "by the count alone it passes"


def test_the_dossier_is_looked_at_first_then_the_ids_then_the_body(desk: Desk) -> None:
    one, two, three = (saved_id(desk, f"Finding {number}.") for number in range(3))
    merged = compact(desk, [one, two])["note"]["note_id"]
    large, missing = "x" * (BODY + 1), str(uuid4())

    def code(note_ids: list[str], count: int) -> str:
        return refusal(lambda: compact(desk, note_ids, large, expected_note_count=count)).code

    assert code([missing, one], 7) == "note_count_changed"
    assert code([missing, one], 2) == "not_found"
    assert code([one, three], 2) == "conflict"
    assert code([merged, three], 2) == "payload_too_large"


def test_archived_notes_are_named_and_not_merged_again(desk: Desk) -> None:
    one, two, three = (saved_id(desk, f"Finding {number}.") for number in range(3))
    compact(desk, [one, two])
    refused = refusal(lambda: compact(desk, [three, two]))
    assert (refused.code, refused.details) == ("conflict", {"note_ids": [two]})


def test_notes_of_another_company_are_not_found_in_this_dossier(desk: Desk) -> None:
    one = saved_id(desk, "One.")
    foreign = saved_id(desk, "Two.", domain="other.example")
    assert refusal(lambda: compact(desk, [one, foreign])).code == "not_found"


@pytest.mark.parametrize(
    "fields",
    [
        {"note_ids": []},
        {"note_ids": ["same", "same"]},
        {"note_ids": "ab"},
        {"note_ids": [None, None]},
        {"note_ids": None},
        {"expected_note_count": None},
        {"expected_note_count": "2"},
        {"expected_note_count": True},
        {"expected_note_count": -1},
        {"expected_note_count": 2.0},
        {"dossier_version": 7},
        {"dossier_version": "v" * 65},
        {"body": None},
    ],
)
def test_a_malformed_compaction_is_refused_by_field(desk: Desk, fields: dict[str, Any]) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    given = {
        "domain": "kelva.example",
        "note_ids": [one, two],
        "body": "M.",
        "expected_note_count": 2,
        **fields,
    }
    if given["note_ids"] == ["same", "same"]:
        given["note_ids"] = [one, one.upper()]
    refused = refusal(lambda: desk.bench.prospects.compact(desk.key, given))
    assert (refused.code, refused.details["field"]) == ("invalid_input", next(iter(fields)))
    assert desk.recall()["note_count"] == 2


def test_a_malformed_merged_body_is_refused_and_nothing_changes(desk: Desk) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    for body in (" ", "a\0", "\ud83d", 7):
        assert refusal(lambda body=body: compact(desk, [one, two], body)).details["field"] == "body"  # type: ignore[misc]
    assert desk.recall()["note_count"] == 2


def test_a_dossier_that_changed_while_the_model_worked_is_noticed_in_the_act_itself(desk: Desk) -> None:
    one, two, three = (saved_id(desk, f"Finding {number}.") for number in range(3))
    racing = with_embedder(desk, Meanwhile(lambda: desk.bench.prospects.delete(desk.admin, three)))
    assert refusal(lambda: compact(racing, [one, two], expected_note_count=3)).code == "note_count_changed"
    assert set(ids(desk.recall())) == {one, two}


def test_case_049_a_compaction_sent_twice_is_done_once(desk: Desk) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    compact(desk, [one, two], expected_note_count=2)
    assert refusal(lambda: compact(desk, [one, two], expected_note_count=2)).code == "note_count_changed"
    assert [each["operation"] for each in receipts(desk)].count("compact") == 1


def test_a_full_dossier_is_brought_down_by_compaction(desk: Desk) -> None:
    note_ids = fill(desk, [f"Finding number {number}." for number in range(50)])
    assert refusal(lambda: desk.save("New.")).code == "domain_full"
    answer = compact(desk, note_ids[:40])
    assert (answer["note_count"], answer["compaction_suggested"]) == (11, True)
    assert desk.save("New.")["note_count"] == 12


def test_a_compaction_without_a_model_is_done_and_embedded_later(desk: Desk) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    compact(with_embedder(desk, Down()), [one, two], "alpha beta gamma")
    assert desk.save("alpha beta gamma", title="New")["overlap"]["not_compared"] == 1
    assert desk.bench.transfers.embed_notes(desk.space_id, others_too=False) == 1


def test_case_022_what_archives_notes_names_the_person_behind_it_and_is_only_a_compaction(desk: Desk) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    for number in range(12):
        desk.save(f"Another {number}.")
    desk.recall()
    assert all(note["status"] == "active" for note in export(desk))
    compact(desk, [one, two])
    [receipt] = [each for each in receipts(desk) if each["operation"] == "compact"]
    assert receipt["actor"]["person_id"] == desk.owner.person_id
    assert receipt["ids"]["archived"] == [one, two]


# -- undo -----------------------------------------------------------------------------------------


def undo(desk: Desk, note_id: str) -> Any:
    return desk.bench.prospects.undo_compaction(desk.admin, note_id)


def test_case_023_an_undone_compaction_gives_back_the_same_notes(desk: Desk, clock: Clock) -> None:
    one, two = (saved_id(desk, f"Finding {number}.", title=f"T{number}") for number in range(2))
    before = desk.recall()
    clock.move(hours=1)
    merged = compact(desk, [one, two])["note"]["note_id"]
    undone = undo(desk, merged)
    assert (undone.restored, undone.deleted_since, undone.note_count) == ((one, two), (), 2)
    assert desk.recall() == before
    shown = desk.bench.prospects.show(desk.admin, merged).note
    assert (shown.status, shown.merged_into) == ("archived", None)
    assert desk.bench.prospects.show(desk.admin, one).note.merged_into is None


def test_both_roles_undo_and_a_compaction_is_undone_once(desk: Desk) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    merged = compact(desk, [one, two])["note"]["note_id"]
    desk.bench.prospects.undo_compaction(desk.owner, merged)
    refused = refusal(lambda: undo(desk, merged))
    assert (refused.code, refused.details) == ("conflict", {"note_id": merged})
    assert desk.recall()["note_count"] == 2


def test_originals_deleted_since_stay_deleted_and_are_named(desk: Desk) -> None:
    one, two, three = (saved_id(desk, f"Finding {number}.") for number in range(3))
    merged = compact(desk, [one, two, three])["note"]["note_id"]
    desk.bench.prospects.delete(desk.admin, two)
    undone = undo(desk, merged)
    assert (undone.restored, undone.deleted_since, undone.note_count) == ((one, three), (two,), 2)
    assert set(ids(desk.recall())) == {one, three}
    assert receipts(desk)[-2]["ids"]["deleted_since"] == [two]


def test_a_merged_note_that_was_merged_again_is_not_undone_before_the_later_one(desk: Desk) -> None:
    one, two, three = (saved_id(desk, f"Finding {number}.") for number in range(3))
    first = compact(desk, [one, two])["note"]["note_id"]
    second = compact(desk, [first, three])["note"]["note_id"]
    assert refusal(lambda: undo(desk, first)).code == "conflict"
    assert undo(desk, second).restored == (first, three)
    assert undo(desk, first).restored == (one, two)
    assert set(ids(desk.recall())) == {one, two, three}


def test_the_originals_of_a_deleted_merged_note_stay_archived_and_can_be_restored_once(desk: Desk) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    merged = compact(desk, [one, two])["note"]["note_id"]
    assert desk.bench.prospects.delete(desk.admin, merged) == (merged,)
    assert desk.recall()["note_count"] == 0
    assert desk.bench.prospects.show(desk.admin, one).note.status == "archived"
    undone = undo(desk, merged)
    assert (undone.restored, undone.note_count) == ((one, two), 2)
    assert refusal(lambda: undo(desk, merged)).code == "conflict"
    assert set(ids(desk.recall())) == {one, two}


def test_an_undo_may_exceed_the_limit_of_50_and_saves_are_refused_until_it_is_kept_again(desk: Desk) -> None:
    note_ids = fill(desk, [f"Finding number {number}." for number in range(50)])
    merged = compact(desk, note_ids[:2])["note"]["note_id"]
    desk.save("The fiftieth.")
    assert undo(desk, merged).note_count == 51
    recalled = desk.recall()
    assert recalled["note_count"] == len(recalled["notes"]) == 51
    assert refusal(lambda: desk.save("New.")).details["note_count"] == 51
    assert compact(desk, ids(recalled))["note_count"] == 1


@pytest.mark.parametrize("what", ["a plain note", "nothing"])
def test_what_is_no_compaction_is_not_found(desk: Desk, what: str) -> None:
    note_id = saved_id(desk, "One.") if what == "a plain note" else str(uuid4())
    assert refusal(lambda: undo(desk, note_id)).code == "not_found"


def test_restored_notes_count_as_repeats_again(desk: Desk) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    undo(desk, compact(desk, [one, two])["note"]["note_id"])
    assert desk.save("Finding 0.")["note"]["note_id"] == one


# -- delete ---------------------------------------------------------------------------------------


def sealed_bytes(desk: Desk) -> list[bytes]:
    """Give every sealed field of every note, as it lies in the database."""
    columns = [column for column in schema.prospect_notes.c if column.name.startswith("sealed_")]
    with desk.bench.store.engine.connect() as connection:
        rows = connection.execute(select(*columns)).all()
    return [value for each in rows for value in each if value is not None]


def test_a_deleted_note_is_in_no_later_recall_and_not_shown(desk: Desk) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    assert desk.bench.prospects.delete(desk.owner, one) == (one,)
    assert ids(desk.recall()) == [two]
    assert refusal(lambda: desk.bench.prospects.show(desk.admin, one)).code == "not_found"
    assert refusal(lambda: desk.bench.prospects.delete(desk.admin, one)).code == "not_found"
    assert [note["note_id"] for note in export(desk)] == [two]


def test_case_080_after_25_deletions_no_sealed_byte_of_them_is_in_any_file(desk: Desk) -> None:
    note_ids = fill(desk, [f"Finding number {number}." for number in range(24)], title="A title")
    compact(desk, note_ids[:3], "Merged finding.")
    desk.save("With a key.", idempotency_key="run-1")
    doomed = sealed_bytes(desk)
    assert len(doomed) == 5 * 24 + 4 * 2, "domain, body, sources and embedding of each, and the titles"
    before = desk.files()
    assert all(value in before for value in doomed)
    for note in export(desk):
        desk.bench.prospects.delete(desk.admin, note["note_id"])
    after = desk.files()
    assert not any(value in after for value in doomed)
    assert desk.bench.spaces.verify_receipts(desk.space_id).ok


def test_only_the_id_of_a_deleted_note_remains_and_it_remains_in_receipts(desk: Desk) -> None:
    note_id = saved_id(desk, "plantedbody")
    desk.bench.prospects.delete(desk.admin, note_id)
    last = receipts(desk)[-1]
    assert (last["operation"], last["ids"], last["counts"]) == (
        "delete",
        {"note_ids": [note_id]},
        {"note_count": 0},
    )
    with desk.bench.store.engine.connect() as connection:
        [left] = connection.execute(select(schema.deleted_notes)).all()
    assert set(left._mapping) == {"space_id", "note_id", "deleted_at"}


def test_a_person_may_delete_the_originals_with_the_merged_note(desk: Desk) -> None:
    one, two, three = (saved_id(desk, f"Finding {number}.") for number in range(3))
    merged = compact(desk, [one, two])["note"]["note_id"]
    erased = desk.bench.prospects.delete(desk.admin, merged, with_originals=True)
    assert set(erased) == {merged, one, two}
    assert [note["note_id"] for note in export(desk)] == [three]
    assert receipts(desk)[-2]["ids"]["note_ids"] == list(erased)


def test_with_the_originals_of_an_undone_compaction_nothing_else_is_deleted(desk: Desk) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    first = compact(desk, [one, two], "First merge.")["note"]["note_id"]
    undo(desk, first)
    assert desk.bench.prospects.delete(desk.admin, first, with_originals=True) == (first,)
    assert set(ids(desk.recall())) == {one, two}


def test_originals_that_belong_to_a_later_compaction_are_not_deleted_with_the_earlier_one(desk: Desk) -> None:
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    first = compact(desk, [one, two], "First merge.")["note"]["note_id"]
    undo(desk, first)
    second = compact(desk, [one, two], "Second merge.")["note"]["note_id"]
    assert desk.bench.prospects.delete(desk.admin, first, with_originals=True) == (first,)
    assert undo(desk, second).restored == (one, two)


def test_deleting_a_note_leaves_room_for_another(desk: Desk) -> None:
    note_ids = fill(desk, [f"Finding number {number}." for number in range(50)])
    desk.bench.prospects.delete(desk.admin, note_ids[0])
    assert desk.save("New.")["note_count"] == 50


# -- two spaces -----------------------------------------------------------------------------------


def test_case_052_no_read_shows_anything_of_another_space(desk: Desk, other: Desk) -> None:
    desk.save("plantedbody", idempotency_key="run-1")
    contact(desk)
    recalled = other.recall()
    assert (recalled["known"], recalled["note_count"], recalled["notes"]) == (False, 0, [])
    assert recalled["relationship"]["campaigns"] == []
    assert export(other) == []
    assert other.bench.prospects.dossiers(other.space_id) == []
    assert other.bench.transfers.embed_notes(other.space_id, others_too=True) == 0
    assert len(desk.bench.prospects.dossiers(desk.space_id)) == 1


def test_case_053_an_id_of_another_space_answers_as_one_that_does_not_exist(desk: Desk, other: Desk) -> None:
    theirs = [saved_id(other, f"Finding {number}.") for number in range(3)]
    merged = compact(other, theirs[:2])["note"]["note_id"]
    mine = saved_id(desk, "Mine.")
    prospects = desk.bench.prospects
    acts: list[Callable[[str], Any]] = [
        lambda note_id: prospects.show(desk.admin, note_id),
        lambda note_id: prospects.delete(desk.admin, note_id),
        lambda note_id: prospects.delete(desk.admin, note_id, with_originals=True),
        lambda note_id: prospects.undo_compaction(desk.admin, note_id),
        lambda note_id: compact(desk, [mine, note_id], expected_note_count=1),
    ]
    before = (export(other), other.bench.spaces.head(other.space_id)[0])
    for act in acts:
        for known in (*theirs, merged):
            nowhere = str(uuid4())
            one, two = refusal(lambda a=act, n=known: a(n)), refusal(lambda a=act, n=nowhere: a(n))  # type: ignore[misc]
            assert (one.kind, one.code, one.details) == (two.kind, two.code, two.details)
            assert one.message.replace(known, "ID") == two.message.replace(nowhere, "ID")
            assert one.code == "not_found"
    assert export(other) == before[0]
    assert ids(desk.recall()) == [mine]


def test_case_055_saves_that_alternate_between_spaces_stay_in_their_own(desk: Desk, other: Desk) -> None:
    for number in range(10):
        for each in (desk, other):
            each.save(f"Finding {number} of {each.space_id}.")
    for each in (desk, other):
        bodies = {note["body"] for note in each.recall()["notes"]}
        assert bodies == {f"Finding {number} of {each.space_id}." for number in range(10)}


def test_a_note_moved_to_another_spaces_row_does_not_open(desk: Desk, other: Desk) -> None:
    note_id = saved_id(desk, "plantedbody")
    victim = saved_id(other, "Mine.")
    columns = schema.prospect_notes.c
    with desk.bench.store.engine.begin() as connection:
        sealed = connection.scalar(select(columns.sealed_body).where(columns.note_id == note_id))
        connection.execute(
            schema.prospect_notes.update().where(columns.note_id == victim).values(sealed_body=sealed)
        )
    refused = refusal(other.recall)
    assert refused.code == "unavailable"
    assert "plantedbody" not in str(refused.args) + str(refused.details)


# -- receipts -------------------------------------------------------------------------------------


def test_every_verb_leaves_one_receipt_of_the_prospect_memory(desk: Desk) -> None:
    start = len(receipts(desk))
    desk.recall()
    one, two = (saved_id(desk, f"Finding {number}.") for number in range(2))
    desk.save("Finding 0.")
    merged = compact(desk, [one, two], expected_note_count=2)["note"]["note_id"]
    undo(desk, merged)
    desk.bench.prospects.delete(desk.admin, one)
    made = receipts(desk)[start:]
    assert [each["operation"] for each in made] == [
        "recall",
        "save",
        "save",
        "save",
        "compact",
        "undo",
        "delete",
    ]
    assert {each["kind"] for each in made} == {"prospect_memory"}
    assert [each["seq"] for each in made] == list(range(start + 1, start + 8))
    assert [each["prev_hash"] for each in made[1:]] == [each["hash"] for each in made[:-1]]
    assert {each["at"] for each in made} == {"2026-11-20T09:30:00.000000Z"}
    assert len({each["domain_hash"] for each in made}) == 1


def test_receipts_tell_who_acted_and_on_whose_behalf(desk: Desk) -> None:
    note_id = saved_id(desk, "One.")
    desk.bench.prospects.delete(desk.admin, note_id)
    saved, deleted = receipts(desk)[-2:]
    key_id = desk.bench.admission.recognise(desk.key).actor.key_id
    assert saved["actor"] == {
        "kind": "source",
        "key_id": key_id,
        "source_id": desk.source_id,
        "person_id": desk.owner.person_id,
    }
    assert deleted["actor"] == {"kind": "operator", "person_id": desk.admin.person_id}


def test_receipts_tell_what_was_delivered_and_found_in_numbers(desk: Desk) -> None:
    first = saved_id(desk, "alpha beta gamma")
    desk.save("alpha beta gamma", title="Again")
    saved = receipts(desk)[-1]
    assert saved["counts"] == {
        "note_count": 2,
        "near_duplicates": 1,
        "overlaps": 0,
        "shared_sources": 1,
        "not_compared": 0,
    }
    assert saved["facts"] == {"repeated": False, "embedder": "ok"}
    recalled = desk.recall()
    receipt = receipts(desk)[-1]
    assert receipt["ids"]["note_ids"] == ids(recalled)
    assert receipt["counts"] == {"note_count": 2, "delivered": 2}
    assert first in ids(recalled)


def test_a_truncated_recalls_receipt_names_the_delivered_notes_only(desk: Desk) -> None:
    bring(desk, [row(long(name)) for name in NAMES])
    recalled = desk.recall()
    receipt = receipts(desk)[-1]
    assert receipt["ids"]["note_ids"] == ids(recalled)
    assert receipt["counts"] == {"note_count": 12, "delivered": 9}


def test_a_refused_act_leaves_no_receipt(desk: Desk) -> None:
    one = saved_id(desk, "One.")
    head = desk.bench.spaces.head(desk.space_id)
    for act in (
        lambda: desk.save("x" * (BODY + 1)),
        lambda: desk.save("\ud83d"),
        lambda: compact(desk, [one, str(uuid4())], expected_note_count=1),
        lambda: compact(desk, [one, str(uuid4())], expected_note_count=9),
        lambda: undo(desk, one),
        lambda: desk.bench.prospects.delete(desk.admin, str(uuid4())),
        lambda: desk.recall("localhost"),
    ):
        refusal(act)
    assert desk.bench.spaces.head(desk.space_id) == head


def test_no_receipt_holds_a_text_a_domain_or_a_key(desk: Desk) -> None:
    fields = {
        "domain": "planteddomain.example",
        "title": "plantedtitle",
        "source_urls": ["https://a.example/plantedpath"],
        "idempotency_key": "plantedkey",
    }
    one = saved_id(desk, "plantedbody", **fields)
    two = saved_id(desk, "plantedbody two", domain="planteddomain.example")
    refusal(lambda: desk.save("plantedbody other", **fields))
    desk.recall("jo@planteddomain.example", focus="plantedfocus")
    merged = compact(desk, [one, two], "plantedbody merged", domain="planteddomain.example")["note"][
        "note_id"
    ]
    desk.bench.prospects.show(desk.admin, merged)
    undo(desk, merged)
    desk.bench.prospects.delete(desk.admin, merged)
    contact(desk, [{**MARCH[1], "address": "jo@planteddomain.example", "campaign": "plantedcampaign"}])
    export(desk)
    with desk.bench.store.engine.connect() as connection:
        bodies = list(connection.scalars(select(schema.receipts.c.body)))
    assert len(bodies) > 15
    for body in bodies:
        assert "planted" not in body
        assert "a.example" not in body


def test_the_domain_of_a_receipt_is_a_hash_of_its_space(desk: Desk, other: Desk) -> None:
    desk.save()
    other.save()
    one, two = receipts(desk)[-1]["domain_hash"], receipts(other)[-1]["domain_hash"]
    assert one != two
    assert re.fullmatch("[0-9a-f]{64}", one)


def test_case_083_the_chain_holds_after_an_erasure(desk: Desk) -> None:
    note_id = saved_id(desk, "One.")
    _, saved_head = desk.bench.spaces.head(desk.space_id)
    desk.bench.prospects.delete(desk.admin, note_id)
    assert desk.bench.spaces.verify_receipts(desk.space_id, saved_head).ok


# -- refusals hold nothing ------------------------------------------------------------------------


def test_case_077_a_refusal_names_fields_and_rules_and_never_a_value(desk: Desk) -> None:
    planted = "plantedvalue"
    for act in (
        lambda: desk.save(planted * 1_000),
        lambda: desk.save(f"{planted}\0"),
        lambda: desk.save(domain=planted),
        lambda: desk.save(source_urls=[f"ftp://a.example/{planted}"]),
        lambda: desk.save(source_urls=[f"https://{planted}:pw@a.example/"]),
        lambda: desk.save(observed_at=planted),
        lambda: desk.save(title=f"{planted}\0"),
        lambda: desk.save(**{planted: 1}),
        lambda: desk.save(idempotency_key=planted * 20),
        lambda: desk.recall(focus=planted * 100),
        lambda: compact(desk, [planted, planted], expected_note_count=0),
        lambda: desk.bench.prospects.writing_guide(desk.key, {"language": planted}),
    ):
        refused = refusal(act)
        assert planted not in refused.message + str(refused.details)
        assert refused.__cause__ is None
        assert refused.__suppress_context__ or refused.__context__ is None


# -- export and import ----------------------------------------------------------------------------


def archive_of(desk: Desk) -> dict[str, list[str]]:
    """Make 2 live and 2 archived notes: a merge of 40 sources, and a plain note."""
    urls = [[f"https://{letter}.example/{number}" for number in range(20)] for letter in "ab"]
    originals = [
        saved_id(desk, f"Finding {letter}.", source_urls=urls[place]) for place, letter in enumerate("ab")
    ]
    plain = saved_id(desk, "alpha beta gamma", title="Plain", observed_at="2026-11-01T10:00:00+02:00")
    merged = compact(desk, originals)["note"]["note_id"]
    return {"originals": originals, "live": [plain, merged]}


def test_case_031_an_export_brought_into_another_space_has_the_same_notes_and_pointers(
    desk: Desk, other: Desk, clock: Clock
) -> None:
    made = archive_of(desk)
    rows = export(desk)
    assert sorted(each["status"] for each in rows) == ["active", "active", "archived", "archived"]
    clock.move(days=1)
    done = bring(other, json.loads(json.dumps(rows)))
    assert (done.rows, done.written, done.repeated, done.refused) == (4, 4, 0, ())
    assert export(other) == rows
    recalled, original = other.recall(), desk.recall()
    assert recalled["notes"] == original["notes"]
    assert recalled["dossier_version"] == original["dossier_version"]
    undone = other.bench.prospects.undo_compaction(other.admin, made["live"][1])
    assert undone.restored == tuple(made["originals"])


def test_originals_of_a_merged_note_that_was_deleted_before_the_export_can_still_be_restored(
    desk: Desk, other: Desk
) -> None:
    made = archive_of(desk)
    desk.bench.prospects.delete(desk.admin, made["live"][1])
    bring(other, export(desk))
    undone = other.bench.prospects.undo_compaction(other.admin, made["live"][1])
    assert set(undone.restored) == set(made["originals"])
    assert set(ids(other.recall())) == {made["live"][0], *made["originals"]}
    again = refusal(lambda: other.bench.prospects.undo_compaction(other.admin, made["live"][1]))
    assert again.code == "not_found"


def test_case_032_an_export_is_plain_json_without_vectors_and_import_embeds_anew(
    desk: Desk, other: Desk
) -> None:
    made = archive_of(desk)
    rows = export(desk)
    text = json.dumps(rows, allow_nan=False)
    assert "embedding" not in text
    assert "array" not in text
    bring(other, rows)
    [near] = other.save("alpha beta gamma", title="New")["overlap"]["near_duplicates"]
    assert (near["note_id"], near["distance"]) == (made["live"][0], 0)


def test_case_013_a_second_import_stores_nothing(desk: Desk, other: Desk) -> None:
    archive_of(desk)
    rows = export(desk)
    bring(other, rows)
    before, head = export(other), other.bench.spaces.head(other.space_id)
    again = bring(other, rows)
    assert (again.rows, again.written, again.repeated, again.refused) == (4, 0, 4, ())
    assert other.bench.spaces.head(other.space_id) == head, "where nothing was stored there is no receipt"
    assert export(other) == before
    assert (bring(desk, rows).written, bring(desk, rows).repeated) == (0, 4), "into its own space neither"


def test_case_082_what_was_erased_since_the_export_is_listed_and_not_brought_back(desk: Desk) -> None:
    made = archive_of(desk)
    rows = export(desk)
    erased = desk.bench.prospects.delete(desk.admin, made["live"][1], with_originals=True)
    done = bring(desk, rows)
    assert (done.written, done.repeated) == (0, 1)
    assert {each["note_id"] for each in done.refused} == set(erased)
    assert {(each["code"], each["rule"]) for each in done.refused} == {("conflict", "erased")}
    lines = {each["note_id"]: line for line, each in enumerate(rows, 1)}
    assert all(each["line"] == lines[each["note_id"]] for each in done.refused)
    assert ids(desk.recall()) == [made["live"][0]]


def test_what_was_erased_in_one_space_may_still_be_brought_into_another(desk: Desk, other: Desk) -> None:
    archive_of(desk)
    rows = export(desk)
    for each in rows:
        desk.bench.prospects.delete(desk.admin, each["note_id"])
    assert bring(other, rows).written == 4


def test_a_merged_note_with_more_than_20_sources_comes_back_also_after_its_undoing(
    desk: Desk, other: Desk
) -> None:
    made = archive_of(desk)
    undo(desk, made["live"][1])
    rows = export(desk)
    done = bring(other, rows)
    assert (done.written, done.refused) == (4, ())
    assert export(other) == rows


def test_imported_notes_use_no_quota_but_stay_under_the_cap(desk: Desk) -> None:
    set_saves(desk, "2026-11-20", 200)
    done = bring(desk, [row(f"Finding number {number}.") for number in range(52)])
    assert (done.rows, done.written) == (52, 50)
    assert [(each["line"], each["code"]) for each in done.refused] == [
        (51, "domain_full"),
        (52, "domain_full"),
    ]
    assert saves_of(desk, "2026-11-20") == 200
    assert desk.recall()["note_count"] == 50


def test_an_exact_repeat_under_another_id_is_not_imported(desk: Desk) -> None:
    bring(desk, [row("Same.")])
    done = bring(desk, [row("Same."), row("Same.")])
    assert (done.written, done.repeated) == (0, 2)


def test_another_text_under_a_known_id_is_refused_and_not_written_over(desk: Desk) -> None:
    mine = row("Mine.")
    bring(desk, [mine])
    [refused] = bring(desk, [{**mine, "body": "plantedbody"}]).refused
    assert (refused["code"], refused["note_id"]) == ("conflict", mine["note_id"])
    assert "planted" not in str(refused)
    assert desk.recall()["notes"][0]["body"] == "Mine."


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"note_id": "x"}, "note_id"),
        ({"note_id": None}, "note_id"),
        ({"body": ""}, "body"),
        ({"body": "x" * (BODY + 1)}, "body"),
        ({"domain": "localhost"}, "domain"),
        ({"source_urls": []}, "source_urls"),
        ({"source_urls": [f"https://a.example/{number}" for number in range(21)]}, "source_urls"),
        ({"observed_at": "2027-11-20"}, "observed_at"),
        ({"created_at": "2027-11-20T00:00:00Z"}, "created_at"),
        ({"created_at": None}, "created_at"),
        ({"status": "deleted"}, "status"),
        ({"status": ["active"]}, "status"),
        ({"author": None}, "author"),
        ({"author": {"kind": "root"}}, "author"),
        ({"author": {"kind": "source", "name": "x"}}, "author"),
        ({"author": {"kind": "source", "key_id": 7}}, "author"),
        ({"author": {"kind": "source", "key_id": "k" * 37}}, "author"),
        ({"author": "source"}, "author"),
        ({"merged_into": 7}, "merged_into"),
        ({"merged_from": ["a"]}, "merged_from"),
        ({"merged_from": "ab"}, "merged_from"),
        ({"embedding": [0.1]}, "arguments"),
    ],
)
def test_a_malformed_row_is_listed_by_line_and_field_and_its_neighbours_are_stored(
    desk: Desk, changes: dict[str, Any], field: str
) -> None:
    done = bring(desk, [row("Before."), row("Broken.", **changes), row("After.")])
    assert (done.rows, done.written) == (3, 2)
    [refused] = done.refused
    assert (refused["line"], refused["field"]) == (2, field)
    assert {note["body"] for note in desk.recall()["notes"]} == {"Before.", "After."}


def test_a_row_that_could_not_be_read_is_listed_like_any_other(desk: Desk) -> None:
    done = bring(desk, [unavailable("unreadable"), row("Fine.")])
    assert (done.written, done.refused[0]["line"], done.refused[0]["code"]) == (1, 1, "unavailable")


def test_an_import_leaves_one_receipt_a_batch_with_ids_and_an_export_one_of_the_admins(desk: Desk) -> None:
    for part in range(3):
        rows = [row(f"Finding {number}.", domain=f"company{part}.example") for number in range(40)]
        bring(desk, rows)
    imported = [each for each in receipts(desk) if each["operation"] == "import_notes"]
    assert [each["counts"] for each in imported] == [{"notes": 40}] * 3
    assert imported[-1]["ids"]["note_ids"] == [each["note_id"] for each in rows]
    export(desk)
    assert (receipts(desk)[-1]["kind"], receipts(desk)[-1]["operation"]) == ("admin", "export")


def test_an_import_without_a_model_is_done_and_embedded_later(desk: Desk) -> None:
    bring(with_embedder(desk, Down()), [row("alpha beta gamma")])
    assert desk.save("alpha beta gamma", title="New")["overlap"]["not_compared"] == 1
    assert desk.bench.transfers.embed_notes(desk.space_id, others_too=False) == 1


def test_an_export_goes_over_pages_and_gives_each_note_once(desk: Desk) -> None:
    for part in range(6):
        bring(desk, [row(f"Finding {number}.", domain=f"company{part}.example") for number in range(40)])
    exported = [each["note_id"] for each in export(desk)]
    assert len(exported) == len(set(exported)) == 240


def test_an_export_is_of_one_moment(desk: Desk) -> None:
    desk.save("Before.")

    def consume(rows: Iterator[dict[str, Any]]) -> list[str]:
        first = next(rows)
        desk.save("Meanwhile.")
        return [first["body"], *(each["body"] for each in rows)]

    assert desk.bench.transfers.export_notes(desk.space_id, consume) == ["Before."]
    assert desk.recall()["note_count"] == 2


# -- dossiers, one note, guides -------------------------------------------------------------------


def test_dossiers_are_listed_newest_first_with_their_active_notes(desk: Desk) -> None:
    desk.save("One.", domain="old.example", observed_at="2026-10-01")
    first, second = (saved_id(desk, f"Finding {number}.", observed_at="2026-11-12") for number in range(2))
    gone = saved_id(desk, "Gone.", domain="gone.example")
    desk.bench.prospects.delete(desk.admin, gone)
    compact(desk, [first, second])
    listed = desk.bench.prospects.dossiers(desk.space_id)
    assert [(domain, notes) for domain, notes, _ in listed] == [("kelva.example", 1), ("old.example", 1)]
    assert listed[0][2] == datetime(2026, 11, 12, tzinfo=UTC)


def test_showing_a_note_leaves_a_receipt(desk: Desk) -> None:
    note_id = saved_id(desk, "One.")
    shown = desk.bench.prospects.show(desk.admin, note_id)
    assert (shown.note.body, shown.stale) == ("One.", False)
    assert (receipts(desk)[-1]["operation"], receipts(desk)[-1]["ids"]) == ("show", {"note_id": note_id})


@pytest.mark.parametrize(
    ("asked", "language"),
    [
        ("en", "en"),
        ("de", "de"),
        ("fr", "fr"),
        ("es", "es"),
        ("pl", "pl"),
        ("pt", "pt"),
        ("pt-BR", "pt"),
        ("EN_gb", "en"),
    ],
)
def test_a_writing_guide_is_given_in_the_language_asked_for(desk: Desk, asked: str, language: str) -> None:
    given, guide = desk.bench.prospects.writing_guide(desk.key, {"language": asked})
    assert given == language
    assert len(guide) > 1_000


@pytest.mark.parametrize("asked", ["it", "", None, 7, "../en", "e", "english", "x" * 36])
def test_a_language_without_a_guide_is_refused_by_the_list_of_those_that_have_one(
    desk: Desk, asked: Any
) -> None:
    refused = refusal(lambda: desk.bench.prospects.writing_guide(desk.key, {"language": asked}))
    assert (refused.code, refused.details["field"]) == ("invalid_input", "language")


def test_a_person_reads_a_dossier_like_a_source_does(desk: Desk) -> None:
    desk.save()
    by_person = recall_json(
        desk.bench.prospects.recall(
            NamedPerson(space_id=desk.space_id, person_id=desk.admin.person_id), {"domain": "kelva.example"}
        )
    )
    assert by_person == desk.recall()


# -- what is too large for an answer --------------------------------------------------------------


def long_urls(letter: str) -> list[str]:
    return [f"https://{letter}.example/{'x' * 1_900}/{number}" for number in range(20)]


def test_a_merged_note_of_a_thousand_long_urls_is_still_recalled_with_those_that_fit_and_comes_back(
    desk: Desk, other: Desk
) -> None:
    originals = [
        saved_id(desk, f"Finding {number}.", source_urls=long_urls(f"s{number}")) for number in range(50)
    ]
    answer = compact(desk, originals, "All of it.")
    assert payload(answer) <= LIMIT
    recalled = desk.recall()
    assert payload(recalled) <= LIMIT
    [shown] = recalled["notes"]
    for note in (answer["note"], shown):
        assert note["body"] == "All of it."
        assert len(note["source_urls"]) + note["source_urls_left_out"] == 1_000
        assert len(note["source_urls"]) > 40
    assert recalled["truncated"] is True
    assert bring(other, export(desk)).refused == ()
    assert other.recall()["note_count"] == 1


def test_hundreds_of_campaigns_leave_room_for_notes_and_the_sums_stay_exact(desk: Desk) -> None:
    saved_id(desk, "A finding.")
    rows = [
        (
            number,
            {
                "kind": "message",
                "at": f"2026-01-01T{number % 24:02}:{number % 60:02}:00Z",
                "domain": "kelva.example",
                "campaign": f"{number} " + "é" * 190,
            },
        )
        for number in range(400)
    ]
    assert desk.bench.transfers.import_relationship(desk.space_id, rows).written == 400
    recalled = desk.recall()
    assert payload(recalled) <= LIMIT
    assert len(recalled["notes"]) == 1
    known = recalled["relationship"]
    assert known["messages_sent"] == 400
    assert len(known["campaigns"]) + known["campaigns_left_out"] == 400


# -- pointers that lie ----------------------------------------------------------------------------


def test_an_import_refuses_pointers_that_no_export_has(desk: Desk) -> None:
    one, two = row("One."), row("Two.")
    for fields, field in (
        ({"merged_into": one["note_id"]}, "merged_into"),
        ({"merged_into": two["note_id"], "status": "archived", "note_id": two["note_id"]}, "merged_into"),
        ({"merged_from": [one["note_id"], two["note_id"]], "note_id": one["note_id"]}, "merged_from"),
    ):
        [refused] = bring(desk, [row("Three.", **fields)]).refused
        assert (refused["code"], refused["field"]) == ("invalid_input", field)
    assert desk.recall()["known"] is False


def test_an_undo_restores_only_what_points_to_the_merged_note(desk: Desk) -> None:
    """An import may name notes of other dossiers as its originals: they stay as they are."""
    victims = [saved_id(desk, f"Victim {letter}.", domain="victim.example") for letter in "ab"]
    keeper = compact(desk, victims, domain="victim.example")["note"]["note_id"]
    forged = row("Forged.", domain="forged.example", merged_from=victims)
    assert bring(desk, [forged]).written == 1
    refused = refusal(lambda: desk.bench.prospects.undo_compaction(desk.admin, forged["note_id"]))
    assert refused.code == "conflict"
    assert ids(desk.recall("victim.example")) == [keeper]


def test_an_undo_with_every_original_deleted_is_refused(desk: Desk) -> None:
    merged = compact(desk, [saved_id(desk, "One."), saved_id(desk, "Two.")])["note"]["note_id"]
    desk.bench.prospects.delete(desk.admin, merged, with_originals=True)
    before = desk.bench.spaces.head(desk.space_id)
    refused = refusal(lambda: desk.bench.prospects.undo_compaction(desk.admin, merged))
    assert refused.code == "conflict"
    assert desk.bench.spaces.head(desk.space_id) == before


def test_a_replay_of_a_note_that_was_merged_since_is_no_near_duplicate(desk: Desk) -> None:
    first = saved_id(desk, "One.", idempotency_key="k")
    compact(desk, [first, saved_id(desk, "Two.")])
    again = desk.save("One.", idempotency_key="k")
    assert (again["repeated"], again["note"]["note_id"]) == (True, first)
    assert again["overlap"]["near_duplicates"] == []


def test_a_compaction_without_a_model_says_so(desk: Desk) -> None:
    notes = [saved_id(desk, "One."), saved_id(desk, "Two.")]
    silent = replace(desk.bench.prospects, embedder=Silent())
    fields = {
        "domain": "kelva.example",
        "note_ids": notes,
        "body": "Both.",
        "expected_note_count": 2,
    }
    assert compacted_json(silent.compact(desk.key, fields))["embedder"] == "unavailable"
    assert receipts(desk)[-1]["facts"] == {"embedder": "unavailable"}


class Silent(WordHashEmbedder):
    """A model that is there and fails in a way of its own."""

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        raise unavailable("the embedding model failed")
