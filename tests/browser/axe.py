"""What axe finds wrong with a page; only what is serious or critical counts."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

SOURCE = Path(__file__).resolve().parents[2] / "dashboard/node_modules/axe-core/axe.min.js"
RUN = """
async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => [id, nodes.slice(0, 3).map(({ html, failureSummary }) =>
      html.slice(0, 200) + " " + failureSummary)]);
}
"""


def serious_findings(page: Page) -> list[Any]:
    """Let axe look at a page as it is now."""
    assert SOURCE.exists(), "axe-core is missing; run ./run dashboard"
    # Not as a script of the page: its policy would rightly refuse that.
    page.evaluate(SOURCE.read_text())
    found: list[Any] = page.evaluate(RUN)
    return found
