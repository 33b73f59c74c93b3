"""`resume` lists what runs again, and takes corrected inputs."""

import json

import holdfast as hf
from tests.cli.conftest import Service

ADD = {"function": "tests.cli.tasks:add"}
JOIN = {"function": "tests.cli.tasks:join"}


def test_a_broken_graph_goes_on_with_a_corrected_input(service: Service) -> None:
    numbers = {"local_name": "numbers", "entrypoint": ADD, "inputs": [1, "two"], "max_attempts": 1}
    places = [{"path": ["kwargs", "b"], "job": "numbers"}]
    given = {"args": [[0]], "kwargs": {"b": None}, "results": places}
    joined = {"entrypoint": JOIN | given, "depends_on": ["numbers"]}
    path = service.folder / "broken.json"
    path.write_text(json.dumps({"specs": [numbers, joined]}))
    first, last = service.call("submit", "--graph", str(path)).out.split()
    assert service.call("wait", last).code == 1

    dry = service.run("resume", last, "--dry-run")
    assert (dry.code, dry.err.strip().startswith("nothing was submitted")) == (0, True)
    assert [line.split() for line in dry.out.splitlines()] == [
        ["job", "name", "tasks", "runs", "again"],
        ["add", "1", first],
        ["join", "1", last],
    ]
    asked = ("resume", last, "--input", f"{first}.1=2", "--key", f"resume {last}")
    made = service.run(*asked)
    assert made.code == 0, made
    _, again, joined_again = [line.split() for line in made.out.splitlines()]
    assert (again[1:], joined_again[1:]) == (["add", "1", first], ["join", "1", last])
    assert service.call("wait", joined_again[0]).code == 0
    with hf.Client(service.url) as client:
        result = client.job(joined_again[0]).result(timeout=60)
    assert result == [0, 3, 4], "what has succeeded before is in its place"

    assert service.call(*asked).out == made.out
    other = service.call(*asked, "--rebind-outputs")
    assert (other.code, "was used for a different resume" in other.err) == (1, True), other
    refused = service.run("resume", last)
    assert (refused.code, f"run again by job {joined_again[0]} already" in refused.err) == (1, True)
    for texts, words in (
        (["7"], "write it as 4182.7=JSON"),
        (["1.0=two"], "texts need quotes"),
        (["1.0=1", "1.0=2"], "task 1.0 is given two"),
    ):
        wrong = service.call("resume", last, *(f"--input={text}" for text in texts))
        assert (wrong.code, words in wrong.err) == (2, True), wrong
    assert service.call("resume", "99999").code == 1
