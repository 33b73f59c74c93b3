"""The routes of dead letters: their list and their sum, and what an operator decides about them."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar, get_args

import msgspec

from holdfast.api import convert
from holdfast.api.page_tokens import (
    LetterToken,
    PageToken,
    TaskToken,
    check_page_size,
    from_microseconds,
    read_token,
    to_microseconds,
    write_token,
)
from holdfast.api.route import Call, Narrowing, Route, decode_text
from holdfast.errors import IllegalMove, Invalid, NotAllowed
from holdfast.ledger.keys import recall, request_key
from holdfast.model.access.roles import Role
from holdfast.model.work.ids import TaskId, parse_job_id, parse_task_id
from holdfast.model.work.outcomes import STAGES, ReasonCode
from holdfast.operations import dead_letters as operations
from holdfast.operations.dead_letters import discard
from holdfast.operations.submitting.release import Broken, Released, find_broken, release
from holdfast.operations.submitting.replay import Manner, Replay, replay
from holdfast.rules.reading.fingerprint import fingerprint, first_line, is_fingerprint
from holdfast.rules.submitting.submission import check_text
from holdfast.store.database import Database, Transaction
from holdfast.store.reads.work import dead_letters
from holdfast.store.reads.work.dead_letters import DeadLetterRow, LetterRow, Letters, list_open_ids
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.dead_letters import (
    DeadLetter,
    DeadLetterPage,
    DiscardRequest,
    ReplayAnswer,
    Replayed,
    ReplayRequest,
)
from holdfast.wire.lists import (
    DeadLetterListQuery,
    DeadLetterSummary,
    LetterCell,
    LetterGroup,
    LetterSummaryQuery,
)
from holdfast.wire.requests import DeadLetterFilter, DeadLetterRequest, Nothing
from holdfast.wire.status import Changed

TEXT_MAX = 256
REPLAY_MAX = 10_000
# A filter means what matches by now: others may replay or discard the same.
LOOKS_MAX = 5
Query = TypeVar("Query", LetterSummaryQuery, DeadLetterListQuery)
CONFLICTS = {409: ErrorAnswer}


async def show_dead_letters(call: Call[None, DeadLetterListQuery]) -> DeadLetterPage:
    """List dead letters: those that wait for a decision, or with `settled` all of them."""
    asked = _narrowed(call, call.query)
    wanted = letter_filter(asked, open_only=not asked.settled)
    page_size = check_page_size(asked.page_size)
    read = _read_newest if asked.newest else _read_by_id
    async with call.reads.transaction() as tx:
        rows, following = await read(tx, wanted, asked.page_token, page_size=page_size)
    return DeadLetterPage([convert.dead_letter(row) for row in rows], write_token(following))


async def _read_by_id(
    tx: Transaction,
    wanted: dead_letters.DeadLetterFilter,
    page_token: str | None,
    *,
    page_size: int,
) -> tuple[list[DeadLetterRow], PageToken | None]:
    token = read_token(page_token, TaskToken)
    after = dead_letters.FIRST_DEAD_LETTER
    if token is not None:
        after = TaskId(token.job_id, token.task_index)
    page = await dead_letters.list_dead_letters(tx, wanted, after=after, page_size=page_size)
    return page.rows, None if page.next_after is None else TaskToken(*page.next_after)


async def _read_newest(
    tx: Transaction,
    wanted: dead_letters.DeadLetterFilter,
    page_token: str | None,
    *,
    page_size: int,
) -> tuple[list[DeadLetterRow], PageToken | None]:
    token = read_token(page_token, LetterToken)
    after = dead_letters.NEWEST_LETTER
    if token is not None:
        at = from_microseconds(token.microseconds)
        after = dead_letters.LetterMoment(at, token.job_id, token.task_index)
    page = await dead_letters.list_newest_first(tx, wanted, after=after, page_size=page_size)
    if page.next_after is None:
        return page.rows, None
    at, job_id, task_index = page.next_after
    return page.rows, LetterToken(to_microseconds(at), job_id, task_index)


async def show_dead_letter(call: Call[None, Nothing]) -> DeadLetter:
    """Read one dead letter."""
    task_id = parse_task_id(call.path["task_id"])
    async with call.runtime.reads.transaction() as tx:
        return convert.dead_letter(await dead_letters.get_dead_letter(tx, task_id))


async def sum_up_letters(call: Call[None, LetterSummaryQuery]) -> DeadLetterSummary:
    """Sum up the dead letters that wait for a decision, of all jobs or one; of many, the newest."""
    wanted = letter_filter(_narrowed(call, call.query))
    async with call.reads.transaction() as tx:
        letters = await dead_letters.read_letters(tx, wanted)
    # Thousands of errors take a while to tell apart, and this loop has leases to renew.
    return await asyncio.to_thread(sum_up, letters)


def _narrowed(call: Call[None, Query], asked: Query) -> Query:
    """Keep a list to the queues of whoever asks; by owner it cannot be kept."""
    if call.caller.owners:
        call.caller.refuse_narrow("the list of dead letters")
    return msgspec.structs.replace(asked, queue=call.caller.narrow_queue(asked.queue))


def letter_filter(
    asked: LetterSummaryQuery | DeadLetterFilter, *, open_only: bool = True
) -> dead_letters.DeadLetterFilter:
    """Read a filter; unknown reasons and stages are refused, and texts that no name can be."""
    for field, known in (("reason_code", get_args(ReasonCode)), ("stage", STAGES)):
        value = getattr(asked, field)
        if value is not None and value not in known:
            raise Invalid(field, f"{value!r} is unknown; use one of {', '.join(known)}")
    for field in ("type", "queue"):
        check_text(field, getattr(asked, field) or "", TEXT_MAX)
    kind = asked.fingerprint if isinstance(asked, DeadLetterFilter) else None
    if kind is not None and not is_fingerprint(kind):
        problem = f"{kind!r} is none; give that of a group in /api/dead-letters:summary"
        raise Invalid("fingerprint", problem)
    return dead_letters.DeadLetterFilter(
        asked.reason_code,
        asked.stage,
        asked.type,
        asked.queue,
        None if asked.job_id is None else parse_job_id(asked.job_id),
        open_only=open_only,
        fingerprint=kind,
    )


def sum_up(letters: Letters) -> DeadLetterSummary:
    """Sum up the counts, and gather those of the newest that are alike."""
    alike: dict[str, list[LetterRow]] = defaultdict(list)
    for letter in letters.newest:
        alike[fingerprint(letter.error_class, letter.error)].append(letter)
    groups = [_group(kind, found) for kind, found in alike.items()]
    return DeadLetterSummary(
        total=sum(count for *_, count in letters.cells),
        is_truncated=not letters.is_whole,
        cells=[LetterCell(*cell) for cell in letters.cells],
        groups=sorted(groups, key=lambda group: (group.count, group.newest_at), reverse=True),
    )


def _group(kind: str, letters: Sequence[LetterRow]) -> LetterGroup:
    newest = letters[0]
    return LetterGroup(
        fingerprint=kind,
        error_class=newest.error_class,
        example=None if newest.error is None else first_line(newest.error),
        count=len(letters),
        types=sorted({letter.type for letter in letters}),
        newest_at=newest.dead_lettered_at,
        task_ids=[str(letter.id) for letter in letters],
    )


async def dead_letter_task(call: Call[DeadLetterRequest, Nothing]) -> Changed:
    """Move a task that has not finished to the dead letters, as an operator's decision."""
    task_id = parse_task_id(call.path["task_id"])
    await operations.dead_letter_task(
        call.runtime.ledger,
        task_id,
        actor=call.actor,
        reason=call.body.reason,
        idempotency_key=call.body.idempotency_key,
    )
    return Changed(True)


async def replay_letters(call: Call[ReplayRequest, Nothing]) -> ReplayAnswer:
    """Submit dead letters again, by exact ids or by a filter; a dry run only tells which."""
    asked = call.body
    if (asked.task_ids is None) == (asked.filter is None):
        raise Invalid("task_ids", "give either task_ids or filter, one of the two")
    if asked.task_ids is not None:
        return await _replay(call, [parse_task_id(text, "task_ids") for text in asked.task_ids])
    reads = call.runtime.reads
    for looks_left in reversed(range(LOOKS_MAX)):
        try:
            return await _replay(call, await _find_letters(call, reads))
        except IllegalMove:  # somebody has replayed or discarded some of them meanwhile
            if not looks_left:
                raise
            reads = call.runtime.ledger.database  # which a replica may not know yet
    raise AssertionError("the last look returns or raises")


async def _replay(call: Call[ReplayRequest, Nothing], task_ids: Sequence[TaskId]) -> ReplayAnswer:
    asked = call.body
    await call.check_jobs(task_id.job_id for task_id in task_ids)
    ledger = call.runtime.ledger
    job_ids = {task_id.job_id for task_id in task_ids}
    broken = await find_broken(ledger, job_ids, to_resume=asked.resume)
    if asked.resume:
        await call.check_jobs(broken.in_vain)
    manner = Manner(
        asked.rebind_outputs,
        asked.canary,
        None if asked.input is msgspec.UNSET else decode_text(asked.input, "input"),
        asked.rate,
    )
    # What a filter matches changes with the replay: a repeat is known by what it asks for.
    request = [
        asked.task_ids,
        asked.filter,
        *(["rebind"] if asked.rebind_outputs else []),
        *(["canary", asked.canary] if asked.canary is not None else []),
        *(["rate", asked.rate] if asked.rate is not None else []),
        *(["input", manner.edited] if manner.edited is not None else []),
        *(["resume"] if asked.resume else []),
    ]
    keyed = request_key("replay", call.actor, asked.idempotency_key, request=request)
    if task_ids or asked.filter is None:
        replays = await replay(
            ledger,
            task_ids,
            actor=call.actor,
            dry_run=asked.dry_run,
            keyed=keyed,
            manner=manner,
        )
    else:
        replays = await recall(ledger, None if asked.dry_run else keyed, list[Replay]) or []
    released = Released()
    if asked.resume and not asked.dry_run:
        sources = [made.replay_of for made in replays]
        rebind = asked.rebind_outputs
        released = await release(
            ledger, sources, broken, actor=call.actor, keyed=keyed, rebind=rebind
        )
    return _answer(replays, broken, released, dry_run=asked.dry_run)


def _answer(
    replays: Sequence[Replay], broken: Broken, released: Released, *, dry_run: bool
) -> ReplayAnswer:
    return ReplayAnswer(
        [
            Replayed(
                str(made.replay_of),
                [str(task_id) for task_id in made.task_ids],
                None if made.job_id is None else str(made.job_id),
                made.is_canary,
                made.input_edited,
                made.start_delay,
                made.start_rate,
            )
            for made in replays
        ],
        dry_run,
        len(broken.in_vain),
        [str(job_id) for job_id in sorted(broken.waited_for)],
        [convert.resumed_job(each) for each in released.resumed],
        {str(job_id): why for job_id, why in released.not_resumed.items()},
    )


async def _find_letters(call: Call[ReplayRequest, Nothing], reads: Database) -> list[TaskId]:
    asked = call.body.filter
    assert asked is not None
    if asked.job_id is not None:
        await call.check_jobs([parse_job_id(asked.job_id)])
    elif call.caller.owners:
        raise NotAllowed(
            "a filter of dead letters cannot be narrowed to owners, which this token is for; give "
            "the job_id of one of their jobs in it, or task_ids",
            lacks="a job_id",
        )
    else:
        queue = call.caller.narrow_queue(asked.queue)
        asked = msgspec.structs.replace(asked, queue=queue)
    wanted = letter_filter(asked)
    async with reads.transaction() as tx:
        return await list_open_ids(tx, wanted, count_max=REPLAY_MAX)


async def discard_letters(call: Call[DiscardRequest, Nothing]) -> Changed:
    """Settle dead letters without running them again; exact ids only."""
    task_ids = [parse_task_id(text, "task_ids") for text in call.body.task_ids]
    key = call.body.idempotency_key
    await discard(call.runtime.ledger, task_ids, actor=call.actor, idempotency_key=key)
    return Changed(True)


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/tasks/{task_id}:dead-letter",
        dead_letter_task,
        Changed,
        Role.SUBMIT,
        body=DeadLetterRequest,
        also=CONFLICTS,
    ),
    Route(
        "POST",
        "/api/dead-letters:replay",
        replay_letters,
        ReplayAnswer,
        Role.SUBMIT,
        body=ReplayRequest,
        also=CONFLICTS,
        narrowing=Narrowing.FUNCTION,
    ),
    Route(
        "POST",
        "/api/dead-letters:discard",
        discard_letters,
        Changed,
        Role.ADMIN,
        body=DiscardRequest,
        also=CONFLICTS,
    ),
    Route(
        "GET",
        "/api/dead-letters:summary",
        sum_up_letters,
        DeadLetterSummary,
        Role.READ,
        query=LetterSummaryQuery,
        narrowing=Narrowing.FUNCTION,
        at_replica=True,
    ),
    Route(
        "GET",
        "/api/dead-letters",
        show_dead_letters,
        DeadLetterPage,
        Role.CONTENT,
        query=DeadLetterListQuery,
        narrowing=Narrowing.FUNCTION,
        at_replica=True,
    ),
    Route("GET", "/api/dead-letters/{task_id}", show_dead_letter, DeadLetter, Role.CONTENT),
)
