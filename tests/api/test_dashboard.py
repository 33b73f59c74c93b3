"""The dashboard's files: which paths are pages, what is sent with them, and what is kept."""

import gzip
import re
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from holdfast.api.app import ROUTES, App
from holdfast.api.dashboard import FOLDER, HERE, NOT_BUILT, PAGES, open_dashboard
from holdfast.api.openapi import build_document
from tests.api.asgi import Answered, call

SCRIPT = b"console.log(1);\n" * 200
STYLE = b"a{}"
INDEX = b'<!doctype html><head><base href="./" /></head><script src="./assets/x.js"></script>'


@pytest.fixture
def app(tmp_path: Path) -> Any:
    """A small build, as the real one is laid out."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_bytes(INDEX)
    (tmp_path / "assets" / "x.js").write_bytes(SCRIPT)
    (tmp_path / "assets" / "x.css").write_bytes(STYLE)
    (tmp_path / "mark.svg").write_bytes(b"<svg/>")
    return App([], open_dashboard(tmp_path))


async def get(app: Any, path: str, method: str = "GET", **headers: str) -> Answered:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return await call(app, method, path, headers=named)


def find_pointers(address: str, content: bytes) -> list[str]:
    """List what a page points to, as a browser at some address resolves it."""
    text = content.decode()
    [top] = re.findall(r'<base href="([^"]*)" />', text)
    found = re.findall(r'<(?:script|link)\b[^>]*\s(?:src|href)="([^"]+)"', text)
    return [urljoin(urljoin(address, top), target) for target in found]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/jobs",
        "/jobs/",
        "/jobs/7",
        "/jobs/7/tasks?state=failed&q=a/b",
        "/tasks/7.0",
        "/workers/a%2Fb",
        "/workers/a/b",
        "/queues/team/gpu",
        "/dead-letters",
        "/datasets/maps/versions/3",
    ],
)
@pytest.mark.parametrize("prefix", ["", "/tools/holdfast"])
async def test_a_page_finds_its_files_below_any_path(app: Any, path: str, prefix: str) -> None:
    status, headers, content = await get(app, path)
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    found = find_pointers(f"https://proxy.example{prefix}{path}", content)
    assert found == [f"https://proxy.example{prefix}/assets/x.js"]


async def test_what_is_no_page_and_no_file_is_not_found(app: Any) -> None:
    for path in (
        "/nothing",
        "/jobsx",
        "/assets/",
        "/assets/none.js",
        "/index.html",
        "/assets/../index.html",
        "//jobs",
        "*",
        "jobs",
        "",
        "/api/nothing",
    ):
        status, headers, content = await get(app, path)
        assert (status, headers["content-type"]) == (404, "application/json"), path
        assert b'"not_found"' in content
        assert headers["x-content-type-options"] == "nosniff"


async def test_pages_are_only_read(app: Any) -> None:
    for path in ("/", "/jobs/7", "/assets/x.js"):
        status, headers, _ = await get(app, path, "POST")
        assert (status, headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/", "/workers/a", "/assets/x.js", "/mark.svg"])
async def test_whatever_is_sent_is_sent_with_its_guards(app: Any, path: str) -> None:
    _, headers, _ = await get(app, path)
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"


async def test_assets_are_kept_for_ever_and_pages_are_asked_for_again(app: Any) -> None:
    for path, caching in (
        ("/assets/x.js", "public, max-age=31536000, immutable"),
        ("/jobs", "no-cache"),
        ("/mark.svg", "no-cache"),
    ):
        status, headers, content = await get(app, path)
        assert (status, headers["cache-control"]) == (200, caching)
        tag = headers["etag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            status, headers, again = await get(app, path, if_none_match=known)
            assert (status, again, headers["etag"]) == (304, b"", tag), known
            assert "content-length" not in headers
        assert (await get(app, path, if_none_match='"other"'))[2] == content


async def test_the_same_page_at_another_depth_is_another(app: Any) -> None:
    _, headers, _ = await get(app, "/jobs")
    status, _, content = await get(app, "/jobs/7", if_none_match=headers["etag"])
    assert status == 200
    assert b'<base href="../" />' in content


@pytest.mark.parametrize("accepted", ["gzip", "br;q=1.0, GZIP;q=0.5", "deflate, gzip"])
async def test_a_script_goes_packed_to_whoever_takes_it(app: Any, accepted: str) -> None:
    plain = (await get(app, "/assets/x.js"))[1]
    status, headers, content = await get(app, "/assets/x.js", accept_encoding=accepted)
    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert headers["content-length"] == str(len(content))
    assert gzip.decompress(content) == SCRIPT
    assert headers["etag"] != plain["etag"]
    assert plain["vary"] == headers["vary"] == "accept-encoding"
    again = await get(app, "/assets/x.js", accept_encoding="gzip", if_none_match=headers["etag"])
    assert again[0] == 304


@pytest.mark.parametrize("accepted", ["", "identity", "gzip;q=0", "gzip; q=0.00", "br", "notgzip"])
async def test_and_plain_to_whoever_does_not(app: Any, accepted: str) -> None:
    _, headers, content = await get(app, "/assets/x.js", accept_encoding=accepted)
    assert "content-encoding" not in headers
    assert content == SCRIPT


async def test_what_is_small_is_not_packed(app: Any) -> None:
    _, headers, content = await get(app, "/assets/x.css", accept_encoding="gzip")
    assert "content-encoding" not in headers
    assert (content, headers["content-type"]) == (STYLE, "text/css; charset=utf-8")


async def test_a_head_has_the_length_and_nothing_else(app: Any) -> None:
    for path in ("/jobs", "/assets/x.js"):
        _, wanted, _ = await get(app, path)
        status, headers, content = await get(app, path, "HEAD")
        assert (status, headers, content) == (200, wanted, b"")


async def test_without_a_build_every_page_says_how_to_make_one(tmp_path: Path) -> None:
    app = App([], open_dashboard(tmp_path / "missing"))
    for path in ("/", "/jobs/7"):
        status, headers, content = await get(app, path)
        assert (status, content) == (503, NOT_BUILT)
        assert headers["cache-control"] == "no-store"
        assert "content-security-policy" in headers
    assert b"./run dashboard" in NOT_BUILT
    assert (await get(app, "/assets/x.js"))[0] == 404


def test_pages_are_no_part_of_the_api() -> None:
    paths = build_document(ROUTES)["paths"]
    assert not [path for path in paths if path.split("/")[1].partition(":")[0] in PAGES]


async def test_every_file_that_the_real_build_points_to_is_there() -> None:
    """`./run test` has built it; its index must keep the base that is exchanged."""
    assert HERE in (FOLDER / "index.html").read_bytes()
    app = App([], open_dashboard())
    _, _, content = await get(app, "/queues/team/gpu")
    found = find_pointers("http://h/queues/team/gpu", content)
    assert any(each.endswith(".js") for each in found)
    assert any(each.endswith(".css") for each in found)
    for each in found:
        status, headers, _ = await get(app, each.removeprefix("http://h"))
        assert (status, headers["cache-control"][:6]) == (200, "public"), each
