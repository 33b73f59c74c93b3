"""What the role that servers connect as may do, where another one owns the schema."""

from holdfast.errors import Invalid
from holdfast.store.database import Database, Transaction
from holdfast.store.statements import load_statements

_SQL = load_statements("grants")


async def grant(url: str, role: str) -> list[str]:
    """Give a role what servers need; returns the statements. The URL names the schema's owner."""
    async with (
        Database(url, connections_max=1, program="holdfast db") as database,
        database.transaction() as tx,
    ):
        standing = await tx.fetch_one(_SQL["find_standing"], role=role)
        if standing is None:
            raise Invalid("role", f"there is no role {role!r} or no schema; make both first")
        if standing[0]:
            raise Invalid("role", f"{role!r} owns the schema or is a superuser: it may do all this")
        if not standing[1]:
            found = f"only {standing[2]!r}, who owns the schema, can grant; connect as that role"
            raise Invalid("database_url", found)
        statements = await write_grants(tx, role)
        for statement in statements:
            await tx.connection.execute(statement)
        return statements


async def write_grants(tx: Transaction, role: str) -> list[str]:
    """Write down the statements by which a role gets its rights."""
    return [row[0] for row in await tx.fetch(_SQL["write_grants"], role=role)]
