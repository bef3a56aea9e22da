"""Group A of the cases from other people's bug reports: duplicates missed, over-merged or silently dropped.

Where the model matters it is the one that ships. What the word-hash embedder can show stands in `tests/unit`.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from memory_core.errors import MemoryCoreError
from memory_core.surfaces.faults import HTTP_STATUS
from memory_core.surfaces.wire import TOOLS
from tests.conftest import Desk


def near(saved: dict[str, Any]) -> dict[str, Any]:
    """Give the only near duplicate of a save."""
    [entry] = saved["overlap"]["near_duplicates"]
    return dict(entry)


def listed(saved: dict[str, Any]) -> set[str]:
    """Give the ids in either list of the report that goes by distance."""
    report = saved["overlap"]
    return {entry["note_id"] for entry in report["near_duplicates"] + report["overlaps"]}


def bodies(desk: Desk) -> list[str]:
    return [note["body"] for note in desk.recall()["notes"]]


def changes(entry: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(change["kind"], change["before"], change["after"]) for change in entry["changes"]}


SERIES_B = (
    "Halden Bank closed a series B of {} million euros in October. Nordlicht Capital led the round, and the bank will "
    "spend the money on a branch in Porto and on forty engineers."
)


def test_case_001_a_changed_amount_is_stored_beside_the_old_one_and_named(real_desk: Desk) -> None:
    old, new = SERIES_B.format(12), SERIES_B.format(21)
    first, second = real_desk.save(old), real_desk.save(new)
    assert second["repeated"] is False
    assert second["note"]["note_id"] != first["note"]["note_id"]
    assert near(second)["note_id"] == first["note"]["note_id"]
    assert 0 < near(second)["distance"] <= 0.10
    [(kind, before, after)] = changes(near(second))
    assert kind == "amount"
    assert ("12" in before, "21" in after) == (True, True)
    assert sorted(bodies(real_desk)) == [old, new]


def test_case_001_in_a_note_of_six_words_the_old_amount_is_still_reported(real_desk: Desk) -> None:
    """Two of six words differ, so the model sets them farther apart: the note is found, and nothing is dropped."""
    first = real_desk.save("Halden Bank series B: 12 million")
    second = real_desk.save("Halden Bank series B: 21 million")
    assert (second["repeated"], second["note_count"]) == (False, 2)
    assert listed(second) == {first["note"]["note_id"]}


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("The contract renews on 15 October.", "The contract renews on 16 October.", "date"),
        ("The renewal is worth 48,000 euros.", "The renewal is worth 49,000 euros.", "amount"),
        ("They run version 2.1.4 of the platform.", "They run version 2.1.5 of the platform.", "number"),
    ],
)
def test_case_002_notes_that_differ_in_a_digit_are_both_stored_and_the_digit_is_named(
    real_desk: Desk, before: str, after: str, kind: str
) -> None:
    rest = (
        " The buyer told the account team so in a call, and procurement at the plant confirmed it in writing."
    )
    first, second = real_desk.save(before + rest), real_desk.save(after + rest)
    assert (second["repeated"], second["note_count"]) == (False, 2)
    assert near(second)["note_id"] == first["note"]["note_id"]
    assert {change[0] for change in changes(near(second))} == {kind}


def test_case_004_thresholds_approved_for_one_model_are_in_force_for_no_other(
    desk: Desk, real_desk: Desk
) -> None:
    figure = {"name": "auc", "slice": "all", "value": 0.97, "n": 200}
    report = {"kind": "overlap", "model": "word-hash", "figures": [figure]}
    for place in (desk, real_desk):
        change = place.bench.spaces.propose_settings(
            None,
            place.space_id,
            {"overlap.word-hash.near_duplicate_at": 0.0, "overlap.word-hash.overlap_at": 0.0},
            "Best on our pairs",
            json.dumps(report).encode(),
        )
        place.bench.spaces.decide_settings(place.admin, change.change_id, approve=True)
        place.save("Kelva opened a second plant in Bremen in May with 120 jobs.")
    tuned = desk.save("Kelva opened a second plant in Bremen in May with 130 jobs.")["overlap"]
    other = real_desk.save("Kelva opened a second plant in Bremen in May with 130 jobs.")["overlap"]
    assert (tuned["model"], tuned["near_duplicates"], tuned["overlaps"]) == ("word-hash", [], [])
    assert other["model"] == "use-multilingual-v3"
    assert len(other["near_duplicates"]) == 1
    assert ("defaults" in other["notice"], "defaults" in tuned["notice"]) == (True, False)


STYLE = """\
**Summary.** {}

> Source checked by the research desk. Confidence: high. Do not quote without asking.

- Relevance: to be judged by the account owner
- Next step: verify before use
- Prepared by: research desk, session of the morning
"""


def test_case_007_two_notes_in_one_house_style_about_two_things_are_no_duplicates(real_desk: Desk) -> None:
    billing = STYLE.format(
        "Kelva moved its invoices to a monthly cycle and takes payment by direct debit only."
    )
    hiring = STYLE.format("Kelva is looking for nine welders and a shift leader for the plant in Bremen.")
    real_desk.save(billing)
    second = real_desk.save(hiring)
    assert (second["repeated"], second["note_count"]) == (False, 2)
    assert second["overlap"]["near_duplicates"] == []
    assert sorted(bodies(real_desk)) == sorted([billing, hiring])


def test_case_008_every_save_is_either_stored_or_repeated_or_refused_for_a_reason(desk: Desk) -> None:
    """Over 400 random ones, right and wrong, on few dossiers: nothing ends in between, and nothing is counted twice."""
    chance = random.Random(8)
    kept: dict[str, str] = {}
    ends = {"stored": 0, "repeated": 0, "refused": 0}
    for number in range(400):
        fields = {
            "domain": chance.choice(
                ("kelva.example", "https://www.kelva.example/x", "halden.example", "10.0.0.1")
            ),
            "body": chance.choice(
                ("One fact.", "Another  fact.", "", f"Fact {number}.", "x" * 10_241, None, "\ud83d")
            ),
            "source_urls": chance.choice(
                (["https://a.example/1"], ["https://a.example/1?utm_source=x"], [], "no list")
            ),
            "observed_at": chance.choice(("2026-11-10", "2026-11-11", "tomorrow", "2027-01-01")),
        }
        before = sum(count for _, count, _ in desk.bench.prospects.dossiers(desk.space_id))
        chain = desk.bench.spaces.head(desk.space_id)[0]
        saved, refused = None, None
        try:
            saved = desk.save(**fields)
        except MemoryCoreError as error:
            refused = error
        receipts = desk.bench.spaces.head(desk.space_id)[0] - chain
        if saved is None:
            end, note_id = "refused", None
            assert refused is not None
            assert refused.code in HTTP_STATUS
            assert receipts == 0
        else:
            end, note_id = ("repeated" if saved["repeated"] else "stored"), saved["note"]["note_id"]
            assert (note_id in kept) == saved["repeated"]
            assert receipts == 1
        ends[end] += 1
        if note_id is not None and end == "stored":
            kept[note_id] = str(fields["body"])
        after = sum(count for _, count, _ in desk.bench.prospects.dossiers(desk.space_id))
        assert after - before == (1 if end == "stored" else 0)
    assert sum(ends.values()) == 400
    assert min(ends.values()) > 10
    there = {
        note["note_id"]: note["body"]
        for domain in ("kelva.example", "halden.example")
        for note in desk.recall(domain)["notes"]
    }
    assert there == kept


def test_case_010_white_space_and_tracking_make_no_new_note_but_title_source_and_date_do(
    real_desk: Desk,
) -> None:
    body = "Kelva opened a second plant in Bremen.\n\nIt employs 120 people."
    first = real_desk.save(body, title="Plant", source_urls=["https://news.example/kelva?id=7"])
    again = real_desk.save(
        "Kelva opened  a second plant in Bremen.\r\n It employs 120 people. ",
        title=" Plant\n",
        source_urls=["http://www.news.example/kelva/?utm_source=mail&id=7#top"],
    )
    assert (again["repeated"], again["note"]["note_id"]) == (True, first["note"]["note_id"])
    assert near(again)["distance"] == 0
    for count, other in enumerate(
        (
            {"title": "Works"},
            {"observed_at": "2026-11-12"},
            {"source_urls": ["https://other.example/kelva"]},
        ),
        start=2,
    ):
        stored = real_desk.save(
            body, **{"title": "Plant", "source_urls": ["https://news.example/kelva?id=7"], **other}
        )
        assert (stored["repeated"], stored["note_count"]) == (False, count)
        assert {entry["distance"] for entry in stored["overlap"]["near_duplicates"]} == {0}
        assert len(stored["overlap"]["near_duplicates"]) == count - 1


def test_case_011_an_update_is_kept_beside_the_old_fact_and_comes_first(real_desk: Desk) -> None:
    old = "Kelva has run its warehouse on the old platform for 5 years and the contract is up for renewal."
    new = old.replace("5 years", "6 years")
    real_desk.save(old, observed_at="2025-11-10")
    second = real_desk.save(new, observed_at="2026-11-10")
    assert second["repeated"] is False
    assert near(second)["observed_at"] == "2025-11-10"
    assert [("5" in before, "6" in after) for _, before, after in changes(near(second))] == [(True, True)]
    assert bodies(real_desk) == [new, old]


def test_case_013_importing_an_export_again_stores_nothing_and_says_how_many_are_there(
    real_desk: Desk,
) -> None:
    for number in (12, 21):
        real_desk.save(SERIES_B.format(number))
    rows = real_desk.bench.transfers.export_notes(real_desk.space_id, list)
    done = real_desk.bench.transfers.import_notes(real_desk.space_id, enumerate(rows, start=1))
    assert (done.rows, done.written, done.repeated, done.refused) == (2, 0, 2, ())
    assert real_desk.recall()["note_count"] == 2


def test_case_016_a_contradiction_leaves_both_statements(real_desk: Desk) -> None:
    likes = "The head of purchasing likes pilots and said so in the call of last week."
    dislikes = likes.replace("likes", "dislikes")
    first = real_desk.save(likes)
    second = real_desk.save(dislikes)
    assert (second["repeated"], second["note_count"]) == (False, 2)
    assert listed(second) == {first["note"]["note_id"]}
    assert sorted(bodies(real_desk)) == sorted([likes, dislikes])


def test_case_017_a_distance_is_lower_where_texts_are_closer_and_zero_for_the_same_text(
    real_desk: Desk,
) -> None:
    same = "Kelva opened a second plant in Bremen in May. It employs 120 people in two shifts."
    near_by = "Kelva opened a second plant in Bremen in May. It employs 130 people in two shifts."
    far = "The bank raised its rate for savings and closed three branches on the coast."
    ids = {
        body: real_desk.save(body, observed_at=f"2026-11-0{day}")["note"]["note_id"]
        for day, body in enumerate((far, near_by, same), start=1)
    }
    report = real_desk.save(same, observed_at="2026-11-09")["overlap"]
    distances = [(entry["note_id"], entry["distance"]) for entry in report["near_duplicates"]]
    assert [note_id for note_id, _ in distances] == [ids[same], ids[near_by]]
    assert distances[0][1] == pytest.approx(0, abs=1e-6)
    assert 0 < distances[1][1] <= 0.10
    assert ids[far] not in {entry["note_id"] for entry in report["overlaps"]}
    assert "lower is closer" in TOOLS["outreach_save_prospect_research"].description


def test_case_019_a_chinese_sentence_with_punctuation_of_another_width_is_stored_and_near(
    real_desk: Desk,
) -> None:
    first = real_desk.save("科尔瓦公司宣布，2026年第三季度收入增长了12%。")
    second = real_desk.save("科尔瓦公司宣布,2026年第三季度收入增长了12%.")
    assert (second["repeated"], second["note_count"]) == (False, 2)
    assert near(second)["note_id"] == first["note"]["note_id"]
    assert near(second)["distance"] == pytest.approx(0, abs=1e-6)
    assert near(second)["changes"] == []


def test_case_116_a_difference_behind_the_first_256_pieces_is_seen(real_desk: Desk) -> None:
    common = " ".join(
        f"In the {number}. quarter the plant in Bremen made {number * 7} tonnes of malt."
        for number in range(1, 31)
    )
    real_desk.save(f"{common} The owner wants to sell the plant next year.")
    second = real_desk.save(f"{common} The harbour was closed after the flood of the spring.")
    assert second["repeated"] is False
    assert near(second)["distance"] > 0


@pytest.mark.parametrize(
    "texts",
    [("🎉🎉🎉", "🚀🔥"), ("कंपनी ने नया कारखाना खोला।", "बैंक ने ब्याज दरें बढ़ाईं।")],
    ids=["emoji", "hindi"],
)
def test_case_116_what_the_model_cannot_read_is_not_compared_and_counted(
    real_desk: Desk, texts: tuple[str, str]
) -> None:
    real_desk.save(texts[0])
    report = real_desk.save(texts[1])["overlap"]
    assert (report["near_duplicates"], report["overlaps"], report["not_compared"]) == ([], [], 1)
    readable = real_desk.save("Kelva opened a second plant.")["overlap"]
    assert readable["not_compared"] == 2


def test_case_116_unrelated_chinese_notes_are_no_duplicates_and_a_translation_is_found(
    real_desk: Desk,
) -> None:
    real_desk.save("公司在不来梅开设了新工厂。")
    assert listed(real_desk.save("银行提高了贷款利率。")) == set()
    english = real_desk.save(
        "Kelva opened a second plant in Bremen in May with 120 jobs.", domain="halden.example"
    )
    german = real_desk.save(
        "Kelva hat im Mai in Bremen ein zweites Werk mit 120 Arbeitsplätzen eröffnet.",
        domain="halden.example",
    )
    assert [entry["note_id"] for entry in german["overlap"]["overlaps"]] == [english["note"]["note_id"]]


def test_case_014_thresholds_change_only_with_the_evaluation_report_behind_them(desk: Desk) -> None:
    with pytest.raises(MemoryCoreError) as refused:
        desk.bench.spaces.propose_settings(
            desk.admin, desk.space_id, {"overlap.word-hash.overlap_at": 0.4}, "No report behind it"
        )
    assert (refused.value.code, refused.value.details["field"]) == ("invalid_input", "evidence")
