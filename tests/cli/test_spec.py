"""What the command line says is to be run, and what it may not say."""

import getpass
import io
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from holdfast.cli.spec import (
    JobFlags,
    describe_call,
    describe_command,
    parse_json,
    parse_pairs,
    read_inputs,
    read_spec,
)
from holdfast.errors import Invalid
from holdfast.model.submitting.spec import Entrypoint
from holdfast.model.submitting.unique import Unique
from holdfast.wire.requests import JobRequest


def test_flags_become_fields_and_what_is_left_out_stays_out() -> None:
    assert describe_command(["ls", "-l"], JobFlags()) == JobRequest(
        entrypoint=Entrypoint(command=["ls", "-l"]), queue="default", owner=getpass.getuser()
    )
    flags = JobFlags(
        name="n",
        queue="q",
        retries=2,
        timeout=1.5,
        priority=3,
        concurrency_key="acme",
        slots=2,
        owner="ada",
        delay="1h30m",
        env=("A=b=c",),
        label=("l=",),
        key="k",
    )
    assert describe_command(["ls"], flags, on_exhausted="fail") == JobRequest(
        entrypoint=Entrypoint(command=["ls"]),
        name="n",
        queue="q",
        max_retries_failure=2,
        timeout=1.5,
        priority=3,
        concurrency_key="acme",
        slots=2,
        owner="ada",
        start_delay=5400.0,
        environment={"A": "b=c"},
        labels={"l": ""},
        idempotency_key="k",
        on_exhausted="fail",
    )


def test_a_time_to_start_at_is_one_of_here() -> None:
    request = describe_command(["ls"], JobFlags(at="2026-11-18T09:00"))
    assert request.not_before == datetime(2026, 11, 18, 9).timestamp()
    with pytest.raises(Invalid, match="--delay: 400d is too long; give a year at most"):
        describe_command(["ls"], JobFlags(delay="400d"))
    with pytest.raises(Invalid, match="--delay: goes without --at"):
        describe_command(["ls"], JobFlags(at="2026-11-18", delay="5m"))


def test_a_job_may_expire() -> None:
    assert describe_command(["ls"], JobFlags(expires="1h30m")).expires == 5400.0
    with pytest.raises(Invalid, match="--expires: 'soon' is not a span"):
        describe_command(["ls"], JobFlags(expires="soon"))


def test_what_makes_a_job_unique_is_said_by_any_of_its_flags() -> None:
    assert describe_command(["ls"], JobFlags()).unique is None
    assert describe_command(["ls"], JobFlags(unique=True)).unique == Unique()
    flags = JobFlags(unique_by=("args[0]",), unique_for="1h", on_conflict="refuse")
    rule = Unique(arguments=["args[0]"], period=3600.0, on_conflict="refuse")
    assert describe_call("m:f", flags, args=["1"], kwargs=[]).unique == rule
    with pytest.raises(Invalid, match="--unique-for: 'often' is not a span"):
        describe_command(["ls"], JobFlags(unique_for="often"))


def test_arguments_of_a_function_are_json() -> None:
    request = describe_call("m:f", JobFlags(), args=["1", '"a"', "-2"], kwargs=["k=[true]"])
    assert request.entrypoint == Entrypoint(function="m:f", args=[1, "a", -2], kwargs={"k": [True]})


@pytest.mark.parametrize(
    ("given", "compensation"),
    [
        ("pkg.mod:refund", Entrypoint(function="pkg.mod:refund")),
        ("rm -f it", Entrypoint(shell="rm -f it")),
    ],
)
def test_a_compensation_is_a_function_or_a_line_for_the_shell(
    given: str, compensation: Entrypoint
) -> None:
    flags = JobFlags(compensation=given)
    assert describe_command(["make", "it"], flags).compensation == compensation


@pytest.mark.parametrize("pairs", [["x"], ["=x"], ["a=1", "a=2"]])
def test_what_is_no_pair_is_refused(pairs: list[str]) -> None:
    with pytest.raises(Invalid, match="env: "):
        parse_pairs("env", pairs)


def test_a_bare_word_is_told_about_its_quotes() -> None:
    with pytest.raises(Invalid, match="""a string needs its quotes: '"red"'"""):
        parse_json("arg", "red")
    with pytest.raises(Invalid, match="is not JSON"):
        parse_json("arg", "[" * 10_000)


@pytest.mark.parametrize(
    "text",
    [
        '{"entrypoint": {"shell": "ls"}, "queue": "q", "backoff": {"base": 1}, "inputs": [1, "a"]}',
        'queue = "q"\ninputs = [1, "a"]\nentrypoint = {shell = "ls"}\nbackoff = {base = 1}\n',
    ],
)
def test_a_whole_spec_comes_from_json_or_toml(tmp_path: Path, text: str) -> None:
    (tmp_path / "spec").write_text(text)
    request = read_spec(str(tmp_path / "spec"))
    assert (request.queue, request.entrypoint.shell) == ("q", "ls")
    assert request.backoff is not None
    assert request.backoff.base == 1.0
    assert [bytes(each) for each in request.inputs or []] == [b"1", b'"a"']


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"queue": "q"}', "entrypoint"),
        ('{"entrypoint": {"shell": "ls"}, "quue": "q"}', "quue"),
        ('{"entrypoint": {"shell": 3}}', "entrypoint.shell"),
        ('{"entrypoint": ', "truncated"),
        ('entrypoint = {shell = "ls"}\nquue = "q"', "quue"),
        ('entrypoint = {shell = "ls"}\ninputs = 3', "inputs: is no list"),
        ('entrypoint = {shell = "ls"}\ninputs = [nan]', "spec"),
        ("nonsense", "neither JSON nor TOML"),
    ],
)
def test_a_spec_that_cannot_be_one_is_refused_with_its_field(
    tmp_path: Path, text: str, problem: str
) -> None:
    (tmp_path / "spec").write_text(text)
    with pytest.raises(Invalid, match=problem):
        read_spec(str(tmp_path / "spec"))


def test_inputs_are_lines_of_json_kept_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inputs").write_text('1.50\n\n  {"a":  1}\n12345678901234567890123\n')
    kept = [b"1.50", b'{"a":  1}', b"12345678901234567890123"]
    assert [bytes(each) for each in read_inputs(str(tmp_path / "inputs"))] == kept
    monkeypatch.setattr("sys.stdin", io.StringIO("7\n"))
    assert read_inputs("-") == [msgspec.Raw(b"7")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"1\nred\n", "line 2"), (b"\n", "is empty"), (b"\xff", "cannot be read")],
)
def test_a_line_that_is_no_json_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "inputs").write_bytes(content)
    with pytest.raises(Invalid, match=problem):
        read_inputs(str(tmp_path / "inputs"))
