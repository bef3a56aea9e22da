"""Group G of the cases, as far as the prospect memory and the notebooks go: stop orders, states, stale outputs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from memory_core.storage.schema import prospect_notes
from tests.conftest import Desk


@pytest.mark.parametrize("status", ["archived", "proposed", "rejected", "retired"])
def test_case_136_a_note_in_any_state_but_active_is_in_no_recall_report_or_list(
    desk: Desk, status: str
) -> None:
    """Queries name the state they show, so a state that is added later is hidden until somebody shows it."""
    hidden = desk.save("One fact.", source_urls=["https://a.example/1"])["note"]["note_id"]
    desk.bench.store.write(
        desk.space_id,
        lambda unit: unit.connection.execute(
            update(prospect_notes)
            .where(prospect_notes.c.space_id == unit.space_id, prospect_notes.c.note_id == hidden)
            .values(status=status)
        ),
    )
    recalled = desk.recall()
    assert (recalled["known"], recalled["note_count"], recalled["notes"]) == (False, 0, [])
    assert desk.bench.prospects.dossiers(desk.space_id) == []
    saved = desk.save("One fact.", source_urls=["https://a.example/1"])
    assert (saved["repeated"], saved["note_count"]) == (False, 1)
    assert (saved["overlap"]["near_duplicates"], saved["overlap"]["shared_sources"]) == ([], [])


@pytest.mark.parametrize("first", ["suppressed", "saved"])
def test_case_125_a_stop_order_outlives_compaction_undo_and_deletion_in_either_order(
    desk: Desk, first: str
) -> None:
    row = {
        "kind": "suppression",
        "at": "2026-11-01",
        "address": "jo@kelva.example",
        "scope": "domain",
        "cause": "asked",
    }

    def suppress() -> None:
        assert desk.bench.transfers.import_relationship(desk.space_id, [(1, row)]).written == 1

    if first == "suppressed":
        suppress()
    ids = [desk.save(f"Fact {number}.")["note"]["note_id"] for number in range(3)]
    if first == "saved":
        suppress()
    stops = []

    def look() -> None:
        recalled = desk.recall()
        stops.append(
            (recalled["stop"], tuple(recalled["stop_reasons"]), json.dumps(recalled["relationship"]))
        )

    look()
    merged = {"domain": "kelva.example", "note_ids": ids[:2], "body": "Both.", "expected_note_count": 3}
    note_id = desk.bench.prospects.compact(desk.key, merged).note.note_id
    look()
    desk.bench.prospects.undo_compaction(desk.owner, note_id)
    look()
    for each in ids:
        desk.bench.prospects.delete(desk.owner, each)
    look()
    assert len(set(stops)) == 1
    assert stops[0][:2] == (True, ("suppressed",))


# -- notebooks ------------------------------------------------------------------------------------

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def faults(notebook: dict[str, Any]) -> list[str]:
    """Name what lets a cell end early and pass: a magic, a recorded error, or a cell that was not run in its turn.

    The notebook checker compares outputs, so a magic that is unknown passes once its error message was recorded.
    """
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    found = []
    for number, each in enumerate(cells, start=1):
        lines = "".join(each["source"]).splitlines()
        if any(line.lstrip().startswith(("%", "!")) for line in lines):
            found.append(f"cell {number}: magic")
        if any(
            output["output_type"] == "error" or output.get("name") == "stderr" for output in each["outputs"]
        ):
            found.append(f"cell {number}: error output")
        if each["execution_count"] != number:
            found.append(f"cell {number}: run as {each['execution_count']}")
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_case_130_no_notebook_uses_a_magic_or_was_recorded_with_an_error(path: Path) -> None:
    assert faults(json.loads(path.read_text(encoding="utf-8"))) == []


def test_case_130_a_planted_magic_is_found_even_where_its_error_was_recorded() -> None:
    planted = cell("%nosuchmagic\nassert False")
    recorded = {
        "output_type": "stream",
        "name": "stderr",
        "text": "UsageError: Line magic function not found.\n",
    }
    skipped = cell("print(1)", "1\n", count=3)
    assert faults({"cells": [cell("print(1)", "1\n"), skipped]}) == ["cell 2: run as 3"]
    assert faults({"cells": [{**planted, "outputs": [recorded]}]}) == [
        "cell 1: magic",
        "cell 1: error output",
    ]


def cell(source: str, *output: str, count: int = 1) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": f"cell{count}",
        "execution_count": count,
        "metadata": {},
        "source": source,
        "outputs": [{"output_type": "stream", "name": "stdout", "text": text} for text in output],
    }


def check(folder: Path, *cells: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Check a notebook as `make notebooks` does."""
    spec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "planted.ipynb").write_text(json.dumps(notebook))
    recipe = (Path(__file__).parents[2] / "Makefile").read_text().split("\nnotebooks:")[1].split("\n\n")[0]
    options = recipe.split("-m pytest ")[1].split()[:-1]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(folder), "planted.ipynb"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_case_130_131_a_notebook_that_gives_what_it_shows_passes(tmp_path: Path) -> None:
    """The tests below can fail: the check takes a right notebook."""
    done = check(tmp_path, cell("print(1 + 1)", "2\n"), cell("assert True", count=2))
    assert done.returncode == 0, done.stdout


def test_case_130_an_unknown_magic_above_a_false_assertion_fails_the_check(tmp_path: Path) -> None:
    assert check(tmp_path, cell("%nosuchmagic\nassert False")).returncode == 1


def test_case_131_a_figure_that_was_changed_without_running_again_fails_the_check(tmp_path: Path) -> None:
    done = check(tmp_path, cell("print(0.942 + 0)", "0.938\n"))
    assert done.returncode == 1
    assert "0.938" in done.stdout
