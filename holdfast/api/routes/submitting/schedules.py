"""The routes of schedules: set, show, pause, resume and delete them; fire them by hand."""

from datetime import datetime
from typing import Any

import msgspec

from holdfast.api import schedule_answers as answers
from holdfast.api.page_tokens import (
    Microseconds,
    PageToken,
    Text,
    check_page_size,
    from_microseconds,
    read_token,
    to_microseconds,
    write_token,
)
from holdfast.api.route import Call, Narrowing, Reply, Route, decode_text
from holdfast.errors import Invalid
from holdfast.ledger.keys import request_key
from holdfast.model.access.roles import Role
from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.model.submitting.spec import JobSpec, Submission
from holdfast.operations.schedules import by_hand, change
from holdfast.operations.schedules.declare import Declared, KeptTo, declare
from holdfast.rules.schedules.checks import check_schedule_name
from holdfast.store.database import Database
from holdfast.store.reads import schedules as reads
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.requests import JobRequest, Nothing
from holdfast.wire.schedules import (
    DECLARE_PATH,
    LIST_PATH,
    BackfillAnswer,
    BackfillRequest,
    DeclareAnswer,
    DeclareRequest,
    FiringListQuery,
    FiringPage,
    RunNowAnswer,
    RunNowRequest,
    ScheduleDetails,
    ScheduleListQuery,
    SchedulePage,
    ScheduleRequest,
)
from holdfast.wire.status import Changed

LAST_IN_LIST = 5
LAST_SHOWN = 20


class NameToken(PageToken, frozen=True):
    """A schedule."""

    name: Text


class InstantToken(PageToken, frozen=True):
    """An instant of a schedule, since 1970."""

    microseconds: Microseconds


async def list_schedules(call: Call[None, ScheduleListQuery]) -> SchedulePage:
    """List schedules by name, with their next and last firings."""
    asked = call.query
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, NameToken)
    after = "" if token is None else token.name
    async with call.reads.transaction() as tx:
        rows = await reads.list_schedules(tx, after=after, count_max=page_size)
        ids = [row.schedule_id for row in rows]
        last = await reads.list_last_firings(tx, ids, count_max=LAST_IN_LIST)
        missed = await reads.count_misses(tx, ids)
    following = NameToken(rows[-1].name) if len(rows) == page_size else None
    return SchedulePage(
        [answers.schedule(row, last[row.schedule_id], missed.get(row.schedule_id)) for row in rows],
        write_token(following),
    )


async def show_schedule(call: Call[None, Nothing]) -> ScheduleDetails:
    """Show a schedule, the job that it submits, its firings and its misses."""
    return await _details(call.runtime.reads, _name(call))


async def put_schedule(call: Call[ScheduleRequest, Nothing]) -> Reply:
    """Set all of a schedule: 201, or 200 if there was one; the same again changes nothing."""
    asked, name = call.body, _name(call)
    is_new = await change.set_schedule(
        call.runtime.ledger,
        name,
        _terms(asked),
        submission=_template(asked.spec, owner=call.caller.name or None),
        actor=call.actor,
        if_version=asked.if_version,
    )
    return Reply(await _details(call.runtime.ledger.database, name), 201 if is_new else 200)


async def remove_schedule(call: Call[None, Nothing]) -> Changed:
    """Delete a schedule; what it has submitted goes on. Doing it twice is harmless."""
    ledger = call.runtime.ledger
    return Changed(await change.delete_schedule(ledger, _name(call), actor=call.actor))


async def pause_schedule(call: Call[Nothing, Nothing]) -> Changed:
    """Have a schedule fire no more; what passes meanwhile is not missed."""
    ledger = call.runtime.ledger
    return Changed(await change.pause_schedule(ledger, _name(call), actor=call.actor))


async def resume_schedule(call: Call[Nothing, Nothing]) -> Changed:
    """Have a schedule fire again, from its next instant on."""
    ledger = call.runtime.ledger
    return Changed(await change.resume_schedule(ledger, _name(call), actor=call.actor))


async def run_schedule(call: Call[RunNowRequest, Nothing]) -> RunNowAnswer:
    """Fire a schedule at this moment, paused or not."""
    name = _name(call)
    keyed = request_key("run_schedule", call.actor, call.body.idempotency_key, request=name)
    job_id = await by_hand.run_now(call.runtime.ledger, name, actor=call.actor, keyed=keyed)
    return RunNowAnswer(str(job_id))


async def backfill_schedule(call: Call[BackfillRequest, Nothing]) -> BackfillAnswer:
    """Fire the instants of a range that have passed and have no job; doing it twice is harmless."""
    asked = call.body
    made = await by_hand.backfill(
        call.runtime.ledger,
        _name(call),
        _moment(asked.from_ms),
        last=_moment(asked.until_ms),
        actor=call.actor,
        overlap=asked.overlap,
        dry_run=asked.dry_run,
    )
    return BackfillAnswer(
        instants=made.instants,
        already=made.already,
        job_ids=[str(job_id) for job_id in made.job_ids],
        dry_run=asked.dry_run,
    )


async def list_schedule_firings(call: Call[None, FiringListQuery]) -> FiringPage:
    """List what the instants of a schedule have come to, the newest first."""
    asked = call.query
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, InstantToken)
    before = reads.END_OF_TIME if token is None else from_microseconds(token.microseconds)
    async with call.reads.transaction() as tx:
        row = await reads.get_schedule(tx, _name(call))
        found = await reads.list_firings(tx, row.schedule_id, before=before, count_max=page_size)
    full = len(found) == page_size
    following = InstantToken(to_microseconds(found[-1].instant)) if full else None
    return FiringPage([answers.firing(each) for each in found], write_token(following))


async def declare_schedules(call: Call[DeclareRequest, Nothing]) -> DeclareAnswer:
    """Keep which schedules the code of a worker declares; what it no longer does retires."""
    asked, runtime = call.body, call.runtime
    await runtime.credentials.check(call.headers, asked.worker_id)
    wanted, refused = [], {}
    for each in asked.schedules:
        try:
            template = _template(each.spec, owner=None)
            wanted.append(Declared(each.function, each.terms, template))
        except Invalid as error:
            refused[each.function] = str(error)
    kept_to = KeptTo(call.caller.queues, call.caller.owners)
    made = await declare(runtime.ledger, asked.modules, wanted, actor=call.actor, kept_to=kept_to)
    return DeclareAnswer(made.changed, made.retired, refused | made.refused)


async def _details(database: Database, name: str) -> ScheduleDetails:
    async with database.transaction() as tx:
        row = await reads.get_schedule(tx, name)
        last = await reads.list_firings(tx, row.schedule_id, count_max=LAST_SHOWN)
        missed = await reads.count_misses(tx, [row.schedule_id])
        misses = await reads.list_last_misses(tx, row.schedule_id, count_max=LAST_SHOWN)
    status = answers.schedule(row, last, missed.get(row.schedule_id))
    return ScheduleDetails(
        **msgspec.structs.asdict(status),
        spec=answers.spec_of(row),
        last_misses=[answers.miss(each) for each in misses],
    )


def _name(call: Call[Any, Any]) -> str:
    check_schedule_name(call.path["schedule"])
    return call.path["schedule"]


def _terms(asked: ScheduleRequest) -> ScheduleTerms:
    return ScheduleTerms(
        cron=asked.cron,
        every=asked.every,
        tz=asked.tz,
        start_at=None if asked.start_at_ms is None else _moment(asked.start_at_ms),
        end_at=None if asked.end_at_ms is None else _moment(asked.end_at_ms),
        catch_up=asked.catch_up,
        catch_up_max=asked.catch_up_max,
        late_max=asked.late_max,
        overlap=asked.overlap,
        jitter=asked.jitter,
    )


def _moment(milliseconds: int) -> datetime:
    return from_microseconds(milliseconds * 1000)


def _template(asked: JobRequest, *, owner: str | None) -> Submission:
    if asked.local_name is not None:
        raise Invalid("spec.local_name", "goes with graphs only; leave it out")
    if asked.placed and asked.queue is not None:
        raise Invalid("spec.placed", "goes without a queue; give one of them")
    fields = {name: getattr(asked, name) for name in JobSpec.__struct_fields__}
    # Its jobs belong to whom they would if he submitted them himself.
    spec = JobSpec(**fields | {"owner": asked.owner or owner})
    if asked.inputs is None:
        return Submission(spec, is_placed=asked.placed)
    texts = (decode_text(text, f"spec.inputs[{i}]") for i, text in enumerate(asked.inputs))
    return Submission(spec, tuple(texts), is_placed=asked.placed)


_CONFLICT = {409: ErrorAnswer}
_ONE = f"{LIST_PATH}/{{schedule:path}}"
# Those with a suffix first: the name of a schedule may hold slashes and colons.
ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        LIST_PATH,
        list_schedules,
        SchedulePage,
        Role.READ,
        query=ScheduleListQuery,
        at_replica=True,
    ),
    Route(
        "POST",
        DECLARE_PATH,
        declare_schedules,
        DeclareAnswer,
        Role.WORKER,
        body=DeclareRequest,
        narrowing=Narrowing.FUNCTION,
    ),
    Route("POST", f"{_ONE}:pause", pause_schedule, Changed, Role.ADMIN, body=Nothing),
    Route("POST", f"{_ONE}:resume", resume_schedule, Changed, Role.ADMIN, body=Nothing),
    Route(
        "POST",
        f"{_ONE}:run-now",
        run_schedule,
        RunNowAnswer,
        Role.ADMIN,
        body=RunNowRequest,
        also=_CONFLICT,
    ),
    Route(
        "POST",
        f"{_ONE}:backfill",
        backfill_schedule,
        BackfillAnswer,
        Role.ADMIN,
        body=BackfillRequest,
        also=_CONFLICT,
    ),
    Route(
        "GET",
        f"{_ONE}/firings",
        list_schedule_firings,
        FiringPage,
        Role.READ,
        query=FiringListQuery,
        at_replica=True,
    ),
    Route("GET", _ONE, show_schedule, ScheduleDetails, Role.CONTENT),
    Route(
        "PUT",
        _ONE,
        put_schedule,
        ScheduleDetails,
        Role.ADMIN,
        body=ScheduleRequest,
        also={201: ScheduleDetails, **_CONFLICT},
    ),
    Route("DELETE", _ONE, remove_schedule, Changed, Role.ADMIN, also=_CONFLICT),
)
