"""`holdfast run`: a command somewhere else that feels like one here.

Its output comes here and its exit code is ours. Ctrl-C asks it to stop, and the wait goes on; the
second one stops it hard; the third leaves it alone.
"""

import asyncio
import signal
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from holdfast.cli.app import EXIT_NO
from holdfast.cli.connect import open_client
from holdfast.cli.output.task_output import follow_task, with_reasons, write_chunks
from holdfast.cli.output.text import first_line, state_name
from holdfast.cli.output.write import remark, write_json, write_line
from holdfast.cli.placing import NO_PLACING, PlacedFlags, with_workspace
from holdfast.cli.settings import Server
from holdfast.cli.spec import NO_FLAGS, JobFlags, describe_command
from holdfast.errors import Invalid
from holdfast.model.submitting.spec import OnExhausted
from holdfast.model.work.outcomes import CancelMode

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.wire.status import JobStatus, LogChunk

LEAVE_SECONDS_MAX = 2.0
EXIT_INTERRUPTED = 128 + signal.SIGINT
_STEPS: tuple[tuple[CancelMode, str], ...] = (
    ("soft", "is asked to stop; once more stops it at once"),
    ("hard", "is stopped at once; once more leaves it alone"),
)


def run(
    *command: Annotated[str, Parameter(name="COMMAND", help="After --: a program and its words.")],
    detach: Annotated[
        bool, Parameter(name=["--detach", "-d"], negative="", help="Write the job's id and leave.")
    ] = False,
    flags: JobFlags = NO_FLAGS,
    placing: PlacedFlags = NO_PLACING,
    server: Server = None,
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="With --detach: write JSON.")
    ] = False,
) -> int:
    """Run a command on a worker, follow its output, and end with its exit code.

    Of several replicas each line begins with its task: [2].
    """
    if not command:
        raise Invalid("COMMAND", "is missing; write it like `holdfast run -- echo hello`")
    if as_json and not detach:
        raise Invalid("json", "goes with --detach; otherwise the output is the command's")
    # Who waits for it sees it fail: there is nothing to put aside for a later decision.
    on_exhausted: OnExhausted | None = None if detach else "fail"
    request = describe_command(command, flags, placing, on_exhausted=on_exhausted)
    with open_client(server) as client:
        answer = client.jobs.submit(with_workspace(client, request, placing))
        if detach:
            if as_json:
                write_json(answer)
            else:
                write_line(answer.job_id)
            return 0
        with _cancelling(client, answer.job_id) as asked:
            has_many = answer.num_tasks > 1
            chunks = with_reasons(client, _follow(client, answer), has_many_tasks=has_many)
            try:
                write_chunks(chunks, has_many_tasks=has_many)
            except BrokenPipeError:
                remark(f"holdfast: nobody reads its output any more; job {answer.job_id} goes on")
                raise
            job = client.jobs.get(answer.job_id, wait=10.0)
        return _judge(job, was_cancelled=bool(asked))


def _follow(client: "Client", job: "JobStatus") -> "Iterator[LogChunk]":
    from holdfast.cli.output.job_output import follow_job

    if job.num_tasks == 1:
        return follow_task(client, f"{job.job_id}.0")
    return follow_job(client, job.job_id)


@contextmanager
def _cancelling(client: "Client", job_id: str) -> Iterator[list[str]]:
    """Turn interrupts into requests to stop the job; yields those that were made."""
    asked: list[str] = []
    requests: list[Future[Any]] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        if len(asked) == len(_STEPS):
            signal.default_int_handler(number, frame)
        mode, words = _STEPS[len(asked)]
        asked.append(mode)
        requests.append(_ask_to_stop(client, job_id, mode))
        remark(f"holdfast: job {job_id} {words}")

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
        wait(requests, LEAVE_SECONDS_MAX)


def _ask_to_stop(client: "Client", job_id: str, mode: CancelMode) -> "Future[Any]":
    """Send the request from within a signal handler: nothing here may wait for the answer."""
    from holdfast.wire.requests import CancelRequest
    from holdfast.wire.status import Changed

    body = CancelRequest(mode, "interrupted")
    request = client.change(f"/api/jobs/{job_id}:cancel", body, Changed)
    return asyncio.run_coroutine_threadsafe(request, client.loop_thread.loop)


def _judge(job: "JobStatus", *, was_cancelled: bool) -> int:
    """Choose the exit code, and write how the job ended."""
    name = state_name(job.state)
    if name == "succeeded":
        return 0
    remark(
        f"holdfast: job {job.job_id} is {name}"
        + (f": {first_line(job.error)}" if job.error else "")
    )
    if job.exit_code:
        return job.exit_code
    return EXIT_INTERRUPTED if was_cancelled else EXIT_NO
