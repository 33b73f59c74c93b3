"""What no worker could ever run, and what only has to wait."""

from holdfast.model.workers.resources import Capacity, Constraint
from holdfast.rules.placement.impossible import Impossible, list_impossible
from tests.rules.placement_builders import GB, NOW, a_demand, a_gang, a_shape, a_worker

EU = Constraint("region", "=", "eu")


def test_what_is_larger_than_every_worker_is_found_and_what_has_to_wait_is_not() -> None:
    fleet = [a_worker("w1", gpu=4, used=Capacity(cpu=8.0, gpu=4)), a_worker("w2", accepts=False)]
    found = list_impossible(
        fleet,
        [
            a_demand(1, a_shape(gpu=4)),
            a_demand(2, a_shape(gpu=8), since=NOW - 60),
            a_demand(3, a_shape(gpu=8), since=NOW - 90),
            a_demand(3, a_shape(gpu=8), since=NOW - 80, avoid="w1"),
            a_demand(4, a_shape(memory=64 * GB)),
        ],
    )
    assert found == [
        Impossible("1 cpu, 8 gpu", "the largest has 4 gpu", NOW - 90, (3, 2)),
        Impossible("1 cpu, 64GB memory", "the largest has 32GB memory", NOW, (4,)),
    ]


def test_a_condition_that_no_worker_fulfils_is_named() -> None:
    fleet = [a_worker(attributes={"region": "us"}, gpu=1, gpu_model="A100")]
    found = list_impossible(
        fleet, [a_demand(1, a_shape(EU)), a_demand(2, a_shape(gpu=1, gpu_model="H100"))]
    )
    assert [(one.asks_for, one.why) for one in found] == [
        ("1 cpu, region=eu", "no worker has region=eu"),
        ("1 cpu, 1 gpu, gpu_model=H100", "no worker has gpu_model=H100"),
    ]


def test_conditions_that_no_single_worker_fulfils_are_told_apart() -> None:
    fleet = [
        a_worker("w1", attributes={"region": "eu"}),
        a_worker("w2", attributes={"region": "us", "rack": 1}),
    ]
    both = a_shape(EU, Constraint("rack", "exists"))
    [found] = list_impossible(fleet, [a_demand(1, both)])
    assert found.why == "no worker has all that is asked of one"


def test_without_a_worker_nothing_can_be_placed() -> None:
    [found] = list_impossible([], [a_demand(7)])
    assert (found.why, found.job_ids) == ("no worker has registered for placed work", (7,))


def test_a_gang_is_as_large_as_all_its_members() -> None:
    fleet = [a_worker(f"w{n}", cpu=4.0, attributes={"rack": n % 2}) for n in range(4)]
    within = a_shape(cpu=4.0, group_by="rack")
    found = list_impossible(
        fleet,
        [
            a_gang(1, 4, shape=a_shape(cpu=4.0)),
            a_gang(2, 5, shape=a_shape(cpu=4.0)),
            a_gang(3, 3, shape=within),
        ],
    )
    assert [(one.job_ids, one.asks_for, one.why) for one in found] == [
        ((2,), "5 tasks together, each 4 cpu", "all workers have room for 4 of 5"),
        (
            (3,),
            "3 tasks together within one rack, each 4 cpu",
            "the largest rack has room for 2 of 3",
        ),
    ]


def test_a_gang_that_has_too_few_hosts_is_told_so() -> None:
    fleet = [a_worker("w1", host="a"), a_worker("w2", host="a")]
    demands = [
        a_gang(1, 2, shape=a_shape(hosts="spread")),
        a_gang(2, 99, shape=a_shape(hosts="pack")),
    ]
    found = list_impossible(fleet, demands, unstarted_max=99)
    assert [(one.asks_for, one.why) for one in found] == [
        (
            "2 tasks together on hosts of their own, each 1 cpu",
            "all workers have room for 1 of 2, each on a host of its own",
        ),
        ("99 tasks together on one host, each 1 cpu", "the largest host has room for 16 of 99"),
    ]
