"""What each profile runs: who claims, who is called, what stands around Postgres, which work."""

from typing import NamedTuple

from chaos.faults.plan import WORKERS

QUEUE_WORK = ("some", "slow", "apart", "graph", "saga", "stored", "cancel")
LATER_WORK = ("paid", "limited", "alone", "chained", "overdue")
PLACED_WORK = ("placed", "device", "gang")
DEVICES = 2


class Layout(NamedTuple):
    """The shape of a system."""

    # Workers that claim from the queue, and those that are called; one may be both.
    claiming: tuple[str, ...]
    called: tuple[str, ...]
    work: tuple[str, ...]
    has_standby: bool = False
    has_pooler: bool = False
    has_sqs: bool = False
    # Everything begins as the version before this one.
    upgrades: bool = False

    @property
    def workers(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(name for name in WORKERS if name in self.claiming or name in self.called)

    @property
    def has_later_work(self) -> bool:
        """Whether there is work that the version before this one did not know."""
        return any(kind in LATER_WORK for kind in self.work)


LAYOUTS = {
    "queue": Layout(WORKERS, (), QUEUE_WORK + LATER_WORK),
    "cluster": Layout((), WORKERS, (*PLACED_WORK, "cancel"), has_standby=True),
    "mixed": Layout(
        WORKERS[:4],
        WORKERS[3:],
        QUEUE_WORK + LATER_WORK + PLACED_WORK,
        has_pooler=True,
        has_sqs=True,
    ),
    "upgrade": Layout(WORKERS[:4], WORKERS[4:], (*QUEUE_WORK, "placed"), upgrades=True),
}
