"""The record that the work keeps of itself, in a Postgres that nothing is done to.

Instants are those of the machine's monotonic clock: one for all its processes, and no jump of the
database's clock moves it. A guarded write is noted in the transaction that holds the fence, so that
the numbers of the writes of one task are the order in which they were let in.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

import holdfast as hf
from holdfast import fenced

RECORD_VARIABLE = "CHAOS_RECORD_URL"
LEDGER_VARIABLE = "CHAOS_LEDGER_URL"
WORKER_VARIABLE = "CHAOS_WORKER"
BEAT_SECONDS = 0.1
CONNECT_SECONDS_MAX = 10
SCHEMA = f"""
create table marks (
    number bigserial primary key, task text not null, attempt integer not null,
    kind text not null, at double precision not null, worker text not null, key text
);
create table writes (
    number bigserial primary key, task text not null, attempt integer not null,
    at double precision not null
);
{fenced.CREATE_TABLE}
"""
# In the ledger's own database: what is written together with the success of a task.
EFFECTS = "create table public.effects (task text not null, attempt integer not null)"
_MARK = "insert into marks (task, attempt, kind, at, worker, key) values (%s, %s, %s, %s, %s, %s)"
_WRITE = "insert into writes (task, attempt, at) values (%s, %s, %s)"
_EFFECT = "insert into public.effects (task, attempt) values (%s, %s)"
_own = threading.local()


def _connection() -> "psycopg.Connection[Any]":
    """Give this thread its connection; after a fork or a failure, a new one."""
    found = getattr(_own, "connection", None)
    if found is None or found.closed or _own.pid != os.getpid():
        url = os.environ[RECORD_VARIABLE]
        found = psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_SECONDS_MAX)
        _own.connection, _own.pid = found, os.getpid()
    return found


def mark(ctx: hf.Context, kind: str, key: str | None = None) -> None:
    """Note that this attempt has begun, lives, or is about to end."""
    worker = os.environ[WORKER_VARIABLE]
    values = (ctx.task_id, ctx.attempt, kind, time.monotonic(), worker, key)
    _connection().execute(_MARK, values)


def write(ctx: hf.Context) -> None:
    """Write something that a stale attempt must not; raises LeaseConflict if this one is."""
    connection = _connection()
    with connection.transaction():
        fenced.check(connection, ctx)
        connection.execute(_WRITE, (ctx.task_id, ctx.attempt, time.monotonic()))


@contextmanager
def executing(ctx: hf.Context, key: str | None = None) -> Iterator[None]:
    """Note beginning and end of an attempt, with a guarded write at either."""
    mark(ctx, "start", key)
    write(ctx)
    yield
    write(ctx)
    mark(ctx, "end", key)


def live(
    ctx: hf.Context, seconds: float, key: str | None = None, *, is_stubborn: bool = False
) -> None:
    """Go on for some time, and show it; to be asked to stop is no reason for who is stubborn."""
    ends_at = time.monotonic() + seconds
    while (left := ends_at - time.monotonic()) > 0 and (is_stubborn or not ctx.cancelled):
        time.sleep(min(left, BEAT_SECONDS))
        mark(ctx, "beat", key)


def complete_with_effect(ctx: hf.Context, result: Any) -> None:
    """Write an effect into the ledger's database: there with the task's success, or not at all."""
    url = os.environ[LEDGER_VARIABLE]
    with psycopg.connect(url, connect_timeout=CONNECT_SECONDS_MAX) as connection:
        connection.execute(_EFFECT, (ctx.task_id, ctx.attempt))
        fenced.complete(connection, ctx, result)
