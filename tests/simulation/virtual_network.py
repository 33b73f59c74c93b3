"""The network of a virtual world: messages come late, twice, in another order, or not at all."""

from collections.abc import Callable

from holdfast.simulation.agenda import Agenda
from tests.simulation.scenario import Fault

DELAY_SECONDS = 0.01
SLOW_SECONDS = 7.0
Direction = str


class Network:
    """One link to each host. What is under way when a link breaks still arrives."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._broken: list[Fault] = []

    def begin(self, fault: Fault) -> None:
        """Have a link broken from now on."""
        self._broken.append(fault)

    def end(self, fault: Fault) -> None:
        """Have a link whole again, as far as this fault goes."""
        self._broken.remove(fault)

    def is_cut(self, host: int) -> bool:
        """Tell whether no connection comes about."""
        return self._is(host, "cut")

    def send(self, host: int, arrive: Callable[[], None], *, loses: str = "answers lost") -> None:
        """Bring a message over a link: a request to a host, or else what comes from there."""
        if self.is_cut(host) or self._is(host, loses):
            return
        delay = SLOW_SECONDS if self._is(host, "slow") else DELAY_SECONDS
        self._agenda.note(self._agenda.now + delay, arrive)
        if self._is(host, "said twice"):
            self._agenda.note(self._agenda.now + delay + SLOW_SECONDS, arrive)

    def _is(self, host: int, kind: str) -> bool:
        return any(fault.kind == kind and fault.host == host for fault in self._broken)
