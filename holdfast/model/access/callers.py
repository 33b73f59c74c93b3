"""Whoever calls a server, and what he may reach there."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from holdfast.errors import NotAllowed
from holdfast.model.access.roles import Role, roles_with
from holdfast.model.work.fence import Fence


@dataclass(slots=True, eq=False)
class Caller:
    """A token at work, or anybody on loopback; empty owners or queues stand for all of them.

    `is_over` once the token is revoked or its time is up; `is_used` until that has been noted.
    `attempt` if it is one that calls in its own name, by its lease.
    """

    name: str
    roles: frozenset[Role]
    owners: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    token_id: str = ""
    ends_at: float = inf
    is_over: bool = False
    is_used: bool = False
    attempt: Fence | None = None

    @property
    def is_narrow(self) -> bool:
        """Tell whether it is kept to some owners or queues."""
        return bool(self.owners or self.queues)

    def check_role(self, role: Role, what: str) -> None:
        """Refuse what this caller has no role for."""
        if role not in self.roles:
            enough = " or ".join(roles_with(role))
            raise NotAllowed(
                f"{what} asks for the role {role}, which the token {self.name!r} lacks; use one "
                f"with the role {enough}",
                lacks=f"role {role}",
            )

    def may_reach(self, owner: str | None, queue: str | None) -> bool:
        """Tell whether a job is of its owners and in its queues; placed work is in none."""
        return (not self.owners or owner in self.owners) and (
            not self.queues or queue in self.queues
        )

    def check_queues(self, queues: Iterable[str], what: str) -> None:
        """Refuse queues that are not this caller's."""
        for queue in queues:
            if self.queues and queue not in self.queues:
                raise NotAllowed(
                    f"{what} from the queue {queue!r}, and the token {self.name!r} is for "
                    f"{_listed('queue', self.queues)} only; name these alone",
                    lacks=f"queue {queue}",
                )

    def narrow_owner(self, asked: str | None) -> str | None:
        """Choose the owner that a request is about: the one asked for, or the only one allowed."""
        return self._narrow("owner", asked, self.owners)

    def narrow_queue(self, asked: str | None) -> str | None:
        """Choose the queue that a request is about: the one asked for, or the only one allowed."""
        return self._narrow("queue", asked, self.queues)

    def _narrow(self, field: str, asked: str | None, allowed: frozenset[str]) -> str | None:
        if not allowed or asked in allowed:
            return asked
        if asked is None and len(allowed) == 1:
            return next(iter(allowed))
        given = f"the {field} {asked!r} is another" if asked is not None else f"no {field} is given"
        raise NotAllowed(
            f"the token {self.name!r} is for {_listed(field, allowed)} only, and {given}; "
            f"give a {field} that it is for",
            lacks=f"{field} {asked or '(none given)'}",
        )

    def refuse_narrow(self, what: str) -> None:
        """Refuse a caller that is kept to some, where that cannot be done."""
        if self.is_narrow:
            kept = " and ".join(
                _listed(field, names)
                for field, names in (("owner", self.owners), ("queue", self.queues))
                if names
            )
            who, remedy = f"the token {self.name!r}", "use one without owners and queues"
            if self.attempt is not None:
                who = self.name
                remedy = "use a token: a job may have one of its own in its environment"
            raise NotAllowed(
                f"{what} cannot be narrowed to {kept}, which {who} is for; {remedy}",
                lacks="a token without owners and queues",
            )


def _listed(field: str, names: frozenset[str]) -> str:
    return f"{field}{'s' if len(names) > 1 else ''} {', '.join(sorted(names))}"


# Whoever reaches a server that asks for no tokens; he says himself who he is.
ANYBODY = Caller("", frozenset(Role))
