"""How old a fact may be before it has to be verified; exactly the limit is not yet stale."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from memory_core.model import ObservedAt
from memory_core.policy import Policy

BARE_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def day_start(day: date, timezone: str) -> datetime:
    """Give the first instant of a calendar day in an IANA zone, in UTC.

    Where a change of the clock skips midnight, that is the instant of the change (PEP 495, fold 0).
    """
    return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(timezone)).astimezone(UTC)


def day_around(now: datetime, timezone: str) -> tuple[datetime, datetime]:
    """Give the first instants of the calendar day that it is in a zone, and of the next, in UTC."""
    today = now.astimezone(ZoneInfo(timezone)).date()
    return day_start(today, timezone), day_start(today + timedelta(days=1), timezone)


def is_stale(observed: ObservedAt, now: datetime, policy: Policy) -> bool:
    """Say whether a fact was observed more than `stale_after_days` ago.

    A bare date counts calendar days from its start in the space's zone as that is now; a date-time counts 24 hours
    a day.
    """
    text = observed.text.strip()
    if BARE_DATE.fullmatch(text):
        last_day = date.fromisoformat(text) + timedelta(days=policy.stale_after_days)
        return now > day_start(last_day, policy.timezone)
    return now - observed.instant > timedelta(days=policy.stale_after_days)


__all__ = ["BARE_DATE", "day_around", "day_start", "is_stale"]
