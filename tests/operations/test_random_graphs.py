"""Random graphs with random ends come out as a simple evaluation says, whoever was quicker.

Jobs are submitted in one call or in several, between steps of work; some fail, some are retried,
some cancelled, some placed. No job starts before what it waits for has ended as it had to, and
nothing waits for ever. Then the graph is resumed, perhaps twice: what was broken around the job
that was asked for, and nothing else, runs again once, and ends as the same evaluation says.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as some

from holdfast.errors import IllegalMove
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.order import Condition, holds
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import JobState, TaskState
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.follow_up import follow_up, follow_up_all
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.submitting.resume import resume
from holdfast.operations.upkeep.requeue import requeue_due
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from holdfast.store.database import Database, Transaction
from holdfast.store.reads.work.tasks import list_continued, list_results
from tests.audits import assert_audit_is_silent
from tests.clock import Clock
from tests.placed_world import PlacedWorld

JOBS_MAX = 9
TURNS_MAX = 60
WORKER = "w1"
CONDITIONS: tuple[Condition, ...] = ("succeeded", "succeeded", "failed", "ended")


class Planned(NamedTuple):
    """One job: what it waits for, by place, and how its attempts end."""

    waits: dict[int, Condition]
    ends_well: bool
    is_retried: bool
    dead_letters: bool
    is_placed: bool
    tasks: int
    delay: float | None


class Plan(NamedTuple):
    """A graph, how many jobs go into each call, what happens meanwhile, and who is resumed then.

    Of each resume, the place that is asked for, and whether everything ends well from then on.
    """

    jobs: list[Planned]
    calls: list[int]
    steps: list[tuple[str, int]]
    resumes: list[tuple[int, bool]]


@some.composite
def plans(draw: some.DrawFn) -> Plan:
    """Draw a graph and its story."""
    jobs = []
    for place in range(draw(some.integers(2, JOBS_MAX))):
        earlier = some.integers(0, max(place - 1, 0))
        waits = draw(
            some.dictionaries(earlier, some.sampled_from(CONDITIONS), max_size=min(place, 3))
        )
        jobs.append(
            Planned(
                waits,
                ends_well=draw(some.sampled_from([True, True, False])),
                is_retried=draw(some.booleans()),
                dead_letters=draw(some.booleans()),
                is_placed=draw(some.sampled_from([False, False, True])),
                tasks=draw(some.sampled_from([1, 1, 2])),
                delay=draw(some.sampled_from([None, None, None, 20.0])),
            )
        )
    calls = draw(some.lists(some.integers(1, JOBS_MAX), max_size=len(jobs)))
    kinds = some.sampled_from(["submit", "work", "work", "work", "follow", "cancel", "place"])
    steps = draw(some.lists(some.tuples(kinds, some.integers(0, JOBS_MAX - 1)), max_size=25))
    picks = some.integers(0, len(jobs) - 1)
    resumes = draw(some.lists(some.tuples(picks, some.booleans()), min_size=1, max_size=2))
    return Plan(jobs, calls, steps, resumes)


class Story:
    """One plan played on a ledger that others have used before."""

    def __init__(self, world: PlacedWorld, plan: Plan, number: int) -> None:
        self.world = world
        self.plan = plan
        self.queue = f"q{number}"
        self.job_ids: list[int] = []
        # The places and the sizes of all jobs, those that run others again among them.
        self.places: dict[int, int] = {}
        self.tasks: dict[int, int] = {}
        self.is_mended = False
        self.cancelled: set[int] = set()
        self._calls = [*plan.calls, JOBS_MAX]
        self._steps: dict[str, Callable[[int], Awaitable[Any]]] = {
            "submit": self.submit,
            "work": self.work,
            "place": self.place,
            "follow": lambda _: follow_up(world.ledger),
            "cancel": self.cancel,
        }

    async def play(self) -> None:
        """Play every step, then go on until everything has ended."""
        for kind, pick in self.plan.steps:
            await self._steps[kind](pick)
        await self.go_on()

    async def go_on(self) -> None:
        """Go on until everything has ended."""
        for _ in range(TURNS_MAX):
            if len(self.job_ids) == len(self.plan.jobs) and not await self._live():
                return
            await self.submit()
            await self.world.clock.advance(10)
            await requeue_due(self.world.ledger)
            await follow_up_all(self.world.ledger)
            await self.work()
            await self.place()
        raise AssertionError(f"these wait for ever: {await self._live()}")

    async def submit(self, _: int = 0) -> None:
        """Submit the jobs of the next call: by names within it, by ids beyond it."""
        first = len(self.job_ids)
        jobs = self.plan.jobs[first : first + (self._calls.pop(0) if self._calls else JOBS_MAX)]
        if jobs:
            [[now]] = await self.world.clock.fetch("select extract(epoch from holdfast.now())")
            graph = [self._describe(first + n, first, float(now)) for n in range(len(jobs))]
            answers = await submit_batch(self.world.ledger, graph[::-1])
            for job, answer in zip(jobs, answers[::-1], strict=True):
                self.places[answer.job_id] = len(self.job_ids)
                self.tasks[answer.job_id] = job.tasks
                self.job_ids.append(answer.job_id)

    def _describe(self, place: int, first: int, now: float) -> Submission:
        job = self.plan.jobs[place]
        fields: dict[str, Any] = {
            "entrypoint": {"function": "app:work"},
            "queue": None if job.is_placed else self.queue,
            "depends_on": [
                {"job": f"j{other}" if other >= first else str(self.job_ids[other])}
                | {"condition": condition}
                for other, condition in job.waits.items()
            ],
            "max_retries_failure": int(job.is_retried),
            "on_exhausted": "dead_letter" if job.dead_letters else "fail",
            "backoff": {"base": 0.0},
        }
        if job.delay is not None:
            fields["not_before"] = now + job.delay
        inputs = parse_inputs(list(range(job.tasks)))
        return Submission(parse_spec(fields), inputs, local_name=f"j{place}")

    async def work(self, _: int = 0) -> None:
        """Claim what there is of this story, and end it as planned."""
        for claim in await self.world.claim(2, queue=self.queue):
            ends_well = self._ends_well(claim.task_id, claim.attempt)
            await self.world.start(claim)
            await (self.world.succeed(claim) if ends_well else self.world.fail(claim))

    async def place(self, _: int = 0) -> None:
        """Place what there is, and end it as planned."""
        await self.world.place()
        await self.world.beat()
        worker = self.world.workers[WORKER]
        rows = await self.world.clock.fetch(
            "select job_id, task_index, attempt from holdfast.leases "
            "where placed and not ending and job_id = any ($1)",
            list(self.places),
        )
        for job_id, index, attempt in rows:
            task_id = TaskId(job_id, index)
            worker.start(task_id)
            await self.world.beat()
            ends_well = self._ends_well(task_id, attempt)
            worker.succeed(task_id) if ends_well else worker.fail(task_id)
            await self.world.beat()

    async def cancel(self, pick: int) -> None:
        """Cancel some job, and let that reach its tasks."""
        if self.job_ids:
            place = pick % len(self.job_ids)
            job_id = self.job_ids[place]
            if await cancel_job(self.world.ledger, job_id, "hard", actor="operator"):
                self.cancelled.add(place)
            await follow_up_all(self.world.ledger)
            await self.world.beat()

    def _ends_well(self, task_id: TaskId, attempt: int) -> bool:
        """Tell how an attempt ends; of a job that fails, the last task alone does."""
        job = self.plan.jobs[self.places[task_id.job_id]]
        is_good = (
            job.ends_well or self.is_mended or task_id.task_index < self.tasks[task_id.job_id] - 1
        )
        return is_good and (attempt > 0 or not job.is_retried)

    async def _live(self) -> list[int]:
        rows = await self.world.clock.fetch(
            "select job_id from holdfast.jobs where job_id = any ($1) and finished_at is null",
            list(self.places),
        )
        return [row[0] for row in rows]

    def expected(self) -> list[JobState]:
        """Evaluate the graph: plainly, one job after the other."""
        states: list[JobState] = []
        for place, job in enumerate(self.plan.jobs):
            may_start = all(
                holds(condition, succeeded=states[other] == JobState.SUCCEEDED)
                for other, condition in job.waits.items()
            )
            if place in self.cancelled or not may_start:
                states.append(JobState.KILLED)
            elif job.ends_well:
                states.append(JobState.SUCCEEDED)
            else:
                states.append(JobState.DEAD_LETTERED if job.dead_letters else JobState.FAILED)
        return states

    async def check(self) -> None:
        """Compare with the evaluation, and the events with what had to come first."""
        states = [await self.world.job_state(job_id) for job_id in self.job_ids]
        assert states == [TaskState(state) for state in self.expected()]
        early = await self.world.clock.fetch(
            """select begun.job_id, depends_on, condition
                 from holdfast.events as begun join holdfast.dependencies using (job_id)
                 left join holdfast.events as ended
                   on ended.job_id = depends_on and ended.task_index = -1
                  and ended.type::text in ('succeeded', 'failed', 'killed', 'dead_lettered')
                where begun.job_id = any ($1) and begun.type::text in ('claimed', 'placed')
                  and (ended.id is null or ended.id > begun.id or ended.ts > begun.ts
                       or condition <> 'ended'
                          and (condition = 'succeeded') <> (ended.type = 'succeeded'))""",
            list(self.places),
        )
        assert early == []
        await assert_audit_is_silent(self.world.ledger.database)


class Resumption:
    """The graph of a story, resumed after its end; the first jobs stay as they were."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.jobs = story.plan.jobs
        self.first = story.expected()
        self.states = list(self.first)
        # Of each place, the job that ran last.
        self.latest = list(story.job_ids)

    async def play(self, asked: int, is_mended: bool) -> None:
        """Resume around one job, work until all has ended, and compare with the evaluation."""
        self.story.is_mended = is_mended
        ledger = self.story.world.ledger
        around = self._around(asked)
        broken = [place for place in around if self.states[place] != JobState.SUCCEEDED]
        wanted = [
            (self.latest[place], await self._count_unsuccessful(self.latest[place]))
            for place in broken
        ]
        try:
            made = await resume(ledger, self.story.job_ids[asked], actor="operator")
        except IllegalMove:
            made = []
        assert sorted((each.replay_of, each.num_tasks) for each in made) == sorted(wanted)
        for each in made:
            assert each.job_id is not None
            place = self.story.places[each.replay_of]
            self.story.places[each.job_id] = place
            self.story.tasks[each.job_id] = each.num_tasks
            self.latest[place] = each.job_id
        await self.story.go_on()
        for place in broken:
            self.states[place] = self._evaluate(place, around, is_mended=is_mended)
        states = [await self.story.world.job_state(job_id) for job_id in self.latest]
        assert states == [TaskState(state) for state in self.states]
        await self.story.check()
        async with ledger.database.transaction() as tx:
            for place in broken:
                await self._check_results(tx, place)

    def _around(self, asked: int) -> list[int]:
        """List what is broken around a job: what it missed, and what waited for it in vain."""
        around = {asked}
        while True:
            found = set(around)
            for place, job in enumerate(self.jobs):
                for other, condition in job.waits.items():
                    if condition != "succeeded":
                        continue
                    if place in around and self.first[other] != JobState.SUCCEEDED:
                        found.add(other)
                    is_unwanted = place in self.story.cancelled
                    if other in around and self.first[place] != JobState.SUCCEEDED:
                        found |= set() if is_unwanted else {place}
            if found == around:
                return sorted(around)
            around = found

    def _evaluate(self, place: int, around: list[int], *, is_mended: bool) -> JobState:
        """Say how a job ends that was run again, once those before it have been said."""
        job = self.jobs[place]
        for other, condition in job.waits.items():
            is_again = condition == "succeeded" and other in around
            state = self.states[other] if is_again else self.first[other]
            if not holds(condition, succeeded=state == JobState.SUCCEEDED):
                return JobState.KILLED
        if job.ends_well or is_mended:
            return JobState.SUCCEEDED
        return JobState.DEAD_LETTERED if job.dead_letters else JobState.FAILED

    async def _count_unsuccessful(self, job_id: int) -> int:
        [[count]] = await self.story.world.clock.fetch(
            "select num_tasks - succeeded from holdfast.jobs where job_id = $1", job_id
        )
        return int(count)

    async def _check_results(self, tx: Transaction, place: int) -> None:
        """See that the results of a job and those that it continues are those of all its inputs."""
        line = await list_continued(tx, self.latest[place])
        succeeded = [
            row
            for job_id in line
            for row in await list_results(tx, job_id, page_size=9)
            if row.state == TaskState.SUCCEEDED
        ]
        is_whole = len(succeeded) == self.jobs[place].tasks
        assert is_whole == (self.states[place] == JobState.SUCCEEDED)


@asynccontextmanager
async def a_world(url: str) -> AsyncIterator[PlacedWorld]:
    """Open a ledger with one worker that is called, and has room for everything."""
    async with Database(url) as database, Clock(url) as clock:
        world = PlacedWorld(Ledger(database), clock)
        await world.watch()
        await world.add(WORKER, cpu=100.0, memory=10**12, disk=10**12)
        yield world


def play_many(url: str, examples: int, *phases: Phase) -> None:
    """Draw and play so many plans, one after the other in one ledger."""
    numbers = count(1)
    opened = a_world(url)

    with asyncio.Runner() as runner:
        world = runner.run(opened.__aenter__())

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        )
        @given(plans())
        def play(plan: Plan) -> None:
            runner.run(_play(Story(world, plan, next(numbers))))

        try:
            play()
        finally:
            runner.run(opened.__aexit__(None, None, None))


async def _play(story: Story) -> None:
    await story.play()
    await story.check()
    resumption = Resumption(story)
    for asked, is_mended in story.plan.resumes:
        await resumption.play(asked, is_mended)


def test_random_graphs_end_as_a_plain_evaluation_says(database_url: str) -> None:
    play_many(database_url, 12, Phase.generate)


@pytest.mark.nightly
def test_many_random_graphs_end_as_a_plain_evaluation_says(database_url: str) -> None:
    play_many(database_url, 600, Phase.generate, Phase.shrink)
