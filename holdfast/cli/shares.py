"""What each worker of `up` has to give of the machine that they share."""

from collections.abc import Sequence

from holdfast.cli.output.text import decimal, size
from holdfast.model.workers.resources import Capacity


def share_machine(whole: Capacity, count: int) -> list[Capacity]:
    """Decide what each of several workers has to give, so that nothing is given twice.

    Cores are dealt one by one, since a task of one core has to fit somewhere: where there are more
    workers than cores, the last ones have nothing to give. GPUs are left to the first one.
    """
    cores = max(int(whole.cpu), 1)
    givers = min(count, cores)
    shares = [
        Capacity(
            cpu=float(cores // givers + (rank < cores % givers)),
            memory=whole.memory // givers,
            disk=whole.disk // givers,
        )
        for rank in range(givers)
    ]
    return shares + [Capacity()] * (count - givers)


def describe_shares(shares: Sequence[Capacity]) -> str:
    """Say what workers have to give."""
    cores = [decimal(share.cpu) for share in shares]
    memory, each = size(shares[0].memory), "" if len(shares) == 1 else " each"
    if len(set(cores)) == 1:
        return f"with {cores[0]} cpu and {memory}{each}"
    if not shares[-1].cpu:
        each = f" for each of the first {sum(share.cpu > 0 for share in shares)}"
    return f"with {', '.join(cores)} cpu and {memory}{each}"


def find_idle(shares: Sequence[Capacity]) -> str | None:
    """Warn of workers that have nothing to give; None if there are none."""
    cores, count = sum(share.cpu > 0 for share in shares), len(shares)
    if cores == count:
        return None
    return (
        f"this machine has fewer cores ({cores}) than workers ({count}); the last ones run only "
        "tasks of queues that name no resources. Tasks that name some run as well with --workers "
        f"{cores}"
    )
