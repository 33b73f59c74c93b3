"""Tasks act by their leases on a server that asks for tokens; the workers have no other token."""

import json
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.operations.tokens import WantedToken, create_token, rotate_token
from tests.e2e import lease_tasks
from tests.waiting import eventually
from tests.worker.placed_workplace import PlacedWorkplace, open_placed

PROGRAM = Path(sys.executable).with_name("holdfast")


@pytest.fixture
async def guarded(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PlacedWorkplace]:
    """A server that asks for tokens, and workers that have one with the role worker."""
    async with open_placed(database_url, tmp_path, requires_tokens=True) as workplace:
        file = tmp_path / "token"
        file.write_text(await make_token(workplace, "worker"))
        monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(file))
        workplace.hire(concurrency=8)
        workplace.employ()
        yield workplace


async def make_token(workplace: PlacedWorkplace, role: str, name: str = "", **scope: Any) -> str:
    database = workplace.server.runtime.ledger.database
    wanted = WantedToken(name or role, (role,), **scope)
    return (await create_token(database, wanted, actor="root")).text


@pytest.fixture
async def client(guarded: PlacedWorkplace) -> AsyncIterator[hf.Client]:
    """Somebody who submits."""
    async with hf.Client(guarded.url, token=await make_token(guarded, "submit")) as client:
        yield client


async def user_events(client: hf.Client, job: hf.Job[Any]) -> list[Any]:
    page = await client.jobs.events.aio(job.id, type="user")
    return [(event.type, json.loads(bytes(event.payload))) for event in page.events]


WHOLE = {
    "found": None,
    "kept": {"seen": [4, 9]},
    "total": 16 + 81 + 25,
    "address": "127.0.0.1:1",
    "cancelled": True,
    "in_thread": ["JOB_STATE_SUCCEEDED"],
    "removed": True,
}


@pytest.mark.parametrize("way", ["thread", "process", "placed"])
async def test_a_function_acts_for_its_attempt_wherever_it_runs(
    guarded: PlacedWorkplace, client: hf.Client, way: str
) -> None:
    given = await client.map.aio(lease_tasks.square, [2, 3])
    function: Any = {
        "thread": lease_tasks.act_in_thread,
        "process": lease_tasks.act_in_process,
        "placed": lease_tasks.act_in_process.with_options(queue=None),
    }[way]
    job = await client.submit.aio(function, given)
    found: Any = await job.result.aio(timeout=120)
    assert found.pop("refused") == ["a token", f"job {job.id}"]
    assert found == WHOLE
    assert await user_events(client, job) == [("user:loaded", {"rows": 2})]
    children = (await client.jobs.list.aio(parent=job.id)).jobs
    assert [child.owner for child in children] == ["submit"] * 3
    kinds = [note["kind"] for note in await guarded.notes(f"{job.id}.0")]
    assert "progress" in kinds


async def test_a_coroutine_acts_for_its_attempt(client: hf.Client) -> None:
    given = await client.map.aio(lease_tasks.square, [2, 3])
    job = await client.submit.aio(lease_tasks.act_in_loop, given)
    assert await job.result.aio(timeout=120) == {"total": 16 + 81 + 25}
    assert await user_events(client, job) == [("user:loaded", {"rows": 2})]


async def test_a_placed_command_has_its_bundle_and_its_lease(
    guarded: PlacedWorkplace, client: hf.Client, tmp_path: Path
) -> None:
    script = f"""\
set -e
cat said
{PROGRAM} event loaded rows=3
{PROGRAM} endpoint register by-lease/command 127.0.0.1:1
{PROGRAM} endpoint get by-lease/command
{PROGRAM} run --queue q -- echo said by a child
{PROGRAM} submit tests.e2e.lease_tasks:square --arg 3 --queue q > child
{PROGRAM} wait "$(cat child)"
{PROGRAM} jobs || echo refused
"""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "run.sh").write_text(script)
    (workspace / "said").write_text("from the bundle\n")
    bundle = await client.upload.aio(workspace)
    job = await client.run_command.aio(["sh", "run.sh"], bundle=bundle)
    status = await job.wait.aio(timeout=120)
    lines = (await guarded.log(f"{job.id}.0")).decode().splitlines()
    assert status.state == "JOB_STATE_SUCCEEDED", lines
    said = [line for line in lines if not line.startswith("holdfast")]
    assert said[:3] == ["from the bundle", "127.0.0.1:1", "said by a child"], lines
    assert said[-1] == "refused", lines
    assert await user_events(client, job) == [("user:loaded", {"rows": 3})]


async def test_a_task_with_a_token_of_its_own_uses_it_for_what_its_lease_does_not_reach(
    guarded: PlacedWorkplace, client: hf.Client
) -> None:
    own = await make_token(guarded, "read")
    line = f"{PROGRAM} event loaded rows=3 && {PROGRAM} jobs --json > /dev/null && echo seen"
    job = await client.run_command.aio(line, queue="q", environment={"HOLDFAST_TOKEN": own})
    await job.wait.aio(timeout=120)
    assert await guarded.log(f"{job.id}.0") == b"seen\n"
    assert await user_events(client, job) == [("user:loaded", {"rows": 3})]


@pytest.mark.parametrize("queue", ["q", None])
async def test_a_compensation_is_told_what_it_undoes(
    guarded: PlacedWorkplace, client: hf.Client, queue: str | None
) -> None:
    given = await client.map.aio(lease_tasks.square, [2, 3])
    function = lease_tasks.fail.with_options(compensation=lease_tasks.undo, queue=queue)
    job = await client.submit.aio(function, given)
    await job.wait.aio(timeout=120)

    async def find() -> str:
        return (await job.status.aio()).compensated_by or ""

    undo = await client.job.aio(await eventually(find))
    told = await undo.result.aio(timeout=120)
    assert told == [[[4, 9]], False]


@pytest.mark.parametrize("isolation", ["auto", "process"])
async def test_a_worker_of_one_queue_reads_what_its_tasks_are_given_from_another(
    guarded: PlacedWorkplace,
    client: hf.Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    isolation: str,
) -> None:
    file = tmp_path / "narrow"
    file.write_text(await make_token(guarded, "worker", name="narrow", queues=("narrow",)))
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(file))
    guarded.hire(queues=("narrow",), name="narrow", isolation=isolation)
    given = await client.submit.aio(lease_tasks.square, 3)
    job = await client.submit.aio(lease_tasks.square.with_options(queue="narrow"), given)
    assert await job.result.aio(timeout=60) == 81


async def test_a_worker_goes_on_when_its_token_is_rotated(
    guarded: PlacedWorkplace, client: hf.Client, tmp_path: Path
) -> None:
    runtime = guarded.server.runtime
    database, file = runtime.ledger.database, tmp_path / "token"
    rotated = await rotate_token(database, "worker", grace=timedelta(0), actor="root")
    file.write_text(rotated.text)
    assert runtime.callers is not None
    await runtime.callers.read()
    job = await client.submit.aio(lease_tasks.square, 3)
    assert await job.result.aio(timeout=60) == 9
