"""What servers and called workers say to each other can be read back, and by older readers."""

from uuid import uuid4

import msgspec

from holdfast.model.submitting.spec import Entrypoint
from holdfast.model.workers.resources import Resources
from holdfast.wire.answers import AttemptName
from holdfast.wire.cluster import (
    CompletedTask,
    Gang,
    PlacedJob,
    RunningTask,
    TaskToKill,
    TaskToRun,
    WorkerHeartbeatAnswer,
    WorkerHeartbeatRequest,
)

TOKEN = uuid4()
JOB = PlacedJob(
    "7",
    "train",
    "train",
    Entrypoint(shell="true"),
    2,
    60.0,
    30.0,
    "c",
    resources=Resources(cpu=2, ports=["rpc"]),
    requirements=["numpy"],
)


def test_a_call_says_all_that_is_wanted() -> None:
    call = WorkerHeartbeatRequest(
        worker_id="w-1",
        epoch=3,
        number=9,
        answered_epoch=3,
        answered_number=8,
        tasks_to_run=[
            TaskToRun(
                task_id="7.0",
                attempt=1,
                lease_token=TOKEN,
                lease_ms=59_000,
                job=msgspec.Raw(msgspec.json.encode(JOB)),
                input=msgspec.Raw(b"[1]"),
                ports={"rpc": 20_000},
                devices=["0", "GPU-8932f937"],
                gang=Gang(["127.0.0.1:20000", ""]),
            )
        ],
        tasks_to_kill=[TaskToKill("7.1", 0, TOKEN)],
        acknowledged=[AttemptName("6.0", 0)],
    )
    text = msgspec.json.encode(call)
    read = msgspec.json.decode(text, type=WorkerHeartbeatRequest)
    assert read == call
    assert msgspec.json.decode(read.tasks_to_run[0].job, type=PlacedJob) == JOB


def test_what_is_not_said_stays_off_the_wire() -> None:
    known = TaskToRun(task_id="7.0", attempt=0, lease_token=TOKEN, lease_ms=1)
    assert set(msgspec.json.decode(msgspec.json.encode(known))) <= {
        "task_id",
        "attempt",
        "lease_token",
        "lease_ms",
        "job",
        "input",
    }


def test_an_answer_says_all_that_is_there_and_tolerates_what_is_new() -> None:
    answer = WorkerHeartbeatAnswer(
        worker_id="w-1",
        epoch=3,
        number=9,
        running_tasks=[RunningTask(task_id="7.0", attempt=1, lease_token=TOKEN, state="BUILDING")],
        completed_tasks=[
            CompletedTask("7.1", TOKEN, "failed", 137, attempt=0, usage={"cpu_seconds": 1.5})
        ],
    )
    fields = msgspec.json.decode(msgspec.json.encode(answer))
    assert msgspec.convert({**fields, "of_a_later_version": 1}, WorkerHeartbeatAnswer) == answer
