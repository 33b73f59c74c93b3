"""A fence for the user's own Postgres: a stale attempt can no longer write there.

The attempts of a task are numbered, and the number only grows. `check` notes within the caller's
transaction which attempt writes; it raises LeaseConflict if a later one has been there before. The
note stays locked until that transaction ends, so of two attempts at once one waits for the other.

    with connection.transaction():
        fenced.check(connection, ctx)
        connection.execute("update ...")

Where that database holds Holdfast's own schema too, `complete` goes further: the task succeeds with
the transaction, or not at all.

    with connection.transaction():
        connection.execute("update ...")
        fenced.complete(connection, ctx, {"rows": 1})
"""

import hashlib
from contextlib import closing
from typing import TYPE_CHECKING, Any
from uuid import UUID

from holdfast.errors import IllegalMove, LeaseConflict
from holdfast.model.work.ids import check_index, parse_task_id
from holdfast.wire.raw import encode_json

if TYPE_CHECKING:
    from holdfast.client.context import Context

# One row per task that was checked; those of tasks long finished may be deleted.
CREATE_TABLE = """
create table if not exists holdfast_fences (
    task text primary key,
    attempt integer not null,
    written_at timestamptz not null default now()
)
"""
_NOTE = """
insert into holdfast_fences as fence (task, attempt) values ('{task}', {attempt})
on conflict (task) do update set attempt = excluded.attempt, written_at = now()
where fence.attempt <= excluded.attempt
returning attempt
"""
# A value travels as hexadecimal digits, which no driver takes for a mark of its own.
_COMPLETE = """
select holdfast.complete('{task_id}', {attempt}, '{token}',
                         convert_from(decode('{result}', 'hex'), 'UTF8')::jsonb) as completed
"""
# Postgres refuses a savepoint outside of a transaction: there, the fence would not hold.
_BEGIN = "savepoint holdfast_fence"
_END = "release savepoint holdfast_fence"


def check(connection: Any, ctx: "Context") -> None:
    """Close the door behind this attempt, within the transaction that writes for it.

    Takes a connection or cursor of the DB-API (psycopg, Django) or a SQLAlchemy Connection. Raises
    LeaseConflict if a later attempt of the task was here: let it roll the transaction back.
    """
    _judge(_run(connection, _statement(ctx)), ctx)


async def check_async(connection: Any, ctx: "Context") -> None:
    """Close the door as `check` does, by a connection of asyncpg or psycopg that is awaited.

    With SQLAlchemy it is `await connection.run_sync(fenced.check, ctx)`.
    """
    _judge(await _run_async(connection, _statement(ctx)), ctx)


def complete(connection: Any, ctx: "Context", result: Any = None) -> None:
    """Complete the task with the transaction of this connection, which is of Holdfast's database.

    Call it last, right before the commit. `result` is what the task returns; what the function
    returns after it is not kept. Takes what `check` takes. Raises LeaseConflict if the attempt is
    stale, IllegalMove if it has completed before: let either roll the transaction back.
    """
    try:
        _run(connection, _completion(ctx, result))
    except Exception as error:
        _translate(error, ctx)
        raise


async def complete_async(connection: Any, ctx: "Context", result: Any = None) -> None:
    """Complete the task as `complete` does, by a connection of asyncpg or psycopg."""
    try:
        await _run_async(connection, _completion(ctx, result))
    except Exception as error:
        _translate(error, ctx)
        raise


def _run(connection: Any, statement: str) -> Any:
    """Run a statement within a transaction, and give back its row."""
    if hasattr(connection, "exec_driver_sql"):
        connection.exec_driver_sql(_BEGIN)
        row = connection.exec_driver_sql(statement).first()
        connection.exec_driver_sql(_END)
        return row
    if hasattr(connection, "fetchone"):
        return _run_by_cursor(connection, statement)
    with closing(connection.cursor()) as cursor:
        return _run_by_cursor(cursor, statement)


def _run_by_cursor(cursor: Any, statement: str) -> Any:
    cursor.execute(_BEGIN)
    cursor.execute(statement)
    row = cursor.fetchone()
    cursor.execute(_END)
    return row


async def _run_async(connection: Any, statement: str) -> Any:
    await connection.execute(_BEGIN)
    if hasattr(connection, "fetchrow"):
        row = await connection.fetchrow(statement)
    else:
        row = await (await connection.execute(statement)).fetchone()
    await connection.execute(_END)
    return row


def _statement(ctx: "Context") -> str:
    """Write the values into the text: checked, they mean the same whatever a driver's marks are."""
    task_id = parse_task_id(ctx.task_id)
    attempt = check_index(ctx.attempt, "attempt")
    # Another ledger may have a task of that id; the job's correlation id tells them apart.
    ledger = hashlib.sha256(ctx.identity.correlation_id.encode()).hexdigest()[:16]
    return _NOTE.format(task=f"{task_id} {ledger}", attempt=attempt)


def _judge(noted: Any, ctx: "Context") -> None:
    if noted is None:
        raise LeaseConflict(
            ctx.task_id, f"attempt {ctx.attempt} is stale, a later one has written here; stop"
        )


def _completion(ctx: "Context", result: Any) -> str:
    lease = ctx.identity.lease
    return _COMPLETE.format(
        task_id=parse_task_id(lease.task_id),
        attempt=check_index(lease.attempt, "attempt"),
        token=UUID(str(lease.lease_token)),
        result=encode_json(result).hex(),
    )


def _translate(error: Exception, ctx: "Context") -> None:
    """Raise what a refusal of the function means, whichever driver has brought it."""
    for each in (error, getattr(error, "orig", None), error.__cause__):
        match getattr(each, "sqlstate", None):
            case "HF003":
                raise LeaseConflict(
                    ctx.task_id, f"attempt {ctx.attempt} does not hold the lease; stop"
                ) from error
            case "HF004":
                raise IllegalMove(
                    f"attempt {ctx.attempt} of task {ctx.task_id}", "completed already", "complete"
                ) from error
