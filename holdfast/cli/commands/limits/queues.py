"""`holdfast queues`: what waits where, and who may have it."""

from typing import Annotated

from cyclopts import App, Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.output.text import span
from holdfast.cli.output.write import Column, remark, write_json, write_line, write_table
from holdfast.cli.settings import Json, Server

app = App(name="queues", help="List queues; pause and resume one.")
QueueName = Annotated[str, Parameter(name="NAME", help="The queue's name.")]
_COLUMNS = (
    Column("queue"),
    Column("waiting", right=True),
    Column("gated", right=True),
    Column("oldest", right=True),
    Column("running", right=True),
    Column("per second", right=True),
    Column("workers", right=True),
    Column("paused"),
)


@app.default
def list_queues(*, server: Server = None, as_json: Json = False) -> int:
    """List queues: what waits, since when, what runs, how fast it goes, and who serves it."""
    with open_client(server) as client:
        found = client.queues.list()
    if as_json:
        write_json(found)
        return 0
    if not found.queues:
        remark("no queues: none is served, and nothing waits, runs or has just finished")
        return 0
    write_table(
        _COLUMNS,
        [
            (
                queue.queue,
                _count_waiting(queue.depth, queue.never_fits),
                _count_gated(queue.gated, queue.limited_by),
                "" if queue.oldest_age_seconds is None else span(queue.oldest_age_seconds),
                str(queue.running),
                f"{queue.finished_per_second:.1f}",
                _count_workers(queue.workers, is_served=queue.is_served),
                _say_paused(queue.paused, queue.paused_by),
            )
            for queue in found.queues
        ],
    )
    return 0


@app.command
def pause(name: QueueName, /, *, server: Server = None) -> int:
    """Hand out nothing more from a queue; what runs goes on."""
    with open_client(server) as client:
        client.queues.pause(name)
    write_line(f"queue {name} is paused")
    return 0


@app.command
def resume(name: QueueName, /, *, server: Server = None) -> int:
    """Hand out tasks of a queue again."""
    with open_client(server) as client:
        client.queues.resume(name)
    write_line(f"queue {name} goes on")
    return 0


def _count_waiting(depth: int, never_fits: int) -> str:
    return f"{depth} ({never_fits} fit no worker)" if never_fits else str(depth)


def _count_gated(count: int, limited_by: str | None) -> str:
    if limited_by is None:
        return str(count) if count else ""
    return f"{count} (all, by {limited_by})" if count else f"all, by {limited_by}"


def _count_workers(count: int, *, is_served: bool) -> str:
    if count:
        return str(count)
    return "unregistered" if is_served else "none"


def _say_paused(paused: bool, by: str | None) -> str:
    if not paused:
        return ""
    return f"by {by}" if by else "yes"
