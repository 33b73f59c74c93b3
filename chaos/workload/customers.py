"""The callers of a run: they submit, cancel and look, and remember what they were told.

Each is a thread with choices of its own from the seed. What was not acknowledged may have happened
or not; it is tried once more under its key, and nothing is concluded from it.
"""

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import holdfast as hf
from chaos.checker.history import Ended, Seen, State, Submitted, Told
from chaos.workload import later_tasks, tasks
from holdfast.errors import NotFound, NotUnique, Unavailable

log = logging.getLogger("chaos")
PATIENCE_SECONDS = 6.0
OPEN_MAX = 50
PAUSE_SECONDS = 0.03
CUSTOMERS = 3
KEYS = 3
SLOTS = 2
GANG = 3
# Of placed tasks, each of which is a process of its own.
PLACED_STORM = 20
ENDED = frozenset(State) - {State.PENDING, State.ASSIGNED, State.BUILDING, State.RUNNING}
GOOD = frozenset({State.SUCCEEDED})
# An attempt that ends of itself before a hard cancel has come to it keeps its outcome.
AFTER_CANCEL = {
    "soft": frozenset({State.KILLED}),
    "hard": frozenset({State.KILLED, State.FAILED, State.WORKER_FAILED}),
}
FAILED = frozenset({State.FAILED})
# What a cancel leaves alone: its order, or that it is alone, ends with the job.
NEVER_CANCELLED = frozenset({"chained", "alone", "saga", "step", "graph"})


class _Open(NamedTuple):
    """A job that its customer still follows."""

    job_id: int
    kind: str
    num_tasks: int


class Customers:
    """What all of them know together."""

    def __init__(self, server_url: str, seed: int, work: Sequence[str]) -> None:
        self.server_url = server_url
        self.work = tuple(work)
        self.seed = seed
        self.submitted: list[Submitted] = []
        self.seen: list[Seen] = []
        self.told: list[Told] = []
        self.ends: list[Ended] = []
        self.cancels: list[tuple[int, float]] = []
        self.failures: list[str] = []
        self.unknown = 0
        # How each job that was asked to be cancelled may end because of that.
        self.cancelled: dict[int, frozenset[State]] = {}
        self.is_closing = threading.Event()
        self._asked: list[list[tuple[str, str]]] = [[] for _ in range(CUSTOMERS)]
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Let them begin."""
        for number in range(CUSTOMERS):
            thread = threading.Thread(target=Customer(self, number).run, daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Have no more submitted, and wait for what is under way."""
        self.is_closing.set()
        for thread in self._threads:
            thread.join(60 + PATIENCE_SECONDS)
            if thread.is_alive():
                self.failures.append("a call of a customer has not come back")

    def ask(self, what: str, about: str = "") -> None:
        """Have all of them do something out of turn."""
        for number in range(CUSTOMERS):
            self._asked[number].append((what, about))

    def take_asked(self, number: int) -> tuple[str, str] | None:
        """Take what one of them was asked for."""
        return self._asked[number].pop() if self._asked[number] else None

    def acknowledged(self) -> list[Submitted]:
        """List what was accepted; what was asked to be cancelled may have been killed."""
        return [
            one._replace(may_end=one.may_end | self.cancelled.get(one.job_id, frozenset()))
            for one in self.submitted
        ]


class Customer:
    """One of them."""

    def __init__(self, all_of_us: Customers, number: int) -> None:
        self._us = all_of_us
        self._number = number
        self._random = random.Random(f"{all_of_us.seed} customer {number}")
        self._count = 0
        self._open: list[_Open] = []

    def run(self) -> None:
        """Go on until closing; whatever is not a refusal or an outage ends the run as a failure."""
        try:
            with hf.Client(self._us.server_url, patience=PATIENCE_SECONDS) as client:
                while not self._us.is_closing.is_set():
                    self._turn(client)
                    time.sleep(PAUSE_SECONDS)
        except Exception as error:
            self._us.failures.append(f"customer {self._number}: {type(error).__name__}: {error}")
            log.exception("customer %d", self._number)

    def submit_each_kind(self, client: hf.Client) -> None:
        """Submit one job of every kind, as a probe of whether all is well."""
        for kind in self._us.work:
            KINDS[kind](self, client)

    def _turn(self, client: hf.Client) -> None:
        try:
            asked = self._us.take_asked(self._number)
            if asked is not None:
                self._obey(client, *asked)
            elif len(self._open) < OPEN_MAX and self._random.random() < 0.5:
                weights = [LASTING.get(kind, 1) for kind in self._us.work]
                [kind] = self._random.choices(self._us.work, weights)
                KINDS[kind](self, client)
            else:
                self._look(client)
        except (Unavailable, TimeoutError):
            self._us.unknown += 1

    def _obey(self, client: hf.Client, what: str, about: str) -> None:
        if what == "storm" and self._number == 0:
            storm = tasks.flaky if "some" in self._us.work else tasks.placed
            size = int(about) if "some" in self._us.work else PLACED_STORM
            self._map(storm, "flaky", range(size))
        elif what == "drain" and self._number == 0:
            for worker in client.workers.list().workers:
                if f"{worker.name}-".startswith(f"{about}-") and worker.lost_at_ms is None:
                    with suppress(NotFound):
                        client.workers.drain(worker.worker_id)
        elif what == "cancel all":
            for job in list(self._open):
                try:
                    self._cancel(client, job, self._random.choice(MODES))
                except (Unavailable, TimeoutError):
                    self._us.unknown += 1

    def _key(self) -> str:
        self._count += 1
        return f"{self._us.seed}-{self._number}-{self._count}"

    def _note(self, kind: str, job_id: str, results: tuple[Any, ...] = (), **more: Any) -> None:
        """Remember a job that was acknowledged."""
        number = int(job_id)
        one = Submitted(number, kind, time.monotonic(), results=results, **more)
        self._us.submitted.append(one)
        self._open.append(_Open(number, kind, max(1, len(results))))

    def _insist(self, submit: Callable[[], Any]) -> Any:
        """Submit, a second time if the answer was lost, or just so: it has to be the same job."""
        try:
            job = submit()
        except (Unavailable, TimeoutError):
            self._us.unknown += 1
            return submit()
        if self._random.random() < 0.05:
            again = submit()
            if again.id != job.id:
                raise AssertionError(f"one key has made two jobs: {job.id} and {again.id}")
        return job

    def _map(self, function: Any, kind: str, inputs: Any, **more: Any) -> None:
        priority = self._random.choice(PRIORITIES)
        with_key = function.with_options(idempotency_key=self._key(), priority=priority)
        given = list(inputs)
        job = self._insist(lambda: with_key.map(given, **more))
        numbers = [each["n"] if isinstance(each, dict) else each for each in given]
        self._note(kind, job.id, tuple(n * tasks.FACTOR for n in numbers))

    def _one(self, function: Any, kind: str, **more: Any) -> None:
        n = self._random.randrange(1000)
        with_key = function.with_options(idempotency_key=self._key())
        job = self._insist(lambda: with_key.submit(n, **more))
        self._note(kind, job.id, (n * tasks.FACTOR,))

    def submit_some(self, client: hf.Client) -> None:
        """Submit a job of many small tasks, of one kind or another."""
        function, kind = self._random.choice(
            [(tasks.quick, "quick"), (tasks.flaky, "flaky"), (tasks.awaited, "awaited")]
        )
        self._map(function, kind, range(self._random.randrange(1, 8)))

    def submit_slow(self, client: hf.Client) -> None:
        """Submit tasks that last, some of them longer than a lease."""
        seconds = self._random.choice(SECONDS)
        self._map(tasks.slow, "slow", range(self._random.randrange(1, 4)), seconds=seconds)

    def submit_apart(self, client: hf.Client) -> None:
        """Submit a task that has a process of its own."""
        self._one(tasks.apart, "apart")

    def submit_paid(self, client: hf.Client) -> None:
        """Submit what has an effect."""
        self._map(later_tasks.paid, "paid", range(self._random.randrange(1, 8)))

    def submit_overdue(self, client: hf.Client) -> None:
        """Submit what runs too long at first."""
        self._one(later_tasks.overdue, "overdue")

    def submit_chained(self, client: hf.Client) -> None:
        """Submit what waits for those before it."""
        self._one(later_tasks.chained, "chained")

    def submit_placed(self, client: hf.Client) -> None:
        """Submit work that is placed."""
        seconds = self._random.choice(SECONDS)
        self._map(tasks.placed, "placed", range(self._random.randrange(1, 4)), seconds=seconds)

    def submit_on_device(self, client: hf.Client) -> None:
        """Submit work that holds a device."""
        self._map(tasks.on_device, "device", range(self._random.randrange(1, 4)))

    def submit_gang(self, client: hf.Client) -> None:
        """Submit a gang."""
        n = self._random.randrange(1000)
        with_key = tasks.gang.with_options(idempotency_key=self._key())
        job = self._insist(lambda: with_key.submit(n))
        self._note("gang", job.id, (n * tasks.FACTOR,) * GANG)

    def submit_limited(self, client: hf.Client) -> None:
        """Submit tasks of which few of a key may run at once."""
        count = self._random.randrange(1, 8)
        keys = [f"key-{self._random.randrange(KEYS)}" for _ in range(count)]
        self._map(
            later_tasks.limited, "limited", [{"key": key, "n": n} for n, key in enumerate(keys)]
        )

    def submit_alone(self, client: hf.Client) -> None:
        """Submit what may be there once; somebody else's may be."""
        n = self._random.randrange(3)
        with_key = later_tasks.alone.with_options(idempotency_key=self._key())
        try:
            job = self._insist(lambda: with_key.submit(n))
        except NotUnique:
            return
        self._note("alone", job.id, (n * tasks.FACTOR,))

    def submit_graph(self, client: hf.Client) -> None:
        """Submit jobs that wait for each other's results."""
        with hf.graph() as graph:
            first = tasks.quick.submit(1)
            parts = [tasks.added.submit([first, n]) for n in (1, 2)]
            tasks.added.submit(parts)
        ids = [int(job.id) for job in graph.jobs]
        after = ((), ids[:1], ids[:1], ids[1:3])
        for job, result, before in zip(graph.jobs, (3, 4, 5, 9), after, strict=True):
            self._note("graph", job.id, (result,), after=tuple(before))

    def submit_saga(self, client: hf.Client) -> None:
        """Submit steps of which the last fails, so that all are undone."""
        saga = self._key()
        with hf.graph() as graph:
            first = tasks.step.submit(saga=saga, n=0)
            second = tasks.step.with_options(depends_on=[first]).submit(saga=saga, n=1)
            tasks.step.with_options(depends_on=[second]).submit(saga=saga, n=2, fails=True)
        before: tuple[int, ...] = ()
        for job, may_end in zip(graph.jobs, (GOOD, GOOD, FAILED), strict=True):
            self._note("saga", job.id, may_end=may_end, after=before)
            before = (int(job.id),)

    def submit_stored(self, client: hf.Client) -> None:
        """Submit what commits a part of a dataset."""
        self._one(tasks.stored, "stored", part=self._key())

    def cancel_one(self, client: hf.Client) -> None:
        """Cancel a job, softly or hard."""
        if self._open:
            self._cancel(client, self._random.choice(self._open), self._random.choice(MODES))

    def _cancel(self, client: hf.Client, job: _Open, mode: Any) -> None:
        if job.kind not in NEVER_CANCELLED:
            may_end = self._us.cancelled.get(job.job_id, frozenset()) | AFTER_CANCEL[mode]
            self._us.cancelled[job.job_id] = may_end
            client.jobs.cancel(job.job_id, mode)
            self._us.cancels.append((job.job_id, time.monotonic()))

    def _look(self, client: hf.Client) -> None:
        """Ask how a task stands; of one that has ended, what it has returned."""
        if not self._open:
            return
        job = self._random.choice(self._open)
        task = f"{job.job_id}.{self._random.randrange(job.num_tasks)}"
        invoked = time.monotonic()
        status = client.tasks.get(task)
        seen = read_seen(status, invoked, time.monotonic())
        self._us.seen.append(seen)
        if not seen.is_finished:
            return
        result = client.tasks.result(task)
        if result.state == "TASK_STATE_SUCCEEDED":
            self._us.told.append(Told(task, json.loads(bytes(result.result))))
        state = State[client.jobs.get(job.job_id).state.removeprefix("JOB_STATE_")]
        if state in ENDED:
            self._us.ends.append(Ended(job.job_id, state))
            self._open.remove(job)


MODES = ("soft", "hard")
# Which of those that wait is first: what runs is never taken away for one that matters more.
PRIORITIES = (0, 0, 0, 5)
SECONDS = (0.5, 2.0, 15.0)
# How much oftener than the rest comes what lasts: else a fault finds little that it could break.
LASTING = {"slow": 3, "placed": 3}
KINDS: dict[str, Callable[[Customer, hf.Client], None]] = {
    "some": Customer.submit_some,
    "slow": Customer.submit_slow,
    "apart": Customer.submit_apart,
    "paid": Customer.submit_paid,
    "chained": Customer.submit_chained,
    "overdue": Customer.submit_overdue,
    "placed": Customer.submit_placed,
    "device": Customer.submit_on_device,
    "gang": Customer.submit_gang,
    "limited": Customer.submit_limited,
    "alone": Customer.submit_alone,
    "graph": Customer.submit_graph,
    "saga": Customer.submit_saga,
    "stored": Customer.submit_stored,
    "cancel": Customer.cancel_one,
}


def read_seen(status: Any, invoked: float, returned: float) -> Seen:
    """Note what a caller was told; what waits is in the attempt that comes next."""
    state = State[status.state.removeprefix("TASK_STATE_")]
    is_finished = status.finished_at_ms is not None
    attempt = status.current_attempt_id
    if state is State.PENDING and not is_finished:
        attempt += 1
    return Seen(status.task_id, attempt, state, invoked, returned, is_finished)
