"""What the demo shows: events as they happen, then jobs, dead letters and the verdict.

Everything is read from the event log, as any other reader of the ledger would.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.output.colours import COLOURS, badge
from holdfast.client.client import Client
from holdfast.model.work.states import TaskState
from holdfast.rules.lifecycle import EVENT_TYPES
from holdfast.wire.status import Event

_STATES = {kind: state for state, kind in EVENT_TYPES.items()} | {
    "submitted": TaskState.PENDING,
    "placed": TaskState.ASSIGNED,
}
_BADGE_WIDTH = max(len(state.name) for state in TaskState) + 2


@dataclass(frozen=True, slots=True)
class JobSummary:
    """What the events tell about one job."""

    job_id: int
    name: str
    state: TaskState
    tasks: Counter[TaskState]
    attempts: int
    events: int


class Screen:
    """The terminal, and how much of the log has been shown on it."""

    def __init__(self, console: Console, client: Client) -> None:
        self._console = console
        self._client = client
        self._names: dict[int, str] = {}
        self._shown: dict[int, set[int]] = defaultdict(set)
        self._began_at: datetime | None = None

    def title(self, text: str) -> None:
        """Begin a chapter."""
        self._console.print(Text(f"\n{text}", style="bold"))

    def say(self, text: str) -> None:
        """Say what the log does not."""
        self._console.print(Text(f"        {text}", style="italic"))

    def watch(self, job_id: int, name: str) -> None:
        """Show the events of a job from now on."""
        self._names[job_id] = name

    async def show_news(self) -> None:
        """Show the events that were written since the last time."""
        news: list[Event] = []
        for job_id in self._names:
            events = await self._read(job_id)
            news += [event for event in events if event.id not in self._shown[job_id]]
            self._shown[job_id] = {event.id for event in events}
        for group in fold(sorted(news, key=lambda event: event.id)):
            self._show(group)

    async def summarise(self) -> list[JobSummary]:
        """Tell from its events where each job stands."""
        return [
            summarise(job_id, name, await self._read(job_id))
            for job_id, name in self._names.items()
        ]

    async def _read(self, job_id: int) -> list[Event]:
        return (await self._client.jobs.events.aio(job_id)).events

    def _show(self, group: list[Event]) -> None:
        first = group[0]
        self._began_at = self._began_at or first.ts
        seconds = (first.ts - self._began_at).total_seconds()
        state = _STATES.get(first.type)
        mark = badge(state) if state else Text()
        line = Text.assemble((f"{seconds:6.2f}  ", "dim"), f"{subject(group):<8}  ", mark)
        line.append(" " * (_BADGE_WIDTH - len(mark) + 2) + self._words(first))
        line.truncate(self._console.width, overflow="ellipsis")
        self._console.print(line, soft_wrap=True)

    def _words(self, event: Event) -> str:
        match event.type:
            case "submitted":
                return f"job {self._names[int(event.job_id)]} submitted"
            case "claimed":
                return f"attempt {event.attempt} claimed by {event.actor}"
            case "placed":
                return f"attempt {event.attempt} placed {event.cause}"
            case "retried":
                return f"waits for attempt {event.attempt}"
            case "cancel_requested":
                return f"cancel requested by {event.actor}: {event.cause}"
            case "compensated":
                return f"undone by job {msgspec.json.decode(event.payload)['job_id']}"
            case "started":
                return "job starts" if event.task_index < 0 else "runs"
            case "dead_lettered" if event.task_index >= 0:
                return f"put aside: {event.cause}"
        what = "job ended" if event.task_index < 0 else "ended"
        cause = (event.cause or "").partition("\n")[0]
        return f"{what}: {cause}" if cause else what


def fold(events: Iterable[Event]) -> list[list[Event]]:
    """Put together what happened to several tasks of a job in the same way."""
    groups: list[list[Event]] = []
    for event in events:
        last = groups[-1][-1] if groups else None
        alike = last is not None and _manner(last) == _manner(event)
        if alike and last is not None and 0 <= last.task_index == event.task_index - 1:
            groups[-1].append(event)
        else:
            groups.append([event])
    return groups


def _manner(event: Event) -> tuple[Any, ...]:
    return (event.job_id, event.type, event.attempt, event.actor, event.cause)


def subject(group: list[Event]) -> str:
    """Name the job, the task or the tasks that events are about."""
    first, last = group[0], group[-1]
    if first.task_index < 0:
        return first.job_id
    task_id = f"{first.job_id}.{first.task_index}"
    return task_id if first is last else f"{task_id}-{last.task_index}"


def summarise(job_id: int, name: str, events: list[Event]) -> JobSummary:
    """Derive a job's state, its tasks' states and its attempts from its events."""
    state = TaskState.PENDING
    tasks: dict[int, TaskState] = {}
    for event in sorted(events, key=lambda event: event.id):
        moved_to = _STATES.get(event.type)
        if moved_to is None:
            continue
        if event.task_index < 0:
            state = moved_to
        else:
            tasks[event.task_index] = moved_to
    attempts = sum(event.type in ("claimed", "placed") for event in events)
    return JobSummary(job_id, name, state, Counter(tasks.values()), attempts, len(events))


def job_table(rows: Iterable[tuple[JobSummary, str]]) -> Table:
    """Lay out jobs, each with a remark, for people."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("id", justify="right")
    table.add_column("job", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("tasks", no_wrap=True)
    table.add_column("attempts", justify="right")
    table.add_column("what happened")
    for job, remark in rows:
        tasks = Text("\n").join(
            Text(f"{count} {state.name.lower()}", style=COLOURS[state])
            for state, count in sorted(job.tasks.items())
        )
        table.add_row(str(job.job_id), job.name, badge(job.state), tasks, str(job.attempts), remark)
    return table
