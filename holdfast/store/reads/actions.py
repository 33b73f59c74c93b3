"""What people have done, the newest first."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_ACTIONS = load_statements("reads/actions")
ACTION_ID_MAX = 2**63 - 1


class ActionRow(NamedTuple):
    """Who did what, to what, and why; `facts` is a JSON text."""

    action_id: int
    at: datetime
    actor: str
    action: str
    subject_kind: str
    subject: str
    reason: str | None
    facts: str | None
    token_id: str | None


@dataclass(frozen=True, slots=True)
class ActionFilter:
    """Which ones are wanted; what is left out matches all."""

    actor: str | None = None
    action: str | None = None
    subject_kind: str | None = None
    subject: str | None = None
    since: datetime | None = None


async def list_actions(
    tx: Transaction, wanted: ActionFilter, *, before: int = ACTION_ID_MAX, count_max: int
) -> list[ActionRow]:
    """List what people have done, the newest first."""
    rows = await tx.fetch(
        _ACTIONS["list_actions"],
        before=before,
        actor=wanted.actor,
        action=wanted.action,
        subject_kind=wanted.subject_kind,
        subject=wanted.subject,
        since=wanted.since,
        count_max=count_max,
    )
    return list(map(ActionRow._make, rows))
