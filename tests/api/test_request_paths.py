"""The paths that the architecture page draws are those that requests take, file by file."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import holdfast
from tests.api.face import Face

PACKAGE = Path(holdfast.__file__).parent
PAGE = PACKAGE.parent / "docs" / "architecture.md"
ALL_FOUR = "Four requests, file by file"
# Values, messages and spans are passed along on every path.
PASSED_ALONG = ("model/", "wire/", "tracing/")
_STEP = re.compile(r"^\d+\. `([\w/]+\.py)`", re.MULTILINE)
_FILE = re.compile(r"`([\w/]+\.py)`")


def section(title: str) -> str:
    """Read what the page says under a heading, up to the next one."""
    found = re.search(
        rf"^###? {re.escape(title)}$(.*?)(?=^##)", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found, f"the page has nothing about {title!r}"
    return found[1]


def drawn(title: str) -> list[str]:
    """List the files that the page names on one path, in order."""
    files = _STEP.findall(section(title))
    assert files, title
    assert len(set(files)) == len(files), "a file is named twice"
    return files


@contextmanager
def visiting() -> Iterator[list[str]]:
    """Collect the files of the package in the order in which the block first comes to them."""
    seen: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(PACKAGE)):
            seen[str(Path(path).relative_to(PACKAGE))] = None

    visited: list[str] = []
    sys.setprofile(note)
    try:
        yield visited
    finally:
        sys.setprofile(None)
        visited += seen


def check(title: str, visited: list[str]) -> None:
    """Compare a drawn path with one that was taken."""
    files = drawn(title)
    assert [file for file in visited if file in files] == files
    named = {*_FILE.findall(section(title)), *_FILE.findall(section(ALL_FOUR))}
    left_out = {file for file in visited if not file.startswith(PASSED_ALONG)} - named
    assert not left_out, "visited, and not on the page"


async def test_a_submission_takes_the_path_that_is_drawn(quiet_face: Face) -> None:
    await quiet_face.submit()  # the first one finds out which ids have a partition
    with visiting() as visited:
        await quiet_face.submit()
    check("A submission", visited)


async def test_a_claim_takes_the_path_that_is_drawn(quiet_face: Face) -> None:
    await quiet_face.submit()
    with visiting() as visited:
        [_] = await quiet_face.claim()
    check("A claim", visited)


async def test_a_heartbeat_takes_the_path_that_is_drawn(quiet_face: Face) -> None:
    await quiet_face.submit()
    [claim] = await quiet_face.claim()
    with visiting() as visited:
        await quiet_face.beat(claim)
    check("A heartbeat", visited)


async def test_a_completion_takes_the_path_that_is_drawn(quiet_face: Face) -> None:
    await quiet_face.submit()
    [claim] = await quiet_face.claim()
    with visiting() as visited:
        await quiet_face.complete(claim, "failed")
    check("A completion", visited)
