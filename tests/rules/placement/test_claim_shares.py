"""Which tasks in line go to which claims, by what they need."""

import pytest

from holdfast.model.workers.resources import Capacity, Resources
from holdfast.rules.placement.claim_shares import Asked, Slots, share_line

GB = 10**9
PLAIN = None


def cores(cpu: float) -> Resources:
    """Ask for cores alone."""
    return Resources(cpu=cpu)


def asks(tasks_max: int, free: float, whole: float) -> Asked:
    """Ask from where some of the cores are free."""
    return Asked(tasks_max, Capacity(cpu=free), Capacity(cpu=whole))


CASES: dict[str, tuple[list[Resources | None], list[Asked], list[int | None]]] = {
    "plain tasks are shared in order": (
        [PLAIN, PLAIN, PLAIN], [asks(1, 0, 0), asks(1, 0, 0)], [0, 1, None],
    ),
    "as many as fit": ([cores(1)] * 3, [asks(10, 2, 2)], [0, 0, None]),
    "fractions that fill it": ([cores(0.1)] * 11, [asks(20, 1, 1)], [0] * 10 + [None]),
    "one that waits for room is not overtaken by smaller ones": (
        [cores(2), cores(1)], [asks(10, 1, 2)], [None, None],
    ),
    "plain tasks overtake": ([cores(2), PLAIN], [asks(10, 1, 2)], [None, 0]),
    "one that never fits is passed over": ([cores(9), cores(1)], [asks(10, 1, 2)], [None, 0]),
    "another claim has room": ([cores(2), cores(2)], [asks(9, 1, 2), asks(9, 4, 4)], [1, 1]),
    "who has room goes on while another waits": (
        [cores(4), cores(1)], [asks(9, 1, 4), asks(9, 2, 2)], [None, 1],
    ),
    "without amounts everything fits": ([cores(99)], [Asked(1)], [0]),
    "no more than asked for": ([cores(1)] * 3, [asks(1, 8, 8)], [0, None, None]),
}  # fmt: skip


@pytest.mark.parametrize(("line", "asked", "owners"), CASES.values(), ids=CASES)
def test_tasks_go_where_they_fit(
    line: list[Resources | None], asked: list[Asked], owners: list[int | None]
) -> None:
    assert share_line(line, asked) == owners


@pytest.mark.parametrize(
    "need", [Resources(memory="2GB"), Resources(disk=2 * GB), Resources(memory=GB, disk=2 * GB)]
)
def test_memory_and_disk_count_as_cores_do(need: Resources) -> None:
    room = Capacity(cpu=9, memory=3 * GB, disk=3 * GB)
    assert share_line([need, need], [Asked(5, room, room)]) == [0, None]


def test_a_queue_gives_no_more_than_its_limits_let_start() -> None:
    line = [cores(1)] * 5
    slots = [Slots("a"), Slots("a", 2), Slots("a"), Slots("b"), Slots("free")]
    owners = share_line(line, [asks(9, 8, 8)], slots=slots, room={"a": 2, "b": 0})
    # The second task of `a` has the next turn there: none after it takes what it waits for.
    assert owners == [0, None, None, None, 0]
