"""The dashboard behind a login: each role sees what it may, and a stolen cookie changes nothing."""

import asyncio
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from holdfast.embedded import EmbeddedPostgres
from tests.browser.axe import serious_findings
from tests.browser.conftest import Complaints
from tests.browser.logins import log_in, make_first_token, make_token
from tests.browser.proxy import proxy_to
from tests.browser.stage import HandWorker, Stage
from tests.databases import give_back_database, take_database
from tests.identity_provider import AUDIENCE, CLIENT_ID, TestProvider, provider_on_loopback

REFUSED = ("401 (Unauthorized)", "403 (Forbidden)")


@pytest.fixture(scope="module")
def issuer() -> Iterator[TestProvider]:
    """An identity provider, for all of the tests."""
    with provider_on_loopback() as provider:
        yield provider


@pytest.fixture(scope="module")
def stage(
    postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory, issuer: TestProvider
) -> Iterator[Stage]:
    """A server that asks who calls, and knows an identity provider."""
    name = asyncio.run(take_database(postgres))
    url = postgres.url(name)
    token = asyncio.run(make_first_token(url))
    flags = ["--require-tokens", "--oidc-issuer", issuer.issuer, "--oidc-audience", AUDIENCE]
    flags += ["--oidc-client-id", CLIENT_ID, "--oidc-role", "people=data"]
    stage = Stage(url, tmp_path_factory.mktemp("stage"), *flags, token=token)
    try:
        yield stage
    finally:
        stage.close()
        asyncio.run(give_back_database(postgres, name))


@pytest.fixture(scope="module")
def job(stage: Stage) -> str:
    """A job of ann's that has run once, and failed for good."""
    job_id = stage.submit(name="anns-job", owner="ann", max_retries_failure=0)
    worker = HandWorker(stage, "w1")
    claim = worker.claim(f"{job_id}.0")
    worker.log(claim, b"what only some may read\n")
    worker.end(claim, "failed", error="boom")
    return job_id


def test_whoever_is_a_stranger_logs_in_and_comes_back_to_where_he_was(
    page: Page, stage: Stage, job: str, complaints: Complaints
) -> None:
    complaints.expected = REFUSED
    page.goto(f"/jobs/{job}?tab=events")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    expect(page.get_by_text("holdfast tokens create")).to_be_visible()
    expect(page.get_by_role("textbox", name="Token")).to_be_focused()
    page.get_by_role("textbox", name="Token").fill("hf_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("is not a bearer token of Holdfast")
    log_in(page, make_token(stage, "ann", "submit"))
    expect(page).to_have_url(re.compile(rf"/jobs/{job}\?tab=events$"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("anns-job")
    expect(page.get_by_text("Logged in as ann").first).to_be_attached()
    [cookie] = page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("holdfast", True, "Strict")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_contain_text("anns-job")


def test_what_changes_is_seen_live_and_what_is_done_is_done_by_who_is_logged_in(
    page: Page, stage: Stage
) -> None:
    page.goto("/jobs")
    log_in(page, make_token(stage, "bob", "submit"))
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    job_id = stage.submit(name="seen-live")
    page.get_by_role("link", name=job_id, exact=True).first.click()
    page.get_by_role("button", name="Cancel hard").click()
    page.get_by_role("button", name="Cancel the job hard").click()
    expect(page.locator(".badge.status-killed").first).to_be_visible()
    [[actor]] = stage.rows(
        "select actor from holdfast.actions where subject_kind = 'job' and subject = %s", job_id
    )
    assert actor == "bob"


def test_a_stolen_cookie_changes_nothing(page: Page, stage: Stage) -> None:
    page.goto("/queues")
    log_in(page, make_token(stage, "eve", "admin"))
    [cookie] = page.context.cookies()
    job_id = stage.submit(name="not-eves")
    stolen = {"cookie": f"{cookie['name']}={cookie['value']}", "content-type": "application/json"}
    assert ask(stage, "GET", f"/api/jobs/{job_id}", stolen) == 200  # so it is the cookie
    before = ledger(stage)
    for method, path, body in (
        ("POST", f"/api/jobs/{job_id}:cancel", {"mode": "hard"}),
        ("POST", "/api/queues/by-hand:pause", {}),
        ("POST", "/api/jobs", {"entrypoint": {"function": "a:b"}, "queue": "q"}),
        ("POST", "/api/tokens", {"name": "mine", "roles": ["admin"]}),
        ("DELETE", "/api/session", None),
    ):
        for csrf in ({}, {"holdfast-csrf": cookie["value"]}):
            assert ask(stage, method, path, stolen | csrf, body) == 403
    assert ledger(stage) == before
    # What the page shows beside it is not to be had by the cookie.
    csrf = page.evaluate("localStorage.getItem('holdfast-csrf:/')")
    assert (
        ask(stage, "POST", f"/api/jobs/{job_id}:cancel", {**stolen, "holdfast-csrf": csrf}) == 200
    )
    assert ledger(stage) != before


def ask(stage: Stage, method: str, path: str, headers: dict[str, str], body: Any = None) -> int:
    """Send a request as a program does that has found a cookie; gives the status."""
    content = None if method == "GET" else json.dumps(body or {}).encode()
    request = urllib.request.Request(stage.url + path, content, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        return error.code


def ledger(stage: Stage) -> list[tuple[Any, ...]]:
    """Count what anybody could have changed."""
    tables = ("events", "actions", "jobs", "tokens", "sessions", "queues")
    return [stage.rows(f"select count(*) from holdfast.{table}")[0] for table in tables]


# What each role is offered on the pages, by the names of buttons: True, or False if it is disabled.
OFFERED: dict[str, dict[str, bool | None]] = {
    "read": {"run": False, "pause": False, "drain": False, "discard": None, "content": False},
    "data": {"run": False, "pause": False, "drain": False, "discard": False, "content": True},
    "submit": {"run": True, "pause": False, "drain": False, "discard": False, "content": True},
    "admin": {"run": True, "pause": True, "drain": True, "discard": True, "content": True},
}


@pytest.mark.nightly
@pytest.mark.parametrize("role", list(OFFERED))
def test_each_role_sees_what_it_may(page: Page, stage: Stage, job: str, role: str) -> None:
    offered = OFFERED[role]
    page.goto(f"/jobs/{job}")
    log_in(page, make_token(stage, f"one-{role}", role))
    expect_offer(page, page.get_by_role("button", name="Run again"), offered["run"], "submit")
    page.get_by_role("tab", name="Spec").click()
    if offered["content"]:
        expect(page.get_by_text("As stored")).to_be_visible()
    else:
        expect(page.get_by_text("The spec is not shown to you.")).to_be_visible()
    page.goto(f"/tasks/{job}.0?tab=logs")
    said = "what only some may read" if offered["content"] else "Logs are not shown to you."
    expect(page.get_by_text(said)).to_be_visible()
    page.goto(f"/tasks/{job}.0?tab=values")
    if not offered["content"]:
        expect(page.get_by_text("Input and result are not shown to you.")).to_be_visible()
    page.goto("/queues")
    pause = page.get_by_role("button", name="Pause by-hand")
    expect_offer(page, pause.first, offered["pause"], "admin")
    page.goto("/workers")
    drain = page.get_by_role("button", name="Drain w1")
    expect_offer(page, drain.first, offered["drain"], "admin")
    page.goto(f"/dead-letters?job={job}")
    if offered["discard"] is None:
        expect(page.get_by_text("Inputs and errors are not shown to you.")).to_be_visible()
        return
    discard = page.get_by_role("button", name="Discard …").first
    expect_offer(page, discard, bool(offered["discard"]), "admin")


def test_a_token_that_sees_nothing_does_not_log_in(
    page: Page, stage: Stage, complaints: Complaints
) -> None:
    complaints.expected = REFUSED
    page.goto("/")
    page.get_by_role("textbox", name="Token").fill(make_token(stage, "hosts", "worker"))
    page.keyboard.press("Enter")
    said = page.get_by_text("Not for you:")
    expect(said).to_contain_text("the dashboard asks for the role read, which the token 'hosts'")


def expect_offer(page: Page, button: Any, is_offered: bool | None, role: str) -> None:
    """See a button that works, or one that says what it lacks."""
    if is_offered:
        expect(button).to_be_enabled()
    else:
        expect(button).to_be_disabled()
        assert f"needs the role {role}" in (button.get_attribute("title") or "")


def test_who_is_kept_to_an_owner_is_told_so_and_sees_his_jobs(
    page: Page, stage: Stage, job: str
) -> None:
    other = stage.submit(name="bobs-job", owner="bob")
    page.goto("/")
    log_in(page, make_token(stage, "for-ann", "submit", owners=["ann"]))
    for path in ("/", "/workers", "/queues", "/dead-letters", "/datasets", "/actions"):
        page.goto(path)
        expect(page.get_by_text("This page is about the jobs of everybody.")).to_be_visible()
        expect(page.get_by_text("owner ann")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="list of jobs").click()
    expect(page.get_by_role("link", name=job, exact=True)).to_be_visible()
    expect(page.get_by_role("link", name=other, exact=True)).to_have_count(0)
    expect(page.get_by_text("every 5 s")).to_be_visible()
    page.get_by_role("link", name=job, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("anns-job")
    made = stage.submit(name="seen-by-the-clock", owner="ann")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("link", name=made, exact=True)).to_be_visible()


def test_a_job_of_another_owner_is_not_there(
    page: Page, stage: Stage, complaints: Complaints
) -> None:
    complaints.expected = ("403 (Forbidden)", "404 (Not Found)")
    other = stage.submit(name="bobs-job", owner="bob")
    page.goto("/jobs?owner=")
    log_in(page, make_token(stage, "for-two", "read", owners=["ann", "cy"]))
    expect(page.get_by_text("You may see the jobs of 2 owners: choose one.")).to_be_visible()
    page.get_by_role("button", name="ann", exact=True).click()
    expect(page).to_have_url(re.compile("owner=ann"))
    expect(page.get_by_role("table", name="Jobs")).to_be_visible()
    page.goto(f"/jobs/{other}")
    expect(
        page.get_by_text("It may have been pruned, the id is wrong, or it is not for you.")
    ).to_be_visible()
    expect(page.get_by_text("bob")).to_have_count(0)


def test_another_tab_shows_nothing_that_the_last_one_has_read(
    page: Page, stage: Stage, job: str, complaints: Complaints
) -> None:
    complaints.expected = (*REFUSED, "404 (Not Found)")
    page.goto(f"/jobs/{job}")
    log_in(page, make_token(stage, "reads-all", "data"))
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("anns-job")
    other = page.context.new_page()
    other.goto("/jobs")
    other.get_by_role("button", name="Log out").first.click()
    log_in(other, make_token(stage, "reads-his", "data", owners=["bob"]))
    expect(page.get_by_text("Logged in as reads-his").first).to_be_attached()
    expect(page.get_by_role("alert").first).to_be_visible()
    expect(page.get_by_text("anns-job")).to_have_count(0)
    other.close()


def test_whoever_is_kept_to_an_owner_is_led_to_no_page_that_is_not_for_him(
    page: Page, stage: Stage
) -> None:
    job_id = stage.submit(name="kept", owner="kim", queue="nobody-serves-this")
    page.goto(f"/jobs/{job_id}")
    log_in(page, make_token(stage, "kims", "data", owners=["kim"]))
    waiting = page.locator("p").filter(has=page.get_by_role("link", name="1 task waits"))
    expect(waiting).to_be_visible()
    expect(waiting.get_by_role("link")).to_have_count(1)


def test_a_log_out_that_did_not_get_through_says_so(
    page: Page, stage: Stage, complaints: Complaints
) -> None:
    complaints.expected = ("ERR_FAILED",)
    page.goto("/jobs")
    log_in(page, make_token(stage, "stays", "read"))
    page.route(
        "**/api/session*",
        lambda route: route.abort() if route.request.method == "DELETE" else route.fallback(),
    )
    page.get_by_role("button", name="Log out").first.click()
    expect(page.get_by_role("alert").first).to_contain_text("Still logged in: The server does not")


def test_a_secret_of_another_session_leads_to_the_login(
    page: Page, stage: Stage, complaints: Complaints
) -> None:
    complaints.expected = REFUSED
    page.goto("/jobs")
    log_in(page, make_token(stage, "two-ports", "submit"))
    page.evaluate("localStorage.setItem('holdfast-csrf:/', 'of-another-session')")
    page.get_by_role("button", name="Log out").first.click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_whoever_logs_out_is_a_stranger_in_all_of_his_tabs(
    page: Page, context: BrowserContext, stage: Stage, complaints: Complaints
) -> None:
    complaints.expected = REFUSED
    page.goto("/jobs")
    log_in(page, make_token(stage, "leaver", "read"))
    other = context.new_page()
    other.goto("/workers")
    expect(other.get_by_role("heading", level=1)).to_have_text("Workers")
    [cookie] = context.cookies()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    expect(other.get_by_role("heading", name="Log in")).to_be_visible()
    assert context.cookies() == []
    shown = {"cookie": f"{cookie['name']}={cookie['value']}"}
    assert ask(stage, "GET", "/api/jobs", shown) == 401


@pytest.mark.parametrize("way", ["revoked", "expired"])
def test_when_a_session_is_over_the_login_comes_by_itself_and_leads_back(
    page: Page, stage: Stage, complaints: Complaints, way: str
) -> None:
    complaints.expected = REFUSED
    page.goto("/workers?sort=name")
    log_in(page, make_token(stage, f"soon-{way}", "read"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers")
    if way == "revoked":
        stage.call("POST", f"/api/tokens/soon-{way}:revoke", {})
    else:
        stage.run_sql(
            "update holdfast.sessions set created_at = created_at - interval '1 day', "
            "expires_at = now() where token_id = (select token_id from holdfast.tokens "
            "where name = %s)",
            f"soon-{way}",
        )
    expect(page.get_by_text("Your session has ended.")).to_be_visible()
    log_in(page, make_token(stage, f"again-{way}", "read"))
    expect(page).to_have_url(re.compile(r"/workers\?sort=name$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers")


def test_a_cookie_without_what_goes_with_it_leads_to_the_login(page: Page, stage: Stage) -> None:
    page.goto("/jobs")
    log_in(page, make_token(stage, "forgetful", "read"))
    page.evaluate("localStorage.clear()")
    page.reload()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_people_log_in_at_their_identity_provider(page: Page, stage: Stage, job: str) -> None:
    page.goto(f"/jobs/{job}?tab=logs")
    page.get_by_role("button", name="Log in with your identity provider").click()
    page.get_by_role("link", name="Log in as ann").click()
    expect(page).to_have_url(re.compile(rf"/jobs/{job}\?tab=logs$"))
    expect(page.get_by_text("what only some may read")).to_be_visible()
    expect(page.get_by_text("Logged in as oidc:ann").first).to_be_attached()
    expect(page.get_by_role("button", name="Run again")).to_be_disabled()
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_an_answer_to_a_login_that_was_not_begun_here_is_not_taken(page: Page) -> None:
    page.goto("/login?code=stolen&state=guessed")
    expect(page.get_by_role("alert")).to_contain_text("This tab has begun no such login.")
    page.goto("/login?error=access_denied&state=x")
    expect(page.get_by_role("alert")).to_contain_text("no such login")


def test_somebody_without_a_role_is_told_so(
    page: Page, issuer: TestProvider, complaints: Complaints
) -> None:
    complaints.expected = ("403 (Forbidden)",)
    known, issuer.person = issuer.person, {"sub": "zoe", "roles": []}
    page.goto("/")
    page.get_by_role("button", name="Log in with your identity provider").click()
    page.get_by_role("link", name="Log in as zoe").click()
    expect(page.get_by_text("'oidc:zoe' has no role here")).to_be_visible()
    issuer.person = known


def test_it_works_below_a_path_of_a_proxy(page: Page, stage: Stage, job: str) -> None:
    text = make_token(stage, "behind", "submit")
    with proxy_to(stage.url) as address:
        page.goto(f"{address}/jobs/{job}")
        log_in(page, text)
        expect(page.get_by_role("heading", level=1)).to_contain_text("anns-job")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        [cookie] = page.context.cookies()
        assert cookie["path"] == "/ops/holdfast/"
        page.goto("about:blank")


@pytest.mark.nightly
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_login_page_can_be_used_by_everybody(page: Page, theme: str, width: int) -> None:
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 844})
    page.goto("/")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert serious_findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
