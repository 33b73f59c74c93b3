"""A thousand jobs of every outcome: one event per transition, and counts that match."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import Refused
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.ending.complete import Completion, complete
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.report import Report, report
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit
from holdfast.operations.upkeep.audit import audit
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from tests.world import World, fence_of

JOBS = 1_000
SUCCEEDED, KILLED, DEAD = TaskState.SUCCEEDED, TaskState.KILLED, TaskState.DEAD_LETTERED
FAILED = TaskState.FAILED

# What a worker does with an attempt, and what the task's stream then tells of it.
TOLD: dict[str, list[str]] = {
    "succeed": ["claimed", "started", "succeeded"],
    "fail": ["claimed", "started", "failed"],
    "reject": ["claimed", "failed"],
    "vanish": ["claimed", "worker_failed"],
    "hand back": ["claimed", "worker_failed"],
    "be killed": ["claimed", "started", "killed"],
    "be interrupted": ["claimed", "started", "killed"],
}
NEVER_START = ("vanish", "reject", "hand back")
Actions = list[tuple[Claim, str]]


@dataclass(frozen=True)
class Fate:
    """What happens to a job's tasks, attempt by attempt, and where that leads."""

    attempts: list[str]
    end: TaskState
    fields: dict[str, Any] = field(default_factory=dict)
    cancel: str | None = None

    @property
    def task_story(self) -> list[str]:
        """Tell the task's stream."""
        told = [event for attempt in self.attempts for event in [*TOLD[attempt], "retried"]]
        told = told[:-1] or ["killed"]
        return [*told, "dead_lettered"] if self.end == DEAD else told

    @property
    def job_story(self) -> list[str]:
        """Tell the job's stream."""
        started = ["started"] if self.attempts else []
        asked = ["cancel_requested"] if self.cancel else []
        return ["submitted", *started, *asked, self.end.name.lower()]


AT_ONCE = {"backoff": {"base": 0.0}}
FATES = [
    Fate(["succeed"], SUCCEEDED),
    Fate(["succeed"], SUCCEEDED, {"inputs": [1, 2, 3]}),
    Fate(["fail", "succeed"], SUCCEEDED, {"max_retries_failure": 1} | AT_ONCE),
    Fate(["fail", "reject", "fail"], DEAD, {"max_retries_failure": 2, "backoff": {"base": 2.0}}),
    Fate(["reject"], FAILED, {"on_exhausted": "fail"}),
    Fate(["vanish", "fail", "succeed"], SUCCEEDED, {"max_retries_failure": 1}),
    Fate(["vanish"], DEAD, {"max_retries_preemption": 0}),
    Fate(["hand back", "hand back", "succeed"], SUCCEEDED, {"max_retries_preemption": 0}),
    Fate([], KILLED, {"replicas": 2}, cancel="soft"),
    Fate(["be killed"], KILLED, cancel="hard"),
    Fate(["be interrupted"], KILLED, {"max_retries_failure": 5}, cancel="soft"),
]


def a_submission(fate: Fate) -> Submission:
    """Describe a job that has this fate."""
    fields = dict(fate.fields)
    inputs = fields.pop("inputs", None)
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"} | fields)
    return Submission(spec, None if inputs is None else parse_inputs(inputs))


async def let_workers_work(world: World, fates: dict[int, Fate]) -> None:
    """Claim and end attempts as the fates have it, until nobody finds anything to do."""
    idle_rounds = 0
    while idle_rounds < 3:
        claims = await world.claim(1_000, worker="w1") + await world.claim(1_000, worker="w2")
        idle_rounds = 0 if claims else idle_rounds + 1
        actions = [(claim, fates[claim.task_id.job_id].attempts[claim.attempt]) for claim in claims]
        await start(world.ledger, [c for c, action in actions if action not in NEVER_START])
        await cancel(world.ledger, actions, fates)
        await end(world.ledger, actions)
        await world.watch()  # on a slow machine all this takes long, which is no outage
        await world.pass_time(40)


async def start(ledger: Ledger, claims: list[Claim]) -> None:
    """Report that user code runs, for every other one; the rest leave it to the completion."""
    reports = [Report(fence_of(claim), TaskState.RUNNING) for claim in claims[::2]]
    answers = await report(ledger, reports)
    assert not [answer for answer in answers if isinstance(answer, Refused)]


async def cancel(ledger: Ledger, actions: Actions, fates: dict[int, Fate]) -> None:
    """Cancel the jobs whose tasks are to be killed while they run."""
    doomed = [claim for claim, action in actions if action.startswith("be ")]
    await report(ledger, [Report(fence_of(claim), TaskState.RUNNING) for claim in doomed])
    for claim in doomed:
        mode: Any = fates[claim.task_id.job_id].cancel
        assert await cancel_job(ledger, claim.task_id.job_id, mode, actor="ann")
    await follow_up_all(ledger)


async def end(ledger: Ledger, actions: Actions) -> None:
    """Report the ends of attempts, all in one batch, and half of them twice."""
    items = []
    for claim, action in actions:
        fence = fence_of(claim)
        match action:
            case "succeed":
                items.append(Completion(fence, "succeeded", result="1"))
            case "fail" | "be interrupted":
                items.append(Completion(fence, "failed", exit_code=1, error="boom"))
            case "reject":
                items.append(Completion(fence, "failed", error="boom", stage="input"))
            case "hand back":
                items.append(Completion(fence, "handed_back"))
            case "be killed":
                items.append(Completion(fence, "killed"))
    for batch in (items, [item for item in items[::2] if item.status == "succeeded"]):
        answers = await complete(ledger, batch)
        assert not [answer for answer in answers if isinstance(answer, Refused)]


async def read_streams(world: World) -> dict[TaskId, list[str]]:
    """Read every stream of events; each must be gapless from zero."""
    streams: dict[TaskId, list[str]] = defaultdict(list)
    rows = await world.clock.fetch(
        "select job_id, task_index, seq, type::text from holdfast.events order by 1, 2, 3"
    )
    for job_id, task_index, seq, kind in rows:
        stream = streams[TaskId(job_id, task_index)]
        assert seq == len(stream)
        stream.append(kind)
    return streams


async def test_a_thousand_jobs_leave_one_event_per_transition(world: World) -> None:
    await world.watch()
    ledger = world.ledger
    chosen = [FATES[number % len(FATES)] for number in range(JOBS)]
    answers = await submit(ledger, [a_submission(fate) for fate in chosen])
    job_ids = [answer.job_id for answer in answers if isinstance(answer, Submitted)]
    fates = dict(zip(job_ids, chosen, strict=True))
    for job_id, fate in fates.items():
        if not fate.attempts:
            assert await cancel_job(ledger, job_id, "soft", actor="ann")
    await follow_up_all(ledger)
    await let_workers_work(world, fates)

    expected = {}
    for job_id, fate in fates.items():
        expected[TaskId(job_id, -1)] = fate.job_story
        for index in range(a_submission(fate).num_tasks):
            expected[TaskId(job_id, index)] = fate.task_story
    assert await read_streams(world) == expected
    tasks = await world.clock.fetch("select job_id, task_index, state, seq from holdfast.tasks")
    assert {TaskId(row[0], row[1]): (row[2], row[3]) for row in tasks} == {
        task_id: (fates[task_id.job_id].end, len(story))
        for task_id, story in expected.items()
        if task_id.task_index >= 0
    }
    await check_counts(world, fates)
    assert [finding async for finding in audit(ledger.database)] == []


async def check_counts(world: World, fates: dict[int, Fate]) -> None:
    """Compare the counts of every job with its tasks, and of the tables with the fates."""
    for job in await world.clock.fetch("select * from holdfast.jobs"):
        fate = fates[job["job_id"]]
        counted = {state.name: job[state.name.lower()] for state in TaskState}
        assert +Counter(counted) == {fate.end.name: a_submission(fate).num_tasks}
        assert job["state"] == fate.end
    attempts = sum(len(fate.attempts) * a_submission(fate).num_tasks for fate in fates.values())
    dead = sum(fate.end == DEAD for fate in fates.values())
    assert await world.count("attempts") == attempts
    assert await world.count("dead_letters") == dead
    for table in ("leases", "waiting", "outbox"):
        assert await world.count(table) == 0
