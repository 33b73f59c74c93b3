"""`holdfast logs` and `holdfast events`: what tasks have written, and what happened to them."""

from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.jobs import check_limit
from holdfast.cli.output import follow_task, read_chunks, tell_waiting, write_chunks
from holdfast.cli.settings import Follow, Json, Server
from holdfast.cli.show import State, remark, write_json, write_line
from holdfast.cli.text import first_line
from holdfast.cli.which import check_id, find_task
from holdfast.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.client.client import Client
    from holdfast.wire.status import Event, LogChunk

EVENTS_SHOWN = 1000
TASKS_MAX = 10_000_000
BEGINNING = "0-0"
_STATES = {
    "claimed": "assigned",
    "placed": "assigned",
    "started": "running",
    "retried": "pending",
    "submitted": "pending",
}
_ID_WIDTH = 10
_TYPE_WIDTH = 16


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
            told = tell_waiting(client, chunks) if follow else chunks
            write_chunks(told, has_many_tasks=job_id is not None)
        elif follow:
            for chunk in chunks:
                if chunk.content or chunk.is_complete:
                    write_json(chunk, indented=False)
        else:
            _write_document(chunks, has_many_tasks=job_id is not None)
    return 0


def _find_tasks(client: "Client", job_id: str) -> str | None:
    """Tell a job with many tasks, whose id is given back, from one that means its only task."""
    from holdfast.client.admin import get_job

    return job_id if get_job(client, job_id).num_tasks > 1 else None


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
    from holdfast.cli.tail import follow_job
    from holdfast.client.admin import list_tasks
    from holdfast.wire.requests import TaskListQuery

    tasks = list_tasks(client, job_id, TaskListQuery(), count_max=TASKS_MAX).tasks
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


def show_events(
    an_id: Annotated[str | None, Parameter(name="ID", help="A job or a task.")] = None,
    /,
    *,
    follow: Follow = False,
    type: Annotated[str | None, Parameter(help="Only this type, such as retried.")] = None,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="How many.")] = EVENTS_SHOWN,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """List what happened to a job or a task, or follow what happens, there or everywhere."""
    if an_id is None and not follow:
        raise Invalid("ID", "give a job or a task, or follow everything with -f")
    if an_id is not None:
        check_id(an_id)
    check_limit(limit)
    with open_client(server) as client:
        if follow:
            return _follow_events(client, an_id, type, as_json=as_json)
        from holdfast.client import admin
        from holdfast.wire.requests import EventListQuery

        assert an_id is not None
        wanted = EventListQuery(type)
        page = admin.list_events(client, an_id, wanted, count_max=limit)
    if as_json:
        write_json(page)
        return 0
    for event in page.events:
        write_event(event)
    if page.next_page_token is not None:
        remark("there are more; --limit shows more of them")
    return 0


def _follow_events(client: "Client", an_id: str | None, type: str | None, *, as_json: bool) -> int:
    for event in _stream(client, an_id, type):
        if as_json:
            write_json(event, indented=False)
        else:
            write_event(event)
    return 0


def _stream(client: "Client", an_id: str | None, type: str | None) -> "Iterator[Event]":
    """Follow a job or a task from its beginning, everything from now on."""
    from holdfast.client import admin

    if an_id is None:
        return client.follow_events(type=type)
    job_id, _, index = an_id.partition(".")
    admin.get_job(client, job_id)
    events = client.follow_events(job_id=job_id, type=type, after=BEGINNING)
    return (event for event in events if not index or event.task_index == int(index))


def write_event(event: "Event") -> None:
    """Write one event in one line."""
    at = event.ts.astimezone()
    subject = event.job_id if event.task_index < 0 else f"{event.job_id}.{event.task_index}"
    if event.attempt >= 0 and event.task_index >= 0:
        subject += f".{event.attempt}"
    mark = State(_STATES.get(event.type, event.type), event.type.ljust(_TYPE_WIDTH))
    words = [f"by {event.actor}" if event.actor else "", first_line(event.cause)]
    write_line(f"{at:%H:%M:%S.%f}"[:-3], subject.ljust(_ID_WIDTH), mark, *words)
