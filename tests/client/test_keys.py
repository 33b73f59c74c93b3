"""The key by which limits count a call, where the decorator names a parameter or a field."""

import threading
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

import holdfast as hf
from holdfast.client.codec import PayloadCodec
from holdfast.client.request import request_call, request_options
from holdfast.errors import Invalid
from holdfast.model.submitting.spec import KeyOfInput
from holdfast.testing import running
from tests.client import codecs
from tests.embedded.users import wait_for

NO_KEY = KeyOfInput(None)


@dataclass
class Order:
    """What is bought, and by whom."""

    customer: Any


@hf.task(queue="q")
def train(tenant: Any, size: Any = "small", *more: Any, **named: Any) -> None:
    """Take a tenant first."""


@hf.task(queue="q")
def charge(order: Any, customer: Any = None, *, region: dict[str, Any] | None = None) -> None:
    """Take an order first."""


@hf.task(queue="q")
def bill(order: Order, customer: int = 0) -> None:
    """Take a value that is written as an object."""


@hf.task(queue="q")
def watched(tenant: str, ctx: hf.Context) -> None:
    """Take what the worker gives, too."""


class Room:
    """Who is in at the moment, and the most there ever were; they leave when they are let."""

    def __init__(self) -> None:
        self.leave = threading.Event()
        self.most: dict[str, int] = {}
        self._now: dict[str, int] = {}
        self._lock = threading.Lock()

    def enter(self, tenant: str) -> None:
        with self._lock:
            self._now[tenant] = self._now.get(tenant, 0) + 1
            self.most[tenant] = max(self.most.get(tenant, 0), self._now[tenant])
        self.leave.wait(60)
        with self._lock:
            self._now[tenant] -= 1


room = Room()


@hf.task(queue="gpu", concurrency_key=KeyOfInput("tenant"))
def stay(tenant: str, size: int = 1) -> str:
    """Stay in the room until everybody may leave."""
    room.enter(tenant)
    return tenant * size


def key_of(function: Any, path: str | None, *args: Any, **kwargs: Any) -> Any:
    """Describe one call, and say by which key it counts."""
    keyed = function.with_options(concurrency_key=KeyOfInput(path))
    return request_call(keyed, args, kwargs).concurrency_key


def key_of_map(function: Any, path: str, inputs: list[Any], *args: Any, **kwargs: Any) -> Any:
    """Describe one call for each input, and say by which key they count."""
    keyed = function.with_options(concurrency_key=KeyOfInput(path))
    return request_call(keyed, args, kwargs, inputs=inputs).concurrency_key


@pytest.mark.parametrize(
    ("path", "args", "kwargs", "key"),
    [
        ("tenant", ("acme",), {}, "acme"),
        ("tenant.id", ({"id": 7},), {}, "7"),
        ("size", ("acme", "big"), {}, "big"),
        ("size", ("acme",), {"size": "big"}, "big"),
        ("size", ("acme",), {}, "small"),
        ("size.0.id", ("acme", [{"id": 7}]), {}, "7"),
        ("rest", ("acme",), {"rest": 1.5}, "1.5"),
        ("size", ("acme", True), {}, "true"),
        ("size", ("acme", None), {}, NO_KEY),
        ("size.id", ("acme", None), {}, NO_KEY),
        ("size.team.id", ("acme", {"team": None}), {}, NO_KEY),
        ("", ("acme", "big"), {}, "acme"),
        ("", (), {"tenant": "acme"}, "acme"),
    ],
)
def test_the_first_step_names_a_parameter(path: str, args: Any, kwargs: Any, key: Any) -> None:
    assert key_of(train, path, *args, **kwargs) == key


@pytest.mark.parametrize(
    ("path", "args", "kwargs"),
    [
        ("customer.id", ({"customer": {"id": 7}},), {}),
        ("customer.id", ({"customer": {"id": 7}}, {"id": 8}), {}),
        ("customer.id", ({"customer": {"id": None}}, {"id": 8}), {}),
        ("customer.id", ({"customer": None}, {"id": 8}), {}),
        ("customer.id", (), {"order": 1, "customer": {"id": 7}}),
        ("0", ([7],), {}),
    ],
)
def test_what_the_first_argument_holds_comes_first(path: str, args: Any, kwargs: Any) -> None:
    assert key_of(charge, path, *args, **kwargs) == KeyOfInput(path)


def test_a_value_is_looked_into_as_it_is_sent() -> None:
    assert key_of(bill, "customer", Order(7), 8) == KeyOfInput("customer")
    assert key_of(bill, "order.customer", Order(7)) == "7"


def test_a_first_argument_that_is_none_holds_nothing() -> None:
    assert key_of(charge, "customer", None, "acme") == "acme"


def test_an_order_that_is_given_by_name_is_looked_into() -> None:
    assert key_of(bill, "order.customer", order=Order(7)) == KeyOfInput("order.customer")
    assert key_of(charge, "", order=7) == "7"


def test_what_names_nothing_is_left_to_the_server() -> None:
    assert key_of(charge, "custumer.id", {"customer": 1}) == KeyOfInput("custumer.id")
    assert key_of(watched, "ctx", "acme") == KeyOfInput("ctx")
    assert key_of(train, "more", "acme", "big", "rest") == KeyOfInput("more")
    assert key_of(train, None, "acme") == NO_KEY


@pytest.mark.parametrize(
    ("path", "args", "problem"),
    [
        ("customer.idd", ({}, {"id": 7}), "names 'customer.idd', which the call does not have"),
        ("customer", ({}, {"id": 7}), "names 'customer', which is an object; name a value in it"),
        ("customer", ({}, [7]), "names 'customer', which is a list; name a value in it"),
        ("order.id.more", ({"id": 7},), "names 'order.id.more', which the call does not have"),
    ],
)
def test_a_parameter_that_gives_no_key_is_refused(path: str, args: Any, problem: str) -> None:
    with pytest.raises(Invalid) as refused:
        key_of(charge, path, *args)
    assert (refused.value.field, refused.value.problem) == ("concurrency_key.input", problem)


def test_a_long_key_counts_by_its_hash_as_one_of_an_input_does() -> None:
    assert key_of(train, "size", "acme", "k" * 256) == "k" * 256
    key = key_of(train, "size", "acme", "ü" * 257)
    assert key.startswith("sha256:")
    assert len(key) == 7 + 64


def test_a_result_that_is_not_known_yet_is_no_key() -> None:
    job: hf.Job[Any] = hf.Job(hf.Client("http://127.0.0.1:9"), "9", 1)
    for path, args in (
        ("tenant", (job,)),
        ("id", (job,)),
        ("", (job,)),
        ("id", ({"id": job},)),
        ("size.id", ("acme", {"id": job})),
    ):
        with pytest.raises(Invalid, match=r"concurrency_key\.input.*the result of job 9"):
            key_of(train, path, *args)
    assert key_of(train, "size", job, "big") == "big"
    assert key_of(train, "id", {"id": 7, "more": job}) == KeyOfInput("id")


@pytest.mark.parametrize(
    ("path", "inputs", "key"),
    [
        ("tenant", ["a", "b"], KeyOfInput("")),
        ("tenant.id", [{"id": 7}], KeyOfInput("id")),
        ("id", [{"id": 7}], KeyOfInput("id")),
        ("tenant", [{}, {"tenant": 7}], KeyOfInput("tenant")),
        ("", ["a", "b"], KeyOfInput("")),
        ("size", ["a", None], "big"),
        ("size.id", ["a", {"size": {"id": 7}}], KeyOfInput("size.id")),
        ("team", ["a"], KeyOfInput("team")),
    ],
)
def test_in_a_map_the_first_parameter_is_each_input(path: str, inputs: Any, key: Any) -> None:
    assert key_of_map(train, path, inputs, "big") == key


def test_in_a_map_what_all_tasks_share_is_one_key() -> None:
    assert key_of_map(train, "size", ["a"]) == "small"
    assert key_of_map(train, "size", ["a"], size=None) == NO_KEY
    assert key_of_map(charge, "region.name", [1], region={"name": "eu"}) == "eu"
    with pytest.raises(Invalid, match=r"'region\.nmae', which the call does not have"):
        key_of_map(charge, "region.nmae", [1], region={"name": "eu"})


def test_what_is_pickled_cannot_be_looked_into() -> None:
    for path in ("tenant", ""):
        function = train.with_options(concurrency_key=KeyOfInput(path), pickled=True)
        with pytest.raises(Invalid, match="which is pickled; give the key as a text"):
            request_call(function, ("acme",), {})
        with pytest.raises(Invalid, match="which is pickled; give the key as a text"):
            request_call(function, (), {}, inputs=["acme"])
    function = train.with_options(concurrency_key=NO_KEY, pickled=True)
    assert request_call(function, ("acme",), {}).concurrency_key == NO_KEY


def test_what_is_encoded_is_not_told_as_a_key() -> None:
    codec = PayloadCodec(codecs.codec)
    function = train.with_options(concurrency_key=KeyOfInput("tenant"))
    with pytest.raises(Invalid, match="give the key as a text"):
        request_call(function, ("acme",), {}, codec=codec)
    function = train.with_options(concurrency_key=NO_KEY)
    assert request_call(function, ("acme",), {}, codec=codec).concurrency_key == NO_KEY


def test_the_input_itself_is_the_key_of_a_path_without_a_step() -> None:
    assert msgspec.json.encode(hf.KeyOfInput()) == b'{"input":""}'


def test_it_is_announced_as_the_decorator_says_it() -> None:
    options = request_options(train.with_options(concurrency_key=KeyOfInput("tenant")))
    assert options.concurrency_key == KeyOfInput("tenant")


@pytest.mark.xdist_group("testing")
def test_a_limit_per_tenant_holds_however_the_tenant_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HOLDFAST_SERVER", raising=False)
    with running(queues=["gpu"], concurrency=20) as system:
        limits = system.client.limits
        limits.put("per-tenant", "key", slots=2)
        jobs = [stay.submit("acme") for _ in range(4)]
        jobs += [stay.submit(tenant="acme", size=1) for _ in range(2)]
        jobs += [stay.submit("other", 2) for _ in range(3)]
        jobs.append(stay.map(["acme", "other", "third", "acme"]))

        def count() -> tuple[int, int]:
            [limit] = limits.list().limits
            return limit.held, limit.gated

        try:
            wait_for(lambda: count() == (5, 8))
        finally:
            room.leave.set()
        for job in jobs:
            job.wait(60)
    assert room.most == {"acme": 2, "other": 2, "third": 1}
