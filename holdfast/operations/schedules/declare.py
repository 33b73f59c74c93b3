"""Schedules that code declares: taken from workers, and retired when no code names them any more.

A worker speaks for all functions of the modules that it has imported. Of several workers the latest
word counts, as for the options of functions.
"""

from collections.abc import Collection, Sequence, Set
from typing import NamedTuple

from holdfast.errors import Invalid, Refused, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.model.submitting.spec import JobSpec, Submission
from holdfast.operations.schedules.change import check_job, store
from holdfast.rules.schedules.checks import check_schedule_name
from holdfast.rules.submitting.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.submitting import schedules

DECLARED_MAX = 1000
MODULES_MAX = 10_000
MODULE_LENGTH_MAX = 512


class Declared(NamedTuple):
    """The schedule of a function, by its path, which is its name, too."""

    function: str
    terms: ScheduleTerms
    submission: Submission


class KeptTo(NamedTuple):
    """The queues and owners that a worker's token is for; empty stands for all of them."""

    queues: Set[str] = frozenset()
    owners: Set[str] = frozenset()

    def has(self, spec: JobSpec) -> bool:
        """Tell whether a job is in its queues and of its owners."""
        return (not self.queues or spec.queue in self.queues) and (
            not self.owners or spec.owner in self.owners
        )


ANYWHERE = KeptTo()


class Declaration(NamedTuple):
    """Which schedules are new or have changed, which retired, and what was not taken, and why."""

    changed: list[str]
    retired: list[str]
    refused: dict[str, str]


async def declare(
    ledger: Ledger,
    modules: Collection[str],
    declared: Sequence[Declared],
    *,
    actor: str,
    kept_to: KeptTo = ANYWHERE,
) -> Declaration:
    """Keep what some modules declare, and retire what they declared before and no longer do.

    Who is kept to queues or owners declares jobs of these alone; others he neither changes nor
    retires.
    """
    if len(declared) > DECLARED_MAX:
        raise TooLarge("schedules", len(declared), DECLARED_MAX, unit="schedules")
    if len(modules) > MODULES_MAX:
        raise TooLarge("modules", len(modules), MODULES_MAX, unit="modules")
    for module in modules:
        check_text("modules", module, MODULE_LENGTH_MAX)
    check_text("actor", actor, 256)
    changed: list[str] = []
    refused: dict[str, str] = {}
    for each in declared:
        try:
            _check(ledger, each, modules, kept_to=kept_to)
            if await ledger.write(_declare, each, actor=actor, kept_to=kept_to):
                changed.append(each.function)
        except Refused as error:
            refused[each.function] = str(error)
    named = {each.function for each in declared}
    retired = await ledger.write(_retire, modules, named=named, actor=actor, kept_to=kept_to)
    return Declaration(changed, retired, refused)


def _check(ledger: Ledger, each: Declared, modules: Collection[str], *, kept_to: KeptTo) -> None:
    check_schedule_name(each.function)
    spec = each.submission.spec
    if spec.entrypoint.function != each.function:
        raise Invalid("spec.entrypoint", f"is not that of {each.function}; declare its own job")
    if each.function.partition(":")[0] not in modules:
        raise Invalid("modules", f"lack that of {each.function}; name it")
    _refuse_arguments(each.submission)
    for field, value, allowed in (
        ("queue", spec.queue, kept_to.queues),
        ("owner", spec.owner, kept_to.owners),
    ):
        if allowed and value not in allowed:
            problem = f"is none of those that this token is for; name one of {sorted(allowed)}"
            raise Invalid(f"spec.{field}", problem)
    check_job(ledger, each.function, each.submission)


def _refuse_arguments(submission: Submission) -> None:
    """Refuse what the function would be called with: a worker says when it runs, and no more."""
    call = submission.spec.entrypoint
    for field, value in (
        ("spec.entrypoint.args", call.args),
        ("spec.entrypoint.kwargs", call.kwargs),
        ("spec.inputs", submission.inputs is not None),
    ):
        if value:
            problem = "is not for a declared schedule: it calls without arguments; leave it out"
            raise Invalid(field, problem)


async def _declare(
    _: Ledger, tx: Transaction, each: Declared, *, actor: str, kept_to: KeptTo
) -> bool:
    name = each.function
    before = await schedules.lock_schedule(tx, name)
    if before is not None and before.declared_by is None:
        raise Refused(f"schedule {name} was set by somebody; delete it, and start the worker again")
    if before is not None and not kept_to.has(before.template.spec):
        raise Refused(
            f"schedule {name} is declared for a queue or an owner that this token is not for; "
            "delete it when it has retired, or use a token without queues"
        )
    is_changed = await store(
        tx,
        name,
        each.terms,
        before=before,
        submission=each.submission,
        actor=actor,
        declared_by=name,
    )
    if is_changed:
        await record_actions(tx, [NewAction(actor, "declare_schedule", "schedule", name)])
    return is_changed


async def _retire(
    _: Ledger,
    tx: Transaction,
    modules: Collection[str],
    *,
    named: Set[str],
    actor: str,
    kept_to: KeptTo,
) -> list[str]:
    retired = []
    for name in await schedules.list_declared(tx, modules):
        if name in named:
            continue
        found = await schedules.lock_schedule(tx, name)
        if found is None or found.declared_by is None or found.is_retired:
            continue
        if not kept_to.has(found.template.spec):
            continue
        await schedules.retire_schedule(tx, found.schedule_id)
        await record_actions(tx, [NewAction(actor, "retire_schedule", "schedule", name)])
        retired.append(name)
    return retired
