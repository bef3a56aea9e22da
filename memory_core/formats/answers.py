"""The JSON of the prospect memory's answers, exactly as every surface sends it.

It stands in the core because two limits count its bytes: a recall's payload and a save's answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from memory_core.formats.canonical import moment, size
from memory_core.model import (
    Compacted,
    OverlapReport,
    ProspectNote,
    Recall,
    RecalledNote,
    Relationship,
    Saved,
    Undone,
)
from memory_core.policy import Policy

_LIMITS = Policy()
# What `source_urls_left_out` and its number add to a note.
_COUNT_BYTES = 40

REPORT_NOTICE = (
    "Information, not an instruction: report these notes to a person, who decides what is merged or deleted. "
    "Empty lists mean that nothing similar was found, not that the content is new."
)
UNAVAILABLE_NOTICE = (
    " The embedding model was unavailable: only exact repeats and shared sources were compared."
)
UNTUNED_NOTICE = " The thresholds are the defaults; none were tuned for this model in this space."


def note_json(note: ProspectNote, *, stale: bool) -> dict[str, Any]:
    """Show a note to an agent or a person; its embedding is never shown."""
    shown: dict[str, Any] = {
        "note_id": note.note_id,
        "title": note.title,
        "body": note.body,
        "source_urls": [source.url for source in note.sources],
        "observed_at": note.observed_at.text,
        "stale": stale,
        "created_at": moment(note.created_at),
        "source": {
            name: value
            for name, value in (("source_id", note.author.source_id), ("person_id", note.author.person_id))
            if value is not None
        },
    }
    if note.status != "active":
        shown["status"] = note.status
        shown["merged_into"] = note.merged_into
    return shown


def saved_json(saved: Saved, policy: Policy) -> dict[str, Any]:
    """Show a save's answer, within the payload limit.

    Over it, whole bodies fall back to excerpts, then the longest lists are cut from their far end, and
    `overlap.left_out` counts what is not shown; last falls back the body of the note itself.
    """
    answer = {
        "note": note_json(saved.note, stale=saved.stale),
        "note_count": saved.note_count,
        "compaction_suggested": saved.compaction_suggested,
        "repeated": saved.repeated,
        "truncated": False,
        "overlap": _report_json(saved.overlap),
    }
    limit = policy.max_recall_bytes - size({"data": {}})
    if size(answer) <= limit:
        return answer
    answer["truncated"] = True
    report: dict[str, Any] = answer["overlap"]  # type: ignore[assignment]
    for entry in report["near_duplicates"]:
        entry["body"] = entry["body"][: policy.excerpt_chars]
    lists = ("near_duplicates", "overlaps", "shared_sources")
    left_out = dict.fromkeys(lists, 0)
    while size(answer) > limit and any(report[name] for name in lists):
        longest = max(lists, key=lambda name: size(report[name]))
        cut = max(1, len(report[longest]) // 4)
        report[longest] = report[longest][:-cut]
        left_out[longest] += cut
        report["left_out"] = left_out
    if size(answer) > limit:
        # Escaped in JSON, one note with twenty long URLs can pass the limit alone; its writer has its body.
        shown: dict[str, Any] = answer["note"]  # type: ignore[assignment]
        shown["body"] = shown["body"][: policy.excerpt_chars]
    return answer


def _report_json(report: OverlapReport) -> dict[str, Any]:
    notice = REPORT_NOTICE
    if report.embedder == "unavailable":
        notice += UNAVAILABLE_NOTICE
    elif not report.tuned:
        notice += UNTUNED_NOTICE
    return {
        "near_duplicates": [
            {
                "note_id": near.note.note_id,
                "distance": round(near.distance, 4),
                "title": near.note.title,
                "observed_at": near.note.observed_at,
                "body": near.note.body,
                "changes": [
                    {"kind": change.kind, "before": change.before, "after": change.after}
                    for change in near.changes
                ],
            }
            for near in report.near_duplicates
        ],
        "overlaps": [
            {
                "note_id": overlap.note.note_id,
                "distance": round(overlap.distance, 4),
                "title": overlap.note.title,
                "observed_at": overlap.note.observed_at,
                "excerpt": overlap.excerpt,
            }
            for overlap in report.overlaps
        ],
        "shared_sources": [
            {"note_id": shared.note_id, "url": shared.url} for shared in report.shared_sources
        ],
        "not_compared": report.not_compared,
        "embedder": report.embedder,
        "model": report.model,
        "notice": notice,
    }


def recall_json(recall: Recall) -> dict[str, Any]:
    """Show a recalled dossier."""
    return {
        "domain": recall.domain,
        "known": recall.known,
        "stale": recall.stale,
        "stop": bool(recall.relationship.stop_reasons),
        "stop_reasons": list(recall.relationship.stop_reasons),
        "note_count": recall.note_count,
        "dossier_version": recall.dossier_version,
        "compaction_suggested": recall.compaction_suggested,
        "truncated": recall.truncated,
        "relationship": relationship_json(recall.relationship),
        "notes": [_recalled_json(recalled) for recalled in recall.notes],
        "overlap_pairs": [
            {"note_ids": list(pair.note_ids), "distance": round(pair.distance, 4)}
            for pair in recall.overlap_pairs
        ],
    }


def relationship_json(relationship: Relationship) -> dict[str, Any]:
    """Show what happened with a company: whole, unless its campaigns alone would fill half of a recall.

    Then the oldest are left out and counted; what is summed over them stays exact.
    """
    reply, suppression = relationship.last_reply, relationship.suppression
    shown: dict[str, Any] = {
        "campaigns": [
            {
                "campaign": campaign.campaign,
                "language": campaign.language,
                "messages_sent": campaign.messages_sent,
                "last_message_at": None
                if campaign.last_message_at is None
                else moment(campaign.last_message_at),
            }
            for campaign in relationship.campaigns
        ],
        "messages_sent": relationship.messages_sent,
        "last_reply": None if reply is None else {"at": moment(reply.at), "sentiment": reply.sentiment},
        "suppressed": suppression is not None,
        "suppression": None
        if suppression is None
        else {
            "scope": suppression.scope,
            "cause": suppression.cause,
            "since": moment(suppression.since),
        },
    }
    if relationship.suppressed_addresses is not None:
        shown["suppressed_addresses"] = relationship.suppressed_addresses
    campaigns, excess = shown["campaigns"], size(shown) - _LIMITS.max_recall_bytes // 2
    left_out = 0
    while campaigns and excess > 0:
        excess -= size(campaigns.pop()) + 1
        left_out += 1
    if left_out:
        shown["campaigns_left_out"] = left_out
    return shown


def with_sources_that_fit(recalled: RecalledNote, budget: int) -> RecalledNote:
    """Cut the sources of a note from their end until it fits `budget` bytes; its body is never cut."""
    excess = note_bytes(recalled) - budget
    kept = list(recalled.note.sources)
    while kept and excess > -_COUNT_BYTES:
        excess -= size(kept.pop().url) + 1
    return replace(
        recalled,
        note=replace(recalled.note, sources=tuple(kept)),
        urls_left_out=len(recalled.note.sources) - len(kept),
    )


def note_bytes(recalled: RecalledNote) -> int:
    """Count what one note adds to a recall's payload, its comma included."""
    return size(_recalled_json(recalled)) + 1


def frame_bytes(recall: Recall) -> int:
    """Count a recall's payload without its notes."""
    return size({"data": recall_json(replace(recall, notes=(), truncated=True))})


def compacted_json(compacted: Compacted, policy: Policy = _LIMITS) -> dict[str, Any]:
    """Show the merged note and what it replaced, within the payload limit: over it, sources are cut and counted."""
    shown = RecalledNote(note=compacted.note, stale=compacted.stale)
    answer: dict[str, Any] = {
        "note": _recalled_json(shown),
        "archived": list(compacted.archived),
        "note_count": compacted.note_count,
        "dossier_version": compacted.dossier_version,
        "compaction_suggested": compacted.compaction_suggested,
        "embedder": compacted.embedder,
    }
    budget = policy.max_recall_bytes - size({"data": {**answer, "note": {}}})
    if note_bytes(shown) > budget:
        answer["note"] = _recalled_json(with_sources_that_fit(shown, budget))
    return answer


def _recalled_json(recalled: RecalledNote) -> dict[str, Any]:
    shown = note_json(recalled.note, stale=recalled.stale)
    if recalled.urls_left_out:
        shown["source_urls_left_out"] = recalled.urls_left_out
    return shown


def undone_json(undone: Undone) -> dict[str, Any]:
    """Show which originals are active again and which were deleted since."""
    return {
        "note_id": undone.note_id,
        "restored": list(undone.restored),
        "deleted_since": list(undone.deleted_since),
        "note_count": undone.note_count,
    }
