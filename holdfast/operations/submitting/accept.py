"""Complete submissions with the policies that a process has at hand, without asking for them."""

from collections.abc import Sequence

from holdfast.errors import Refused
from holdfast.ledger.ledger import Ledger
from holdfast.model.spec import Limits, Submission
from holdfast.rules.order import refuse_local_names
from holdfast.rules.submission import NO_POLICIES, complete_submission
from holdfast.store.policies import PolicyBook, load_policies

Completed = Submission | Refused


async def complete_with_policies(
    ledger: Ledger, submissions: Sequence[Submission], *, in_graph: bool = False
) -> tuple[list[Completed], PolicyBook]:
    """Complete submissions, each or say why not; and say with which policies.

    Whether these still hold is seen when ids are given out, which costs nothing. What a policy
    refuses gets no id, so for that alone one looks first.
    """
    book = ledger.policies
    found = [_complete(item, ledger.limits, book, in_graph=in_graph) for item in submissions]
    if book.by_type and _is_refused_by_policy(submissions, found, ledger.limits, in_graph=in_graph):
        fresh = await load_policies(ledger.database)
        if fresh.version != book.version:
            ledger.policies = book = fresh
            found = [
                _complete(item, ledger.limits, book, in_graph=in_graph) for item in submissions
            ]
    return found, book


def _complete(
    submission: Submission, limits: Limits, book: PolicyBook | None, *, in_graph: bool
) -> Completed:
    try:
        if not in_graph:
            refuse_local_names(submission.spec)
        return complete_submission(submission, limits, book.by_type if book else NO_POLICIES)
    except Refused as refused:
        return refused


def _is_refused_by_policy(
    submissions: Sequence[Submission],
    found: Sequence[Completed],
    limits: Limits,
    *,
    in_graph: bool,
) -> bool:
    """Tell whether one of them would have been taken without a policy."""
    return any(
        isinstance(_complete(item, limits, None, in_graph=in_graph), Submission)
        for item, answer in zip(submissions, found, strict=True)
        if isinstance(answer, Refused)
    )
