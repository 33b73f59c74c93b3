"""Which devices (GPUs) an attempt gets: their ids are given out one by one, never twice at once."""

from collections.abc import Set

from holdfast.model.workers.resources import Capacity


def list_devices(capacity: Capacity) -> list[str]:
    """List the ids of a worker's devices: those it has named, or else numbers from 0 on."""
    return capacity.devices or [str(number) for number in range(capacity.gpu)]


def count_given(capacity: Capacity, booked: int, used: Set[str]) -> int:
    """Count the devices that a worker cannot give: booked by its leases, or used under its name.

    The two differ where it has adopted attempts with devices that it does not have any more, or
    where attempts of an earlier incarnation may still live.
    """
    return max(booked, sum(device in used for device in list_devices(capacity)))
