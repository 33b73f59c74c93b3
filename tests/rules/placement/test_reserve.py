"""Which workers are kept for what does not fit: enough of them, the nearest, and the same again."""

from typing import Any

import numpy as np

from holdfast.model.workers.resources import Capacity, Constraint
from holdfast.rules.placement.reserve import choose_workers
from holdfast.rules.placement.room import Room
from holdfast.rules.placement.snapshot import Shape, WorkerView
from tests.rules.placement_builders import a_shape, a_worker

ALL = a_shape(cpu=8)


def busy(name: str, used: float, **changes: Any) -> WorkerView:
    return a_worker(name, used=Capacity(cpu=used), **changes)


def kept(
    workers: list[WorkerView], shape: Shape = ALL, members: int = 1, by: str | None = None
) -> list[str]:
    shape = shape._replace(group_by=by)
    room = Room(workers, [shape], 8)
    columns = choose_workers(room, room.need(shape), members)
    return sorted(room.workers[column].name for column in columns)


def test_one_task_gets_the_worker_with_most_free() -> None:
    assert kept([busy("w1", 6), busy("w2", 2), busy("w3", 4)]) == ["w2"]


def test_among_equals_the_first_is_kept() -> None:
    assert kept([busy("w3", 5), busy("w2", 5), busy("w1", 8)]) == ["w2"]


def test_a_worker_too_small_or_of_the_wrong_kind_is_not_kept() -> None:
    eu = a_shape(Constraint("region", "=", "eu"), cpu=8)
    workers = [
        busy("w1", 0, cpu=4, attributes={"region": "eu"}),
        busy("w2", 1),
        busy("w3", 7, attributes={"region": "eu"}),
        busy("w4", 1, attributes={"region": "eu"}, accepts=False),
    ]
    assert kept(workers, eu) == ["w3"]
    assert kept(workers[:2], eu) == []
    assert kept([], eu) == []


def test_what_could_never_fit_keeps_nobody() -> None:
    assert kept([busy("w1", 0), busy("w2", 4)], a_shape(cpu=9)) == []
    assert kept([busy("w1", 0), busy("w2", 4)], ALL, members=3) == []


def test_a_gang_keeps_what_it_has_and_the_nearest_of_the_others() -> None:
    workers = [busy("w1", 8), busy("w2", 0), busy("w3", 3), busy("w4", 5)]
    assert kept(workers, ALL, members=2) == ["w2", "w3"]
    assert kept(workers, ALL, members=3) == ["w2", "w3", "w4"]


def test_a_gang_of_small_members_keeps_every_free_place() -> None:
    workers = [busy("w1", 7), busy("w2", 8), busy("w3", 6)]
    assert kept(workers, a_shape(cpu=1), members=8) == ["w1", "w3"]


def test_a_gang_by_group_keeps_the_group_that_has_most() -> None:
    workers = [
        busy("w1", 4, attributes={"rack": 1}),
        busy("w2", 4, attributes={"rack": 1}),
        busy("w3", 0, attributes={"rack": 2}),
        busy("w4", 7, attributes={"rack": 2}),
        busy("w5", 0, attributes={"rack": 3}),
    ]
    assert kept(workers, ALL, members=2, by="rack") == ["w3", "w4"]
    assert kept(workers[:3], ALL, members=2, by="rack") == ["w1", "w2"]


def test_the_choice_stays_while_they_drain() -> None:
    used = {"w1": 8, "w2": 5, "w3": 8, "w4": 4}
    choices = []
    for step in range(5):
        choices.append(kept([busy(name, cpu) for name, cpu in used.items()], ALL, members=2))
        # The kept ones drain, the others come and go below them.
        used["w4"] = max(0, used["w4"] - 1)
        used["w2"] = max(0, used["w2"] - 1)
        used["w1"] = 8 - step % 3
    assert choices == [["w2", "w4"]] * 5


def test_slots_and_ports_are_waited_for_as_well() -> None:
    full = a_worker("w1", unstarted=8)
    assert kept([full, busy("w2", 4)], ALL) == ["w2"]
    assert kept([full], ALL) == ["w1"]
    shape = a_shape(cpu=8, ports=2)
    assert kept([a_worker("w1", ports_free=1)], shape) == ["w1"]


def test_room_that_a_neighbour_on_the_host_will_use_is_no_room() -> None:
    shape = a_shape(cpu=4, ports=1)
    workers = [a_worker("w1", host="h", ports_free=1), a_worker("w2", host="h", ports_free=1),
               a_worker("w3")]  # fmt: skip
    assert kept(workers, shape, members=4) == ["w1", "w3"]


def test_kept_workers_are_not_kept_twice() -> None:
    room = Room([busy("w1", 4), busy("w2", 6)], [ALL], 8)
    need = room.need(ALL)
    for name in ("w1", "w2"):
        columns = choose_workers(room, need, 1)
        assert [room.workers[column].name for column in columns] == [name]
        room.keep(columns, 7)
    assert np.array_equal(room.kept_for, [7, 7])
    assert choose_workers(room, need, 1).size == 0
