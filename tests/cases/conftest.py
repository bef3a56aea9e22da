"""A desk whose workbench reads with the embedder that ships: where the model is part of the fact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory_core.compose import init_workbench, open_workbench
from memory_core.embedding import Embedder, open_embedder
from tests.conftest import Clock, Desk, make_desk


@pytest.fixture(scope="session")
def model() -> Embedder:
    embedder = open_embedder(None)
    embedder.load()
    return embedder


@pytest.fixture
def real_desk(tmp_path: Path, clock: Clock, new_id: Callable[[], str], model: Embedder) -> Iterator[Desk]:
    home = tmp_path / "home"
    init_workbench(home, {})
    bench = open_workbench(home, {}, embedder=model, now=clock, new_id=new_id)
    yield make_desk(bench, clock)
    bench.close()
