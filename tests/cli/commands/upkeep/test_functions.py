"""`functions`: what workers can run, and what `submit` makes of it."""

import getpass
from uuid import uuid4

from tests.cli.conftest import Service
from tests.cli.program import eventually


def test_announced_functions_are_listed_and_submitted_with_their_options(service: Service) -> None:
    path = "tests.cli.tasks:elsewhere"
    eventually(lambda: path in service.call("functions").out)
    [line] = [each for each in service.run("functions").out.splitlines() if path in each]
    assert "n: int" in line
    assert "max_retries_failure=3" in line
    job_id = service.submit(path, "--arg=1")
    spec = service.ask("job", job_id)["spec"]
    assert (spec["queue"], spec["max_retries_failure"], spec["owner"]) == ("nobody", 3, "team")
    own = service.submit(path, "--arg=1", "--queue=other", "--retries=0", "--owner=ada")
    spec = service.ask("job", own)["spec"]
    assert (spec["queue"], spec["max_retries_failure"], spec["owner"]) == ("other", 0, "ada")
    keyed = service.submit(path, "--arg=1", f"--key={uuid4().hex}")
    assert service.ask("job", keyed)["owner"] == getpass.getuser()
    unknown = service.submit("tests.cli.tasks:none", "--queue=other")
    assert service.ask("job", unknown)["spec"]["max_retries_failure"] == 0
    for each in (job_id, own, keyed, unknown):
        assert service.call("cancel", each).code == 0
