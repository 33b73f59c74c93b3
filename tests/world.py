"""The ledger told in domain words, for tests that read like a story."""

from typing import Any, NamedTuple, TypeVar

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import StoredJob
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim, claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.cancel import cancel_job, cancel_task
from holdfast.operations.ending.complete import Completed, Completion, complete
from holdfast.operations.ending.reap import reap
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.renew import Renewed, renew
from holdfast.operations.report import Recorded, Report, report
from holdfast.operations.submitting.submit import submit_one
from holdfast.operations.upkeep.expire import expire
from holdfast.operations.upkeep.requeue import give_up_scheduling, requeue_due
from holdfast.rules.submitting.submission import (
    complete_submission,
    parse_inputs,
    parse_spec,
    terms_of,
)
from holdfast.store.reads.work.dead_letters import (
    DeadLetterFilter,
    DeadLetterRow,
    list_dead_letters,
)
from holdfast.store.specs import StoredSpec
from tests.clock import Clock

DUMPED_TABLES = (
    "jobs", "tasks", "attempts", "events", "ready", "gated", "waiting", "leases", "workers",
    "queues", "dead_letters", "notes", "idempotency_keys", "outbox", "continuations", "datasets",
    "dataset_versions", "dataset_entries", "commits", "job_outputs", "cut_overs", "trigger_runs",
    "unique_jobs", "expiries",
)  # fmt: skip

Answer = TypeVar("Answer")


class TaskRow(NamedTuple):
    """A task and its attempts as the tables hold them."""

    state: TaskState
    attempt: int
    failure_count: int
    preemption_count: int
    finished: bool
    attempts: list[Any]


class World:
    """One ledger, its clock, and what people and workers do to it."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self.ledger = ledger
        self.clock = clock

    async def submit(self, inputs: list[Any] | None = None, **fields: Any) -> int:
        """Submit a job to the queue `q` unless said otherwise; returns its id."""
        fields = {"entrypoint": {"function": "app:work"}, "queue": "q"} | fields
        submission = Submission(
            parse_spec(fields), None if inputs is None else parse_inputs(inputs)
        )
        return (await submit_one(self.ledger, submission)).job_id

    async def claim(self, count: int = 1, worker: str = "w1", queue: str = "q") -> list[Claim]:
        """Claim tasks from a queue."""
        [answer] = await claim(self.ledger, [ClaimRequest(worker, (queue,), count)])
        return _raised(answer)

    async def claim_by_id(self, task_id: TaskId, worker: str = "w1") -> Claim:
        """Claim one task by its id."""
        [answer] = await claim(self.ledger, [ClaimRequest(worker, task_id=task_id)])
        [found] = _raised(answer)
        return found

    async def report(self, claim: Claim, state: TaskState) -> Recorded:
        """Report where an attempt stands."""
        [answer] = await report(self.ledger, [Report(fence_of(claim), state)])
        return _raised(answer)

    async def start(self, claim: Claim) -> Recorded:
        """Report that user code runs."""
        return await self.report(claim, TaskState.RUNNING)

    async def renew(self, claim: Claim) -> Renewed:
        """Renew a lease."""
        [answer] = await renew(self.ledger, [fence_of(claim)])
        return _raised(answer)

    async def complete(self, claim: Claim, status: Any, **fields: Any) -> Completed:
        """Report how an attempt ended."""
        [answer] = await complete(self.ledger, [Completion(fence_of(claim), status, **fields)])
        return _raised(answer)

    async def succeed(self, claim: Claim, result: str | None = None) -> Completed:
        """Report success."""
        return await self.complete(claim, "succeeded", result=result)

    async def fail(self, claim: Claim, error_class: str = "TransientError") -> Completed:
        """Report a failure."""
        return await self.complete(claim, "failed", error="boom", error_class=error_class)

    async def cancel_job(self, job_id: int, mode: Any = "hard") -> bool:
        """Cancel a job, and let what follows happen."""
        flagged = await cancel_job(self.ledger, job_id, mode, actor="operator")
        await follow_up_all(self.ledger)
        return flagged

    async def cancel_task(self, task_id: TaskId, mode: Any = "hard") -> bool:
        """Cancel one task."""
        return await cancel_task(self.ledger, task_id, mode, actor="operator")

    async def pass_time(self, seconds: float) -> None:
        """Let time pass while the chores run, so that nobody takes it for an outage."""
        while seconds > 0:
            step = min(seconds, 5.0)
            await self.clock.advance(step)
            await self.run_chores()
            seconds -= step

    async def run_chores(self) -> None:
        """Run every chore once."""
        await reap(self.ledger)
        await requeue_due(self.ledger)
        await give_up_scheduling(self.ledger)
        await expire(self.ledger)
        await follow_up_all(self.ledger)

    async def job(self, job_id: int) -> Any:
        """Read a job's row."""
        [row] = await self.clock.fetch("select * from holdfast.jobs where job_id = $1", job_id)
        return row

    async def job_state(self, job_id: int) -> TaskState:
        """Read a job's state."""
        return TaskState((await self.job(job_id))["state"])

    async def task(self, task_id: TaskId) -> TaskRow:
        """Read a task and its history."""
        [row] = await self.clock.fetch(
            "select * from holdfast.tasks where job_id = $1 and task_index = $2", *task_id
        )
        attempts = await self.clock.fetch(
            "select * from holdfast.attempt_history where job_id = $1 and task_index = $2 "
            "order by attempt",
            *task_id,
        )
        return TaskRow(
            TaskState(row["state"]),
            row["attempt"],
            row["failure_count"],
            row["preemption_count"],
            row["finished_at"] is not None,
            attempts,
        )

    async def story(self, job_id: int, task_index: int = 0) -> list[str]:
        """List the types of a stream's events, in order; task_index -1 is the job's own."""
        rows = await self.clock.fetch(
            "select type::text from holdfast.events "
            "where job_id = $1 and task_index = $2 order by seq",
            job_id,
            task_index,
        )
        return [row[0] for row in rows]

    async def dead_letters(self, **wanted: Any) -> list[DeadLetterRow]:
        """List dead letters, the open ones unless asked otherwise."""
        async with self.ledger.database.transaction() as tx:
            page = await list_dead_letters(tx, DeadLetterFilter(**wanted), page_size=1000)
        return page.rows

    async def watch(self) -> None:
        """Let the leases count as watched from now on: no outage lies behind us."""
        await self.clock.fetch(
            "update holdfast.reaper "
            "set last_pass_at = holdfast.now(), outage_from = null, outage_until = null"
        )

    async def submit_child(self, parent_job_id: int, **fields: Any) -> int:
        """Submit a job as the child of another; returns its id."""
        fields = {"entrypoint": {"function": "app:work"}, "queue": "q"} | fields
        submission = Submission(parse_spec(fields), parent_job_id=parent_job_id)
        return (await submit_one(self.ledger, submission)).job_id

    async def lease(self, task_id: TaskId) -> Any | None:
        """Read a task's lease, open or ending; None once it has been released."""
        rows = await self.clock.fetch(
            "select * from holdfast.leases where job_id = $1 and task_index = $2", *task_id
        )
        return rows[0] if rows else None

    async def count(self, table: str) -> int:
        """Count the rows of one table."""
        [row] = await self.clock.fetch(f"select count(*) from holdfast.{table}")
        return int(row[0])

    async def dump(self) -> dict[str, list[Any]]:
        """Read every table that an operation may write, to see that nothing has changed."""
        return {
            table: await self.clock.fetch(f"select t::text from holdfast.{table} as t order by 1")
            for table in DUMPED_TABLES
        }


def a_stored_job(num_tasks: int, ready: int = 0) -> StoredJob:
    """Describe job 1, of the queue `q`, as it is announced when it is stored."""
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"})
    complete = complete_submission(Submission(spec), Limits()).spec
    stored = StoredSpec(complete, terms_of(complete), "work", num_tasks, "c", None, {})
    return StoredJob(1, num_tasks, ready, stored)


def fence_of(claim: Claim) -> Fence:
    """Take from a claim what its holder must present."""
    return Fence(claim.task_id, claim.attempt, claim.lease_token)


def _raised(answer: Answer | Exception) -> Answer:
    if isinstance(answer, Exception):
        raise answer
    return answer
