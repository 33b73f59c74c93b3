"""The shapes that operations import from here are those of the tables."""

from holdfast.store import rows
from holdfast.store.tables import leases, tasks


def test_the_shapes_are_those_of_the_tables() -> None:
    assert (rows.LockedLease, rows.LockedTask) == (leases.LockedLease, tasks.LockedTask)
