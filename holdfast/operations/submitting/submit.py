"""Take in jobs: checked whole, stored whole or not at all, once per idempotency key.

A submission that is too large for one transaction arrives in chunks and stays hidden until the last
one: it has no event, is not listed and cannot be claimed.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from holdfast.errors import Refused, TooLarge, Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import add_follow_ups
from holdfast.model.spec import Submission
from holdfast.operations.datasets.bind_outputs import (
    bind_outputs,
    forget_versions,
    hold_bindings,
    keep_bindings,
)
from holdfast.operations.dependencies import insert_bonds
from holdfast.operations.submitting.accept import complete_with_policies
from holdfast.operations.submitting.arrivals import (
    CHUNK_TASKS_MAX,
    Answer,
    Arrival,
    PoliciesChanged,
    Submitted,
    admit,
    answer_refused,
    answer_repeat,
    find_by_key,
    hold_links,
    insert_jobs,
    insert_tasks,
    line_up,
    store_arrivals,
)
from holdfast.rules.order import (
    dependencies_of,
    is_local,
    resolve,
    sort_graph,
)
from holdfast.store.database import Transaction
from holdfast.store.policies import PolicyBook
from holdfast.store.statements import load_statements

_JOBS = load_statements("jobs")
_TASKS = load_statements("tasks")
GRAPH_TRIES_MAX = 5
POLICY_TRIES_MAX = 5


async def submit(ledger: Ledger, submissions: Sequence[Submission]) -> list[Answer]:
    """Take in jobs that have nothing to do with each other: a bad one is refused alone.

    Beyond 10,000 tasks they take several transactions. If a later one fails, so does the call,
    although the earlier ones are stored: who means to try again keeps below.
    """
    answers: dict[int, Answer] = {}
    for _ in range(POLICY_TRIES_MAX):
        with suppress(PoliciesChanged):  # then what is still without an answer is completed anew
            await _submit_open(ledger, submissions, answers)
            return [answers[place] for place in range(len(submissions))]
    raise Unavailable("policies keep changing; try again")


async def _submit_open(
    ledger: Ledger, submissions: Sequence[Submission], answers: dict[int, Answer]
) -> None:
    """Take in what has no answer yet; each gets its own as soon as it is stored."""
    places = [place for place in range(len(submissions)) if place not in answers]
    found, book = await complete_with_policies(ledger, [submissions[place] for place in places])
    complete: dict[int, Submission] = {}
    refused: dict[int, Answer] = {}
    for place, completed in zip(places, found, strict=True):
        if isinstance(completed, Refused):
            refused[place] = completed
        else:
            complete[place] = completed
    small: list[int] = []
    room = CHUNK_TASKS_MAX
    for place, submission in complete.items():
        if submission.num_tasks > CHUNK_TASKS_MAX:
            answers[place] = await _submit_in_chunks(ledger, submission, book)
            continue
        if submission.num_tasks > room:
            answers |= await _submit_places(ledger, complete, small, book=book)
            small, room = [], CHUNK_TASKS_MAX
        small.append(place)
        room -= submission.num_tasks
    answers |= await _submit_places(ledger, complete, small, book=book)
    answers |= refused


async def submit_one(ledger: Ledger, submission: Submission) -> Submitted:
    """Take in one job, or raise what is wrong with it."""
    [answer] = await submit(ledger, [submission])
    if isinstance(answer, Refused):
        raise answer
    return answer


async def submit_batch(ledger: Ledger, submissions: Sequence[Submission]) -> list[Submitted]:
    """Take in jobs all together or not at all; limited to what fits into one transaction.

    They may wait for each other, by their local names: then they are a graph.
    """
    if len(submissions) > ledger.limits.graph_jobs_max:
        raise TooLarge("specs", len(submissions), ledger.limits.graph_jobs_max, unit="jobs")
    order = sort_graph(submissions)
    for _ in range(POLICY_TRIES_MAX):
        with suppress(PoliciesChanged):
            return await _submit_batch(ledger, submissions, order)
    raise Unavailable("policies keep changing; try again")


async def _submit_batch(
    ledger: Ledger, submissions: Sequence[Submission], order: list[int]
) -> list[Submitted]:
    found, book = await complete_with_policies(ledger, submissions, in_graph=True)
    complete: list[Submission] = []
    for completed in found:
        if isinstance(completed, Refused):
            raise completed
        complete.append(completed)
    total = sum(submission.num_tasks for submission in complete)
    if total > ledger.limits.batch_tasks_max:
        raise TooLarge("specs", total, ledger.limits.batch_tasks_max, unit="tasks")
    # Stored in the order of the graph, so that a job's id is above those of what it waits for.
    sorted_answers = await _submit_graph(ledger, [complete[place] for place in order], book)
    answers = dict(zip(order, sorted_answers, strict=True))
    return [answers[place] for place in range(len(submissions))]


class _Overtaken(Exception):
    """A job of this graph was submitted elsewhere while its names were being resolved."""


async def _submit_graph(
    ledger: Ledger, submissions: list[Submission], book: PolicyBook
) -> list[Submitted]:
    for _ in range(GRAPH_TRIES_MAX):
        arrivals = await admit(ledger, submissions, book)
        try:
            async with ledger.database.transaction() as tx:
                arrivals, expected = await _name(tx, arrivals)
                answers = await store_arrivals(tx, arrivals)
                for answer in answers:
                    if isinstance(answer, Refused):
                        raise answer
                submitted = [answer for answer in answers if isinstance(answer, Submitted)]
                if {answer.job_id for answer in submitted if answer.is_new} != expected:
                    raise _Overtaken
                return submitted
        except _Overtaken:
            continue
    raise Unavailable("jobs of this graph keep being submitted elsewhere; try again")


async def _name(tx: Transaction, arrivals: list[Arrival]) -> tuple[list[Arrival], set[int]]:
    """Put ids in the place of local names; says which jobs must turn out to be new.

    A job whose key was seen before, in this graph or earlier, is the job of that time, also for
    those that wait for it.
    """
    keyed = [arrival for arrival in arrivals if arrival.spec.idempotency_key]
    seen = await find_by_key(tx, keyed) if keyed else {}
    known = {key: job_id for key, (job_id, _, _) in seen.items()}
    job_ids: dict[int, int] = {}
    for arrival in arrivals:
        key = (arrival.spec.owner, arrival.spec.idempotency_key)
        job_ids[arrival.job_id] = (
            known.setdefault(key, arrival.job_id) if key[1] else arrival.job_id
        )
    expected = {job_id for new_id, job_id in job_ids.items() if job_id == new_id}
    names = {
        a.submission.local_name: job_ids[a.job_id] for a in arrivals if a.submission.local_name
    }
    is_graph = any(is_local(d.job) for a in arrivals for d in dependencies_of(a.spec))
    graph_id = min(expected) if is_graph and expected else None
    return [
        replace(
            arrival,
            submission=resolve(arrival.submission, names),
            graph_id=graph_id,
            siblings=frozenset(
                names[d.job] for d in dependencies_of(arrival.spec) if is_local(d.job)
            )
            & expected,
        )
        for arrival in arrivals
    ], expected


async def _submit_places(
    ledger: Ledger, complete: dict[int, Submission], places: list[int], *, book: PolicyBook
) -> dict[int, Answer]:
    if not places:
        return {}
    arrivals = await admit(ledger, [complete[place] for place in places], book)
    async with ledger.database.transaction() as tx:
        answers = await store_arrivals(tx, arrivals)
        # What is bound to datasets was stored with the numbers of their versions.
        stored = {
            answer.job_id: arrival.stored()
            for arrival, answer in zip(arrivals, answers, strict=True)
            if isinstance(answer, Submitted) and answer.is_new and not arrival.spec.outputs
        }
    for job_id, spec in stored.items():
        ledger.specs.remember(job_id, spec)
    return dict(zip(places, answers, strict=True))


async def _submit_in_chunks(ledger: Ledger, submission: Submission, book: PolicyBook) -> Answer:
    [arrival] = await admit(ledger, [submission], book)
    return await store_in_chunks(ledger, arrival)


async def store_in_chunks(
    ledger: Ledger,
    arrival: Arrival,
    also: Callable[[Transaction], Awaitable[None]] | None = None,
) -> Answer:
    """Store a job in several transactions; the last shows it, and does what else belongs to that.

    If that raises, the job stays hidden, and retention takes it away.
    """
    num_tasks = arrival.submission.num_tasks
    async with ledger.database.transaction() as tx:
        now = await tx.now()
        [arrival], unbound = await bind_outputs(tx, [arrival])
        refused, bonds = await hold_links(tx, [arrival])
        if refused or unbound:
            await forget_versions(tx, [arrival.job_id])
            return (await answer_refused(tx, [arrival], refused | unbound))[arrival.job_id]
        if not await insert_jobs(tx, [arrival], now, shown=False, bonds=bonds):
            seen = await find_by_key(tx, [arrival])
            job_id, digest, shown = seen[arrival.spec.owner, arrival.spec.idempotency_key]
            if shown or digest != arrival.digest:
                await forget_versions(tx, [arrival.job_id])
                return answer_repeat(arrival, job_id, digest)
            # The earlier try died on the way, or is about to find out: start over.
            await delete_hidden_job(tx, job_id)
            await insert_jobs(tx, [arrival], now, shown=False, bonds=bonds)
    for first in range(0, num_tasks, CHUNK_TASKS_MAX):
        end = min(first + CHUNK_TASKS_MAX, num_tasks)
        async with ledger.database.transaction() as tx:
            await _hold_hidden(tx, arrival)
            await insert_tasks(tx, [arrival], now, first=first, end=end)
    async with ledger.database.transaction() as tx:
        answer = await _show(tx, arrival, now)
        if also is not None and isinstance(answer, Submitted):
            await also(tx)
        return answer


async def _show(tx: Transaction, arrival: Arrival, arrived_at: datetime) -> Answer:
    """Let a job that has arrived whole be seen, and its tasks stand in line."""
    await _hold_hidden(tx, arrival)
    unbound = await hold_bindings(tx, arrival)
    refused, bonds = await hold_links(tx, [arrival])
    if refused or unbound:  # a parent ended, or a version was sealed, while it was still arriving
        await delete_hidden_job(tx, arrival.job_id)
        return unbound or refused[arrival.job_id]
    await keep_bindings(tx, [arrival], {arrival.job_id})
    unmet = bonds[arrival.job_id].unmet if bonds else 0
    await tx.fetch(_JOBS["show_job"], job_id=arrival.job_id, unmet=unmet, now=await tx.now())
    await insert_bonds(tx, bonds)
    if not unmet:
        await line_up(tx, [arrival], arrived_at)
        await add_follow_ups(tx, [("feed", arrival.job_id)], next_index=CHUNK_TASKS_MAX)
    return Submitted(arrival.job_id, is_new=True)


async def _hold_hidden(tx: Transaction, arrival: Arrival) -> None:
    if await tx.fetch_one(_JOBS["lock_hidden_job"], job_id=arrival.job_id) is None:
        raise Unavailable("this submission was started over under the same idempotency key")


async def delete_hidden_job(tx: Transaction, job_id: int) -> None:
    """Forget a submission that never arrived whole."""
    if await tx.fetch_one(_JOBS["lock_hidden_job"], job_id=job_id) is not None:
        await tx.fetch(_TASKS["delete_hidden_tasks"], job_id=job_id)
        await forget_versions(tx, [job_id])
        await tx.fetch(_JOBS["delete_job"], job_id=job_id)
