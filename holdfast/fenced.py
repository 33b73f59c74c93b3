"""A fence for the user's own Postgres: a stale attempt can no longer write there.

The attempts of a task are numbered, and the number only grows. `check` notes within the caller's
transaction which attempt writes; it raises LeaseConflict if a later one has been there before. The
note stays locked until that transaction ends, so of two attempts at once one waits for the other.

    with connection.transaction():
        fenced.check(connection, ctx)
        connection.execute("update ...")
"""

import hashlib
from contextlib import closing
from typing import TYPE_CHECKING, Any

from holdfast.errors import LeaseConflict
from holdfast.model.ids import check_index, parse_task_id

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
# Postgres refuses a savepoint outside of a transaction: there, the fence would not hold.
_BEGIN = "savepoint holdfast_fence"
_END = "release savepoint holdfast_fence"


def check(connection: Any, ctx: "Context") -> None:
    """Close the door behind this attempt, within the transaction that writes for it.

    Takes a connection or cursor of the DB-API (psycopg, Django) or a SQLAlchemy Connection. Raises
    LeaseConflict if a later attempt of the task was here: let it roll the transaction back.
    """
    if hasattr(connection, "exec_driver_sql"):
        connection.exec_driver_sql(_BEGIN)
        noted = connection.exec_driver_sql(_statement(ctx)).first()
        connection.exec_driver_sql(_END)
    elif hasattr(connection, "fetchone"):
        noted = _note(connection, ctx)
    else:
        with closing(connection.cursor()) as cursor:
            noted = _note(cursor, ctx)
    _judge(noted, ctx)


async def check_async(connection: Any, ctx: "Context") -> None:
    """Close the door as `check` does, by a connection of asyncpg or psycopg that is awaited.

    With SQLAlchemy it is `await connection.run_sync(fenced.check, ctx)`.
    """
    await connection.execute(_BEGIN)
    if hasattr(connection, "fetchrow"):
        noted = await connection.fetchrow(_statement(ctx))
    else:
        noted = await (await connection.execute(_statement(ctx))).fetchone()
    await connection.execute(_END)
    _judge(noted, ctx)


def _note(cursor: Any, ctx: "Context") -> Any:
    cursor.execute(_BEGIN)
    cursor.execute(_statement(ctx))
    noted = cursor.fetchone()
    cursor.execute(_END)
    return noted


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
