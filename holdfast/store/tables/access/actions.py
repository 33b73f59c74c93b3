"""The table of what people have done."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from holdfast.model.access.actions import ActionKind, SubjectKind
from holdfast.model.access.actors import token_of
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_ACTIONS = load_statements("access/actions")


class NewAction(NamedTuple):
    """Who did what, to what, and why; facts are what the words do not say."""

    actor: str
    action: ActionKind
    subject_kind: SubjectKind
    subject: str
    reason: str | None = None
    facts: Mapping[str, Any] | None = None


async def record_actions(tx: Transaction, actions: Sequence[NewAction]) -> None:
    """Write down what somebody does with this transaction."""
    await tx.fetch(
        _ACTIONS["record_actions"],
        actors=[action.actor for action in actions],
        actions=[action.action for action in actions],
        subject_kinds=[action.subject_kind for action in actions],
        subjects=[action.subject for action in actions],
        reasons=[action.reason for action in actions],
        facts=[
            None if action.facts is None else msgspec.json.encode(action.facts).decode()
            for action in actions
        ],
        token_ids=[token_of(action.actor) for action in actions],
    )


async def prune_actions(tx: Transaction, *, older_than: timedelta, batch_max: int) -> int:
    """Delete the oldest; returns how many there were."""
    rows = await tx.fetch(_ACTIONS["prune_actions"], older_than=older_than, batch_max=batch_max)
    return len(rows)
