"""The states' colours, the same on a terminal as in the dashboard."""

from typing import TYPE_CHECKING

from holdfast.model.work.states import TaskState

if TYPE_CHECKING:
    from rich.text import Text

COLOURS = {
    TaskState.PENDING: "#9a6700",
    TaskState.BUILDING: "#8250df",
    TaskState.RUNNING: "#0969da",
    TaskState.SUCCEEDED: "#1a7f37",
    TaskState.FAILED: "#cf222e",
    TaskState.KILLED: "#57606a",
    TaskState.WORKER_FAILED: "#8250df",
    TaskState.UNSCHEDULABLE: "#cf222e",
    TaskState.ASSIGNED: "#bc4c00",
    TaskState.DEAD_LETTERED: "#82071e",
}


def badge(state: TaskState, label: str | None = None) -> "Text":
    """Write a state as people see it everywhere: its lower-case name in its colour."""
    from rich.text import Text

    return Text(f" {label or state.name.lower()} ", style=f"bold #ffffff on {COLOURS[state]}")
