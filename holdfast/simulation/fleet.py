"""The workers of a run: what they have, what of it is taken, and whether they are there."""

from holdfast.model.workers.resources import Capacity
from holdfast.rules.placement.booked import add_up
from holdfast.rules.placement.ports import PORTS_PER_HOST
from holdfast.rules.placement.snapshot import Shape, WorkerView
from holdfast.simulation.ledger import Lease
from holdfast.simulation.plan import Workers


class Worker:
    """One worker; `leases` are those that nobody has released."""

    def __init__(self, kind: Workers, number: int) -> None:
        self.kind = kind
        self.id = f"{kind.name}-{number}"
        self.leases: dict[Lease, Shape | None] = {}
        # Counted, since it may break in the middle of an outage of all of its kind.
        self.absences = 0
        self.away_since: float | None = None
        self.up_seconds = 0.0
        self._up_since = 0.0
        self._view: WorkerView | None = None

    @property
    def is_up(self) -> bool:
        """Whether it is there."""
        return not self.absences

    @property
    def free_slots(self) -> int:
        """How many tasks more it claims."""
        return max(self.kind.slots - len(self.leases), 0) if self.is_up else 0

    def take(self, lease: Lease, shape: Shape | None) -> None:
        """Book an attempt; a claimed task that names no resources takes a slot alone."""
        self.leases[lease] = shape
        self._view = None

    def release(self, lease: Lease) -> Shape | None:
        """Take an attempt out of the book."""
        self._view = None
        return self.leases.pop(lease)

    def note_change(self) -> None:
        """Have it looked at anew, since an attempt has started."""
        self._view = None

    def leave(self, now: float) -> bool:
        """Be away once more; true if it was there before."""
        self.absences += 1
        self._view = None
        if self.absences > 1:
            return False
        self.away_since = now
        self.up_seconds += now - self._up_since
        return True

    def come_back(self, now: float) -> bool:
        """Be away once less; true if it is there now."""
        self.absences -= 1
        self._view = None
        if self.absences:
            return False
        self._up_since, self.away_since = now, None
        return True

    def count_up_seconds(self, now: float) -> float:
        """Count for how long it was there in all."""
        return self.up_seconds + (now - self._up_since if self.is_up else 0.0)

    def view(self) -> WorkerView:
        """Show it as the scheduler reads it."""
        if self._view is None:
            used = self.count_used()
            ports = sum(shape.ports for shape in self.leases.values() if shape is not None)
            unstarted = sum(lease.started_at is None for lease in self.leases)
            why_not = None if self.is_up else "it is away"
            self._view = WorkerView(
                *(self.id, self.id, self.id, self.kind.capacity, self.kind.attributes, used),
                *(PORTS_PER_HOST - ports, unstarted, self.is_up, why_not),
            )
        return self._view

    def count_used(self) -> Capacity:
        """Add up what unreleased leases have booked."""
        booked = ((self.id, shape, 1) for shape in self.leases.values() if shape is not None)
        return add_up(booked)[self.id]


def make_fleet(kinds: list[Workers]) -> dict[str, Worker]:
    """Make all workers, by their ids."""
    made = [Worker(kind, number) for kind in kinds for number in range(1, kind.count + 1)]
    return {worker.id: worker for worker in made}
