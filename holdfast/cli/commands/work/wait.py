"""`holdfast wait`: wait until jobs and tasks have ended."""

import time
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from holdfast.cli.app import EXIT_NO
from holdfast.cli.connect import open_client
from holdfast.cli.ids import Ids, check_ids
from holdfast.cli.output.text import first_line, local_times, state_name
from holdfast.cli.output.write import remark, state, write_json, write_line
from holdfast.cli.settings import Json, Server

if TYPE_CHECKING:
    from holdfast.client.client import Client

EXIT_TIMEOUT = 3
WAIT_SECONDS = 10.0


class Stand(msgspec.Struct, frozen=True):
    """How a job or a task stands, in the words that the two share."""

    id: str
    state: str
    ended: bool
    exit_code: int | None = None
    error: str | None = None


class Stands(msgspec.Struct, frozen=True):
    """Where everything stood when the wait was over."""

    results: list[Stand]
    timed_out: bool


def wait(
    *ids: Ids,
    timeout: Annotated[
        float | None, Parameter(name=["--timeout", "-t"], help="Seconds to wait at most.")
    ] = None,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Wait until jobs and tasks have ended.

    Exit code 0: all have succeeded. 1: one has ended otherwise. 3: the time is over.
    """
    wanted = check_ids(ids)
    ends_at = None if timeout is None else time.monotonic() + timeout
    stands = []
    with open_client(server) as client:
        for an_id in wanted:
            stand = _wait_for(client, an_id, ends_at)
            stands.append(stand)
            if not as_json:
                write_line(stand.id, state(stand.state), first_line(stand.error))
        late = [stand for stand in stands if not stand.ended]
        if late and not as_json:
            _tell_what_it_waits_for(client, late[0])
    timed_out = bool(late)
    if as_json:
        write_json(Stands(stands, timed_out))
    if timed_out:
        remark(f"not everything has ended within {timeout:g} s")
        return EXIT_TIMEOUT
    return 0 if all(state_name(each.state) == "succeeded" for each in stands) else EXIT_NO


def _tell_what_it_waits_for(client: "Client", stand: Stand) -> None:
    task_id = stand.id if "." in stand.id else f"{stand.id}.0"
    reason = client.tasks.get(task_id).pending_reason
    if reason:
        remark(f"task {task_id} waits: {local_times(reason)}")


def _wait_for(client: "Client", an_id: str, ends_at: float | None) -> Stand:
    while True:
        left = WAIT_SECONDS if ends_at is None else ends_at - time.monotonic()
        stand = _look(client, an_id, min(max(left, 0.0), WAIT_SECONDS))
        if stand.ended or left <= 0:
            return stand


def _look(client: "Client", an_id: str, wait_seconds: float) -> Stand:
    if "." in an_id:
        task = client.tasks.result(an_id, wait=wait_seconds)
        return Stand(an_id, task.state, task.is_finished, task.exit_code, task.error)
    job = client.jobs.get(an_id, wait=wait_seconds)
    return Stand(an_id, job.state, job.finished_at_ms is not None, job.exit_code, job.error)
