"""Limits told plainly: what a task asks of them, who holds what, and what may start now.

It knows no lines behind limits: whoever may start is found by looking at all that wait, in order.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ModelLimit:
    """So many slots at once of each queue, type, owner or key, or of one of them alone."""

    scope: str
    most: int
    only_for: str | None = None


@dataclass(frozen=True)
class ModelTask:
    """A task by its number in line, and what it is limited by."""

    number: int
    type: str
    owner: str
    key: str
    slots: int = 1
    queue: str = "q"


@dataclass
class LimitModel:
    """Tasks that wait and tasks that run."""

    limits: dict[str, ModelLimit] = field(default_factory=dict)
    waiting: list[ModelTask] = field(default_factory=list)
    running: list[ModelTask] = field(default_factory=list)

    def held(self, name: str, value: str) -> int:
        """Count the slots of a limit that are held for a value."""
        limit = self.limits[name]
        return sum(task.slots for task in self.running if getattr(task, limit.scope) == value)

    def asks(self, task: ModelTask) -> list[tuple[str, str]]:
        """List the limits that a task meets, and for which value."""
        values = {name: getattr(task, limit.scope) for name, limit in self.limits.items()}
        return [
            (name, value)
            for name, value in values.items()
            if self.limits[name].only_for in (None, value)
        ]

    def has_room(self, task: ModelTask) -> bool:
        """Tell whether every limit has enough slots for a task."""
        return all(
            self.held(name, value) + task.slots <= self.limits[name].most
            for name, value in self.asks(task)
        )

    def is_possible(self, task: ModelTask) -> bool:
        """Tell whether a task may ever start."""
        return all(task.slots <= self.limits[name].most for name, _ in self.asks(task))

    def start(self, number: int) -> None:
        """Let a task start, which must have room."""
        [task] = [task for task in self.waiting if task.number == number]
        assert self.has_room(task), f"{task} exceeds a limit: {self.running}"
        self.waiting.remove(task)
        self.running.append(task)

    def end(self, number: int) -> None:
        """Let a task end."""
        self.running = [task for task in self.running if task.number != number]

    def forgotten(self) -> list[ModelTask]:
        """List who might start and is in nobody's way, if everybody has looked who wanted to.

        What takes several slots may keep some of them free for itself.
        """
        return [
            task
            for task in self.waiting
            if self.has_room(task)
            and not any(
                other.slots > 1
                and self.is_possible(other)
                and set(self.asks(other)) & set(self.asks(task))
                for other in self.waiting
                if other is not task
            )
        ]
