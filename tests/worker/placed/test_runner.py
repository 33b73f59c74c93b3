"""Placed attempts under real shims: how they are started, what they are given, how they end."""

import json
import os
import shlex
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.worker.processes.mark import mark_of
from tests.audits import assert_audit_is_silent
from tests.tidy import ROOT
from tests.waiting import eventually
from tests.worker.bundle_store import write_wheel
from tests.worker.living import await_process
from tests.worker.placed_workplace import PlacedWorkplace
from tests.worker.shimmed import ALLOCATE, can_limit_memory
from tests.worker.workplace import call

PRINT_VARIABLES = (
    "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if 'HOLDFAST' in k}))"
)


def python(text: str, *arguments: str) -> dict[str, Any]:
    """Write the entrypoint of a Python program."""
    return {"command": [sys.executable, "-I", "-S", "-c", text, *arguments]}


def sleeper(folder: Path, trap: str = "") -> dict[str, Any]:
    """Write an entrypoint that leaves its number in a file and waits."""
    place = shlex.quote(str(folder / "pid"))
    wait = "exec sleep 600" if not trap else "while :; do sleep 0.05; done"
    return {"shell": f"{trap}\necho $$ > {place}.new; mv {place}.new {place}; {wait}"}


async def test_a_command_runs_in_its_own_folder_and_succeeds(
    placed: PlacedWorkplace, tmp_path: Path, database: Any
) -> None:
    worker = placed.employ()
    task_id = await placed.place({"shell": f"pwd > {tmp_path}/pwd; echo out; echo err >&2"})
    assert await placed.outcome(task_id) == ("SUCCEEDED", 0, None)
    assert await placed.event_types(task_id) == ["placed", "started", "succeeded"]
    assert (await placed.log(task_id)).splitlines() == [b"out", b"err"]
    work = Path((tmp_path / "pwd").read_text().strip())
    assert work == worker.worker.options.folder / f"{task_id}.0" / "work"
    await eventually(lambda: not worker.folders)
    account = await placed.account(task_id)
    usage = json.loads(account["usage"])
    assert usage["processes_max"] >= 1
    assert usage["limits"]
    assert account["build"] is None
    await assert_audit_is_silent(database)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exit 7", ("FAILED", 7, "exit code 7")),
        ("kill -USR1 $$", ("FAILED", 128 + signal.SIGUSR1, "ended by SIGUSR1")),
        ("kill -KILL $$", ("FAILED", 128 + signal.SIGKILL, "ended by SIGKILL")),
    ],
)
async def test_an_end_that_is_no_success_is_named(
    placed: PlacedWorkplace, script: str, expected: tuple[str, int, str]
) -> None:
    placed.employ()
    task_id = await placed.place({"shell": script})
    assert await placed.outcome(task_id) == expected
    [attempt] = await placed.attempts(task_id)
    assert (attempt["error_class"], attempt["stage"]) == ("TransientError", "exec")


async def test_a_command_that_cannot_run_has_failed_for_good(
    placed: PlacedWorkplace, caplog: pytest.LogCaptureFixture
) -> None:
    placed.employ()
    task_id = await placed.place({"command": ["no-such-program"]}, max_retries_failure=5)
    state, code, error = await placed.outcome(task_id)
    assert (state, code) == ("FAILED", None)
    assert error is not None
    assert "no-such-program" in error
    [attempt] = await placed.attempts(task_id)
    assert attempt["stage"] == "fetch"
    assert await placed.state(task_id) == "FAILED"
    assert f"task {task_id} " in caplog.text


async def test_a_lack_of_memory_is_told_apart_from_a_failure(placed: PlacedWorkplace) -> None:
    placed.employ()
    entrypoint = python(ALLOCATE, str(512 << 20))
    task_id = await placed.place(entrypoint, resources={"memory": "64MB"})
    state, _, error = await placed.outcome(task_id)
    assert state == "FAILED"
    [attempt] = await placed.attempts(task_id)
    if can_limit_memory():  # elsewhere the program is refused the memory, and fails by itself
        assert error is not None
        assert "out of memory" in error
        assert attempt["error_class"] == "OutOfMemory"


async def test_a_command_is_told_who_it_is(placed: PlacedWorkplace) -> None:
    placed.employ()
    task_id = await placed.place(
        python(PRINT_VARIABLES),
        resources={"ports": ["http", "rpc"]},
        environment={"MY_HOLDFAST_CHOICE": "yes", "HOLDFAST_ATTEMPT": "9"},
    )
    assert (await placed.outcome(task_id))[0] == "SUCCEEDED"
    told = json.loads(await placed.log(task_id))
    [attempt] = await placed.attempts(task_id)
    ports = json.loads((await placed.account(task_id))["ports"])
    assert set(ports) == {"http", "rpc"}
    expected = {
        "HOLDFAST_SERVER": placed.url,
        "HOLDFAST_JOB_ID": task_id.partition(".")[0],
        "HOLDFAST_TASK_ID": task_id,
        "HOLDFAST_TASK_INDEX": "0",
        "HOLDFAST_NUM_TASKS": "1",
        "HOLDFAST_ATTEMPT": "0",
        "HOLDFAST_LEASE_TOKEN": str(attempt["lease_token"]),
        "HOLDFAST_MARK": mark_of(str(attempt["lease_token"])),
        "HOLDFAST_PORT_HTTP": str(ports["http"]),
        "HOLDFAST_PORT_RPC": str(ports["rpc"]),
        "MY_HOLDFAST_CHOICE": "yes",
    }
    assert {name: told.get(name) for name in expected} == expected
    assert "HOLDFAST_GANG_PEERS" not in told


async def test_members_of_a_gang_are_told_where_the_others_are(placed: PlacedWorkplace) -> None:
    placed.employ()
    task_id = await placed.place(
        python(PRINT_VARIABLES), replicas=3, coscheduling={}, resources={"ports": ["rpc"]}
    )
    job_id = task_id.partition(".")[0]
    told = []
    for index in range(3):
        assert (await placed.outcome(f"{job_id}.{index}"))[0] == "SUCCEEDED"
        told.append(json.loads(await placed.log(f"{job_id}.{index}")))
    peers = [f"127.0.0.1:{one['HOLDFAST_PORT_RPC']}" for one in told]
    assert len(set(peers)) == 3
    for index, one in enumerate(told):
        assert one["HOLDFAST_GANG_PEERS"].split(",") == peers
        assert one["HOLDFAST_GANG_ADDRESS"] == peers[0]
        assert (one["HOLDFAST_GANG_RANK"], one["HOLDFAST_GANG_SIZE"]) == (str(index), "3")
        assert (one["HOLDFAST_TASK_INDEX"], one["HOLDFAST_NUM_TASKS"]) == (str(index), "3")


async def test_a_port_that_somebody_else_uses_is_the_fault_of_the_worker(
    placed: PlacedWorkplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(
            "holdfast.operations.placed.giving.choose_ports", lambda *_: {"http": port}
        )
        placed.employ()
        task_id = await placed.place(
            {"shell": "true"}, resources={"ports": ["http"]}, max_retries_preemption=0
        )
        error = f"port {port} (http) is in use on this host"
        assert await placed.outcome(task_id) == ("WORKER_FAILED", None, error)


async def test_a_disk_without_room_is_the_fault_of_the_worker(
    placed: PlacedWorkplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.placed.runner.DISK_FREE_BYTES_MIN", 1 << 60)
    worker = placed.employ()
    task_id = await placed.place({"shell": "true"}, max_retries_preemption=0)
    state, _, error = await placed.outcome(task_id)
    assert state == "WORKER_FAILED"
    assert error is not None
    assert "bytes left" in error
    await eventually(lambda: not worker.folders)


async def test_functions_get_their_inputs_and_give_results(placed: PlacedWorkplace) -> None:
    placed.employ()
    task_id = await placed.place(call("report"), ["a", "b"])
    job_id = task_id.partition(".")[0]
    for index in range(2):
        task = await placed.reach(f"{job_id}.{index}", "SUCCEEDED")
        assert json.loads(task["result"])[:2] == [f"{job_id}.{index}", 0]


async def test_a_function_can_say_how_far_it_is_and_leave_something_for_the_next_attempt(
    placed: PlacedWorkplace, tmp_path: Path
) -> None:
    placed.employ()
    entrypoint = call("say_progress_in_process", f"{tmp_path}/began", f"{tmp_path}/go", "half")
    task_id = await placed.place(entrypoint)
    kept = await placed.place(
        call("remember", {"step": 3}), max_retries_failure=1, backoff={"base": 0.0}
    )
    await eventually((tmp_path / "began").exists)

    async def is_half() -> bool:
        notes = await placed.notes(task_id)
        return any(json.loads(note["payload"])["fraction"] == 0.5 for note in notes)

    await eventually(is_half)
    (tmp_path / "go").touch()
    await placed.reach(task_id, "SUCCEEDED")
    task = await placed.reach(kept, "SUCCEEDED")
    assert json.loads(task["result"]) == {"step": 3}
    assert task["attempt"] == 1


async def test_a_function_that_fails_tells_its_class(placed: PlacedWorkplace) -> None:
    placed.employ()
    task_id = await placed.place(call("fail", "permanent"), max_retries_failure=3)
    state, _, error = await placed.outcome(task_id)
    assert state == "FAILED"
    assert error is not None
    assert error.startswith("PermanentError: boom")
    crashed = await placed.place(call("crash", int(signal.SIGSEGV)))
    assert (await placed.outcome(crashed))[2] == "ended by SIGSEGV"
    silent = await placed.place(call("leave", 0))
    assert await placed.outcome(silent) == (
        "FAILED",
        0,
        "the process ended without an outcome of its function",
    )


async def test_what_a_function_left_for_an_outcome_is_read_with_suspicion(
    placed: PlacedWorkplace,
) -> None:
    placed.employ()
    errors = []
    for text in (
        "{",
        '{"status": "handed_back"}',
        '{"status": "killed"}',
        '{"status": "succeeded", "exit_code": "x"}',
    ):
        task_id = await placed.place(call("leave_a_file", "../outcome.json", text))
        state, _, error = await placed.outcome(task_id)
        assert state == "FAILED"
        errors.append(error)
    assert [error and error.partition(":")[0] for error in errors] == [
        "the outcome that its function left cannot be read",
        "its function reported the status 'handed_back', which is not its own",
        "its function reported the status 'killed', which is not its own",
        "the outcome that its function left cannot be read",
    ]


async def test_a_run_that_takes_too_long_is_ended(placed: PlacedWorkplace, tmp_path: Path) -> None:
    employed = placed.employ()
    # It hears of its end first, and has its grace.
    entrypoint = sleeper(tmp_path, f"trap 'touch {tmp_path}/heard; exit 3' TERM")
    task_id = await placed.place(entrypoint, timeout=600.0, max_retries_failure=3)
    process = await eventually_process(tmp_path)
    await placed.reach(task_id, "RUNNING")
    # The time is over, for the worker and for the server, once the shell minds the signal.
    for attempt in employed.worker._attempts:
        attempt.began_at -= 600.0
    await placed.execute("update holdfast.leases set run_deadline_at = holdfast.now()")
    state, _, error = await placed.outcome(task_id)
    assert (state, error) == ("KILLED", "ran longer than its timeout of 600 s")
    assert (tmp_path / "heard").exists()
    assert await placed.state(task_id) == "KILLED"
    assert not process.is_running()


async def test_a_soft_cancel_is_heard_and_has_its_grace(
    placed: PlacedWorkplace, tmp_path: Path
) -> None:
    placed.employ()
    task_id = await placed.place(sleeper(tmp_path, "trap 'echo bye; exit 3' TERM"), grace=30.0)
    process = await eventually_process(tmp_path)
    await placed.cancel(task_id, "soft")
    assert await placed.outcome(task_id) == ("KILLED", 3, "exit code 3")
    assert (await placed.log(task_id)).endswith(b"bye\n")
    assert not process.is_running()


async def test_a_grace_that_is_over_is_over(placed: PlacedWorkplace, tmp_path: Path) -> None:
    placed.employ()
    task_id = await placed.place(sleeper(tmp_path, "trap '' TERM"), grace=0.2)
    process = await eventually_process(tmp_path)
    await placed.cancel(task_id, "soft")
    state, _, _ = await placed.outcome(task_id)
    assert state == "KILLED"
    assert not process.is_running()


async def test_whoever_succeeds_after_a_soft_cancel_has_succeeded(
    placed: PlacedWorkplace, tmp_path: Path
) -> None:
    placed.employ()
    command = await placed.place(sleeper(tmp_path, "trap 'exit 0' TERM"))
    function = await placed.place(call("wait_for_cancel", f"{tmp_path}/began"))
    await eventually_process(tmp_path)
    await eventually((tmp_path / "began").exists)
    for task_id in (command, function):
        await placed.cancel(task_id, "soft")
    await placed.reach(command, "SUCCEEDED")
    task = await placed.reach(function, "SUCCEEDED")
    assert json.loads(task["result"]) == "stopped by itself"


async def test_a_hard_cancel_ends_the_process_at_once(
    placed: PlacedWorkplace, tmp_path: Path, database: Any
) -> None:
    placed.employ()
    task_id = await placed.place(sleeper(tmp_path, "trap '' TERM"))
    process = await eventually_process(tmp_path)
    await placed.cancel(task_id, "hard")
    ended = await placed.ended(task_id)
    assert ended["state"] == 6
    assert not process.is_running()
    assert not await placed.about("leases", task_id)
    await assert_audit_is_silent(database)


async def eventually_process(folder: Path) -> psutil.Process:
    """Wait until a sleeper runs."""
    await eventually((folder / "pid").exists)
    return await_process(folder / "pid")


async def test_output_is_sent_while_the_command_runs_and_whole_at_its_end(
    placed: PlacedWorkplace, tmp_path: Path
) -> None:
    placed.employ()
    script = f"echo first; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; seq 40000; echo last"
    task_id = await placed.place({"shell": script})

    async def first() -> bool:
        return await placed.log(task_id) == b"first\n"

    await eventually(first)
    (tmp_path / "go").touch()
    await placed.outcome(task_id)
    lines = (await placed.log(task_id)).split()
    assert lines == [b"first", *(b"%d" % n for n in range(1, 40001)), b"last"]


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A uv that needs no network."""
    monkeypatch.setenv("PATH", f"{ROOT / '.tools' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))


@pytest.mark.usefixtures("uv")
async def test_a_bundle_and_requirements_are_built_first(
    placed: PlacedWorkplace, tmp_path: Path
) -> None:
    worker = placed.employ()
    entries = [("main.py", "import mine, tiny; print(mine.NAME); tiny.main()")]
    async with placed.open_store() as store:
        bundle = await store.upload_zip([*entries, ("mine.py", "NAME = 'me'")])
    line = f"tiny @ file://{write_wheel(tmp_path / 'wheels')}"
    task_id = await placed.place(
        {"command": ["python", "main.py"]}, bundle=bundle, requirements=[line]
    )
    assert await placed.outcome(task_id) == ("SUCCEEDED", 0, None)
    assert await placed.log(task_id) == b"me\ntiny 1.0\n"
    assert await placed.event_types(task_id) == ["placed", "building", "started", "succeeded"]
    build = json.loads((await placed.account(task_id))["build"])
    assert build["environment_cached"] is build["bundle_cached"] is False
    await eventually(lambda: not worker.folders)


async def test_a_wrong_bundle_is_the_fault_of_the_job(placed: PlacedWorkplace) -> None:
    worker = placed.employ()
    async with placed.open_store() as store:
        bundle = await store.upload_zip([("../outside", "x")])
    task_id = await placed.place({"shell": "true"}, bundle=bundle)
    state, code, error = await placed.outcome(task_id)
    assert (state, code) == ("FAILED", None), error
    [attempt] = await placed.attempts(task_id)
    assert attempt["stage"] == "fetch"
    assert attempt["started_at"] is None
    await eventually(lambda: not worker.folders)


async def test_a_store_that_is_away_is_not_the_fault_of_the_job(placed: PlacedWorkplace) -> None:
    placed.employ()
    async with placed.open_store() as store:
        bundle = await store.upload_zip([("main.py", "")])
    store.folder.rename(f"{store.folder}.away")
    store.folder.write_text("not a store")
    task_id = await placed.place({"shell": "true"}, bundle=bundle, max_retries_preemption=0)
    state, _, error = await placed.outcome(task_id)
    assert state == "WORKER_FAILED", error
