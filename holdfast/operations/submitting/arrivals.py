"""Store jobs that have been checked: rows, tasks, their place in line, what they depend on."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec

from holdfast.errors import IllegalMove, Invalid, KeyReused, NotFound, Refused
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import add_follow_ups
from holdfast.model.spec import JobSpec, Submission
from holdfast.model.states import LIVE_STATES, JobState
from holdfast.model.traces import name_trace
from holdfast.operations.datasets.bind_outputs import bind_outputs, keep_bindings
from holdfast.operations.dependencies import Bonds, find_bonds, insert_bonds
from holdfast.operations.partitions import ensure_partitions
from holdfast.rules.order import dependencies_of
from holdfast.rules.submission import policy_of
from holdfast.store.database import Transaction
from holdfast.store.policies import PolicyBook, load_policies
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
    trace_id: str
    admitted_at: datetime
    graph_id: int | None = None
    # Those of what it waits for that are stored along with it: known by their names alone.
    siblings: frozenset[int] = frozenset()

    @property
    def spec(self) -> JobSpec:
        """Shorten the way to the spec."""
        return self.submission.spec

    def stored(self) -> StoredSpec:
        """Describe the job as the cache of specs keeps it: its first claim comes at once."""
        spec = self.spec
        return StoredSpec(
            spec,
            policy_of(spec, is_compensation=self.submission.compensates_job_id is not None),
            spec.name or "",
            self.submission.num_tasks,
            self.correlation_id,
            self.trace_id,
            {},
            self.submission.compensates_job_id,
            self.submission.trace_parent,
        )

    def eligible_at(self, now: datetime) -> datetime:
        """Say when its tasks may first be claimed or placed."""
        if self.spec.not_before is None:
            return now
        return max(now, datetime.fromtimestamp(self.spec.not_before, UTC))


class PoliciesChanged(Exception):
    """The policies under which submissions were completed hold no more; the ledger has new ones."""


async def admit(
    ledger: Ledger, submissions: Sequence[Submission], policies: PolicyBook | None = None
) -> list[Arrival]:
    """Give each submission an id, and make sure that a partition exists for it.

    Raises PoliciesChanged if they were completed with policies that hold no more.
    """
    if not submissions:
        raise Invalid("specs", "is empty; give at least one job")
    # Numbers from a sequence are given out for good, whatever becomes of a transaction.
    rows = await ledger.database.fetch(_JOBS["allocate_job_ids"], count=len(submissions))
    if policies is not None and policies.version != rows[-1][2]:
        ledger.policies = await load_policies(ledger.database)
        raise PoliciesChanged
    await ensure_partitions(ledger, rows[-1][0])
    return [
        Arrival(
            job_id,
            submission,
            _digest(submission),
            submission.spec.correlation_id or str(uuid4()),
            name_trace(submission.trace_parent, submission.spec.trace_id),
            admitted_at,
        )
        for (job_id, admitted_at, _), submission in zip(rows, submissions, strict=True)
    ]


async def store_arrivals(tx: Transaction, arrivals: list[Arrival]) -> list[Answer]:
    """Store admitted submissions in one transaction; a repeated key is answered with its job."""
    now = arrivals[-1].admitted_at
    arrivals, unbound = await bind_outputs(tx, arrivals)
    refused, bonds = await hold_links(tx, arrivals)
    answers = await answer_refused(tx, arrivals, refused | unbound)
    welcome = [arrival for arrival in arrivals if arrival.job_id not in answers]
    inserted = await insert_jobs(tx, welcome, now, shown=True, bonds=bonds) if welcome else set()
    await keep_bindings(tx, arrivals, inserted)
    new = [arrival for arrival in welcome if arrival.job_id in inserted]
    held = {a.job_id for a in new if a.job_id in bonds and bonds[a.job_id].unmet}
    if not held and all(arrival.eligible_at(now) <= now for arrival in new):
        await _insert_tasks_in_line(tx, new, now)
    else:
        await insert_tasks(tx, new, now)
        await line_up(tx, [arrival for arrival in new if arrival.job_id not in held], now)
    await insert_bonds(tx, {a.job_id: bonds[a.job_id] for a in new if a.job_id in bonds})
    large = [a.job_id for a in new if a.submission.num_tasks > CHUNK_TASKS_MAX]
    feeds = [("feed", job_id) for job_id in large if job_id not in held]
    await add_follow_ups(tx, feeds, next_index=CHUNK_TASKS_MAX)
    answers |= {arrival.job_id: Submitted(arrival.job_id, is_new=True) for arrival in new}
    known = [arrival for arrival in welcome if arrival.job_id not in inserted]
    if known:
        seen = await find_by_key(tx, known)
        for arrival in known:
            job_id, digest, _ = seen[arrival.spec.owner, arrival.spec.idempotency_key]
            answers[arrival.job_id] = answer_repeat(arrival, job_id, digest)
    return [answers[arrival.job_id] for arrival in arrivals]


async def hold_links(
    tx: Transaction, arrivals: list[Arrival]
) -> tuple[dict[int, Refused], dict[int, Bonds]]:
    """Hold the jobs that arrivals refer to: parents, and those they wait for.

    Says which arrivals are refused because of them, and how the others are bound.
    """
    bound = [arrival for arrival in arrivals if arrival.spec.depends_on]
    wanted = {a.submission.parent_job_id for a in arrivals if a.submission.parent_job_id}
    for arrival in bound:
        wanted |= {int(d.job) for d in dependencies_of(arrival.spec)} - arrival.siblings
    if not wanted and not bound:
        return {}, {}
    rows = await tx.fetch(_JOBS["hold_jobs"], job_ids=sorted(wanted))
    found = {job_id: (state, ended, over) for job_id, state, ended, over in rows}
    refused = _find_orphans(arrivals, found)
    bonds: dict[int, Bonds] = {}
    ends = {job_id: (state, ended) for job_id, (state, ended, _) in found.items()}
    for arrival in bound:
        try:
            dependencies = dependencies_of(arrival.spec)
            bonds[arrival.job_id] = find_bonds(dependencies, ends, arrival.siblings)
        except Refused as error:
            refused.setdefault(arrival.job_id, error)
    return refused, bonds


def _find_orphans(
    arrivals: list[Arrival], found: dict[int, tuple[int, bool, bool]]
) -> dict[int, Refused]:
    """Say which children cannot have their parents."""
    orphans: dict[int, Refused] = {}
    for arrival in arrivals:
        parent = arrival.submission.parent_job_id
        if parent is None:
            continue
        state, _, over = found.get(parent, (0, True, True))
        if not state:
            orphans[arrival.job_id] = NotFound("job", parent)
        elif over:
            name = "cancelled" if state in LIVE_STATES else JobState(state).name
            orphans[arrival.job_id] = IllegalMove(f"job {parent}", name, "submit a child of")
    return orphans


async def insert_jobs(
    tx: Transaction,
    arrivals: list[Arrival],
    now: datetime,
    *,
    shown: bool,
    bonds: dict[int, Bonds],
) -> set[int]:
    """Store the rows of jobs; those whose idempotency key was seen before are left out."""
    specs = [arrival.spec for arrival in arrivals]
    rows = await tx.fetch(
        _JOBS["insert_jobs"],
        job_ids=[arrival.job_id for arrival in arrivals],
        names=[spec.name for spec in specs],
        types=[spec.type for spec in specs],
        owners=[spec.owner for spec in specs],
        queues=[spec.queue for spec in specs],
        priorities=[spec.priority or 0 for spec in specs],
        specs=[msgspec.json.encode(spec).decode() for spec in specs],
        labels=[msgspec.json.encode(spec.labels).decode() for spec in specs],
        parent_job_ids=[arrival.submission.parent_job_id for arrival in arrivals],
        replay_of=[arrival.submission.replay_of for arrival in arrivals],
        correlation_ids=[arrival.correlation_id for arrival in arrivals],
        trace_ids=[arrival.trace_id for arrival in arrivals],
        trace_parents=[arrival.submission.trace_parent for arrival in arrivals],
        idempotency_keys=[spec.idempotency_key for spec in specs],
        spec_digests=[arrival.digest for arrival in arrivals],
        shown=[shown] * len(arrivals),
        fan_out=[arrival.submission.inputs is not None for arrival in arrivals],
        max_task_failures=[spec.max_task_failures for spec in specs],
        num_tasks=[arrival.submission.num_tasks for arrival in arrivals],
        graph_ids=[arrival.graph_id for arrival in arrivals],
        compensates_job_ids=[arrival.submission.compensates_job_id for arrival in arrivals],
        unmet=[bonds[a.job_id].unmet if a.job_id in bonds else 0 for a in arrivals],
        now=now,
    )
    return {row[0] for row in rows}


async def insert_tasks(
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
        "urgencies": [-(arrival.spec.priority or 0) for arrival in arrivals],
        "end_indexes": [min(a.submission.num_tasks, CHUNK_TASKS_MAX) for a in arrivals],
        "scheduling_timeouts": [None if t is None else timedelta(seconds=t) for t in timeouts],
    }


async def line_up(tx: Transaction, arrivals: list[Arrival], now: datetime) -> None:
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


async def find_by_key(
    tx: Transaction, arrivals: list[Arrival]
) -> dict[tuple[str | None, str | None], tuple[int, bytes, bool]]:
    """Find jobs that came before under the same keys: id, digest, and whether they are shown."""
    rows = await tx.fetch(
        _JOBS["find_by_key"],
        owners=[arrival.spec.owner for arrival in arrivals],
        idempotency_keys=[arrival.spec.idempotency_key for arrival in arrivals],
    )
    return {(row[0], row[1]): (row[2], row[3], row[4]) for row in rows}


def answer_repeat(arrival: Arrival, job_id: int, digest: bytes) -> Answer:
    """Answer a key that was seen before: with its job, or that it meant something else."""
    if digest != arrival.digest:
        return KeyReused(arrival.spec.idempotency_key or "", job_id)
    return Submitted(job_id, is_new=False)


async def answer_refused(
    tx: Transaction, arrivals: list[Arrival], refused: dict[int, Refused]
) -> dict[int, Answer]:
    """Answer what can no longer be stored; but a key that was seen before means the job of then.

    The jobs it refers to may have been pruned since, or have ended.
    """
    keyed = [a for a in arrivals if a.job_id in refused and a.spec.idempotency_key]
    seen = await find_by_key(tx, keyed) if keyed else {}
    answers: dict[int, Answer] = dict(refused)
    for arrival in keyed:
        known = seen.get((arrival.spec.owner, arrival.spec.idempotency_key))
        if known is not None and known[2]:
            answers[arrival.job_id] = answer_repeat(arrival, known[0], known[1])
    return answers


def _digest(submission: Submission) -> bytes:
    """Tell the same submission from a different one under the same key."""
    digest = hashlib.sha256(msgspec.json.encode(submission.plain or submission.spec))
    for text in submission.inputs or ():
        digest.update(b"\x00")
        digest.update(text.encode())
    return digest.digest()
