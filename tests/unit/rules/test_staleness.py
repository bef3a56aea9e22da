"""Exactly the limit is not stale; a bare date counts from its start in the space's zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memory_core.model import ObservedAt
from memory_core.policy import Policy
from memory_core.rules.limits import check_observed_at
from memory_core.rules.staleness import day_start, is_stale

TICK = timedelta(microseconds=1)


def test_case_035_exactly_thirty_days_are_not_stale() -> None:
    instant = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
    observed = ObservedAt(text="2026-03-01T23:30:00Z", instant=instant)
    assert not is_stale(observed, instant + timedelta(days=30), Policy())
    assert is_stale(observed, instant + timedelta(days=30) + TICK, Policy())


@pytest.mark.parametrize("timezone", ["UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Tokyo"])
def test_a_bare_date_is_stale_after_the_start_of_the_thirtieth_day_in_the_zone(timezone: str) -> None:
    """Berlin and Los Angeles change their clocks within these thirty days; the day still begins at midnight."""
    policy = Policy(timezone=timezone)
    observed = check_observed_at("2026-03-05", policy, datetime(2026, 3, 6, tzinfo=UTC))
    limit = day_start(datetime(2026, 4, 4).date(), timezone)
    assert not is_stale(observed, limit, policy)
    assert is_stale(observed, limit + TICK, policy)


def test_the_space_sets_the_days() -> None:
    instant = datetime(2026, 3, 1, tzinfo=UTC)
    observed = ObservedAt(text="2026-03-01T00:00Z", instant=instant)
    assert is_stale(observed, instant + timedelta(days=8), Policy(stale_after_days=7))
    assert not is_stale(observed, instant + timedelta(days=8), Policy(stale_after_days=8))


def test_what_is_ahead_is_not_stale() -> None:
    observed = ObservedAt(text="2026-03-02", instant=datetime(2026, 3, 2, tzinfo=UTC))
    assert not is_stale(observed, datetime(2026, 3, 1, tzinfo=UTC), Policy())
