"""Figures over stored distances: how well they rank, what a threshold gives, how sure it is, what they mean.

Lower is closer everywhere: a pair is *within* a threshold when its distance is at it or below, never above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, precision_recall_curve, roc_curve
from sklearn.model_selection import StratifiedKFold

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

RESAMPLES = 1_000
SEED = 20_260
# Thresholds are tuned on this grid, so that the number a space approves is the number that was measured.
GRID: Floats = np.round(np.arange(0, 2.0005, 0.001), 3)
_CURVE_POINTS = 400
_RESAMPLES_AT_ONCE = 50
_FOLDS = 5
_BINS = 10


class Ranking:
    """Pairs sorted by distance, of which some are positive; under one or many sets of weights at once.

    `weights` is (resamples, pairs): how often each pair counts. Each method gives one value a resample,
    shape (resamples,), NaN where the figure is undefined; without weights there is one.
    """

    def __init__(self, distances: Floats, positive: Flags, weights: NDArray[np.int32] | None = None) -> None:
        order = np.argsort(distances, kind="stable")
        self._distances = distances[order]
        counted = np.ones((1, len(order)), np.int32) if weights is None else weights[:, order]
        none = np.zeros((len(counted), 1), np.int64)
        self._positives = np.hstack([none, np.cumsum(counted * positive[order], axis=1, dtype=np.int64)])
        self._pairs = np.hstack([none, np.cumsum(counted, axis=1, dtype=np.int64)])

    def _within(self, thresholds: Floats | float) -> tuple[Floats, Floats]:
        """Count positives and pairs at each threshold or nearer; both (resamples, thresholds)."""
        ends = np.searchsorted(self._distances, np.atleast_1d(thresholds), side="right")
        return self._positives[:, ends].astype(np.float64), self._pairs[:, ends].astype(np.float64)

    def _f1(self, thresholds: Floats) -> Floats:
        hits, within = self._within(thresholds)
        return _share(2 * hits, within + self._positives[:, -1:])

    def auc(self) -> Floats:
        """Give the chance that a positive lies nearer than another pair, a tie counting half."""
        hits, within = self._within(np.unique(self._distances))
        false = within - hits
        steps = np.diff(hits, prepend=0, axis=1)
        mistaken = (false + np.hstack([np.zeros((len(false), 1)), false[:, :-1]])) / 2
        return 1 - _share((steps * mistaken).sum(axis=1), hits[:, -1] * false[:, -1])

    def precision_at(self, threshold: float) -> Floats:
        """Give the share of positives among the pairs within; undefined where none is."""
        hits, within = self._within(threshold)
        return _share(hits, within)[:, 0]

    def recall_at(self, threshold: float) -> Floats:
        """Give the share of the positives that lie within; undefined where there are none."""
        hits, _ = self._within(threshold)
        return _share(hits[:, 0], self._positives[:, -1].astype(np.float64))

    def best_f1(self) -> Floats:
        """Give the greatest F1 that any threshold reaches; undefined without positives."""
        best: Floats = self._f1(np.unique(self._distances)).max(axis=1)
        return np.where(self._positives[:, -1] > 0, best, np.nan)

    def threshold_for_precision(self, wanted: float) -> Floats:
        """Give the largest threshold of `GRID` that still has the wanted precision and finds something."""
        hits, within = self._within(GRID)
        reached = (hits > 0) & (hits >= wanted * within - 1e-9)
        last = reached.shape[1] - 1 - np.argmax(reached[:, ::-1], axis=1)
        return np.where(reached.any(axis=1), GRID[last], np.nan)

    def threshold_of_best_f1(self, not_below: Floats | float = 0.0) -> Floats:
        """Give the smallest threshold of `GRID` with the best F1 among those not below a bound a resample."""
        f1 = self._f1(GRID)
        bound = np.broadcast_to(np.nan_to_num(np.asarray(not_below, np.float64)), (len(f1),))
        f1 = np.where(GRID[None, :] >= bound[:, None] - 1e-9, f1, -1.0)
        return np.where(self._positives[:, -1] > 0, GRID[np.argmax(f1, axis=1)], np.nan)


def _share(part: Floats, whole: Floats) -> Floats:
    shares: Floats = np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=whole > 0)
    return shares


def resamples(strata: NDArray[Any], number: int = RESAMPLES, seed: int = SEED) -> Iterator[NDArray[np.int32]]:
    """Draw pairs with replacement inside each stratum; give blocks of weights (resamples, pairs).

    The same strata and seed give the same draws, whatever else was measured before.
    """
    random = np.random.default_rng(seed)
    members = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]
    for start in range(0, number, _RESAMPLES_AT_ONCE):
        block = min(_RESAMPLES_AT_ONCE, number - start)
        weights = np.zeros((block, len(strata)), np.int32)
        for inside in members:
            drawn = random.integers(0, len(inside), size=(block, len(inside)))
            drawn += np.arange(block)[:, None] * len(inside)
            counts = np.bincount(drawn.ravel(), minlength=block * len(inside))
            weights[:, inside] = counts.reshape(block, len(inside))
        yield weights


def intervals(
    measure: Callable[[NDArray[np.int32] | None], Mapping[str, Floats]],
    strata: NDArray[Any],
    number: int = RESAMPLES,
    seed: int = SEED,
) -> dict[str, tuple[float, float, float]]:
    """Give value and 95 % bootstrap interval (percentiles) of each figure that `measure` gives for weights.

    Figures that are undefined on the pairs themselves are left out; resamples where one is undefined
    do not count for it.
    """
    values = {name: float(value[0]) for name, value in measure(None).items() if not np.isnan(value[0])}
    drawn: dict[str, list[Floats]] = {name: [] for name in values}
    for weights in resamples(strata, number, seed):
        for name, resampled in measure(weights).items():
            if name in drawn:
                drawn[name].append(resampled)
    bounds = {}
    for name, value in values.items():
        defined = np.concatenate(drawn[name])
        defined = defined[~np.isnan(defined)]
        # "nearest" keeps the bounds of a threshold on the grid.
        low, high = np.percentile(defined, [2.5, 97.5], method="nearest") if len(defined) else (value, value)
        bounds[name] = (value, float(low), float(high))
    return bounds


def curves(distances: Floats, positive: Flags) -> dict[str, list[list[float]]]:
    """Give the ROC curve (false positive rate, recall) and the precision-recall curve (recall, precision).

    Empty where one side has no pair; thinned to some hundred points.
    """
    if positive.all() or not positive.any():
        return {"roc": [], "precision_recall": []}
    false, true, _ = roc_curve(positive, -distances)
    precision, recall, _ = precision_recall_curve(positive, -distances, drop_intermediate=True)
    return {"roc": _points(false, true), "precision_recall": _points(recall[::-1], precision[::-1])}


def _points(x: Floats, y: Floats) -> list[list[float]]:
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), _CURVE_POINTS)).round().astype(int))
    return [[round(float(x[i]), 6), round(float(y[i]), 6)] for i in kept]


def histogram(distances: Floats, width: float = 0.05) -> list[int]:
    """Count distances from 0 to 2 in bins of `width`; the last bin holds its upper edge."""
    counts, _ = np.histogram(distances, bins=np.arange(0, 2 + width / 2, width))
    return [int(count) for count in counts]


def calibration(distances: Floats, positive: Flags, seed: int = SEED) -> dict[str, Any] | None:
    """Fit the chance that a pair at a distance is positive, two ways, and say how honest each is.

    `logistic`: a sigmoid; `isotonic`: any curve that never rises with distance. `reliability` and `brier`
    come from chances given to pairs that the fit had not seen (five folds), the curves from a fit on all.
    None where either side has fewer than ten pairs.
    """
    if min(int(positive.sum()), int((~positive).sum())) < 2 * _FOLDS:
        return None
    fits: dict[str, Callable[[Floats, Flags], Callable[[Floats], Floats]]] = {
        "logistic": _fit_logistic,
        "isotonic": _fit_isotonic,
    }
    folds = list(StratifiedKFold(_FOLDS, shuffle=True, random_state=seed).split(distances, positive))
    at = np.round(np.arange(0, 1.0001, 0.02), 2)
    out: dict[str, Any] = {}
    for name, fit in fits.items():
        unseen = np.empty(len(distances))
        for seen, held in folds:
            unseen[held] = fit(distances[seen], positive[seen])(distances[held])
        chances = fit(distances, positive)(at)
        out[name] = {
            "brier": round(float(brier_score_loss(positive, unseen)), 6),
            "reliability": _reliability(unseen, positive),
            "curve": [[float(d), round(float(p), 6)] for d, p in zip(at, chances, strict=True)],
        }
    return out


def _fit_logistic(distances: Floats, positive: Flags) -> Callable[[Floats], Floats]:
    # C is large: one feature and many pairs leave nothing to regularise, and Platt 1999 has no penalty.
    model = LogisticRegression(C=1e6).fit(distances[:, None], positive)
    return lambda at: model.predict_proba(at[:, None])[:, 1]


def _fit_isotonic(distances: Floats, positive: Flags) -> Callable[[Floats], Floats]:
    model = IsotonicRegression(y_min=0, y_max=1, increasing=False, out_of_bounds="clip")
    predict: Callable[[Floats], Floats] = model.fit(distances, positive).predict
    return predict


def _reliability(chances: Floats, positive: Flags) -> list[dict[str, float | int]]:
    bins = np.minimum((chances * _BINS).astype(int), _BINS - 1)
    return [
        {
            "from": round(i / _BINS, 1),
            "to": round((i + 1) / _BINS, 1),
            "n": int((bins == i).sum()),
            "predicted": round(float(chances[bins == i].mean()), 6),
            "observed": round(float(positive[bins == i].mean()), 6),
        }
        for i in range(_BINS)
        if (bins == i).any()
    ]


__all__ = [
    "GRID",
    "RESAMPLES",
    "SEED",
    "Ranking",
    "calibration",
    "curves",
    "histogram",
    "intervals",
    "resamples",
]
