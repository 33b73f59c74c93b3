"""A caller is refused what is not his, and told what he lacks and what to do."""

import pytest

from holdfast.errors import NotAllowed
from holdfast.model.access.callers import ANYBODY, Caller
from holdfast.model.access.roles import Role, with_implied

ANN = Caller("ci", with_implied([Role.SUBMIT]), frozenset({"ann"}), frozenset({"a", "b"}))
ALL = Caller("ops", with_implied([Role.SUBMIT]))


def test_a_role_that_is_lacking_is_named_with_those_that_have_it() -> None:
    ANN.check_role(Role.CONTENT, "GET /x")
    with pytest.raises(NotAllowed, match=r"POST /y asks for the role worker, .*'ci' lacks.*admin"):
        ANN.check_role(Role.WORKER, "POST /y")


@pytest.mark.parametrize(
    ("owner", "queue"), [("bob", "a"), ("ann", "c"), ("ann", None), ("bob", None)]
)
def test_a_job_of_others_is_out_of_reach(owner: str, queue: str | None) -> None:
    assert ANN.may_reach("ann", "a")
    assert ALL.may_reach(owner, queue)
    assert not ANN.may_reach(owner, queue)


def test_what_is_not_given_is_the_only_one_allowed() -> None:
    assert ANN.narrow_owner(None) == "ann"
    assert ANN.narrow_owner("ann") == "ann"
    assert ANN.narrow_queue("b") == "b"
    assert ALL.narrow_owner("zoe") == "zoe"
    assert ALL.narrow_queue(None) is None
    for asked in (None, "c"):
        with pytest.raises(NotAllowed, match="queues a, b only"):
            ANN.narrow_queue(asked)


def test_queues_to_claim_from_are_all_his() -> None:
    ANN.check_queues(["a", "b"], "tasks are claimed")
    with pytest.raises(NotAllowed, match="tasks are claimed from the queue 'c'"):
        ANN.check_queues(["a", "c"], "tasks are claimed")


def test_where_nothing_can_be_narrowed_only_the_wide_may_go() -> None:
    for caller in (ALL, ANYBODY):
        caller.refuse_narrow("GET /x")
    with pytest.raises(NotAllowed, match="GET /x cannot be narrowed to owner ann and queues a, b"):
        ANN.refuse_narrow("GET /x")
