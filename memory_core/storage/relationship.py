"""What happened between a space and the companies it writes to: events are added once and never changed.

Companies, addresses and campaigns are found by keyed hash; no address is kept in any other form. The state is
read from the events each time, in their own order and never in the order of their arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, and_, case, func, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from memory_core.formats.canonical import moment
from memory_core.model import CampaignHistory, LastReply, Relationship, Suppression
from memory_core.rules.relationship import Event
from memory_core.storage import prospect_notes
from memory_core.storage.schema import relationship_events
from memory_core.storage.session import Unit

_TABLE = "relationship_events"
_BATCH = 1_000
# Of two replies at the same instant the worse one counts.
_WORST_FIRST = ("bounce", "negative", "out_of_office", "neutral", "interested", "positive")

_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)

_events = relationship_events.c


# -- writing --------------------------------------------------------------------------------------


def add_events(unit: Unit, events: Sequence[Event]) -> int:
    """Keep those events that are not there yet; give how many were new, repeats among them counted once."""
    dialect = postgresql if unit.connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(relationship_events).on_conflict_do_nothing().returning(_events.event_hash)
    new = 0
    for start in range(0, len(events), _BATCH):
        rows = [_columns(unit, event) for event in events[start : start + _BATCH]]
        new += len(unit.connection.execute(statement, rows).all())
    return new


def _columns(unit: Unit, event: Event) -> dict[str, Any]:
    row = unit.digest(
        "relationship_event",
        event.kind,
        event.date or moment(event.at),
        event.domain,
        *(
            text or ""
            for text in (
                event.address,
                event.campaign,
                event.language,
                event.sentiment,
                event.scope,
                event.cause,
            )
        ),
    )
    return {
        "space_id": unit.space_id,
        "event_hash": row,
        "kind": event.kind,
        "at": event.at,
        "domain_hash": prospect_notes.domain_hash(unit, event.domain),
        "address_hash": None if event.address is None else _address_hash(unit, event.address),
        "campaign_hash": None if event.campaign is None else unit.digest("campaign", event.campaign),
        "sealed_campaign": None
        if event.campaign is None
        else unit.seal(_TABLE, row, "campaign", event.campaign),
        "language": event.language,
        "sentiment": event.sentiment,
        "scope": event.scope,
        "sealed_cause": None if event.cause is None else unit.seal(_TABLE, row, "cause", event.cause),
    }


# -- reading --------------------------------------------------------------------------------------


def relationship_of(unit: Unit, domain_hash: str, address: str | None) -> Relationship:
    """Give the history with a company, asked by domain or by a normalised address at it.

    By address, `suppression` is the company's or else the address's own; by domain it is the company's, and
    `suppressed_addresses` counts the addresses suppressed one by one. All else is the company's either way.
    Costs one pass over the company's rows in the database, however many there are.
    """
    campaigns = _campaigns(unit, domain_hash)
    suppression = _suppression(unit, domain_hash, "domain")
    if suppression is None and address is not None:
        own = _events.address_hash == _address_hash(unit, address)
        suppression = _suppression(unit, domain_hash, "address", own)
    return Relationship(
        campaigns=campaigns,
        messages_sent=sum(campaign.messages_sent for campaign in campaigns),
        last_reply=_last_reply(unit, domain_hash),
        suppression=suppression,
        suppressed_addresses=_suppressed_addresses(unit, domain_hash) if address is None else None,
    )


def _campaigns(unit: Unit, domain_hash: str) -> tuple[CampaignHistory, ...]:
    """Give the campaigns with a company, newest message first; those without a message last, by name."""
    message_at = case((_events.kind == "message", _events.at))
    counted = (
        select(
            _events.campaign_hash,
            func.min(_events.event_hash).label("event_hash"),
            func.count(message_at).label("messages_sent"),
            func.max(message_at).label("last_message_at"),
        )
        .where(_of_company(unit, domain_hash), _events.campaign_hash.is_not(None))
        .group_by(_events.campaign_hash)
        .subquery()
    )
    newest = func.row_number().over(
        partition_by=_events.campaign_hash, order_by=(_events.at.desc(), _events.language)
    )
    spoken = (
        select(_events.campaign_hash, _events.language, newest.label("place"))
        .where(_of_company(unit, domain_hash), _events.kind == "campaign", _events.language.is_not(None))
        .subquery()
    )
    rows = unit.connection.execute(
        select(
            _events.event_hash,
            _events.sealed_campaign,
            spoken.c.language,
            counted.c.messages_sent,
            counted.c.last_message_at,
        )
        .select_from(counted)
        .join(relationship_events, _events.event_hash == counted.c.event_hash)
        .outerjoin(spoken, and_(spoken.c.campaign_hash == counted.c.campaign_hash, spoken.c.place == 1))
        .where(_events.space_id == unit.space_id)
    )
    campaigns = [
        CampaignHistory(
            campaign=unit.open_text(_TABLE, row.event_hash, "campaign", row.sealed_campaign),
            language=row.language,
            messages_sent=row.messages_sent,
            last_message_at=row.last_message_at,
        )
        for row in rows
    ]
    campaigns.sort(key=lambda campaign: campaign.campaign)
    campaigns.sort(key=lambda campaign: campaign.last_message_at or _BEFORE_ALL, reverse=True)
    return tuple(campaigns)


def _last_reply(unit: Unit, domain_hash: str) -> LastReply | None:
    """Give the latest reply whose sentiment is known; where there is none, the latest, read as neutral.

    A later row that says nothing about the answer must not lift the stop of an earlier one that does.
    """
    places = {sentiment: place for place, sentiment in enumerate(_WORST_FIRST)}
    row = unit.connection.execute(
        select(_events.at, _events.sentiment)
        .where(_of_company(unit, domain_hash), _events.kind == "reply")
        .order_by(_events.sentiment.is_(None), _events.at.desc(), case(places, value=_events.sentiment))
        .limit(1)
    ).one_or_none()
    return None if row is None else LastReply(at=row.at, sentiment=row.sentiment or "neutral")


def _suppression(
    unit: Unit, domain_hash: str, scope: Literal["address", "domain"], *whose: ColumnElement[bool]
) -> Suppression | None:
    """Give the suppression of one scope that holds now: since the first row after its last lift.

    Its cause is the first one given since then. At the same instant a suppression wins over a lift.
    """
    of_scope = and_(_of_company(unit, domain_hash), _events.scope == scope, *whose)
    lifted_at = (
        select(func.max(_events.at)).where(of_scope, _events.kind == "suppression_lifted").scalar_subquery()
    )
    row = unit.connection.execute(
        select(_events.event_hash, _events.sealed_cause, func.min(_events.at).over().label("since"))
        .where(of_scope, _events.kind == "suppression", or_(lifted_at.is_(None), _events.at >= lifted_at))
        .order_by(_events.sealed_cause.is_(None), _events.at, _events.event_hash)
        .limit(1)
    ).one_or_none()
    if row is None:
        return None
    sealed = row.sealed_cause
    cause = None if sealed is None else unit.open_text(_TABLE, row.event_hash, "cause", sealed)
    return Suppression(scope=scope, cause=cause, since=row.since)


def _suppressed_addresses(unit: Unit, domain_hash: str) -> int:
    suppressed_at = func.max(case((_events.kind == "suppression", _events.at)))
    lifted_at = func.max(case((_events.kind == "suppression_lifted", _events.at)))
    suppressed = (
        select(_events.address_hash)
        .where(_of_company(unit, domain_hash), _events.scope == "address")
        .group_by(_events.address_hash)
        .having(and_(suppressed_at.is_not(None), or_(lifted_at.is_(None), suppressed_at >= lifted_at)))
        .subquery()
    )
    return unit.connection.scalar(select(func.count()).select_from(suppressed)) or 0


def _of_company(unit: Unit, domain_hash: str) -> ColumnElement[bool]:
    return and_(_events.space_id == unit.space_id, _events.domain_hash == domain_hash)


def _address_hash(unit: Unit, address: str) -> str:
    return unit.digest("address", address)
