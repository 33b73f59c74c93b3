"""One submission taken in twice: by the Python path, and by the SQL function."""

import json
from datetime import datetime
from typing import Any

import asyncpg
import msgspec

from holdfast.errors import Invalid
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import parse_spec

NOW = datetime.fromisoformat("2030-01-01T00:00:00.123456+00:00")
SPEC = {"entrypoint": {"function": "app.jobs:work"}, "queue": "q"}

# Everything a submission writes, but for what no two submissions share.
ROWS = {
    "jobs": "select to_jsonb(t) - 'job_id' - 'correlation_id' - 'trace_id' from holdfast.jobs as t",
    "tasks": "select to_jsonb(t) - 'job_id' from holdfast.tasks as t",
    "ready": "select to_jsonb(t) - 'job_id' from holdfast.ready as t",
    "waiting": "select to_jsonb(t) - 'job_id' from holdfast.waiting as t",
    "events": "select to_jsonb(t) - 'job_id' - 'id' - 'txid' from holdfast.events as t",
    "unique_jobs": "select to_jsonb(t) - 'job_id' from holdfast.unique_jobs as t",
    "expiries": "select to_jsonb(t) - 'job_id' from holdfast.expiries as t",
    "outbox": "select to_jsonb(t) - 'job_id' - 'id' from holdfast.outbox as t",
}


class TwoWays:
    """A ledger whose clock stands still, and a connection such as a user has."""

    def __init__(self, ledger: Ledger, connection: Any) -> None:
        self.ledger = ledger
        self.connection = connection

    async def by_python(self, fields: Any, inputs: list[Any] | None = None) -> int | str:
        """Submit as the server does; returns the job's id, or the field that was refused."""
        texts = None if inputs is None else tuple(map(encode, inputs))
        try:
            fields = dict(fields) if isinstance(fields, dict) else fields
            is_placed = isinstance(fields, dict) and fields.pop("placed", False)
            submission = Submission(parse_spec(fields), texts, is_placed=is_placed)
            return (await submit_one(self.ledger, submission)).job_id
        except Invalid as refused:
            return refused.field

    async def by_sql(self, fields: Any, inputs: list[Any] | None = None) -> int | str:
        """Submit as a user does; returns the job's id, or the field that was refused."""
        try:
            return await sql_submit(self.connection, fields, inputs)
        except asyncpg.InvalidParameterValueError as refused:
            return field_of(refused)

    async def rows(self, job_id: int | str) -> dict[str, list[Any]]:
        """Read everything that is stored of a job."""
        found = {}
        for table, query in ROWS.items():
            rows = await self.connection.fetch(f"{query} where job_id = $1 order by 1", job_id)
            found[table] = [json.loads(row[0]) for row in rows]
        return found

    async def compare(self, fields: Any, inputs: list[Any] | None = None) -> dict[str, Any] | str:
        """Submit both ways: both store the same, or both refuse the same field.

        Returns what was stored, or the field. What came by SQL is rolled back, and what came by
        Python gives up its idempotency key, so that the key is free again each time. Before that,
        each way knows a repeat of what came by the other.
        """
        transaction = self.connection.transaction()
        await transaction.start()
        job_id = await self.by_sql(fields, inputs)
        theirs = await self._stored(job_id)
        await transaction.rollback()
        job_id = await self.by_python(fields, inputs)
        ours = await self._stored(job_id)
        assert theirs == ours, (theirs, ours)
        if isinstance(job_id, int) and fields.get("idempotency_key"):
            assert await self.by_sql(fields, inputs) == job_id
            await self._free_key()
            job_id = await self.by_sql(fields, inputs)
            assert await self.by_python(fields, inputs) == job_id
            await self._free_key()
        await self.connection.execute("delete from holdfast.unique_jobs")
        return theirs

    async def _free_key(self) -> None:
        await self.connection.execute(
            "update holdfast.jobs set idempotency_key = null where idempotency_key is not null;"
            "delete from holdfast.unique_jobs"
        )

    async def _stored(self, answer: int | str) -> dict[str, Any] | str:
        if isinstance(answer, str):
            return answer
        return await self.rows(answer)


def field_of(refused: asyncpg.PostgresError) -> str:
    """Take from an error the field that it names; its message begins with the same."""
    field = refused.column_name or ""
    assert str(refused).startswith(f"{field}: "), refused
    return field


def encode(value: Any) -> str:
    """Write a value as a client does that sends no blank too many."""
    return msgspec.json.encode(value).decode()


async def sql_submit(connection: Any, fields: Any, inputs: list[Any] | None = None) -> int:
    """Call the function in whatever transaction the connection is in."""
    job_id: int = await connection.fetchval(
        "select holdfast.submit($1, $2)",
        json.dumps(fields),
        None if inputs is None else json.dumps(inputs),
    )
    return job_id
