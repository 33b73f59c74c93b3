"""Who may what: the roles of callers, and what each implies."""

from collections.abc import Iterable, Set
from enum import StrEnum


class Role(StrEnum):
    """What a caller may do. Each route names the one that it asks for.

    READ    sees states, events and lists
    CONTENT sees inputs, results, logs, bundles and specs, too; implies READ
    SUBMIT  submits jobs, cancels, reruns, resumes and replays them; implies CONTENT
    WORKER  registers, claims and reports; what a task may see, it sees by its lease
    ADMIN   implies all of these, and alone decides for others: queues, policies, tokens, discards

    A token that names owners or queues has its role for their jobs alone.
    """

    READ = "read"
    CONTENT = "data"
    SUBMIT = "submit"
    WORKER = "worker"
    ADMIN = "admin"


# Said by a route that asks for no role, and so for no token.
EVERYBODY = None

_IMPLIED = {
    Role.READ: {Role.READ},
    Role.CONTENT: {Role.CONTENT, Role.READ},
    Role.SUBMIT: {Role.SUBMIT, Role.CONTENT, Role.READ},
    Role.WORKER: {Role.WORKER},
    Role.ADMIN: set(Role),
}


def with_implied(roles: Iterable[Role]) -> frozenset[Role]:
    """Add to roles what they imply."""
    return frozenset(implied for role in roles for implied in _IMPLIED[role])


def roles_with(role: Role) -> list[Role]:
    """List the roles that are enough where one is asked for, the least first."""
    return [each for each in Role if role in _IMPLIED[each]]


def is_for_own_jobs(roles: Set[str]) -> bool:
    """Tell whether a caller that is given no owners is for the jobs of its own name alone.

    Roles that run or decide for all (worker, admin) and that only look are for all owners.
    """
    return Role.SUBMIT in roles and not roles & {Role.WORKER, Role.ADMIN}
