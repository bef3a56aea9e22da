"""How well distance tells the same fact from another: embed a text once, keep each score, sweep thresholds.

Thresholds belong to the model they were measured on: they are looked up by its id, never lent to another.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from eval.datasets import LABELS, Pair
from eval.metrics import RESAMPLES, Ranking, calibration, curves, histogram, intervals
from memory_core.embedding import Embedder
from memory_core.errors import conflict, invalid
from memory_core.policy import Policy, Thresholds
from memory_core.rules.overlap import distances

Vector = NDArray[np.float32]
Floats = NDArray[np.float64]

SAME = ("duplicate", "updated")
RELATED = ("duplicate", "updated", "overlap")
WANTED_PRECISION = 0.99
_WRONG_PAIRS = 15
_TEXTS_AT_ONCE = 64
_BIN = 0.05
# What recipes treat their own way: where its vector changes, the cached ones are of another recipe.
_PROBE = (
    "## Probe\n\n> quoted line\n\n<!-- remark -->\n"
    "- **Élan** raised [€4.5M](https://probe.example/a?b=1) on 2 May 2025.\n* ÄRGER | ŁÓDŹ | `code`\n"
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Pairs with their distances under one model, (n,), NaN where it could not read one of the texts."""

    model_id: str
    pairs: tuple[Pair, ...] = field(repr=False)
    distances: Floats = field(repr=False)


def embed_once(texts: Iterable[str], embedder: Embedder, cache: Path | None) -> dict[str, Vector | None]:
    """Embed each different text once; give vectors by SHA-256 of the text, None where none can be had.

    `cache` is a folder that keeps them by model and content. Pass None for a space's own texts: their
    vectors stay in the sealed store. What was embedded before an interruption is kept.
    """
    wanted = {_key(text): text for text in texts}
    file = None if cache is None else cache / f"vectors-{embedder.model_id}.npz"
    probe = None if file is None else _probe(embedder)
    known = {} if file is None or probe is None else _cached(file, embedder.model_id, probe)
    missing = [key for key in wanted if key not in known]
    kept = len(known)
    try:
        with tqdm(
            total=len(missing), desc=f"embedding, {embedder.model_id}", unit="text", disable=None
        ) as bar:
            for start in range(0, len(missing), _TEXTS_AT_ONCE):
                keys = missing[start : start + _TEXTS_AT_ONCE]
                known.update(zip(keys, embedder.embed([wanted[key] for key in keys]), strict=True))
                bar.update(len(keys))
    finally:
        if file is not None and probe is not None and len(known) > kept:
            _keep(file, known, probe)
    return {key: known[key] for key in wanted}


def score(pairs: Sequence[Pair], embedder: Embedder, cache: Path | None) -> Scored:
    """Give every pair its distance, by the core's own rule. `cache` as in `embed_once`."""
    vectors = embed_once((text for pair in pairs for text in (pair.a, pair.b)), embedder, cache)
    scores = np.full(len(pairs), np.nan)
    for i, pair in enumerate(pairs):
        a, b = vectors[_key(pair.a)], vectors[_key(pair.b)]
        if a is not None and b is not None:
            # Six decimals: the rest is rounding of sums and differs from one machine to the next.
            scores[i] = round(float(distances(a, b[None, :])[0]), 6)
    return Scored(model_id=embedder.model_id, pairs=tuple(pairs), distances=scores)


def measure(
    scored: Scored,
    policy: Policy,
    *,
    wanted_precision: float = WANTED_PRECISION,
    texts: bool = True,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """Give all that a report says of one model, ready for JSON.

    The thresholds in force are those `policy` has for this very model. `texts` false keeps every excerpt out,
    as a space's own pairs require. Raises `invalid_input` where no pair could be compared.
    """
    compared = ~np.isnan(scored.distances)
    if not compared.any():
        raise invalid("pairs", "not_compared", "the model can read none of these pairs")
    thresholds = policy.thresholds(scored.model_id)
    labels = np.array([pair.label for pair in scored.pairs])
    figures: list[dict[str, Any]] = []
    by_length: list[dict[str, Any]] = []
    undefined: list[dict[str, Any]] = []
    for name, members in slices(scored.pairs).items():
        chosen = members & compared
        defined, missing = _figures(
            scored.distances[chosen], labels[chosen], thresholds, wanted_precision, resamples
        )
        # The slices of `figures` are a closed set that readers outside rely on; lengths are not of it.
        rows = by_length if name.startswith("length=") else figures
        rows += [{"name": figure, "slice": name, **rest} for figure, rest in defined.items()]
        undefined += [{"name": figure, "slice": name, **rest} for figure, rest in missing.items()]
    d, said = scored.distances[compared], labels[compared]
    same = np.isin(said, SAME)
    return {
        "model": scored.model_id,
        "thresholds": {
            "near_duplicate_at": thresholds.near_duplicate_at,
            "overlap_at": thresholds.overlap_at,
            "tuned": thresholds.tuned,
        },
        "pairs": {
            "all": len(labels),
            "compared": int(compared.sum()),
            "not_compared": int((~compared).sum()),
            "not_compared_ids": [scored.pairs[i].pair_id for i in np.flatnonzero(~compared)],
            "labels": {label: int((said == label).sum()) for label in LABELS},
        },
        "figures": figures,
        "figures_by_length": by_length,
        "undefined": undefined,
        "tuned": _tuned(figures, d, said, wanted_precision),
        "nearest_wrong": _nearest_wrong(scored, thresholds, policy.excerpt_chars if texts else None),
        "curves": {
            **curves(d, same),
            "sweep": _sweep(d, said),
            "histogram": {
                "width": _BIN,
                "counts": {label: histogram(d[said == label], _BIN) for label in LABELS},
            },
        },
        "calibration": calibration(d, same),
    }


def slices(pairs: Sequence[Pair]) -> dict[str, NDArray[np.bool_]]:
    """Name the groups that figures are given for; `lang=xx` holds the pairs of which both texts are in xx."""
    names: dict[str, list[bool]] = {"all": [True] * len(pairs)}
    found: dict[str, set[str]] = {
        "lang": set(),
        "languages": set(),
        "source": set(),
        "kind": set(),
        "length": set(),
    }
    groups = [_groups(pair) for pair in pairs]
    for group in groups:
        for name, value in group.items():
            found[name].add(value)
    for name, values in found.items():
        for value in sorted(values):
            names[f"{name}={value}"] = [group.get(name) == value for group in groups]
    return {name: np.array(members, dtype=np.bool_) for name, members in names.items()}


def settings_from(report: Mapping[str, Any], model_id: str) -> dict[str, float]:
    """Give a report's tuned thresholds as the settings of the model they were measured on.

    Refuses with `conflict` where `model_id` is another one: distances of two models do not compare.
    """
    if report["model"] != model_id:
        raise conflict(
            "conflict",
            f"these thresholds were measured with {report['model']} and cannot be used with {model_id}",
            field="model",
            rule="same_model",
            measured=report["model"],
            wanted=model_id,
        )
    return {f"overlap.{model_id}.{name}": tuned["value"] for name, tuned in report["tuned"].items()}


def _groups(pair: Pair) -> dict[str, str]:
    group = {"source": pair.source, "length": pair.length}
    if pair.kind is not None:
        group["kind"] = pair.kind
    if pair.lang_a is not None and pair.lang_b is not None:
        group["languages"] = "same" if pair.lang_a == pair.lang_b else "across"
        if pair.lang_a == pair.lang_b:
            group["lang"] = pair.lang_a
    return group


def _figures(
    d: Floats, labels: NDArray[Any], thresholds: Thresholds, wanted_precision: float, resamples: int
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Give the figures of one slice, and those it cannot have with the count that was too small and why.

    `n` is what a figure counts over: the pairs within for a precision, the positives for a recall, the
    distinct pairs for `distinct_within`, the pairs of the slice for the rest.
    """
    same, related, distinct = np.isin(labels, SAME), np.isin(labels, RELATED), labels == "distinct"
    near_at, overlap_at = thresholds.near_duplicate_at, thresholds.overlap_at

    two_sided = {"auc": same, "precision@0.10": same, "best_f1": same, "near_duplicate_at": same}
    two_sided |= {"precision@0.30": related, "best_f1_overlap": related, "overlap_at": related}
    counted = {
        "auc": len(d),
        "precision@0.10": int((d <= near_at).sum()),
        "recall@0.10": int(same.sum()),
        "distinct_within@0.30": int(distinct.sum()),
        "best_f1": len(d),
        "precision@0.30": int((d <= overlap_at).sum()),
        "recall@0.30": int(related.sum()),
        "best_f1_overlap": len(d),
        "near_duplicate_at": len(d),
        "overlap_at": len(d),
    }
    missing: dict[str, dict[str, Any]] = {}
    for name, n in counted.items():
        positive = two_sided.get(name)
        if positive is not None and (positive.all() or not positive.any()):
            why = f"needs pairs of both sides: {int(positive.sum())} positive, {int((~positive).sum())} other"
            missing[name] = {"n": n, "why": why}
        elif n == 0:
            missing[name] = {"n": 0, "why": "nothing to count over"}

    def measured(weights: NDArray[np.int32] | None) -> dict[str, Floats]:
        facts, shared = Ranking(d, same, weights), Ranking(d, related, weights)
        tuned = facts.threshold_for_precision(wanted_precision)
        values = {
            "auc": facts.auc(),
            "precision@0.10": facts.precision_at(near_at),
            "recall@0.10": facts.recall_at(near_at),
            "distinct_within@0.30": Ranking(d, distinct, weights).recall_at(overlap_at),
            "best_f1": facts.best_f1(),
            "precision@0.30": shared.precision_at(overlap_at),
            "recall@0.30": shared.recall_at(overlap_at),
            "best_f1_overlap": shared.best_f1(),
            "near_duplicate_at": tuned,
            "overlap_at": shared.threshold_of_best_f1(not_below=tuned),
        }
        return {name: values[name] for name in counted if name not in missing}

    values = intervals(measured, labels, resamples) if len(missing) < len(counted) else {}
    unreached = {"why": f"no threshold reaches precision {wanted_precision}"}
    missing |= {
        name: {"n": n, **unreached}
        for name, n in counted.items()
        if name not in values and name not in missing
    }
    defined = {
        name: {"value": round(value, 6), "low": round(low, 6), "high": round(high, 6), "n": counted[name]}
        for name, (value, low, high) in values.items()
    }
    return defined, missing


def _tuned(
    figures: Sequence[Mapping[str, Any]], d: Floats, labels: NDArray[Any], wanted_precision: float
) -> dict[str, dict[str, Any]]:
    """Give the tuned thresholds over all pairs with what they were tuned for and what they reach there."""
    positives = {"near_duplicate_at": SAME, "overlap_at": RELATED}
    aims: dict[str, dict[str, Any]] = {
        "near_duplicate_at": {"wanted_precision": wanted_precision},
        "overlap_at": {"wanted": "best F1"},
    }
    tuned = {}
    for figure in figures:
        if figure["slice"] == "all" and figure["name"] in positives:
            name, at = figure["name"], figure["value"]
            ranking = Ranking(d, np.isin(labels, positives[name]))
            tuned[name] = {
                "value": at,
                "low": figure["low"],
                "high": figure["high"],
                **aims[name],
                "precision": round(float(ranking.precision_at(at)[0]), 6),
                "recall": round(float(ranking.recall_at(at)[0]), 6),
            }
    return tuned


def _sweep(d: Floats, labels: NDArray[Any]) -> list[dict[str, float | None]]:
    """Give precision and recall at every hundredth up to 1; null where there is none to count."""
    rows: list[dict[str, float | None]] = []
    rankings = {"same": Ranking(d, np.isin(labels, SAME)), "related": Ranking(d, np.isin(labels, RELATED))}
    for at in np.round(np.arange(0, 1.0001, 0.01), 2):
        row: dict[str, float | None] = {"at": float(at)}
        for name, ranking in rankings.items():
            for what, value in (
                ("precision", ranking.precision_at(at)[0]),
                ("recall", ranking.recall_at(at)[0]),
            ):
                row[f"{name}_{what}"] = None if np.isnan(value) else round(float(value), 6)
        rows.append(row)
    return rows


def _nearest_wrong(
    scored: Scored, thresholds: Thresholds, excerpt_chars: int | None
) -> dict[str, list[dict[str, Any]]]:
    """Show where distance errs most: other facts lying nearest, same facts just beyond and far off."""
    order = np.argsort(scored.distances, kind="stable")
    order = order[~np.isnan(scored.distances[order])]
    same = [i for i in order if scored.pairs[i].label in SAME]
    beyond = [i for i in same if scored.distances[i] > thresholds.near_duplicate_at]
    chosen = {
        "other_fact_nearest": [i for i in order if scored.pairs[i].label not in SAME][:_WRONG_PAIRS],
        "same_fact_just_beyond": beyond[:_WRONG_PAIRS],
        "same_fact_furthest": beyond[::-1][:_WRONG_PAIRS],
    }
    return {side: [_shown(scored, i, excerpt_chars) for i in rows] for side, rows in chosen.items()}


def _shown(scored: Scored, i: int, excerpt_chars: int | None) -> dict[str, Any]:
    pair = scored.pairs[i]
    row: dict[str, Any] = {
        "id": pair.pair_id,
        "distance": float(scored.distances[i]),
        "label": pair.label,
        "languages": [pair.lang_a, pair.lang_b],
        "kind": pair.kind,
    }
    if excerpt_chars is not None:
        row |= {side: _excerpt(text, excerpt_chars) for side, text in (("a", pair.a), ("b", pair.b))}
    return row


def _excerpt(text: str, chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def _key(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _cached(file: Path, model_id: str, probe: Vector) -> dict[str, Vector | None]:
    """Read the vectors kept for this model; none where the file is damaged or the recipe has changed."""
    if not file.exists():
        return {}
    try:
        with np.load(file, allow_pickle=False) as kept:
            was, keys, read, vectors = (kept[name] for name in ("probe", "keys", "read", "vectors"))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        _log.warning("the cache of vectors for %s cannot be read and is made anew", model_id)
        return {}
    if was.shape != probe.shape or not np.allclose(was, probe, atol=1e-5):
        _log.warning("the cache of vectors for %s is of another recipe and is made anew", model_id)
        return {}
    rows = zip(keys.tolist(), read.tolist(), vectors, strict=True)
    return {key: vector if was_read else None for key, was_read, vector in rows}


def _keep(file: Path, known: Mapping[str, Vector | None], probe: Vector) -> None:
    """Write the cache whole or not at all: another run may be reading it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    empty = np.zeros_like(probe)
    with NamedTemporaryFile(dir=file.parent, suffix=".tmp", delete=False) as temporary:
        np.savez(
            temporary,
            probe=probe,
            keys=np.array(list(known), dtype="U64"),
            read=np.array([vector is not None for vector in known.values()]),
            vectors=np.stack([empty if vector is None else vector for vector in known.values()]),
        )
    Path(temporary.name).replace(file)


def _probe(embedder: Embedder) -> Vector | None:
    """Embed the probe; None (a model that cannot read it) means that nothing is cached."""
    vectors: list[Vector | None] = embedder.embed([_PROBE])
    return vectors[0]


__all__ = [
    "RELATED",
    "SAME",
    "WANTED_PRECISION",
    "Scored",
    "embed_once",
    "measure",
    "score",
    "settings_from",
    "slices",
]
