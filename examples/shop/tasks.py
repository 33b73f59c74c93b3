"""What the worker runs: confirm an order that the shop has taken."""

import os

import asyncpg

import holdfast as hf


@hf.task(queue="mail")
async def confirm(order_id: int) -> str:
    """Send the confirmation, and note it; a second attempt changes nothing more."""
    connection = await asyncpg.connect(os.environ["DATABASE_URL"])
    try:
        item = await connection.fetchval(
            "update orders set confirmed = true where id = $1 returning item", order_id
        )
    finally:
        await connection.close()
    return f"confirmed: {item}"
