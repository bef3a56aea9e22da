"""Rows of the relationship history: what an event is, and which rows are refused for which field."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory_core.errors import MemoryCoreError
from memory_core.model import SENTIMENTS
from memory_core.policy import Policy, in_force
from memory_core.rules.relationship import Event, Notice, check_event

NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)
AT = "2024-03-10T08:30:00Z"


def event(policy: Any = None, **row: Any) -> Event:
    return check_event({"at": AT, **row}, policy or Policy(), NOW)[0]


def refusal(**row: Any) -> tuple[str, str]:
    """Give field and rule of the refusal."""
    with pytest.raises(MemoryCoreError) as caught:
        event(**row)
    assert caught.value.code == "invalid_input"
    assert caught.value.message.startswith(f"{caught.value.details['field']}: ")
    return caught.value.details["field"], caught.value.details["rule"]


class TestWhose:
    def test_an_address_gives_the_company_and_is_normalised(self) -> None:
        found = event(kind="message", address="Jo@Mail.ACME.dev", campaign="Spring")
        assert (found.domain, found.address) == ("acme.dev", "jo@mail.acme.dev")

    def test_a_domain_stands_without_an_address(self) -> None:
        found = event(kind="message", domain="https://www.acme.co.uk/jobs", campaign="Spring")
        assert (found.domain, found.address) == ("acme.co.uk", None)

    def test_both_must_be_of_one_company(self) -> None:
        row = {"kind": "message", "campaign": "Spring", "address": "jo@shop.acme.dev"}
        assert event(**row, domain="ACME.dev.") == event(**row)
        assert refusal(**row, domain="other.dev") == ("address", "same_domain")

    def test_neither_is_refused(self) -> None:
        assert refusal(kind="message", campaign="Spring", domain="", address=None) == ("domain", "required")

    def test_a_host_name_is_no_address(self) -> None:
        assert refusal(kind="message", campaign="Spring", address="acme.dev") == ("address", "address")

    def test_an_address_that_belongs_to_no_company_is_refused_as_the_address(self) -> None:
        assert refusal(kind="message", campaign="Spring", address="jo@gmail.com")[0] == "address"
        assert refusal(kind="message", campaign="Spring", domain="localhost")[0] == "domain"


class TestWhen:
    def test_equal_instants_of_two_offsets_are_one_event(self) -> None:
        row = {"kind": "message", "campaign": "Spring", "domain": "acme.dev"}
        found = event(**row, at="2024-03-10T23:30:00-08:00")
        assert found.at == datetime(2024, 3, 11, 7, 30, tzinfo=UTC)
        assert found.at.utcoffset() == timedelta(0)
        assert found == event(**row, at="2024-03-11T07:30:00Z")

    def test_a_bare_date_is_midnight_in_the_zone_of_the_space(self) -> None:
        row = {"kind": "message", "campaign": "Spring", "domain": "acme.dev", "at": "2024-03-10"}
        found = event(in_force({"timezone": "America/Sao_Paulo"}), **row)
        assert (found.at, found.date) == (datetime(2024, 3, 10, 3, tzinfo=UTC), "2024-03-10")
        assert event(**row).at == datetime(2024, 3, 10, tzinfo=UTC)

    @pytest.mark.parametrize("at", ["2024-03-10T23:30", "yesterday", "2024-02-30", "2024-06-03T00:00:00Z"])
    def test_a_time_without_offset_no_time_and_the_future_are_refused(self, at: str) -> None:
        assert refusal(kind="message", campaign="Spring", domain="acme.dev", at=at)[0] == "at"

    def test_a_time_is_required(self) -> None:
        assert refusal(kind="message", campaign="Spring", domain="acme.dev", at=" ") == ("at", "required")

    def test_any_past_is_taken(self) -> None:
        found = event(kind="message", campaign="Spring", domain="acme.dev", at="1999-01-01")
        assert found.at == datetime(1999, 1, 1, tzinfo=UTC)


class TestKind:
    @pytest.mark.parametrize("kind", ["", None, "click"])
    def test_an_unknown_kind_is_refused(self, kind: str | None) -> None:
        assert refusal(kind=kind, domain="acme.dev")[0] == "kind"

    def test_capitals_and_hyphens_lose_no_stop_order(self) -> None:
        assert event(kind="Suppression", domain="acme.dev").kind == "suppression"
        assert event(kind="suppression-lifted", domain="acme.dev").kind == "suppression_lifted"

    @pytest.mark.parametrize(
        ("kind", "field"),
        [
            ("campaign", "sentiment"),
            ("campaign", "scope"),
            ("message", "cause"),
            ("message", "language"),
            ("reply", "language"),
            ("reply", "scope"),
            ("suppression", "campaign"),
            ("suppression_lifted", "sentiment"),
        ],
    )
    def test_a_field_of_another_kind_is_left_out_and_noticed_unless_it_is_blank(
        self, kind: str, field: str
    ) -> None:
        row = {"kind": kind, "domain": "acme.dev"}
        if kind in ("campaign", "message"):
            row["campaign"] = "Spring"
        plain = check_event({"at": AT, **row}, Policy(), NOW)
        found, notices = check_event({"at": AT, **row, field: "en"}, Policy(), NOW)
        assert found == plain[0]
        assert notices == (Notice(field=field, rule="not_for_kind"), *plain[1])
        assert check_event({"at": AT, **row, field: " "}, Policy(), NOW) == plain

    def test_a_field_of_no_kind_is_refused_without_being_repeated(self) -> None:
        assert refusal(kind="message", domain="acme.dev", campaign="Spring", mood="x") == (
            "row",
            "unknown_field",
        )

    @pytest.mark.parametrize("value", [1, True, ["Spring"], {"name": "Spring"}])
    def test_what_is_no_text_is_refused(self, value: Any) -> None:
        assert refusal(kind="message", domain="acme.dev", campaign=value) == ("campaign", "type")


class TestCampaign:
    @pytest.mark.parametrize("kind", ["campaign", "message"])
    def test_its_name_is_required(self, kind: str) -> None:
        assert refusal(kind=kind, domain="acme.dev") == ("campaign", "required")

    def test_white_space_and_unicode_form_make_no_second_campaign_but_case_does(self) -> None:
        row = {"kind": "message", "domain": "acme.dev"}
        assert event(**row, campaign=" Caf\u00e9  tour\t").campaign == "Caf\u00e9 tour"
        assert event(**row, campaign="Cafe\u0301 tour").campaign == "Caf\u00e9 tour"
        assert event(**row, campaign="caf\u00e9 tour") != event(**row, campaign="Caf\u00e9 tour")

    def test_its_name_has_a_limit(self) -> None:
        row = {"kind": "message", "domain": "acme.dev"}
        assert event(**row, campaign="x" * 200).campaign == "x" * 200
        assert refusal(**row, campaign="x" * 201)[0] == "campaign"

    @pytest.mark.parametrize("name", ["a\x00b", "a\x1cb", "a\ud800b"])
    def test_its_name_has_no_control_characters(self, name: str) -> None:
        assert refusal(kind="message", domain="acme.dev", campaign=name) == ("campaign", "characters")

    @pytest.mark.parametrize("tag", ["en", "pt-BR", "zh-Hans-CN", "gsw"])
    def test_a_language_tag_is_kept(self, tag: str) -> None:
        assert event(kind="campaign", domain="acme.dev", campaign="Spring", language=tag).language == tag

    @pytest.mark.parametrize("tag", ["english", "e", "pt_BR", "en-", "en-x\n", "en" + "-abcdefgh" * 4])
    def test_what_is_no_language_tag_is_refused(self, tag: str) -> None:
        row = {"kind": "campaign", "domain": "acme.dev", "campaign": "Spring"}
        assert refusal(**row, language=tag) == ("language", "language")


class TestReply:
    @pytest.mark.parametrize("sentiment", SENTIMENTS)
    def test_a_known_sentiment_is_kept_in_any_spelling(self, sentiment: str) -> None:
        for spelling in (sentiment, sentiment.upper(), sentiment.replace("_", " ").title()):
            found = check_event(
                {"kind": "reply", "at": AT, "domain": "acme.dev", "sentiment": spelling}, Policy(), NOW
            )
            assert (found[0].sentiment, found[1]) == (sentiment, ())

    @pytest.mark.parametrize(
        ("sentiment", "rule"),
        [("furious", "unknown_sentiment"), ("", "missing_sentiment"), (None, "missing_sentiment")],
    )
    def test_an_unknown_sentiment_is_reported_and_is_no_word_of_the_company(
        self, sentiment: str | None, rule: Any
    ) -> None:
        row = {"kind": "reply", "at": AT, "domain": "acme.dev", "sentiment": sentiment}
        found, notices = check_event(row, Policy(), NOW)
        assert found.sentiment is None
        assert found != event(kind="reply", domain="acme.dev", sentiment="neutral")
        assert notices == (Notice(field="sentiment", rule=rule),)

    def test_a_campaign_is_optional(self) -> None:
        assert event(kind="reply", domain="acme.dev", campaign="Spring").campaign == "Spring"
        assert event(kind="reply", domain="acme.dev").campaign is None


@pytest.mark.parametrize("kind", ["suppression", "suppression_lifted"])
class TestSuppression:
    def test_its_scope_is_what_the_row_names(self, kind: str) -> None:
        assert event(kind=kind, address="jo@acme.dev").scope == "address"
        assert event(kind=kind, address="jo@acme.dev", domain="acme.dev").scope == "address"
        assert event(kind=kind, domain="acme.dev").scope == "domain"
        assert event(kind=kind, address="jo@acme.dev", scope="Domain").scope == "domain"

    def test_an_address_scope_needs_an_address(self, kind: str) -> None:
        assert refusal(kind=kind, domain="acme.dev", scope="address") == ("scope", "address_required")

    def test_another_scope_is_refused(self, kind: str) -> None:
        assert refusal(kind=kind, domain="acme.dev", scope="company") == ("scope", "scope")

    def test_its_cause_is_optional_and_has_a_limit(self, kind: str) -> None:
        assert event(kind=kind, domain="acme.dev", cause=" asked  us ").cause == "asked us"
        assert event(kind=kind, domain="acme.dev").cause is None
        assert refusal(kind=kind, domain="acme.dev", cause="x" * 201)[0] == "cause"


def test_no_refusal_repeats_a_value() -> None:
    base = {"kind": "message", "at": AT, "campaign": "Spring", "address": "jo@acme.dev"}
    for name, value in {
        "kind": "zebra",
        "at": "zebra",
        "campaign": "zebra\x00",
        "address": "zebra@gmail.com",
        "domain": "zebra.dev",
        "zebra": "zebra",
    }.items():
        with pytest.raises(MemoryCoreError) as caught:
            check_event({**base, name: value}, Policy(), NOW)
        assert "zebra" not in f"{caught.value.message}{caught.value.details}"
