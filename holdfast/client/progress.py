"""A progress bar on a terminal, for whoever waits for many tasks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.wire.status import JobStatus


@contextmanager
def show_progress(num_tasks: int, *, shown: bool) -> Iterator[Callable[[JobStatus], None]]:
    """Yield what draws a job's state; it draws nothing where nobody would see it."""
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=False) as bar:
        line = bar.add_task("waiting", total=num_tasks)

        def draw(status: JobStatus) -> None:
            ended = num_tasks - status.tasks_pending - status.tasks_assigned
            ended -= status.tasks_building + status.tasks_running
            bar.update(line, completed=ended, description=f"job {status.job_id}")

        yield draw
