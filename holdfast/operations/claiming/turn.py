"""The usual turn of workers: plain successes end and the first tasks of queues are leased.

It is one call of the database, which decides nothing: what is no plain success, or a claim for
which something has to be decided, is left to `holdfast.operations.ending.complete` and
`holdfast.operations.claiming.claim`.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.store.specs import StoredSpec
from holdfast.store.tables.work.attempts import Success
from holdfast.store.tables.work.ready import FIRST_PLACE, Place
from holdfast.store.tables.work.turns import Asking, TakenTurn, take_turn


class TurnTaken(NamedTuple):
    """Which successes are recorded, what was claimed, and the specs of the jobs of both."""

    recorded: list[bool]
    taken: TakenTurn
    specs: dict[int, StoredSpec]

    @property
    def is_doubtful(self) -> bool:
        """Tell whether whoever was given nothing has to ask in another way."""
        taken = self.taken
        return bool(
            taken.is_declined
            or taken.is_short
            or taken.num_stale
            or taken.num_gated
            or taken.is_repeated
        )

    @property
    def is_gated(self) -> bool:
        """Tell whether limits alone were in the way, and whoever was given nothing looks on."""
        taken = self.taken
        return bool(taken.num_gated) and not (taken.is_declined or taken.is_repeated)

    def list_claimed(self) -> Iterable[tuple[Any, ...]]:
        """List what was claimed: the position of the request, and the fields of a claim."""
        taken = self.taken
        return zip(
            taken.requests or (),
            taken.job_ids or (),
            taken.task_indexes or (),
            taken.attempt_numbers or (),
            taken.tokens or (),
            taken.expiries or (),
            taken.inputs or (),
            taken.failure_counts or (),
            taken.preemption_counts or (),
            taken.free_loss_counts or (),
            taken.started or (),
            strict=True,
        )


async def take_turns(
    ledger: Ledger,
    successes: Sequence[Success],
    requests: Sequence[ClaimRequest],
    *,
    look_ahead: int = 0,
) -> TurnTaken:
    """Record plain successes, and answer sound claims from the same unmeasured queues.

    With limits, it may look at more tasks than are wanted, since some of them may have to wait.

    Raises JobChanged or KeyTaken, or what the database has to say; then nothing has happened.
    """
    claiming = Claiming(ledger, requests)
    taken = await take_turn(
        ledger.database, successes, claiming.asking, look_ahead=look_ahead, **claiming.terms
    )
    return await claiming.read(taken, successes)


class Claiming:
    """The claiming half of a turn: what the database is asked for, and what becomes of it."""

    def __init__(
        self, ledger: Ledger, requests: Sequence[ClaimRequest], *, tasks_max: int | None = None
    ) -> None:
        """Ask for what is requested; each for no more than `tasks_max`, if that is given."""
        self._ledger = ledger
        self._queues = queues = requests[0].queues if requests else ()
        self._is_held = ledger.positions.is_held
        self._places = (
            ledger.positions.find(queues) if self._is_held else dict.fromkeys(queues, FIRST_PLACE)
        )
        self._began_at = time.monotonic()
        self.asking = [
            Asking(
                request.worker_id,
                request.max_tasks if tasks_max is None else min(request.max_tasks, tasks_max),
                request.idempotency_key,
                None if request.idempotency_key is None else request.digest,
                request.start,
            )
            for request in requests
        ]
        self.terms: dict[str, Any] = {
            "places": self._places,
            "is_bounded": any(request.is_bounded for request in requests),
            "notes_places": self._is_held,
        }

    async def read(self, taken: TakenTurn, successes: Sequence[Success] = ()) -> TurnTaken:
        """Tell of what was committed, and fetch the specs of its jobs."""
        ledger = self._ledger
        if self._is_held:
            seconds = time.monotonic() - self._began_at
            ledger.positions.note(self._places, _firsts(taken), seconds=seconds)
        recorded = [False] * len(successes)
        for position in taken.ended or ():
            recorded[position - 1] = True
        jobs = {successes[position - 1].fence.task_id.job_id for position in taken.ended or ()}
        jobs.update(taken.job_ids or ())
        try:
            specs = await _load_specs(ledger, jobs)
        finally:
            ledger.tell(_news(taken, successes, self._queues))
        return TurnTaken(recorded, taken, specs)


async def _load_specs(ledger: Ledger, job_ids: set[int]) -> dict[int, StoredSpec]:
    found = {job_id: spec for job_id in job_ids if (spec := ledger.specs.find(job_id)) is not None}
    if len(found) < len(job_ids):
        async with ledger.database.transaction() as tx:
            return await ledger.specs.load(tx, job_ids)
    return found


def _firsts(taken: TakenTurn) -> dict[str, Place]:
    columns = (
        taken.found_urgencies or (),
        taken.found_at or (),
        taken.found_job_ids or (),
        taken.found_indexes or (),
    )
    return dict(zip(taken.found_queues or (), map(Place, *columns), strict=True))


def _news(taken: TakenTurn, successes: Sequence[Success], queues: Sequence[str]) -> News:
    news = News()
    claimed = set(zip(taken.job_ids or (), taken.task_indexes or (), strict=True))
    news.add_all_opened(
        taken.opened_queues, taken.opened_job_ids, taken.opened_indexes, claimed=claimed
    )
    # What this turn has taken of the room that it made itself is nobody else's.
    for queue in news.roomy_queues.keys() & set(queues):
        news.roomy_queues[queue] -= len(claimed)
    news.roomy_queues = +news.roomy_queues
    news.num_gated = taken.num_gated or 0
    if taken.opens_in is not None:
        news.openings = [(queue, taken.opens_in) for queue in queues]
    if taken.ended is not None:
        ended = [successes[position - 1].fence.task_id.job_id for position in taken.ended]
        news.moves[TaskState.RUNNING, TaskState.SUCCEEDED] = len(ended)
        news.runs = list(zip(ended, taken.ended_seconds or (), strict=True))
        for worker_id in taken.ended_workers or ():
            news.ends[worker_id, TaskState.SUCCEEDED] += 1
    if taken.job_ids is not None:
        news.moves[TaskState.PENDING, TaskState.ASSIGNED] = len(taken.job_ids)
        num_started = sum(taken.started or ())
        if num_started:
            news.moves[TaskState.ASSIGNED, TaskState.RUNNING] = num_started
        news.waits = list(zip(taken.job_ids, taken.waits or (), strict=True))
    news.ended_jobs = taken.ended_job_ids or []
    news.has_follow_ups = bool(taken.has_follow_ups)
    return news
