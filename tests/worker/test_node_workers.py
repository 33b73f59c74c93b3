"""Workers in another language, written from docs/worker-protocol.md: what they do for a server."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import aiohttp
import msgspec
import psutil
import pytest

from holdfast.client.transport import Transport
from holdfast.model.work.states import TaskState
from holdfast.store.database import Database
from holdfast.wire.answers import WorkerRegisterAnswer
from holdfast.wire.cluster import (
    HEARTBEAT_PATH,
    SECRET_HEADER,
    TaskToKill,
    WorkerHeartbeatAnswer,
    WorkerHeartbeatRequest,
)
from holdfast.wire.requests import WorkerRegisterRequest
from holdfast.wire.status import Changed, LogChunk
from tests.audits import assert_audit_is_silent
from tests.waiting import eventually
from tests.worker.living import await_process, lives
from tests.worker.node_worker import FOLDER, NodeWorker, node_worker
from tests.worker.placed_workplace import PlacedWorkplace, open_placed
from tests.worker.workplace import QUEUE, Workplace, open_workplace

LINES_MAX = 200
FAILED, KILLED, WORKER_FAILED = TaskState.FAILED, TaskState.KILLED, TaskState.WORKER_FAILED
# Says that it runs; gives its process's number to whoever looks.
UP = "echo up; echo $$ > {folder}/new; mv {folder}/new {folder}/pid; "


class Office:
    """A server, and workers in Node of one kind for it."""

    def __init__(self, workplace: Workplace, kind: Literal["claimed", "placed"]) -> None:
        self.place = workplace
        self.kind = kind
        self.folder = workplace.folder

    def work(
        self, room: int = 4, drain_seconds: float = 30
    ) -> AbstractAsyncContextManager[NodeWorker]:
        """Run a worker."""
        queue = [QUEUE] if self.kind == "claimed" else []
        options = [*queue, str(room), str(drain_seconds)]
        return node_worker(self.folder, f"{self.kind}.mjs", self.place.url, *options)

    async def submit(self, script: str, inputs: list[Any] | None = None, **spec: Any) -> str:
        """Submit a script of the shell; returns the id of its first task."""
        return await self.submit_entrypoint({"shell": script}, inputs, **spec)

    async def submit_entrypoint(
        self, entrypoint: dict[str, Any], inputs: list[Any] | None = None, **spec: Any
    ) -> str:
        """Submit anything; returns the id of its first task."""
        queue = QUEUE if self.kind == "claimed" else None
        fields = {"queue": queue, "max_retries_failure": 0, "on_exhausted": "fail"} | spec
        return await self.place.submit(entrypoint, inputs, **fields)

    async def begin(self, script: str, **spec: Any) -> tuple[str, psutil.Process]:
        """Submit a script, and wait until it runs and was heard of."""
        task_id = await self.submit(UP.format(folder=self.folder) + script, **spec)
        await self.place.reach(task_id, "RUNNING")
        await eventually((self.folder / "pid").exists)
        process = await_process(self.folder / "pid")

        async def is_heard() -> bool:
            return (await self.read(task_id)).startswith("up\n")

        await eventually(is_heard)
        return task_id, process

    async def cancel(self, task_id: str, mode: Literal["soft", "hard"]) -> None:
        """Cancel a task."""
        await self.place.cancel(task_id, mode)

    async def read(self, task_id: str) -> str:
        """Read the output of a task as people do."""
        async with Transport(self.place.url) as transport:
            chunk = await transport.call("GET", f"/api/tasks/{task_id}/logs", LogChunk)
        return chunk.content.decode()

    async def outcome(self, task_id: str) -> tuple[TaskState, int | None, str | None]:
        """Wait for the end of the first attempt."""
        ended = await self.place.ended(task_id)
        return TaskState(ended["state"]), ended["exit_code"], ended["error"]

    async def find_worker(self) -> Any:
        """Wait until a worker is known; returns its row."""

        async def first() -> Any:
            return next(iter(await self.place.fetch("select * from holdfast.workers")), None)

        return await eventually(first)


@pytest.fixture(params=["claimed", "placed"])
async def office(
    request: pytest.FixtureRequest, database_url: str, tmp_path: Path
) -> AsyncIterator[Office]:
    """A server for one kind of workers; leases may be short there."""
    opened = open_workplace if request.param == "claimed" else open_placed
    async with opened(database_url, tmp_path) as workplace:
        yield Office(workplace, request.param)


async def test_commands_succeed_and_their_output_can_be_read(
    office: Office, database: Database
) -> None:
    async with office.work():
        first = await office.submit("echo hello $HOLDFAST_INPUT; echo ä >&2", ["ada", {"n": 1}])
        second = first.replace(".0", ".1")
        plain = await office.submit_entrypoint({"command": ["printf", "%s|", "a b", "$HOME"]})
        for task_id in (first, second, plain):
            assert (await office.place.reach(task_id, "SUCCEEDED"))["attempt"] == 0
        said = await office.read(first)
        assert sorted(said.splitlines()) == ['hello "ada"', "ä"]
        assert 'hello {"n":1}\n' in await office.read(second)
        assert await office.read(plain) == "a b|$HOME|"
    await assert_audit_is_silent(database)


async def test_a_command_finds_the_variables_that_the_page_names(office: Office) -> None:
    script = "env | grep -E '^(HOLDFAST_|GREETING)'; cat $HOLDFAST_INPUT_FILE; pwd; ls -A"
    async with office.work():
        task_id = await office.submit(
            script, [{"n": 1}], environment={"GREETING": "hi"}, correlation_id="c-7"
        )
        await office.place.reach(task_id, "SUCCEEDED")
    said = (await office.read(task_id)).splitlines()
    found = dict(line.split("=", 1) for line in said[:-1])
    job_id, _, index = task_id.partition(".")
    token = found.pop("HOLDFAST_LEASE_TOKEN")
    [attempt] = await office.place.attempts(task_id)
    assert token == str(attempt["lease_token"])
    file = found.pop("HOLDFAST_INPUT_FILE")
    assert said[-1] == f'{{"n":1}}{Path(file).parent / "work"}'
    assert found == {
        "GREETING": "hi",
        "HOLDFAST_SERVER": office.place.url,
        "HOLDFAST_JOB_ID": job_id,
        "HOLDFAST_TASK_ID": task_id,
        "HOLDFAST_TASK_INDEX": index,
        "HOLDFAST_NUM_TASKS": "1",
        "HOLDFAST_ATTEMPT": "0",
        "HOLDFAST_CORRELATION_ID": "c-7",
        "HOLDFAST_INPUT": '{"n":1}',
    }
    assert not Path(file).parent.exists()


async def test_a_failing_command_is_recorded_with_its_exit_code(
    office: Office, database: Database
) -> None:
    async with office.work():
        exits = await office.submit("echo so; exit 3")
        signalled = await office.submit("kill -SEGV $$")
        missing = await office.submit_entrypoint({"command": ["/nothing/of/the/kind"]})
        python = await office.submit_entrypoint({"function": "some:thing"})
        assert await office.outcome(exits) == (FAILED, 3, "exit code 3")
        assert await office.outcome(signalled) == (FAILED, 139, "ended by SIGSEGV")
        assert await office.read(exits) == "so\n"
        for task_id, text in ((missing, "ENOENT"), (python, "runs commands")):
            assert text in str((await office.outcome(task_id))[2])
            [attempt] = await office.place.attempts(task_id)
            assert (attempt["error_class"], attempt["stage"]) == ("PermanentError", "fetch")
    await assert_audit_is_silent(database)


async def test_a_failing_command_is_tried_again(office: Office) -> None:
    async with office.work():
        backoff = {"base": 0.0}
        task_id = await office.submit(
            "exit $((1 - HOLDFAST_ATTEMPT))", max_retries_failure=1, backoff=backoff
        )
        assert (await office.place.reach(task_id, "SUCCEEDED"))["attempt"] == 1


async def test_a_soft_cancel_lets_a_command_say_goodbye(office: Office) -> None:
    async with office.work():
        script = "trap 'echo bye; exit 7' TERM; while :; do sleep 0.02; done"
        task_id, process = await office.begin(script)
        await office.cancel(task_id, "soft")
        assert await office.outcome(task_id) == (KILLED, 7, "exit code 7")
        assert not lives(process)
        said = (await office.read(task_id)).splitlines()
        assert (said[0], said[-1]) == ("up", "bye")  # the shell may say that its sleep was ended


@pytest.mark.nightly
async def test_a_command_that_does_not_mind_is_killed_after_its_grace(office: Office) -> None:
    async with office.work():
        script = "trap '' TERM; sleep 600 & while :; do sleep 0.02; done"
        task_id, process = await office.begin(script, grace=0.5)
        [sleeper] = [each for each in process.children() if "600" in each.cmdline()]
        await office.cancel(task_id, "soft")
        state, _, _ = await office.outcome(task_id)
        assert state == KILLED
        assert not lives(process)
        assert not lives(sleeper)


async def test_a_hard_cancel_kills_a_command_and_what_it_has_started(office: Office) -> None:
    async with office.work():
        task_id, process = await office.begin("sleep 600 & wait")
        [sleeper] = process.children()
        await office.cancel(task_id, "hard")
        assert (await office.outcome(task_id))[0] == KILLED
        assert not lives(process)
        assert not lives(sleeper)
        after = await office.submit("true")
        await office.place.reach(after, "SUCCEEDED")


async def test_a_command_that_takes_too_long_is_stopped_by_the_server(office: Office) -> None:
    async with office.work():
        task_id, process = await office.begin("sleep 600", timeout=0.5, on_timeout="fail")
        state, _, error = await office.outcome(task_id)
        assert (state, error) == (FAILED, "ran longer than its timeout of 0.5 s")
        assert not lives(process)


@pytest.mark.nightly
async def test_a_lease_is_renewed_as_long_as_its_command_runs(
    office: Office, database: Database
) -> None:
    async with office.work():
        task_id = await office.submit("sleep 7", lease=3.0)
        assert (await office.place.reach(task_id, "SUCCEEDED"))["attempt"] == 0
    await assert_audit_is_silent(database)


@pytest.mark.nightly
async def test_no_more_run_at_once_than_there_is_room_for(office: Office) -> None:
    script = f"mkdir {office.folder}/busy && sleep 0.1 && rmdir {office.folder}/busy"
    async with office.work(room=1):
        first = await office.submit(script, [1, 2, 3, 4])
        for index in range(4):
            await office.place.reach(first.replace(".0", f".{index}"), "SUCCEEDED")


async def test_a_worker_that_drains_finishes_what_runs_and_takes_nothing_more(
    office: Office, database: Database
) -> None:
    async with office.work() as worker:
        wait = f"while [ ! -e {office.folder}/go ]; do sleep 0.02; done"
        task_id, _ = await office.begin(wait)
        row = await office.find_worker()
        async with Transport(office.place.url) as transport:
            path = f"/api/workers/{row['worker_id']}:drain"
            assert (await transport.call("POST", path, Changed)).changed
        await office.place.server.runtime.stops.note_workers()  # as every few seconds
        (office.folder / "go").touch()
        await worker.end()
        assert await office.place.state(task_id) == "SUCCEEDED"
        later = await office.submit("true")
        assert await office.place.state(later) == "PENDING"
    if office.kind == "placed":
        assert (await office.find_worker())["lost_cause"] == "left"
    await assert_audit_is_silent(database)


async def test_a_worker_that_has_to_go_hands_back_what_runs_at_no_cost(
    office: Office, database: Database
) -> None:
    async with office.work(drain_seconds=0) as worker:
        task_id, process = await office.begin("[ $HOLDFAST_ATTEMPT != 0 ] || sleep 600")
        await worker.leave()
        assert not lives(process)
        assert await office.outcome(task_id) == (WORKER_FAILED, None, "handed back")
    async with office.work():
        task = await office.place.reach(task_id, "SUCCEEDED")
        assert (task["attempt"], task["preemption_count"]) == (1, 0)
    await assert_audit_is_silent(database)


async def test_nothing_outlives_a_worker_that_is_killed(office: Office) -> None:
    async with office.work() as worker:
        script = "[ $HOLDFAST_ATTEMPT != 0 ] || { sleep 600 & wait; }"
        task_id, process = await office.begin(script, lease=3.0)
        family = [process, *process.children()]
        await worker.kill()
        await eventually(lambda: not any(lives(each) for each in family))
    async with office.work():
        await office.place.reach(task_id, "SUCCEEDED", seconds=60)


@pytest.mark.nightly
async def test_nothing_overruns_the_lease_of_a_worker_that_is_stopped(
    office: Office, database: Database
) -> None:
    async with office.work() as worker:
        alive = f"while :; do date +%s.%N >> {office.folder}/alive; sleep 0.02; done"
        script = f"[ $HOLDFAST_ATTEMPT != 0 ] || {alive}"
        task_id, process = await office.begin(script, lease=3.0)
        worker.process.send_signal(signal.SIGSTOP)
        ended = await office.place.ended(task_id)
        assert not lives(process)
        last = float((office.folder / "alive").read_text().splitlines()[-1])
        assert last < ended["last_lease_expires_at"].timestamp()
        worker.process.send_signal(signal.SIGCONT)
        await office.place.reach(task_id, "SUCCEEDED", seconds=60)
        assert await office.outcome(task_id) == (WORKER_FAILED, None, "lease expired")
    await assert_audit_is_silent(database)


@pytest.mark.nightly
async def test_a_worker_that_is_replaced_kills_what_it_runs_and_ends(workplace: Workplace) -> None:
    office = Office(workplace, "claimed")
    async with office.work() as worker:
        task_id, process = await office.begin("sleep 600", lease=3.0)
        row = await office.find_worker()
        body = WorkerRegisterRequest("another", "node", row["host"], replaces=row["worker_id"])
        async with Transport(workplace.url) as transport:
            path = "/internal/worker-register"
            await transport.call("POST", path, WorkerRegisterAnswer, body=body)
        assert await asyncio.to_thread(worker.process.wait, 60) == 1
        await eventually(lambda: not lives(process))
        assert (await office.outcome(task_id))[0] == WORKER_FAILED


async def test_members_of_a_gang_know_their_ports_and_each_other(placed: PlacedWorkplace) -> None:
    office = Office(placed, "placed")
    async with office.work(room=2):
        first = await office.submit(
            "echo $HOLDFAST_PORT_RPC $HOLDFAST_GANG_ADDRESS $HOLDFAST_GANG_PEERS"
            " $HOLDFAST_GANG_RANK/$HOLDFAST_GANG_SIZE",
            replicas=2,
            coscheduling={},
            resources={"ports": ["rpc"]},
        )
        said = []
        for task_id in (first, first.replace(".0", ".1")):
            await placed.reach(task_id, "SUCCEEDED")
            said.append((await office.read(task_id)).split())
    ports = [words[0] for words in said]
    peers = [f"127.0.0.1:{port}" for port in ports]
    told = [peers[0], ",".join(peers)]
    assert said == [[port, *told, f"{rank}/2"] for rank, port in enumerate(ports)]


async def test_calls_that_are_not_to_be_obeyed_are_refused_and_unknown_tasks_are_not_there(
    database_url: str, tmp_path: Path
) -> None:
    async with (
        open_placed(database_url, tmp_path, tick=60.0) as workplace,
        Office(workplace, "placed").work(),
        aiohttp.ClientSession() as session,
    ):

        async def answered() -> Any:
            query = "select * from holdfast.workers where answered_at is not null"
            return next(iter(await workplace.fetch(query)), None)

        row = await eventually(answered)
        stray = TaskToKill("999.0", 0, uuid4(), None)
        good = WorkerHeartbeatRequest(
            worker_id=row["worker_id"], epoch=99, number=2, tasks_to_kill=[stray]
        )

        async def call(secret: str = row["secret_hash"].hex(), **fields: Any) -> tuple[int, Any]:
            body = msgspec.json.encode(msgspec.structs.replace(good, **fields))
            headers = {SECRET_HEADER: secret, "Content-Type": "application/json"}
            url = row["address"] + HEARTBEAT_PATH
            async with session.post(url, data=body, headers=headers) as response:
                return response.status, await response.json()

        assert (await call(secret="s" * 48))[0] == 403
        assert (await call(worker_id="another"))[0] == 409
        assert (await call(epoch=0, number=7))[0] == 409
        status, answer = await call()
        assert status == 200
        assert msgspec.convert(answer, WorkerHeartbeatAnswer) == WorkerHeartbeatAnswer(
            worker_id=row["worker_id"], epoch=99, number=2
        )
        assert [(await call())[0], (await call(number=1))[0]] == [409, 409]
        assert (await call(epoch=100, number=1))[0] == 200


def count_lines(program: str) -> int:
    """Count the lines of code: neither those that are blank nor those of a comment alone."""
    lines = (FOLDER / program).read_text(encoding="utf-8").splitlines()
    return sum(1 for line in map(str.strip, lines) if line and not line.startswith("//"))


def test_the_programs_are_short_with_what_they_fork() -> None:
    programs = {path.name for path in FOLDER.glob("*.mjs")}
    assert programs == {"claimed.mjs", "placed.mjs", "guard.mjs"}
    for program in ("claimed.mjs", "placed.mjs"):
        assert count_lines(program) + count_lines("guard.mjs") <= LINES_MAX, program
