"""The frozen nouns that travel between rules, storage, use cases and surfaces.

Times are aware UTC; distances are cosine distances (lower is closer); ids are UUID strings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Passed in wherever time or chance would come in, so that a test can hold both still.
Clock = Callable[[], datetime]
NewId = Callable[[], str]

ROLES = ("integration", "admin", "outreach_admin")
SCOPES = ("outreach_read", "outreach_write", "context", "agent_memory", "agent_memory:write", "export")
SENTIMENTS = ("positive", "interested", "neutral", "negative", "out_of_office", "bounce")


# -- who ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The tenant; nothing crosses it."""

    space_id: str
    name: str
    outreach: bool
    subscription: bool
    settings_version: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Someone who signs in or holds a person's key."""

    person_id: str
    name: str
    email: str | None
    roles: tuple[str, ...]
    disabled: bool
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An agent as the space knows it."""

    source_id: str
    name: str
    vendor: str | None
    purposes: tuple[str, ...]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A credential without its secret: of a source (then `person_id` is its owner) or of a person alone."""

    key_id: str
    source_id: str | None
    person_id: str
    scopes: tuple[str, ...]
    expires_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who acts, as a receipt records it: a source's key, a person, or the operator on behalf of a person."""

    kind: Literal["source", "person", "operator"]
    key_id: str | None = None
    source_id: str | None = None
    person_id: str | None = None


OPERATOR = Actor(kind="operator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller: its space as it stands now, the key's scopes, the owner's or person's roles."""

    space: Space
    actor: Actor
    scopes: frozenset[str]
    roles: frozenset[str]


# -- settings -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChange:
    """A proposed diff against one version of a space's settings; `diff` maps a name to its new value."""

    change_id: str
    base_version: int
    diff: dict[str, Any]
    reason: str
    evidence: dict[str, Any] | None
    status: Literal["pending", "approved", "rejected"]
    proposed_by: Actor
    created_at: datetime
    decided_by: Actor | None
    decided_at: datetime | None
    decision_reason: str | None


# -- prospect memory ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAt:
    """When a fact was true: the text as it was given, and the instant it stands for."""

    text: str
    instant: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceUrl:
    """A cited page: the URL as given and the canonical form that two spellings of one page share."""

    url: str
    canonical: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The checked fields of a prospect note before it has an id."""

    domain: str
    title: str | None
    body: str
    sources: tuple[SourceUrl, ...]
    observed_at: ObservedAt


@dataclass(frozen=True, slots=True, kw_only=True)
class ProspectNote:
    """One statement about a company; `author` is the key and owner that wrote it."""

    note_id: str
    domain: str
    title: str | None
    body: str
    sources: tuple[SourceUrl, ...]
    observed_at: ObservedAt
    created_at: datetime
    author: Actor
    status: Literal["active", "archived"] = "active"
    merged_into: str | None = None
    merged_from: tuple[str, ...] = ()


class Embedding(NamedTuple):
    """A unit-length vector of shape (dimensions,) and the id of the model that made it."""

    model: str
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What differs between two near duplicates; an empty side means that only the other side has it."""

    kind: Literal["number", "amount", "date", "name"]
    before: str
    after: str


class ListedNote(NamedTuple):
    """What an overlap report shows of another note."""

    note_id: str
    title: str | None
    observed_at: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NearDuplicate:
    note: ListedNote
    distance: float
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    note: ListedNote
    distance: float
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSource:
    note_id: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapReport:
    """What a save found in the dossier: information for a person, never an instruction."""

    near_duplicates: tuple[NearDuplicate, ...]
    overlaps: tuple[Overlap, ...]
    shared_sources: tuple[SharedSource, ...]
    not_compared: int
    embedder: Literal["ok", "unavailable"]
    model: str
    tuned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    note: ProspectNote
    stale: bool
    note_count: int
    compaction_suggested: bool
    repeated: bool
    overlap: OverlapReport


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignHistory:
    campaign: str
    language: str | None
    messages_sent: int
    last_message_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReply:
    at: datetime
    sentiment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    scope: Literal["address", "domain"]
    cause: str | None
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Relationship:
    """What happened between the space and a company; `suppressed_addresses` only when asked by domain."""

    campaigns: tuple[CampaignHistory, ...] = ()
    messages_sent: int = 0
    last_reply: LastReply | None = None
    suppression: Suppression | None = None
    suppressed_addresses: int | None = None

    @property
    def stop_reasons(self) -> tuple[str, ...]:
        """Name why this company must not be contacted: suppressed, last_reply_negative, last_reply_bounce."""
        reasons = ["suppressed"] if self.suppression else []
        if self.last_reply and self.last_reply.sentiment in ("negative", "bounce"):
            reasons.append(f"last_reply_{self.last_reply.sentiment}")
        return tuple(reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapPair:
    note_ids: tuple[str, str]
    distance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledNote:
    """A note as it is shown; `urls_left_out` counts sources cut so that the note fits an answer at all."""

    note: ProspectNote
    stale: bool
    urls_left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """A dossier as an agent gets it; `truncated` where notes were left out to fit the payload limit."""

    domain: str
    known: bool
    stale: bool
    note_count: int
    dossier_version: str
    notes: tuple[RecalledNote, ...]
    overlap_pairs: tuple[OverlapPair, ...]
    compaction_suggested: bool
    truncated: bool
    relationship: Relationship


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    note: ProspectNote
    stale: bool
    archived: tuple[str, ...]
    note_count: int
    dossier_version: str
    compaction_suggested: bool
    embedder: Literal["ok", "unavailable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    note_id: str
    restored: tuple[str, ...]
    deleted_since: tuple[str, ...]
    note_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import did: rows written, rows already there, and the refused ones with line, code and rule."""

    rows: int
    written: int
    repeated: int
    refused: tuple[dict[str, Any], ...] = ()
    notices: tuple[dict[str, Any], ...] = ()


# -- receipts -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One line of a space's hash-chained audit trail; `body` is the object that `hash` covers.

    `text` is its canonical form, where the receipt was just made.
    """

    seq: int
    hash: str
    body: dict[str, Any] = field(repr=False)
    text: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainVerdict:
    """The outcome of verifying a chain; `broken_seq` names the first receipt that does not hold."""

    ok: bool
    receipts: int
    head: str
    broken_seq: int | None = None
    problem: str | None = None
