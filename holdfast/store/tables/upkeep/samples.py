"""What servers count, step by step: each adds to one row per length of step."""

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from holdfast.rules.quantiles import RANGES
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_SAMPLES = load_statements("upkeep/samples")
STEPS = (10, 60, 300, 1800)
STEPS_KEPT = 400
TYPES_KEPT = timedelta(hours=2)
WORKERS_KEPT = timedelta(hours=2)


class Counts(NamedTuple):
    """How many tasks came in, ended in a state, or were sent back for another attempt.

    An end is counted once: that of a task which became a dead letter is in no other number.
    """

    submitted: int = 0
    succeeded: int = 0
    failed: int = 0
    killed: int = 0
    worker_failed: int = 0
    unschedulable: int = 0
    dead_lettered: int = 0
    retried: int = 0


class WorkerEnds(NamedTuple):
    """How many attempts ended on a worker, by how they did."""

    succeeded: int = 0
    failed: int = 0
    worker_failed: int = 0
    killed: int = 0


@dataclass(slots=True)
class TypeTally:
    """What one server counts of a type: attempts, failures, and how long they waited and ran."""

    attempts: int = 0
    failures: int = 0
    waits: list[int] = field(default_factory=lambda: [0] * RANGES)
    runs: list[int] = field(default_factory=lambda: [0] * RANGES)

    def add(self, other: "TypeTally") -> None:
        """Add what another has counted."""
        self.attempts += other.attempts
        self.failures += other.failures
        self.waits = _sum(self.waits, other.waits)
        self.runs = _sum(self.runs, other.runs)


@dataclass(slots=True)
class Tally:
    """What one server counts between two writes."""

    counts: list[int] = field(default_factory=lambda: [0] * len(Counts._fields))
    waits: list[int] = field(default_factory=lambda: [0] * RANGES)
    types: dict[str, TypeTally] = field(default_factory=dict)
    # By worker and name of the outcome.
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)

    def of_type(self, name: str) -> TypeTally:
        """Find what is counted of a type."""
        found = self.types.get(name)
        if found is None:
            found = self.types[name] = TypeTally()
        return found

    def add(self, other: "Tally") -> None:
        """Add what another has counted."""
        self.counts = _sum(self.counts, other.counts)
        self.waits = _sum(self.waits, other.waits)
        for name, tally in other.types.items():
            self.of_type(name).add(tally)
        self.ends.update(other.ends)


def _sum(some: list[int], more: list[int]) -> list[int]:
    return [a + b for a, b in zip(some, more, strict=True)]


async def add_sample(
    tx: Transaction, server_id: str, tally: Tally, *, depth: int, running: int
) -> None:
    """Add what a server has counted, and what it sees of the ledger, to the steps of now."""
    await tx.fetch(
        _SAMPLES["add_samples"],
        steps=list(STEPS),
        server_id=server_id,
        **Counts(*tally.counts)._asdict(),
        waits=tally.waits,
        depth=depth,
        running=running,
    )
    if tally.types:
        names, of_types = zip(*sorted(tally.types.items()), strict=True)
        await tx.fetch(
            _SAMPLES["add_type_samples"],
            server_id=server_id,
            types=names,
            attempts=[each.attempts for each in of_types],
            failures=[each.failures for each in of_types],
            waits=[json.dumps(each.waits) for each in of_types],
            runs=[json.dumps(each.runs) for each in of_types],
        )
    if tally.ends:
        worker_ids = sorted({worker_id for worker_id, _ in tally.ends})
        await tx.fetch(
            _SAMPLES["add_worker_samples"],
            server_id=server_id,
            worker_ids=worker_ids,
            **{
                outcome: [tally.ends[worker_id, outcome] for worker_id in worker_ids]
                for outcome in WorkerEnds._fields
            },
        )


async def prune_samples(tx: Transaction, *, batch_max: int) -> int:
    """Forget a batch of what no chart shows any more; returns how many rows went."""
    steps = await tx.fetch(_SAMPLES["prune_samples"], steps_kept=STEPS_KEPT, batch_max=batch_max)
    types = await tx.fetch(
        _SAMPLES["prune_type_samples"], older_than=TYPES_KEPT, batch_max=batch_max
    )
    workers = await tx.fetch(
        _SAMPLES["prune_worker_samples"], older_than=WORKERS_KEPT, batch_max=batch_max
    )
    return len(steps) + len(types) + len(workers)
