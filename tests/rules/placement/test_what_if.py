"""What would be if: amounts and workers that are supposed to be others, and nothing else."""

from typing import Any

import pytest

from holdfast.errors import Invalid
from holdfast.model.workers.resources import Capacity
from holdfast.rules.placement.scheduler import explain
from holdfast.rules.placement.what_if import (
    WhatIf,
    apply_to_demands,
    apply_to_workers,
    describe,
    suppose,
)
from tests.rules.placement_builders import GB, NOW, a_demand, a_shape, a_worker

NOTHING: dict[str, Any] = dict.fromkeys(("cpu", "memory", "disk", "gpu", "without_worker"))


def test_what_is_supposed_is_read_with_its_sizes() -> None:
    assert suppose(**NOTHING) is None
    found = suppose(**NOTHING | {"cpu": 8.0, "memory": "4GB", "without_worker": "x"})
    assert found == WhatIf(cpu=8.0, memory=4 * GB, without_worker="x")


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("cpu", 0.0, "more than 0"),
        ("cpu", float("nan"), "more than 0"),
        ("cpu", 5000.0, "up to 4096"),
        ("gpu", -1, "use 0 to 1024"),
        ("memory", "much", "is not a size"),
        ("memory", "-1", "is not a size"),
        ("disk", "9999999PB", "is out of range"),
        ("disk", "9" * 999, "over the limit"),
        ("without_worker", "", "name a worker"),
        ("without_worker", "x" * 257, "over the limit"),
    ],
)
def test_amounts_are_bounded_as_in_a_submission(field: str, value: object, says: str) -> None:
    with pytest.raises(Invalid, match=says) as refused:
        suppose(**NOTHING | {field: value})
    assert refused.value.field == field


def test_a_smaller_task_would_fit_and_the_others_ask_for_what_they_asked() -> None:
    fleet = [a_worker(used=Capacity(cpu=4))]
    mine, other = a_demand(2, a_shape(cpu=6)), a_demand(3, a_shape(cpu=6))
    changed = apply_to_demands([mine, other], 2, WhatIf(cpu=4.0))
    assert [demand.shape.cpu for demand in changed] == [4.0, 6]
    assert explain(fleet, [mine, other], mine, now=NOW).code == "lacks_resources"
    assert explain(fleet, changed, changed[0], now=NOW).code == "fits"


def test_those_ahead_take_their_room_first() -> None:
    fleet, ahead = [a_worker()], a_demand(1, a_shape(cpu=6), priority=5)
    mine = a_demand(2, a_shape(cpu=8))
    changed = apply_to_demands([ahead, mine], 2, WhatIf(cpu=4.0))
    reason = explain(fleet, changed, changed[1], now=NOW)
    assert reason.code == "lacks_resources"
    assert str(reason.nearest[0]) == "worker w1: 2 of 8 cpu free (needs 4)"


def test_without_gpus_no_model_of_them_is_asked_for() -> None:
    mine = a_demand(2, a_shape(gpu=1, gpu_model="H100"))
    [changed] = apply_to_demands([mine], 2, WhatIf(gpu=0))
    assert (changed.shape.gpu, changed.shape.gpu_model) == (0, None)


@pytest.mark.parametrize("called", ["a", "id-a"])
def test_a_worker_is_left_out_by_name_or_id(called: str) -> None:
    fleet = [a_worker("a"), a_worker("b")]
    left = apply_to_workers(fleet, WhatIf(without_worker=called))
    assert [worker.name for worker in left] == ["b"]
    assert apply_to_workers(fleet, WhatIf(cpu=1.0)) == fleet


def test_a_worker_that_is_not_there_is_named() -> None:
    with pytest.raises(Invalid, match="no worker z is there; `holdfast workers` lists them"):
        apply_to_workers([a_worker("a")], WhatIf(without_worker="z"))


def test_what_is_supposed_is_written_with_what_it_replaces() -> None:
    shape = a_shape(cpu=16, memory=2 * GB)
    supposed = WhatIf(cpu=8.0, memory=GB, without_worker="x")
    assert describe(shape, supposed) == (
        "with 8 cpu instead of 16, with 1GB memory instead of 2GB, without worker x"
    )
    assert describe(None, WhatIf(without_worker="x")) == "without worker x"
