"""Shares by HTTP: rules are set, listed with who waits, and taken back."""

from typing import Any

import pytest

from tests.api.face import Face


async def test_a_rule_is_set_listed_and_taken_back(quiet_face: Face) -> None:
    rule = {"by": "owner", "weights": {"ann": 3}, "age_step_seconds": 60, "age_max": 2}
    said = await quiet_face.change("PUT", "/api/shares/queues/team/mail", rule)
    assert said.status == 200, said
    assert said.json | rule == said.json
    assert (said.json["queue"], said.json["state"]) == ("team/mail", "sorting")
    await quiet_face.change("PUT", "/api/shares/placed", {"by": "key"})
    rules = (await quiet_face.get("/api/shares")).json["rules"]
    assert [(each["queue"], each["by"]) for each in rules] == [
        (None, "key"),
        ("team/mail", "owner"),
    ]
    [share] = rules[1]["shares"]
    assert share == {
        "value": "ann", "weight": 3, "running": 0, "waiting": 0, "pass_value": None
    }  # fmt: skip
    [alone] = (await quiet_face.get("/api/shares?queue=team/mail")).json["rules"]
    assert alone == rules[1]
    for path in ("queues/team/mail", "placed"):
        for changed in (True, False):
            said = await quiet_face.change("DELETE", f"/api/shares/{path}")
            assert said.json == {"changed": changed}


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        ("by", {"by": "team"}),
        ("weights", {"weights": {"ann": 0}}),
        ("age_max", {"age_step_seconds": 60}),
        ("age_step_seconds", {"age_step_seconds": 0.1, "age_max": 1}),
    ],
)
async def test_a_bad_rule_names_its_field(
    quiet_face: Face, field: str, rule: dict[str, Any]
) -> None:
    said = await quiet_face.change("PUT", "/api/shares/queues/q", rule)
    assert (said.status, said.json["error"]["field"]) == (400, field)
    assert (await quiet_face.get("/api/shares")).json == {"rules": []}


async def test_another_way_to_share_is_a_conflict(quiet_face: Face) -> None:
    await quiet_face.change("PUT", "/api/shares/queues/q", {"by": "owner"})
    said = await quiet_face.change("PUT", "/api/shares/queues/q", {"by": "key"})
    assert (said.status, said.json["error"]["code"]) == (409, "refused")
