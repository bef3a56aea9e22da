"""Over the payload limit the notes that say most come first, and each is whole or left out."""

from __future__ import annotations

import numpy as np

from memory_core.rules.ranking import Vector, by_focus, by_relevance, fit


def _vector(*values: float) -> Vector:
    vector = np.array(values, dtype=np.float32)
    return vector / np.linalg.norm(vector)


def test_notes_nearest_to_the_focus_come_first_and_those_without_a_vector_last() -> None:
    vectors = [None, _vector(0, 1), _vector(1, 0), None, _vector(1, 1)]
    assert by_focus(vectors, _vector(1, 0)) == [2, 4, 1, 0, 3]


def test_ties_stay_newest_first() -> None:
    same = [_vector(1, 2, 3) for _ in range(5)]
    assert by_focus(same, _vector(1, 0, 0)) == [0, 1, 2, 3, 4]
    assert by_relevance(same) == [0, 1, 2, 3, 4]
    assert by_relevance([None, None]) == [0, 1]
    assert by_focus([None, None], _vector(1, 0)) == [0, 1]
    assert by_relevance([]) == []


def test_a_repetition_ranks_behind_a_note_that_says_something_else() -> None:
    """Three notes say almost the same; by the mean alone they would be the first three."""
    vectors = [_vector(1, 0.02, 0), _vector(1, 0, 0.02), _vector(1, 0, 0), _vector(0.3, 1, 0)]
    order = by_relevance(vectors)
    assert order[0] in (0, 1, 2)
    assert order[1] == 3


def test_the_first_by_relevance_is_the_nearest_to_the_mean() -> None:
    assert by_relevance([_vector(1, 0), _vector(1, 1), _vector(0, 1)])[0] == 1


def test_vectors_that_cancel_out_are_still_ordered() -> None:
    assert sorted(by_relevance([_vector(1, 0), _vector(-1, 0)])) == [0, 1]


def test_a_smaller_note_fits_after_one_that_did_not() -> None:
    assert fit([50, 60, 40, 10], [0, 1, 2, 3], 100) == [0, 2, 3]
    assert fit([50, 60, 40, 10], [1, 0, 3, 2], 100) == [1, 3]
    assert fit([101], [0], 100) == []
    assert fit([100], [0], 100) == [0]
    assert fit([], [], 100) == []
    assert fit([1], [0], -5) == []
