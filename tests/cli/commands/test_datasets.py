"""`datasets`: versions are opened, filled by jobs, compared, cut over to and dropped."""

import json
from uuid import uuid4

from tests.cli.conftest import Service

SAY = """echo '{"partition_key": "%s", "uri": "s3://%s", "size_bytes": 1500}' > $HOLDFAST_OUTPUTS"""


def fill(service: Service, name: str, key: str) -> str:
    """Have a command write one entry to the newest open version."""
    spec = service.folder / f"{uuid4().hex}.json"
    entrypoint = {"shell": SAY % (key, key)}
    fields = {"entrypoint": entrypoint, "queue": "default", "outputs": [{"dataset": name}]}
    spec.write_text(json.dumps(fields))
    return service.submit_and_wait("--spec", str(spec))


def test_a_dataset_goes_from_its_first_version_to_the_next(service: Service) -> None:
    name = f"d{uuid4().hex[:8]}"
    assert service.run("datasets", "create", name).out == f"dataset {name} is there\n"
    assert service.call("datasets", "open", name).out == "1\n"
    job_id = fill(service, name, "a")
    [entry] = service.ask("datasets", "entries", name, "1")["entries"]
    assert (entry["uri"], entry["task_id"]) == ("s3://a", f"{job_id}.0")
    made = service.call("datasets", "cut-over", name, "1", "--reason", "first")
    assert made.out == f"version 1 of {name} is current\n"
    assert service.call("datasets", "open", name, "--based-on", "1").out == "2\n"
    fill(service, name, "b")
    compared = service.call("datasets", "compare", name, "current", "2")
    assert (compared.code, compared.out.splitlines()[-1].split()) == (1, ["added", "b", "s3://b"])
    made = service.call("datasets", "cut-over", name, "2")
    assert made.out == f"version 2 of {name} is current, after version 1\n"
    again = service.call("datasets", "cut-over", name, "2")
    assert again.out == f"version 2 of {name} was current already\n"
    lines = service.call("datasets", "versions", name).out.splitlines()
    assert lines[1].split()[:5] == ["2", "current", "2", "3KB", "1"]
    shown = service.call("datasets", "show", name).out
    assert "cut-over 2" in shown
    assert "to version 2 by" in shown
    assert service.call("datasets", "drop", name, "2").code == 1
    assert service.call("datasets", "drop", name, "1").out == f"version 1 of {name} is dropped\n"
    assert service.call("datasets", "drop", name, "1").out == f"version 1 of {name} was dropped\n"
    [line] = [line for line in service.call("datasets").out.splitlines() if name in line]
    assert line.split()[:3] == [name, "2", "2"]
    assert service.ask("datasets", "list", name)["datasets"][0]["current_version"] == 2


def test_entries_are_shown_up_to_a_limit(service: Service) -> None:
    name = f"d{uuid4().hex[:8]}"
    service.call("datasets", "create", name)
    service.call("datasets", "open", name)
    for key in ("a", "b"):
        fill(service, name, key)
    assert service.call("datasets", "cut-over", name, "1").code == 0
    ended = service.call("datasets", "entries", name, "--limit", "1")
    assert [line.split()[0] for line in ended.out.splitlines()[1:]] == ["a"]
    assert "there are more; --limit 2" in ended.err
    same = service.call("datasets", "compare", name, "1", "current")
    assert (same.code, same.out, same.err) == (0, "", "they are the same\n")
    assert service.ask("datasets", "compare", name, "1", "1") == []


def test_what_is_not_there_is_said_so(service: Service) -> None:
    ended = service.call("datasets", "show", "nothing-here")
    assert (ended.code, ended.err) == (1, "holdfast: there is no dataset nothing-here\n")
    assert service.call("datasets", "entries", "nothing-here", "x").code == 2
    assert service.call("datasets", "list", "nothing-here").err.startswith("no datasets")
