"""A row of the outreach system becomes an event of the relationship with a company, or is refused by field.

Two spellings of one event give equal events, so that importing again changes nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from memory_core.errors import MemoryCoreError, invalid
from memory_core.model import SENTIMENTS
from memory_core.policy import Policy
from memory_core.rules.domains import address_and_domain, registrable_domain
from memory_core.rules.limits import check_observed_at, check_text
from memory_core.rules.staleness import BARE_DATE

MAX_CAMPAIGN_CHARS = 200
MAX_CAUSE_CHARS = 200

_COMMON = frozenset({"kind", "at", "domain", "address"})
_OF_KIND = {
    "campaign": frozenset({"campaign", "language"}),
    "message": frozenset({"campaign"}),
    "reply": frozenset({"campaign", "sentiment"}),
    "suppression": frozenset({"scope", "cause"}),
    "suppression_lifted": frozenset({"scope", "cause"}),
}
FIELDS = _COMMON.union(*_OF_KIND.values())

# The shape of a BCP 47 tag, not its registry; RFC 5646 section 4.4.1 asks a store to hold 35 characters.
_LANGUAGE = re.compile(r"(?=.{2,35}\Z)[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened between the space and a company; `date` where `at` was given as a bare date.

    A bare date identifies the event in place of `at`: another time zone of the space makes no second event.
    `sentiment` is None for a reply whose sentiment is not known, so that it stands apart from one called neutral.
    """

    kind: str
    at: datetime
    date: str | None
    domain: str
    address: str | None = None
    campaign: str | None = None
    language: str | None = None
    sentiment: str | None = None
    scope: Literal["address", "domain"] | None = None
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What was read otherwise than it was written: the field and why; never its value."""

    field: str
    rule: Literal["unknown_sentiment", "missing_sentiment", "not_for_kind"]


def check_event(row: Mapping[str, Any], policy: Policy, now: datetime) -> tuple[Event, tuple[Notice, ...]]:
    """Read a row of CSV or JSON Lines; blank text and null count as absent.

    A field that only another kind has is left out and noticed: a flat export fills columns that do not matter, and
    no stop order may be lost to one. Raises `invalid_input` naming the field, with rule `unknown_field` where no
    kind has it.
    """
    texts = _texts(row)
    kind = _word(_required(texts, "kind"))
    if kind not in _OF_KIND:
        raise invalid("kind", "kind", f"must be one of: {', '.join(_OF_KIND)}")
    stray = [name for name in texts if name not in _COMMON | _OF_KIND[kind]]
    for name in stray:
        del texts[name]
    notices = [Notice(field=name, rule="not_for_kind") for name in stray]
    at = _required(texts, "at")
    instant = check_observed_at(at, policy, now, field="at").instant
    address, domain = _whose(texts)
    if kind in ("campaign", "message"):
        _required(texts, "campaign")
    sentiment, notice = _sentiment(texts.get("sentiment")) if kind == "reply" else (None, None)
    if notice is not None:
        notices.append(notice)
    event = Event(
        kind=kind,
        at=instant,
        date=at if BARE_DATE.fullmatch(at) else None,
        domain=domain,
        address=address,
        campaign=_folded(texts, "campaign", MAX_CAMPAIGN_CHARS),
        language=_language(texts.get("language")),
        sentiment=sentiment,
        scope=_scope(texts.get("scope"), address) if kind.startswith("suppression") else None,
        cause=_folded(texts, "cause", MAX_CAUSE_CHARS),
    )
    return event, tuple(notices)


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    texts = {}
    for name, value in row.items():
        if name not in FIELDS:
            # A name from outside may itself be content.
            raise invalid(
                "row", "unknown_field", f"has a field that is not one of: {', '.join(sorted(FIELDS))}"
            )
        if value is not None and not isinstance(value, str):
            raise invalid(name, "type", "must be text")
        if value and value.strip():
            texts[name] = value.strip()
    return texts


def _required(texts: Mapping[str, str], name: str) -> str:
    if name not in texts:
        raise invalid(name, "required", "is required")
    return texts[name]


def _whose(texts: Mapping[str, str]) -> tuple[str | None, str]:
    given = registrable_domain(texts["domain"]) if "domain" in texts else None
    if "address" not in texts:
        if given is None:
            raise invalid("domain", "required", "give a domain or an address")
        return None, given
    try:
        address, domain = address_and_domain(texts["address"])
    except MemoryCoreError as refusal:
        # The shared rule speaks of a domain; the row has a column of each.
        message = refusal.message.removeprefix("domain: ")
        raise invalid("address", refusal.details["rule"], message) from None
    if address is None:
        raise invalid("address", "address", "must be an e-mail address")
    if given not in (None, domain):
        raise invalid("address", "same_domain", "must be an address at the row's domain")
    return address, domain


def _word(text: str) -> str:
    # A stop order must not be lost to a capital letter or a hyphen.
    return re.sub(r"[\s-]+", "_", text.casefold())


def _sentiment(text: str | None) -> tuple[str | None, Notice | None]:
    if text is None:
        return None, Notice(field="sentiment", rule="missing_sentiment")
    word = _word(text)
    if word not in SENTIMENTS:
        return None, Notice(field="sentiment", rule="unknown_sentiment")
    return word, None


def _scope(text: str | None, address: str | None) -> Literal["address", "domain"]:
    word = ("domain" if address is None else "address") if text is None else _word(text)
    if word == "domain":
        return "domain"
    if word != "address":
        raise invalid("scope", "scope", "must be address or domain")
    if address is None:
        raise invalid("scope", "address_required", "address needs the row's address")
    return "address"


def _language(text: str | None) -> str | None:
    if text is not None and not _LANGUAGE.fullmatch(text):
        raise invalid("language", "language", "must be a language tag such as en or pt-BR")
    return text


def _folded(texts: Mapping[str, str], name: str, max_chars: int) -> str | None:
    if name not in texts:
        return None
    return " ".join(unicodedata.normalize("NFC", check_text(name, texts[name], max_chars)).split())


__all__ = ["FIELDS", "MAX_CAMPAIGN_CHARS", "MAX_CAUSE_CHARS", "Event", "Notice", "check_event"]
