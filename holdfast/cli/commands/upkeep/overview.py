"""`holdfast overview`: what needs attention, and where the tasks stand."""

import shlex
from typing import TYPE_CHECKING

from holdfast.cli.connect import open_client
from holdfast.cli.output.write import write_fields, write_json, write_line
from holdfast.cli.settings import Json, Server

if TYPE_CHECKING:
    from holdfast.wire.overview import Attention, LiveTasks

_KINDS = {
    "failing_jobs": "failing jobs",
    "failing_type": "failing type",
    "dead_letters": "dead letters",
    "queue_stalled": "queue",
    "never_fits": "work that can never run:",
    "worker_lost": "worker",
    "worker_failing": "worker",
}


def show_overview(*, server: Server = None, as_json: Json = False) -> int:
    """Show what needs attention, the worst first, and where the tasks stand."""
    with open_client(server) as client:
        found = client.overview.get()
    if as_json:
        write_json(found)
        return 0
    for one in found.attention:
        # A table would cut off what has to be read whole, and the command that is to be copied.
        write_line(
            f"{one.severity:<8}  {_KINDS.get(one.kind, one.kind)} {one.subject}: {one.message}"
        )
        write_line(f"{'':<8}  {_next_command(one)}")
    if not found.attention:
        write_line("nothing needs attention")
    write_line("")
    write_fields(_count(found.tasks))
    return 0


def _next_command(one: "Attention") -> str:
    """Name the command that shows the cause."""
    subject = shlex.quote(one.subject)
    match one.kind:
        case "failing_jobs":
            return f"holdfast jobs --state unsuccessful --fingerprint {one.fingerprint}"
        case "failing_type":
            return f"holdfast jobs --type {subject} --state pending,running,unsuccessful"
        case "dead_letters":
            return f"holdfast dead-letters --reason {subject}"
        case "queue_stalled":
            return f"holdfast jobs --queue {subject} --state pending,running"
        case "never_fits":
            return f"holdfast explain {one.job_ids[0]}.0"
        case "worker_failing":
            return f"holdfast workers attempts {subject} --unsuccessful"
    return f"holdfast workers show {subject}"


def _count(tasks: "LiveTasks") -> dict[str, str]:
    """Count tasks by where they stand; what cannot start is left out where there is none."""
    held = {
        "paused": f"{tasks.paused} in a paused queue",
        "unserved": f"{tasks.unserved} in a queue that no worker serves",
        "can never run": f"{tasks.never_fits} that fit no worker",
        "gated": f"{tasks.gated} that wait for a limit",
        "awaiting": f"{tasks.awaiting_signal} that wait for a signal",
    }
    counts = (
        tasks.paused,
        tasks.unserved,
        tasks.never_fits,
        tasks.gated,
        tasks.awaiting_signal,
    )
    return {
        "ready": f"{tasks.ready} can start now" + (", estimated" if tasks.is_estimate else ""),
        **{name: text for (name, text), n in zip(held.items(), counts, strict=True) if n},
        "due later": str(tasks.waiting),
        "assigned": str(tasks.assigned),
        "building": str(tasks.building),
        "running": str(tasks.running),
    }
