"""The room of workers as arrays: what fits where, in which order, and shared ports."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from holdfast.model.workers.resources import Capacity, Constraint
from holdfast.rules.placement.room import SLOTS, Room, Taken, count_fits, sum_by_group
from holdfast.rules.placement.snapshot import Shape, WorkerView
from tests.rules.placement_builders import GB, a_shape, a_worker


def a_room(workers: Iterable[WorkerView], *shapes: Shape, unstarted_max: int = 8) -> Room:
    return Room(workers, shapes or (a_shape(),), unstarted_max)


def named(room: Room, taken: Taken) -> dict[str, int]:
    return {room.workers[column].name: tasks for column, tasks in taken}


def take(room: Room, shape: Shape, count: int, avoid: str | None = None) -> dict[str, int]:
    return named(room, room.take_first(room.need(shape), count, avoid))


def gang(
    room: Room, shape: Shape, members: int, *, avoid: str | None = None, by: str | None = None
) -> dict[str, int]:
    taken = room.take_gang(room.need(shape._replace(group_by=by)), members, avoid=avoid)
    return named(room, taken)


def test_workers_with_fewer_gpus_are_filled_first_then_by_name() -> None:
    workers = [a_worker("a", gpu=2), a_worker("c"), a_worker("b"), a_worker("d", gpu=1)]
    room = a_room(workers)
    assert take(room, a_shape(), 18) == {"b": 8, "c": 8, "d": 2}


def test_the_scarcest_amount_says_how_many_fit() -> None:
    shape = a_shape(cpu=1, memory=10 * GB, gpu=1)
    room = a_room([a_worker("w1", gpu=8), a_worker("w2", gpu=2)], shape)
    assert take(room, shape, 9) == {"w1": 3, "w2": 2}


def test_what_is_used_and_not_started_is_taken_off() -> None:
    used = Capacity(cpu=3, memory=0)
    room = a_room([a_worker("w1", used=used), a_worker("w2", unstarted=6)])
    assert take(room, a_shape(), 20) == {"w1": 5, "w2": 2}


def test_what_is_overbooked_bars_only_those_who_need_it() -> None:
    room = a_room([a_worker(used=Capacity(cpu=9.0, memory=64 * GB))], a_shape(cpu=0), a_shape())
    assert take(room, a_shape(), 1) == {}
    assert take(room, a_shape(cpu=0), 20) == {"w1": 8}


def test_thousandths_of_a_cpu_add_up() -> None:
    shape = a_shape(cpu=0.1)
    room = a_room([a_worker(cpu=0.3)], shape)
    assert take(room, shape, 5) == {"w1": 3}
    room = a_room([a_worker(cpu=0.3, used=Capacity(cpu=0.1 + 0.2))], shape)
    assert take(room, shape, 5) == {}


def test_a_need_below_a_thousandth_is_rounded_up() -> None:
    shape = a_shape(cpu=0.3334)
    assert take(a_room([a_worker(cpu=1.0)], shape), shape, 5) == {"w1": 2}


def test_amounts_beyond_all_bounds_are_cut_short() -> None:
    shape = a_shape(memory=10**30)
    room = a_room([a_worker(cpu=1e300, disk=10**18), a_worker("w2", memory=10**17)], shape)
    assert take(room, shape, 1) == {}


def test_a_model_is_asked_for_by_its_name() -> None:
    shape = a_shape(gpu=1, gpu_model="H100")
    workers = [a_worker("w1", gpu=4, gpu_model="A100"), a_worker("w2", gpu=4, gpu_model="H100")]
    assert take(a_room(workers, shape), shape, 9) == {"w2": 4}


def test_constraints_choose_workers_and_missing_attributes_count() -> None:
    shape = a_shape(Constraint("region", "!=", "us"), Constraint("gb", ">=", 40))
    workers = [
        a_worker("w1", attributes={"region": "us", "gb": 80}),
        a_worker("w2", attributes={"gb": "80"}),
        a_worker("w3", attributes={"region": "eu", "gb": 24}),
        a_worker("w4", attributes={"region": "eu", "gb": 40.0}),
    ]
    assert take(a_room(workers, shape), shape, 99) == {"w2": 8, "w4": 8}


def test_an_avoided_worker_comes_last_and_only_if_nothing_else_fits() -> None:
    room = a_room([a_worker("w1"), a_worker("w2", cpu=2)])
    assert take(room, a_shape(), 2, "w1") == {"w2": 2}
    assert take(room, a_shape(), 2, "w1") == {"w1": 2}
    assert take(room, a_shape(), 1, "nobody") == {"w1": 1}


def test_workers_of_one_host_share_its_ports() -> None:
    shape = a_shape(ports=2)
    workers = [
        a_worker("w1", host="h", ports_free=7, cpu=2),
        a_worker("w2", host="h", ports_free=7),
        a_worker("w3", ports_free=3),
    ]
    assert take(a_room(workers, shape), shape, 99) == {"w1": 2, "w2": 1, "w3": 1}
    room = a_room(workers, shape)
    assert [take(room, shape, 1) for _ in range(5)] == [
        {"w1": 1}, {"w1": 1}, {"w2": 1}, {"w3": 1}, {},
    ]  # fmt: skip


def test_ports_of_a_host_are_shared_within_a_group_and_counted_for_each() -> None:
    shape = a_shape(ports=1, group_by="rack")
    workers = [
        a_worker("w1", host="h", ports_free=3, attributes={"rack": 1}),
        a_worker("w2", host="h", ports_free=3, attributes={"rack": 2}, cpu=2),
        a_worker("w3", attributes={"rack": 2}, cpu=1),
    ]
    assert gang(a_room(workers, shape), shape, 3, by="rack") == {"w1": 3}
    assert gang(a_room(workers[1:], shape), shape, 3, by="rack") == {"w2": 2, "w3": 1}
    assert gang(a_room(workers, shape), shape, 4, by="rack") == {}
    workers[0] = a_worker("w1", host="h", ports_free=2, attributes={"rack": 1}, cpu=1)
    assert gang(a_room(workers, shape), shape, 3, by="rack") == {"w2": 2, "w3": 1}


def test_a_gang_gets_room_for_all_or_none() -> None:
    room = a_room([a_worker("w1", cpu=3), a_worker("w2", cpu=2)])
    assert gang(room, a_shape(), 6) == {}
    assert gang(room, a_shape(), 5) == {"w1": 3, "w2": 2}


def test_a_gang_by_group_goes_where_least_is_left_over() -> None:
    shape = a_shape(group_by="rack")
    workers = [
        a_worker("w1", attributes={"rack": "a"}),
        a_worker("w2", attributes={"rack": "b"}, cpu=3),
        a_worker("w3", attributes={"rack": "b"}, cpu=2),
        a_worker("w4", attributes={}, cpu=4),
    ]
    assert gang(a_room(workers, shape), shape, 4, by="rack") == {"w2": 3, "w3": 1}
    assert gang(a_room(workers, shape), shape, 6, by="rack") == {"w1": 6}
    assert gang(a_room(workers, shape), shape, 9, by="rack") == {}


def on_hosts(*hosts: str, **attributes: str) -> list[WorkerView]:
    """Make workers w0, w1, ... of three cores, each on a host."""
    return [
        a_worker(f"w{n}", host=host, cpu=3, attributes=attributes) for n, host in enumerate(hosts)
    ]


@pytest.mark.parametrize(
    ("layout", "members", "expected"),
    [
        (None, 4, {"w0": 3, "w1": 1}),
        ("spread", 2, {"w0": 1, "w2": 1}),
        ("spread", 3, {"w0": 1, "w2": 1, "w3": 1}),
        ("spread", 4, {}),
        ("pack", 3, {"w2": 3}),
        ("pack", 6, {"w0": 3, "w1": 3}),
        ("pack", 7, {}),
    ],
)
def test_a_gang_is_spread_over_hosts_or_packed_on_one(
    layout: Any, members: int, expected: dict[str, int]
) -> None:
    shape = a_shape(hosts=layout)
    assert gang(a_room(on_hosts("a", "a", "b", "c"), shape), shape, members) == expected


def test_hosts_are_chosen_within_a_group() -> None:
    workers = on_hosts("a", "b", rack="r1") + on_hosts("c", "c", rack="r2")
    workers = [view._replace(name=f"{view.name}-{view.host}") for view in workers]
    spread = a_shape(hosts="spread", group_by="rack")
    assert gang(a_room(workers, spread), spread, 2, by="rack") == {"w0-a": 1, "w1-b": 1}
    assert gang(a_room(workers, spread), spread, 3, by="rack") == {}
    pack = a_shape(hosts="pack", group_by="rack")
    assert gang(a_room(workers, pack), pack, 4, by="rack") == {"w0-c": 3, "w1-c": 1}
    # Worked out once, however many gangs stand in line.
    room = a_room(workers, pack)
    assert room.need(pack).groups is room.need(pack).groups


def test_a_gang_avoids_a_worker_where_it_can() -> None:
    room = a_room([a_worker("w1"), a_worker("w2", cpu=4)])
    assert gang(room, a_shape(), 4, avoid="w1") == {"w2": 4}
    assert gang(room, a_shape(), 4, avoid="w2") == {"w1": 4}
    room = a_room([a_worker("w1"), a_worker("w2", cpu=4)])
    assert gang(room, a_shape(), 6, avoid="w1") == {"w2": 4, "w1": 2}


def test_seven_is_seven_but_true_is_not_one() -> None:
    attributes = [7, 7.0, "7", True, 1]
    workers = [a_worker(f"w{n}", attributes={"rack": each}) for n, each in enumerate(attributes)]
    workers.append(a_worker("w9"))
    assert a_room(workers).group("rack").tolist() == [0, 0, 1, 2, 3, -1]
    assert a_room(workers).group(None).tolist() == [0] * 6


def test_kept_workers_are_closed_and_remembered() -> None:
    room = a_room([a_worker("w1"), a_worker("w2")])
    room.keep(np.array([0]), 42)
    assert room.kept_for.tolist() == [42, -1]
    assert take(room, a_shape(), 99) == {"w2": 8}


def test_slots_can_be_left_out_of_account() -> None:
    room = a_room([a_worker(unstarted=8)])
    columns = np.array([0])
    assert room.fits(room.need(a_shape()), columns).tolist() == [0]
    assert room.fits(room.need(a_shape()), columns, slots=False).tolist() == [8]
    assert count_fits(room.total, room.need(a_shape()), columns).tolist() == [8]
    assert room.free[SLOTS, 0] == 0


@pytest.mark.parametrize("count", [1, 300, 5000])
def test_a_search_over_thousands_of_workers_leaves_nobody_out(count: int) -> None:
    workers = [a_worker(f"w{n:04}", cpu=1 + n % 3) for n in range(2000)]
    room = a_room(workers, a_shape(), a_shape(cpu=3))
    first = take(room, a_shape(cpu=3), 100)
    assert list(first) == [f"w{n:04}" for n in range(2, 302, 3)]
    total = 0
    for _ in range(20):
        taken = take(room, a_shape(), count)
        assert list(taken) == sorted(taken)
        total += sum(taken.values())
    assert total == min(20 * count, sum(1 + n % 3 for n in range(2000)) - 300)


def test_sums_by_group_leave_out_those_without() -> None:
    fits, groups = np.array([1, 2, 3, 4]), np.array([1, 0, -1, 1])
    assert sum_by_group(fits, groups).tolist() == [2, 5]
    assert sum_by_group(fits[:0], groups[:0]).tolist() == []
