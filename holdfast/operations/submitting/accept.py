"""Accept submissions: checked, and completed under the policies that a process has at hand."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from holdfast.errors import Refused, Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.operations.submitting.admit import PoliciesChanged
from holdfast.rules.submitting.keys import check_key
from holdfast.rules.submitting.order import refuse_local_names
from holdfast.rules.submitting.submission import complete_submission
from holdfast.store.tables.submitting.policies import PolicyBook, load_policies

Accepted = Submission | Refused
Result = TypeVar("Result")
POLICY_TRIES_MAX = 5


async def accept(
    ledger: Ledger, submissions: Sequence[Submission], *, in_graph: bool = False
) -> tuple[list[Accepted], PolicyBook]:
    """Complete each submission, or say why not; returns the policies that this was done under.

    Whether these still hold is seen when ids are given out, which costs nothing. What a policy
    refuses gets no id, so for that alone one looks first.
    """
    book = ledger.policies
    found = [_accept(item, ledger.limits, book, in_graph=in_graph) for item in submissions]
    is_filled_in = book.by_type or book.functions
    if is_filled_in and _is_refused_by_policy(submissions, found, ledger.limits, in_graph=in_graph):
        fresh = await load_policies(ledger.database)
        if fresh.version != book.version:
            ledger.policies = book = fresh
            found = [_accept(item, ledger.limits, book, in_graph=in_graph) for item in submissions]
    return found, book


async def under_policies(run: Callable[[], Awaitable[Result]]) -> Result:
    """Run what accepts and admits submissions; again, if policies were changed in between."""
    for _ in range(POLICY_TRIES_MAX):
        with suppress(PoliciesChanged):
            return await run()
    raise Unavailable("policies keep changing; try again")


def _accept(
    submission: Submission, limits: Limits, book: PolicyBook | None, *, in_graph: bool
) -> Accepted:
    try:
        if not in_graph:
            refuse_local_names(submission.spec)
        if book is None:
            accepted = complete_submission(submission, limits)
        else:
            accepted = complete_submission(
                submission, limits, book.by_type, announced=book.functions
            )
        check_key(accepted)
    except Refused as refused:
        return refused
    return accepted


def _is_refused_by_policy(
    submissions: Sequence[Submission],
    found: Sequence[Accepted],
    limits: Limits,
    *,
    in_graph: bool,
) -> bool:
    """Tell whether one of them would have been taken without a policy."""
    return any(
        isinstance(_accept(item, limits, None, in_graph=in_graph), Submission)
        for item, answer in zip(submissions, found, strict=True)
        if isinstance(answer, Refused)
    )
