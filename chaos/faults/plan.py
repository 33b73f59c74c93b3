"""What breaks when: drawn from a seed alone, so that it can be printed, and had again.

Every kind of fault of a profile comes once before any comes twice, in a random order, and faults
overlap. What breaks here is said by name; `chaos.faults.hands` knows what the names stand for.
"""

import random
from dataclasses import dataclass
from typing import NamedTuple

SERVERS = ("server-1", "server-2")
WORKERS = tuple(f"worker-{number}" for number in range(1, 7))
# The time between the beginnings of two faults.
PAUSE_SECONDS = (0.4, 1.6)
# Before the first: something has to be under way.
LEAD_SECONDS = 1.0

LINKS = (
    *(f"{server} to postgres" for server in SERVERS),
    *(f"{worker} to servers" for worker in WORKERS),
    "customers to servers",
)


SQS_LINKS = ("servers to sqs", "workers to sqs")


def calls_of(workers: tuple[str, ...]) -> tuple[str, ...]:
    """Name the links by which servers call workers."""
    return tuple(f"servers to {worker}" for worker in workers)


# Beyond ten seconds forward the reaper takes it for an outage, and leaves leases alone for a while.
JUMPS = (-300.0, -20.0, -5.0, -1.0, 1.0, 3.0, 5.0, 8.0, 300.0)


class Kind(NamedTuple):
    """A kind of fault: whom it may befall, how long it lasts, and how hard it may be."""

    name: str
    targets: tuple[str, ...]
    seconds: tuple[float, float] = (0.0, 0.0)
    amounts: tuple[float, ...] = (0.0,)


@dataclass(frozen=True)
class Fault:
    """One fault: when it begins, counted from the first piece of work, and how long it lasts."""

    at: float
    kind: str
    target: str
    seconds: float = 0.0
    amount: float = 0.0

    def __str__(self) -> str:
        """Write it as a line of a plan."""
        lasts = f" for {self.seconds:.2f} s" if self.seconds else ""
        amount = f" ({self.amount:g})" if self.amount else ""
        return f"{self.at:7.2f}  {self.kind} {self.target}{lasts}{amount}"


def _link_faults(links: tuple[str, ...]) -> tuple[Kind, ...]:
    return (
        Kind("link delays", links, (0.5, 3.0), (0.05, 0.3, 1.0)),
        # Some last longer than a lease, so that others take over meanwhile.
        Kind("link cut", links, (0.5, 10.0)),
        Kind("link cut in a message", links, (0.5, 3.0), (1.0, 60.0, 700.0, 5000.0)),
        Kind("link half open", links, (0.5, 10.0)),
        Kind("link loses requests", links, (0.5, 10.0)),
        Kind("link loses answers", links, (0.5, 10.0)),
        Kind("link slow", links, (0.5, 3.0), (2_000.0, 20_000.0)),
    )


PROCESSES = (
    Kind("server killed", SERVERS),
    Kind("server stopped", SERVERS, (0.5, 5.0)),
    Kind("worker killed", WORKERS),
    Kind("worker's supervisor killed", WORKERS),
    Kind("worker stopped", WORKERS, (0.5, 8.0)),
    Kind("host dead", WORKERS),
    Kind("host frozen", WORKERS, (0.5, 8.0)),
    Kind("disk full", WORKERS, (1.0, 6.0)),
)
DATABASE = (
    Kind("postgres crashed", ("postgres",)),
    Kind("postgres stopped", ("postgres",), (0.5, 3.0)),
    Kind("connections used up", ("postgres",), (0.5, 3.0)),
    Kind("horizon pinned", ("postgres",), (2.0, 8.0)),
    Kind("rows locked", ("postgres",), (0.3, 2.0)),
    Kind("clock jumps", ("postgres",), (0.0, 0.0), JUMPS),
)
CALLERS = (
    Kind("retry storm", ("customers",), (0.0, 0.0), (50.0, 200.0)),
    Kind("everything cancelled", ("customers",)),
)
# What the version before this one may not know.
DRAINED = (Kind("worker drained", WORKERS),)
FAILOVER = (Kind("postgres fails over", ("postgres",)),)
AROUND = (
    Kind("pooler killed", ("pooler",)),
    Kind("sqs killed", ("sqs",)),
    Kind("sqs repeats messages", ("sqs",)),
    Kind("sqs loses messages", ("sqs",)),
)
VERSIONS = (
    Kind("server changes version", SERVERS),
    Kind("worker changes version", WORKERS),
)
QUEUE = (*PROCESSES, *DATABASE, *CALLERS, *DRAINED)


def _reused(workers: tuple[str, ...]) -> tuple[Kind, ...]:
    return (Kind("address reused", workers),)


PROFILES: dict[str, tuple[Kind, ...]] = {
    "queue": (*QUEUE, *_link_faults(LINKS)),
    "cluster": (*QUEUE, *FAILOVER, *_reused(WORKERS), *_link_faults((*LINKS, *calls_of(WORKERS)))),
    "mixed": (
        *QUEUE,
        *AROUND,
        *_reused(WORKERS[3:]),
        *_link_faults((*LINKS, *calls_of(WORKERS[3:]), *SQS_LINKS)),
    ),
    # A migration sets the clock right, so it is left alone there; versions change most often.
    "upgrade": (*PROCESSES, *DATABASE[:-1], *CALLERS, *VERSIONS * 3, *_link_faults(LINKS)),
}


def draw(seed: int, profile: str, seconds: float) -> tuple[Fault, ...]:
    """Draw the faults of a run: the same for the same seed, profile and time."""
    chance = random.Random(f"{profile} {seed}")
    kinds = PROFILES[profile]
    faults: list[Fault] = []
    at = LEAD_SECONDS
    turn: list[Kind] = []
    while at < seconds:
        turn = turn or chance.sample(kinds, len(kinds))
        kind = turn.pop()
        fault = Fault(
            round(at, 2),
            kind.name,
            chance.choice(kind.targets),
            round(chance.uniform(*kind.seconds), 2),
            chance.choice(kind.amounts),
        )
        faults.append(fault)
        at += chance.uniform(*PAUSE_SECONDS)
    return tuple(faults)
