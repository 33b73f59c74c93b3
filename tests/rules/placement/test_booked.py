"""Adding up what leases take, and taking what is left."""

from typing import Any

import pytest

from holdfast.model.workers.resources import Capacity
from holdfast.rules.placement.booked import add_up, take_most
from tests.rules.placement_builders import a_shape


def test_amounts_are_added_up_by_owner() -> None:
    small, large = a_shape(cpu=0.5, memory=1000), a_shape(cpu=2.0, disk=7, gpu=1)
    used = add_up([("a", small, 3), ("b", large, 1), ("a", large, 2)])
    assert used["a"] == Capacity(cpu=5.5, memory=3000, disk=14, gpu=2)
    assert used["b"] == Capacity(cpu=2.0, disk=7, gpu=1)
    assert used["nobody"] == Capacity()


@pytest.mark.parametrize(
    ("needs", "count", "taken", "left"),
    [
        ({"cpu": 1.0}, 9, 3, Capacity(cpu=0.5, memory=100, disk=50)),
        ({"cpu": 1.0}, 2, 2, Capacity(cpu=1.5, memory=100, disk=50)),
        ({"cpu": 0.0, "memory": 60}, 9, 1, Capacity(cpu=3.5, memory=40, disk=50)),
        ({"cpu": 0.0, "disk": 51}, 9, 0, Capacity(cpu=3.5, memory=100, disk=50)),
    ],
)
def test_as_many_are_taken_as_fit(
    needs: dict[str, Any], count: int, taken: int, left: Capacity
) -> None:
    free = Capacity(cpu=3.5, memory=100, disk=50)
    assert take_most(a_shape(**needs), free, count) == (taken, left)
