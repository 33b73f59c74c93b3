"""What people have done is listed, page by page."""

import pytest

from tests.api.face import Face


async def test_what_was_done_is_listed_with_who_and_why(quiet_face: Face) -> None:
    job_id = await quiet_face.submit(queue="mail")
    await quiet_face.post(f"/api/jobs/{job_id}:cancel", {"mode": "soft", "reason": "too dear"})
    await quiet_face.post("/api/queues/mail:pause")
    said = await quiet_face.get("/api/actions?page_size=1")
    [paused] = said.json["actions"]
    assert (paused["actor"], paused["action"], paused["subject"]) == ("api", "pause_queue", "mail")
    token = said.json["next_page_token"]
    said = await quiet_face.get(f"/api/actions?page_size=1&page_token={token}")
    [cancelled] = said.json["actions"]
    assert (cancelled["subject_kind"], cancelled["subject"]) == ("job", job_id)
    assert (cancelled["reason"], cancelled["facts"]) == ("too dear", {"mode": "soft"})
    assert said.json["next_page_token"] is None
    said = await quiet_face.get(f"/api/actions?subject=job:{job_id}&action=cancel&actor=api")
    assert said.json["actions"] == [cancelled]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("action=burn", "action"),
        ("subject=42", "subject"),
        ("subject=job:%00", "subject"),
        ("actor=%00", "actor"),
        ("since=soon", "since"),
        ("page_size=0", "page_size"),
        ("page_token=x", "page_token"),
    ],
)
async def test_a_bad_question_names_its_field(quiet_face: Face, query: str, field: str) -> None:
    said = await quiet_face.get(f"/api/actions?{query}")
    assert (said.status, said.json["error"]["field"]) == (400, field)
