"""What cannot be written costs itself alone, and is not tried for ever."""

from datetime import timedelta
from itertools import islice

import pytest

from holdfast.errors import Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.parts import FAILURES_MAX, by_job, write_apart, write_chosen, write_in_parts
from holdfast.model.work.ids import TaskId
from holdfast.rules.outage import GAP_MAX
from holdfast.store.database import LockTimeout, Transaction

LOCK_TIMEOUT = timedelta(milliseconds=250)


class Rows:
    """Writes items, but for some that somebody holds; remembers what was tried."""

    def __init__(self, *held: int) -> None:
        self.held = set(held)
        self.written: list[int] = []
        self.failed = 0

    async def write(self, items: list[int]) -> int:
        """Write all of these, or none."""
        if self.held & set(items):
            self.failed += 1
            raise LockTimeout("held")
        self.written += items
        return len(items)


def groups(count: int) -> list[list[int]]:
    """Make groups of one item each."""
    return [[item] for item in range(count)]


async def test_what_can_be_written_is_written_at_once() -> None:
    rows = Rows()
    assert await write_in_parts(rows.write, groups(100)) == ([100], [])
    assert rows.written == list(range(100))


@pytest.mark.parametrize("held", [{0}, {63}, {10, 11}, {5, 50}])
async def test_only_what_is_held_is_left(held: set[int]) -> None:
    rows = Rows(*held)
    answers, failures = await write_in_parts(rows.write, groups(64))
    assert sum(answers) == 64 - len(held)
    assert {item for items, _ in failures for item in items} == held
    assert sorted(rows.written) == sorted(set(range(64)) - held)


async def test_a_group_is_never_parted() -> None:
    rows = Rows(3)
    _, failures = await write_in_parts(rows.write, [[1, 2], [3, 4, 5], [6]])
    assert [items for items, _ in failures] == [[3, 4, 5]]
    assert sorted(rows.written) == [1, 2, 6]


async def test_failures_are_bounded_and_others_are_left_each_time() -> None:
    rows = Rows(*range(500))
    answers, failures = await write_in_parts(rows.write, groups(1000))
    assert rows.failed <= 2 * FAILURES_MAX
    assert len(rows.written) == sum(answers)
    written = set(rows.written)
    assert {item for items, _ in failures for item in items} == set(range(1000)) - written
    for _ in range(50):
        left = [[item] for item in range(1000) if item not in written]
        rows.written = []
        await write_in_parts(rows.write, left)
        written |= set(rows.written)
    assert not written & rows.held
    assert len(written) > 0


async def test_nothing_is_parted_while_the_database_is_away() -> None:
    tried = 0

    async def write(_: list[int]) -> int:
        nonlocal tried
        tried += 1
        raise Unavailable("no database")

    with pytest.raises(Unavailable, match="no database"):
        await write_in_parts(write, groups(8))
    assert tried == 1


async def test_parts_are_looked_for_only_after_a_failure(ledger: Ledger) -> None:
    async def change(_: Ledger, tx: Transaction, items: list[int] | None = None) -> int:
        if items is None or 2 in items:
            await tx.connection.fetch("select 1 / 0")
        return len(items or ())

    async def unwanted() -> list[list[int]]:
        raise AssertionError("nothing has failed")

    async def found() -> list[list[int]]:
        return groups(4)

    async def all_well(_: Ledger, __: Transaction) -> int:
        return 7

    assert await write_apart(ledger, all_well, unwanted) == (7, [])
    done, [failure] = await write_apart(ledger, change, found)
    assert (done, failure.items) == (3, [2])


async def test_all_looks_together_wait_for_locks_no_longer_than_a_reaper_may(
    ledger: Ledger,
) -> None:
    held = {17, 333, *range(500, 5000)}
    failed = 0

    async def choose(_: Transaction, *, except_jobs: list[int]) -> list[TaskId]:
        free = (job_id for job_id in range(5000) if job_id not in except_jobs)
        # Those of the first look, and then what has not been looked at.
        return [TaskId(job_id, 0) for job_id in islice(free, 500 if except_jobs == [] else 1000)]

    async def change(_: Ledger, __: Transaction, task_ids: list[TaskId]) -> int:
        nonlocal failed
        if held.intersection(task_id.job_id for task_id in task_ids):
            failed += 1
            raise LockTimeout("held")
        return len(task_ids)

    await write_chosen(ledger, choose, change)
    assert failed * LOCK_TIMEOUT < GAP_MAX - timedelta(seconds=2)


def test_tasks_are_grouped_by_their_jobs() -> None:
    tasks = [TaskId(2, 1), TaskId(1, 0), TaskId(2, 0)]
    assert by_job(tasks) == [[TaskId(1, 0)], [TaskId(2, 0), TaskId(2, 1)]]
