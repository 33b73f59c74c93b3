"""Write for many at once, so that what cannot be written costs itself alone.

A row that somebody holds, or that is broken, fails the transaction of all. It is tried again in
halves then, down to a single group: what belongs to one job.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import groupby
from random import shuffle
from typing import Any, Generic, NamedTuple, TypeVar

from holdfast.errors import Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.store.database import LockTimeout, Transaction

log = logging.getLogger("holdfast.parts")
Item = TypeVar("Item")
Answer = TypeVar("Answer")
# Each failure may have waited for a lock, 250 ms: a pass of the reaper must be over long before
# the next is missed. What is not told apart by then waits for the next time.
FAILURES_MAX = 16
LOOKS_MAX = 3
LEFT_FEW = 3
HELD_PUT_OFF = timedelta(seconds=1)
BROKEN_PUT_OFF = timedelta(minutes=1)


class Failure(NamedTuple, Generic[Item]):
    """Items that could not be written, and why."""

    items: list[Item]
    error: Exception


@dataclass(slots=True)
class Patience:
    """How many writes may still fail before nothing more is told apart."""

    failures_left: int = FAILURES_MAX

    @property
    def is_over(self) -> bool:
        """Tell whether the rest is left for the next time."""
        return self.failures_left <= 0


async def write_in_parts(
    write: Callable[[list[Item]], Awaitable[Answer]],
    groups: Sequence[Sequence[Item]],
    patience: Patience | None = None,
) -> tuple[list[Answer], list[Failure[Item]]]:
    """Write all items in one transaction, or in as many as failures make necessary.

    Returns what each transaction answered, and what was left. Raises Unavailable if nothing can be
    written at all.
    """
    answers: list[Answer] = []
    failures: list[Failure[Item]] = []
    parts = [list(groups)] if groups else []
    patience = patience or Patience()
    while parts:
        part = parts.pop()
        items = [item for group in part for item in group]
        try:
            answers.append(await write(items))
        except Exception as error:
            if _is_away(error):
                raise
            patience.failures_left -= 1
            if len(part) == 1 or patience.is_over:
                log.info("left for the next time: %s and others; %s", items[0], error)
                failures.append(Failure(items, error))
            else:
                shuffle(part)  # so that, of many failures, others are left each time
                middle = len(part) // 2
                parts += [part[:middle], part[middle:]]
    return answers, failures


def _is_away(error: Exception) -> bool:
    """Tell whether the database is away, and not just a row in somebody's hands."""
    return isinstance(error, Unavailable) and not isinstance(error, LockTimeout)


async def write_at_once(ledger: Ledger, change: Callable[..., Awaitable[int]]) -> int | None:
    """Run a change for all there is; None if that has to be done in parts."""
    try:
        return await ledger.write(change)
    except Exception as error:
        if _is_away(error):
            raise
        log.info("not written at once, but in parts: %s", error)
    return None


async def write_apart(
    ledger: Ledger,
    change: Callable[..., Awaitable[int]],
    split: Callable[[], Awaitable[list[list[Item]]]],
) -> tuple[int, list[Failure[Item]]]:
    """Run a change for all there is; if that fails, for the groups that are found then.

    Returns how much was done, and what was left.
    """
    done = await write_at_once(ledger, change)
    if done is not None:
        return done, []
    answers, failures = await write_in_parts(partial(ledger.write, change), await split())
    return sum(answers), failures


async def put_off_failures(
    ledger: Ledger,
    failures: Sequence[Failure[Item]],
    put_off: Callable[[Transaction, list[Item], timedelta], Awaitable[None]],
) -> None:
    """Put off what was left, and raise what is broken; each item was a group of its own."""
    # Where two put off the same, the one that is looked at sooner comes last.
    for failure in sorted(failures, key=_delay, reverse=True):
        async with ledger.database.transaction() as tx:
            await put_off(tx, failure.items, _delay(failure))
    raise_broken(failures)


def _delay(failure: Failure[Item]) -> timedelta:
    """Say how long to put it off: among several, that were not told apart, most may be sound."""
    is_broken = len(failure.items) == 1 and not isinstance(failure.error, LockTimeout)
    return BROKEN_PUT_OFF if is_broken else HELD_PUT_OFF


def raise_broken(failures: Sequence[Failure[Item]]) -> None:
    """Raise the first error that is none of a lock."""
    for _, error in failures:
        if not isinstance(error, LockTimeout):
            raise error


async def write_chosen(
    ledger: Ledger,
    choose: Callable[..., Awaitable[list[TaskId]]],
    change: Callable[..., Awaitable[int]],
    **named: Any,
) -> int:
    """Choose tasks, without those that somebody holds, and write; returns how many were done.

    Where a job cannot be written, it is left for the next time, and others are chosen instead. What
    is broken is raised when they are done.
    """
    done = 0
    left: list[Failure[TaskId]] = []
    patience = Patience()
    for _ in range(LOOKS_MAX):
        async with ledger.database.transaction() as tx:
            chosen = await choose(tx, except_jobs=jobs_of(left))
        if not chosen:
            break
        write = partial(ledger.write, change, **named)
        answers, failures = await write_in_parts(write, by_job(chosen), patience)
        done += sum(answers)
        left += failures
        if not failures or len(left) > LEFT_FEW or patience.is_over:
            break
    raise_broken(left)
    return done


def jobs_of(failures: Sequence[Failure[TaskId]]) -> list[int]:
    """List the jobs of tasks that could not be written."""
    return sorted({task_id.job_id for items, _ in failures for task_id in items})


def by_job(task_ids: Sequence[TaskId]) -> list[list[TaskId]]:
    """Group tasks by their jobs."""
    return [list(group) for _, group in groupby(sorted(task_ids), lambda task_id: task_id.job_id)]
