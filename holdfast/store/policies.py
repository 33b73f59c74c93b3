"""The policies of all types, as a process keeps them until one is changed."""

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.model.policies import TypePolicy
from holdfast.model.shapes import read_tolerantly
from holdfast.store.database import Database
from holdfast.store.statements import load_statements

_POLICIES = load_statements("policies")


class PolicyBook(NamedTuple):
    """Every policy as of one moment; `version` counts the changes up to it."""

    version: int
    by_type: Mapping[str, TypePolicy]


NO_CHANGES = PolicyBook(0, {})


async def load_policies(database: Database) -> PolicyBook:
    """Read all policies and the version that they make up, in one statement."""
    rows = await database.fetch(_POLICIES["read_policies"])
    by_type = {row[1]: read_tolerantly(row[2], TypePolicy) for row in rows if row[1] is not None}
    return PolicyBook(rows[0][0], by_type)
