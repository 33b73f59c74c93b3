"""What long lists show of a job: all attempts, all output; and the dead letters in sum."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from holdfast.errors import NotFound
from holdfast.model.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.fleet import LetterFilter
from holdfast.store.statements import load_statements
from holdfast.store.views import JobRow

_LISTS = load_statements("lists")
# Output is read up to a moment ago, or up to when the oldest write began that has not ended yet: a
# commit may take a while, and what a reader has passed it does not come back for.
SETTLING = timedelta(seconds=1)
PATIENCE = timedelta(seconds=60)
PAGE_BYTES_MAX = 1 << 20
STRETCHES_EXAMINED_MAX = 10_000
# So many are counted; fewer are read, because it takes a while to tell their errors apart.
LETTERS_EXAMINED_MAX = 10_000
LETTERS_MAX = 2000
# The first line is looked at; blank ones may stand before it.
ERROR_LENGTH_MAX = 300


class AttemptPlace(NamedTuple):
    """An attempt of a task of a job."""

    task_index: int
    attempt: int


FIRST_ATTEMPT = AttemptPlace(-1, 0)


class JobAttemptRow(NamedTuple):
    """One attempt of one task of a job, open or ended."""

    task_index: int
    attempt: int
    worker_id: str
    state: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class LogPlace(NamedTuple):
    """A stretch of output among that of its job."""

    stored_at: datetime
    task_index: int
    attempt: int
    start_offset: int


FIRST_STRETCH = LogPlace(datetime.fromtimestamp(0, UTC), -1, 0, 0)


class StretchRow(NamedTuple):
    """Some output of one attempt."""

    place: LogPlace
    content: bytes


class LogPage(NamedTuple):
    """Some output, and the place after which the next stands; complete if there is no next."""

    stretches: list[StretchRow]
    last: LogPlace
    is_complete: bool


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


async def list_job_attempts(
    tx: Transaction, job_id: int, *, after: AttemptPlace = FIRST_ATTEMPT, page_size: int
) -> list[JobAttemptRow]:
    """List the attempts of all tasks of a job, by task and number."""
    rows = await tx.fetch(
        _LISTS["list_job_attempts"],
        job_id=job_id,
        after_index=after.task_index,
        after_attempt=after.attempt,
        count_max=page_size,
    )
    return [JobAttemptRow(*row) for row in rows]


async def get_input(tx: Transaction, task_id: TaskId) -> str | None:
    """Read what a task was given, a JSON text. Raises NotFound."""
    row = await tx.fetch_one(
        _LISTS["get_input"], job_id=task_id.job_id, task_index=task_id.task_index
    )
    if row is None:
        raise NotFound("task", task_id)
    text: str | None = row[0]
    return text


async def read_job_log(
    tx: Transaction,
    job: JobRow,
    task_index: int | None = None,
    *,
    after: LogPlace = FIRST_STRETCH,
    page_size: int,
    bytes_max: int = PAGE_BYTES_MAX,
) -> LogPage:
    """Read the output of a job's tasks, or of one, in the order in which it was stored.

    A page may be short, even empty, and still not be the last one.
    """
    # Asked first: with no lease left, nobody can write what the walk below does not see.
    is_held = await tx.fetch_one(_LISTS["has_lease"], job_id=job.job_id) is not None
    settled = await tx.fetch_one(_LISTS["read_settled"], settling=SETTLING, patience=PATIENCE)
    assert settled is not None
    until = settled[0]
    is_over = job.finished_at is not None and job.finished_at < until and not is_held
    examined_max = page_size if task_index is None else STRETCHES_EXAMINED_MAX
    rows = await tx.fetch(
        _LISTS["walk_job_log"],
        job_id=job.job_id,
        until=until,
        stored_at=after.stored_at,
        after_index=after.task_index,
        after_attempt=after.attempt,
        after_offset=after.start_offset,
        count_max=examined_max,
    )
    is_all = len(rows) < examined_max
    last = LogPlace(*rows[-1][:4]) if rows else after
    wanted: list[LogPlace] = []
    size = 0
    for row in rows:
        place = LogPlace(*row[:4])
        if task_index is not None and place.task_index != task_index:
            continue
        size += row["size"]
        if wanted and (size > bytes_max or len(wanted) == page_size):
            is_all, last = False, wanted[-1]
            break
        wanted.append(place)
    stretches = await _read_stretches(tx, job.job_id, wanted) if wanted else []
    return LogPage(stretches, last, is_complete=is_over and is_all)


async def _read_stretches(
    tx: Transaction, job_id: int, places: Sequence[LogPlace]
) -> list[StretchRow]:
    stored = {place[1:]: place for place in places}
    rows = await tx.fetch(
        _LISTS["read_stretches"],
        job_id=job_id,
        task_indexes=[place.task_index for place in places],
        attempts=[place.attempt for place in places],
        start_offsets=[place.start_offset for place in places],
    )
    return [StretchRow(stored[tuple(row[:3])], row[3]) for row in rows]


class Letters(NamedTuple):
    """Open dead letters: how many there are by reason and stage, and the newest of them.

    `is_whole` if none was passed over, neither by the counts nor by the list.
    """

    cells: list[tuple[str, str | None, int]]
    newest: list[LetterRow]
    is_whole: bool


async def read_letters(
    tx: Transaction,
    wanted: LetterFilter,
    *,
    examined_max: int = LETTERS_EXAMINED_MAX,
    count_max: int = LETTERS_MAX,
) -> Letters:
    """Count open dead letters, and read the newest of them."""
    filters = {
        "reason_code": wanted.reason_code,
        "stage": wanted.stage,
        "type": wanted.type,
        "queue": wanted.queue,
    }
    # Counted last: whatever came since makes the list look shorter than the counts, not longer.
    rows = await tx.fetch(
        _LISTS["list_newest_letters"],
        **filters,
        error_length=ERROR_LENGTH_MAX,
        examined_max=examined_max,
        count_max=count_max + 1,
    )
    cells = await tx.fetch(_LISTS["count_letters"], **filters, examined_max=examined_max)
    counted = await tx.fetch_one(_LISTS["measure_letters"], count_max=examined_max + 1)
    assert counted is not None
    is_whole = len(rows) <= count_max and counted[0] <= examined_max
    newest = [LetterRow(*row) for row in rows[:count_max]]
    return Letters([tuple(row) for row in cells], newest, is_whole)
