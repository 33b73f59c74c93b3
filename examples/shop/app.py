"""A shop that takes orders: an order, its stock and the job that confirms it are one transaction.

export DATABASE_URL=...                            # the database that Holdfast uses
holdfast worker --queue mail --import tasks &      # in this folder
uvicorn app:app --port 8000 &
curl -d '{"item": "a kettle"}' http://127.0.0.1:8000/orders
curl http://127.0.0.1:8000/orders/1
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

TABLES = """
    create table if not exists stock (item text primary key, pieces int check (pieces >= 0));
    create table if not exists orders (
        id bigint generated always as identity primary key,
        item text not null, confirmed bool not null default false);
    insert into stock values ('a kettle', 100), ('a unicorn', 0) on conflict do nothing;
"""


async def take_order(request: Request) -> JSONResponse:
    """Store an order; if anything of it fails, nothing was stored and nobody is woken."""
    item = (await request.json())["item"]
    try:
        async with request.app.state.pool.acquire() as connection, connection.transaction():
            order_id = await connection.fetchval(
                "insert into orders (item) values ($1) returning id", item
            )
            job_id = await connection.fetchval(
                "select holdfast.submit($1::text::jsonb)", json.dumps(confirmation(order_id))
            )
            # The job is in the queue, for this transaction alone: without a piece left, it is gone.
            await connection.execute("update stock set pieces = pieces - 1 where item = $1", item)
    except asyncpg.CheckViolationError:
        return JSONResponse({"error": f"{item} is sold out"}, 409)
    return JSONResponse({"order_id": order_id, "job_id": job_id}, 201)


def confirmation(order_id: int) -> dict[str, object]:
    """Describe the job that confirms an order; the key makes sure that there is one alone."""
    return {
        "entrypoint": {"function": "tasks:confirm", "args": [order_id]},
        "queue": "mail",
        "max_retries_failure": 5,
        "idempotency_key": f"confirm order {order_id}",
    }


async def show_order(request: Request) -> JSONResponse:
    """Show an order, and whether it was confirmed."""
    query = "select id, item, confirmed from orders where id = $1"
    order = await request.app.state.pool.fetchrow(query, int(request.path_params["order_id"]))
    return JSONResponse(None if order is None else dict(order), 404 if order is None else 200)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Open the database for as long as the shop is open."""
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=1) as app.state.pool:
        await app.state.pool.execute(TABLES)
        yield


app = Starlette(
    routes=[
        Route("/orders", take_order, methods=["POST"]),
        Route("/orders/{order_id:int}", show_order),
    ],
    lifespan=lifespan,
)
