"""Which notes of a dossier come first when not all fit; a note is kept whole or left out, never cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]

# The weight of relevance against novelty in maximal marginal relevance; its middle favours neither.
_LAMBDA = 0.5
# Equal texts have equal vectors up to the order of float32 sums; rounding makes their scores true ties.
_DECIMALS = 5


def by_focus(vectors: Sequence[Vector | None], focus_vector: Vector) -> list[int]:
    """Order notes by their cosine similarity to the focus, nearest first; give their indices.

    Notes without a vector come last. Ties keep the order of the input, which is newest first.
    """
    present, matrix = _present(vectors)
    if not present:
        return list(range(len(vectors)))
    scores = np.round(matrix @ _unit(np.asarray(focus_vector, dtype=np.float64)), _DECIMALS)
    ranked = [present[position] for position in np.argsort(-scores, kind="stable")]
    return ranked + _absent(vectors)


def by_relevance(vectors: Sequence[Vector | None]) -> list[int]:
    """Order notes by maximal marginal relevance to the dossier's mean vector; give their indices.

    Carbonell and Goldstein, "The use of MMR, diversity-based reranking for reordering documents and producing
    summaries", SIGIR 1998: next comes the note with the largest
    `lambda * similarity(note, mean) - (1 - lambda) * max(similarity(note, chosen))`, with lambda 0.5. Costs the square
    of the number of notes. Notes without a vector come last; ties keep the order of the input, newest first.
    """
    present, matrix = _present(vectors)
    if not present:
        return list(range(len(vectors)))
    relevance = matrix @ _unit(matrix.mean(axis=0))
    # Nothing is chosen at first, so nothing repeats: the first note is the most relevant one.
    repeated = np.zeros(len(present))
    open_ = np.ones(len(present), dtype=bool)
    ranked: list[int] = []
    for _ in present:
        scores = np.round(_LAMBDA * relevance - (1 - _LAMBDA) * repeated, _DECIMALS)
        chosen = int(np.argmax(np.where(open_, scores, -np.inf)))
        similarity = matrix @ matrix[chosen]
        repeated = np.maximum(repeated, similarity) if ranked else similarity
        open_[chosen] = False
        ranked.append(present[chosen])
    return ranked + _absent(vectors)


def fit(sizes: Sequence[int], order: Iterable[int], budget: int) -> list[int]:
    """Keep what fits whole, going through `order`; a smaller one may fit after one that did not.

    `sizes` and `budget` share a unit. Gives the kept indices in that order; their sizes never add up to more than
    the budget.
    """
    kept: list[int] = []
    for index in order:
        if sizes[index] <= budget:
            budget -= sizes[index]
            kept.append(index)
    return kept


def _present(vectors: Sequence[Vector | None]) -> tuple[list[int], NDArray[np.float64]]:
    present = [index for index, vector in enumerate(vectors) if vector is not None]
    rows = [_unit(np.asarray(vector, dtype=np.float64)) for vector in vectors if vector is not None]
    return present, np.array(rows, dtype=np.float64)


def _absent(vectors: Sequence[Vector | None]) -> list[int]:
    return [index for index, vector in enumerate(vectors) if vector is None]


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else vector


__all__ = ["Vector", "by_focus", "by_relevance", "fit"]
