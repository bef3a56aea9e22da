"""The floors on labelled data that does not ship: measured where somebody has it, skipped where nobody has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eval import report
from eval.command import run_overlap

FLOORS = Path(__file__).parents[2] / "eval" / "floors.toml"


@pytest.fixture
def labelled() -> Path:
    folder = os.environ.get("MEMORY_CORE_LABELLED_DATA")
    if not folder:
        pytest.skip("MEMORY_CORE_LABELLED_DATA is not set: labelled data is not part of the project")
    return Path(folder)


def test_labelled_notes_hold_their_floors(labelled: Path) -> None:
    measured = run_overlap((labelled / "overlap" / "notes.jsonl",), ("use-multilingual-v3",))
    assert report.below_floors(measured, FLOORS) == []
