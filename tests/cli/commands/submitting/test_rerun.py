"""`rerun` writes the id of the new job and nothing else."""

from tests.cli.conftest import Service


def test_a_job_runs_again_and_its_id_is_all_that_is_written(service: Service) -> None:
    job_id = service.submit("tests.cli.tasks:add", "--arg", "1", "--arg", "2")
    assert service.run("wait", job_id).code == 0
    dry = service.run("rerun", job_id, "--dry-run")
    assert (dry.code, dry.out, dry.err.strip()) == (0, "", "would run 1 tasks again")
    made = service.run("rerun", job_id, "--key", f"again {job_id}")
    new_id = made.out.strip()
    assert (made.code, new_id.isdigit()) == (0, True)
    told = service.ask("rerun", job_id, "--key", f"again {job_id}")
    assert told == {"replay_of": job_id, "job_id": new_id, "num_tasks": 1, "dry_run": False}
    assert service.run("wait", new_id).code == 0
    assert service.ask("job", new_id)["replay_of"] == job_id
    refused = service.run("rerun", job_id, "--only-unsuccessful")
    assert (refused.code, "goes with inputs only" in refused.err) == (2, True)
    assert service.run("rerun", "99999").code == 1
