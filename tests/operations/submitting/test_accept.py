"""Accepting under the policies at hand: nobody is asked, unless a policy refuses."""

from holdfast.errors import Invalid
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.policies import PolicyLimits, TypePolicy
from holdfast.model.submitting.spec import Submission
from holdfast.operations.policies import set_policy
from holdfast.operations.submitting.accept import accept
from holdfast.rules.submitting.submission import parse_spec


def a_job(**fields: object) -> Submission:
    return Submission(parse_spec({"entrypoint": {"function": "app:work"}} | fields))


async def test_what_no_policy_refuses_is_completed_with_what_is_at_hand(ledger: Ledger) -> None:
    policy = TypePolicy(limits=PolicyLimits(max_retries_failure=1))
    await set_policy(ledger, "work", policy, actor="ann")
    asked = [a_job(max_retries_failure=2), a_job(lease=1)]
    [stored, refused], book = await accept(ledger, asked)
    # The ledger has not heard of the policy; that will be seen when ids are given out.
    assert (isinstance(stored, Submission), book.version) == (True, 0)
    assert isinstance(refused, Invalid)
    ledger.policies = book._replace(by_type={"other": policy})
    assert (await accept(ledger, asked))[1].version == 0


async def test_what_a_policy_refuses_is_looked_at_once_more(ledger: Ledger) -> None:
    for most in (1, 2):
        policy = TypePolicy(limits=PolicyLimits(max_retries_failure=most))
        await set_policy(ledger, "work", policy, actor="ann")
        if most == 1:
            ledger.policies = ledger.policies._replace(version=1, by_type={"work": policy})
    [stored, beyond], book = await accept(
        ledger, [a_job(max_retries_failure=2), a_job(max_retries_failure=3)]
    )
    assert (isinstance(stored, Submission), book.version, ledger.policies) == (True, 2, book)
    assert isinstance(beyond, Invalid)
    assert beyond.field == "max_retries_failure"
