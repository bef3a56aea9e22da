"""Every field is judged by type, then size, then characters, and what passes comes back as the note will hold it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NoReturn

import pytest

from memory_core.errors import MemoryCoreError
from memory_core.policy import Policy
from memory_core.rules import limits

POLICY = Policy()
NOW = datetime(2026, 10, 16, 12, 0, tzinfo=UTC)
WRONG_TYPES = [5, 1.5, True, ["x"], {"x": 1}, b"x"]
ONE = "0190b0c0-0000-7000-8000-000000000001"
TWO = "0190b0c0-0000-7000-8000-000000000002"


def _refusal(call: object, *arguments: object) -> MemoryCoreError:
    with pytest.raises(MemoryCoreError) as refusal:
        call(*arguments)  # type: ignore[operator]
    return refusal.value


def _rule(call: object, *arguments: object) -> str:
    return str(_refusal(call, *arguments).details["rule"])


# -- body


def test_a_body_comes_back_exactly_as_it_came() -> None:
    body = "  # Title\r\n\tindented\u00a0text \n\n"
    assert limits.check_body(body, POLICY) == body


def test_a_body_of_the_limit_is_taken_and_a_byte_more_is_refused() -> None:
    assert limits.check_body("x" * 10_240, POLICY)
    assert limits.check_body("ä" * 5_120, POLICY)
    for body in ("x" * 10_241, "ä" * 5_121, "\ud83d" * 10_241):
        refusal = _refusal(limits.check_body, body, POLICY)
        assert (refusal.code, refusal.details["limit"]) == ("payload_too_large", 10_240)


class Unread(str):
    """A text whose length may be asked, and that fails when it is read."""

    __slots__ = ()

    def _read(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError

    encode = strip = split = lower = partition = __iter__ = _read


def test_twenty_megabytes_are_refused_without_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_REFUSED", None)
    body = Unread("x" * 20_000_000)
    assert _refusal(limits.check_body, body, POLICY).code == "payload_too_large"
    assert _rule(limits.fold_title, body, POLICY) == "max_chars"
    assert _rule(limits.check_focus, body, POLICY) == "max_chars"
    assert _rule(limits.check_observed_at, body, POLICY, NOW) == "not_a_date"
    assert _rule(limits.check_id, "note_id", body) == "not_an_id"


@pytest.mark.parametrize("body", ["", " ", "\n\t ", "\u00a0\u2003"])
def test_a_body_of_white_space_is_empty(body: str) -> None:
    assert _rule(limits.check_body, body, POLICY) == "empty"


@pytest.mark.parametrize("character", ["\x00", "\x0b", "\x0c", "\x1b", "\x7f", "\x85", "\x9f", "\ud83d"])
def test_case_068_lone_surrogates_and_control_characters_are_refused(character: str) -> None:
    text = f"deal closed {character}"
    assert _rule(limits.check_body, text, POLICY) == "characters"
    assert _rule(limits.fold_title, text, POLICY) == "characters"
    assert _rule(limits.check_focus, text, POLICY) == "characters"
    assert _rule(limits.check_text, "name", text, 100) == "characters"


@pytest.mark.parametrize("value", WRONG_TYPES)
def test_wrong_types_are_refused_as_such(value: object) -> None:
    assert _rule(limits.check_body, value, POLICY) == "type"
    assert _rule(limits.fold_title, value, POLICY) == "type"
    assert _rule(limits.check_focus, value, POLICY) == "type"
    assert _rule(limits.check_text, "name", value, 100) == "type"
    assert _rule(limits.check_observed_at, value, POLICY, NOW) == "type"
    assert _rule(limits.check_id, "note_id", value) == "type"


def test_null_is_no_body_no_date_and_no_name() -> None:
    assert _rule(limits.check_body, None, POLICY) == "type"
    assert _rule(limits.check_observed_at, None, POLICY, NOW) == "type"
    assert _rule(limits.check_text, "name", None, 100) == "type"
    assert _rule(limits.check_source_urls, None, POLICY) == "type"


# -- title, names, focus


def test_a_title_is_folded_to_one_line() -> None:
    assert limits.fold_title("  Series\r\n B\t\u00a0round ", POLICY) == "Series B round"
    assert limits.fold_title(None, POLICY) is None
    assert limits.fold_title(" \n ", POLICY) is None


def test_a_title_is_cut_at_120_characters() -> None:
    assert limits.fold_title("x" * 120, POLICY) == "x" * 120
    assert limits.fold_title("x" * 121, POLICY) == "x" * 120
    assert limits.fold_title("x" * 119 + " " + "y" * 20, POLICY) == "x" * 119


def test_a_cut_never_parts_a_character_from_its_marks() -> None:
    assert limits.fold_title("x" * 119 + "e\u0301\u0302" + "y", POLICY) == "x" * 119
    assert limits.fold_title("x" * 118 + "👩\u200d🔬y", POLICY) == "x" * 118
    assert limits.fold_title("x" * 119 + "👩\u200d🔬y", POLICY) == "x" * 119
    assert len(limits.fold_title("a" + "\u0301" * 200, POLICY) or "") == 120


def test_a_name_loses_only_the_white_space_around_it() -> None:
    assert limits.check_text("name", " Ada  L. ", 20) == "Ada  L."
    assert _rule(limits.check_text, "name", " ", 20) == "empty"
    refusal = _refusal(limits.check_text, "reason", "x" * 21, 20)
    assert refusal.details == {"field": "reason", "rule": "max_chars", "limit": 20}


def test_no_focus_is_none() -> None:
    assert limits.check_focus(None, POLICY) is None
    assert limits.check_focus("  ", POLICY) is None
    assert limits.check_focus(" hiring ", POLICY) == "hiring"
    assert _rule(limits.check_focus, "x" * 1_001, POLICY) == "max_chars"


# -- sources


def test_case_029_sources_keep_their_order_and_one_entry_a_page() -> None:
    urls = [
        "https://b.example/",
        "https://www.a.example/?utm_source=x",
        "http://a.example",
        "https://c.example",
    ]
    sources = limits.check_source_urls(urls, POLICY)
    assert [source.canonical for source in sources] == ["b.example", "a.example", "c.example"]
    assert [source.url for source in sources] == [urls[0], urls[1], urls[3]]


def test_one_to_twenty_sources_are_taken() -> None:
    urls = [f"https://a.example/{number}" for number in range(21)]
    assert len(limits.check_source_urls(urls[:20], POLICY)) == 20
    assert _rule(limits.check_source_urls, urls, POLICY) == "max_items"
    assert _rule(limits.check_source_urls, [], POLICY) == "min_items"
    assert _rule(limits.check_source_urls, "https://a.example", POLICY) == "type"
    assert _rule(limits.check_source_urls, [None], POLICY) == "type"
    assert _rule(limits.check_source_urls, ["ftp://a.example"], POLICY) == "scheme"


# -- observed_at


def test_case_035_a_bare_date_is_midnight_in_the_zone_of_the_space() -> None:
    observed = limits.check_observed_at("2024-03-10", Policy(timezone="Europe/Berlin"), NOW)
    assert (observed.text, observed.instant) == ("2024-03-10", datetime(2024, 3, 9, 23, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2024-03-10T23:30:00-08:00", datetime(2024, 3, 11, 7, 30, tzinfo=UTC)),
        ("2024-03-10T23:30Z", datetime(2024, 3, 10, 23, 30, tzinfo=UTC)),
        ("2024-03-10t23:30:15.123456789z", datetime(2024, 3, 10, 23, 30, 15, 123456, tzinfo=UTC)),
        ("2024-03-10 23:30:00,5+0530", datetime(2024, 3, 10, 18, 0, 0, 500000, tzinfo=UTC)),
        ("2024-03-10T23:30:00+05", datetime(2024, 3, 10, 18, 30, tzinfo=UTC)),
        ("2016-12-31T23:59:60Z", datetime(2017, 1, 1, tzinfo=UTC)),
        ("2017-01-01T00:59:60+01:00", datetime(2017, 1, 1, tzinfo=UTC)),
        (" 2024-03-10T23:30Z\n", datetime(2024, 3, 10, 23, 30, tzinfo=UTC)),
    ],
)
def test_case_035_a_date_time_is_read_by_its_offset_and_its_text_stays(text: str, instant: datetime) -> None:
    observed = limits.check_observed_at(text, Policy(timezone="Asia/Tokyo"), NOW)
    assert (observed.text, observed.instant) == (text, instant)
    assert observed.instant.tzinfo is UTC


def test_case_035_a_date_time_without_an_offset_is_refused() -> None:
    assert _rule(limits.check_observed_at, "2024-03-10T23:30", POLICY, NOW) == "offset_missing"
    assert _rule(limits.check_observed_at, "2024-03-10 23:30:00", POLICY, NOW) == "offset_missing"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2024-13-01",
        "2023-02-29",
        "2024-3-10",
        "20240310",
        "10.03.2024",
        "2024-W10",
        "2024-070",
        "2024-03",
        "２０２４-03-10",
        "2024-03-10T24:00Z",
        "2024-03-10T23:60Z",
        "2024-03-10T12:00:60Z",
        "2024-03-10T12:00:61Z",
        "2024-03-10T23:30+25:00",
        "2024-03-10T23:30+01:99",
        "2024-03-10T23Z",
        "0000-01-01",
        "0001-01-01T00:00+14:00",
        "1710113400",
        "2024-03-10T23:30Z[Europe/Berlin]",
    ],
)
def test_what_is_no_date_is_refused(text: str) -> None:
    assert _rule(limits.check_observed_at, text, POLICY, NOW) == "not_a_date"


def test_a_fact_of_more_than_a_day_ahead_is_refused() -> None:
    limit = NOW + timedelta(hours=24)
    assert limits.check_observed_at(limit.isoformat(), POLICY, NOW).instant == limit
    assert (
        _rule(limits.check_observed_at, (limit + timedelta(seconds=1)).isoformat(), POLICY, NOW) == "future"
    )
    assert limits.check_observed_at("2026-10-17", POLICY, NOW)
    assert _rule(limits.check_observed_at, "2026-10-18", POLICY, NOW) == "future"
    assert _rule(limits.check_observed_at, "9999-12-31", POLICY, NOW) == "future"
    assert limits.check_observed_at("1066-10-14", POLICY, NOW).text == "1066-10-14"
    assert _rule(limits.check_observed_at, "0001-01-01T00:00+14:00", POLICY, NOW) == "not_a_date"


def test_a_midnight_that_the_clock_skips_is_the_first_instant_of_the_day() -> None:
    """In São Paulo 4 November 2018 began at 01:00, which is 03:00 in UTC."""
    observed = limits.check_observed_at("2018-11-04", Policy(timezone="America/Sao_Paulo"), NOW)
    assert observed.instant == datetime(2018, 11, 4, 3, tzinfo=UTC)


def test_a_refused_date_is_named_by_the_field_of_the_caller() -> None:
    refusal = _refusal(limits.check_observed_at, "soon, I hope", POLICY, NOW, "created_at")
    assert refusal.details["field"] == "created_at"
    assert "soon" not in str(refusal)


# -- ids and counts


def test_ids_are_two_or_more_and_none_twice() -> None:
    assert limits.check_note_ids([ONE, TWO.upper()]) == (ONE, TWO)
    assert _rule(limits.check_note_ids, [ONE]) == "min_items"
    assert _rule(limits.check_note_ids, [ONE, ONE.upper()]) == "repeated"
    assert _rule(limits.check_note_ids, [ONE, "note 2"]) == "not_an_id"
    assert _rule(limits.check_note_ids, [ONE, 2]) == "type"
    assert _rule(limits.check_note_ids, f"{ONE},{TWO}") == "type"
    assert _refusal(limits.check_note_ids, [], "merged_from").details["field"] == "merged_from"


def test_a_count_is_a_whole_number_from_zero() -> None:
    assert limits.check_count("expected_note_count", 0) == 0
    for value in (True, 1.0, "1", None):
        assert _rule(limits.check_count, "expected_note_count", value) == "type"
    assert _rule(limits.check_count, "expected_note_count", -1) == "minimum"
