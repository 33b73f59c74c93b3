"""The shapes in which the store hands rows to operations, until these import them by table."""

from holdfast.store.tables.leases import LockedLease
from holdfast.store.tables.tasks import LockedTask

__all__ = ["LockedLease", "LockedTask"]
