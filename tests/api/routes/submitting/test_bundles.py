"""The routes of bundles: put once, verified, read by their hash."""

import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.api.routes.submitting import bundles
from holdfast.client.transport import Transport
from holdfast.errors import NotFound
from holdfast.server import Address, serve
from holdfast.services.runtime import Options
from holdfast.wire.bundles import OCTETS, StoredBundle, bundle_path
from tests.api.asgi import call
from tests.api.face import Face

Answered = tuple[int, dict[str, str], bytes]
CONTENT = b"zipped" * 1000
NAME = hashlib.sha256(CONTENT).hexdigest()


async def put(face: Face, content: bytes, name: str = NAME, **headers: str) -> Answered:
    """Upload some content."""
    given = {"content-type": OCTETS, **{key.replace("_", "-"): v for key, v in headers.items()}}
    return await call(face.app, "PUT", bundle_path(name), body=content, headers=given)


def error_of(answer: Answered) -> tuple[int, str, str | None]:
    """Read an error."""
    error: Any = msgspec.json.decode(answer[2])["error"]
    return answer[0], error["code"], error.get("field")


async def test_a_bundle_is_new_once(face: Face) -> None:
    status, _, content = await put(face, CONTENT)
    assert status == 201
    stored = msgspec.json.decode(content, type=StoredBundle)
    assert stored == StoredBundle(NAME, len(CONTENT), is_new=True)
    status, _, content = await put(face, CONTENT)
    assert (status, msgspec.json.decode(content)["is_new"]) == (200, False)


async def test_a_bundle_is_given_as_it_came(face: Face) -> None:
    await put(face, CONTENT)
    status, headers, content = await call(face.app, "GET", bundle_path(NAME))
    assert (status, content) == (200, CONTENT)
    assert (headers["content-type"], headers["content-length"]) == (OCTETS, str(len(CONTENT)))


async def test_the_head_says_how_large_it_is(face: Face) -> None:
    assert (await call(face.app, "HEAD", bundle_path(NAME)))[0] == 404
    await put(face, CONTENT)
    status, headers, content = await call(face.app, "HEAD", bundle_path(NAME))
    assert (status, headers["content-length"], content) == (200, str(len(CONTENT)), b"")


async def test_an_unknown_bundle_is_not_found(face: Face) -> None:
    assert error_of(await call(face.app, "GET", bundle_path(NAME))) == (404, "not_found", None)


@pytest.mark.parametrize("method", ["PUT", "GET"])
async def test_a_name_that_is_no_hash_is_refused(face: Face, method: str) -> None:
    headers = {"content-type": OCTETS}
    answer = await call(face.app, method, "/api/bundles/mine", body=b"x", headers=headers)
    assert error_of(answer) == (400, "invalid", "bundle")


async def test_content_of_another_name_is_refused_and_not_kept(face: Face) -> None:
    assert error_of(await put(face, CONTENT + b"!")) == (400, "invalid", "bundle")
    assert (await call(face.app, "GET", bundle_path(NAME)))[0] == 404


async def test_what_is_not_declared_as_bytes_is_refused(face: Face) -> None:
    answer = await put(face, CONTENT, content_type="application/json")
    assert error_of(answer) == (415, "unsupported_media_type", "Content-Type")
    assert OCTETS in msgspec.json.decode(answer[2])["error"]["message"]


async def test_too_large_is_refused_by_what_is_said_and_by_what_comes(
    face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "BUNDLE_BYTES_MAX", 1000)
    for length in ("1001", "17"):
        answer = await put(face, CONTENT, content_length=length)
        assert error_of(answer) == (413, "too_large", "body")
    assert (await call(face.app, "GET", bundle_path(NAME)))[0] == 404


async def test_a_server_without_a_store_says_what_to_do(quiet_face: Face) -> None:
    answer = await put(quiet_face, CONTENT)
    assert error_of(answer) == (503, "unavailable", None)
    assert "--object-store" in msgspec.json.decode(answer[2])["error"]["message"]


async def test_a_file_goes_through_a_real_server_piece_by_piece(
    database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(os.urandom(20 << 20))
    path = bundle_path(hashlib.sha256(file.read_bytes()).hexdigest())
    options = Options(database_url, object_store=str(tmp_path / "objects"))
    async with serve(options, Address(port=0)) as server, Transport(server.url) as transport:
        assert await transport.find_size(path) is None
        with pytest.raises(NotFound):
            await anext(transport.fetch(path, seconds_max=60))
        stored = await transport.call("PUT", path, StoredBundle, body=file)
        assert stored.is_new
        assert await transport.find_size(path) == 20 << 20
        pieces = [piece async for piece in transport.fetch(path, seconds_max=60)]
    assert len(pieces) > 10
    assert b"".join(pieces) == file.read_bytes()
