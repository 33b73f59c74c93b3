"""One registration of a worker: which calls it obeys, and from when the leases in them count.

A lease runs from the moment this worker sent the answer that the call names: what was stored of it
can only have been stored later, so a worker whose answers do not arrive stops by itself.
"""

from collections import OrderedDict

from holdfast.errors import Refused
from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.wire.cluster import WorkerHeartbeatRequest

ANSWERS_KEPT_MAX = 64


class CallRefused(Refused):
    """The call is for somebody else, or comes too late: nothing in it was obeyed."""


class Incarnation:
    """The id and secret under which a worker is registered, and the calls that it had since."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.begin_anew()

    def begin_anew(self) -> None:
        """Take another id and secret; calls to the one before are refused from here on."""
        self.credential = WorkerCredential.make(self._name)
        self.has_asked_for_call = False
        self._last = (0, 0)
        self._sent_at: OrderedDict[tuple[int, int], float] = OrderedDict()

    @property
    def worker_id(self) -> str:
        """The id under which it is registered."""
        return self.credential.worker_id

    def admit(self, request: WorkerHeartbeatRequest) -> None:
        """Take a call, unless it is another's or not newer than the last one."""
        if request.worker_id != self.worker_id:
            raise CallRefused(f"this is {self.worker_id}, not {request.worker_id}")
        number = (request.epoch, request.number)
        if number <= self._last:
            raise CallRefused(f"call {number} is not newer than {self._last}")
        self._last = number

    def note_answer(self, now: float) -> None:
        """Note when the answer to the last call is sent: before it is, never after."""
        self._sent_at[self._last] = now
        while len(self._sent_at) > ANSWERS_KEPT_MAX:
            self._sent_at.popitem(last=False)

    def expires_at(self, request: WorkerHeartbeatRequest, lease_ms: int | None) -> float | None:
        """Say when a lease in a call ends by our clock; None if there is nothing to count from."""
        if request.answered_epoch is None or request.answered_number is None or lease_ms is None:
            return None
        sent_at = self._sent_at.get((request.answered_epoch, request.answered_number))
        return None if sent_at is None else sent_at + lease_ms / 1000
