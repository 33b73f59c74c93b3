"""Notes of renewals and heartbeats, beside the log, for jobs that asked for verbose events."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from holdfast.ledger.ledger import Ledger
from holdfast.model.ids import TaskId
from holdfast.operations.notes import Note, add_notes
from holdfast.store.database import Transaction

_HEARTBEAT = Note("heartbeat")


async def note_beats(
    ledger: Ledger, tx: Transaction, renewed: Sequence[tuple[TaskId, int, datetime]]
) -> None:
    """Note that attempts were heard of and their leases renewed; of most jobs, nothing."""
    verbose = await ledger.specs.list_verbose(tx, {task_id.job_id for task_id, _, _ in renewed})
    if verbose:
        await add_notes(
            tx,
            [
                (task_id, attempt, note)
                for task_id, attempt, expires_at in renewed
                if task_id.job_id in verbose
                for note in (_HEARTBEAT, _renewal(expires_at))
            ],
        )


def _renewal(expires_at: datetime) -> Note:
    until = {"lease_expires_at_ms": int(expires_at.timestamp() * 1000)}
    return Note("lease_renewed", msgspec.json.encode(until).decode())
