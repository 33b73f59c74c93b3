"""What a worker may run: what it was given, and no more."""

import functools
import glob
import os
import posixpath
from typing import Any

import pytest

from holdfast.client.task import task
from holdfast.model.submitting.spec import Entrypoint
from holdfast.model.work.outcomes import NOT_RETRYABLE
from holdfast.worker.allowing import EVERYTHING, Allowed, CallLimit

GIVEN = Allowed(frozenset({"shop.mail:send"}), ("tools.*", "shop.bills:print_*"))


def refused_as(outcome: Any) -> str:
    """Read why, where an attempt was refused for good."""
    assert (outcome.status, outcome.stage) == ("failed", "fetch")
    assert outcome.error_class == "RefusedByWorker"
    assert outcome.error_class in NOT_RETRYABLE
    assert outcome.error.startswith("worker north ")
    return str(outcome.error)


@pytest.mark.parametrize(
    ("entrypoint", "remedy"),
    [
        ({"function": "shop.mail:send"}, None),
        ({"function": "tools.files:remove"}, None),
        ({"function": "shop.bills:print_one"}, None),
        ({"function": "shop.bills:print_one.os"}, "was not given shop.bills:print_one.os"),
        ({"function": "tools.files:os.system"}, "was not given tools.files:os.system"),
        ({"function": "shop.bills:delete"}, "--import shop.bills, if that module decorates it, or"),
        ({"function": "shop.mail:send_all"}, "with --allow shop.mail:send_all"),
        ({"function": "os:system"}, "was not given os:system"),
        ({"pickle": "gASV"}, "opens no pickles, which are any function; start it with --allow '*'"),
        ({"command": ["sh"]}, "runs no commands; start it with --allow-commands"),
        ({"shell": "sh"}, "runs no commands; start it with --allow-commands"),
    ],
)
def test_what_was_not_given_is_refused_with_the_remedy(
    entrypoint: dict[str, Any], remedy: str | None
) -> None:
    refusal = GIVEN.find_refusal(Entrypoint(**entrypoint), "north")
    if remedy is None:
        assert refusal is None
    else:
        assert remedy in refused_as(refusal)
    assert EVERYTHING.find_refusal(Entrypoint(**entrypoint), "north", brings_code=True) is None


def test_who_was_given_nothing_runs_nothing() -> None:
    assert Allowed().find_refusal(Entrypoint(function="shop.mail:send"), "north") is not None
    assert Allowed().find_refusal(Entrypoint(command=["true"]), "north") is not None


def test_code_that_comes_along_is_any_program() -> None:
    call = Entrypoint(function="shop.mail:send")
    assert GIVEN.find_refusal(call, "north", brings_code=True) is not None
    commands = Allowed(commands=True)
    assert commands.find_refusal(call, "north", brings_code=True) is None
    assert commands.limit(call, "north", brings_code=True) is None
    assert commands.find_refusal(Entrypoint(command=["sh"]), "north") is None
    assert commands.find_refusal(call, "north") is not None
    functions = Allowed(patterns=("*",))
    assert functions.find_refusal(Entrypoint(pickle="gASV"), "north") is None
    assert functions.find_refusal(Entrypoint(command=["sh"]), "north") is not None


@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTHONWARNINGS", "LD_PRELOAD"])
def test_a_job_brings_no_code_along_by_its_variables(name: str) -> None:
    call = Entrypoint(function="shop.mail:send")
    assert GIVEN.find_refusal(call, "north", variables={"LANG": "C"}) is None
    refusal = GIVEN.find_refusal(call, "north", variables={"LANG": "C", name: "x"})
    assert refusal is not None
    assert f"lets no job set {name}" in (refusal.error or "")
    assert EVERYTHING.find_refusal(call, "north", variables={name: "x"}) is None


def test_a_call_is_held_to_names_where_a_pattern_has_let_it_through() -> None:
    assert EVERYTHING.limit(Entrypoint(function="os:system"), "north") is None
    assert GIVEN.limit(Entrypoint(command=["sh"]), "north") is None
    assert GIVEN.limit(Entrypoint(function="shop.mail:send"), "north") == CallLimit("north")
    names = ["shop.mail:send", "tools.*", "shop.bills:print_*"]
    assert GIVEN.limit(Entrypoint(function="tools.a:b"), "north") == CallLimit("north", names)
    exactly = Allowed(patterns=("shop:run",))
    assert exactly.limit(Entrypoint(function="shop:run"), "north") == CallLimit("north")


class Own:
    """What a module may define."""

    def __call__(self) -> None:
        """Be called."""

    @classmethod
    def make(cls) -> None:
        """Be a method."""


@task
def decorated() -> None:
    """Be a task."""


HERE = CallLimit("north", [f"{__name__}:*", f"{__name__}:*.*"])


@pytest.mark.parametrize("steps", [[refused_as], [Own], [Own, Own.make], [decorated]])
def test_what_a_module_defines_itself_may_be_called(steps: list[Any]) -> None:
    path = f"{__name__}:{'.'.join('x' for _ in steps)}"
    assert HERE.find_refusal(path, steps) is None


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        (
            [os.system],
            "finds posix:system under shop:x, and was not given that; start it with --al",
        ),
        ([posixpath.join], "finds posixpath:join under shop:x"),
        ([Own, Own.mro], "finds a builtin_function_or_method without a name of its own under"),
        ([functools.partial(refused_as)], "finds a partial without a name of its own under shop:x"),
        ([Own()], "finds a Own without a name of its own under shop:x; start it with --allow shop"),
    ],
)
def test_what_a_module_has_from_elsewhere_has_to_be_named(steps: list[Any], problem: str) -> None:
    path = f"shop:{'.'.join('x' for _ in steps)}"
    assert problem in refused_as(HERE.find_refusal(path, steps))
    assert CallLimit("north").find_refusal(path, steps) is None


def test_no_name_leads_through_another_module() -> None:
    for limit in (HERE, CallLimit("north")):
        error = refused_as(limit.find_refusal("shop:glob.os.system", [glob, os, os.system]))
        assert "by way of another module, as in shop:glob.os.system; submit os:system, and" in error
    assert "finds a module without a name" in refused_as(HERE.find_refusal("shop:os", [os]))
