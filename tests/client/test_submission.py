"""Jobs on their way to the server: each is one job, however often it is sent."""

from holdfast.client.client import Client
from holdfast.client.submission import submit_request, submit_requests
from holdfast.model.submitting.spec import Entrypoint
from holdfast.wire.requests import JobRequest
from holdfast.wire.status import SubmittedJob
from tests.client.peer import Peer, Say

REQUEST = JobRequest(entrypoint=Entrypoint(shell="true"))
TAKEN = b'{"job_id": "1", "num_tasks": 1, "is_new": true}'


def test_a_job_that_is_sent_again_has_the_same_key(stranger: Peer) -> None:
    stranger.script = [Say(503, b"{}"), Say(body=TAKEN)]
    with Client(stranger.url) as client:
        assert client.loop_thread.run(submit_request(client, REQUEST, SubmittedJob)).job_id == "1"
    first, second = [heard.body for heard in stranger.heard]
    assert first == second
    assert b'"idempotency_key":"auto-' in first


def test_each_job_of_a_batch_has_a_key_of_its_own(client: Client) -> None:
    made = client.loop_thread.run(submit_requests(client, [REQUEST, REQUEST])).jobs
    assert len({job.job_id for job in made}) == 2
