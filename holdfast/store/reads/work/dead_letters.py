"""Dead letters: one, a list by id or the newest first, or the newest open ones in sum."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from holdfast.errors import NotFound
from holdfast.model.work.ids import INDEX_MAX, JOB_ID_MAX, TaskId
from holdfast.rules.reading.fingerprint import fingerprint
from holdfast.store.database import Transaction
from holdfast.store.pages import Page, fill_page
from holdfast.store.statements import load_statements

_DEAD = load_statements("reads/work/dead_letters")
FIRST_DEAD_LETTER = TaskId(0, -1)
# So many are counted; fewer are read, because it takes a while to tell their errors apart.
LETTERS_EXAMINED_MAX = 10_000
LETTERS_MAX = 2000
# The first line is looked at; blank ones may stand before it.
ERROR_LENGTH_MAX = 300
LETTERS_COUNTED_MAX = 5000
# So many are looked through for those with one kind of error.
ALIKE_EXAMINED_MAX = 100_000


class DeadLetterRow(NamedTuple):
    """A task that will not be tried again; `input` is a JSON text."""

    job_id: int
    task_index: int
    reason_code: str
    stage: str | None
    error_class: str | None
    last_error: str | None
    attempts: int
    last_owner: str | None
    last_lease_expires_at: datetime | None
    correlation_id: str
    type: str
    queue: str | None
    input: str | None
    dead_lettered_at: datetime
    replayed_at: datetime | None
    replayed_as: int | None
    discarded_at: datetime | None
    discarded_by: str | None
    input_edited: bool

    @property
    def id(self) -> TaskId:
        """Name the task."""
        return TaskId(self.job_id, self.task_index)


class LetterMoment(NamedTuple):
    """A position in the list in which the newest stand first."""

    dead_lettered_at: datetime
    job_id: int
    task_index: int


NEWEST_LETTER = LetterMoment(datetime.max.replace(tzinfo=UTC), JOB_ID_MAX, INDEX_MAX)


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters; None means any. Open ones have been neither replayed nor discarded.

    `fingerprint` is that of their error, as the sum gathers them by.
    """

    reason_code: str | None = None
    stage: str | None = None
    type: str | None = None
    queue: str | None = None
    job_id: int | None = None
    open_only: bool = True
    fingerprint: str | None = None

    def fields(self) -> dict[str, str | None]:
        """Give a statement what a letter must say to be wanted."""
        return {
            "reason_code": self.reason_code,
            "stage": self.stage,
            "type": self.type,
            "queue": self.queue,
        }


class LetterRow(NamedTuple):
    """What is summed up of a dead letter; of its error, the beginning."""

    job_id: int
    task_index: int
    reason_code: str
    stage: str | None
    type: str
    error_class: str | None
    error: str | None
    dead_lettered_at: datetime

    @property
    def id(self) -> TaskId:
        """Name the task."""
        return TaskId(self.job_id, self.task_index)


class Letters(NamedTuple):
    """Open dead letters: how many there are by reason and stage, and the newest of them.

    `is_whole` if none was passed over, neither by the counts nor by the list.
    """

    cells: list[tuple[str, str | None, int]]
    newest: list[LetterRow]
    is_whole: bool


async def get_dead_letter(tx: Transaction, task_id: TaskId) -> DeadLetterRow:
    """Read one dead letter."""
    rows = await _read_dead_letters(tx, [task_id], DeadLetterFilter(), count_max=1)
    if not rows:
        raise NotFound("dead letter", task_id)
    return rows[0]


async def list_dead_letters(
    tx: Transaction, wanted: DeadLetterFilter, *, after: TaskId = FIRST_DEAD_LETTER, page_size: int
) -> Page[DeadLetterRow, TaskId]:
    """List dead letters by id; a page may be short and still not be the last one."""

    async def read(task_ids: list[TaskId], count_max: int) -> list[DeadLetterRow]:
        return await _read_dead_letters(tx, task_ids, wanted, count_max=count_max)

    walk = _walk_by_id(tx, wanted)
    after = max(after, _first_id(wanted))
    return await fill_page(walk, read, lambda row: row.id, after=after, page_size=page_size)


def _first_id(wanted: DeadLetterFilter) -> TaskId:
    return FIRST_DEAD_LETTER if wanted.job_id is None else TaskId(wanted.job_id, -1)


def _walk_by_id(
    tx: Transaction, wanted: DeadLetterFilter
) -> Callable[[TaskId, int], Awaitable[list[TaskId]]]:
    statement = _DEAD["walk_open_dead_letters" if wanted.open_only else "walk_dead_letters"]

    async def walk(after: TaskId, count_max: int) -> list[TaskId]:
        rows = await tx.fetch(
            statement,
            after_job_id=after.job_id,
            after_task_index=after.task_index,
            last_job_id=JOB_ID_MAX if wanted.job_id is None else wanted.job_id,
            count_max=count_max,
        )
        return [TaskId(*row) for row in rows]

    return walk


async def list_newest_first(
    tx: Transaction, wanted: DeadLetterFilter, *, after: LetterMoment, page_size: int
) -> Page[DeadLetterRow, LetterMoment]:
    """List dead letters, the newest first; a page may be short and still not be the last one."""
    statement = _DEAD["walk_newest_open_letters" if wanted.open_only else "walk_newest_letters"]

    async def walk(after: LetterMoment, count_max: int) -> list[LetterMoment]:
        rows = await tx.fetch(
            statement,
            before=after.dead_lettered_at,
            before_job_id=after.job_id,
            before_task_index=after.task_index,
            count_max=count_max,
        )
        return [LetterMoment(*row) for row in rows]

    async def read(moments: list[LetterMoment], count_max: int) -> list[DeadLetterRow]:
        task_ids = [
            TaskId(moment.job_id, moment.task_index)
            for moment in moments
            if wanted.job_id in (None, moment.job_id)
        ]
        return await _read_dead_letters(tx, task_ids, wanted, count_max=count_max)

    def moment_of(row: DeadLetterRow) -> LetterMoment:
        return LetterMoment(row.dead_lettered_at, row.job_id, row.task_index)

    return await fill_page(walk, read, moment_of, after=after, page_size=page_size)


async def _keep_alike(
    tx: Transaction, task_ids: list[TaskId], wanted: DeadLetterFilter
) -> list[TaskId]:
    """Leave out letters whose error is of another kind than the one that is wanted."""
    rows = await tx.fetch(
        _DEAD["read_letter_errors"],
        job_ids=[task_id.job_id for task_id in task_ids],
        task_indexes=[task_id.task_index for task_id in task_ids],
        **wanted.fields(),
        error_length=ERROR_LENGTH_MAX,
    )

    def keep() -> list[TaskId]:
        return [TaskId(*row[:2]) for row in rows if fingerprint(*row[2:]) == wanted.fingerprint]

    # Thousands of errors take a while to tell apart, and this loop has leases to renew.
    return await asyncio.to_thread(keep)


async def list_open_ids(
    tx: Transaction, wanted: DeadLetterFilter, *, count_max: int
) -> list[TaskId]:
    """List the ids of open dead letters, without reading what they hold."""
    if wanted.fingerprint is not None:
        return await _list_open_alike(tx, wanted, count_max=count_max)
    rows = await tx.fetch(
        _DEAD["list_open_ids"],
        **wanted.fields(),
        first_job_id=0 if wanted.job_id is None else wanted.job_id,
        last_job_id=JOB_ID_MAX if wanted.job_id is None else wanted.job_id,
        count_max=count_max,
    )
    return [TaskId(*row) for row in rows]


async def _list_open_alike(
    tx: Transaction, wanted: DeadLetterFilter, *, count_max: int
) -> list[TaskId]:
    async def read(task_ids: list[TaskId], count_max: int) -> list[TaskId]:
        return (await _keep_alike(tx, task_ids, wanted))[:count_max]

    page = await fill_page(
        _walk_by_id(tx, wanted),
        read,
        lambda task_id: task_id,
        after=_first_id(wanted),
        page_size=count_max,
        examined_max=ALIKE_EXAMINED_MAX,
    )
    return page.rows


async def _read_dead_letters(
    tx: Transaction, task_ids: list[TaskId], wanted: DeadLetterFilter, *, count_max: int
) -> list[DeadLetterRow]:
    if wanted.fingerprint is not None:
        task_ids = (await _keep_alike(tx, task_ids, wanted))[:count_max]
    rows = await tx.fetch(
        _DEAD["read_dead_letters"],
        job_ids=[task_id.job_id for task_id in task_ids],
        task_indexes=[task_id.task_index for task_id in task_ids],
        **wanted.fields(),
        count_max=count_max,
    )
    return [DeadLetterRow(*row) for row in rows]


async def read_letters(
    tx: Transaction,
    wanted: DeadLetterFilter,
    *,
    examined_max: int = LETTERS_EXAMINED_MAX,
    count_max: int = LETTERS_MAX,
) -> Letters:
    """Count open dead letters, and read the newest of them; of one job, those with the last ids."""
    listing, counting = _DEAD["list_newest_letters"], _DEAD["count_letters"]
    measuring = _DEAD["measure_letters"]
    job: dict[str, Any] = {}
    if wanted.job_id is not None:
        listing, counting = _DEAD["list_newest_letters_of_job"], _DEAD["count_letters_of_job"]
        measuring = _DEAD["measure_letters_of_job"]
        job = {"job_id": wanted.job_id}
    fields = wanted.fields() | job
    # Counted last: whatever came since makes the list look shorter than the counts, not longer.
    rows = await tx.fetch(
        listing,
        **fields,
        error_length=ERROR_LENGTH_MAX,
        examined_max=examined_max,
        count_max=count_max + 1,
    )
    cells = await tx.fetch(counting, **fields, examined_max=examined_max)
    counted = await tx.fetch_one(measuring, **job, count_max=examined_max + 1)
    assert counted is not None
    is_whole = len(rows) <= count_max and counted[0] <= examined_max
    newest = [LetterRow(*row) for row in rows[:count_max]]
    return Letters([tuple(row) for row in cells], newest, is_whole)


async def count_open_letters(tx: Transaction) -> dict[str, int]:
    """Count the dead letters that wait for a decision, by reason; no more than so many in all."""
    rows = await tx.fetch(_DEAD["count_open_letters"], count_max=LETTERS_COUNTED_MAX)
    return dict(rows)
