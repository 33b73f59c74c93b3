"""`holdfast task` and `holdfast explain`: one task, its attempts, and why it stands where it is."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.ids import find_task
from holdfast.cli.output.text import (
    age,
    first_line,
    local_times,
    moment,
    size,
    span,
    state_name,
    took,
)
from holdfast.cli.output.write import (
    Column,
    state,
    write_fields,
    write_json,
    write_line,
    write_table,
    write_title,
)
from holdfast.cli.settings import Json, Server
from holdfast.errors import Invalid
from holdfast.model.workers.resources import parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.wire.status import ResourceUsage, TaskAttempt, TaskStatus

_COLUMNS = (
    Column("attempt"),
    Column("state"),
    Column("worker", flexible=True),
    Column("started"),
    Column("took", right=True, spare=True),
    Column("exit", right=True),
    Column("cpu", right=True, spare=True),
    Column("memory", right=True, spare=True),
    Column("ports", flexible=True, spare=True),
    Column("devices", flexible=True, spare=True),
)

_AMOUNTS: "Mapping[str, Callable[[str], Any]]" = {
    "cpu": float,
    "memory": str,
    "disk": str,
    "gpu": int,
}


def show_task(
    task_id: Annotated[str, Parameter(name="ID", help="A task's id, such as 4182.3.")],
    /,
    *,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Show one task with its attempts; a job's id means its only task."""
    with open_client(server) as client:
        task = client.tasks.get(find_task(client, task_id)[0])
    if as_json:
        write_json(task)
        return 0
    write_title(f"Task {task.task_id}", state(task.state))
    write_fields(_fields(task))
    attempts = task.attempts or []
    if attempts:
        write_line("")
        write_table(_COLUMNS, [_row(task, attempt) for attempt in attempts])
    errors = {f"attempt {each.attempt_id}": first_line(each.error) for each in attempts}
    if any(errors.values()):
        write_line("")
        write_fields(errors)
    return 0


def explain_task(
    task_id: Annotated[str, Parameter(name="ID", help="A task's id, such as 4182.3.")],
    /,
    *,
    what_if: Annotated[
        tuple[str, ...],
        Parameter(
            negative="", help="Say what if it asked for this: cpu=8, memory=4GB, disk or gpu."
        ),
    ] = (),
    without: Annotated[
        str | None, Parameter(help="Say what if this worker, by name or id, were not there.")
    ] = None,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Say why a task stands where it stands; a job's id means its only task."""
    with open_client(server) as client:
        explanation = client.tasks.explain(
            find_task(client, task_id)[0], **_read_amounts(what_if), without_worker=without
        )
    if as_json:
        write_json(explanation)
        return 0
    for sentence in map(local_times, explanation.lines):
        first, *rest = sentence.rstrip(". \n").split("\n") if "\n" in sentence else [sentence]
        write_line(first)
        for line in rest:
            write_line(f"  {line}")
    return 0


def _read_amounts(texts: "Sequence[str]") -> "dict[str, Any]":
    """Read amounts such as cpu=8, for a question; sizes go to the server as they were typed."""
    found: dict[str, Any] = {}
    for text in texts:
        name, _, amount = text.partition("=")
        if name not in _AMOUNTS or not amount or name in found:
            raise Invalid("--what-if", f"{text!r} is not one of cpu=8, memory=4GB, disk=, gpu=")
        try:
            found[name] = _AMOUNTS[name](amount)
            if name in ("memory", "disk"):
                parse_size(amount, f"--what-if {name}")
        except ValueError as error:
            raise Invalid("--what-if", f"{text!r} is not an amount; write {name}=8") from error
    return found


def describe_progress(task: "TaskStatus") -> str:
    """Say how far a task has got, in its own words."""
    share = "" if task.progress is None else f"{task.progress:.0%}"
    return " ".join(filter(None, (share, task.status_message)))


def _fields(task: "TaskStatus") -> dict[str, str]:
    waits = state_name(task.state) == "pending"
    return {
        "worker": " at ".join(filter(None, (task.worker_id, task.worker_address))),
        "submitted": moment(task.submitted_at_ms),
        "eligible": moment(task.eligible_at_ms) if waits else "",
        "started": moment(task.started_at_ms),
        "finished": moment(task.finished_at_ms),
        "took": took(task.started_at_ms, task.finished_at_ms),
        "waits": local_times(task.pending_reason or ""),
        "progress": describe_progress(task),
        "ports": _write_ports(task.ports),
        "devices": " ".join(task.devices),
        "used": describe_usage(task.resource_usage),
        "failures": str(task.failure_count) if task.failure_count else "",
        "preemptions": str(task.preemption_count) if task.preemption_count else "",
        "exit code": "" if task.exit_code is None else str(task.exit_code),
        "error": task.error or "",
    }


def describe_usage(usage: "ResourceUsage | None") -> str:
    """Say in a line what was used, as far as it is known."""
    if usage is None:
        return ""
    cpu, memory = _write_usage(usage)
    count = usage.processes_max or 0
    words = [
        f"{cpu} of cpu" if cpu else "",
        f"{memory} of memory at most" if memory else "",
        f"{count} processes at most" if count > 1 else "",
        f"limited by {usage.limits}" if usage.limits not in (None, "none") else "",
    ]
    return ", ".join(filter(None, words))


def _write_usage(usage: "ResourceUsage | None") -> tuple[str, str]:
    cpu = None if usage is None else usage.cpu_seconds
    memory = None if usage is None else usage.memory_peak_bytes
    return "" if cpu is None else span(cpu), "" if memory is None else size(memory)


def _write_ports(ports: "Mapping[str, int]") -> str:
    return "  ".join(f"{name}={port}" for name, port in ports.items())


def _row(task: "TaskStatus", attempt: "TaskAttempt") -> "Sequence[str]":
    return (
        _mark(task, attempt),
        state(attempt.state),
        attempt.worker_id,
        age(attempt.started_at_ms),
        took(attempt.started_at_ms, attempt.finished_at_ms),
        "" if attempt.exit_code is None else str(attempt.exit_code),
        *_write_usage(attempt.usage),
        _write_ports(attempt.ports),
        " ".join(attempt.devices),
    )


def _mark(task: "TaskStatus", attempt: "TaskAttempt") -> str:
    marks = [str(attempt.attempt_id)]
    if attempt.attempt_id == task.current_attempt_id:
        marks.append("(curr)")
    if attempt.is_worker_failure:
        marks.append("(worker failure)")
    return " ".join(marks)
