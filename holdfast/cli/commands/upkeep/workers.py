"""`holdfast workers`: who works, and who should leave."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.output.text import age, decimal, first_line, moment, size_of, took
from holdfast.cli.output.write import (
    Column,
    remark,
    state,
    write_fields,
    write_json,
    write_line,
    write_table,
    write_title,
)
from holdfast.cli.settings import Json, Server, check_limit
from holdfast.model.work.ids import check_worker_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.wire.lists import WorkerAttempt
    from holdfast.wire.status import WorkerStatus

WORKERS_SHOWN = 100
ATTEMPTS_SHOWN = 50
app = App(name="workers", help="List workers; show and drain one, and list what ended there.")
_ATTEMPT_COLUMNS = (
    Column("task"),
    Column("attempt", right=True),
    Column("job", flexible=True),
    Column("state"),
    Column("ended"),
    Column("took", right=True),
    Column("error", flexible=True),
)
_COLUMNS = (
    Column("worker"),
    Column("health"),
    Column("running", right=True),
    Column("failures", right=True),
    Column("seen"),
    Column("cpu", right=True),
    Column("memory", right=True, spare=True),
    Column("gpu", right=True),
    Column("work", flexible=True),
    Column("attributes", flexible=True, spare=True),
    Column("host", flexible=True, spare=True),
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
    check_limit(limit)
    with open_client(server) as client:
        found = client.workers.list(count_max=limit)
    if as_json:
        write_json(found)
        return 0
    if not found.workers:
        remark("no workers; start one with `holdfast worker --import MODULE`")
        return 0
    write_table(_COLUMNS, [_row(worker) for worker in found.workers])
    if found.next_page_token is not None:
        remark("there are more; --limit shows more of them")
    return 0


@app.command
def show(
    worker_id: Annotated[str, Parameter(name="ID", help="The worker's id, in full.")],
    /,
    *,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Show one worker: what it has, what it holds, and when it last answered."""
    check_worker_id(worker_id, "id")
    with open_client(server) as client:
        worker = client.workers.get(worker_id)
    if as_json:
        write_json(worker)
        return 0
    write_title(f"Worker {worker.worker_id}")
    write_fields(_fields(worker))
    return 0


@app.command
def attempts(
    worker_id: Annotated[str, Parameter(name="ID", help="The worker's id, in full.")],
    /,
    *,
    unsuccessful: Annotated[
        bool, Parameter(negative="", help="Only those that did not succeed.")
    ] = False,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="How many.")] = ATTEMPTS_SHOWN,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """List what has ended on a worker, the newest first."""
    check_worker_id(worker_id, "id")
    check_limit(limit)
    with open_client(server) as client:
        found = client.workers.attempts(worker_id, unsuccessful=unsuccessful, count_max=limit)
        if not found.attempts:
            client.workers.get(worker_id)  # a name, or an id of nobody, is refused
    if as_json:
        write_json(found)
        return 0
    if not found.attempts:
        remark("nothing has ended there" + (" without success" if unsuccessful else ""))
        return 0
    write_table(_ATTEMPT_COLUMNS, [_attempt_row(attempt) for attempt in found.attempts])
    if found.next_page_token is not None:
        remark(f"there are more; --limit {limit * 2} shows more of them")
    return 0


@app.command
def drain(
    worker_id: Annotated[str, Parameter(name="ID", help="The worker's id, in full.")],
    /,
    *,
    server: Server = None,
) -> int:
    """Ask a worker to finish what it has, take nothing more, and leave."""
    check_worker_id(worker_id, "id")
    with open_client(server) as client:
        client.workers.drain(worker_id)
    write_line(f"worker {worker_id} is draining")
    return 0


def _row(worker: "WorkerStatus") -> "Sequence[str]":
    amounts = _amounts(worker)
    return (
        worker.worker_id,
        worker.health,
        str(worker.running),
        _failures(worker),
        age(_seen_at(worker)),
        amounts["cpu"],
        amounts["memory"],
        amounts["gpu"],
        _work(worker),
        _attributes(worker),
        worker.host,
        _say(worker),
    )


def _fields(worker: "WorkerStatus") -> dict[str, str]:
    shown = ", ".join(worker.running_tasks)
    failures = _failures(worker)
    more = worker.running > len(worker.running_tasks)
    return {
        "name": worker.name,
        "host": worker.host,
        "health": worker.health,
        "work": _work(worker),
        "address": worker.address or "",
        **_amounts(worker),
        "attributes": _attributes(worker),
        "failures": f"{failures} in the last hour" if failures else "",
        "running": f"{worker.running}: {shown}{', ...' if more else ''}" if shown else "nothing",
        "registered": moment(worker.registered_at_ms),
        "seen": moment(_seen_at(worker)),
        "lost": moment(worker.lost_at_ms),
        "remark": _say(worker),
    }


def _attempt_row(attempt: "WorkerAttempt") -> "Sequence[str]":
    return (
        attempt.task_id,
        str(attempt.attempt_id),
        attempt.job_name,
        state(attempt.state),
        age(attempt.finished_at_ms),
        took(attempt.started_at_ms, attempt.finished_at_ms),
        first_line(attempt.error),
    )


def _failures(worker: "WorkerStatus") -> str:
    """Write how many of the attempts that ended on a worker failed, but for those stopped."""
    ended = worker.ended_last_hour
    failures = ended.failed + ended.worker_failed
    attempts = failures + ended.succeeded
    return f"{failures} of {attempts}" if attempts else ""


def _amounts(worker: "WorkerStatus") -> dict[str, str]:
    """Write what is used of all that a worker has to give."""
    found = worker.resources
    if found is None:
        return dict.fromkeys(("cpu", "memory", "disk", "gpu"), "")
    used, whole = found.used, found.capacity
    model = f" {found.gpu_model}" if found.gpu_model else ""
    return {
        "cpu": f"{decimal(used.cpu)}/{decimal(whole.cpu)}",
        "memory": size_of(used.memory, whole.memory),
        "disk": size_of(used.disk, whole.disk),
        "gpu": f"{used.gpu}/{whole.gpu}{model}" if whole.gpu else "",
    }


def _work(worker: "WorkerStatus") -> str:
    return "placed" if worker.placed else f"claims {', '.join(worker.queues)}"


def _attributes(worker: "WorkerStatus") -> str:
    """Write attributes the way that they are given and asked for."""
    return "  ".join(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in worker.attributes.items()
    )


def _seen_at(worker: "WorkerStatus") -> int | None:
    return worker.last_answer_at_ms if worker.placed else worker.last_seen_at_ms


def _say(worker: "WorkerStatus") -> str:
    if worker.replaced_by is not None:
        return f"replaced by {worker.replaced_by}"
    if worker.lost_cause is not None:
        return worker.lost_cause
    failed = f"{worker.consecutive_failures} calls in a row failed: {worker.last_failure}"
    words = (
        "draining" if worker.draining else "",
        f"one process with {worker.same_process}" if worker.same_process is not None else "",
        failed if worker.consecutive_failures else "",
    )
    return "; ".join(filter(None, words))
