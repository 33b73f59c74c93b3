"""What a call changes on a worker: attempts begin, live on and end, by the clock it is given.

A worker obeys its calls in order; whatever is not in one is not wanted any more.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from holdfast.model.shapes import read_tolerantly
from holdfast.wire.cluster import PlacedJob, TaskToRun, WorkerHeartbeatRequest
from holdfast.worker.placed.attempt import PlacedAttempt, TakeoverRecord
from holdfast.worker.placed.held import Held
from holdfast.worker.placed.incarnation import Incarnation
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.attempt_outcome import HANDED_BACK, KILLED

log = logging.getLogger("holdfast.placed")


class Obedience:
    """Brings what is here closer to what is wanted."""

    def __init__(
        self,
        incarnation: Incarnation,
        attempts: Held,
        folder: Path,
        *,
        ask_for_call: Callable[[], None],
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        self._incarnation = incarnation
        self._attempts = attempts
        self._folder = folder
        self._ask_for_call = ask_for_call
        self._clock = clock

    def obey(self, request: WorkerHeartbeatRequest, *, is_draining: bool) -> None:
        """Do what a call asks for; who drains begins nothing more. Raises CallRefused."""
        expires_at = self._incarnation.expires_at
        self._incarnation.admit(request)
        for name in request.acknowledged:
            self._attempts.drop((name.task_id, name.attempt))
        wanted = {(task.task_id, task.attempt) for task in request.tasks_to_run}
        ended = {
            (task.task_id, task.attempt): expires_at(request, task.lease_ms)
            for task in request.tasks_to_kill
        }
        for task in request.tasks_to_run:
            self._want(task, expires_at(request, task.lease_ms), is_draining=is_draining)
        for attempt in self._attempts:
            if attempt.key in ended:
                # Its lease lives on as long as its grace.
                attempt.renew(ended[attempt.key] or attempt.expires_at)
                attempt.end()
            elif attempt.key not in wanted:  # not waited for, and its lease may be another's by now
                attempt.ask_to_stop("hard")
        self._attempts.forget_dropped(wanted | ended.keys())
        self._incarnation.note_answer(self._clock())

    def _want(self, task: TaskToRun, expires_at: float | None, *, is_draining: bool) -> None:
        key = (task.task_id, task.attempt)
        attempt = self._attempts.find(key)
        if attempt is not None:
            if expires_at is not None:
                attempt.renew(expires_at)
            elif not self._incarnation.has_asked_for_call:
                # Adopted: it cannot be renewed before our first answer is stored.
                self._incarnation.has_asked_for_call = True
                self._ask_for_call()
            if task.cancel_ms is not None:
                attempt.ask_to_stop("soft", task.cancel_ms / 1000)
        elif expires_at is not None and not self._attempts.was_dropped(key):
            self._take(task, expires_at, is_draining=is_draining)

    def _take(self, task: TaskToRun, expires_at: float, *, is_draining: bool) -> None:
        """Begin an attempt that is new here, unless there is no point in it."""
        if bytes(task.job) == b"null":  # a renewal of one that is not here
            return
        try:
            job = read_tolerantly(bytes(task.job), PlacedJob)
        except msgspec.DecodeError as error:  # then its lease runs out, and the others run on
            log.error("task %s cannot be understood here: %s", task.task_id, error)
            return
        record = TakeoverRecord(
            task_id=task.task_id,
            attempt=task.attempt,
            lease_token=task.lease_token,
            job=job,
            began_at=self._clock(),
            trace_parent=task.trace_parent or job.trace_parent,
        )
        folder = self._folder / f"{task.task_id}.{task.attempt}"
        attempt = PlacedAttempt(record, folder, expires_at, clock=self._clock)
        attempt.take(task)
        if is_draining:
            attempt.outcome = HANDED_BACK
        elif task.cancel_ms is not None:
            attempt.outcome = KILLED
        elif self._clock() >= attempt.kill_at:
            return
        self._attempts.add(attempt)


def count_patience(attempts: Iterable[PlacedAttempt], called_at: float, most: float) -> float:
    """Say for how long a worker waits for a call: till its leases have ended, at most."""
    held = list(attempts)
    if not held:
        return most
    left = max(attempt.expires_at for attempt in held) - called_at
    # Leases that end while calls come are another matter: then our answers get lost.
    least = min(attempt.job.lease for attempt in held) / 2
    return min(most, max(left, least))
