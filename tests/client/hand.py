"""A worker by hand: claims what there is and says how it ended, one call at a time."""

from typing import Any

import msgspec

from holdfast.client.client import Client
from holdfast.model.datasets import OutputEntry
from holdfast.wire.answers import (
    ClaimedTask,
    LogAppendAnswer,
    TaskClaimAnswer,
    TaskCompleteAnswer,
    WorkerRegisterAnswer,
)
from holdfast.wire.events import WRITE_PATH, TaskEventRequest
from holdfast.wire.requests import (
    LogAppendRequest,
    Nothing,
    TaskClaimRequest,
    TaskCompleteRequest,
    TaskCompletion,
    WorkerRegisterRequest,
)

WAIT_MS = 10_000


class Hand:
    """Works for the queue `q`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._worker_id = "hand-1"
        body = WorkerRegisterRequest(self._worker_id, "hand", "here", ["q"])
        self._call("/internal/worker-register", body, WorkerRegisterAnswer)

    def claim(self) -> ClaimedTask:
        """Claim the next task."""
        body = TaskClaimRequest(self._worker_id, queues=["q"], wait_ms=WAIT_MS)
        answer: TaskClaimAnswer = self._call("/internal/task-claim", body, TaskClaimAnswer)
        [claim] = answer.claims
        return claim

    def print(self, claim: ClaimedTask, text: bytes, offset: int = 0) -> None:
        """Write output for an attempt."""
        body = LogAppendRequest(claim.task_id, claim.attempt, claim.lease_token, offset, text)
        self._call("/internal/task-log", body, LogAppendAnswer)

    def tell(self, claim: ClaimedTask, kind: str, payload: Any) -> None:
        """Note an event of user code."""
        text = msgspec.Raw(msgspec.json.encode(payload))
        body = TaskEventRequest(claim.task_id, claim.attempt, claim.lease_token, kind, text)
        self._call(WRITE_PATH, body, Nothing)

    def finish(self, claim: ClaimedTask, result: Any = None) -> None:
        """Say that an attempt has succeeded."""
        self._complete(claim, status="succeeded", result=msgspec.Raw(msgspec.json.encode(result)))

    def commit(self, claim: ClaimedTask, entries: list[dict[str, Any]]) -> None:
        """Say that an attempt has succeeded, and what it has written."""
        outputs = msgspec.convert(entries, list[OutputEntry])
        self._complete(claim, status="succeeded", outputs=outputs)

    def fail(self, claim: ClaimedTask, error_class: str = "PermanentError") -> None:
        """Say that an attempt has failed."""
        text = f"{error_class}: it went wrong"
        self._complete(claim, status="failed", error=text, error_class=error_class, stage="exec")

    def work(self, *results: Any) -> None:
        """Claim as many tasks as there are results, and finish each with its own."""
        for result in results:
            self.finish(self.claim(), result)

    def _complete(self, claim: ClaimedTask, **fields: Any) -> None:
        completion = TaskCompletion(claim.task_id, claim.attempt, claim.lease_token, **fields)
        body = TaskCompleteRequest(self._worker_id, [completion])
        [answer] = self._call("/internal/task-complete", body, TaskCompleteAnswer).results
        assert answer.accepted, answer

    def _call(self, path: str, body: Any, returns: Any) -> Any:
        return self._client.loop_thread.run(self._client.change(path, body, returns))
