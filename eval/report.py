"""Reports: what was measured and all it depends on, as JSON, one self-contained page and a terminal table.

A figure that is undefined is absent from `figures` and `figures_by_length` and stands in `undefined` with its
count, never 0. A page asks nothing of the network, and every text in it is escaped.
"""

from __future__ import annotations

import json
import subprocess
import tomllib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval.datasets import LABELS, PairSet
from memory_core.errors import invalid, unavailable
from memory_core.policy import Policy

FIXED = ("auc", "precision@0.10", "recall@0.10", "distinct_within@0.30", "best_f1")
OWN = ("precision@0.30", "recall@0.30", "best_f1_overlap", "near_duplicate_at", "overlap_at")
_COLOURS = {"duplicate": "#1b6ca8", "updated": "#3aa6a0", "overlap": "#d98e04", "distinct": "#b23a48"}
_LINES = ("#1b6ca8", "#b23a48", "#5b8c3a", "#7d5ba6")
_SIDES = {
    "other_fact_nearest": "Another fact, nearest first",
    "same_fact_just_beyond": "The same fact, just beyond near_duplicate_at",
    "same_fact_furthest": "The same fact, furthest first",
}


def build(
    measured: Mapping[str, Any],
    others: Sequence[Mapping[str, Any]],
    data: PairSet,
    policy: Policy,
    created_at: datetime,
    *,
    texts: bool = True,
) -> dict[str, Any]:
    """Put what `overlap.measure` gave for the first model, and for `others`, beside all that it depends on.

    `texts` says whether the report holds excerpts; it must be what `measure` was told.
    """
    return {
        "kind": "overlap",
        "created_at": created_at.isoformat(timespec="seconds"),
        **origin(),
        "policy_digest": policy.digest(),
        "data": {
            "digest": data.digest,
            "files": list(data.files),
            "rows": len(data.pairs),
            "texts": texts,
        },
        **measured,
        "others": [dict(other) for other in others],
    }


def origin() -> dict[str, Any]:
    """Say which code measured: version, commit, whether the checkout was changed; null where unknown."""
    try:
        installed: str | None = version("memory-workbench")
    except PackageNotFoundError:
        installed = None
    commit = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain")
    return {
        "version": installed,
        "commit": commit,
        "dirty": None if commit is None or changes is None else changes != "",
    }


def _git(*words: str) -> str | None:
    checkout = Path(__file__).resolve().parent.parent
    try:
        done = subprocess.run(  # noqa: S603 - fixed words, no shell
            ["git", *words],  # noqa: S607 - git stands where the system put it
            cwd=checkout,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def render_json(report: Mapping[str, Any]) -> str:
    """Write a report as JSON; the same report gives the same bytes."""
    return json.dumps(report, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def read(path: Path) -> dict[str, Any]:
    """Read a report of overlap back; refuses with `invalid_input` what is none."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise invalid("report", "json", "must be a readable JSON report") from None
    if not isinstance(report, dict) or report.get("kind") != "overlap":
        raise invalid("report", "kind", "must be a report of eval overlap")
    tuned = report.get("tuned")
    if not isinstance(report.get("model"), str) or not isinstance(tuned, dict):
        raise invalid("report", "keys", "must hold model and tuned")
    if not all(isinstance(row, dict) and isinstance(row.get("value"), float) for row in tuned.values()):
        raise invalid("report", "tuned", "must hold a value for each tuned threshold")
    return report


def write(report: Mapping[str, Any], folder: Path) -> tuple[Path, Path]:
    """Write `overlap-<model>.json` and `.html` into a folder, each whole or not at all; give their paths."""
    stem = f"{report['kind']}-{report['model']}"
    files = {
        folder / f"{stem}.json": render_json(report),
        folder / f"{stem}.html": render_page(report),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            with NamedTemporaryFile(
                "w", encoding="utf-8", newline="\n", dir=folder, suffix=".tmp", delete=False
            ) as temporary:
                temporary.write(text)
            Path(temporary.name).replace(path)
    except OSError as error:
        raise unavailable("the report folder cannot be written", errno=error.errno) from None
    json_path, html_path = files
    return json_path, html_path


def below_floors(report: Mapping[str, Any], path: Path) -> list[dict[str, Any]]:
    """Give the figures of a report that break a floor: below `min`, above `max`, or absent.

    The set of floors is the one for the report's model and file names. Raises `invalid_input` where there is
    none, since floors that check nothing must not pass.
    """
    floors = _floors(path, report)
    values = {(figure["name"], figure["slice"]): figure["value"] for figure in _of_every_slice(report)}
    broken = []
    for floor in floors:
        value = values.get((floor["name"], floor["slice"]))
        low, high = floor.get("min"), floor.get("max")
        if value is None or (low is not None and value < low) or (high is not None and value > high):
            broken.append({**floor, "value": value})
    return broken


def _floors(path: Path, report: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        sets = tomllib.loads(path.read_text(encoding="utf-8")).get(report["kind"], {})
    except (OSError, ValueError):
        raise invalid("floors", "toml", "must be a readable TOML file") from None
    files = set(report["data"]["files"])
    for chosen in sets.values():
        if chosen.get("model") == report["model"] and set(chosen.get("files", [])) == files:
            break
    else:
        raise invalid("floors", "no_set", "the file has no floors for this model and these files")
    floors: list[dict[str, Any]] = chosen.get("floors", [])
    for keys in [set(floor) for floor in floors] or [set()]:
        if not {"name", "slice"} < keys <= {"name", "slice", "min", "max"}:
            raise invalid("floors", "floors", "each floor must have a name, a slice, and min or max")
    return floors


# -- terminal -------------------------------------------------------------------------------------

_MEANINGS = {
    "auc": "chance that a pair with the same fact lies nearer than one without; 0.5 is a coin toss",
    "precision@0.10": "of the pairs called near duplicates, the share that is the same fact",
    "recall@0.10": "of the pairs with the same fact, the share called near duplicates",
    "distinct_within@0.30": "of the pairs with distinct facts, the share wrongly called an overlap",
    "best_f1": "best balance of precision and recall that one threshold can give; 1 is perfect",
}


def render_table(report: Mapping[str, Any]) -> str:
    """Write the figures as aligned text: all pairs beside other models, slice by slice, what they mean."""
    pairs, at = report["pairs"], report["thresholds"]
    models = [report, *report["others"]]
    head = (
        f"overlap with {report['model']}: {pairs['all']} pairs, {pairs['not_compared']} not compared; "
        f"in force {_thresholds(at)}"
    )
    rows = [["figure", "value", "95 % interval", "n", *(other["model"] for other in report["others"])]]
    found = [_by_slice(model) for model in models]
    for name in (*FIXED, *OWN):
        figure = found[0]["all"].get(name)
        others = [_number(other["all"].get(name)) for other in found[1:]]
        if figure is None:
            rows.append([name, "-", "", "", *others])
        else:
            interval = f"{figure['low']:.3f} to {figure['high']:.3f}"
            rows.append([name, _number(figure), interval, str(figure["n"]), *others])
    slices = [["slice", *FIXED]]
    for name, figures in found[0].items():
        slices.append([name, *(_number(figures.get(figure)) for figure in FIXED)])
    width = max(map(len, _MEANINGS))
    meanings = "\n".join(f"{name.ljust(width)}  {meaning}" for name, meaning in _MEANINGS.items())
    return "\n\n".join([head, _aligned(rows), _aligned(slices), meanings])


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _by_slice(model: Mapping[str, Any]) -> dict[str, dict[str, Mapping[str, Any]]]:
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for figure in _of_every_slice(model):
        found.setdefault(figure["slice"], {})[figure["name"]] = figure
    return found


def _of_every_slice(model: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*model["figures"], *model["figures_by_length"]]


def _number(figure: Mapping[str, Any] | None) -> str:
    return "-" if figure is None else f"{figure['value']:.3f}"


# -- plots ----------------------------------------------------------------------------------------


def plots(report: Mapping[str, Any]) -> dict[str, bytes]:
    """Draw the report's curves as PNG images, by title; only what can be drawn is there."""
    curves = report["curves"]
    models = [report, *report["others"]]
    drawn: dict[str, bytes] = {}
    if curves["roc"]:
        drawn["ROC: same fact against the rest"] = _drawn(
            lambda ax: _lines(ax, models, "roc", "false positive rate", "recall")
        )
        drawn["Precision and recall: same fact against the rest"] = _drawn(
            lambda ax: _lines(ax, models, "precision_recall", "recall", "precision")
        )
    drawn["Precision and recall by threshold"] = _drawn(lambda ax: _sweep(ax, report))
    drawn["Distances by label"] = _drawn(lambda ax: _histogram(ax, report))
    if report["calibration"] is not None:
        drawn["Chance of the same fact by distance"] = _drawn(lambda ax: _chance(ax, report))
        drawn["Calibration on unseen pairs"] = _drawn(lambda ax: _reliability(ax, report))
    return drawn


def _drawn(draw: Any) -> bytes:
    figure = Figure(figsize=(5.6, 4.0), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    draw(axes)
    # Without metadata the bytes do not change with matplotlib's version number.
    held = BytesIO()
    figure.savefig(held, format="png", dpi=130, metadata={"Software": None})
    return held.getvalue()


def _lines(ax: Axes, models: Sequence[Mapping[str, Any]], curve: str, x: str, y: str) -> None:
    for model, colour in zip(models, _LINES, strict=False):
        points = model["curves"][curve]
        ax.plot([p[0] for p in points], [p[1] for p in points], color=colour, label=model["model"])
    ax.set(xlabel=x, ylabel=y, xlim=(0, 1.01), ylim=(0, 1.01))
    ax.legend(loc="lower right" if curve == "roc" else "lower left", frameon=False)


def _sweep(ax: Axes, report: Mapping[str, Any]) -> None:
    rows = report["curves"]["sweep"]
    at = [row["at"] for row in rows]
    for name, colour in (("same", _LINES[0]), ("related", _LINES[1])):
        for what, style in (("precision", "-"), ("recall", "--")):
            values = [
                float("nan") if row[f"{name}_{what}"] is None else row[f"{name}_{what}"] for row in rows
            ]
            ax.plot(at, values, style, color=colour, label=f"{what}, {name}")
    _in_force(ax, report)
    ax.set(xlabel="threshold (cosine distance)", ylabel="share", xlim=(0, 1), ylim=(0, 1.01))
    ax.legend(frameon=False, fontsize=8)


def _histogram(ax: Axes, report: Mapping[str, Any]) -> None:
    bins = report["curves"]["histogram"]
    last = max((i for counts in bins["counts"].values() for i, n in enumerate(counts) if n), default=0) + 1
    edges = [i * bins["width"] for i in range(last + 1)]
    for label in LABELS:
        counts = bins["counts"][label][:last]
        if sum(counts):
            shares = [n / sum(counts) for n in counts]
            ax.stairs(shares, edges, color=_COLOURS[label], label=f"{label} ({sum(counts)})", linewidth=1.6)
    _in_force(ax, report)
    ax.set(xlabel="cosine distance", ylabel="share of the label's pairs", xlim=(0, edges[-1]), ylim=(0, None))
    ax.legend(frameon=False, fontsize=8)


def _chance(ax: Axes, report: Mapping[str, Any]) -> None:
    for (name, fit), colour in zip(report["calibration"].items(), _LINES, strict=False):
        ax.plot([p[0] for p in fit["curve"]], [p[1] for p in fit["curve"]], color=colour, label=name)
    _in_force(ax, report)
    ax.set(xlabel="cosine distance", ylabel="chance of the same fact", xlim=(0, 1), ylim=(0, 1.01))
    ax.legend(frameon=False)


def _reliability(ax: Axes, report: Mapping[str, Any]) -> None:
    ax.plot([0, 1], [0, 1], color="#888888", linewidth=0.8)
    for (name, fit), colour in zip(report["calibration"].items(), _LINES, strict=False):
        bins = fit["reliability"]
        ax.scatter(
            [b["predicted"] for b in bins],
            [b["observed"] for b in bins],
            s=[12 + 120 * b["n"] / report["pairs"]["compared"] for b in bins],
            color=colour,
            alpha=0.7,
            label=f"{name}, Brier {fit['brier']:.3f}",
        )
    ax.set(
        xlabel="predicted chance", ylabel="share that is the same fact", xlim=(-0.03, 1.03), ylim=(-0.03, 1.2)
    )
    ax.legend(frameon=False, loc="upper left", ncols=2, fontsize=8)


def _in_force(ax: Axes, report: Mapping[str, Any]) -> None:
    for at in (report["thresholds"]["near_duplicate_at"], report["thresholds"]["overlap_at"]):
        ax.axvline(at, color="#444444", linewidth=0.8, linestyle=":")


# -- page -----------------------------------------------------------------------------------------

_LEGEND = (
    "Distances are cosine distances; lower is closer. Positive are duplicate and updated pairs; for "
    "overlap_at, best_f1_overlap, precision@0.30 and recall@0.30 overlap pairs too. The names keep 0.10 and "
    "0.30 whatever is in force; near_duplicate_at and overlap_at are the tuned distances. In brackets: 95 % "
    "bootstrap interval; n is what a figure counts over."
)
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2530; background: #fff; max-width: 1200px;
  margin: 2rem auto; padding: 0 1.5rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid #d8dee6 }
table { border-collapse: collapse; width: 100%; font-size: .88rem }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid #e6eaf0; vertical-align: top }
th:first-child, td:first-child, .text td, .text th { text-align: left; overflow-wrap: anywhere }
.text td { min-width: 5.5rem }
th { background: #f5f7fa; font-weight: 600 } small { color: #66707d; white-space: nowrap }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(480px, 1fr)); gap: 1rem }
figure { margin: 0 } figcaption { font-size: .88rem; color: #46505c } img { width: 100%; height: auto }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; font-size: .88rem }
dt { color: #66707d } dd { margin: 0; overflow-wrap: anywhere }
"""


def render_page(report: Mapping[str, Any]) -> str:
    """Write the report as one page of HTML that needs nothing else; light, readable from 1,000 pixels on."""
    pairs, at, data = report["pairs"], report["thresholds"], report["data"]
    models = [report, *report["others"]]
    facts = {
        "model": report["model"],
        "pairs": f"{pairs['all']} ({_counts(pairs['labels'])}); {pairs['not_compared']} not compared",
        "thresholds in force": _thresholds(at),
        "files": ", ".join(data["files"]),
        "digest of the pairs": data["digest"],
        "digest of the policy": report["policy_digest"],
        "version": f"{report['version'] or 'not installed'}, commit {report['commit'] or 'unknown'}"
        + (", changed since" if report["dirty"] else ""),
        "measured at": report["created_at"],
    }
    parts = [
        "<h1>Overlap: does distance tell the same fact from another?</h1>",
        "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items()) + "</dl>",
        "<h2>All pairs</h2>",
        f"<p>{_LEGEND}</p>",
        _table(
            ["figure", *(model["model"] for model in models)],
            (
                [
                    escape(name),
                    *(_cell(_by_slice(model).get("all", {}).get(name), count=True) for model in models),
                ]
                for name in (*FIXED, *OWN)
            ),
        ),
        '<h2>Curves</h2><div class="plots">',
        *(_plot(title, image) for title, image in plots(report).items()),
        "</div>",
    ]
    for model in models:
        parts += [
            f"<h2>Slice by slice, {escape(model['model'])}</h2>",
            _table(
                ["slice", *FIXED],
                (
                    [escape(name), *(_cell(figures.get(figure)) for figure in FIXED)]
                    for name, figures in _by_slice(model).items()
                ),
            ),
        ]
    for side, title in _SIDES.items():
        parts += [f"<h2>{escape(title)}</h2>", _wrong(report["nearest_wrong"][side], texts=data["texts"])]
    parts += [
        "<h2>Not defined</h2><details><summary>What these pairs cannot give, with the count</summary>",
        _table(
            ["figure", "slice", "n", "why"],
            ([escape(str(row[key])) for key in ("name", "slice", "n", "why")] for row in report["undefined"]),
            text=True,
        ),
        "</details>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Overlap, {escape(report['model'])}</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _thresholds(at: Mapping[str, Any]) -> str:
    kind = "tuned" if at["tuned"] else "defaults"
    return f"near_duplicate_at {at['near_duplicate_at']:g}, overlap_at {at['overlap_at']:g} ({kind})"


def _counts(labels: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {label}" for label, n in labels.items())


def _cell(figure: Mapping[str, Any] | None, *, count: bool = False) -> str:
    if figure is None:
        return "-"
    interval = f"[{figure['low']:.3f}, {figure['high']:.3f}]" + (f", n {figure['n']}" if count else "")
    return f"{figure['value']:.3f} <small>{interval}</small>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, text: bool = False) -> str:
    """Write a table; cells are HTML already, heads are not."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    kind = ' class="text"' if text else ""
    return f"<table{kind}><tr>{top}</tr>{body}</table>"


def _plot(title: str, image: bytes) -> str:
    coded = b64encode(image).decode()
    return (
        f'<figure><img alt="{escape(title)}" src="data:image/png;base64,{coded}">'
        f"<figcaption>{escape(title)}</figcaption></figure>"
    )


def _wrong(rows: Sequence[Mapping[str, Any]], *, texts: bool) -> str:
    if not rows:
        return "<p>None.</p>"
    keys = ("a", "b") if texts else ()
    return _table(
        ["pair", "distance", "label", "languages", "kind", *keys],
        (
            [
                escape(row["id"]),
                f"{row['distance']:.3f}",
                escape(row["label"]),
                escape(" / ".join(language or "?" for language in row["languages"])),
                escape(row["kind"] or "-"),
                *(escape(row[key]) for key in keys),
            ]
            for row in rows
        ),
        text=True,
    )


__all__ = [
    "FIXED",
    "OWN",
    "below_floors",
    "build",
    "origin",
    "plots",
    "read",
    "render_json",
    "render_page",
    "render_table",
    "write",
]
