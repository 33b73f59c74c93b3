"""What users write is shown, and does nothing: in names, inputs, errors, labels and logs."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.stage import HandWorker, Stage

SCRIPT = "<script>window.attacked = 1</script><img src=x onerror='window.attacked = 2'>"
TURNED = "safe\u202egnp.exe"  # reads as safe exe.png, if it is let
NAME = f"evil {SCRIPT} {TURNED}"
ERROR = f"it broke: {SCRIPT} {TURNED} \x1b[31mred\x1b[0m"
LONG = b"x" * 1_000_000
LOG = b"\n".join(
    [
        b"INFO \x1b[31mred\x1b[0m \x1b]0;new title\x07\x1b[2Jplain",
        f"WARN {SCRIPT}".encode(),
        "DEBUG right to left: \u202egnp.exe \u05e9\u05dc\u05d5\u05dd".encode(),
        b"a byte that is no text: \xff\xfe, and a nul: \x00.",
        b"LONG " + LONG,
        b"ERROR the last line",
        b"",
    ]
)
PLACES = [
    "/jobs?name=evil",
    "/jobs/{job}",
    "/jobs/{job}?tab=timeline",
    "/jobs/{job}?tab=events",
    "/jobs/{job}?tab=logs",
    "/jobs/{job}?tab=spec",
    "/tasks/{job}.0",
    "/tasks/{job}.0?tab=logs",
    "/tasks/{job}.0?tab=input",
    "/tasks/{job}.0?tab=events",
    "/tasks/{job}.0?tab=explain",
    "/dead-letters?task={job}.0",
    "/workers",
]


@pytest.fixture(scope="module")
def job_id(stage: Stage) -> str:
    """Let a job of a hostile user run, log and fail."""
    job_id = stage.submit(
        name=NAME,
        type=f"type {SCRIPT}",
        owner=f"owner {TURNED}",
        labels={f"key {SCRIPT}": f"value {SCRIPT}"},
        inputs=[{"text": ERROR, "deep": [[SCRIPT]]}],
    )
    worker = HandWorker(stage, "w-hostile")
    claim = worker.claim(f"{job_id}.0")
    worker.log(claim, LOG[:500_000])
    worker.log(claim, LOG[500_000:], 500_000)
    worker.end(claim, "failed", error=ERROR, error_class="ValidationError", stage="input")
    return job_id


@pytest.mark.parametrize("place", PLACES)
def test_nothing_that_a_user_wrote_is_run(page: Page, job_id: str, place: str) -> None:
    page.goto(place.format(job=job_id))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_text(re.compile("^Reading ")).first).not_to_be_visible()
    if place != "/workers":
        expect(page.get_by_text("<script>", exact=False).first).to_be_visible()
    text = page.locator("body").inner_text()
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert page.evaluate("window.attacked") is None
    assert page.locator("main img, main script").count() == 0
    assert page.title().endswith("Holdfast")
    assert "\u202e" not in page.title()


def test_a_hostile_log_is_shown_inert(page: Page, job_id: str) -> None:
    page.goto(f"/tasks/{job_id}.0?tab=logs")
    expect(page.get_by_text("INFO red plain")).to_be_visible()
    expect(page.get_by_text("right to left: ‹202E›gnp.exe")).to_be_visible()
    expect(page.get_by_text("a nul: ‹00›.")).to_be_visible()
    long = page.get_by_text(re.compile("^LONG x+")).first
    expect(long).to_be_visible()
    assert len(long.inner_text()) < 10_000  # not a million characters, unless asked for
    expect(page.get_by_text("ERROR the last line")).to_be_visible()
