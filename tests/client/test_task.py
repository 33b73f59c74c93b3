"""The decorator: what it keeps, what it takes, and what type checkers make of it."""

import functools
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import holdfast as hf
from holdfast.client.task import GivenOptions, TaskFunction, TaskOptions
from holdfast.errors import Invalid
from tests.client import app


def test_a_function_stays_one() -> None:
    assert app.double(21) == 42
    assert app.double.__name__ == "double"
    assert app.double.__doc__ == "Double a number."
    assert list(inspect.signature(app.double).parameters) == ["number"]
    assert repr(app.double) == "<task tests.client.app:double>"


async def test_a_coroutine_function_stays_one(a_context: hf.Context) -> None:
    assert await app.greet("Ada", ctx=a_context) == "hello Ada by attempt 3"


def test_a_function_needs_no_options() -> None:
    @hf.task
    def bare() -> None: ...

    @hf.task()
    def also_bare() -> None: ...

    assert bare.options == also_bare.options == TaskOptions()


def test_options_are_kept() -> None:
    assert app.greet.options == TaskOptions(queue="q", retries=2)


def test_other_options_make_another_function() -> None:
    urgent = app.greet.with_options(priority=9, backoff=hf.Backoff(base=0.1), timeout=5)
    assert urgent.options == TaskOptions(
        queue="q", retries=2, priority=9, backoff=hf.Backoff(base=0.1), timeout=5.0
    )
    assert app.greet.options.priority is None
    assert urgent.path == app.greet.path


def test_an_unknown_option_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        Invalid, match=r"^backoff: is the number 0.1; .* holdfast.Backoff\(base=0.1"
    ):
        app.greet.with_options(backoff=0.1)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="is not an option of a task; there are queue, ") as caught:
        hf.task(retires=3)  # type: ignore[call-overload]
    assert caught.value.field == "retires"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retries", "3"),
        ("retries", True),
        ("timeout", "1m"),
        ("on_timeout", "explode"),
        ("labels", {"team": 1}),
        ("queue", 7),
        ("queue", "bad name!"),
        ("isolation", "thread"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused(name: str, value: Any) -> None:
    with pytest.raises(Invalid) as caught:
        hf.task(**{name: value})
    assert caught.value.field == name
    with pytest.raises(Invalid):
        app.double.with_options(**{name: value})


def test_type_checkers_are_told_of_the_same_options() -> None:
    hints = get_type_hints(TaskOptions)
    hints["queue"] = str | None  # that it may be left open is nobody's to say
    given = get_type_hints(GivenOptions, localns={"Job": hf.Job})
    for name in (
        "depends_on",
        "compensation",
        "schedule",
        "expires",
    ):  # what is in hand has a type, and no shape
        hints[name] = given[name]
    assert given == hints


class Callable:
    def __call__(self) -> None: ...


def generate() -> Iterator[int]:
    yield 1


async def generate_async() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    "thing",
    [Callable(), Callable, functools.partial(print), 3, generate, generate_async, app.double, max],
    ids=["object", "class", "partial", "number", "generator", "async generator", "task", "builtin"],
)
def test_what_is_no_function_is_refused(thing: Any) -> None:
    with pytest.raises(Invalid) as caught:
        hf.task(thing)
    assert caught.value.field == "function"


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (app.greet, (), {}),
        (app.greet, ("Ada", "hi"), {}),
        (app.greet, ("Ada",), {"greting": "hi"}),
        (app.double, (1, 2), {}),
        (app.double, (1,), {"ctx": None}),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    function: TaskFunction[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with pytest.raises(Invalid, match="cannot be called so"):
        function.check_arguments(args, kwargs)


def test_a_call_is_described_as_the_spec_of_a_job() -> None:
    assert app.greet.spec("Ada", greeting="hi") == {
        "entrypoint": {
            "function": "tests.client.app:greet",
            "args": ["Ada"],
            "kwargs": {"greeting": "hi"},
        },
        "name": "greet",
        "queue": "q",
        "max_retries_failure": 2,
    }
    assert app.double.with_options(queue=None).spec(1)["placed"] is True
    with pytest.raises(Invalid, match="number: does not fit"):
        app.double.spec("x")


def test_the_context_is_not_the_callers_to_give(a_context: hf.Context) -> None:
    app.greet.check_arguments(("Ada",), {})
    with pytest.raises(Invalid, match="given by the worker") as caught:
        app.greet.check_arguments(("Ada",), {"ctx": a_context})
    assert caught.value.field == "ctx"


SAMPLE = """
import holdfast as hf

@hf.task(queue="emails", retries=3, timeout=60)
async def send(to: str, *, ctx: hf.Context) -> str:
    ctx.checkpoint.save([ctx.attempt])
    ctx.log.info("sending")
    return to

@hf.task
def count(words: str) -> int:
    return len(words.split())

@hf.task
async def split(words: str) -> list[str]:
    return words.split()

async def later(client: hf.Client) -> None:
    job = await send.submit.aio("a@example.com")
    reveal_type(await job.result.aio())
    reveal_type(await client.map.aio(count, ["a"]))
    async for piece in job.logs.aio(follow=True):
        reveal_type(piece)

with hf.Client() as client:
    job = send.submit("a@example.com")
    reveal_type(job.result())
    reveal_type(count.submit("a b").result(timeout=3))
    reveal_type(split.map(["a b"]).results())
    reveal_type(client.submit(send, "a@example.com"))
    reveal_type(client.run_command(["ls"], retries=2))
    reveal_type(job.wait(progress=True))
    reveal_type(send.with_options(queue="x"))
    send.with_options(retires=3)
    job.wait(progres=True)
"""
REVEALED = [
    "str",
    "holdfast.client.job.Job[int]",
    "bytes",
    "str",
    "int",
    "list[list[str]]",
    "holdfast.client.job.Job[str]",
    "holdfast.client.job.Job[None]",
    "holdfast.wire.status.JobStatus",
    "holdfast.client.task.TaskFunction[[to: str, *, ctx: holdfast.client.context.Context], str]",
]


def test_a_type_checker_knows_what_a_job_returns(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(SAMPLE)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
    command += ["--cache-dir", str(tmp_path / "cache"), str(sample)]
    checked = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    lines = checked.stdout.splitlines()
    assert checked.stderr == ""
    revealed = [line.split('"')[1] for line in lines if "Revealed type" in line]
    assert revealed == REVEALED
    problems = [line.partition("error: ")[2] for line in lines if "error: " in line]
    assert len(problems) == 2
    assert 'did you mean "retries"?' in problems[0]
    assert 'did you mean "progress"?' in problems[1]


def nothing() -> None: ...


def one(value: int) -> None: ...


def test_a_schedule_is_an_expression_an_interval_or_all_of_it() -> None:
    whole = hf.Schedule(cron="@daily", tz="Asia/Tokyo", overlap="queue")
    kinds: list[tuple[Any, hf.Schedule]] = [
        ({"schedule": "0 3 * * *"}, hf.Schedule(cron="0 3 * * *")),
        (
            {"schedule": "0 3 * * *", "tz": "Asia/Tokyo"},
            hf.Schedule(cron="0 3 * * *", tz="Asia/Tokyo"),
        ),
        ({"schedule": timedelta(minutes=5)}, hf.Schedule(every=300.0)),
        ({"schedule": whole}, whole),
    ]
    for options, expected in kinds:
        made = hf.task(**options)(nothing)
        assert made.options.schedule == expected
        assert made.with_options(retries=3).options.schedule == expected
        assert "schedule" not in made.spec()
        assert "tz" not in made.spec()
    refusals: list[tuple[Any, Any, str]] = [
        ({"schedule": 5}, nothing, "schedule"),
        ({"schedule": whole, "tz": "UTC"}, nothing, "tz"),
        ({"tz": "UTC"}, nothing, "tz"),
        ({"schedule": "@daily"}, one, "schedule"),
    ]
    for options, function, field in refusals:
        with pytest.raises(Invalid) as refused:
            hf.task(**options)(function)
        assert refused.value.field == field
