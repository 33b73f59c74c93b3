"""Tokens for a stage that asks for them, and the login by one."""

from typing import Any

from playwright.sync_api import Page, expect

from holdfast.operations.tokens import WantedToken, create_token
from holdfast.store.database import Database
from tests.browser.stage import Stage


async def make_first_token(url: str) -> str:
    """Make a token on the database, where there is no server to ask yet."""
    async with Database(url, connections_max=1) as database:
        return (await create_token(database, WantedToken("root", ("admin",)), actor="root")).text


def make_token(stage: Stage, name: str, *roles: str, **scope: Any) -> str:
    """Make a token as an admin."""
    everybodys = {"owners": ["*"]} if "submit" in roles else {}
    body = {"name": name, "roles": list(roles), **everybodys, **scope}
    return str(stage.call("POST", "/api/tokens", body)["token"])


def log_in(page: Page, token: str) -> None:
    """Type a token, and see that the login is gone."""
    page.get_by_role("textbox", name="Token").fill(token)
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
