"""A merged note loses no source and makes no fact younger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from memory_core.model import Actor, ObservedAt, ProspectNote, SourceUrl
from memory_core.policy import Policy
from memory_core.rules.compaction import dossier_version, inherit
from memory_core.rules.staleness import is_stale

NOW = datetime(2026, 10, 16, tzinfo=UTC)


def _note(
    note_id: str, observed: datetime, urls: str, created: datetime = NOW, text: str | None = None
) -> ProspectNote:
    return ProspectNote(
        note_id=note_id,
        domain="kelva.example",
        title=None,
        body="text",
        sources=tuple(SourceUrl(url=f"https://{url}.example", canonical=url) for url in urls),
        observed_at=ObservedAt(text=text or observed.isoformat(), instant=observed),
        created_at=created,
        author=Actor(kind="operator"),
    )


def test_case_025_a_merged_note_is_as_old_as_the_oldest_fact_in_it() -> None:
    old, older = NOW - timedelta(days=45), NOW - timedelta(days=50)
    _, observed = inherit([_note("1", old, "a"), _note("2", older, "a", text="27 August, as written")])
    assert (observed.instant, observed.text) == (older, "27 August, as written")
    assert is_stale(observed, NOW, Policy())


def test_case_029_a_merged_note_cites_every_page_once() -> None:
    sources, _ = inherit([_note("1", NOW, "ab"), _note("2", NOW, "bc")])
    assert [source.canonical for source in sources] == ["a", "b", "c"]


def test_the_limit_of_a_save_does_not_hold_for_a_merge() -> None:
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    sources, _ = inherit([_note("1", NOW, alphabet[:20]), _note("2", NOW, alphabet[6:])])
    assert len(sources) == 26


def test_the_version_of_a_dossier_is_that_of_its_set_of_ids() -> None:
    assert dossier_version(["b", "a"]) == dossier_version(["a", "b"])
    assert dossier_version(["a", "c"]) != dossier_version(["a", "b"])
    assert dossier_version(["ab"]) != dossier_version(["a", "b"])
    assert len(dossier_version(["a"])) == 16
