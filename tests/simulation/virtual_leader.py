"""The server of a virtual world: it leads, calls workers, and looks after leases.

What a call says and what an answer means is the code of the real leader (`worker_calls`), and so
is what it keeps in mind of a worker (`CalledWorker`); its loops and its SQL are played here.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from holdfast.model.submitting.spec import TaskTerms
from holdfast.model.work.attempts import LockedLease
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import parse_task_id
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import Capacity
from holdfast.operations.ending.complete import Completion
from holdfast.operations.placed.worker_heartbeats import Prepared, Wanted
from holdfast.rules.ending import Judged, end_lost, end_overdue, end_reported, end_undelivered
from holdfast.rules.health import judge
from holdfast.rules.outage import Watch
from holdfast.services.leading.call_queue import ACKNOWLEDGE_SECONDS, CalledWorker
from holdfast.services.leading.heartbeat_loop import TICK_SECONDS
from holdfast.services.leading.worker_calls import (
    CALL_SECONDS_MAX,
    CallFailed,
    Meaning,
    interpret,
    list_offered,
    list_unacknowledged,
    read_answer,
    write_request,
)
from holdfast.simulation.fleet import Worker
from holdfast.simulation.ledger import Lease, only
from holdfast.simulation.plan import Workers
from holdfast.wire.answers import AttemptName

if TYPE_CHECKING:
    from tests.simulation.virtual_host import VirtualHost
    from tests.simulation.virtual_world import World

CONNECT_SECONDS_MAX = CALL_SECONDS_MAX / 2
REAP_SECONDS = 1.0
SAID = ("exit_code", "error", "error_class", "stage")


@dataclass
class Registered:
    """A worker as it stands in the ledger."""

    host: "VirtualHost"
    worker: Worker
    answered: tuple[int, int] | None = None
    answered_at: datetime | None = None
    failures: int = 0
    is_lost: bool = False


@dataclass
class Call:
    """A call that is under way."""

    registered: Registered
    called: CalledWorker
    prepared: Prepared
    number: int
    epoch: int
    new: frozenset[Fence]
    acknowledged: list[AttemptName] = field(default_factory=list)
    unknown: frozenset[Fence] = frozenset()
    is_over: bool = False


class Leader:
    """The one server that leads; after a change, another with a higher epoch."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.epoch = 1
        self.is_there = True
        self.registered: dict[str, Registered] = {}
        self._called: dict[str, CalledWorker] = {}
        self._calls: dict[str, Call] = {}
        self._number = 0

    def succeed(self) -> None:
        """Be another server: what the one before had in mind is gone."""
        self.epoch += 1
        self._number = 0
        self._called.clear()
        self._calls.clear()
        for worker_id, registered in self.registered.items():
            if not registered.is_lost:
                self._call_soon(worker_id)

    def come_back(self) -> None:
        """Be there again."""
        self.is_there = True
        self.succeed()

    def leave(self) -> None:
        """Be away."""
        self.is_there = False
        self._calls.clear()

    def ring(self, worker_id: str) -> None:
        """Hear that a worker would like to be called."""
        registered = self.registered.get(worker_id)
        if self.is_there and registered is not None and not registered.is_lost:
            self._mind(worker_id).is_rung = True
            self._call_soon(worker_id)

    def register(
        self,
        worker_id: str,
        host: "VirtualHost",
        replaces: str | None,
        *,
        names: list[tuple[str, int, UUID]],
    ) -> set[tuple[str, int]] | None:
        """Register an incarnation, which may bring attempts along; None if nobody is here."""
        if not self.is_there:
            return None
        world = self._world
        found = {Fence(parse_task_id(task), number, token) for task, number, token in names}
        if worker_id not in self.registered:
            kind = Workers(name=worker_id, count=1, capacity=Capacity(cpu=world.scenario.cpu))
            worker = Worker(kind, 0)
            worker.id = worker_id
            self.registered[worker_id] = Registered(host, worker)
            world.fleet.append(worker)
            if replaces in self.registered:
                self._replace(self.registered[str(replaces)], worker, found)
            self._call_soon(worker_id)
        mine = self.registered[worker_id].worker.leases
        world.wake()
        return {(str(each.task.id), each.attempt) for each in mine if each.fence in found}

    def reap(self) -> None:
        """Look at all leases, as the chore does."""
        world = self._world
        if self.is_there:
            watch, now = world.ledger.note_pass(world.date), world.date
            for lease in list(world.ledger.leases.values()):
                if world.ledger.leases.get(lease.task.id) is lease:
                    terms = lease.task.job.terms
                    rule = partial(end_overdue, terms=terms, watch=watch, now=now)
                    world.ledger.end([lease.task], only(lease.fence, rule), now)
            self._ring_stops()
        world.agenda.note(world.now + REAP_SECONDS, self.reap)

    def _ring_stops(self) -> None:
        for lease in self._world.ledger.leases.values():
            registered = self.registered[lease.worker_id]
            if (lease.ending or lease.cancelled) and not registered.is_lost:
                called = self._mind(lease.worker_id)
                called.is_rung = True
                self._call_soon(lease.worker_id)

    def call_about(self, lease: Lease) -> None:
        """Have a worker called since there is something new for it."""
        self._mind(lease.worker_id).is_rung = True
        self._call_soon(lease.worker_id)

    def _mind(self, worker_id: str) -> CalledWorker:
        if worker_id not in self._called:
            self._called[worker_id] = CalledWorker(worker_id)
        return self._called[worker_id]

    def _call_soon(self, worker_id: str) -> None:
        world = self._world
        at = max(self._mind(worker_id).due_at, world.now)
        world.agenda.note(at, partial(self._call, worker_id, self.epoch))

    def _call(self, worker_id: str, epoch: int) -> None:
        registered, called = self.registered[worker_id], self._mind(worker_id)
        is_ours = self.is_there and epoch == self.epoch and not registered.is_lost
        if not is_ours or worker_id in self._calls or called.due_at > self._world.now:
            return
        world = self._world
        called.is_rung = False
        called.called_at, called.next_at = world.now, world.now + TICK_SECONDS
        prepared = self._prepare(registered)
        new = called.offer(list_offered(prepared), list_unacknowledged(prepared))
        self._number += 1
        call = Call(registered, called, prepared, self._number, self.epoch, new)
        call.acknowledged, call.unknown = called.acknowledged, called.unknown
        self._calls[worker_id] = call
        body = write_request(
            prepared,
            self.epoch,
            self._number,
            acknowledged=call.acknowledged,
            unknown=call.unknown,
        )
        network, host = world.network, registered.host
        if network.is_cut(host.index):
            seconds, was_not_sent = CONNECT_SECONDS_MAX, True
        else:
            seconds, was_not_sent = CALL_SECONDS_MAX, False
            reply = partial(self._hear_later, call)
            network.send(
                host.index,
                lambda: self._arrive(call, body, reply),
                loses="requests lost",
            )
        world.agenda.note(
            world.now + seconds, partial(self._fail, call, "no answer", was_not_sent=was_not_sent)
        )

    def _arrive(self, call: Call, body: bytes, reply: "partial[None]") -> None:
        worker = call.registered.host.worker
        if worker is None:
            self._fail(call, "nobody listens there", was_not_sent=True)
        else:
            worker.receive(body, reply)

    def _hear_later(self, call: Call, body: bytes | None) -> None:
        hear = partial(self._hear, call, body)
        self._world.network.send(call.registered.host.index, hear)

    def _prepare(self, registered: Registered) -> Prepared:
        world, wanted = self._world, []
        for lease in sorted(registered.worker.leases, key=lambda each: each.task.id):
            cancel_by, stored_at = lease.cancel_deadline_at, registered.answered_at
            wanted.append(
                Wanted(
                    lease.fence,
                    lease.task.state if not lease.ending else TaskState.RUNNING,
                    lease.ending,
                    lease.acknowledged,
                    None if stored_at is None else lease.expires_at - stored_at,
                    None if cancel_by is None else max(cancel_by - world.date, timedelta()),
                    {},
                    [],
                    None,
                    world.stored(lease.task.job),
                    [],
                )
            )
        worker_id = registered.worker.id
        return Prepared(worker_id, "http://host", "", registered.answered, False, wanted)

    def _is_current(self, call: Call) -> bool:
        return self._calls.get(call.registered.worker.id) is call and call.epoch == self.epoch

    def _hear(self, call: Call, body: bytes | None) -> None:
        if call.is_over or not self._is_current(call):
            return
        registered, called, worker_id = call.registered, call.called, call.registered.worker.id
        if body is None:
            self._fail(call, "it refused", was_not_sent=False)
            return
        try:
            answer = read_answer(body, worker_id, epoch=call.epoch, number=call.number)
            meaning = interpret(call.prepared, answer)
        except CallFailed as failure:
            self._fail(call, str(failure), was_not_sent=False)
            return
        self._end_call(call)
        called.unknown = meaning.unknown
        self._store(registered, called, meaning, number=call.number)
        if called.unknown - call.unknown or called.unnamed:
            called.is_rung = True
        elif set(called.acknowledged) - set(call.acknowledged):
            called.acknowledge_by(self._world.now + ACKNOWLEDGE_SECONDS)
        self._call_soon(worker_id)

    def _end_call(self, call: Call) -> None:
        call.is_over = True
        del self._calls[call.registered.worker.id]

    def _store(
        self, registered: Registered, called: CalledWorker, meaning: Meaning, *, number: int
    ) -> None:
        ledger, now = self._world.ledger, self._world.date
        for report in meaning.starts:
            lease = ledger.leases.get(report.fence.task_id)
            if lease is not None and lease.fence == report.fence:
                ledger.start(report.fence, report.state, now)
        self._complete(meaning.completions)
        called.acknowledged = [
            AttemptName(entry.task_id, item.fence.attempt)
            for entry, item in zip(meaning.reported, meaning.completions, strict=False)
        ]
        for fence in meaning.running:
            lease = ledger.leases.get(fence.task_id)
            if lease is not None and lease in registered.worker.leases and lease.fence == fence:
                ledger.renew(fence, now).acknowledged = True
        registered.answered, registered.answered_at = (self.epoch, number), now
        called.count_at = 0.0
        if registered.failures:
            registered.failures = 0
            registered.worker.come_back(self._world.now)
        self._end_undelivered(registered, called, called.note_unnamed(meaning.unnamed))
        self._world.wake()

    def _complete(self, items: list[Completion]) -> None:
        """Take reports: successes there and then, other ends by the rule and all at once."""
        ledger, now, outage = self._world.ledger, self._world.date, self._outage()
        told: dict[Fence, Completion] = {}
        for item in items:
            lease = ledger.leases.get(item.fence.task_id)
            if lease is None or lease.fence != item.fence:
                continue
            if item.status == "succeeded":
                ledger.succeed(item.fence, now)
            else:
                told[item.fence] = item

        def judge_told(lease: LockedLease, _: TaskTerms) -> Judged:
            if (item := told.get(lease.fence)) is None:
                return None
            said = {field: getattr(item, field) for field in SAID}
            return end_reported(lease, item.status, outage=outage, **said)

        ledger.end([ledger.leases[fence.task_id].task for fence in told], judge_told, now)

    def _end_undelivered(
        self, registered: Registered, called: CalledWorker, fences: frozenset[Fence]
    ) -> None:
        ledger = self._world.ledger
        for fence in sorted(fences):
            lease = ledger.leases.get(fence.task_id)
            if lease is not None and lease.fence == fence and lease in registered.worker.leases:
                self._world.tell(f"{fence.task_id} did not arrive")
                ledger.end([lease.task], only(fence, end_undelivered), self._world.date)
        called.unnamed -= fences

    def _fail(self, call: Call, problem: str, *, was_not_sent: bool) -> None:
        """Count a heartbeat that failed, once a tick."""
        if call.is_over or not self._is_current(call):
            return
        self._end_call(call)
        registered, called = call.registered, call.called
        if was_not_sent:
            called.take_back(call.new)
        if called.called_at >= called.count_at:
            called.count_at = called.called_at + TICK_SECONDS
            registered.failures += 1
            if registered.failures == 1:
                registered.worker.leave(self._world.now)
            self._world.tell(f"call {call.number} to {registered.host.name} failed: {problem}")
        self._end_never_offered(registered, called)
        if judge(registered.failures) == "dead":
            registered.is_lost = True
            self._world.tell(f"{registered.host.name} is lost")
            self._lose(registered, list(registered.worker.leases), is_gone=False)
        else:
            self._call_soon(registered.worker.id)

    def _end_never_offered(self, registered: Registered, called: CalledWorker) -> None:
        assert called.offered is not None, "a call offers before it fails"
        unacknowledged = {each.fence for each in registered.worker.leases if not each.acknowledged}
        self._end_undelivered(registered, called, frozenset(unacknowledged) - called.offered)

    def _replace(self, old: Registered, worker: Worker, found: set[Fence]) -> None:
        """Take over from an incarnation that is gone: some of its processes may live on."""
        for lease in [each for each in old.worker.leases if each.fence in found]:
            worker.take(lease, old.worker.release(lease))
            lease.worker_id, lease.acknowledged = worker.id, True
        old.is_lost = True
        if not old.failures:
            old.worker.leave(self._world.now)
        self._lose(old, list(old.worker.leases), is_gone=True)

    def _lose(self, registered: Registered, leases: list[Lease], *, is_gone: bool) -> None:
        rule = partial(
            end_lost,
            cause="worker lost",
            is_gone=is_gone,
            has_crashed=False,
            outage=self._outage(),
        )
        for lease in leases:
            self._world.ledger.end([lease.task], only(lease.fence, rule), self._world.date)

    def _outage(self) -> tuple[Watch, datetime]:
        return self._world.ledger.note_pass(self._world.date), self._world.date
