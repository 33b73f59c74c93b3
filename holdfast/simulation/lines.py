"""What waits to be given out: ready tasks in line, those that are alike behind one another.

Tasks of one group want the same, ask the same limits and belong to the same share: if the first of
them cannot start, neither can those behind it, so that a pass looks at the first ones alone.
"""

from bisect import insort
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from holdfast.model.limits.shares import PLACED
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.rules.placement.snapshot import Shape, shape_of
from holdfast.simulation.buckets import BucketKey, Buckets
from holdfast.simulation.ledger import Job, Task

Waiting = tuple[datetime, TaskId, Task]


class GroupKey(NamedTuple):
    """What tasks of a group have in common; a gang is a group of its own."""

    queue: str
    priority: int
    share: str
    slots: int
    shape: Shape
    limits: tuple[BucketKey, ...]
    gang: int | None


class Group:
    """Tasks that are alike, in the order in which they came to stand in line."""

    __slots__ = ("key", "tasks")

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.tasks: list[Waiting] = []

    def add(self, task: Task) -> None:
        """Put a task in line."""
        insort(self.tasks, (task.eligible_at, task.id, task))

    def look(self, tasks_max: int) -> list[Task]:
        """List the first in line, without those that were cancelled."""
        found: list[Task] = []
        while len(found) < len(self.tasks) and len(found) < tasks_max:
            waiting = self.tasks[len(found)]
            if waiting[2].state == TaskState.PENDING:
                found.append(waiting[2])
            else:
                del self.tasks[len(found)]
        return found

    def remove(self, task: Task) -> None:
        """Take a task out of line; it is among the first."""
        self.tasks.remove((task.eligible_at, task.id, task))


class Lines:
    """All groups with something in line."""

    def __init__(self, buckets: Buckets, share_by: dict[str, str]) -> None:
        self._buckets = buckets
        self._share_by = share_by
        self._groups: dict[GroupKey, Group] = {}
        self._keys: dict[int, GroupKey] = {}

    def __iter__(self) -> Iterator[Group]:
        for key in list(self._groups):
            if self._groups[key].look(1):
                yield self._groups[key]
            else:
                del self._groups[key]

    def key_of(self, job: Job) -> GroupKey:
        """Tell to which group the tasks of a job belong."""
        if (key := self._keys.get(job.id)) is None:
            spec = job.spec
            queue = spec.queue or PLACED
            by, value = self._share_by.get(queue), ""
            if by in ("owner", "key"):
                value = str(spec.owner if by == "owner" else spec.concurrency_key or "")
            gang = job.id if job.terms.is_gang else None
            slots, limits = spec.slots or 1, self._buckets.find_keys(spec)
            shape = shape_of(spec)
            key = GroupKey(queue, job.terms.priority, value, slots, shape, limits, gang)
            self._keys[job.id] = key
        return key

    def add(self, task: Task) -> None:
        """Put a task in line."""
        key = self.key_of(task.job)
        if (group := self._groups.get(key)) is None:
            group = self._groups[key] = Group(key)
        group.add(task)

    def remove(self, tasks: Iterable[Task]) -> None:
        """Take tasks out of line that were given to a worker."""
        for task in tasks:
            self._groups[self.key_of(task.job)].remove(task)

    def forget(self, job: Job) -> None:
        """Forget a job that has ended."""
        self._keys.pop(job.id, None)
