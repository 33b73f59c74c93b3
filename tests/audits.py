"""The audit at the end of a journey: it must have nothing to say."""

from holdfast.operations.upkeep.audit import audit
from holdfast.store.database import Database


async def assert_audit_is_silent(database: Database) -> None:
    """Fail with everything the audit found."""
    findings = [finding async for finding in audit(database)]
    assert not findings, findings[:5]
