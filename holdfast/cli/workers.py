"""`holdfast workers`: who works, and who should leave."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.jobs import check_limit
from holdfast.cli.settings import Json, Server
from holdfast.cli.show import Column, remark, write_json, write_line, write_table
from holdfast.cli.text import age
from holdfast.model.ids import check_worker_id

if TYPE_CHECKING:
    from holdfast.wire.status import WorkerStatus

WORKERS_SHOWN = 100
app = App(name="workers", help="List workers; drain one.")
_COLUMNS = (
    Column("worker"),
    Column("health"),
    Column("running", right=True),
    Column("seen"),
    Column("up since"),
    Column("queues", flexible=True),
    Column("host", flexible=True),
    Column("remark", flexible=True),
)


@app.default
def list_workers(
    *,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="How many.")] = WORKERS_SHOWN,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """List workers, the living first."""
    from holdfast.client import admin

    check_limit(limit)
    with open_client(server) as client:
        found = admin.list_workers(client, limit)
    if as_json:
        write_json(found)
        return 0
    if not found.workers:
        remark("no workers; start one with `holdfast worker`")
        return 0
    write_table(
        _COLUMNS,
        [
            (
                worker.worker_id,
                worker.health,
                str(worker.running),
                age(worker.last_seen_at_ms),
                age(worker.registered_at_ms),
                ", ".join(worker.queues),
                worker.host,
                _say(worker),
            )
            for worker in found.workers
        ],
    )
    if found.next_page_token is not None:
        remark("there are more; --limit shows more of them")
    return 0


@app.command
def drain(
    worker_id: Annotated[str, Parameter(name="ID", help="The worker's id, in full.")],
    /,
    *,
    server: Server = None,
) -> int:
    """Ask a worker to finish what it has, take nothing more, and leave."""
    from holdfast.client import admin

    check_worker_id(worker_id, "id")
    with open_client(server) as client:
        admin.drain_worker(client, worker_id)
    write_line(f"worker {worker_id} is draining")
    return 0


def _say(worker: "WorkerStatus") -> str:
    if worker.replaced_by is not None:
        return f"replaced by {worker.replaced_by}"
    if worker.lost_cause is not None:
        return worker.lost_cause
    return "draining" if worker.draining else ""
