"""What a merged note takes over from the notes that it replaces; no source is lost and no fact gets younger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from memory_core.model import ObservedAt, ProspectNote, SourceUrl


def inherit(notes: Sequence[ProspectNote]) -> tuple[tuple[SourceUrl, ...], ObservedAt]:
    """Give all sources, one a canonical URL in the order of the notes, and the earliest `observed_at`.

    `notes` holds at least one note. Of equal instants, and of equal pages, the first spelling stays.
    """
    sources: dict[str, SourceUrl] = {}
    for note in notes:
        for source in note.sources:
            sources.setdefault(source.canonical, source)
    earliest = min((note.observed_at for note in notes), key=lambda observed: observed.instant)
    return tuple(sources.values()), earliest


def dossier_version(ids: Iterable[str]) -> str:
    """Digest the ids of the active notes, in any order: 16 hexadecimal characters of their SHA-256."""
    return sha256("\n".join(sorted(ids)).encode()).hexdigest()[:16]


__all__ = ["dossier_version", "inherit"]
