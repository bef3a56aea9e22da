"""What a field may hold, refused before anything reads, embeds or stores it; nothing is cut but a title.

Of one value the type is judged first, then the size, then the characters, so that no rule works on 20 MB.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from memory_core.errors import conflict, invalid, too_large
from memory_core.model import Draft, ObservedAt, SourceUrl
from memory_core.policy import Policy
from memory_core.rules.domains import registrable_domain
from memory_core.rules.staleness import BARE_DATE, day_start
from memory_core.rules.urls import canonical_url

# Control characters other than tab and line end; surrogates stand alone in a Python string whenever they occur.
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_DATE_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?"
    r"([Zz]|[+-][0-9]{2}(?::?[0-5][0-9])?)?"
)
_MAX_DATE_CHARS = 64
NOTE_FIELDS = ("domain", "body", "source_urls", "observed_at")


def check_note(given: Mapping[str, Any], policy: Policy, now: datetime) -> Draft:
    """Give the fields of a prospect note, all of NOTE_FIELDS and perhaps `title`, each checked in that order."""
    domain = registrable_domain(given["domain"])
    return Draft(
        domain=domain,
        title=fold_title(given["title"], policy),
        body=check_body(given["body"], policy),
        sources=check_source_urls(given["source_urls"], policy),
        observed_at=check_observed_at(given["observed_at"], policy, now),
    )


def check_room(active: int, policy: Policy) -> None:
    """Refuse with `domain_full` where a dossier of `active` notes takes no other."""
    if active >= policy.max_active_notes:
        raise conflict(
            "domain_full",
            f"the dossier has {active} active notes; compaction brings it down",
            note_count=active,
            limit=policy.max_active_notes,
        )


def check_text(field: str, value: object, max_chars: int) -> str:
    """Give a short text without white space around it.

    Refuses by `field` and rule: type, max_chars, characters, empty.
    """
    if not isinstance(value, str):
        raise invalid(field, "type", "must be a text")
    if len(value) > max_chars:
        raise invalid(field, "max_chars", f"at most {max_chars} characters", limit=max_chars)
    _check_characters(field, value)
    text = value.strip()
    if not text:
        raise invalid(field, "empty", "must not be empty")
    return text


def check_body(body: object, policy: Policy) -> str:
    """Give a note's body exactly as it came; `payload_too_large` over the limit, counted in UTF-8 bytes."""
    if not isinstance(body, str):
        raise invalid("body", "type", "must be a text")
    # A character is at least a byte, so a text of more characters need not be encoded to be refused.
    if len(body) > policy.max_body_bytes or len(body.encode(errors="surrogatepass")) > policy.max_body_bytes:
        raise too_large("body", policy.max_body_bytes)
    _check_characters("body", body)
    if not body.strip():
        raise invalid("body", "empty", "must not be empty")
    return body


def fold_title(title: object, policy: Policy) -> str | None:
    """Give a title as one line of at most `max_title_chars`, cut where it is longer; None where nothing is left.

    The cut never falls between a character and the marks or joiners that belong to it, so it may come out shorter.
    """
    if title is None:
        return None
    if not isinstance(title, str):
        raise invalid("title", "type", "must be a text")
    if len(title) > policy.max_body_bytes:
        raise invalid(
            "title", "max_chars", f"at most {policy.max_body_bytes} characters", limit=policy.max_body_bytes
        )
    _check_characters("title", title)
    line = " ".join(title.split())
    return _cut(line, policy.max_title_chars) or None


def check_focus(focus: object, policy: Policy) -> str | None:
    """Give the text that a recall is ranked by; None where it is absent or blank."""
    if focus is None or (
        isinstance(focus, str) and len(focus) <= policy.max_focus_chars and not focus.strip()
    ):
        return None
    return check_text("focus", focus, policy.max_focus_chars)


def check_source_urls(urls: object, policy: Policy) -> tuple[SourceUrl, ...]:
    """Give the cited pages in their order, one a canonical URL: the first spelling stays.

    Refuses by rule type, min_items, max_items, and by those of `canonical_url`. The URLs as given are counted.
    """
    if not isinstance(urls, list | tuple):
        raise invalid("source_urls", "type", "must be a list of URLs")
    if not urls:
        raise invalid("source_urls", "min_items", "at least 1 URL")
    if len(urls) > policy.max_source_urls:
        raise invalid(
            "source_urls", "max_items", f"at most {policy.max_source_urls} URLs", limit=policy.max_source_urls
        )
    sources: dict[str, SourceUrl] = {}
    for url in urls:
        canonical = canonical_url(url)
        sources.setdefault(canonical, SourceUrl(url=url, canonical=canonical))
    return tuple(sources.values())


def check_observed_at(value: object, policy: Policy, now: datetime, field: str = "observed_at") -> ObservedAt:
    """Read a date (its start in the space's zone) or a date-time with an offset; the text stays as it came.

    Refuses by rule type, not_a_date, offset_missing, future.
    """
    if not isinstance(value, str):
        raise invalid(field, "type", "must be a date or a date-time with an offset")
    text = value.strip() if len(value) <= _MAX_DATE_CHARS else ""
    try:
        instant = _instant(text, policy.timezone, field)
    except (ValueError, OverflowError):
        raise invalid(
            field, "not_a_date", "must be a date YYYY-MM-DD, or a date-time with an offset as in RFC 3339"
        ) from None
    if instant > now + timedelta(hours=policy.max_future_observed_hours):
        raise invalid(
            field, "future", f"must not be more than {policy.max_future_observed_hours} hours in the future"
        )
    return ObservedAt(text=value, instant=instant)


def check_id(field: str, value: object) -> str:
    """Give the id of a note in the form it is stored in: a UUID in lower case with hyphens."""
    if not isinstance(value, str):
        raise invalid(field, "type", "must be an id")
    # The longest spelling that UUID takes is urn:uuid: with hyphens.
    if len(value) <= 45:
        try:
            return str(UUID(value))
        except ValueError:
            pass
    raise invalid(field, "not_an_id", "must be an id as a recall gives it")


def check_note_ids(ids: object, field: str = "note_ids") -> tuple[str, ...]:
    """Give two or more different ids, in their order; a dossier that an undo overfilled can be named whole."""
    if not isinstance(ids, list | tuple):
        raise invalid(field, "type", "must be a list of ids")
    if len(ids) < 2:
        raise invalid(field, "min_items", "at least 2 ids")
    checked = tuple(check_id(field, value) for value in ids)
    if len(set(checked)) != len(checked):
        raise invalid(field, "repeated", "an id must not occur twice")
    return checked


def check_count(field: str, value: object) -> int:
    """Give a whole number from 0; true and false are none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise invalid(field, "type", "must be a whole number")
    if value < 0:
        raise invalid(field, "minimum", "must be at least 0")
    return value


def _check_characters(field: str, text: str) -> None:
    if _REFUSED.search(text):
        raise invalid(
            field,
            "characters",
            "must hold no lone surrogate and no control character other than tab and line end",
        )


def _instant(text: str, timezone: str, field: str) -> datetime:
    """Read the instant in UTC; ValueError or OverflowError where there is none."""
    if BARE_DATE.fullmatch(text):
        return day_start(date.fromisoformat(text), timezone)
    parts = _DATE_TIME.fullmatch(text)
    if parts is None:
        raise ValueError
    day, minute, second, fraction, offset = parts.groups()
    leap = second == "60"
    local = datetime.fromisoformat(f"{day}T{minute}:{'59' if leap else second or '00'}")
    if offset is None:
        raise invalid(field, "offset_missing", "a date-time needs an offset, such as Z or +02:00")
    zone = datetime.fromisoformat(f"{day}T00:00{'Z' if offset in 'Zz' else offset}").tzinfo
    microsecond = int((fraction or "0")[:6].ljust(6, "0"))
    instant = local.replace(microsecond=microsecond, tzinfo=zone).astimezone(UTC)
    if leap:
        # RFC 3339 section 5.7: a leap second is the last of a day in UTC; no clock of Python's can hold it.
        if (instant.hour, instant.minute) != (23, 59):
            raise ValueError
        instant += timedelta(seconds=1)
    return instant


def _cut(line: str, max_chars: int) -> str:
    if len(line) <= max_chars:
        return line
    end = max_chars
    while end > 0 and (_clings(line[end]) or line[end - 1] == "\u200d"):
        end -= 1
    # A text of nothing but marks has no good place to be cut.
    return line[: end or max_chars].rstrip()


def _clings(character: str) -> bool:
    return character == "\u200d" or unicodedata.category(character) in ("Mn", "Me", "Mc")


__all__ = [
    "NOTE_FIELDS",
    "check_body",
    "check_count",
    "check_focus",
    "check_id",
    "check_note",
    "check_note_ids",
    "check_observed_at",
    "check_room",
    "check_source_urls",
    "check_text",
    "fold_title",
]
