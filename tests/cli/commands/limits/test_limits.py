"""`limits`: set, listed, shown and deleted while work goes on."""

from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.cli.conftest import Service
from tests.cli.program import eventually


def test_a_limit_is_set_changed_and_deleted(service: Service) -> None:
    name = f"l{uuid4().hex[:8]}"
    made = service.run("limits", "set", name, "--per=key", "--rate=100/minute", "--queue=mail")
    assert (made.code, made.out) == (
        0,
        f"limit {name} allows 100/minute, 1.66667 at once per key, in queue mail\n",
    )
    assert "100/minute" in service.run("limits").out
    changed = service.run("limits", "set", name, "--burst=20")
    assert changed.out == f"limit {name} allows 100/minute, 20 at once per key, in queue mail\n"
    assert service.run("limits", "set", name, "--rate=5/10s").code == 0
    limit = service.ask("limits", "show", name)["limit"]
    assert (limit["most"], limit["period"], limit["burst"]) == (5.0, 10.0, 20.0)
    assert limit["in_queue"] == "mail"
    shown = service.run("limits", "show", name)
    assert "5/10 s, 20 at once" in shown.out
    assert "met nothing yet" in shown.err
    assert [each["name"] for each in service.ask("limits", "list")["limits"]].count(name) == 1
    assert service.run("limits", "delete", name).out == f"limit {name} is deleted\n"
    gone = service.run("limits", "delete", name)
    assert (gone.code, gone.out) == (1, "")
    assert service.run("limits", "show", name).code == 1


def test_a_burst_stays_while_there_is_one_and_goes_with_the_rate_if_nobody_gave_it(
    service: Service,
) -> None:
    name = f"l{uuid4().hex[:8]}"
    for flags, allowed in (
        (("--per=key", "--rate=10/s"), "10/s, 10 at once"),
        (("--rate=20/s",), "20/s, 20 at once"),
        (("--rate=20/s", "--burst=5"), "20/s, 5 at once"),
        (("--rate=30/s",), "30/s, 5 at once"),
        (("--rate=40/s", "--burst=6"), "40/s, 6 at once"),
    ):
        said = service.run("limits", "set", name, *flags)
        assert said.out == f"limit {name} allows {allowed} per key\n", flags
    for flag in ("--window", "--slots=3"):
        said = service.run("limits", "set", name, flag)
        assert "kind: " in said.err, said
    assert service.run("limits", "delete", name).code == 0


def test_a_limit_that_lacks_something_is_refused_with_what_to_give(service: Service) -> None:
    for flags, problem in (
        (("--slots=5",), "--per: is missing: the limit is new"),
        (("--per=queue",), "--slots: is missing: give it, or --rate 10/s"),
        (("--per=queue", "--slots=5", "--rate=1/s"), "--rate: goes without --slots"),
        (("--per=queue", "--slots=1.5"), "--slots: is 1.5; slots are whole"),
        (("--per=queue", "--slots=-1"), "--slots: is -1; give 0 to"),
        (("--per=queue", "--rate=often"), "--rate: 'often' is not a rate; write 10/s"),
        (("--per=key", "--rate=5/0.0001s"), "--rate: is 0.0001; give 0.001 to"),
        (("--per=queue", "--slots=5", "--burst=2"), "--burst: goes with a rate"),
        (("--per=key", "--slots=5", "--queue=a b"), "--queue: 'a b'"),
    ):
        said = service.run("limits", "set", "new", *flags)
        assert (said.code, said.out) == (2, "")
        assert problem in said.err


def test_what_waits_for_a_limit_is_explained_and_goes_on_when_that_is_raised(
    service: Service, tmp_path: Path
) -> None:
    kind = f"k{uuid4().hex[:8]}"
    made = service.call("limits", "set", kind, "--per=owner", f"--only-for={kind}", "--slots=1")
    assert made.out == f"limit {kind} allows 1 slot for owner {kind}\n"
    function = ("tests.cli.tasks:wait_beside", f'--arg="{tmp_path}"', f"--owner={kind}")
    ids = [service.submit(*function, f"--arg={rank}") for rank in range(3)]

    def look() -> Any:
        return service.ask("limits", "show", kind)

    eventually(lambda: (look()["limit"]["held"], look()["limit"]["gated"]) == (1, 2))
    [bucket] = look()["buckets"]
    [holder] = bucket["holders"]
    assert (bucket["value"], bucket["free"], holder["task_id"]) == (kind, 0.0, f"{ids[0]}.0")
    said = service.call("explain", f"{ids[2]}.0").out
    held = f"limit {kind} of owner {kind} has too few free slots: 1 of 1 are held, by {ids[0]}.0"
    assert f"It waits: {held}; 1 ahead." in said
    [queue] = [each for each in service.ask("queues")["queues"] if each["queue"] == "default"]
    assert queue["gated"] >= 2
    assert len(list(tmp_path.glob("began-*"))) == 1

    assert service.call("limits", "set", kind, "--slots=3").code == 0
    eventually(lambda: len(list(tmp_path.glob("began-*"))) == 3)
    lowered = service.call("limits", "set", kind, "--slots=1")
    assert "2 slots are held beyond the limit: nothing is ended" in lowered.err
    assert "3 (2 too many)" in service.call("limits").out
    (tmp_path / "go").touch()
    assert service.call("wait", *ids).code == 0
    assert (look()["limit"]["held"], look()["limit"]["gated"]) == (0, 0)
    assert service.call("limits", "delete", kind).code == 0
    [last, *_] = service.ask("actions", f"--subject=limit:{kind}")["actions"]
    assert (last["action"], last["facts"]["before"]["most"]) == ("delete_limit", 1.0)
