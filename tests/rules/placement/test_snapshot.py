"""What the scheduler reads of a spec, and in which order demands are served."""

import pytest

from holdfast.errors import Invalid
from holdfast.model.submitting.spec import Entrypoint, JobSpec
from holdfast.model.workers.resources import Constraint, Coscheduling, Resources
from holdfast.rules.placement.snapshot import Shape, missing_members, rank, shape_of
from tests.rules.placement_builders import a_demand, a_gang

RUN = Entrypoint(command=["true"])


def test_a_spec_without_resources_asks_for_one_cpu() -> None:
    assert shape_of(JobSpec(RUN)) == Shape(1.0, 0, 0, 0, None, 0, (), None)


def test_a_shape_has_sizes_in_bytes_and_ports_by_number() -> None:
    resources = Resources(
        cpu=2, memory="4GB", disk=5, gpu=1, gpu_model="H100", ports=["http", "rpc"]
    )
    spec = JobSpec(RUN, resources=resources, coscheduling=Coscheduling("rack", "pack"))
    assert shape_of(spec) == Shape(2, 4 * 10**9, 5, 1, "H100", 2, (), "rack", "pack")


def test_the_order_of_constraints_makes_no_other_shape() -> None:
    one, two = Constraint("region", "=", "eu"), Constraint("nvme", "exists")
    shapes = {shape_of(JobSpec(RUN, constraints=found)) for found in ([one, two], [two, one, two])}
    assert len(shapes) == 1


def test_a_size_that_is_none_is_refused() -> None:
    with pytest.raises(Invalid, match=r"resources\.memory"):
        shape_of(JobSpec(RUN, resources=Resources(memory="much")))


def test_lines_are_served_by_priority_then_age_then_job() -> None:
    served = [
        a_demand(9, priority=2, since=50.0),
        a_demand(8, priority=1, since=10.0),
        a_demand(3, priority=1, since=20.0),
        a_demand(4, priority=1, since=20.0, avoid="w1"),
        a_demand(4, priority=1, since=20.0),
        a_demand(1, priority=-1, since=0.0),
    ]
    mixed = served[3:] + served[:3]
    assert sorted(mixed, key=rank) == served


def test_a_gang_waits_for_members_that_are_away() -> None:
    assert missing_members(a_gang(members=4)) == 0
    assert missing_members(a_gang(members=4, gang_missing=1)) == 1
    assert missing_members(a_gang(members=4, count=1)) == 3
    assert missing_members(a_demand(count=0)) == 0
