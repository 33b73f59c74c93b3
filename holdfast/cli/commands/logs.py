"""`holdfast logs`: what tasks have written."""

from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.ids import check_id, find_task
from holdfast.cli.output.task_output import (
    follow_task,
    read_chunks,
    with_pending_reasons,
    write_chunks,
)
from holdfast.cli.output.write import write_json
from holdfast.cli.settings import Follow, Json, Server
from holdfast.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.client.client import Client
    from holdfast.wire.status import LogChunk

TASKS_MAX = 10_000_000


def show_logs(
    an_id: Annotated[
        str, Parameter(name="ID", help="A job, a task or an attempt, such as 4182.3.")
    ],
    /,
    *,
    follow: Follow = False,
    attempt: Annotated[int | None, Parameter(help="Which attempt. Default: the latest.")] = None,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Write what a task has written, or all tasks of a job: each line with its task then, as [3].

    With -f it goes on, into each next attempt, until the job or the task has ended.
    """
    with open_client(server) as client:
        job_id = None if "." in an_id else _find_tasks(client, check_id(an_id))
        if job_id is not None:
            if attempt is not None:
                raise Invalid("attempt", f"goes with one task, such as {an_id}.0")
            chunks = _read_job(client, job_id, follow=follow)
        else:
            chunks = _read_task(client, an_id, attempt, follow=follow)
        if not as_json:
            shown = with_pending_reasons(client, chunks) if follow else chunks
            write_chunks(shown, has_many_tasks=job_id is not None)
        elif follow:
            for chunk in chunks:
                if chunk.content or chunk.is_complete:
                    write_json(chunk, indented=False)
        else:
            _write_document(chunks, has_many_tasks=job_id is not None)
    return 0


def _find_tasks(client: "Client", job_id: str) -> str | None:
    """Tell a job with many tasks, whose id is given back, from one that means its only task."""
    return job_id if client.jobs.get(job_id).num_tasks > 1 else None


def _read_task(
    client: "Client", an_id: str, attempt: int | None, *, follow: bool
) -> "Iterator[LogChunk]":
    task_id, typed = find_task(client, an_id)
    if attempt is not None and typed not in (None, attempt):
        raise Invalid("attempt", f"is {attempt}, but the id says {typed}; give one of the two")
    chosen = typed if attempt is None else attempt
    if follow and chosen is None:
        return follow_task(client, task_id)
    return read_chunks(client, task_id, attempt=chosen, follow=follow)


def _read_job(client: "Client", job_id: str, *, follow: bool) -> "Iterator[LogChunk]":
    """Read the latest attempt of each task, one task after the other, or all as they write."""
    from holdfast.cli.output.job_output import follow_job

    tasks = client.tasks.list(job_id, count_max=TASKS_MAX).tasks
    begun = {task.task_index: task.current_attempt_id for task in tasks}
    if follow:
        yield from follow_job(client, job_id, since=begun)
        return
    for index, attempt in begun.items():
        if attempt >= 0:
            yield from read_chunks(client, f"{job_id}.{index}", attempt=attempt, follow=False)


def _write_document(chunks: "Iterator[LogChunk]", *, has_many_tasks: bool) -> None:
    """Write logs as one document: that of the task, or a list; their bytes are base64."""
    import msgspec

    logs = []
    for _, pieces in groupby(chunks, key=lambda chunk: chunk.task_id):
        listed = list(pieces)
        whole = b"".join(chunk.content for chunk in listed)
        logs.append(msgspec.structs.replace(listed[-1], offset=0, content=whole))
    write_json({"logs": logs} if has_many_tasks else logs[0])
