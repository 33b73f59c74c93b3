"""The demo's story: a few jobs on five worker processes, one of which does not survive it."""

import asyncio
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.cli.children import Child, start_child
from holdfast.cli.commands.processes.worker import ALLOW_ANYTHING
from holdfast.client.client import Client
from holdfast.client.job import Job
from holdfast.demo import story_tasks
from holdfast.demo.screen import Screen
from holdfast.errors import Unavailable
from holdfast.model.submitting.spec import Backoff, Entrypoint
from holdfast.model.work.states import JobState
from holdfast.model.workers.resources import Coscheduling, Resources
from holdfast.wire.requests import JobRequest
from holdfast.wire.status import JobStatus, TaskStatus

LOOK_SECONDS = 0.1
CHAPTER_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Played:
    """How a job was meant to end, and what there is to say about it."""

    job_id: int
    state: JobState
    attempts: int
    remark: str


class Story:
    """What is submitted, killed and cancelled, and in what order."""

    def __init__(
        self, client: Client, screen: Screen, variables: Mapping[str, str], *, log: int
    ) -> None:
        self._client = client
        self._screen = screen
        self._variables = variables
        self._log = log
        self.workers: dict[str, Child] = {}

    async def play(self) -> list[Played]:
        """Play all chapters; returns what should have become of each job."""
        claims = ["--queue", story_tasks.QUEUE, "--concurrency", "8", "--drain-seconds", "5"]
        for name in ("worker-1", "worker-2"):
            await self._start_worker(name, claims)
        for name in ("placed-1", "placed-2", "placed-3"):
            await self._start_worker(name, ["--placed", "--cpu", "1", "--drain-seconds", "1"])
        return [
            await self._fan_out(),
            await self._retry(),
            await self._refuse_input(),
            await self._cancel(),
            *await self._undo_a_graph(),
            await self._restart_a_gang(),
            await self._kill_a_worker(),
        ]

    async def _start_worker(self, name: str, flags: list[str]) -> None:
        arguments = ["worker", "--name", name, "--import", "holdfast.demo.story_tasks", *flags]
        arguments += ALLOW_ANYTHING
        self.workers[name] = await start_child(name, arguments, self._variables, log=self._log)

    async def _fan_out(self) -> Played:
        self._screen.title("One job, a task for each of 20 inputs, two workers")
        pictures = [f"picture-{number}" for number in range(20)]
        job = await self._client.map.aio(story_tasks.thumbnail, pictures)
        await self._watch(job, "thumbnail")
        return Played(int(job.id), JobState.SUCCEEDED, 20, "shared by two workers")

    async def _retry(self) -> Played:
        self._screen.title("A flaky task succeeds on its third attempt")
        job = await self._client.submit.aio(story_tasks.flaky_call)
        await self._watch(job, "flaky_call")
        return Played(int(job.id), JobState.SUCCEEDED, 3, "failed twice, retried after a backoff")

    async def _refuse_input(self) -> Played:
        self._screen.title("One poison input does not stop the others")
        job = await self._client.map.aio(story_tasks.parse_order, ["1", "poison", "3"])
        await self._watch(job, "parse_order")
        return Played(
            int(job.id), JobState.DEAD_LETTERED, 3, "put aside with its input; not retried"
        )

    async def _cancel(self) -> Played:
        self._screen.title("A long task is cancelled, softly")
        job = await self._client.submit.aio(story_tasks.export)
        self._screen.watch(int(job.id), "export")
        await self._wait_for(job, "RUNNING")
        await job.cancel.aio(reason="nobody needs it any more")
        await self._watch(job, "export")
        return Played(int(job.id), JobState.KILLED, 1, "was told, cleaned up, and ended")

    async def _undo_a_graph(self) -> list[Played]:
        self._screen.title("Three jobs, each waiting for the one before; the last one fails")
        async with self._client.graph():
            room = await self._client.submit.aio(story_tasks.reserve_room, "ada")
            receipt = await self._client.submit.aio(story_tasks.charge, room)
            flight = await self._client.submit.aio(story_tasks.book_flight, receipt)
        for job, name in ((room, "reserve_room"), (receipt, "charge"), (flight, "book_flight")):
            self._screen.watch(int(job.id), name)
        await self._watch(flight, "book_flight")
        self._screen.say("what had succeeded before it is undone, in reverse order")
        played = [
            Played(int(room.id), JobState.SUCCEEDED, 1, "undone last"),
            Played(int(receipt.id), JobState.SUCCEEDED, 1, "undone first"),
            Played(int(flight.id), JobState.DEAD_LETTERED, 1, "failed for good"),
        ]
        for job, undo in ((receipt, "refund"), (room, "release_room")):
            status = await self._wait_until(job, lambda status: status.compensated_by is not None)
            undoing = await self._client.job.aio(status.compensated_by or "")
            await self._watch(undoing, undo)
            await self._wait_until(job, lambda status: bool(status.is_compensated))
            remark = f"undoes job {job.id}"
            played.append(Played(int(undoing.id), JobState.SUCCEEDED, 1, remark))
        await self._screen.show_news()
        return played

    async def _restart_a_gang(self) -> Played:
        self._screen.title("A gang of three starts together, fails together, starts again")
        request = JobRequest(
            entrypoint=Entrypoint(shell=story_tasks.MEMBER),
            name="gang",
            replicas=story_tasks.MEMBERS,
            resources=Resources(cpu=1),
            coscheduling=Coscheduling(),
            max_retries_failure=1,
            backoff=Backoff(base=0.2),
        )
        answer = await self._client.jobs.submit.aio(request)
        await self._watch(await self._client.job.aio(answer.job_id), "gang")
        return Played(
            int(answer.job_id),
            JobState.SUCCEEDED,
            2 * story_tasks.MEMBERS,
            "member 1 failed; all three began again",
        )

    async def _kill_a_worker(self) -> Played:
        self._screen.title("A worker dies by kill -9 in the middle of its task")
        job = await self._client.submit.aio(story_tasks.train)
        self._screen.watch(int(job.id), "train")
        task = await self._wait_for(job, "RUNNING", steps=2)
        victim = next(name for name in self.workers if (task.worker_id or "").startswith(name))
        self._screen.say(f"kill -9 {victim}; its lease has up to two seconds to go")
        self.workers[victim].process.send_signal(signal.SIGKILL)
        await self._watch(job, "train")
        result = await job.result.aio(timeout=CHAPTER_SECONDS_MAX)
        return Played(int(job.id), JobState.SUCCEEDED, 2, f"taken over: {result}")

    async def _watch(self, job: Job[Any], name: str) -> None:
        """Show what happens to a job until it has ended."""
        self._screen.watch(int(job.id), name)
        async with asyncio.timeout(CHAPTER_SECONDS_MAX):
            while (await job.status.aio()).finished_at_ms is None:
                await self._screen.show_news()
                await asyncio.sleep(LOOK_SECONDS)
        await self._screen.show_news()

    async def _wait_until(self, job: Job[Any], is_so: Callable[[JobStatus], bool]) -> JobStatus:
        """Wait until something is true of a job; what happens meanwhile is shown afterwards."""
        for _ in range(int(CHAPTER_SECONDS_MAX / LOOK_SECONDS)):
            status = await job.status.aio()
            if is_so(status):
                return status
            await asyncio.sleep(LOOK_SECONDS)
        raise Unavailable(f"job {job.id} is not undone after {CHAPTER_SECONDS_MAX:g} s")

    async def _wait_for(self, job: Job[Any], state: str, steps: int = 0) -> TaskStatus:
        """Wait until a job's task is in a state, and some steps ahead."""
        for _ in range(int(CHAPTER_SECONDS_MAX / LOOK_SECONDS)):
            await self._screen.show_news()
            task = await self._client.tasks.get.aio(f"{job.id}.0")
            done = (task.progress or 0.0) * story_tasks.STEPS
            if task.state == f"TASK_STATE_{state}" and done >= steps:
                return task
            await asyncio.sleep(LOOK_SECONDS)
        raise Unavailable(f"task {job.id}.0 is not {state} after {CHAPTER_SECONDS_MAX:g} s")
