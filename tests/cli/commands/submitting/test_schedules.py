"""`schedules`: set, shown and fired from the command line."""

from uuid import uuid4

from tests.cli.conftest import Service


def test_a_schedule_is_set_shown_run_and_deleted(service: Service) -> None:
    name = f"s{uuid4().hex[:8]}"
    ended = service.call(
        "schedules", "set", name, "tests.cli.tasks:add", "--arg=1", "--queue=none",
        "--cron=0 3 * * *", "--tz=Europe/Berlin", "--overlap=queue", "--catch-up=all",
        "--jitter=5m",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert ended.out.startswith(f"schedule {name}  version 1  next ")
    found = service.ask("schedules", "show", name)
    assert (found["cron"], found["tz"], found["jitter"]) == ("0 3 * * *", "Europe/Berlin", 300.0)
    assert found["spec"]["entrypoint"]["args"] == [1]
    [line] = [line for line in service.call("schedules").out.splitlines() if name in line]
    assert "0 3 * * * Europe/Berlin" in line
    assert service.call("schedules", "pause", name).out == f"schedule {name} is paused\n"
    job_id = service.call("schedules", "run", name, "--key=k").out.strip()
    assert service.call("schedules", "run", name, "--key=k").out.strip() == job_id
    assert service.ask("job", job_id)["spec"]["environment"]["HOLDFAST_SCHEDULE"] == name
    told = service.call("schedules", "backfill", name, "--from=3d", "--until=1h", "--dry-run")
    assert told.out.endswith("of them without a job\n")
    made = service.call("schedules", "backfill", name, "--from=3d", "--until=1h")
    assert len(made.out.split()) == int(told.out.split()[0])
    kinds = [each["kind"] for each in service.ask("schedules", "firings", name)["firings"]]
    assert kinds == ["manual"] + ["backfill"] * len(made.out.split())
    assert "manual" in service.call("schedules", "firings", name).out
    shown = service.call("schedules", "show", name).out
    assert "all, up to 10" in shown
    assert "paused" in shown
    assert service.call("schedules", "resume", name).code == 0
    assert service.call("schedules", "delete", name).code == 0
    assert service.call("schedules", "delete", name).code == 1
    for each in (job_id, *made.out.split()):
        assert service.call("cancel", each).code == 0


def test_a_command_and_an_interval_are_a_schedule_too(service: Service) -> None:
    name = f"s{uuid4().hex[:8]}"
    ended = service.run(
        "schedules", "set", name, "--every=1h30m", "--start=2020-01-01T00:00+00:00",
        "--queue=none", "--", "true", "x",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert service.ask("schedules", "show", name)["every"] == 5400.0
    [line] = [line for line in service.call("schedules").out.splitlines() if name in line]
    assert "every 1 h 30 min" in line
    assert service.call("schedules", "delete", name).code == 0


def test_what_cannot_be_set_is_said_with_its_field(service: Service) -> None:
    for arguments, word in (
        (["app:work", "--cron=often"], "cron"),
        (["app:work", "--cron=0 3 * * *", "--tz=Berlin"], "tz"),
        (["app:work", "--every=soon"], "--every"),
        (["app:work"], "cron"),
        (["--cron=0 3 * * *"], "give a function, a command or --spec"),
        (["a", "b", "--arg=1", "--cron=0 3 * * *"], "goes with a function"),
    ):
        ended = service.call("schedules", "set", "s", *arguments)
        assert (ended.code, word in ended.err) == (2, True), ended
    assert service.call("schedules", "show", "nothing").code == 1
