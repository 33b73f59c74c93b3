"""What placed attempts are given for themselves alone: ports of a host, devices of a worker."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.operations.placed.snapshot import Owner, Snapshot, Wants
from holdfast.rules.placement.devices import list_devices
from holdfast.rules.placement.ports import PORT_MIN, choose_ports
from holdfast.rules.placement.scheduler import Placement


class Given(NamedTuple):
    """What one attempt is given: ports by name, and the ids of devices."""

    ports: dict[str, int]
    devices: list[str]


class Giver:
    """Chooses for the attempts of one transaction, which may still come to nothing."""

    def __init__(
        self, snapshot: Snapshot, wants: Mapping[int, Wants], last_ports: dict[str, int]
    ) -> None:
        self._snapshot = snapshot
        self._wants = wants
        self._last_ports = last_ports
        self._workers = {worker.worker_id: worker for worker in snapshot.workers}
        self._ports: dict[str, set[int]] = defaultdict(set)
        self._devices: dict[Owner, set[str]] = defaultdict(set)

    def fit(self, placements: Sequence[Placement]) -> list[Placement]:
        """Cut a plan down to the devices that there are: workers of one name share theirs."""
        fitting: list[Placement] = []
        planned: dict[Owner, set[str]] = defaultdict(set)
        for placement in placements:
            count, gpu = placement.count, self._wants[placement.job_id].shape.gpu
            if gpu:
                owner, free = self._free_devices(placement.worker_id)
                free = [device for device in free if device not in planned[owner]]
                count = min(count, len(free) // gpu)
                planned[owner].update(free[: count * gpu])
            if count:
                fitting.append(placement._replace(count=count))
        return fitting

    def give(self, job_id: int, worker_id: str) -> Given:
        """Choose for an attempt of a job, on a worker that has been found to have enough."""
        wants, host = self._wants[job_id], self._workers[worker_id].host
        used, mine = self._snapshot.ports_used[host], self._ports[host]
        last = max(mine, default=self._last_ports.get(host, PORT_MIN - 1))
        ports = choose_ports(wants.ports, used | mine, last)
        mine.update(ports.values())
        devices: list[str] = []
        if wants.shape.gpu:
            owner, free = self._free_devices(worker_id)
            devices = free[: wants.shape.gpu]
            assert len(devices) == wants.shape.gpu, "a worker was given more tasks than devices"
            self._devices[owner].update(devices)
        return Given(ports, devices)

    def note(self) -> None:
        """Note that what was chosen is given out."""
        for host, ports in self._ports.items():
            self._snapshot.ports_used[host] |= ports
            self._last_ports[host] = max(ports, default=self._last_ports.get(host, PORT_MIN - 1))
        for owner, devices in self._devices.items():
            self._snapshot.devices_used[owner] |= devices

    def _free_devices(self, worker_id: str) -> tuple[Owner, list[str]]:
        worker = self._workers[worker_id]
        owner = (worker.host, worker.name)
        used = self._snapshot.devices_used[owner] | self._devices[owner]
        return owner, [device for device in list_devices(worker.capacity) if device not in used]
