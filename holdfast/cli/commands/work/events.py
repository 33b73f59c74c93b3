"""`holdfast events`: what happened to jobs and tasks, listed or as it happens."""

import json
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from holdfast.cli.connect import open_client, own_lease
from holdfast.cli.ids import check_id
from holdfast.cli.moments import parse_moment
from holdfast.cli.output.text import first_line
from holdfast.cli.output.write import State, remark, write_json, write_line
from holdfast.cli.settings import Follow, Json, Server, check_limit
from holdfast.errors import Invalid
from holdfast.model.work.events import USER_PREFIX

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


def show_events(
    an_id: Annotated[str | None, Parameter(name="ID", help="A job or a task.")] = None,
    /,
    *,
    follow: Follow = False,
    type: Annotated[
        str | None, Parameter(help="Only this type, such as retried; user: those of user code.")
    ] = None,
    since: Annotated[
        str | None, Parameter(help="Of all jobs: from a time on, or 10m, 2h ago. Default: 1h.")
    ] = None,
    until: Annotated[str | None, Parameter(help="Of all jobs: before a time, or 10m ago.")] = None,
    correlation_id: Annotated[
        str | None, Parameter(help="Of all jobs with this correlation id.")
    ] = None,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="How many.")] = EVENTS_SHOWN,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """List what happened to a job, a task or all jobs, or follow what happens."""
    if an_id is not None:
        check_id(an_id)
    if an_id is not None or follow:
        searched = {"--since": since, "--until": until, "--correlation-id": correlation_id}
        for option, value in searched.items():
            if value is not None:
                raise Invalid(option, "searches all jobs; leave out the ID and -f")
    check_limit(limit)
    with open_client(server) as client:
        if follow:
            return _follow_events(client, an_id, type, as_json=as_json)
        if an_id is None:
            page = client.events.list(
                type=type,
                since=parse_moment(since, "--since"),
                until=parse_moment(until, "--until"),
                correlation_id=correlation_id,
                count_max=limit,
            )
        else:
            list_events = client.tasks.events if "." in an_id else client.jobs.events
            page = list_events(an_id, type=type, count_max=limit)
    if as_json:
        write_json(page)
        return 0
    for event in page.events:
        write_event(event)
    if page.next_page_token is not None:
        remark("there are more; --limit shows more of them")
    return 0


def write_own_event(
    kind: Annotated[str, Parameter(name="KIND", help="What has happened, such as loaded.")],
    /,
    *facts: Annotated[str, Parameter(name="KEY=VALUE", help="What there is to say about it.")],
    server: Server = None,
) -> int:
    """Write, within a task, an event of its own; `holdfast events ID --type user` lists them."""
    from holdfast.client.context import describe_event
    from holdfast.wire.events import WRITE_PATH
    from holdfast.wire.requests import Nothing

    payload = dict(map(_read_fact, facts))
    with open_client(server) as client:
        lease = own_lease(client)
        body = describe_event(lease, kind, payload)
        client.loop_thread.run(client.change(WRITE_PATH, body, Nothing, lease=lease))
    return 0


def _read_fact(text: str) -> tuple[str, Any]:
    """Read key=value; a value that is no JSON is a text."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise Invalid("KEY=VALUE", f"{text!r} has no key or value; write it like rows=3")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _follow_events(client: "Client", an_id: str | None, type: str | None, *, as_json: bool) -> int:
    for event in _stream(client, an_id, type):
        if as_json:
            write_json(event, indented=False)
        else:
            write_event(event)
    return 0


def _stream(client: "Client", an_id: str | None, type: str | None) -> "Iterator[Event]":
    """Follow a job or a task from its beginning, everything from now on."""
    if an_id is None:
        return client.follow_events(type=type)
    job_id, _, index = an_id.partition(".")
    client.jobs.get(job_id)
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
    if event.type.startswith(USER_PREFIX):
        words.append(bytes(event.payload).decode())
    write_line(f"{at:%H:%M:%S.%f}"[:-3], subject.ljust(_ID_WIDTH), mark, *words)
