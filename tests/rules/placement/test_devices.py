"""Devices of a worker: what they are called, and how many of them it cannot give."""

import pytest

from holdfast.model.workers.resources import Capacity
from holdfast.rules.placement.devices import count_given, list_devices


def test_devices_have_the_ids_that_their_worker_names_or_numbers() -> None:
    assert list_devices(Capacity(gpu=3)) == ["0", "1", "2"]
    assert list_devices(Capacity(gpu=2, devices=["GPU-a", "7"])) == ["GPU-a", "7"]
    assert list_devices(Capacity()) == []


@pytest.mark.parametrize(
    ("booked", "used", "given"),
    [
        (0, set(), 0),
        (1, {"1"}, 1),
        (0, {"0"}, 1),  # an earlier incarnation may still use it
        (1, {"8"}, 1),  # adopted, and it has no such device any more: it is booked all the same
        (1, {"0", "1"}, 2),
    ],
)
def test_what_is_booked_or_used_cannot_be_given(booked: int, used: set[str], given: int) -> None:
    assert count_given(Capacity(gpu=2), booked, used) == given
