"""Group C of the cases: threads that share one workbench. Cases of several processes stand in `tests/concurrency`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.conftest import Desk


def test_case_020_of_eight_threads_that_save_one_text_one_stores_it(desk: Desk) -> None:
    with ThreadPoolExecutor(8) as pool:
        saved = list(pool.map(lambda _: desk.save("One fact."), range(8)))
    assert sorted(each["repeated"] for each in saved) == [False] + [True] * 7
    assert len({each["note"]["note_id"] for each in saved}) == 1
    assert desk.recall()["note_count"] == 1


def test_case_050_eight_threads_read_and_write_through_one_workbench(desk: Desk) -> None:
    """No connection is shared between two of them: none fails, none sees another's rows, all of it is there."""

    def work(thread: int) -> list[int]:
        counts = []
        for number in range(10):
            counts.append(desk.save(f"Fact {number}.", domain=f"t{thread}.example")["note_count"])
            assert desk.recall(f"t{thread}.example")["note_count"] == number + 1
            assert desk.bench.spaces.list_people(desk.space_id)
        return counts

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(work, range(8)))
    assert done == [list(range(1, 11))] * 8
    verdict = desk.bench.spaces.verify_receipts(desk.space_id)
    assert verdict.ok, verdict.problem
