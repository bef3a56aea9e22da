"""Group D of the cases: tenancy, identity of a company, text. Cases with a test in `tests/unit` stand there."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import pytest

from memory_core.surfaces.mcp_server import _call
from memory_core.surfaces.wire import TOOLS
from tests.conftest import Clock, Desk, make_desk

RECALL = "outreach_recall_prospect_context"


def test_case_055_a_hundred_saves_of_two_spaces_at_once_stay_in_their_own(desk: Desk, clock: Clock) -> None:
    other = make_desk(desk.bench, clock, "Other")
    desks = {"one": desk, "two": other}
    with ThreadPoolExecutor(8) as pool:
        jobs = [
            pool.submit(place.save, f"Fact {number} of space {name}.", domain=f"shared{number % 2}.example")
            for number in range(50)
            for name, place in desks.items()
        ]
        for job in jobs:
            assert job.result()["overlap"]["not_compared"] == 0
    for name, place in desks.items():
        notes = [note for number in range(2) for note in place.recall(f"shared{number}.example")["notes"]]
        assert len(notes) == 50
        assert all(note["body"].endswith(f"of space {name}.") for note in notes)
        assert all(note["source"]["source_id"] == place.source_id for note in notes)
        assert place.bench.spaces.verify_receipts(place.space_id).ok


@pytest.mark.parametrize("order", list(permutations(("none", "right", "wrong"))))
def test_case_056_a_call_without_a_right_key_is_refused_whatever_came_before(
    desk: Desk, order: tuple[str, ...]
) -> None:
    """Nothing of an earlier call is left over: neither its key, nor its arguments, nor its space."""
    desk.save()
    keys = {"none": "", "right": desk.key.text, "wrong": desk.key.text[:-3] + "AAA"}
    arguments = {"domain": "kelva.example"}
    answers = {}
    for name in order:
        result = _call(lambda: desk.bench, keys[name], RECALL, arguments)
        [content] = result.content
        assert content.type == "text"
        answers[name] = json.loads(content.text)
        assert arguments == {"domain": "kelva.example"}
    assert answers["right"]["data"]["note_count"] == 1
    assert answers["none"]["code"] == answers["wrong"]["code"] == "unauthenticated"


def test_case_061_a_domain_is_said_to_be_no_proof_of_identity_and_titles_tell_units_apart(desk: Desk) -> None:
    assert "not proof of identity" in TOOLS[RECALL].description
    units = ("Kelva Foods", "Kelva Logistics")
    for unit in units:
        saved = desk.save("The unit has a new managing director.", title=unit)
        assert saved["repeated"] is False
    assert {note["title"] for note in desk.recall()["notes"]} == set(units)


@pytest.mark.parametrize(
    ("focus", "wanted"),
    [
        ("공장 생산 능력 확대", "회사는 브레멘에 두 번째 공장을 열어 생산 능력을 두 배로 늘렸다."),
        (
            "расширение завода и новые станки",
            "Компания открыла второй завод в Бремене и купила новые станки.",
        ),
        (
            "nouveau café pour les employés",
            "L'entreprise a ouvert un café pour ses employés au rez-de-chaussée.",
        ),
        ("工場の生産能力", "同社はブレーメンに第二工場を開設し、工場の生産能力を倍増させた。"),
    ],
    ids=["korean", "russian", "french", "japanese"],
)
def test_case_065_a_focus_in_any_script_keeps_the_note_it_asks_for(
    real_desk: Desk, focus: str, wanted: str
) -> None:
    """The dossier is over the payload limit; the wanted note is the oldest, and large enough to be left out."""
    filler = " ".join(f"Section {number} of the annual report says nothing new." for number in range(180))
    real_desk.save(f"{wanted} " * (9_000 // len(f"{wanted} ".encode())), observed_at="2026-01-01")
    for number in range(12):
        real_desk.save(f"Report {number}. {filler}", observed_at="2026-11-10")
    asked = real_desk.recall(focus=focus)
    assert (asked["truncated"], asked["note_count"]) == (True, 13)
    assert any(wanted in note["body"] for note in asked["notes"])
    aside = real_desk.recall(focus="annual report, section 7")
    assert not any(wanted in note["body"] for note in aside["notes"])
