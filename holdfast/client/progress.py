"""A progress bar on a terminal, for whoever waits for many tasks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.wire.status import JobStatus


@contextmanager
def show_progress(
    job_id: str, num_tasks: int, *, wanted: bool
) -> Iterator[Callable[[JobStatus], None] | None]:
    """Yield what draws a job's state; None where nobody would see it."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        line = bar.add_task(f"job {job_id}", total=num_tasks)
        yield lambda status: bar.update(line, completed=num_tasks - count_live(status))


def count_live(status: JobStatus) -> int:
    """Count the tasks of a job that have not ended."""
    return (
        status.tasks_pending + status.tasks_assigned + status.tasks_building + status.tasks_running
    )
