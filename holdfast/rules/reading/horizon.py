"""What pins the horizon of vacuum for too long, in words, and what to do about it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

KINDS = ("session", "replication slot", "prepared transaction")
QUERY_SHOWN_MAX = 60
HELD_SECONDS = 5.0
HELD_XIDS = 10_000


class Holder(NamedTuple):
    """Who may still have to see old rows, since when, and how many transactions ago that was.

    `name` is a pid, the name of a slot or the id of a prepared transaction. How long a slot has
    held is not known. `is_hidden`: of another role's session, state, query and begin are hidden.
    """

    kind: str
    name: str
    application: str
    role: str
    state: str | None
    query: str | None
    query_started_at: datetime | None
    seconds: float | None
    xids: int
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class HorizonLimits:
    """From when on somebody holds the horizon for too long: by time, or by transactions since."""

    seconds_max: float = 300.0
    xids_max: int = 1_000_000


def find_pinning(holders: Iterable[Holder], limits: HorizonLimits) -> list[Holder]:
    """Find those who hold the horizon for too long, in the order in which they come."""
    return [
        each
        for each in holders
        if each.xids > limits.xids_max or (each.seconds or 0.0) > limits.seconds_max
    ]


def is_held(holders: Iterable[Holder]) -> bool:
    """Tell whether dead rows pile up: nobody's transaction of a moment, but no trouble yet."""
    return any(each.xids > HELD_XIDS or (each.seconds or 0.0) > HELD_SECONDS for each in holders)


def describe_holder(holder: Holder) -> str:
    """Name who holds the horizon, and for how long, in one line."""
    match holder.kind:
        case "session":
            whose = f"session {holder.name} of {holder.role or 'nobody'}"
            program = f" ({holder.application})" if holder.application else ""
            return f"{whose}{program}{_activity(holder)} holds {_age(holder)}"
        case "prepared transaction":
            return f"prepared transaction '{holder.name}' of {holder.role} holds {_age(holder)}"
    return f"replication slot {holder.name}, {holder.state}, holds {_age(holder)}"


def remedy_of(holder: Holder) -> str:
    """Name the statement that ends it, and when that is right."""
    match holder.kind:
        case "session":
            return (
                "end the transaction in its program, or `select pg_terminate_backend"
                f"({holder.name})`; idle_in_transaction_session_timeout bounds such sessions"
            )
        case "prepared transaction":
            name = holder.name.replace("'", "''")
            return (
                f"`commit prepared '{name}'` or `rollback prepared '{name}'`, as its "
                "transaction manager decided"
            )
    return (
        "start its standby again, or, if nobody needs it any more, "
        f"`select pg_drop_replication_slot('{holder.name}')`"
    )


def _activity(holder: Holder) -> str:
    if holder.is_hidden:
        return ", state and query hidden: grant pg_read_all_stats to see them,"
    query = " ".join((holder.query or "").split()).rstrip("; ")
    shown = query if len(query) <= QUERY_SHOWN_MAX else f"{query[:QUERY_SHOWN_MAX]}..."
    begun = "" if holder.query_started_at is None else f" of {holder.query_started_at:%H:%M:%S %Z}"
    return f", {holder.state or 'no state'}, query{begun}: {shown or 'none'};"


def _age(holder: Holder) -> str:
    since = "" if holder.seconds is None else f" for {holder.seconds:.0f} s"
    return f"the vacuum horizon{since}, {holder.xids} transactions back"
