"""The answer of a worker to a call: every attempt that it holds, running or ended."""

from collections.abc import Iterable

from holdfast.model.datasets import weigh
from holdfast.wire.cluster import (
    CompletedTask,
    RunningTask,
    WorkerHeartbeatAnswer,
    WorkerHeartbeatRequest,
)
from holdfast.worker.placed.attempt import PlacedAttempt

# Well below what a server reads of an answer: one large result more must fit, too.
RESULTS_BYTES_MAX = 8 << 20


def write_answer(
    request: WorkerHeartbeatRequest, attempts: Iterable[PlacedAttempt], *, draining: bool = False
) -> WorkerHeartbeatAnswer:
    """Name all attempts; what ended and does not fit any more counts as running for this once."""
    running: list[RunningTask] = []
    completed: list[CompletedTask] = []
    room = RESULTS_BYTES_MAX
    for attempt in attempts:
        if attempt.outcome is None or room <= 0:
            running.append(attempt.report())
            continue
        completed.append(attempt.complete())
        room -= len(attempt.outcome.result or "") + len(attempt.outcome.error or "")
        room -= weigh(attempt.outcome.outputs)
    return WorkerHeartbeatAnswer(
        worker_id=request.worker_id,
        epoch=request.epoch,
        number=request.number,
        running_tasks=running,
        completed_tasks=completed,
        draining=draining,
    )
