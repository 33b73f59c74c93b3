"""`holdfast logs` and `holdfast events`: what tasks have written, and what happened to them."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.jobs import check_limit
from holdfast.cli.output import Output, read_chunks
from holdfast.cli.settings import Follow, Json, Server
from holdfast.cli.show import State, remark, write_json, write_line
from holdfast.cli.text import first_line
from holdfast.cli.which import check_id, find_task
from holdfast.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.client.client import Client
    from holdfast.wire.status import Event

EVENTS_SHOWN = 1000
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
    task_id: Annotated[str, Parameter(name="ID", help="A task or an attempt, such as 4182.3.")],
    /,
    *,
    follow: Follow = False,
    attempt: Annotated[int | None, Parameter(help="Which attempt. Default: the latest.")] = None,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Write what a task has written; a job's id means its only task."""
    with open_client(server) as client:
        found, typed = find_task(client, task_id)
        if attempt is not None and typed not in (None, attempt):
            raise Invalid("attempt", f"is {attempt}, but the id says {typed}; give one of the two")
        chosen = typed if attempt is None else attempt
        if as_json:
            return _write_chunks(client, found, chosen, follow=follow)
        output = Output()
        try:
            for chunk in read_chunks(client, found, attempt=chosen, follow=follow):
                output.write(chunk.content)
        finally:
            output.close()
    return 0


def _write_chunks(client: "Client", task_id: str, attempt: int | None, *, follow: bool) -> int:
    """Write the log as one document, or as lines while it is followed; its bytes are base64."""
    import msgspec

    chunks = read_chunks(client, task_id, attempt=attempt, follow=follow)
    if follow:
        for chunk in chunks:
            if chunk.content or chunk.is_complete:
                write_json(chunk, indented=False)
        return 0
    listed = list(chunks)
    whole = b"".join(chunk.content for chunk in listed)
    write_json(msgspec.structs.replace(listed[-1], offset=0, content=whole))
    return 0


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
