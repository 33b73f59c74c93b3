"""One call to one worker: what it says, what can go wrong with it, and what its answer means."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from holdfast.model.submitting.spec import Limits, Submission
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.ending.complete import Completion
from holdfast.operations.placed.worker_heartbeats import Prepared, Wanted, prepare
from holdfast.operations.register import drain
from holdfast.operations.report import Report
from holdfast.operations.usage import Usage
from holdfast.rules.submitting.submission import complete_submission, parse_spec, terms_of
from holdfast.services.leading.worker_calls import (
    CallFailed,
    interpret,
    read_answer,
    write_request,
)
from holdfast.store.specs import StoredSpec
from holdfast.wire.answers import AttemptName
from holdfast.wire.cluster import (
    CompletedTask,
    PlacedJob,
    RunningTask,
    TaskToKill,
    WorkerHeartbeatAnswer,
    WorkerHeartbeatRequest,
)
from tests.placed_world import PlacedWorld

ASSIGNED, BUILDING, RUNNING = TaskState.ASSIGNED, TaskState.BUILDING, TaskState.RUNNING
TOKEN = UUID(int=1)
FENCE = Fence(TaskId(7, 3), 1, TOKEN)


def a_wanted(**fields: Any) -> Wanted:
    """Describe an attempt that a worker has named before and that is to go on."""
    submission = Submission(parse_spec({"entrypoint": {"shell": "true"}}))
    spec = complete_submission(submission, Limits()).spec
    stored = StoredSpec(spec, terms_of(spec), "name", 1, "c", None, {})
    wanted = Wanted(
        FENCE, ASSIGNED, ending=False, acknowledged=True, lease_remaining=None,
        cancel_remaining=None, ports={}, devices=[], input=None, job=stored, peers=[],
    )  # fmt: skip
    return wanted._replace(**fields)


def prepared_for(*wanted: Wanted, **fields: Any) -> Prepared:
    """Describe what one call has to say."""
    prepared = Prepared("w1", "http://127.0.0.1:1", "s" * 16, (1, 2), False, list(wanted))
    return prepared._replace(**fields)


def an_answer(**fields: Any) -> WorkerHeartbeatAnswer:
    """Write an answer to call 1.3."""
    answer = WorkerHeartbeatAnswer(worker_id="w1", epoch=1, number=3)
    return msgspec.structs.replace(answer, **fields)


def here(state: str, fence: Fence = FENCE) -> RunningTask:
    """Say that an attempt is on the worker."""
    return RunningTask(
        task_id=str(fence.task_id),
        attempt=fence.attempt,
        lease_token=fence.lease_token,
        state=state,
    )


def over(status: Any, fence: Fence = FENCE, **fields: Any) -> CompletedTask:
    """Say that an attempt has ended."""
    fields = {"attempt": fence.attempt} | fields
    return CompletedTask(str(fence.task_id), fence.lease_token, status, **fields)


async def told(cluster: PlacedWorld, worker_id: str = "w1") -> WorkerHeartbeatRequest:
    """Read what a worker would be told this moment."""
    [prepared] = await prepare(cluster.ledger, await cluster.term(), [worker_id])
    body = write_request(prepared, 4, 9, acknowledged=[AttemptName("5.0", 2)])
    return msgspec.json.decode(body, type=WorkerHeartbeatRequest)


async def test_a_call_says_who_speaks_and_what_was_heard(cluster: PlacedWorld) -> None:
    await cluster.add("w1")
    call = await told(cluster)
    assert (call.worker_id, call.epoch, call.number) == ("w1", 4, 9)
    assert (call.answered_epoch, call.answered_number) == (1, 1)
    assert call.acknowledged == [AttemptName("5.0", 2)]
    assert (call.tasks_to_run, call.tasks_to_kill, call.drain) == ([], [], False)
    await drain(cluster.ledger, "w1", actor="ops")
    assert (await told(cluster)).drain


async def test_what_an_attempt_needs_goes_along_until_its_worker_has_named_it(
    cluster: PlacedWorld,
) -> None:
    [worker] = await cluster.add("w1", gpu=2, devices=["GPU-a", "GPU-b"])
    job_id = await cluster.submit(
        inputs=[{"x": 1}],
        entrypoint={"command": ["train"]},
        environment={"A": "b"},
        timeout=600.0,
        resources={"cpu": 2, "memory": "1GB", "ports": ["rpc"], "gpu": 1},
        requirements=["numpy==2.1"],
        bundle="0" * 64,
    )
    await cluster.place()
    [new] = (await told(cluster)).tasks_to_run
    job = msgspec.json.decode(bytes(new.job), type=PlacedJob)
    assert (job.job_id, job.entrypoint.command, job.num_tasks) == (str(job_id), ["train"], 1)
    assert (job.environment, job.timeout, job.lease, job.fan_out) == ({"A": "b"}, 600.0, 60.0, True)
    assert (job.resources.cpu, job.resources.memory, job.resources.ports) == (2.0, 10**9, ["rpc"])
    assert (job.bundle, job.requirements) == ("0" * 64, ["numpy==2.1"])
    assert (bytes(new.input), list(new.ports)) == (b'{"x":1}', ["rpc"])
    assert new.devices == ["GPU-a"]
    lease = await cluster.lease(TaskId(job_id, 0))
    assert lease is not None
    assert (new.attempt, new.lease_token) == (0, lease["lease_token"])

    await cluster.beat()
    assert worker.running() == [f"{job_id}.0"]
    [known] = (await told(cluster)).tasks_to_run
    assert (bytes(known.job), bytes(known.input), known.ports) == (b"null", b"null", {})
    assert known.devices == []
    assert known.lease_ms is not None


async def test_a_lease_is_told_from_the_answer_on_that_is_stored(cluster: PlacedWorld) -> None:
    await cluster.add("w1")
    await cluster.clock.advance(7)
    task_id = TaskId(await cluster.submit(), 0)
    await cluster.place()
    [new] = (await told(cluster)).tasks_to_run
    lease, worker = await cluster.lease(task_id), await cluster.worker("w1")
    assert lease is not None
    remaining = lease["expires_at"] - worker["answered_at"]
    assert new.lease_ms == int(remaining / timedelta(milliseconds=1))
    assert remaining >= timedelta(seconds=67), "placed 7 s after the answer, for 60 s"


async def test_what_has_ended_is_told_to_be_killed_and_a_soft_cancel_with_its_grace(
    cluster: PlacedWorld,
) -> None:
    await cluster.add("w1")
    soft, _ = await cluster.placed(await cluster.submit(grace=30.0))
    hard, _ = await cluster.placed(await cluster.submit())
    await cluster.cancel_job(soft.job_id, "soft")
    await cluster.cancel_job(hard.job_id, "hard")
    await cluster.clock.advance(10)
    call = await told(cluster)
    [run], [kill] = call.tasks_to_run, call.tasks_to_kill
    assert (run.task_id, kill.task_id) == (str(soft), str(hard))
    assert run.cancel_ms is not None
    assert 0 < run.cancel_ms <= 20_000
    await cluster.clock.advance(60)
    [late] = (await told(cluster)).tasks_to_run
    assert late.cancel_ms == 0


async def test_members_of_a_gang_learn_where_the_others_are(cluster: PlacedWorld) -> None:
    await cluster.add("w1", "w2", cpu=1.0)
    resources = {"ports": ["rpc", "http"]}
    job_id = await cluster.submit(replicas=2, coscheduling={}, resources=resources)
    placed = await cluster.place()
    calls = {worker_id: await told(cluster, worker_id) for worker_id in placed.values()}
    gangs = [call.tasks_to_run[0].gang for call in calls.values()]
    ports = {
        index: calls[placed[TaskId(job_id, index)]].tasks_to_run[0].ports["rpc"] for index in (0, 1)
    }
    peers = [f"{placed[TaskId(job_id, index)]}:{ports[index]}" for index in (0, 1)]
    for gang in gangs:
        assert gang is not None
        assert gang.peers == peers


@pytest.mark.parametrize(
    "text",
    [
        b"", b"null", b"[]", b"{", b"\xff", b'{"worker_id": "w1"}', b"[" * 100_000,
        b'{"worker_id": "w1", "epoch": 1, "number": "3"}',
        b'{"worker_id": "w1", "epoch": 1, "number": 3, "running_tasks": [{}]}',
        b'{"worker_id": "w1", "epoch": 1, "number": 4}',
        b'{"worker_id": "w1", "epoch": 2, "number": 3}',
        b'{"worker_id": "w2", "epoch": 1, "number": 3}',
    ],
)  # fmt: skip
def test_an_answer_that_is_not_the_one_asked_for_is_refused(text: bytes) -> None:
    with pytest.raises(CallFailed):
        read_answer(text, "w1", epoch=1, number=3)


def test_fields_of_a_newer_worker_are_left_alone() -> None:
    text = b'{"worker_id": "w1", "epoch": 1, "number": 3, "mood": "fine"}'
    assert read_answer(text, "w1", epoch=1, number=3) == an_answer()


@pytest.mark.parametrize(
    ("recorded", "told", "news"),
    [
        (ASSIGNED, "ASSIGNED", None), (ASSIGNED, "BUILDING", BUILDING),
        (ASSIGNED, "RUNNING", RUNNING),
        (BUILDING, "ASSIGNED", None), (BUILDING, "BUILDING", None), (BUILDING, "RUNNING", RUNNING),
        (RUNNING, "ASSIGNED", None), (RUNNING, "BUILDING", None), (RUNNING, "RUNNING", None),
    ],
)  # fmt: skip
def test_only_a_step_forward_is_news(
    recorded: TaskState, told: str, news: TaskState | None
) -> None:
    meaning = interpret(
        prepared_for(a_wanted(state=recorded)), an_answer(running_tasks=[here(told)])
    )
    assert meaning.starts == ([] if news is None else [Report(FENCE, news)])
    assert (meaning.completions, meaning.running) == ([], (FENCE,))


def test_of_an_attempt_that_has_ended_no_start_is_news() -> None:
    wanted = a_wanted(ending=True, state=TaskState.KILLED)
    meaning = interpret(prepared_for(wanted), an_answer(running_tasks=[here("RUNNING")]))
    assert (meaning.starts, meaning.completions, meaning.running) == ([], [], (FENCE,))


@pytest.mark.parametrize(
    ("fields", "means"),
    [
        (
            {"acknowledged": True},
            [Completion(FENCE, "worker_failed", error="missing on its worker")],
        ),
        ({"acknowledged": False}, []),
        ({"acknowledged": True, "ending": True}, [Completion(FENCE, "killed")]),
        ({"acknowledged": False, "ending": True}, [Completion(FENCE, "killed")]),
    ],
)
def test_what_an_answer_lacks_has_a_meaning(
    fields: dict[str, Any], means: list[Completion]
) -> None:
    meaning = interpret(prepared_for(a_wanted(**fields)), an_answer())
    assert (meaning.starts, meaning.completions, meaning.reported) == ([], means, [])
    assert meaning.unnamed == (set() if means else {FENCE})


@pytest.mark.parametrize("state", ["ASSIGNED", "RUNNING", "PENDING"])
@pytest.mark.parametrize(
    "stranger",
    [
        FENCE._replace(task_id=TaskId(7, 4)),
        FENCE._replace(attempt=2),
        FENCE._replace(lease_token=UUID(int=2)),
    ],
)
def test_what_runs_on_a_worker_and_is_not_wanted_there_is_unknown(
    stranger: Fence, state: str
) -> None:
    answer = an_answer(running_tasks=[here("RUNNING"), here(state, stranger)])
    meaning = interpret(prepared_for(a_wanted(ending=True)), answer)
    assert meaning.unknown == {stranger}
    assert (meaning.starts, meaning.completions) == ([], [])


def test_an_end_that_nobody_waits_for_is_not_unknown() -> None:
    stranger = FENCE._replace(attempt=2)
    answer = an_answer(completed_tasks=[over("succeeded", stranger)])
    assert interpret(prepared_for(a_wanted(acknowledged=False)), answer).unknown == frozenset()


def test_what_is_unknown_is_to_be_killed_unless_it_is_wanted_by_now() -> None:
    stranger = FENCE._replace(attempt=2)
    body = write_request(
        prepared_for(a_wanted()), 1, 3, acknowledged=[], unknown=frozenset({FENCE, stranger})
    )
    call = msgspec.json.decode(body, type=WorkerHeartbeatRequest)
    assert call.tasks_to_kill == [TaskToKill("7.3", 2, TOKEN)]
    assert [task.task_id for task in call.tasks_to_run] == ["7.3"]


def test_an_end_is_taken_as_it_is_told() -> None:
    entry = over(
        "failed",
        exit_code=3,
        error="boom",
        error_class="ValueError",
        stage="exec",
        start_reported=False,
        usage={"cpu_seconds": 1.5},
        build={"seconds": 2},
        run_ms=1500,
    )
    meaning = interpret(prepared_for(a_wanted()), an_answer(completed_tasks=[entry]))
    assert meaning.completions == [
        Completion(
            FENCE,
            "failed",
            3,
            "boom",
            "ValueError",
            "exec",
            start_reported=False,
            run=timedelta(seconds=1.5),
        )
    ]
    assert meaning.reported == [entry]
    assert meaning.usage == [Usage(FENCE, {"cpu_seconds": 1.5}, {"seconds": 2})]


def test_a_result_is_a_text_and_null_is_one_too() -> None:
    for result in (b"null", b'{"a":1}'):
        entry = over("succeeded", result=msgspec.Raw(result))
        meaning = interpret(prepared_for(a_wanted()), an_answer(completed_tasks=[entry]))
        assert meaning.completions[0].result == result.decode()


def test_an_end_told_twice_is_one_end() -> None:
    entries = [over("failed", error="first"), over("succeeded")]
    meaning = interpret(prepared_for(a_wanted()), an_answer(completed_tasks=entries))
    assert [completion.status for completion in meaning.completions] == ["succeeded"]


def test_usage_is_taken_of_wanted_attempts_alone() -> None:
    stranger = FENCE._replace(lease_token=uuid4())
    entries = [over("succeeded", stranger, usage={"cpu_seconds": 1.0})]
    assert interpret(prepared_for(a_wanted()), an_answer(completed_tasks=entries)).usage == []
    used = {"cpu_seconds": 2.0}
    here_too = [
        msgspec.structs.replace(here("RUNNING", fence), usage=used) for fence in (FENCE, stranger)
    ]
    meaning = interpret(prepared_for(a_wanted()), an_answer(running_tasks=here_too))
    assert meaning.usage == [Usage(FENCE, used, None, is_final=False)]


def test_an_attempt_goes_by_its_id_too() -> None:
    entry = msgspec.structs.replace(here("RUNNING"), attempt=None, attempt_id=FENCE.attempt)
    meaning = interpret(prepared_for(a_wanted()), an_answer(running_tasks=[entry]))
    assert meaning.running == (FENCE,)
    ended = (
        b'{"worker_id": "w1", "epoch": 1, "number": 3, "completed_tasks": [{"task_id": "7.3",'
        b'"attempt_id": 1, "lease_token": "%s", "status": "failed"}]}' % str(TOKEN).encode()
    )
    answer = read_answer(ended, "w1", epoch=1, number=3)
    meaning = interpret(prepared_for(a_wanted()), answer)
    assert meaning.completions == [Completion(FENCE, "failed")]
    assert [entry.attempt for entry in meaning.reported] == [FENCE.attempt]


@pytest.mark.parametrize("state", [ASSIGNED, RUNNING])
def test_pending_on_its_worker_is_no_news_of_an_attempt(state: TaskState) -> None:
    answer = an_answer(running_tasks=[here("PENDING")])
    meaning = interpret(prepared_for(a_wanted(state=state)), answer)
    assert (meaning.running, meaning.starts, meaning.completions) == ((FENCE,), [], [])


@pytest.mark.parametrize(
    "fields",
    [
        {"running_tasks": [here("SUCCEEDED")]},
        {"running_tasks": [here("nonsense")]},
        {"running_tasks": [msgspec.structs.replace(here("RUNNING"), task_id="7")]},
        {"running_tasks": [msgspec.structs.replace(here("RUNNING"), attempt=None)]},
        {"completed_tasks": [CompletedTask("x.0", TOKEN, "failed", attempt=0)]},
        {"completed_tasks": [over("failed", attempt=None)]},
        {"completed_tasks": [over("succeeded", result=msgspec.Raw(b'"\xff"'))]},
    ],
)
def test_nonsense_about_attempts_is_a_failed_call(fields: Any) -> None:
    with pytest.raises(CallFailed, match="makes no sense"):
        interpret(prepared_for(a_wanted()), an_answer(**fields))
