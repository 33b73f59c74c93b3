"""What a transaction has to tell the rest of its server, once it has committed."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from typing import NamedTuple

from holdfast.model.work.ids import TaskId
from holdfast.store.specs import StoredSpec


class StoredJob(NamedTuple):
    """A job that was stored, and how many of its tasks can be claimed or placed now: the first.

    Those that count as submitted are all its tasks; of a compensation, which nobody submits, none.
    Of jobs that wait for others of their graph the spec is left out: it is read when they start.
    What was given to a poller as it was stored is not among those that can be claimed.
    """

    job_id: int
    submitted: int
    ready: int
    spec: StoredSpec | None
    given: frozenset[int] = frozenset()

    def name_ready(self, tasks_max: int) -> list[TaskId]:
        """Name the tasks that can be claimed, as far as so many."""
        indexes = (index for index in count() if index not in self.given)
        return [TaskId(self.job_id, index) for index in islice(indexes, min(self.ready, tasks_max))]


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
    # How many attempts ended on a worker, by the state in which they did: those that say something
    # of it. And how many, by state, since their code goes on later: for a signal, or at its time.
    ends: Counter[tuple[str, int]] = field(default_factory=Counter)
    pauses: Counter[int] = field(default_factory=Counter)
    # How many of the ended attempts have asked for a later one.
    put_off: int = 0
    expired: int = 0
    # Leases of placed work that its workers' answers have renewed.
    renewed: int = 0
    has_follow_ups: bool = False
    # For how many tasks a queue's own limit has room again; in how many seconds a rate lets more
    # of a queue go.
    roomy_queues: Counter[str] = field(default_factory=Counter)
    openings: list[tuple[str, float]] = field(default_factory=list)
    # How many tasks were put behind a limit.
    num_gated: int = 0
    # Instants of schedules that were decided: with which outcome, and how many seconds after them,
    # unless that was by hand.
    firings: list[tuple[str, float | None]] = field(default_factory=list)
    missed_firings: int = 0

    def add_opened(self, queue: str, job_id: int | None, index: int | None) -> None:
        """Note a task that a limit lets back into line; without one, a queue that may go on."""
        if job_id is None or index is None:
            self.roomy_queues[queue] += 1
        else:
            self.add_ready(queue, TaskId(job_id, index))

    def add_all_opened(
        self,
        queues: Sequence[str] | None,
        job_ids: Sequence[int | None] | None,
        indexes: Sequence[int | None] | None,
        *,
        claimed: Set[tuple[int, int]] = frozenset(),
    ) -> None:
        """Note what a statement has opened, in columns, but for what was claimed at once."""
        for queue, job_id, index in zip(queues or (), job_ids or (), indexes or (), strict=True):
            if (job_id, index) not in claimed:
                self.add_opened(queue, job_id, index)

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
