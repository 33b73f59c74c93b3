"""The object store: in a folder and in an S3, the same behaviour."""

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.errors import Invalid, NotFound, Overloaded, Unavailable
from holdfast.services.objects import UPLOADS_MAX, Location, ObjectStore, parse_location
from tests.sqs import aws_fixture, sqs_endpoint_fixture

__all__ = ["aws_fixture", "sqs_endpoint_fixture"]


def name_of(content: bytes) -> str:
    """Name content by its hash."""
    return hashlib.sha256(content).hexdigest()


async def pieces(*parts: bytes) -> AsyncGenerator[bytes, None]:
    """Let content come in parts."""
    for part in parts:
        yield part


async def read(store: ObjectStore, name: str) -> bytes:
    """Read an object whole."""
    return b"".join([piece async for piece in store.read(name)])


def make_bucket(endpoint_url: str) -> str:
    """Make a bucket of the test's own."""
    import boto3

    name = f"bucket-{uuid4().hex}"
    client = boto3.Session().client("s3", endpoint_url=endpoint_url)
    try:
        client.create_bucket(
            Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )
    finally:
        client.close()
    return name


@pytest.fixture(params=["folder", "s3"])
def store(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sqs_endpoint: str,
    aws: None,
) -> ObjectStore:
    """An empty store; moto serves S3 where it serves SQS."""
    if request.param == "folder":
        return ObjectStore(f"file://{tmp_path}/a/b%20c")
    monkeypatch.setenv("AWS_ENDPOINT_URL", sqs_endpoint)
    return ObjectStore(f"s3://{make_bucket(sqs_endpoint)}/team/bundles/")


async def test_what_was_put_is_read_again(store: ObjectStore) -> None:
    content = os.urandom(12 << 20)  # more than one part of an upload to S3
    name = name_of(content)
    assert await store.find_size(name) is None
    stored = await store.put(name, pieces(content[: 5 << 20], content[5 << 20 :], b""))
    assert (stored.size, stored.is_new) == (len(content), True)
    assert await store.find_size(name) == len(content)
    assert await read(store, name) == content


async def test_what_is_known_is_not_new(store: ObjectStore) -> None:
    await store.put(name_of(b"x"), pieces(b"x"))
    assert not (await store.put(name_of(b"x"), pieces(b"x"))).is_new


async def test_nothing_is_content_too(store: ObjectStore) -> None:
    assert (await store.put(name_of(b""), pieces())).size == 0
    assert await read(store, name_of(b"")) == b""


async def test_content_of_another_name_is_refused_and_not_kept(store: ObjectStore) -> None:
    with pytest.raises(Invalid, match=f"has the hash {name_of(b'other')}"):
        await store.put(name_of(b"this"), pieces(b"other"))
    assert await store.find_size(name_of(b"this")) is None
    assert await store.find_size(name_of(b"other")) is None


async def test_what_is_not_there_cannot_be_read(store: ObjectStore) -> None:
    with pytest.raises(NotFound, match=name_of(b"x")):
        await read(store, name_of(b"x"))


async def test_many_may_put_the_same_at_once(store: ObjectStore) -> None:
    content = os.urandom(1 << 20)
    puts = [store.put(name_of(content), pieces(content)) for _ in range(8)]
    assert {stored.size for stored in await asyncio.gather(*puts)} == {len(content)}
    assert await read(store, name_of(content)) == content


async def test_what_a_crash_has_left_is_put_again(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path))
    await store.put(name_of(b"whole"), pieces(b"whole"))
    (tmp_path / "sha256" / name_of(b"whole")).write_bytes(b"")
    assert (await store.put(name_of(b"whole"), pieces(b"whole"))).is_new
    assert await read(store, name_of(b"whole")) == b"whole"


async def test_uploads_are_bounded(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path))
    enough = asyncio.Event()

    async def slow() -> AsyncGenerator[bytes, None]:
        await enough.wait()
        yield b"x"

    puts = [asyncio.create_task(store.put(name_of(b"x"), slow())) for _ in range(UPLOADS_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="uploads are under way"):
        await store.put(name_of(b"x"), pieces(b"x"))
    enough.set()
    await asyncio.gather(*puts)
    assert not (await store.put(name_of(b"x"), pieces(b"x"))).is_new


def test_nothing_is_created_before_it_is_needed(tmp_path: Path) -> None:
    ObjectStore(str(tmp_path / "objects"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("use", [lambda s, n: s.find_size(n), lambda s, n: s.put(n, pieces(b"x"))])
async def test_a_folder_that_cannot_be_is_unavailable(
    tmp_path: Path, use: Callable[[ObjectStore, str], Awaitable[object]]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match=r"the object store .*/file/objects does not serve: "):
        await use(ObjectStore(str(tmp_path / "file" / "objects")), name_of(b"x"))


async def test_a_bucket_that_is_not_there_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, sqs_endpoint: str, aws: None
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", sqs_endpoint)
    with pytest.raises(Unavailable, match=r"the object store s3://nobody does not serve: .*404"):
        await ObjectStore("s3://nobody").put(name_of(b"x"), pieces(b"x"))


async def test_an_s3_out_of_reach_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, aws: None
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(Unavailable, match="does not serve: ") as told:
        await ObjectStore("s3://anybody").find_size(name_of(b"x"))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("s3://bucket", Location("", "bucket")),
        ("s3://bucket/a/b/", Location("a/b", "bucket")),
        ("file:///a/b%20c", Location("/a/b c")),
        ("file://localhost/a", Location("/a")),
        ("/a/b", Location("/a/b")),
        ("~/x", Location(str(Path.home() / "x"))),
        ("x", Location(str(Path.cwd() / "x"))),
    ],
)
def test_a_location_is_a_folder_or_a_bucket(url: str, location: Location) -> None:
    assert parse_location(url) == location


@pytest.mark.parametrize(
    "url", ["", "s3://", "s3:///a", "file://host/a", "file://", "gs://b/a", "http://h/x", "s3://[a"]
)
def test_another_place_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="write a folder, file:///folder or s3://bucket/prefix"):
        parse_location(url)
