"""Notes in the words of events: of a job or task by kind, and those of user code of all jobs."""

from datetime import datetime

from holdfast.model.work.events import USER
from holdfast.store.database import Transaction
from holdfast.store.reads.output.events import (
    Event,
    Moment,
    SearchedPage,
    begin_of_correlation,
    end_of_search,
)
from holdfast.store.statements import load_statements

_NOTES = load_statements("reads/output/notes")
NOTES_EXAMINED_MAX = 5000


async def list_notes(
    tx: Transaction,
    job_id: int,
    kind: str,
    *,
    task_index: int | None = None,
    after: Moment,
    page_size: int,
) -> list[Event]:
    """List notes of one kind, of a job or of one task, in the words of events.

    `user` are all kinds that user code has written.
    """
    statement, kinds = _NOTES["list_notes"], {"kind": kind}
    if kind == USER:
        statement, kinds = _NOTES["list_user_events"], {}
    rows = await tx.fetch(
        statement,
        **kinds,
        job_id=job_id,
        task_index=task_index,
        after_ts=after.ts,
        after_id=after.id,
        count_max=page_size,
    )
    return [Event(*row) for row in rows]


async def search_user_events(
    tx: Transaction,
    kind: str,
    *,
    correlation_id: str | None,
    after: Moment,
    until: datetime | None,
    page_size: int,
) -> SearchedPage:
    """Search what user code of all jobs has written, as events are searched; `user` is any kind."""
    asked = {
        "kind": None if kind == USER else kind,
        "correlation_id": correlation_id,
        "until_ts": await end_of_search(tx, until),
        "count_max": page_size,
    }
    if correlation_id is not None:
        begin = await begin_of_correlation(tx, correlation_id)
        if begin is None:
            statement = _NOTES["list_user_events_of_correlation"]
            rows = await tx.fetch(statement, **asked, after_ts=after.ts, after_id=after.id)
            found = [Event(*row) for row in rows]
            return SearchedPage(found, found[-1].moment if len(found) == page_size else None)
        after = max(after, begin)
    rows = await tx.fetch(
        _NOTES["search_user_events"],
        **asked,
        after_ts=after.ts,
        after_id=after.id,
        examined_max=NOTES_EXAMINED_MAX,
    )
    examined, last_ts, last_id = rows[0][:3]
    found = [Event(*row[3:]) for row in rows if row[3] is not None]
    if len(found) == page_size:
        return SearchedPage(found, found[-1].moment)
    return SearchedPage(found, Moment(last_ts, last_id) if examined == NOTES_EXAMINED_MAX else None)
