"""Take in jobs: checked whole, stored whole or not at all, once per idempotency key.

A submission that is too large for one transaction arrives in chunks and stays hidden until the last
one: it has no event, is not listed and cannot be claimed.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec

from holdfast.errors import (
    IllegalMove,
    Invalid,
    KeyReused,
    NotFound,
    Refused,
    TooLarge,
    Unavailable,
)
from holdfast.model.spec import JobSpec, Submission
from holdfast.model.states import LIVE_STATES, JobState
from holdfast.operations.ledger import Ledger
from holdfast.operations.partitions import ensure_partitions
from holdfast.operations.settle import add_follow_ups
from holdfast.rules.submission import complete_submission, policy_of
from holdfast.store.database import Transaction
from holdfast.store.specs import StoredSpec
from holdfast.store.statements import load_statements

_JOBS = load_statements("jobs")
_TASKS = load_statements("tasks")
_READY = load_statements("ready")

CHUNK_TASKS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job's id; not new if its idempotency key had been seen before."""

    job_id: int
    is_new: bool


Answer = Submitted | Refused


@dataclass(frozen=True, slots=True)
class Arrival:
    """A checked submission with the id it will have."""

    job_id: int
    submission: Submission
    digest: bytes
    correlation_id: str
    admitted_at: datetime

    @property
    def spec(self) -> JobSpec:
        """Shorten the way to the spec."""
        return self.submission.spec

    def stored(self) -> StoredSpec:
        """Describe the job as the cache of specs keeps it: its first claim comes at once."""
        spec = self.spec
        return StoredSpec(
            spec,
            policy_of(spec),
            spec.name or "",
            self.submission.num_tasks,
            self.correlation_id,
            spec.trace_id,
            {},
        )

    def eligible_at(self, now: datetime) -> datetime:
        """Say when its tasks may first be claimed or placed."""
        if self.spec.not_before is None:
            return now
        return max(now, datetime.fromtimestamp(self.spec.not_before, UTC))


async def submit(ledger: Ledger, submissions: Sequence[Submission]) -> list[Answer]:
    """Take in jobs that have nothing to do with each other: a bad one is refused alone."""
    answers: dict[int, Answer] = {}
    complete: dict[int, Submission] = {}
    for place, submission in enumerate(submissions):
        try:
            complete[place] = complete_submission(submission, ledger.limits)
        except Refused as refused:
            answers[place] = refused
    small: list[int] = []
    room = CHUNK_TASKS_MAX
    for place, submission in complete.items():
        if submission.num_tasks > CHUNK_TASKS_MAX:
            answers[place] = await _submit_in_chunks(ledger, submission)
            continue
        if submission.num_tasks > room:
            answers |= await _submit_places(ledger, complete, small)
            small, room = [], CHUNK_TASKS_MAX
        small.append(place)
        room -= submission.num_tasks
    answers |= await _submit_places(ledger, complete, small)
    return [answers[place] for place in range(len(submissions))]


async def submit_one(ledger: Ledger, submission: Submission) -> Submitted:
    """Take in one job, or raise what is wrong with it."""
    [answer] = await submit(ledger, [submission])
    if isinstance(answer, Refused):
        raise answer
    return answer


async def submit_batch(ledger: Ledger, submissions: Sequence[Submission]) -> list[Submitted]:
    """Take in jobs all together or not at all; limited to what fits into one transaction."""
    complete = [complete_submission(submission, ledger.limits) for submission in submissions]
    total = sum(submission.num_tasks for submission in complete)
    if total > ledger.limits.batch_tasks_max:
        raise TooLarge("specs", total, ledger.limits.batch_tasks_max, unit="tasks")
    arrivals = await admit(ledger, complete)
    async with ledger.database.transaction() as tx:
        answers = await store_arrivals(tx, arrivals)
        for answer in answers:
            if isinstance(answer, Refused):
                raise answer
    return [answer for answer in answers if isinstance(answer, Submitted)]


async def _submit_places(
    ledger: Ledger, complete: dict[int, Submission], places: list[int]
) -> dict[int, Answer]:
    if not places:
        return {}
    arrivals = await admit(ledger, [complete[place] for place in places])
    async with ledger.database.transaction() as tx:
        answers = await store_arrivals(tx, arrivals)
    for arrival, answer in zip(arrivals, answers, strict=True):
        if isinstance(answer, Submitted) and answer.is_new:
            ledger.specs.remember(answer.job_id, arrival.stored())
    return dict(zip(places, answers, strict=True))


async def admit(ledger: Ledger, submissions: Sequence[Submission]) -> list[Arrival]:
    """Give each submission an id, and make sure that a partition exists for it."""
    if not submissions:
        raise Invalid("specs", "is empty; give at least one job")
    # Numbers from a sequence are given out for good, whatever becomes of a transaction.
    rows = await ledger.database.fetch(_JOBS["allocate_job_ids"], count=len(submissions))
    await ensure_partitions(ledger, rows[-1][0])
    return [
        Arrival(
            job_id,
            submission,
            _digest(submission),
            submission.spec.correlation_id or str(uuid4()),
            admitted_at,
        )
        for (job_id, admitted_at), submission in zip(rows, submissions, strict=True)
    ]


async def store_arrivals(tx: Transaction, arrivals: list[Arrival]) -> list[Answer]:
    """Store admitted submissions in one transaction; a repeated key is answered with its job."""
    now = arrivals[-1].admitted_at
    answers: dict[int, Answer] = dict(await _find_orphans(tx, arrivals))
    welcome = [arrival for arrival in arrivals if arrival.job_id not in answers]
    inserted = await _insert_jobs(tx, welcome, now, shown=True) if welcome else set()
    new = [arrival for arrival in welcome if arrival.job_id in inserted]
    if all(arrival.eligible_at(now) <= now for arrival in new):
        await _insert_tasks_in_line(tx, new, now)
    else:
        await _insert_tasks(tx, new, now)
        await _line_up(tx, new, now)
    large = [a.job_id for a in new if a.submission.num_tasks > CHUNK_TASKS_MAX]
    await add_follow_ups(tx, [("feed", job_id) for job_id in large], next_index=CHUNK_TASKS_MAX)
    answers |= {arrival.job_id: Submitted(arrival.job_id, is_new=True) for arrival in new}
    known = [arrival for arrival in welcome if arrival.job_id not in inserted]
    if known:
        seen = await _find_by_key(tx, known)
        for arrival in known:
            job_id, digest, _ = seen[arrival.spec.owner, arrival.spec.idempotency_key]
            answers[arrival.job_id] = _answer_repeat(arrival, job_id, digest)
    return [answers[arrival.job_id] for arrival in arrivals]


async def _find_orphans(tx: Transaction, arrivals: list[Arrival]) -> dict[int, Refused]:
    """Hold the parents of child jobs, and say which children cannot have theirs."""
    parents = {a.submission.parent_job_id for a in arrivals if a.submission.parent_job_id}
    if not parents:
        return {}
    rows = await tx.fetch(_JOBS["hold_parents"], job_ids=sorted(parents))
    found = {job_id: (state, ended) for job_id, state, ended in rows}
    orphans: dict[int, Refused] = {}
    for arrival in arrivals:
        parent = arrival.submission.parent_job_id
        if parent is None:
            continue
        state, ended = found.get(parent, (0, True))
        if not state:
            orphans[arrival.job_id] = NotFound("job", parent)
        elif ended:
            name = "cancelled" if state in LIVE_STATES else JobState(state).name
            orphans[arrival.job_id] = IllegalMove(f"job {parent}", name, "submit a child of")
    return orphans


async def _insert_jobs(
    tx: Transaction, arrivals: list[Arrival], now: datetime, *, shown: bool
) -> set[int]:
    specs = [arrival.spec for arrival in arrivals]
    rows = await tx.fetch(
        _JOBS["insert_jobs"],
        job_ids=[arrival.job_id for arrival in arrivals],
        names=[spec.name for spec in specs],
        types=[spec.type for spec in specs],
        owners=[spec.owner for spec in specs],
        queues=[spec.queue for spec in specs],
        priorities=[spec.priority for spec in specs],
        specs=[msgspec.json.encode(spec).decode() for spec in specs],
        labels=[msgspec.json.encode(spec.labels).decode() for spec in specs],
        parent_job_ids=[arrival.submission.parent_job_id for arrival in arrivals],
        replay_of=[arrival.submission.replay_of for arrival in arrivals],
        correlation_ids=[arrival.correlation_id for arrival in arrivals],
        trace_ids=[spec.trace_id for spec in specs],
        idempotency_keys=[spec.idempotency_key for spec in specs],
        spec_digests=[arrival.digest for arrival in arrivals],
        shown=[shown] * len(arrivals),
        fan_out=[arrival.submission.inputs is not None for arrival in arrivals],
        max_task_failures=[spec.max_task_failures for spec in specs],
        num_tasks=[arrival.submission.num_tasks for arrival in arrivals],
        now=now,
    )
    return {row[0] for row in rows}


async def _insert_tasks(
    tx: Transaction,
    arrivals: list[Arrival],
    now: datetime,
    *,
    first: int = 0,
    end: int | None = None,
) -> None:
    """Store the tasks of jobs, or one stretch of a large job's tasks."""
    columns = _task_columns(arrivals, first, end)
    when = {arrival.job_id: arrival.eligible_at(now) for arrival in arrivals}
    eligible_at = [when[job_id] for job_id in columns["job_ids"]]
    if eligible_at:
        await tx.fetch(_TASKS["insert_tasks"], **columns, eligible_at=eligible_at, now=now)


async def _insert_tasks_in_line(tx: Transaction, arrivals: list[Arrival], now: datetime) -> None:
    """Store the tasks of jobs that need not wait, and put them where claims find them."""
    if arrivals:
        await tx.fetch(
            _TASKS["insert_tasks_in_line"],
            **_task_columns(arrivals),
            **_line_columns(arrivals),
            ready_job_ids=[arrival.job_id for arrival in arrivals],
            now=now,
        )


def _task_columns(
    arrivals: list[Arrival], first: int = 0, end: int | None = None
) -> dict[str, list[Any]]:
    """Spread the tasks of jobs into columns: all of them, or one stretch."""
    columns: dict[str, list[Any]] = {
        "job_ids": [],
        "task_indexes": [],
        "placed": [],
        "inputs": [],
    }
    for arrival in arrivals:
        last = arrival.submission.num_tasks if end is None else end
        count = last - first
        given = arrival.submission.inputs
        columns["job_ids"] += [arrival.job_id] * count
        columns["task_indexes"] += range(first, last)
        columns["placed"] += [arrival.spec.queue is None] * count
        columns["inputs"] += given[first:last] if given is not None else [None] * count
    return columns


def _line_columns(arrivals: list[Arrival]) -> dict[str, list[Any]]:
    """Spread what a job's place in line depends on into columns."""
    timeouts = [arrival.spec.scheduling_timeout for arrival in arrivals]
    return {
        "queues": [arrival.spec.queue or "" for arrival in arrivals],
        "urgencies": [-arrival.spec.priority for arrival in arrivals],
        "end_indexes": [min(a.submission.num_tasks, CHUNK_TASKS_MAX) for a in arrivals],
        "scheduling_timeouts": [None if t is None else timedelta(seconds=t) for t in timeouts],
    }


async def _line_up(tx: Transaction, arrivals: list[Arrival], now: datetime) -> None:
    """Put tasks where claims find them, or where they wait; of a large job, the first stretch."""
    ready = [arrival for arrival in arrivals if arrival.eligible_at(now) <= now]
    later = [arrival for arrival in arrivals if arrival.eligible_at(now) > now]
    if ready:
        await tx.fetch(
            _READY["insert_ready"],
            **_line_columns(ready),
            eligible_at=[now] * len(ready),
            job_ids=[arrival.job_id for arrival in ready],
            first_indexes=[0] * len(ready),
        )
    if later:
        await tx.fetch(
            _READY["insert_waiting"],
            eligible_at=[arrival.eligible_at(now) for arrival in later],
            job_ids=[arrival.job_id for arrival in later],
            first_indexes=[0] * len(later),
            end_indexes=[min(arrival.submission.num_tasks, CHUNK_TASKS_MAX) for arrival in later],
        )


async def _find_by_key(
    tx: Transaction, arrivals: list[Arrival]
) -> dict[tuple[str | None, str | None], tuple[int, bytes, bool]]:
    rows = await tx.fetch(
        _JOBS["find_by_key"],
        owners=[arrival.spec.owner for arrival in arrivals],
        idempotency_keys=[arrival.spec.idempotency_key for arrival in arrivals],
    )
    return {(row[0], row[1]): (row[2], row[3], row[4]) for row in rows}


def _answer_repeat(arrival: Arrival, job_id: int, digest: bytes) -> Answer:
    if digest != arrival.digest:
        return KeyReused(arrival.spec.idempotency_key or "", job_id)
    return Submitted(job_id, is_new=False)


async def _submit_in_chunks(ledger: Ledger, submission: Submission) -> Answer:
    [arrival] = await admit(ledger, [submission])
    async with ledger.database.transaction() as tx:
        now = await tx.now()
        orphans = await _find_orphans(tx, [arrival])
        if orphans:
            return orphans[arrival.job_id]
        if not await _insert_jobs(tx, [arrival], now, shown=False):
            seen = await _find_by_key(tx, [arrival])
            job_id, digest, shown = seen[arrival.spec.owner, arrival.spec.idempotency_key]
            if shown or digest != arrival.digest:
                return _answer_repeat(arrival, job_id, digest)
            # The earlier try died on the way, or is about to find out: start over.
            await delete_hidden_job(tx, job_id)
            await _insert_jobs(tx, [arrival], now, shown=False)
    for first in range(0, submission.num_tasks, CHUNK_TASKS_MAX):
        end = min(first + CHUNK_TASKS_MAX, submission.num_tasks)
        async with ledger.database.transaction() as tx:
            await _hold_hidden(tx, arrival)
            await _insert_tasks(tx, [arrival], now, first=first, end=end)
    async with ledger.database.transaction() as tx:
        await _hold_hidden(tx, arrival)
        orphans = await _find_orphans(tx, [arrival])
        if orphans:  # the parent ended while its child was still arriving
            await delete_hidden_job(tx, arrival.job_id)
            return orphans[arrival.job_id]
        await _line_up(tx, [arrival], now)
        await tx.fetch(_JOBS["show_job"], job_id=arrival.job_id, now=await tx.now())
        await add_follow_ups(tx, [("feed", arrival.job_id)], next_index=CHUNK_TASKS_MAX)
    return Submitted(arrival.job_id, is_new=True)


async def _hold_hidden(tx: Transaction, arrival: Arrival) -> None:
    if await tx.fetch_one(_JOBS["lock_hidden_job"], job_id=arrival.job_id) is None:
        raise Unavailable("this submission was started over under the same idempotency key")


async def delete_hidden_job(tx: Transaction, job_id: int) -> None:
    """Forget a submission that never arrived whole."""
    if await tx.fetch_one(_JOBS["lock_hidden_job"], job_id=job_id) is not None:
        await tx.fetch(_TASKS["delete_hidden_tasks"], job_id=job_id)
        await tx.fetch(_JOBS["delete_job"], job_id=job_id)


def _digest(submission: Submission) -> bytes:
    """Tell the same submission from a different one under the same key."""
    digest = hashlib.sha256(msgspec.json.encode(submission.spec))
    for text in submission.inputs or ():
        digest.update(b"\x00")
        digest.update(text.encode())
    return digest.digest()
