"""`actions`: what people have done, and why."""

from uuid import uuid4

from tests.cli.conftest import Service


def test_what_was_done_is_listed_with_its_reason(service: Service) -> None:
    queue = f"q{uuid4().hex[:8]}"
    job_id = service.submit("tests.cli.tasks:add", "--arg=1", f"--queue={queue}")
    assert service.run("cancel", job_id, "--reason=too dear").code == 0
    [done] = service.ask("actions", f"--subject=job:{job_id}")["actions"]
    assert (done["action"], done["reason"]) == ("cancel", "too dear")
    listed = service.run("actions", f"--subject=job:{job_id}", "--since=1h")
    [line] = [line for line in listed.out.splitlines() if f"job {job_id}" in line]
    assert "cancel" in line
    assert "too dear" in line
    assert done["actor"] in line
    none = service.run("actions", "--actor=nobody")
    assert (none.code, none.out) == (0, "")
    assert "nobody has done anything like that" in none.err
    wrong = service.run("actions", "--action=burn")
    assert wrong.code == 2
    assert "cut_over" in wrong.err
