"""Admission: an id each, in the order given, and what was asked for."""

import msgspec
import pytest

from holdfast.errors import Invalid
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.policies import TypePolicy
from holdfast.model.submitting.spec import Submission
from holdfast.operations.policies import set_policy
from holdfast.operations.submitting.admit import PoliciesChanged, admit
from holdfast.rules.submitting.submission import complete_submission, parse_spec
from tests.world import World


def a_job(ledger: Ledger, inputs: tuple[str, ...] | None = None, **fields: object) -> Submission:
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q", **fields})
    return complete_submission(Submission(spec, inputs), ledger.limits)


async def test_each_gets_an_id_and_names_of_its_own_and_nothing_is_stored(
    ledger: Ledger, world: World
) -> None:
    first, second, named = await admit(
        ledger, [a_job(ledger), a_job(ledger, replicas=3), a_job(ledger, correlation_id="order-7")]
    )
    assert first.job_id < second.job_id < named.job_id
    assert first.correlation_id != second.correlation_id
    assert (named.correlation_id, second.num_tasks) == ("order-7", 3)
    assert (first.stored().name, first.stored().terms.queue) == ("work", "q")
    assert await world.count("jobs") == 0
    with pytest.raises(Invalid, match="specs: is empty"):
        await admit(ledger, [])


async def test_what_was_asked_is_kept_beside_what_a_policy_made_of_it(ledger: Ledger) -> None:
    plain = a_job(ledger)
    other = msgspec.structs.replace(plain.spec, priority=7)
    filled = msgspec.structs.replace(plain, spec=other, plain=plain.spec)
    first, second = await admit(ledger, [plain, filled])
    assert first.asked == second.asked == plain.spec
    assert (first.spec.priority, second.spec.priority) == (plain.spec.priority, 7)


async def test_policies_that_no_longer_hold_are_noticed_and_read_anew(ledger: Ledger) -> None:
    before = ledger.policies
    [earlier] = await admit(ledger, [a_job(ledger)], before)
    await set_policy(ledger, "work", TypePolicy(), actor="ann")
    with pytest.raises(PoliciesChanged):
        await admit(ledger, [a_job(ledger)], before)
    assert ledger.policies.version == before.version + 1
    [job] = await admit(ledger, [a_job(ledger)], ledger.policies)
    assert job.job_id == earlier.job_id + 1, "that has cost no id"
    assert job.eligible_at(job.admitted_at) == job.admitted_at
