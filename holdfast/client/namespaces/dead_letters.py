"""`client.dead_letters`: tasks that were put aside, and what becomes of them."""

from collections.abc import Coroutine, Sequence
from math import isfinite
from typing import Any

import msgspec

from holdfast.client.both import both
from holdfast.client.namespaces.namespace import Namespace, repeatable
from holdfast.client.pages import COUNT_MAX, read_some
from holdfast.errors import Invalid
from holdfast.model.work.ids import parse_task_id
from holdfast.wire.dead_letters import (
    DeadLetter,
    DeadLetterPage,
    DiscardRequest,
    ReplayAnswer,
    ReplayRequest,
)
from holdfast.wire.lists import DeadLetterListQuery
from holdfast.wire.requests import DeadLetterFilter
from holdfast.wire.status import Changed

_PATH = "/api/dead-letters"


class DeadLetters(Namespace):
    """Dead letters, by the ids of their tasks."""

    @both
    def get(self, task_id: str) -> Coroutine[Any, Any, DeadLetter]:
        """Read one dead letter with its input."""
        return self._client.read(f"{_PATH}/{parse_task_id(task_id)}", DeadLetter)

    @both
    def replay(
        self,
        which: Sequence[str] | DeadLetterFilter,
        *,
        dry_run: bool = False,
        idempotency_key: str | None = None,
        rebind_outputs: bool = False,
        canary: int | None = None,
        rate: float | None = None,
        resume: bool = False,
        input: Any = msgspec.UNSET,
    ) -> Coroutine[Any, Any, ReplayAnswer]:
        """Submit dead letters again: those with these ids, or all that a filter matches.

        The first `canary` of them go first, and the others when these have succeeded; `rate` of
        them start in a second. A single one may get another input than its own. With `resume`, what
        was killed because their jobs failed goes on with the replays.
        """
        if rate is not None and not isfinite(rate):
            raise Invalid("rate", f"is {rate}; give how many tasks start in a second")
        body = ReplayRequest(
            filter=which if isinstance(which, DeadLetterFilter) else None,
            task_ids=None if isinstance(which, DeadLetterFilter) else [*which],
            dry_run=dry_run,
            idempotency_key=None if dry_run else repeatable(idempotency_key),
            rebind_outputs=rebind_outputs,
            canary=canary,
            rate=rate,
            resume=resume,
            input=input if input is msgspec.UNSET else self._encode(input, "input"),
        )
        return self._client.change(f"{_PATH}:replay", body, ReplayAnswer)

    @both
    async def discard(self, task_ids: Sequence[str], *, idempotency_key: str | None = None) -> None:
        """Settle dead letters without running them again."""
        body = DiscardRequest([*task_ids], repeatable(idempotency_key))
        await self._client.change(f"{_PATH}:discard", body, Changed)

    @both
    def list(
        self,
        *,
        reason_code: str | None = None,
        stage: str | None = None,
        type: str | None = None,
        queue: str | None = None,
        job_id: str | None = None,
        fingerprint: str | None = None,
        settled: bool = False,
        newest: bool = False,
        count_max: int = COUNT_MAX,
    ) -> Coroutine[Any, Any, DeadLetterPage]:
        """List dead letters that wait for a decision, by id; or also those that are settled."""
        query = DeadLetterListQuery(
            reason_code, stage, type, queue, job_id, fingerprint, settled=settled, newest=newest
        )
        read = self._client.read
        return read_some(read, _PATH, DeadLetterPage, query=query, count_max=count_max)
