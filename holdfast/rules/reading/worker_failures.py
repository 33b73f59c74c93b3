"""Which workers fail so much more than the others that it is the machine, not the work."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

# So many attempts have to have ended, there and elsewhere, before anything is said.
FAILURES_MIN = 5
BAD_SHARE = 0.8
# Where the others fail as well, it is rather the work: then its type is what is to be looked at.
OTHERS_SHARE_MAX = 0.4


class Ends(Protocol):
    """How many attempts ended on a worker; those that were stopped say nothing of it."""

    @property
    def succeeded(self) -> int: ...

    @property
    def failed(self) -> int: ...

    @property
    def worker_failed(self) -> int: ...


class BadWorker(NamedTuple):
    """A worker that fails nearly all it touches, and how the others do, in numbers of attempts."""

    worker_id: str
    failures: int
    attempts: int
    others_share: float


def fails_nearly_all(ends: Ends) -> bool:
    """Tell whether a worker fails nearly all it touches, whoever is to blame."""
    failures = ends.failed + ends.worker_failed
    return failures >= FAILURES_MIN and failures >= BAD_SHARE * (failures + ends.succeeded)


def find_bad_workers(ends: Mapping[str, Ends]) -> list[BadWorker]:
    """Find the workers that fail nearly all they touch while the others do not."""
    counts = {
        worker_id: (
            each.failed + each.worker_failed,
            each.succeeded + each.failed + each.worker_failed,
        )
        for worker_id, each in ends.items()
    }
    bad = {worker_id for worker_id, each in ends.items() if fails_nearly_all(each)}
    others = [counts[worker_id] for worker_id in counts.keys() - bad]
    attempts = sum(each[1] for each in others)
    share = sum(each[0] for each in others) / max(attempts, 1)
    if attempts < FAILURES_MIN or share > OTHERS_SHARE_MAX:
        return []
    return [BadWorker(worker_id, *counts[worker_id], share) for worker_id in sorted(bad)]
