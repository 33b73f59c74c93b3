"""What a worker asks a server for: to be known to it, and to be given tasks."""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from uuid import uuid4

import msgspec

from holdfast.client.pauses import Pauses
from holdfast.client.transport import Transport
from holdfast.errors import Invalid, LeaseConflict, NotAllowed, NotFound, Refused, Unavailable
from holdfast.model.programs import DATE_HEADER, write_date
from holdfast.model.work.ids import TaskId
from holdfast.model.workers.resources import Capacity
from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.wire.answers import (
    CLAIM_WITH_COMPLETIONS,
    START_WITH_CLAIM,
    TaskClaimAnswer,
    WorkerRegisterAnswer,
)
from holdfast.wire.requests import TaskClaimRequest, WorkerRegisterRequest
from holdfast.worker.claimed.attempt import Attempt, JobCache
from holdfast.worker.claimed.carried_claim import CarriedClaim, NotCarried
from holdfast.worker.processes.clock import boot_clock

log = logging.getLogger("holdfast.claims")
CALL_SECONDS_MAX = 15.0
RECALL_SECONDS_MAX = 5.0
RECALL_WAIT_SECONDS = 0.05
RECALL_PATIENCE = 5  # times what a call takes at present
PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 2.0


class Replaced(Exception):
    """The server says that another incarnation has replaced this one."""


class Claims:
    """The calls by which one incarnation gets its work."""

    def __init__(
        self,
        transport: Transport,
        credential: WorkerCredential,
        queues: Sequence[str],
        *,
        capacity: Capacity | None = None,
        book: str | None = None,
        starts_at_once: bool = False,
        hand_back: Callable[[Sequence[Attempt]], None],
    ) -> None:
        self._transport = transport
        self._credential = credential
        self._worker_id = credential.worker_id
        self._queues = list(queues)
        self._capacity = capacity
        self._book = book
        self._starts_at_once = starts_at_once
        self._hand_back = hand_back
        self._jobs = JobCache()
        self._abilities: frozenset[str] = frozenset()  # of the server that was asked last

    async def register(
        self,
        name: str,
        replaces: WorkerCredential | None,
        is_leaving: asyncio.Event,
        *,
        crash: str | None = None,
    ) -> int:
        """Say who we are and whom we replace; returns how many attempts that has ended."""
        host = socket.gethostname()
        body = WorkerRegisterRequest(
            self._worker_id,
            name,
            host,
            self._queues,
            None if replaces is None else replaces.worker_id,
            secret=self._credential.secret,
            resources=self._capacity,
            book=self._book,
            crash=crash,
            replaces_secret=(replaces.secret or None) if replaces is not None else None,
        )
        try:
            return await self._insist_on_registering(body, is_leaving)
        except (NotFound, Invalid, NotAllowed) as error:
            if replaces is None:
                raise
            # Its rows are gone, or it was somebody else's: then there is nothing to take over.
            log.info("does not replace %s: %s", replaces.worker_id, error)
            body = msgspec.structs.replace(body, replaces=None, replaces_secret=None, crash=None)
            return await self._insist_on_registering(body, is_leaving)

    async def claim(
        self, room: int, wait_ms: int, *, free: Capacity | None = None
    ) -> list[Attempt]:
        """Claim from the queues; a request whose answer is lost is repeated under the same key."""
        return await self._claim_from_queues(self._ask(room, wait_ms, free))

    @property
    def can_be_carried(self) -> bool:
        """Whether the server has said that completions may bring a claim along."""
        return CLAIM_WITH_COMPLETIONS in self._abilities

    def prepare_carried(self, room: int, *, free: Capacity | None = None) -> CarriedClaim:
        """Describe a claim that completions can take along."""
        return CarriedClaim(self._ask(room, 0, free), self._take_late)

    async def finish_carried(self, carried: CarriedClaim) -> list[Attempt]:
        """Wait for what a carried claim has brought; if nobody knows, ask under the same key."""
        return await self._claim_from_queues(carried.body, carried)

    def _take_late(self, answer: TaskClaimAnswer, sent_at: float) -> None:
        """Hand back what has come for a worker that leaves; some of it may have been found."""
        self._hand_back(self._read(answer, sent_at))

    def note_refusal(self) -> None:
        """Take note that a server has refused a claim beside completions: it is an older one."""
        self._abilities = frozenset()

    def _ask(self, room: int, wait_ms: int, free: Capacity | None) -> TaskClaimRequest:
        return TaskClaimRequest(
            self._worker_id,
            queues=self._queues,
            max_tasks=room,
            wait_ms=wait_ms,
            idempotency_key=uuid4().hex,
            free=free,
            capacity=self._capacity,
            book=self._book,
            start=self._starts_at_once and START_WITH_CLAIM in self._abilities,
        )

    async def _claim_from_queues(
        self, body: TaskClaimRequest, carried: CarriedClaim | None = None
    ) -> list[Attempt]:
        try:
            return await self._insist_on_claiming(body, carried)
        except LeaseConflict as error:
            raise Replaced(str(error)) from error

    async def claim_by_id(self, task_id: TaskId, *, free: Capacity | None = None) -> list[Attempt]:
        """Claim one task; raises LeaseConflict if it cannot be had."""
        body = TaskClaimRequest(
            self._worker_id,
            task_id=str(task_id),
            idempotency_key=uuid4().hex,
            free=free,
            book=self._book,
        )
        return await self._insist_on_claiming(body)

    async def _insist_on_registering(
        self, body: WorkerRegisterRequest, is_leaving: asyncio.Event
    ) -> int:
        pauses = Pauses(PAUSE_SECONDS, PAUSE_SECONDS_MAX)
        while True:
            try:
                answer = await self._transport.call(
                    "POST",
                    "/internal/worker-register",
                    WorkerRegisterAnswer,
                    body=body,
                    headers={DATE_HEADER: write_date(datetime.now(UTC))},
                    seconds_max=CALL_SECONDS_MAX,
                )
                return answer.taken_over
            except (NotFound, Invalid):
                raise
            except (Unavailable, Refused) as error:
                may_not_replace = body.replaces is not None and isinstance(error, NotAllowed)
                if is_leaving.is_set() or may_not_replace:
                    raise
                log.warning("cannot register yet: %s", error)
                pause = pauses.next(error)
            await asyncio.sleep(pause)

    async def _insist_on_claiming(
        self, body: TaskClaimRequest, carried: CarriedClaim | None = None
    ) -> list[Attempt]:
        calling = asyncio.create_task(self._call_until_answered(body, carried))
        try:
            return await asyncio.shield(calling)
        except asyncio.CancelledError:
            try:
                self._hand_back(await self._recall(calling, body))
            except (Unavailable, Refused) as error:
                log.warning("what the last claim has brought is not known: %s", error)
            raise
        finally:
            calling.cancel()

    async def _call_until_answered(
        self, body: TaskClaimRequest, carried: CarriedClaim | None
    ) -> list[Attempt]:
        pauses = Pauses(PAUSE_SECONDS, PAUSE_SECONDS_MAX)
        while True:
            try:
                if carried is not None:
                    return self._read(await carried.wait(), carried.sent_at)
                return await self._call(body, body.wait_ms / 1000 + CALL_SECONDS_MAX)
            except NotCarried:
                carried = None
                continue
            except (LeaseConflict, Invalid):
                raise
            except (Unavailable, Refused) as error:
                log.warning("cannot claim now: %s", error)
                carried, pause = None, pauses.next(error)
            await asyncio.sleep(pause)

    async def _recall(
        self, calling: asyncio.Task[list[Attempt]], body: TaskClaimRequest
    ) -> list[Attempt]:
        """Find out what a claim that nobody waits for any more has brought.

        One that is being written is answered soon. One that waits for tasks is ended, and asked
        again under the same key, which brings to light what it has claimed at the last moment:
        at a second look, if it is still at work during the first.
        """
        await asyncio.wait([calling], timeout=RECALL_WAIT_SECONDS)
        if calling.done():
            return calling.result()
        calling.cancel()
        await asyncio.wait([calling])
        body = msgspec.structs.replace(body, wait_ms=0)
        looked_at = boot_clock()
        with suppress(LeaseConflict):
            if attempts := await self._call(body, RECALL_SECONDS_MAX):
                return attempts
        await asyncio.sleep(RECALL_PATIENCE * (boot_clock() - looked_at))
        return await self._call(body, RECALL_SECONDS_MAX)

    async def _call(self, body: TaskClaimRequest, seconds_max: float) -> list[Attempt]:
        try:
            return await self._call_once(body, seconds_max)
        except Invalid as error:
            if error.field != "start":
                raise
            # Another server than the one that offered it, and an older one.
            self.note_refusal()
            return await self._call_once(msgspec.structs.replace(body, start=False), seconds_max)

    async def _call_once(self, body: TaskClaimRequest, seconds_max: float) -> list[Attempt]:
        sent_at = boot_clock()
        answer = await self._transport.call(
            "POST", "/internal/task-claim", TaskClaimAnswer, body=body, seconds_max=seconds_max
        )
        return self._read(answer, sent_at)

    def _read(self, answer: TaskClaimAnswer, sent_at: float) -> list[Attempt]:
        self._abilities = frozenset(answer.abilities)
        leased_at = sent_at + answer.waited_ms / 1000
        attempts = []
        for claim in answer.claims:
            try:
                attempts.append(Attempt(claim, self._jobs.decode(claim.job), leased_at))
            except msgspec.ValidationError as error:
                # Of a newer kind than we know: its lease runs out, the others are run.
                log.error("task %s cannot be read, and is left: %s", claim.task_id, error)
        return attempts
