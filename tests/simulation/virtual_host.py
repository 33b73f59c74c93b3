"""A host of a virtual world: its worker process, the shims beside it, and what runs under them.

Incarnation, obedience, attempts and deadlines are the worker's own code; processes, folders and
sockets are what is played here.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from holdfast.wire.cluster import WorkerHeartbeatRequest
from holdfast.worker.placed.answers import write_answer
from holdfast.worker.placed.attempt import PlacedAttempt, TakeoverRecord, decide_outcome
from holdfast.worker.placed.held import Held
from holdfast.worker.placed.incarnation import CallRefused, Incarnation
from holdfast.worker.placed.obedience import Obedience, count_patience
from holdfast.worker.placed.shim_messages import Reason, ShimExit, UsageSoFar
from holdfast.worker.processes.command_deadline import (
    SAY_HARD,
    CommandDeadline,
    say_deadline,
    say_soft,
)
from holdfast.worker.running.attempt_outcome import HANDED_BACK, KILLED, Outcome
from tests.simulation.scenario import JobPlan

if TYPE_CHECKING:
    from holdfast.worker.placed.shim_handle import Shim
    from tests.simulation.virtual_world import World

BUILD_SECONDS = 0.3
GO_SECONDS = 0.5
# A shim sleeps in slices, and killing takes its time.
LATE_SECONDS = 1.0
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 1.0
NOWHERE = Path("/nonexistent/attempts")
Reply = Callable[[bytes | None], None]


class VirtualShim:
    """A shim with its command. It lives on when its worker dies, and is that one's handle, too."""

    def __init__(self, host: "VirtualHost", attempt: PlacedAttempt, plan: JobPlan) -> None:
        self.record: TakeoverRecord = attempt.record()
        self.exit: ShimExit | None = None
        self._host = host
        self._plan = plan
        self._due = CommandDeadline(attempt.kill_at)
        world = host.world
        world.start_process(self.record, host)
        fails = attempt.number < plan.failures
        world.agenda.note(world.now + plan.seconds, lambda: self._end(1 if fails else 0))
        self._look_again()

    @property
    def is_gone(self) -> bool:
        """Whether its command runs no more."""
        return self.exit is not None

    def renew(self, deadline: float) -> None:
        """Pass a deadline on."""
        self.hear(say_deadline(deadline))

    def soft(self, grace: float) -> None:
        """Pass a request on."""
        self.hear(say_soft(grace))

    def hard(self) -> None:
        """Have the command killed."""
        self.hear(SAY_HARD)

    def read_usage(self) -> UsageSoFar | None:
        """Have nothing to say of usage."""
        return None

    def remove(self) -> None:
        """Have no folder."""

    def hear(self, line: str) -> None:
        """Take a line from the pipe."""
        if self.is_gone:
            return
        if self._due.obey(line, self._host.clock()) and not self._plan.ignores_requests:
            world = self._host.world
            world.agenda.note(world.now + GO_SECONDS, lambda: self._end(143))
        self._look()

    def vanish(self) -> None:
        """Go with the host."""
        if not self.is_gone:
            self._end(None, "shim_lost")

    def _look(self) -> None:
        if self.is_gone:
            return
        if self._due.must_end(self._host.clock()):
            self._end(None)
        else:
            self._look_again()

    def _look_again(self) -> None:
        seconds = max(self._due.at - self._host.clock(), 0.0)
        world = self._host.world
        world.agenda.note(world.now + seconds + LATE_SECONDS, self._look)

    def _end(self, code: int | None, reason: Reason | None = None) -> None:
        if self.is_gone:
            return
        why = reason or cast("Reason | None", self._due.reason)
        signal = None if code is not None else 9
        now = self._host.world.now
        self.exit = ShimExit(code, signal, why, None, None, now, None, "none")
        self._host.world.end_process(self.record, why or f"exit code {code}")
        self._host.note_exit(self)


class VirtualWorker(Held):
    """A worker process: called, and asking to be called."""

    def __init__(self, host: "VirtualHost", left: list[VirtualShim]) -> None:
        super().__init__()
        self.host = host
        self.is_alive = True
        self.is_frozen = False
        self.incarnation = Incarnation(host.name)
        self.obedience = Obedience(
            self.incarnation, self, NOWHERE, ask_for_call=self.ask_for_call, clock=host.clock
        )
        self._frozen: list[Callable[[], None]] = []
        self._called_at = host.clock()
        self._number_of_registration = 0
        for shim in left:
            self._take_over(shim)
        self._register(host.previous, list(self))
        self._look_for_silence()

    def receive(self, body: bytes, reply: Reply) -> None:
        """Be called."""
        request = msgspec.json.decode(body, type=WorkerHeartbeatRequest)
        self.when_awake(lambda: self._answer(request, reply))

    def when_awake(self, action: Callable[[], None]) -> None:
        """Do something now, or when this process goes on; never if it does not."""
        if self.is_frozen:
            self._frozen.append(action)
        elif self.is_alive:
            action()

    def thaw(self) -> None:
        """Go on."""
        self.is_frozen = False
        waiting, self._frozen = self._frozen, []
        for action in waiting:
            self.when_awake(action)

    def ask_for_call(self) -> None:
        """Ask to be called soon."""
        leader, worker_id = self.host.world.leader, self.incarnation.worker_id
        self.host.world.network.send(self.host.index, lambda: leader.ring(worker_id))

    def note_exit(self, shim: VirtualShim) -> None:
        """See that a command is gone, and what that means."""
        attempt = self.find((shim.record.task_id, shim.record.attempt))
        if attempt is not None and attempt.shim is not None and not attempt.is_over:
            assert shim.exit is not None, "it is gone"
            attempt.ended = shim.exit
            self._note_end(attempt, decide_outcome(attempt, shim.exit))

    def _answer(self, request: WorkerHeartbeatRequest, reply: Reply) -> None:
        try:
            self.obedience.obey(request, is_draining=False)
        except CallRefused:
            reply(None)
            return
        self._called_at = self.host.clock()
        reply(msgspec.json.encode(write_answer(request, self)))

    def _begin(self, attempt: PlacedAttempt) -> None:
        world = self.host.world
        world.agenda.note(
            world.now + BUILD_SECONDS, lambda: self.when_awake(lambda: self._start(attempt))
        )

    def _start(self, attempt: PlacedAttempt) -> None:
        if attempt.stop is not None:
            self._note_end(attempt, HANDED_BACK if attempt.stop == "handed_back" else KILLED)
        elif self.host.clock() >= attempt.kill_at:
            lost = Outcome("worker_failed", error="its lease ran out in the build")
            self._note_end(attempt, lost)
        else:
            plan = self.host.world.plan_of(attempt.task_id)
            shim = VirtualShim(self.host, attempt, plan)
            self.host.shims[attempt.key] = shim
            attempt.shim = cast("Shim", shim)
            attempt.state = "RUNNING"
            self.ask_for_call()

    def _take_over(self, shim: VirtualShim) -> None:
        expires_at = self.host.clock() + shim.record.job.lease
        attempt = PlacedAttempt(shim.record, NOWHERE, expires_at, clock=self.host.clock)
        attempt.shim, attempt.state = cast("Shim", shim), "RUNNING"
        self._held[attempt.key] = attempt
        if shim.is_gone:
            self.note_exit(shim)

    def _note_end(self, attempt: PlacedAttempt, outcome: Outcome) -> None:
        attempt.outcome = outcome
        self.ask_for_call()

    def _clear_away(self, attempt: PlacedAttempt) -> None:
        self.host.shims.pop(attempt.key, None)

    def _look_for_silence(self) -> None:
        world = self.host.world
        patience = count_patience(self, self._called_at, PATIENCE_SECONDS)
        if self.host.clock() - self._called_at > patience:
            self._start_anew()
        if self.is_alive:
            world.agenda.note(
                world.now + LOOK_SECONDS, lambda: self.when_awake(self._look_for_silence)
            )

    def _start_anew(self) -> None:
        """Stop everything, and be another incarnation: as `PlacedWorker` does."""
        self.host.world.tell(f"{self.host.name} was not called for too long: it starts anew")
        previous = self.host.previous
        self.incarnation.begin_anew()
        for attempt in self:
            attempt.ask_to_stop("hard")
            if attempt.shim is None and not attempt.is_over:
                attempt.outcome = KILLED
        ended = [each for each in self if each.outcome and each.outcome.status != "killed"]
        for attempt in self:
            if attempt not in ended:
                self.drop(attempt.key)
        self._register(previous if len(self) == len(ended) else None, ended)

    def _register(self, replaces: str | None, found: list[PlacedAttempt]) -> None:
        """Say who it is, again and again until it is known."""
        self._called_at = self.host.clock()
        self._number_of_registration += 1
        number, worker_id = self._number_of_registration, self.incarnation.worker_id
        self.host.previous = worker_id
        names = [(each.task_id, each.number, each.lease_token) for each in found]
        world = self.host.world
        is_known = False

        def say() -> None:
            if is_known or number != self._number_of_registration:
                return
            world.network.send(self.host.index, ask)
            world.agenda.note(world.now + 1.0, lambda: self.when_awake(say))

        def ask() -> None:
            adopted = world.leader.register(worker_id, self.host, replaces, names=names)
            if adopted is not None:
                world.network.send(self.host.index, lambda: self.when_awake(lambda: hear(adopted)))

        def hear(adopted: set[tuple[str, int]]) -> None:
            nonlocal is_known
            if not is_known and number == self._number_of_registration:
                is_known = True
                self._called_at = self.host.clock()
                for attempt in found:
                    if attempt.key not in adopted:
                        attempt.ask_to_stop("hard")

        say()


class VirtualHost:
    """One machine; its clock is its own."""

    def __init__(self, world: "World", index: int) -> None:
        self.world = world
        self.index = index
        self.name = f"host-{index}"
        self.shims: dict[tuple[str, int], VirtualShim] = {}
        self.previous: str | None = None
        self.worker: VirtualWorker | None = None

    def clock(self) -> float:
        """Read its clock, which knows nothing of the ledger's."""
        return self.world.now + 1000.0 * (self.index + 1)

    def boot(self) -> None:
        """Have a worker process, if there is none."""
        if self.worker is None:
            self.world.tell(f"the worker of {self.name} starts")
            self.worker = VirtualWorker(self, list(self.shims.values()))

    def kill_worker(self) -> None:
        """End the worker process alone."""
        if self.worker is not None:
            self.worker.is_alive = False
            self.worker = None

    def die(self) -> None:
        """End everything here."""
        self.kill_worker()
        for shim in self.shims.values():
            shim.vanish()
        self.shims.clear()

    def note_exit(self, shim: VirtualShim) -> None:
        """Have the worker see that a command is gone."""
        if (worker := self.worker) is not None:
            worker.when_awake(lambda: worker.note_exit(shim))
