"""`dead-letters`: listed, shown, replayed and discarded, by exact ids or by filters."""

import json
from pathlib import Path
from uuid import uuid4

import pytest

import holdfast as hf
from tests.cli.conftest import Service
from tests.cli.tasks import HOSTILE
from tests.client import codecs


@pytest.fixture
def kind() -> str:
    """A job type that nobody else uses."""
    return f"t{uuid4().hex[:8]}"


def make_letter(service: Service, kind: str, message: str = "no") -> str:
    """Let a task fail for good; gives its id."""
    job_id = service.submit_and_wait(
        "tests.cli.tasks:fail", f"--arg={json.dumps(message)}", f"--name={kind}"
    )
    return f"{job_id}.0"


def ids(service: Service, *filters: str) -> list[str]:
    """List the ids of dead letters."""
    letters = service.ask("dead-letters", *filters)["dead_letters"]
    return [letter["task_id"] for letter in letters]


def test_dead_letters_are_listed_and_filtered(service: Service, kind: str) -> None:
    task_id = make_letter(service, kind)
    assert ids(service, "--type", kind) == [task_id]
    assert ids(service, "--type", kind, "--reason", "timeout") == []
    assert ids(service, "--job", task_id.partition(".")[0]) == [task_id]
    text = service.run("dead-letters", "--type", kind).out
    assert text.splitlines()[1].split()[:4] == [task_id, kind, "exhausted_retries", "exec"]
    none = service.run("dead-letters", "--type", f"{kind}-x")
    assert (none.code, none.out, none.err) == (0, "", "no dead letters match\n")


def test_one_is_shown_with_everything_there_is(service: Service, kind: str) -> None:
    task_id = make_letter(service, kind, HOSTILE)
    letter = service.ask("dead-letters", "show", task_id)
    assert letter["last_error"].startswith(f"PermanentError: {HOSTILE}")
    shown = service.run("dead-letters", "show", task_id).out
    assert "error class  PermanentError" in shown
    assert "\\x1b[2Jgone" in shown
    assert "\x1b" not in shown


def test_a_replay_by_id_is_a_new_job_that_links_to_the_old(service: Service, kind: str) -> None:
    task_id = make_letter(service, kind)
    keyed = ("dead-letters", "replay", task_id, "--key", kind)
    ended = service.run(*keyed)
    assert (ended.code, ended.err) == (0, "")
    new_id = ended.out.split()[-1]
    assert ended.out == f"{task_id}  → job {new_id}\n"
    assert service.ask("job", new_id)["replay_of"] == task_id.partition(".")[0]
    assert task_id not in ids(service, "--type", kind)
    assert task_id in ids(service, "--type", kind, "--settled")
    again = service.run(*keyed, "--rebind-outputs")
    assert (again.code, again.out) == (1, "")
    assert "was used for a different replay" in again.err


def test_a_replay_of_all_takes_filters_and_can_be_tried_first(service: Service, kind: str) -> None:
    first, second = make_letter(service, kind), make_letter(service, kind)
    dry = service.run("dead-letters", "replay", "--all", "--type", kind, "--dry-run")
    assert dry.code == 0
    assert dry.out == f"{first}  would be replayed\n{second}  would be replayed\n"
    assert ids(service, "--type", kind) == [first, second]
    done = service.ask("dead-letters", "replay", "--all", "--type", kind)
    assert [made["task_ids"] for made in done["replays"]] == [[first], [second]]
    assert all(made["job_id"] for made in done["replays"])


def test_what_waited_goes_on_with_a_replay_and_the_command_says_how(
    service: Service, kind: str
) -> None:
    task_id = make_letter(service, kind)
    job_id = task_id.partition(".")[0]
    waiting = service.run("submit", "--queue", kind, "--depends-on", job_id, "--", "true")
    assert waiting.code == 0, waiting.err
    waits = waiting.out.split()[-1]
    service.run("wait", waits)
    dry = service.run("dead-letters", "replay", task_id, "--dry-run")
    assert "1 job was killed because of these; --resume lets them go on" in dry.err
    done = service.run("dead-letters", "replay", task_id, "--resume")
    again = done.out.splitlines()[0].split()[-1]
    assert done.out.splitlines()[1].startswith(f"{waits} waited for it  → job ")
    resumed = done.out.split()[-1]
    assert service.ask("job", resumed)["spec"]["depends_on"] == [again]
    assert service.ask("job", resumed)["replay_of"] == waits


def test_a_canary_goes_first_and_that_is_said(service: Service, kind: str) -> None:
    letters = [make_letter(service, kind) for _ in range(3)]
    command = ("dead-letters", "replay", "--all", "--type", kind, "--canary", "1")
    assert service.run(*command, "--dry-run").out.splitlines() == [
        f"{letters[0]}  would be replayed, first, as a canary",
        f"{letters[1]}  would be replayed, when the canary has succeeded",
        f"{letters[2]}  would be replayed, when the canary has succeeded",
    ]
    paced = service.run(*command, "--dry-run", "--rate", "30/min").out.splitlines()
    assert (
        paced[2] == f"{letters[2]}  would be replayed, when the canary has succeeded, after 2.0 s"
    )
    first, *rest = service.ask(*command)["replays"]
    assert (first["is_canary"], [made["is_canary"] for made in rest]) == (True, [False, False])
    for made in rest:
        assert service.ask("job", made["job_id"])["spec"]["depends_on"] == [first["job_id"]]


def test_one_is_replayed_with_an_edited_input(service: Service, kind: str, tmp_path: Path) -> None:
    inputs = tmp_path / "inputs.json"
    inputs.write_text('"no"\n"never"\n')
    service.submit_and_wait("tests.cli.tasks:fail", f"--inputs={inputs}", f"--name={kind}")
    first, second = ids(service, "--type", kind)
    given = service.run("dead-letters", "replay", first, "--input", '"given"').out
    edited = service.run(
        "dead-letters", "replay", second, "--edit", EDITOR="sed -i s/never/edited/"
    ).out
    for made, task_id, word in ((given, first, "given"), (edited, second, "edited")):
        assert made.endswith(", with the edited input\n")
        new_id = made.split()[3].rstrip(",")
        service.call("wait", new_id)
        assert service.ask("dead-letters", "show", f"{new_id}.0")["input"] == word
        assert "with an edited input" in service.call("dead-letters", "show", task_id).out


def test_an_input_that_a_codec_has_encoded_is_named_and_not_edited(
    service: Service, kind: str
) -> None:
    with hf.Client(service.url, codec=codecs.codec) as client:
        job = client.map(codecs.join.with_options(queue="default", type=kind), ["secret"])
        job.wait(timeout=60)
    task_id = f"{job.id}.0"
    assert "encrypted by codec fernet" in service.run("dead-letters", "show", task_id).out
    ended = service.run("dead-letters", "replay", task_id, "--edit")
    assert ended.code == 2
    assert "--edit: cannot be edited here: the input is encrypted by codec fernet" in ended.err


def test_nothing_to_replay_is_said(service: Service, kind: str) -> None:
    ended = service.run("dead-letters", "replay", "--all", "--type", kind)
    assert (ended.code, ended.out, ended.err) == (0, "", "no dead letters match\n")


def test_a_discard_settles_exactly_what_it_names(service: Service, kind: str) -> None:
    first, second = make_letter(service, kind), make_letter(service, kind)
    ended = service.run("dead-letters", "discard", first)
    assert (ended.code, ended.out) == (0, f"{first} is discarded\n")
    assert ids(service, "--type", kind) == [second]


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay"],
        ["replay", "1.0", "--all"],
        ["replay", "1.0", "--queue", "x"],
        ["replay", "1"],
        ["replay", "--dry-run"],
        ["replay", "1.0", "--input", "{"],
        ["replay", "1.0", "1.1", "--input", "1"],
        ["replay", "1.0", "--input", "1", "--edit"],
        ["replay", "--all", "--edit"],
        ["replay", "1.0", "--rate", "10"],
        ["replay", "1.0", "--rate", "few/s"],
        ["replay", "1.0", "--rate", "nan/s"],
        ["discard"],
        ["discard", "1.0", "x"],
        ["show", "1"],
        ["--reason", "boredom"],
    ],
)
def test_what_is_not_exact_is_refused(service: Service, arguments: list[str]) -> None:
    ended = service.run("dead-letters", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("holdfast: ")
    assert ended.err.count("\n") == 1


def test_what_does_not_exist_is_exit_code_1(service: Service) -> None:
    for command in ("show", "replay", "discard"):
        ended = service.run("dead-letters", command, "999999999.0")
        assert (ended.code, ended.out) == (1, "")
