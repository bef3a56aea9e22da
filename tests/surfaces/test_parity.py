"""One loop of an agent's work through the core, MCP over stdio and over HTTP: the same answers, ids and times apart."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_core.admission import KeyText
from memory_core.compose import open_workbench
from memory_core.errors import MemoryCoreError
from memory_core.formats import answers
from memory_core.surfaces.faults import fault_json

RECALL = "outreach_recall_prospect_context"
SAVE = "outreach_save_prospect_research"
COMPACT = "outreach_compact_prospect_context"
GUIDE = "outreach_get_writing_guide"
SURFACES = ("core", "stdio", "http")

Call = Callable[[str, dict[str, Any]], tuple[bool, dict[str, Any]]]


def core(bench: Any, key: str) -> Call:
    """Call the use cases as a surface does, and show what they give or refuse."""
    prospects, caller = bench.prospects, KeyText(key)

    def guide(arguments: dict[str, Any]) -> dict[str, Any]:
        language, text = prospects.writing_guide(caller, arguments)
        return {"language": language, "guide": text}

    verbs: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        RECALL: lambda arguments: answers.recall_json(prospects.recall(caller, arguments)),
        SAVE: lambda arguments: answers.saved_json(*prospects.save(caller, arguments)),
        COMPACT: lambda arguments: answers.compacted_json(prospects.compact(caller, arguments)),
        GUIDE: guide,
    }

    def call(tool: str, arguments: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
        try:
            return False, json.loads(json.dumps(verbs[tool](arguments)))
        except MemoryCoreError as error:
            return True, json.loads(json.dumps(fault_json(error)))

    return call


@dataclass(frozen=True)
class Street:
    """One workbench with a space for each surface, and the way into each."""

    home: Path
    bench: Any
    offices: dict[str, Any]
    calls: dict[str, Call]


@pytest.fixture(scope="module")
def street(
    tmp_path_factory: pytest.TempPathFactory,
    make_office: Callable[..., Any],
    http_server: Callable[..., Any],
    over_http: Callable[..., Any],
    over_stdio: Callable[..., Any],
) -> Iterator[Street]:
    folder = tmp_path_factory.mktemp("parity")
    home = folder / "home"
    offices = {name: make_office(home, name) for name in SURFACES}
    bench = open_workbench(home, {})
    with ExitStack() as stack:
        stack.callback(bench.close)
        url = stack.enter_context(http_server(home, folder / "errors.txt"))
        calls = {
            "core": core(bench, offices["core"].key),
            "stdio": stack.enter_context(over_stdio(home, offices["stdio"].key)).call,
            "http": stack.enter_context(over_http(url, offices["http"].key)).call,
        }
        yield Street(home=home, bench=bench, offices=offices, calls=calls)


_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r'"created_at": "[^"]*"')
_VERSION = re.compile(r'"dossier_version": "[0-9a-f]{16}"')


def plain(transcript: list[Any]) -> list[Any]:
    """Put ids in their order of appearance, and take out the times and digests that follow from ids."""
    seen: dict[str, str] = {}
    text = json.dumps(transcript, ensure_ascii=False)
    text = _ID.sub(lambda found: seen.setdefault(found[0], f"id-{len(seen) + 1}"), text)
    text = _VERSION.sub('"dossier_version": "version"', _TIME.sub('"created_at": "time"', text))
    plain_transcript: list[Any] = json.loads(text)
    return plain_transcript


def days_ago(days: int) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).date().isoformat()


FUNDING = (
    "Kelva raised a series B of 12 million euros, led by Brava Capital, to build a second plant in Porto."
)
FINDINGS = [
    {"body": FUNDING, "source_urls": ["https://news.example/kelva-series-b"], "title": "Series B"},
    {
        "body": "The new head of maintenance is Ulrike Senst; she reports to the plant manager.",
        "source_urls": ["https://www.kelva.dev/team/"],
    },
    {
        "body": "Maintenance is planned in a spreadsheet of 1,900 lines that two people keep.",
        "source_urls": ["https://podcast.example/58", "https://www.kelva.dev/blog?p=2&page=1"],
    },
    {
        "body": "An opening for a controller in Lisbon asks for SAP and ten years of practice.",
        "source_urls": ["https://jobs.example/kelva/controller"],
    },
    {
        "body": "Customers complain about late deliveries in the south since the depot moved.",
        "source_urls": ["https://reviews.example/kelva"],
    },
]


def the_loop(call: Call, days: tuple[str, str]) -> list[Any]:
    """Recall, save five findings and four that are like them, recall, compact, recall: SPEC.md 4.9 from end to end."""
    recent, old = days
    transcript: list[Any] = []

    def act(tool: str, **arguments: Any) -> dict[str, Any]:
        refused, content = call(tool, arguments)
        transcript.append([tool, refused, content])
        return content

    def save(body: str, urls: list[str], observed_at: str = recent, **more: Any) -> dict[str, Any]:
        return act(SAVE, domain="kelva.dev", body=body, source_urls=urls, observed_at=observed_at, **more)

    act(RECALL, domain="https://www.kelva.dev/careers")
    saved = [
        act(SAVE, domain="Jo@KELVA.dev", observed_at=old if number == 4 else recent, **finding)
        for number, finding in enumerate(FINDINGS)
    ]
    near = save(FUNDING.replace("12", "21"), ["https://other.example/kelva"])
    save(
        "Kelva will build a second plant in Porto with money from Brava Capital.",
        ["https://paper.example/porto-plant"],
    )
    save(
        "The blog also says that a third shift starts in spring.",
        ["http://kelva.dev/blog/?utm_source=mail&page=1&p=2#top"],
    )
    act(SAVE, domain="kelva.dev", observed_at=recent, **FINDINGS[0])
    save("A fourth", ["https://a.dev"], idempotency_key="run-7")
    save("A fourth", ["https://a.dev"], idempotency_key="run-7")
    save("A fifth", ["https://a.dev"], idempotency_key="run-7")
    known = act(RECALL, domain="kelva.dev")
    merged = {
        "domain": "kelva.dev",
        "note_ids": [saved[0]["note"]["note_id"], near["note"]["note_id"]],
        "body": "Kelva raised 12 million euros first; the round was then enlarged to 21 million.",
        "title": "Series B, enlarged",
        "dossier_version": known["dossier_version"],
    }
    act(COMPACT, **merged, expected_note_count=known["note_count"] - 1)
    act(COMPACT, **merged, expected_note_count=known["note_count"])
    act(COMPACT, **merged, expected_note_count=known["note_count"] - 1)
    act(RECALL, domain="kelva.dev", focus="plants")
    act(GUIDE, language="pt-BR")
    act(GUIDE, language="tlh")
    return transcript


def test_the_whole_loop_gives_the_same_answers_on_every_surface(street: Street) -> None:
    days = (days_ago(10), days_ago(400))
    told = {name: plain(the_loop(street.calls[name], days)) for name in SURFACES}
    assert told["stdio"] == told["core"]
    assert told["http"] == told["core"]
    # And they are the answers that the loop is for.
    steps = told["core"]
    assert [step[1] for step in steps].count(True) == 4
    assert (steps[0][2]["known"], steps[0][2]["stale"]) == (False, True)
    near, overlap, shared, repeat = (steps[at][2] for at in (6, 7, 8, 9))
    [twin] = near["overlap"]["near_duplicates"]
    assert (twin["note_id"], twin["body"]) == (steps[1][2]["note"]["note_id"], FUNDING)
    assert any("12" in change["before"] and "21" in change["after"] for change in twin["changes"])
    assert steps[1][2]["note"]["note_id"] in {each["note_id"] for each in overlap["overlap"]["overlaps"]}
    assert [each["note_id"] for each in shared["overlap"]["shared_sources"]] == [
        steps[3][2]["note"]["note_id"]
    ]
    assert (repeat["repeated"], repeat["overlap"]["near_duplicates"][0]["distance"]) == (True, 0)
    assert (steps[11][2]["repeated"], steps[12][2]["code"]) == (True, "conflict")
    known, wrong, done, after = (steps[at][2] for at in (13, 14, 15, 17))
    assert (known["known"], known["stale"], known["note_count"]) == (True, False, 9)
    assert known["compaction_suggested"] is True
    assert [note["stale"] for note in known["notes"]].count(True) == 1
    assert (wrong["code"], wrong["note_count"]) == ("note_count_changed", 9)
    assert set(done["archived"]) == {steps[1][2]["note"]["note_id"], near["note"]["note_id"]}
    assert (done["note_count"], after["note_count"]) == (8, 8)
    assert steps[16][2]["code"] == "note_count_changed"
    assert done["note"] in after["notes"]


# Each breaks one rule of a note; the refusal must not depend on the way in.
OFFENCES: dict[str, dict[str, Any]] = {
    "public suffix": {"domain": "co.uk"},
    "address of a freemail provider": {"domain": "jo@gmail.com"},
    "IP address": {"domain": "10.0.0.1"},
    "no domain": {"domain": None},
    "domain of another type": {"domain": 7},
    "empty body": {"body": " \n"},
    "body over the limit": {"body": "é" * 5_121},
    "control character in the body": {"body": "a\x07b"},
    "body of another type": {"body": ["x"]},
    "control character in the title": {"title": "a\x00b"},
    "title of another type": {"title": 5},
    "no source": {"source_urls": []},
    "21 sources": {"source_urls": [f"https://a.dev/{number}" for number in range(21)]},
    "source by another scheme": {"source_urls": ["ftp://a.dev/x"]},
    "source with credentials": {"source_urls": ["https://jo:pw@a.dev/"]},
    "source of 2,048 bytes": {"source_urls": ["https://a.dev/" + "x" * 2_034]},
    "one text for the sources": {"source_urls": "https://a.dev"},
    "no date": {"observed_at": None},
    "no such date": {"observed_at": "2026-02-30"},
    "date-time without an offset": {"observed_at": "2024-03-10T23:30"},
    "two days in the future": {"observed_at": days_ago(-3)},
    "unknown field": {"surprise": 1},
}


def exported(street: Street, note: dict[str, Any]) -> dict[str, Any]:
    """Dress a save's arguments as a row of an export."""
    bench, office = street.bench, street.offices["core"]
    return {
        **note,
        "note_id": bench.spaces.new_id(),
        "created_at": "2026-01-05T10:00:00.000000Z",
        "author": {"kind": "source", "source_id": office.source_id},
        "status": "active",
    }


@pytest.mark.parametrize("offence", OFFENCES)
def test_case_005_every_way_in_runs_the_same_check(street: Street, offence: str) -> None:
    """Core, stdio, HTTP and import refuse the same note by the same code, field and rule; nothing is stored."""
    note = {
        "domain": "offence.dev",
        "body": "Kelva opens a plant.",
        "source_urls": ["https://a.dev/1"],
        "observed_at": "2024-05-01",
        **OFFENCES[offence],
    }
    verdicts = {}
    for name, call in street.calls.items():
        refused, fault = call(SAVE, note)
        assert refused, fault
        verdicts[name] = tuple(fault.get(part) for part in ("code", "field", "rule"))
    done = street.bench.transfers.import_notes(
        street.offices["core"].space_id, iter([(1, exported(street, note))])
    )
    [row] = done.refused
    verdicts["import"] = tuple(row.get(part) for part in ("code", "field", "rule"))
    assert len(set(verdicts.values())) == 1, verdicts
    assert done.written == 0
    assert not street.calls["core"](RECALL, {"domain": "offence.dev"})[1]["known"]


def test_case_005_an_imported_note_is_compared_like_a_saved_one(street: Street) -> None:
    """The same note through stdio, HTTP and import is found at the same distance, with the same changes."""
    first = {
        "domain": "compared.dev",
        "body": FUNDING,
        "source_urls": ["https://a.dev/1"],
        "observed_at": "2024-05-01",
    }
    second = {
        **first,
        "body": FUNDING.replace("12", "21"),
        "source_urls": ["https://www.a.dev/1/?utm_campaign=x"],
    }
    told = {}
    for name in ("stdio", "http"):
        street.calls[name](SAVE, first)
        told[name] = plain([street.calls[name](SAVE, second)[1]["overlap"]])
    space_id = street.offices["core"].space_id
    imported = street.bench.transfers.import_notes(space_id, iter([(1, exported(street, first))]))
    assert imported.written == 1
    told["import"] = plain([street.calls["core"](SAVE, second)[1]["overlap"]])
    assert told["import"] == told["stdio"] == told["http"]
    [report] = told["import"]
    assert len(report["near_duplicates"]) == len(report["shared_sources"]) == 1
