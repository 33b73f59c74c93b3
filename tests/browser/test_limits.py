"""From "why does nothing start" to the limit, who holds it, and its change, by clicks."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Complaints
from tests.browser.stage import HandWorker, Stage


@pytest.fixture(scope="module")
def held(stage: Stage) -> list[str]:
    """Two jobs of one key of which one runs, by a limit whose name is messy."""
    stage.call("PUT", "/api/limits/one@customer", {"scope": "key", "most": 1, "in_queue": "kept"})
    jobs = [stage.submit(queue="kept", concurrency_key="<b>acme</b>", lease=120) for _ in range(2)]
    hands = HandWorker(stage, "w-held")
    assert hands.claim_next("kept") is not None
    assert hands.claim_next("kept") is None
    return jobs


def test_a_limit_leads_to_who_holds_it_and_is_raised(
    page: Page, stage: Stage, held: list[str]
) -> None:
    page.goto("/limits")
    row = page.get_by_role("row").filter(has_text="one@customer")
    expect(row).to_contain_text("1 at once")
    expect(row).to_contain_text("each concurrency key, in queue kept")
    row.get_by_role("link", name="one@customer").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Limit one@customer")
    bucket = page.get_by_role("table", name="Buckets").get_by_role("row").filter(has_text="acme")
    expect(bucket).to_contain_text("<b>acme</b>")
    expect(bucket).to_contain_text("full")
    bucket.get_by_role("button").click()
    holders = page.get_by_role("table", name="Who holds")
    expect(holders.get_by_role("link", name=f"{held[0]}.0")).to_be_visible()
    page.get_by_role("button", name="Change …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("At most").fill("1.5")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog).to_contain_text("Give a whole number")
    dialog.get_by_label("At most").fill("2")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog.get_by_role("status")).to_contain_text("It holds from now on.")
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator("main dl")).to_contain_text("2 at once")
    expect(bucket).not_to_contain_text("full")
    assert stage.rows("select most from holdfast.usage_limits") == [(2.0,)]


@pytest.mark.usefixtures("held")
def test_a_limit_is_lowered_below_what_runs_and_deleted(
    page: Page, stage: Stage, complaints: Complaints
) -> None:
    # The page that is left may read once more what is just being deleted.
    complaints.expected = ("404 (Not Found)",)
    page.goto("/limits/one@customer")
    page.get_by_role("button", name="Change …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("At most").fill("0")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog.get_by_role("status")).to_contain_text("nothing is ended")
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_role("main")).to_contain_text("1 more than allowed")
    page.get_by_role("button", name="Delete …").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page).to_have_url(re.compile("/limits$"))
    expect(page.get_by_text("There are no limits.")).to_be_visible()
    assert stage.rows("select count(*) from holdfast.usage_limits") == [(0,)]


def test_a_limit_that_is_refused_says_why_at_its_field(page: Page, complaints: Complaints) -> None:
    complaints.expected = ("400 (Bad Request)",)
    page.goto("/limits")
    page.get_by_role("button", name="Set a limit …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog.get_by_label("Name")).to_be_focused()
    dialog.get_by_label("Name").fill("bad name!")
    dialog.get_by_label("At most").fill("3")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog.get_by_label("Name")).to_have_attribute("aria-invalid", "true")
    dialog.get_by_label("Name").fill("mail")
    dialog.get_by_role("combobox").nth(1).select_option("bucket")
    dialog.get_by_label("In so many seconds").fill("60")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog.get_by_role("status")).to_contain_text("It holds from now on.")
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_role("row").filter(has_text="mail")).to_contain_text("3 per minute")


def test_a_shared_queue_shows_whose_tasks_wait(page: Page, stage: Stage) -> None:
    stage.call("PUT", "/api/shares/queues/common", {"by": "owner", "weights": {"ada": 3}})
    for owner in ("ada", "ada", "grace"):
        stage.submit(queue="common", owner=owner)
    page.goto("/limits")
    table = page.get_by_role("table", name="Shares of common")
    expect(table.get_by_role("row").filter(has_text="grace")).to_be_visible()
    expect(table.get_by_role("row").filter(has_text="ada")).to_contain_text("3")
