"""`queues`: what waits where, and a queue that is paused hands out nothing."""

from uuid import uuid4

from tests.cli.conftest import Service


def test_a_queue_is_listed_with_what_waits_in_it(service: Service) -> None:
    queue = f"q{uuid4().hex[:8]}"
    ids = [service.submit("tests.cli.tasks:add", "--arg=1", f"--queue={queue}") for _ in range(2)]
    [found] = [each for each in service.ask("queues")["queues"] if each["queue"] == queue]
    assert (found["depth"], found["running"], found["paused"]) == (2, 0, False)
    assert found["oldest_age_seconds"] >= 0
    [line] = [line for line in service.run("queues").out.splitlines() if queue in line]
    assert line.split()[:2] == [queue, "2"]
    assert line.split()[-1] == "none", "no worker serves it"
    assert (found["workers"], found["is_served"]) == (0, False)
    assert service.run("cancel", *ids).code == 0


def test_a_paused_queue_says_by_whom_and_goes_on_when_resumed(service: Service) -> None:
    queue = f"q{uuid4().hex[:8]}"
    paused = service.run("queues", "pause", queue)
    assert (paused.code, paused.out) == (0, f"queue {queue} is paused\n")
    assert service.run("queues", "pause", queue).code == 0
    [found] = [each for each in service.ask("queues")["queues"] if each["queue"] == queue]
    assert found["paused"]
    [line] = [line for line in service.run("queues").out.splitlines() if queue in line]
    assert line.endswith(f"by {found['paused_by']}")
    resumed = service.run("queues", "resume", queue)
    assert (resumed.code, resumed.out) == (0, f"queue {queue} goes on\n")
    assert queue not in service.run("queues").out
