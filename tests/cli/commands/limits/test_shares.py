"""`shares`: by what queues are shared."""

from uuid import uuid4

from tests.cli.conftest import Service


def test_a_rule_is_set_listed_and_taken_back(service: Service) -> None:
    queue = f"q{uuid4().hex[:8]}"
    said = service.run("shares", "set", queue, "--weight=ann=3", "--age-step=60", "--age-max=2")
    assert said.code == 0, said
    words = f"{queue} is shared by owner; tasks gain a step of priority each 1 min, 2 at most"
    assert said.out.startswith(words)
    [rule] = [each for each in service.ask("shares")["rules"] if each["queue"] == queue]
    assert (rule["by"], rule["weights"], rule["age_max"]) == ("owner", {"ann": 3}, 2)
    [line] = [line for line in service.run("shares", queue).out.splitlines() if queue in line]
    assert line.split()[:5] == [queue, "ann", "3", "0", "0"]
    assert service.run("shares", "unset", queue).code == 0


def test_a_rule_needs_a_queue_or_placed_work_and_weights_that_are_numbers(
    service: Service,
) -> None:
    assert "--placed" in service.run("shares", "set").err
    assert "--placed" in service.run("shares", "unset", "q", "--placed").err
    assert "'ann' is not VALUE=NUMBER" in service.run("shares", "set", "q", "--weight=ann").err
    absent = service.run("shares", "unset", f"q{uuid4().hex[:8]}")
    assert (absent.code, "has no rule" in absent.err) == (1, True)
