"""Take a worker's word that attempts have ended, and give it what is next.

A worker that reports an end has room for the next task. Both go into one transaction where nothing
has to be decided: the counts of their job are locked and written once, and there is one commit to
wait for.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.operations.claiming import claim as claims
from holdfast.operations.claiming.claim import claim, read_claims
from holdfast.operations.claiming.requests import ClaimRequest, check_request
from holdfast.operations.claiming.turn import take_turns
from holdfast.operations.ending import complete as ends
from holdfast.operations.ending.complete import (
    Completed,
    Completion,
    complete,
    is_plain,
    sort_out,
)
from holdfast.store.database import JobChanged, KeyTaken
from holdfast.store.tables.work.attempts import Success


class Turn(NamedTuple):
    """What one worker says has ended, and what it asks for now, if anything."""

    completions: tuple[Completion, ...]
    request: ClaimRequest | None = None


class TurnAnswer(NamedTuple):
    """The answers to both halves of a turn; what could not be done is its error."""

    completed: list[ends.Answer | Exception]
    claimed: claims.Answer | Exception | None


Ended = dict[Fence, ends.Answer | Exception]
Claimed = dict[int, claims.Answer | Exception]


async def complete_and_claim(ledger: Ledger, turns: Sequence[Turn]) -> list[TurnAnswer]:
    """Record ends and answer claims. Repeats are answered as by `complete` and by `claim`.

    Ends that need a decision come first, in a transaction of their own. Plain successes go along
    with the claims from those queues that most of them name; what is left of either follows. An
    error that is raised says that no claim is written, and that completions may be tried again.
    """
    said = [completion for turn in turns for completion in turn.completions]
    requests = {n: turn.request for n, turn in enumerate(turns) if turn.request is not None}
    refused, good = sort_out(said, ledger.limits)
    plain = [item for item in good if is_plain(item)]
    ended: Ended = {}
    if len(plain) < len(good):
        ended |= await _complete(ledger, [item for item in good if not is_plain(item)])
    claimed: Claimed = {}
    along = {n: requests[n] for n in _choose(ledger, requests)}
    if along:
        claimed = await _take_turns(ledger, plain, along, ended=ended)
    left = [item for item in plain if item.fence not in ended]
    if left and claimed:
        try:
            ended |= await _complete(ledger, left)
        except Exception as error:  # noqa: BLE001 - what was claimed has to be told
            ended |= dict.fromkeys((item.fence for item in left), error)
    elif left:
        ended |= await _complete(ledger, left)
    others = {n: request for n, request in requests.items() if n not in claimed}
    if others:
        claimed |= zip(others, await claim(ledger, list(others.values())), strict=True)
    completed = iter(
        refusal if refusal is not None else ended[completion.fence]
        for completion, refusal in zip(said, refused, strict=True)
    )
    return [
        TurnAnswer([next(completed) for _ in turn.completions], claimed.get(position))
        for position, turn in enumerate(turns)
    ]


async def _take_turns(
    ledger: Ledger, plain: list[Completion], along: dict[int, ClaimRequest], *, ended: Ended
) -> Claimed:
    """Write what needs no decision at once; notes which have ended, and returns what is claimed."""
    successes = [Success(item.fence, item.result) for item in plain]
    try:
        turn = await take_turns(ledger, successes, list(along.values()))
    except (JobChanged, KeyTaken):  # nothing has happened
        return {}
    for item, is_recorded in zip(plain, turn.recorded, strict=True):
        if is_recorded:
            ended[item.fence] = Completed(item.fence.task_id, accepted=True)
    answers = zip(along, read_claims(turn, len(along)), strict=True)
    return {position: answer for position, answer in answers if answer is not None}


def _choose(ledger: Ledger, requests: dict[int, ClaimRequest]) -> list[int]:
    """Choose the claims that go along: sound ones, by the same queues for all, no key twice."""
    fit = {
        position: request.queues
        for position, request in requests.items()
        if request.queues
        and ledger.sized_queues.isdisjoint(request.queues)
        and check_request(request) is None
    }
    if not fit:
        return []
    [(queues, _)] = Counter(fit.values()).most_common(1)
    seen: set[tuple[str, str | None]] = set()
    chosen = []
    for position, named in fit.items():
        request = requests[position]
        key = (request.worker_id, request.idempotency_key)
        if named != queues or key in seen:
            continue
        if request.idempotency_key is not None:
            seen.add(key)
        chosen.append(position)
    return chosen


async def _complete(ledger: Ledger, completions: list[Completion]) -> Ended:
    answers = await complete(ledger, completions)
    return {item.fence: answer for item, answer in zip(completions, answers, strict=True)}
