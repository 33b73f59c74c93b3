"""What a transaction has to tell the rest of its server, once it has committed."""

from collections import Counter
from dataclasses import dataclass, field

from holdfast.model.ids import TaskId


@dataclass(slots=True)
class News:
    """Tasks that can be claimed now, moves made, jobs that ended, times that passed."""

    ready: dict[str, list[TaskId]] = field(default_factory=dict)
    moves: Counter[tuple[int, int]] = field(default_factory=Counter)
    ended_jobs: list[int] = field(default_factory=list)
    # Seconds a task of this job waited in line, and seconds an attempt of it ran.
    waits: list[tuple[int, float]] = field(default_factory=list)
    runs: list[tuple[int, float]] = field(default_factory=list)
    # Jobs of attempts that failed, and whether their code had run: then they are among the runs.
    failures: list[tuple[int, bool]] = field(default_factory=list)
    expired: int = 0
    has_follow_ups: bool = False

    def add_ready(self, queue: str, task_id: TaskId) -> None:
        """Note a task that can be claimed from a queue now; the queue of placed work is empty."""
        self.ready.setdefault(queue, []).append(task_id)
