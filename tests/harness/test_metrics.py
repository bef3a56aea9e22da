"""Figures over distances agree with values worked out by hand and with scikit-learn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score

from eval.metrics import GRID, Ranking, calibration, curves, histogram, intervals, resamples

#                      same  same  other same  other
HAND = np.array([0.05, 0.10, 0.10, 0.40, 0.70])
HAND_POSITIVE = np.array([True, True, False, True, False])


def drawn(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    positive = random.random(n) < 0.4
    distances = np.round(np.where(positive, random.normal(0.25, 0.15, n), random.normal(0.5, 0.15, n)), 2)
    return np.clip(distances, 0, 2), positive


def test_figures_worked_out_by_hand() -> None:
    """The pair at exactly the threshold counts as within; a tie counts half in the AUC."""
    ranking = Ranking(HAND, HAND_POSITIVE)
    assert ranking.precision_at(0.10)[0] == pytest.approx(2 / 3)
    assert ranking.recall_at(0.10)[0] == pytest.approx(2 / 3)
    assert ranking.precision_at(0.0999)[0] == pytest.approx(1)
    # Six comparisons of a positive with another: won 1+1, tied and won 0.5+1, lost and won 0+1.
    assert ranking.auc()[0] == pytest.approx(4.5 / 6)
    # At 0.40: three of four are positive, all three found: F1 = 2*3 / (4+3).
    assert ranking.best_f1()[0] == pytest.approx(6 / 7)
    assert ranking.threshold_of_best_f1()[0] == pytest.approx(0.40)
    assert ranking.threshold_for_precision(1.0)[0] == pytest.approx(0.099)
    assert ranking.threshold_for_precision(0.75)[0] == pytest.approx(0.699)


def test_undefined_figures_are_nan_and_never_zero() -> None:
    ranking = Ranking(HAND, np.zeros(5, np.bool_))
    assert np.isnan(ranking.auc()[0])
    assert np.isnan(ranking.recall_at(0.5)[0])
    assert np.isnan(ranking.best_f1()[0])
    assert np.isnan(ranking.threshold_of_best_f1()[0])
    assert np.isnan(ranking.threshold_for_precision(0.5)[0])
    assert np.isnan(Ranking(HAND, HAND_POSITIVE).precision_at(0.01)[0])


def test_best_f1_threshold_stays_above_its_bound() -> None:
    assert Ranking(HAND, HAND_POSITIVE).threshold_of_best_f1(not_below=0.5)[0] == pytest.approx(0.5)


def test_figures_agree_with_scikit_learn() -> None:
    distances, positive = drawn()
    ranking = Ranking(distances, positive)
    assert ranking.auc()[0] == pytest.approx(roc_auc_score(positive, -distances))
    for at in (0.1, 0.3, 0.5):
        assert ranking.precision_at(at)[0] == pytest.approx(precision_score(positive, distances <= at))
        assert ranking.recall_at(at)[0] == pytest.approx(recall_score(positive, distances <= at))
    best = max(f1_score(positive, distances <= at) for at in np.unique(distances))
    assert ranking.best_f1()[0] == pytest.approx(best)
    at = ranking.threshold_of_best_f1()[0]
    assert f1_score(positive, distances <= at) == pytest.approx(best)


def test_tuned_threshold_is_the_largest_with_the_wanted_precision() -> None:
    distances, positive = drawn()
    at = Ranking(distances, positive).threshold_for_precision(0.9)[0]
    precisions = {float(t): precision_score(positive, distances <= t, zero_division=0.0) for t in GRID}
    assert at == max(t for t, precision in precisions.items() if precision >= 0.9)


def test_weighted_figures_equal_those_of_repeated_pairs() -> None:
    """A resample as weights gives what the pairs written out as often would give."""
    distances, positive = drawn(60)
    (weights,) = resamples(positive, number=5)
    ranking = Ranking(distances, positive, weights)
    for i in range(5):
        again = Ranking(np.repeat(distances, weights[i]), np.repeat(positive, weights[i]))
        assert ranking.auc()[i] == pytest.approx(again.auc()[0])
        assert ranking.best_f1()[i] == pytest.approx(again.best_f1()[0])
        assert ranking.precision_at(0.3)[i] == pytest.approx(again.precision_at(0.3)[0])
        assert ranking.threshold_for_precision(0.9)[i] == again.threshold_for_precision(0.9)[0]


def test_resamples_keep_the_size_of_every_stratum_and_repeat_by_seed() -> None:
    strata = np.array(["a"] * 3 + ["b"] * 5)
    first = np.concatenate(list(resamples(strata, number=120)))
    assert first.shape == (120, 8)
    assert (first[:, :3].sum(axis=1) == 3).all()
    assert (first[:, 3:].sum(axis=1) == 5).all()
    assert (first == np.concatenate(list(resamples(strata, number=120)))).all()
    assert (first != np.concatenate(list(resamples(strata, number=120, seed=1)))).any()


def test_interval_covers_what_the_theory_of_a_share_says() -> None:
    """For a recall of 30 in 100 the bootstrap interval is that of the binomial, about 0.30 +- 0.09."""
    distances = np.array([0.1] * 30 + [0.9] * 70)
    positive = np.ones(100, np.bool_)
    value, low, high = intervals(
        lambda w: {"recall": Ranking(distances, positive, w).recall_at(0.5)}, positive
    )["recall"]
    assert value == pytest.approx(0.30)
    assert low == pytest.approx(0.21, abs=0.015)
    assert high == pytest.approx(0.39, abs=0.015)


def test_undefined_figures_have_no_interval() -> None:
    positive = np.zeros(5, np.bool_)
    assert intervals(lambda w: {"recall": Ranking(HAND, positive, w).recall_at(0.5)}, positive) == {}


def test_curves_are_those_of_the_pairs_and_empty_for_one_side() -> None:
    roc = curves(HAND, HAND_POSITIVE)["roc"]
    assert roc[0] == [0.0, 0.0]
    assert [0.5, pytest.approx(2 / 3, abs=1e-6)] in roc
    assert roc[-1] == [1.0, 1.0]
    assert curves(HAND, np.ones(5, np.bool_)) == {"roc": [], "precision_recall": []}


def test_histogram_holds_every_pair_once() -> None:
    counts = histogram(np.array([0.0, 0.049, 0.05, 1.99, 2.0]))
    assert len(counts) == 40
    assert (counts[0], counts[1], counts[-1]) == (2, 1, 2)


def test_calibration_falls_with_distance_and_is_measured_on_unseen_pairs() -> None:
    distances, positive = drawn()
    fitted = calibration(distances, positive)
    assert fitted is not None
    for fit in fitted.values():
        chances = [chance for _, chance in fit["curve"]]
        assert all(before >= after for before, after in pairwise(chances))
        assert sum(row["n"] for row in fit["reliability"]) == len(distances)
        # Worse than a coin would be 0.25; these sides overlap but differ.
        assert fit["brier"] < 0.2
    assert calibration(HAND, HAND_POSITIVE) is None
