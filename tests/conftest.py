"""What most tests start from: a workbench in a folder of its own, with a clock that stands still and counted ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from memory_core.admission import KeyText, NamedPerson
from memory_core.compose import Workbench, init_workbench, open_workbench
from memory_core.embedding import WordHashEmbedder
from memory_core.formats.answers import recall_json, saved_json

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)


@dataclass
class Clock:
    """A clock that only moves when a test moves it."""

    at: datetime = NOW

    def __call__(self) -> datetime:
        return self.at

    def move(self, **by: float) -> None:
        self.at += timedelta(**by)


@dataclass
class Desk:
    """One space with an admin, an outreach admin, a source and its key, and the verbs a test needs most."""

    bench: Workbench
    clock: Clock
    space_id: str
    admin: NamedPerson
    admin_key: KeyText
    owner: NamedPerson
    source_id: str
    key: KeyText
    extra: dict[str, Any] = field(default_factory=dict)

    def save(self, body: str = "Kelva raised 12 million.", **fields: Any) -> dict[str, Any]:
        """Save a note as the source and give the answer as agents see it."""
        given = {
            "domain": "kelva.example",
            "body": body,
            "source_urls": ["https://news.example/kelva"],
            "observed_at": "2026-11-10",
            **fields,
        }
        return saved_json(*self.bench.prospects.save(self.key, given))

    def recall(self, domain: str = "kelva.example", **fields: Any) -> dict[str, Any]:
        return recall_json(self.bench.prospects.recall(self.key, {"domain": domain, **fields}))

    def files(self) -> bytes:
        """Give every byte under the home folder, for tests that look for plain text."""
        return b"".join(path.read_bytes() for path in sorted(self.bench.home.rglob("*")) if path.is_file())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def new_id() -> Callable[[], str]:
    numbers = count(1)
    return lambda: str(UUID(int=(4 << 76) | (2 << 62) | next(numbers)))


@pytest.fixture
def bench(tmp_path: Path, clock: Clock, new_id: Callable[[], str]) -> Iterator[Workbench]:
    home = tmp_path / "home"
    init_workbench(home, {})
    opened = open_workbench(home, {}, embedder=WordHashEmbedder(), now=clock, new_id=new_id)
    yield opened
    opened.close()


def make_desk(bench: Workbench, clock: Clock, name: str = "Halden", **settings: str) -> Desk:
    """Add a space with people, a source and a key to a workbench."""
    space = bench.spaces.create_space(name, **settings)
    admin, admin_key = bench.spaces.create_person(space.space_id, "Ana", ("admin",))
    owner, _ = bench.spaces.create_person(space.space_id, "Olu", ("outreach_admin",))
    source = bench.spaces.create_source(space.space_id, "Scout")
    _, key = bench.spaces.create_key(
        space.space_id,
        source_id=source.source_id,
        person_id=owner.person_id,
        scopes=("outreach_read", "outreach_write"),
    )
    return Desk(
        bench=bench,
        clock=clock,
        space_id=space.space_id,
        admin=NamedPerson(space_id=space.space_id, person_id=admin.person_id),
        admin_key=KeyText(admin_key),
        owner=NamedPerson(space_id=space.space_id, person_id=owner.person_id),
        source_id=source.source_id,
        key=KeyText(key),
    )


@pytest.fixture
def desk(bench: Workbench, clock: Clock) -> Desk:
    return make_desk(bench, clock)
