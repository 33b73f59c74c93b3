"""What a transaction has to tell the rest of its server, once it has committed."""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.model.ids import TaskId
from holdfast.store.specs import StoredSpec


class StoredJob(NamedTuple):
    """A job that was stored, and how many of its tasks can be claimed or placed now: the first.

    Those that count as submitted are all its tasks; of a compensation, which nobody submits, none.
    Of jobs that wait for others of their graph the spec is left out: it is read when they start.
    """

    job_id: int
    submitted: int
    ready: int
    spec: StoredSpec | None


log = logging.getLogger("holdfast.ledger")


@dataclass(slots=True)
class News:
    """New jobs, tasks that can be claimed now, moves made, jobs that ended, times that passed."""

    stored_jobs: list[StoredJob] = field(default_factory=list)
    ready: dict[str, list[TaskId]] = field(default_factory=dict)
    moves: Counter[tuple[int, int]] = field(default_factory=Counter)
    ended_jobs: list[int] = field(default_factory=list)
    # Seconds a task of this job waited in line, and seconds an attempt of it ran.
    waits: list[tuple[int, float]] = field(default_factory=list)
    runs: list[tuple[int, float]] = field(default_factory=list)
    # Jobs of attempts that failed, and whether their code had run: then they are among the runs.
    failures: list[tuple[int, bool]] = field(default_factory=list)
    # How many attempts ended on a worker, by the state in which they did.
    ends: Counter[tuple[str, int]] = field(default_factory=Counter)
    expired: int = 0
    # Leases of placed work that its workers' answers have renewed.
    renewed: int = 0
    has_follow_ups: bool = False

    def add_ready(self, queue: str, task_id: TaskId) -> None:
        """Note a task that can be claimed from a queue now; the queue of placed work is empty."""
        self.ready.setdefault(queue, []).append(task_id)


@contextmanager
def after_commit() -> Iterator[None]:
    """Log what goes wrong in a block after a commit: to its caller it must not look undone."""
    try:
        yield
    except Exception:
        log.exception("what follows a commit broke off; what was written stays")
