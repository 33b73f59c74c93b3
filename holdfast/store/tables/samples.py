"""What servers count, step by step: each adds to one row per length of step."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from holdfast.rules.quantiles import RANGES
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_SAMPLES = load_statements("samples")
STEPS = (10, 60, 300, 1800)
STEPS_KEPT = 400
TYPES_KEPT = timedelta(hours=2)


class Counts(NamedTuple):
    """How many tasks came in, moved to a state, or were sent back for another attempt."""

    submitted: int = 0
    succeeded: int = 0
    failed: int = 0
    killed: int = 0
    worker_failed: int = 0
    unschedulable: int = 0
    dead_lettered: int = 0
    retried: int = 0


@dataclass(slots=True)
class Tally:
    """What one server counts between two writes; of types the attempts and the failures."""

    counts: list[int] = field(default_factory=lambda: [0] * len(Counts._fields))
    waits: list[int] = field(default_factory=lambda: [0] * RANGES)
    types: dict[str, list[int]] = field(default_factory=dict)

    def add(self, other: "Tally") -> None:
        """Add what another has counted."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.waits = [a + b for a, b in zip(self.waits, other.waits, strict=True)]
        for name, (attempts, failures) in other.types.items():
            mine = self.types.setdefault(name, [0, 0])
            mine[0] += attempts
            mine[1] += failures


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
        names = sorted(tally.types)
        await tx.fetch(
            _SAMPLES["add_type_samples"],
            server_id=server_id,
            types=names,
            attempts=[tally.types[name][0] for name in names],
            failures=[tally.types[name][1] for name in names],
        )


async def prune_samples(tx: Transaction, *, batch_max: int) -> int:
    """Forget a batch of what no chart shows any more; returns how many rows went."""
    steps = await tx.fetch(_SAMPLES["prune_samples"], steps_kept=STEPS_KEPT, batch_max=batch_max)
    types = await tx.fetch(
        _SAMPLES["prune_type_samples"], older_than=TYPES_KEPT, batch_max=batch_max
    )
    return len(steps) + len(types)
