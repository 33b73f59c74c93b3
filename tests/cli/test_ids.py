"""Ids as people type them."""

import pytest

from holdfast.cli.ids import check_id
from holdfast.errors import Invalid
from tests.cli.conftest import Service


@pytest.mark.parametrize("text", ["4182", "4182.3"])
def test_jobs_and_tasks_are_named_by_their_ids(text: str) -> None:
    assert check_id(text) == text


@pytest.mark.parametrize("text", ["", "x", "-1", "1.", "1.x", "1.2.3", "1.2.3.4", "../jobs"])
def test_what_is_no_id_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid, match="write it like 4182"):
        check_id(text)


def test_a_job_stands_for_its_only_task_and_an_attempt_for_its_task(service: Service) -> None:
    job_id = service.submit_and_wait("tests.cli.tasks:add", "--arg=1")
    task = service.ask("task", f"{job_id}.0")
    assert service.ask("task", job_id) == task
    assert service.ask("task", f"{job_id}.0.0") == task


def test_a_job_of_several_tasks_stands_for_none_of_them(service: Service, tmp_path: object) -> None:
    inputs = f"{tmp_path}/inputs"
    with open(inputs, "w") as file:
        file.write("1\n2\n")
    job_id = service.submit("tests.cli.tasks:add", "--inputs", inputs)
    ended = service.run("task", job_id)
    assert (ended.code, ended.out) == (2, "")
    assert f"job {job_id} has 2 tasks; name one of them, like {job_id}.0" in ended.err
