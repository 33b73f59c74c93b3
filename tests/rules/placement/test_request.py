"""What a submission may ask of the workers it is placed on."""

from typing import Any

import pytest

from holdfast.errors import Invalid, TooLarge
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.model.workers.resources import Resources
from holdfast.rules.submitting.submission import complete_submission, parse_spec

LIMITS = Limits(gang_tasks_max=8)
HASH = "0" * 64


def complete(inputs: tuple[str, ...] | None = None, **fields: Any) -> Submission:
    spec = parse_spec({"entrypoint": {"shell": "true"}, **fields})
    return complete_submission(Submission(spec, inputs), LIMITS)


def test_sizes_are_stored_as_bytes() -> None:
    resources = complete(resources={"cpu": 0.5, "memory": "4GB", "disk": "1Ki"}).spec.resources
    assert resources == Resources(cpu=0.5, memory=4_000_000_000, disk=1024)


def test_who_asks_for_nothing_has_nothing_stored() -> None:
    assert complete().spec.resources is None


@pytest.mark.parametrize(
    ("field", "resources"),
    [
        ("resources.cpu", {"cpu": 0}),
        ("resources.cpu", {"cpu": -1}),
        ("resources.cpu", {"cpu": float("nan")}),
        ("resources.cpu", {"cpu": 5000}),
        ("resources.memory", {"memory": -1}),
        ("resources.memory", {"memory": "lots"}),
        ("resources.disk", {"disk": 1 << 61}),
        ("resources.gpu", {"gpu": -1}),
        ("resources.gpu_model", {"gpu_model": "H100"}),
        ("resources.ports", {"ports": ["http", "HTTP"]}),
        ("resources.ports", {"ports": ["8080"]}),
        ("resources.ports", {"ports": [f"p{n}" for n in range(33)]}),
    ],
)
def test_resources_that_no_worker_can_give_are_refused(
    field: str, resources: dict[str, Any]
) -> None:
    with pytest.raises((Invalid, TooLarge)) as caught:
        complete(resources=resources)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("resources.gpu", {"resources": {"gpu": 2}}),
        ("resources.ports", {"resources": {"cpu": 2, "ports": ["http"]}}),
        ("constraints", {"constraints": [{"attribute": "rack", "value": "r1"}]}),
        ("coscheduling", {"coscheduling": {"group_by": "rack"}}),
        ("bundle", {"bundle": HASH}),
        ("requirements", {"requirements": ["numpy"]}),
    ],
)
def test_claimed_work_asks_for_amounts_alone(field: str, fields: dict[str, Any]) -> None:
    complete(**fields)
    with pytest.raises(Invalid, match="goes with placed work; leave out queue") as caught:
        complete(queue="q", **fields)
    assert caught.value.field == field


def test_amounts_of_claimed_work_are_checked_and_completed_as_those_of_placed_work() -> None:
    found = complete(queue="q", resources={"cpu": 2, "memory": "1GB", "disk": "2GB"}).spec
    assert found.resources == Resources(cpu=2, memory=10**9, disk=2 * 10**9)
    for amounts, name in (({"cpu": 0}, "cpu"), ({"memory": "much"}, "memory")):
        with pytest.raises(Invalid) as caught:
            complete(queue="q", resources=amounts)
        assert caught.value.field == f"resources.{name}"


def test_a_gang_has_replicas_up_to_a_limit_and_fails_as_a_whole() -> None:
    complete(coscheduling={}, replicas=8)
    with pytest.raises(TooLarge) as too_large:
        complete(coscheduling={}, replicas=9)
    assert too_large.value.field == "replicas"
    for field, fields in (
        ("coscheduling", {"inputs": ("1", "2")}),
        ("max_task_failures", {"max_task_failures": 1, "replicas": 2}),
    ):
        with pytest.raises(Invalid) as caught:
            complete(coscheduling={}, **fields)
        assert caught.value.field == field


def test_a_gang_is_grouped_by_an_attribute_with_a_name() -> None:
    with pytest.raises(Invalid) as caught:
        complete(coscheduling={"group_by": ""})
    assert caught.value.field == "coscheduling.group_by"
    with pytest.raises(Invalid) as caught:
        complete(coscheduling={"hosts": "apart"})
    assert caught.value.field == "coscheduling.hosts"


def test_a_constraint_that_makes_no_sense_is_named() -> None:
    with pytest.raises(Invalid) as caught:
        complete(constraints=[{"attribute": "a", "value": 1}, {"attribute": "b", "op": "in"}])
    assert caught.value.field is not None
    assert caught.value.field.startswith("constraints[1]")
    with pytest.raises(TooLarge):
        complete(constraints=[{"attribute": "a", "value": n} for n in range(33)])


@pytest.mark.parametrize("bundle", ["", "abc", "G" * 64, HASH + "0"])
def test_a_bundle_is_named_by_its_hash(bundle: str) -> None:
    complete(bundle=HASH)
    with pytest.raises(Invalid) as caught:
        complete(bundle=bundle)
    assert caught.value.field == "bundle"


@pytest.mark.parametrize("demand", ["", " ", "-r other.txt", "--index-url x", "a\nb", "x" * 1001])
def test_a_requirement_is_one_line_and_no_option(demand: str) -> None:
    complete(requirements=["numpy==2.1"])
    with pytest.raises(Invalid) as caught:
        complete(requirements=["numpy", demand])
    assert caught.value.field == "requirements[1]"


def test_there_is_an_end_to_requirements() -> None:
    with pytest.raises(TooLarge):
        complete(requirements=["numpy"] * 1001)
