"""What the process of an attempt is given: command line, variables, input."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from holdfast.model.submitting.spec import Entrypoint
from holdfast.worker.allowing import CallLimit
from holdfast.worker.running.child import CALL_FILE, ChildCall
from holdfast.worker.running.process_setup import (
    INPUT_VARIABLE_BYTES_MAX,
    list_variables,
    write_call,
)
from holdfast.worker.running.runnable import identify
from tests.worker.placed_orders import a_job

SERVER = "http://server:1"


def an_attempt(text: bytes = b"null", **job: Any) -> Any:
    return SimpleNamespace(
        task_id="999.4",
        number=2,
        lease_token=uuid4(),
        input=msgspec.Raw(text),
        job=a_job(**{"num_tasks": 9, **job}),
        trace_parent=None,
    )


def test_a_process_is_told_which_attempt_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_JOB_ID", "that of the worker's own task")
    monkeypatch.setenv("MINE", "worker")
    attempt = an_attempt(environment={"MINE": "job", "HOLDFAST_TASK_ID": "a lie"})
    variables = list_variables(attempt, tmp_path, SERVER)
    told = {name: text for name, text in variables.items() if name.startswith("HOLDFAST_")}
    assert told == {
        "HOLDFAST_SERVER": SERVER,
        "HOLDFAST_JOB_ID": "999",
        "HOLDFAST_TASK_ID": "999.4",
        "HOLDFAST_TASK_INDEX": "4",
        "HOLDFAST_NUM_TASKS": "9",
        "HOLDFAST_ATTEMPT": "2",
        "HOLDFAST_CORRELATION_ID": "c",
        "HOLDFAST_INPUT_FILE": str(tmp_path / "input.json"),
    }
    assert variables["MINE"] == "job"
    assert variables["PYTHONUNBUFFERED"] == "1"
    monkeypatch.setenv("HOLDFAST_CA_FILE", "ca.pem")
    trusted = list_variables(attempt, tmp_path, SERVER)["HOLDFAST_CA_FILE"]
    assert trusted == str(Path.cwd() / "ca.pem")


def test_a_process_learns_nothing_of_the_workers_own_token_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TOKEN", "TOKEN_FILE", "TLS_CERT", "TLS_KEY", "DATABASE_URL"):
        monkeypatch.setenv(f"HOLDFAST_{name}", "planted")
    assert "planted" not in list_variables(an_attempt(), tmp_path, SERVER).values()


def test_who_is_another_user_has_a_home_of_its_own_unless_the_job_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/root")
    assert list_variables(an_attempt(), tmp_path, SERVER)["HOME"] == "/root"
    own = list_variables(an_attempt(), tmp_path, SERVER, has_own_uid=True)
    assert own["HOME"] == str(tmp_path / "work")
    named = an_attempt(environment={"HOME": "/srv"})
    assert list_variables(named, tmp_path, SERVER, has_own_uid=True)["HOME"] == "/srv"


def test_an_input_comes_as_a_file_and_if_it_is_small_as_a_variable(tmp_path: Path) -> None:
    small = an_attempt(b'{"a": 1}', fan_out=True)
    assert list_variables(small, tmp_path, SERVER)["HOLDFAST_INPUT"] == '{"a": 1}'
    large = an_attempt(b'"%s"' % (b"x" * INPUT_VARIABLE_BYTES_MAX), fan_out=True)
    assert "HOLDFAST_INPUT" not in list_variables(large, tmp_path, SERVER)
    write_call(large, tmp_path, identify(large, SERVER), limit=None)
    assert (tmp_path / "input.json").read_bytes() == bytes(large.input)


def test_a_module_is_looked_for_where_the_job_says_then_in_its_workspace_then_by_the_worker(
    tmp_path: Path,
) -> None:
    command = an_attempt(environment={"PYTHONPATH": "/job"})
    assert list_variables(command, tmp_path, SERVER, paths=["/work"])["PYTHONPATH"] == "/job:/work"
    function = an_attempt(entrypoint=Entrypoint(function="m:f"))
    places = list_variables(function, tmp_path, SERVER, paths=["/work"])["PYTHONPATH"]
    assert places.split(os.pathsep) == ["/work", *map(os.path.abspath, sys.path)]


def test_commands_and_shell_lines_are_run_as_they_are(tmp_path: Path) -> None:
    command = an_attempt(entrypoint=Entrypoint(command=["a", "b c"]))
    assert write_call(command, tmp_path, identify(command, SERVER), limit=None) == ["a", "b c"]
    shell = an_attempt(entrypoint=Entrypoint(shell="a | b"))
    assert write_call(shell, tmp_path, identify(shell, SERVER), limit=None) == [
        "/bin/sh",
        "-c",
        "a | b",
    ]
    assert not (tmp_path / CALL_FILE).exists()


def test_a_function_is_called_by_a_child_that_knows_everything(tmp_path: Path) -> None:
    attempt = an_attempt(b"[1]", entrypoint=Entrypoint(function="m:f"), fan_out=True)
    identity, limit = identify(attempt, SERVER), CallLimit("north", ["m:*"])
    argv = write_call(
        attempt, tmp_path, identity, limit=limit, imports=["one"], python="/venv/python"
    )
    assert argv == ["/venv/python", "-m", "holdfast.worker.running.child", str(tmp_path)]
    call = msgspec.json.decode((tmp_path / CALL_FILE).read_bytes(), type=ChildCall)
    assert (call.identity, call.entrypoint) == (identity, attempt.job.entrypoint)
    assert call.limit == limit
    assert (call.fan_out, call.imports, bytes(call.input)) == (True, ["one"], b"[1]")
