"""A codec makes payloads that nobody reads but clients and workers that have it."""

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import asyncpg
import msgspec
import pytest

import holdfast as hf
from holdfast.client.codec import (
    PayloadCodec,
    decode_entrypoint,
    decode_value,
    encode_request,
    load_codec,
)
from holdfast.errors import Invalid
from holdfast.model.submitting.payloads import find_codec_name
from holdfast.model.submitting.spec import Entrypoint
from holdfast.testing import System, running
from holdfast.wire.requests import JobRequest
from tests.client import codecs
from tests.client.codecs import MARKER
from tests.embedded.users import wait_for

pytestmark = pytest.mark.xdist_group("testing")
CODEC = "tests.client.codecs:codec"
TABLES = """
select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'holdfast' and c.relkind in ('r', 'p')
"""


@pytest.fixture(autouse=True)
def no_server_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the environment of whoever runs the tests out of them."""
    monkeypatch.delenv("HOLDFAST_SERVER", raising=False)
    monkeypatch.delenv("HOLDFAST_CODEC", raising=False)


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    """A system with a codec, whose database holds nothing that can be read in the end."""
    with running(queues=["codec"], codec=CODEC) as system:
        yield system
        assert asyncio.run(find_plain_text(system.database_url)) == []


async def find_plain_text(database_url: str) -> list[str]:
    """Name the tables in which the marker stands, in any column: as it is, in hex or in base64.

    In base64 a text looks different by where it begins, so three are looked for.
    """
    connection = await asyncpg.connect(database_url)
    looks = [MARKER, MARKER.encode().hex()]
    looks += [base64.b64encode(b"x" * n + MARKER.encode()).decode()[4:-8] for n in range(3)]
    try:
        tables = [row[0] for row in await connection.fetch(TABLES)]
        assert "holdfast.tasks" in tables
        return [
            table
            for table in tables
            if await connection.fetchval(
                f"select exists (select from {table} as it where it::text like any ($1))",
                [f"%{look}%" for look in looks],
            )
        ]
    finally:
        await connection.close()


def test_the_search_finds_what_is_stored_without_a_codec(system: System) -> None:
    with running(queues=["codec"]) as plain:
        assert codecs.join.submit(MARKER).result(timeout=30) == MARKER
        assert "holdfast.tasks" in asyncio.run(find_plain_text(plain.database_url))


@pytest.mark.parametrize("function", [codecs.join, codecs.join_later, codecs.join_apart])
def test_arguments_and_results_are_encoded(system: System, function: Any) -> None:
    for _ in range(2):  # the second time the worker knows the function
        assert function.submit(MARKER, right="!").result(timeout=60) == f"{MARKER}!"


def test_what_is_pickled_is_encoded(system: System) -> None:
    assert codecs.join_pickled.submit(MARKER, right="!").result(timeout=30) == {f"{MARKER}!"}
    jobs = codecs.join_pickled.map([MARKER, "b"], right="!")
    assert jobs.results(timeout=30) == [{f"{MARKER}!"}, {"b!"}]


def test_inputs_of_a_fan_out_are_encoded(system: System) -> None:
    job = codecs.join.map([MARKER, "b"], right=MARKER)
    assert job.results(timeout=30) == [MARKER * 2, f"b{MARKER}"]
    assert [msgspec.json.decode(each.result) for each in job.outcomes(timeout=30)] == [
        MARKER * 2,
        f"b{MARKER}",
    ]
    assert codecs.join_batch.map([MARKER, "b"]).results(timeout=30) == [MARKER * 2, "bb"]


def test_results_of_others_stand_among_encoded_arguments(system: System) -> None:
    with hf.graph():
        first = codecs.join.submit(MARKER)
        many = codecs.join.map([MARKER, "b"])
        both = codecs.count_letters.submit({"one": [first, "xy"], "two": many})
        whole = codecs.join_apart.submit(first, right="!")
    assert both.result(timeout=60) == 2 * len(MARKER) + 3
    assert whole.result(timeout=60) == f"{MARKER}!"


@pytest.mark.parametrize("function", [codecs.resume, codecs.resume_apart])
def test_a_checkpoint_is_encoded(system: System, function: Any) -> None:
    assert function.submit().result(timeout=60) == {"reached": MARKER}


def test_a_task_submits_by_the_codec_of_its_worker(system: System) -> None:
    assert codecs.ask_child.submit(MARKER).result(timeout=60) == MARKER * 2
    assert codecs.ask_child_apart.submit(MARKER).result(timeout=60) == f"{MARKER}!"


def test_a_compensation_is_given_what_can_be_read(system: System) -> None:
    before = codecs.join.submit(MARKER)
    undo = codecs.undo.with_arguments(MARKER)
    failed = codecs.fail.with_options(compensation=undo).submit(before, right=MARKER)
    failed.wait(timeout=30)
    wait_for(lambda: bool(list_undoing(system)))
    [job_id] = list_undoing(system)
    undone = system.client.job(job_id).result(timeout=30)
    assert undone == [None, [MARKER], {"right": MARKER}, MARKER]


def list_undoing(system: System) -> list[str]:
    """List the jobs that undo others."""
    jobs = system.client.jobs.list().jobs
    return [job.job_id for job in jobs if job.name.startswith("undo ")]


async def test_the_async_face_encodes_too(system: System) -> None:
    job = await codecs.join.submit.aio(MARKER)
    assert await job.result.aio(timeout=30) == MARKER


def test_keys_are_rotated(system: System) -> None:
    with hf.Client(system.url, codec=codecs.rotated_out) as old:
        job = old.submit(codecs.join, MARKER)
        job.wait(timeout=30)
        # The result is by the new key, which the old client does not have.
        with pytest.raises(Invalid, match=r"'fernet' cannot decode .*InvalidToken"):
            job.result(timeout=30)
    assert system.client.job(job.id).result(timeout=30) == MARKER


def test_a_wrong_key_ends_the_task_at_once(system: System) -> None:
    with hf.Client(system.url, codec=codecs.stranger) as stranger:
        job = stranger.submit(codecs.join.with_options(retries=5, backoff=codecs.QUICK), MARKER)
        [outcome] = job.outcomes(timeout=30)
    assert outcome.error_class == "ValidationError"
    assert "codec: 'fernet' cannot decode a payload of codec 'fernet': InvalidToken" in str(
        outcome.error
    )
    assert len(system.client.tasks.get(outcome.task_id).attempts or ()) == 1


@pytest.mark.parametrize(
    "function",
    [
        codecs.join,
        pytest.param(codecs.join_later, marks=pytest.mark.nightly),
        pytest.param(codecs.join_apart, marks=pytest.mark.nightly),
    ],
)
def test_a_worker_without_the_codec_says_which_one_it_lacks(function: Any) -> None:
    with running(queues=["codec"]) as plain, hf.Client(plain.url, codec=codecs.codec) as client:
        calls = [
            client.submit(function.with_options(retries=5, backoff=codecs.QUICK), MARKER),
            client.map(function.with_options(retries=5, backoff=codecs.QUICK), [MARKER]),
        ]
        for job in calls:
            [outcome] = job.outcomes(timeout=60)
            assert "'fernet' has encoded this" in (outcome.error or "")
            assert "--codec MODULE:OBJECT" in (outcome.error or "")
            assert len(client.tasks.get(outcome.task_id).attempts or ()) == 1
        assert asyncio.run(find_plain_text(plain.database_url)) == []


def test_a_key_service_that_is_away_costs_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(queues=["codec"], codec="tests.client.codecs:away") as system:
        job = codecs.join.with_options(retries=1, backoff=codecs.QUICK).submit("x")
        [outcome] = job.outcomes(timeout=30) if job.wait(timeout=30) else []
        assert "the key service is away" in (outcome.error or "")
        assert len(system.client.tasks.get(outcome.task_id).attempts or ()) == 2


def test_a_client_without_the_codec_says_which_one_it_lacks(system: System) -> None:
    job = codecs.join.submit(MARKER)
    assert job.result(timeout=30) == MARKER
    with hf.Client(system.url) as plain:
        with pytest.raises(Invalid, match=r"'fernet' has encoded this.*Client\(codec=\.\.\.\)"):
            plain.job(job.id).result(timeout=30)
        found = msgspec.json.decode(plain.tasks.result(f"{job.id}.0", wait=30).result)
        assert find_codec_name(found) == "fernet"
    readable = system.client.tasks.result(f"{job.id}.0", wait=30).result
    assert msgspec.json.decode(readable) == MARKER


def test_a_dead_letter_gets_another_input_that_is_encoded(system: System) -> None:
    with hf.Client(system.url, codec=codecs.stranger) as stranger:
        job = stranger.map(codecs.join, ["x"])
        job.wait(timeout=30)
    answer = system.client.dead_letters.replay([f"{job.id}.0"], input=MARKER)
    [replayed] = answer.replays
    assert system.client.job(replayed.job_id or "").results(timeout=30) == [MARKER]


def test_corrected_inputs_of_a_resumed_job_are_encoded(system: System) -> None:
    with hf.Client(system.url, codec=codecs.stranger) as stranger:
        job = stranger.map(codecs.join, ["x"])
        job.wait(timeout=30)
    answer = system.client.jobs.resume(job.id, inputs={f"{job.id}.0": MARKER})
    [resumed] = answer.jobs
    assert system.client.job(resumed.job_id or "").results(timeout=30) == [MARKER]


def test_the_size_that_is_limited_is_that_of_what_is_encoded(system: System) -> None:
    with pytest.raises(hf.TooLarge):
        codecs.join.submit("x" * 900_000)  # a fifth less than what is allowed; base64 adds a third
    job = codecs.join.map(["x" * 300_000], right="x" * 300_000)
    with pytest.raises(hf.TaskFailed, match="the result is over"):
        job.results(timeout=30)


REFUSED = [
    ({"unique": True}, "unique", r"Unique\(values=\[\.\.\.\]\)"),
    ({"unique": hf.Unique(arguments=["left"])}, "unique", "compares arguments"),
    ({"concurrency_key": hf.KeyOfInput("id")}, "concurrency_key", "give the key as a text"),
    ({"idempotency_key": "k"}, "idempotency_key", "looks different each time"),
    ({"compensation": ["rm", "x"]}, "compensation", "use a function"),
]


@pytest.mark.parametrize(("options", "field", "remedy"), REFUSED)
def test_what_would_have_to_be_read_is_refused(
    system: System, options: Any, field: str, remedy: str
) -> None:
    function = codecs.join.with_options(**options)
    with pytest.raises(Invalid, match=remedy) as refused:
        function.submit(MARKER, right="b")
    assert refused.value.field == field


def test_commands_are_refused(system: System) -> None:
    with pytest.raises(Invalid, match=r"Client\(codec=None\)") as refused:
        system.client.run_command(["true"], queue="codec")
    assert refused.value.field == "command"


def test_what_names_its_own_values_may_be_unique(system: System) -> None:
    function = codecs.join.with_options(unique=hf.Unique(values=["v"]))
    assert function.submit(MARKER).result(timeout=30) == MARKER


def test_requests_are_encoded_wherever_they_go() -> None:
    codec = PayloadCodec(codecs.codec)
    entrypoint = Entrypoint(function="a:b", args=[MARKER], kwargs={"x": {"y": MARKER}})
    asked = JobRequest(entrypoint=entrypoint, compensation=entrypoint, inputs=[raw(b'"x"')])
    encoded = encode_request(codec, asked)
    assert encode_request(codec, encoded) == encoded  # once is enough
    assert MARKER.encode() not in msgspec.json.encode(encoded)
    sent = msgspec.json.decode(msgspec.json.encode(encoded), type=JobRequest)
    assert decode_entrypoint(codec, sent.entrypoint) == entrypoint
    assert sent.compensation is not None
    assert decode_entrypoint(codec, sent.compensation) == entrypoint
    assert [decode_value(codec, msgspec.json.decode(each)) for each in sent.inputs or ()] == ["x"]


def test_a_spec_is_encoded_by_the_codec_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert codecs.join.spec(MARKER)["entrypoint"]["args"] == [MARKER]
    monkeypatch.setenv("HOLDFAST_CODEC", CODEC)
    [argument] = codecs.join.spec(MARKER)["entrypoint"]["args"]
    assert decode_value(load_codec(CODEC), argument) == MARKER
    assert hf.Client("http://127.0.0.1:1").codec is load_codec(CODEC)
    assert hf.Client("http://127.0.0.1:1", codec=None).codec is None


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("nowhere", "write MODULE:OBJECT"),
        ("no.such.module:codec", "cannot be imported: ModuleNotFoundError"),
        ("tests.client.codecs:nothing", "cannot be imported: AttributeError"),
        ("tests.client.codecs:MARKER", r"is a str without decode\(\)"),
    ],
)
def test_what_is_no_codec_is_refused(given: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem) as refused:
        hf.Client("http://127.0.0.1:1", codec=given)
    assert refused.value.field == "codec"


def test_another_version_of_the_form_is_not_guessed() -> None:
    value = {"$holdfast_codec": "fernet", "v": 2, "data": ""}
    with pytest.raises(Invalid, match="in form 2; here 1 is known: update Holdfast"):
        decode_value(PayloadCodec(codecs.codec), value)


def raw(text: bytes) -> msgspec.Raw:
    """Take a JSON text as it is."""
    return msgspec.Raw(text)
