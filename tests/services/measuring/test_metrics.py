"""What is counted and measured, told as a small story; names as the specification has them."""

from prometheus_client.parser import text_string_to_metric_families

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.work.outcomes import PutOff
from holdfast.model.work.states import TaskState
from holdfast.operations.signals import wait_for_signal
from holdfast.services.measuring import metrics as metrics_module
from holdfast.services.measuring.metrics import Metrics
from tests.placed_world import PlacedWorld
from tests.world import World, fence_of

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(metrics: Metrics) -> Samples:
    """Read a scrape as Prometheus would, without what is zero and the buckets' times."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def counter(samples: Samples, name: str, **labels: str) -> float:
    """Give one number of a scrape."""
    return samples[f"holdfast_{name}", tuple(sorted(labels.items()))]


def moves(samples: Samples) -> dict[tuple[str, str], float]:
    """List every move that was counted."""
    return {
        (dict(labels)["from"], dict(labels)["to"]): value
        for (name, labels), value in samples.items()
        if name == "holdfast_transitions_total"
    }


async def test_every_counter_is_there_before_anything_happened(ledger: Ledger) -> None:
    samples = read(Metrics(ledger))
    for name in (
        "claims_total",
        "claim_conflicts_total",
        "lease_renewals_total",
        "lease_conflicts_total",
        "lease_expiries_total",
        "retries_total",
        "signal_waits_total",
        "failures_total",
        "put_offs_total",
        "dead_letters_total",
        "submitted_tasks_total",
    ):
        assert counter(samples, name) == 0
    text = Metrics(ledger).render().decode()
    for name in ("transitions_total", "wait_seconds", "run_seconds"):
        assert f"# TYPE holdfast_{name}" in text


async def test_a_wait_for_a_signal_is_no_retry(ledger: Ledger, world: World) -> None:
    metrics = Metrics(ledger)
    ledger.on_commit = metrics.count
    await world.submit([1, 2, 3], max_retries_failure=1)
    waiting, put_off, failing = await world.claim(3)
    for claim in (waiting, put_off, failing):
        await world.start(claim)
    await wait_for_signal(ledger, fence_of(waiting), name="go", number=1, timeout=None)
    await world.complete(waiting, "waiting")
    await world.complete(put_off, "failed", error="later", put_off=PutOff(60_000))
    await world.fail(failing)
    samples = read(metrics)
    assert counter(samples, "signal_waits_total") == 1
    assert counter(samples, "put_offs_total") == 1
    assert counter(samples, "retries_total") == 1
    assert moves(samples)["WORKER_FAILED", "PENDING"] == 1


async def test_a_small_story_is_counted_right(ledger: Ledger, world: World) -> None:
    metrics = Metrics(ledger)
    ledger.on_commit = metrics.count
    await world.watch()
    await world.submit(inputs=[1, 2, 3], type="report", max_retries_failure=1)
    fine, failing, lost = await world.claim(3)
    await world.start(fine)
    await world.succeed(fine)
    await world.start(failing)
    await world.fail(failing)
    await world.pass_time(40)
    for again in await world.claim(2):
        await world.start(again)
        await world.fail(again)
    await world.pass_time(5)
    [third] = await world.claim(5)
    assert third.task_id == lost.task_id
    await world.start(third)
    await world.fail(third)
    samples = read(metrics)
    told = {
        name: counter(samples, f"{name}_total")
        for name in ("claims", "lease_expiries", "retries", "failures", "dead_letters")
    }
    assert told == {
        "claims": 6,
        "lease_expiries": 1,
        "retries": 3,
        "failures": 4,
        "dead_letters": 2,
    }
    assert moves(samples) == {
        ("PENDING", "ASSIGNED"): 6,
        ("ASSIGNED", "RUNNING"): 5,
        ("RUNNING", "SUCCEEDED"): 1,
        ("RUNNING", "FAILED"): 4,
        ("ASSIGNED", "WORKER_FAILED"): 1,
        ("FAILED", "PENDING"): 2,
        ("WORKER_FAILED", "PENDING"): 1,
        ("FAILED", "DEAD_LETTERED"): 2,
    }


async def test_times_are_measured_by_job_type(ledger: Ledger, world: World) -> None:
    metrics = Metrics(ledger)
    ledger.on_commit = metrics.count
    for kind, waits, runs in (("report", 3, 20), ("mail", 0, 0)):
        await world.submit(type=kind, lease=120.0)
        await world.clock.advance(waits)
        [mine] = await world.claim()
        await world.start(mine)
        await world.clock.advance(runs)
        await world.succeed(mine)
    samples = read(metrics)
    for kind, waits, runs in (("report", 3, 20), ("mail", 0, 0)):
        assert counter(samples, "wait_seconds_count", type=kind) == 1
        assert waits <= counter(samples, "wait_seconds_sum", type=kind) < waits + 2.5
        assert counter(samples, "run_seconds_count", type=kind) == 1
        assert runs <= counter(samples, "run_seconds_sum", type=kind) < runs + 2.5
    assert counter(samples, "wait_seconds_bucket", type="report", le="2.5") == 0
    assert counter(samples, "wait_seconds_bucket", type="report", le="10.0") == 1
    assert counter(samples, "run_seconds_bucket", type="report", le="10.0") == 0
    assert counter(samples, "run_seconds_bucket", type="report", le="30.0") == 1


async def test_renewals_of_placed_leases_are_counted(cluster: PlacedWorld) -> None:
    metrics = Metrics(cluster.ledger)
    cluster.ledger.on_commit = metrics.count
    await cluster.add("w1")
    await cluster.submit()
    await cluster.place()
    before = counter(read(metrics), "lease_renewals_total")
    for _ in range(2):
        await cluster.beat()
    assert counter(read(metrics), "lease_renewals_total") - before == 2


async def test_an_operators_burial_is_a_dead_letter_and_no_failure(ledger: Ledger) -> None:
    metrics = Metrics(ledger)
    news = News()
    news.moves[TaskState.RUNNING, TaskState.KILLED] += 1
    news.moves[TaskState.KILLED, TaskState.DEAD_LETTERED] += 1
    news.moves[TaskState.PENDING, TaskState.DEAD_LETTERED] += 1
    metrics.count(news)
    samples = read(metrics)
    assert counter(samples, "dead_letters_total") == 2
    assert counter(samples, "failures_total") == counter(samples, "retries_total") == 0


async def test_a_clock_that_stepped_back_does_not_make_times_negative(ledger: Ledger) -> None:
    metrics = Metrics(ledger)
    metrics.count(News(waits=[(1, -2.0)]))
    assert counter(read(metrics), "wait_seconds_sum", type="other") == 0


async def test_a_runaway_number_of_types_is_folded(ledger: Ledger, world: World) -> None:
    metrics = Metrics(ledger)
    ledger.on_commit = metrics.count
    limit, metrics_module.TYPES_MAX = metrics_module.TYPES_MAX, 2
    try:
        for kind in ("a", "b", "c", "d", "a"):
            await world.submit(type=kind)
        await world.claim(5)
    finally:
        metrics_module.TYPES_MAX = limit
    samples = read(metrics)
    counts = {kind: counter(samples, "wait_seconds_count", type=kind) for kind in "ab"}
    assert counts == {"a": 2, "b": 1}
    assert counter(samples, "wait_seconds_count", type="other") == 2


async def test_what_was_put_off_is_counted_and_no_failure_of_its_type(
    ledger: Ledger, world: World
) -> None:
    metrics = Metrics(ledger)
    told: list[News] = []
    ledger.on_commit = told.append
    await world.submit(on_exhausted="fail", max_retries_failure=1)
    for after_ms in (0, 1):
        [mine] = await world.claim()
        await world.start(mine)
        await world.complete(mine, "failed", put_off=PutOff(after_ms))
    for news in told:
        metrics.count(news)
    assert counter(read(metrics), "put_offs_total") == 1
    assert sum(len(news.failures) for news in told) == 1, "only the last has failed for good"


async def test_turns_at_limits_are_counted_by_what_was_told(ledger: Ledger) -> None:
    metrics = Metrics(ledger)
    for given in ("at_once", "later", "later"):
        metrics.count_turn("stripe", given)
    text = metrics.render().decode()
    assert 'holdfast_limit_turns_total{given="later",limit="stripe"} 2.0' in text
