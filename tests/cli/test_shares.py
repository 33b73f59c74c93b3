"""What workers of one machine have to give: all of it, and nothing twice."""

import pytest

from holdfast.cli.shares import describe_shares, find_idle, share_machine
from holdfast.model.workers.resources import Capacity

WHOLE = Capacity(8, 64 * 10**9, 10**12, 2, "H100")


@pytest.mark.parametrize(
    ("count", "cpus"),
    [(1, [8]), (3, [3, 3, 2]), (8, [1] * 8), (10, [1] * 8 + [0] * 2)],
)
def test_workers_share_the_machine_and_give_nothing_twice(count: int, cpus: list[int]) -> None:
    shares = share_machine(WHOLE, count)
    assert [share.cpu for share in shares] == cpus
    assert not any(share.gpu for share in shares)
    givers = sum(cpu > 0 for cpu in cpus)
    for amount, whole in (("memory", WHOLE.memory), ("disk", WHOLE.disk)):
        given = [getattr(share, amount) for share in shares]
        assert sum(given) <= whole < sum(given) + givers
        assert [each > 0 for each in given] == [cpu > 0 for cpu in cpus]


def test_without_workers_nothing_is_shared() -> None:
    assert share_machine(WHOLE, 0) == []
    assert find_idle([]) is None


def test_a_task_of_one_core_fits_somewhere_however_small_the_machine_is() -> None:
    assert [share.cpu for share in share_machine(Capacity(cpu=0.5), 2)] == [1, 0]


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "with 8 cpu and 64GB"),
        (2, "with 4 cpu and 32GB each"),
        (3, "with 3, 3, 2 cpu and 21.3GB each"),
        (9, "with 1, 1, 1, 1, 1, 1, 1, 1, 0 cpu and 8GB for each of the first 8"),
    ],
)
def test_shares_are_told(count: int, said: str) -> None:
    assert describe_shares(share_machine(WHOLE, count)) == said


def test_workers_without_a_core_are_warned_of() -> None:
    assert find_idle(share_machine(WHOLE, 8)) is None
    warning = find_idle(share_machine(WHOLE, 10))
    assert warning is not None
    assert warning.startswith("this machine has fewer cores (8) than workers (10)")
    assert warning.endswith("--workers 8")
