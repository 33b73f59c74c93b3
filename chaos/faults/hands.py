"""The hands that break things: each kind of fault of a plan, done to the system.

A fault that lasts gives back how it is ended. What is gone already is no error: faults overlap.
"""

import logging
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress

import psutil
import psycopg

from chaos.checker.history import Excuse, Hit
from chaos.faults.plan import Fault
from chaos.processes import send
from chaos.proxy import Cut, CutAfter, Delay, HalfOpen, Mood, OneWay, Slow
from chaos.system import System
from chaos.workload.customers import Customers
from chaos.workload.tasks import LEASE
from holdfast.embedded import PostgresUnavailable
from tests.standby import kill_whole

log = logging.getLogger("chaos")
SHIFT_SECONDS_MAX = 300.0
LOCKED_ROWS = 30
CONNECTIONS_MAX = 100
HITS = """
select case when leases.ending then 'ending'
            when leases.job_id is not null and tasks.state = 9 then 'assigned'
            when leases.job_id is not null and tasks.state = 2 then 'building'
            when leases.job_id is not null then 'running'
            when gated.job_id is not null then 'gated'
            when ready.job_id is not null then 'ready' else 'waiting' end as state, count(*)
  from holdfast.tasks
  left join holdfast.leases using (job_id, task_index)
  left join {gated} using (job_id, task_index)
  left join (select distinct job_id, task_index from holdfast.ready) as ready
      using (job_id, task_index)
  left join holdfast.workers using (worker_id)
 where (tasks.finished_at is null or leases.job_id is not null)
   and (%(worker)s::text is null or workers.name || '-' like %(worker)s::text || '-%%')
 group by 1
"""
GATED = "holdfast.gated"
# The version before this one has no such table.
NOT_GATED = "(select 1::bigint as job_id, 1 as task_index where false) as gated"
End = Callable[[], None]


class Missed(Exception):
    """There was nothing to break."""


class Hands:
    """Does what a plan says, and remembers what it hit."""

    def __init__(self, system: System, customers: Customers) -> None:
        self._system = system
        self._customers = customers
        self.hits: list[Hit] = []
        self.excuses: list[Excuse] = []
        self._shift = self._shift_max = 0.0
        self._is_stopped = False
        self.was_set_back = False
        # Ends of what keeps Postgres busy, each of which may be called again.
        self._holding: list[End] = []

    def begin(self, fault: Fault) -> End | None:
        """Break something; returns how to mend it, if it lasts."""
        states = self._look(fault.target)
        began = time.monotonic()
        end, has_missed = None, False
        try:
            end = self._break(fault)
        except Missed:
            has_missed = True
        ends = began + fault.seconds if end else time.monotonic()
        self.hits.append(Hit(fault.kind, fault.target, began, ends, states, has_missed))
        return end

    def heal(self) -> None:
        """Mend all that a plan may have left broken, and set the clock right: forward."""
        for name in self._system.links:
            self._system.behave(name, None)
        for host in self._system.hosts.values():
            send(host.everything(), signal.SIGCONT)
        self._start_postgres()
        if self._shift < self._shift_max:
            self._set_clock(self._shift_max)

    def _look(self, target: str) -> dict[str, int]:
        """Count the tasks that a fault is about to hit, by where they stand."""
        worker = next((name for name in self._system.hosts if name in target.split()), None)
        if worker is not None and not worker.startswith("worker"):
            worker = None
        if self._is_stopped:
            return {}
        try:
            with self._system.connect() as connection:
                connection.execute("set statement_timeout = 2000")
                query = HITS.format(gated=GATED if self._system.is_installed else NOT_GATED)
                return dict(connection.execute(query, {"worker": worker}).fetchall())
        except psycopg.OperationalError:
            return {}  # Postgres is away, by another fault

    def _break(self, fault: Fault) -> End | None:
        who = self._system.hosts.get(fault.target)
        match fault.kind:
            case "server killed" | "worker's supervisor killed" if who:
                send(_some(who.main()), signal.SIGKILL)
            case "worker killed" if who:
                send(_some(who.child()), signal.SIGKILL)
            case "host dead" if who:
                _some(who.everything())
                who.die()
            case "address reused" if who:
                self._system.reuse_address(fault.target)
            case "disk full" if who:
                _some(who.main())
                return who.fill_disk()
            case "server stopped" if who:
                return self._stop(who.main())
            case "worker stopped" if who:
                return self._stop(who.child())
            case "host frozen" if who:
                return self._freeze(fault.target)
            case "postgres crashed":
                self._crash()
            case "postgres stopped":
                return self._stop_postgres()
            case "connections used up":
                return self._use_up()
            case "horizon pinned":
                return self._hold("select count(*) from holdfast.tasks", pinned=True)
            case "rows locked":
                return self._hold(
                    "select from holdfast.tasks where finished_at is null "
                    f"order by random() limit {LOCKED_ROWS} for update skip locked"
                )
            case "clock jumps":
                self._jump(fault.amount)
            case "retry storm":
                self._customers.ask("storm", str(int(fault.amount)))
            case "everything cancelled":
                self._customers.ask("cancel all")
            case "worker drained":
                self._customers.ask("drain", fault.target)
            case "postgres fails over":
                self._release()
                self._system.fail_over()
                self._system.add_standby()
            case "pooler killed":
                self._system.restart_pooler()
            case "sqs killed" | "sqs repeats messages" | "sqs loses messages":
                self._meddle(fault.kind)
            case "server changes version" | "worker changes version":
                self._change_version(fault.target)
            case _:
                return self._break_link(fault)
        return None

    def _meddle(self, kind: str) -> None:
        messages = self._system.messages
        assert messages is not None, "this layout has no SQS"
        calls = {
            "sqs killed": messages.restart,
            "sqs repeats messages": messages.repeat,
            "sqs loses messages": messages.lose,
        }
        if calls[kind]() is False:
            raise Missed

    def _change_version(self, name: str) -> None:
        """Have one process replaced, once the schema is there; before, let that be begun."""
        if not self._system.install():
            raise Missed
        _some(self._system.hosts[name].main())
        self._system.change_version(name)

    def _release(self) -> None:
        """End what holds connections, rows or processes of Postgres: what comes now needs them."""
        for end in self._holding:
            end()
        self._holding.clear()

    def _break_link(self, fault: Fault) -> End:
        moods: dict[str, Callable[[], Mood]] = {
            "link delays": lambda: Delay(fault.amount),
            "link cut": Cut,
            "link cut in a message": lambda: CutAfter(int(fault.amount)),
            "link half open": HalfOpen,
            "link loses requests": lambda: OneWay("requests"),
            "link loses answers": lambda: OneWay("answers"),
            "link slow": lambda: Slow(int(fault.amount)),
        }
        self._system.behave(fault.target, moods[fault.kind]())
        return lambda: self._system.behave(fault.target, None)

    def _stop(self, processes: list[psutil.Process]) -> End:
        send(_some(processes), signal.SIGSTOP)
        return lambda: send(processes, signal.SIGCONT)

    def _freeze(self, name: str) -> End:
        """Stop all processes of a host; none can know of it, so leases run out meanwhile."""
        began = time.monotonic()
        processes = _some(self._system.hosts[name].everything())
        send(processes, signal.SIGSTOP)

        def go_on() -> None:
            send(processes, signal.SIGCONT)
            self.excuses.append(Excuse("its host was frozen", began, time.monotonic(), name))

        return go_on

    def _crash(self) -> None:
        with suppress(PostgresUnavailable):
            kill_whole(self._system.postgres)
        self._is_stopped = False
        self._start_postgres()

    def _start_postgres(self) -> None:
        self._system.postgres.start()

    def _stop_postgres(self) -> End:
        try:
            postmaster = psutil.Process(self._system.postgres.pid)
        except PostgresUnavailable:
            raise Missed from None
        go_on = self._stop([postmaster, *postmaster.children(recursive=True)])
        self._is_stopped = True

        def start_again() -> None:
            self._is_stopped = False
            go_on()

        return self._hold_on(start_again)

    def _use_up(self) -> End:
        """Take every connection that there is."""
        stack, taken = ExitStack(), False
        with suppress(psycopg.OperationalError):
            for _ in range(CONNECTIONS_MAX):
                stack.enter_context(closing(self._system.connect()))
                taken = True
        if not taken:
            raise Missed
        return self._hold_on(stack.close)

    def _hold_on(self, end: End) -> End:
        self._holding.append(end)
        return end

    def _hold(self, statement: str, *, pinned: bool = False) -> End:
        """Keep a transaction open: its rows, or what vacuum may not take away."""
        stack = ExitStack()
        try:
            connection = stack.enter_context(closing(self._system.connect()))
            connection.execute(
                f"begin isolation level {'repeatable read' if pinned else 'read committed'}"
            )
            connection.execute(statement)
        except psycopg.OperationalError:
            stack.close()
            raise Missed from None
        return self._hold_on(stack.close)

    def _jump(self, seconds: float) -> None:
        shift = self._shift + seconds
        try:
            self._set_clock(max(-SHIFT_SECONDS_MAX, min(SHIFT_SECONDS_MAX, shift)))
        except psycopg.OperationalError:
            raise Missed from None

    def _set_clock(self, shift: float) -> None:
        with self._system.connect() as connection:
            began = time.monotonic()
            connection.execute(
                "update public.chaos_clock set shift = make_interval(secs => %s)", (shift,)
            )
        self.was_set_back |= shift < self._shift
        if shift > self._shift:
            # Who was given a lease before that may begin as long as it lasts by his own clock.
            ended = time.monotonic() + LEASE
            self.excuses.append(Excuse("the clock jumped forward", began, ended))
        self._shift = shift
        self._shift_max = max(self._shift_max, shift)


def _some(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Raise Missed if there are none."""
    if not processes:
        raise Missed
    return processes
