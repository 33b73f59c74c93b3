"""Bugs in workers, clients and commands: deadlines, repeats, secrets, terminals."""

from mutants.mutation import mutation

MUTATIONS = (
    mutation(
        "lease-counted-from-the-answer",
        "A worker takes its lease for longer than it is, by as long as the answer took.",
        (
            "worker/claimed/claims.py",
            "leased_at = sent_at + answer.waited_ms / 1000",
            "leased_at = boot_clock() + answer.waited_ms / 1000",
        ),
        red=(
            "worker/claimed/test_claims.py"
            "::test_a_lease_counts_from_its_request_however_late_the_answer",
        ),
    ),
    mutation(
        "renewal-counted-from-the-answer",
        "A worker whose answers are slow runs on after its lease, beside the next attempt.",
        (
            "worker/claimed/lease_keeper.py",
            "attempt.renew(sent_at, (lease.lease_remaining_ms or 0) / 1000)",
            "attempt.renew(boot_clock(), (lease.lease_remaining_ms or 0) / 1000)",
        ),
        red=(
            "worker/claimed/test_lease_keeper.py::test_a_renewal_counts_from_when_it_was_asked_for",
        ),
    ),
    mutation(
        "lease-by-the-clock-of-the-worker",
        "A worker whose clock is late takes its lease for longer than it is.",
        (
            "worker/claimed/attempt.py",
            "self.renew(sent_at, claim.lease_remaining_ms / 1000)",
            'self.renew(sent_at, claim.lease_expires_at.timestamp() - __import__("time").time())',
        ),
        red=(
            "worker/claimed/test_attempt.py"
            "::test_the_lease_counts_from_the_moment_the_request_was_sent",
        ),
    ),
    mutation(
        "no-margin-before-the-end-of-a-lease",
        "Code is killed when its lease has run out, and not before.",
        (
            "worker/claimed/attempt.py",
            "self.margin = min(MARGIN_SECONDS_MAX, job.lease / 6)",
            "self.margin = 0.0",
        ),
        red=(
            "worker/claimed/test_attempt.py"
            "::test_code_is_asked_then_killed_then_the_watchdog_comes_all_before_the_end",
        ),
    ),
    mutation(
        "lease-that-cannot-be-renewed",
        "Code runs on although its server has been away for longer than its lease.",
        (
            "worker/claimed/lease_keeper.py",
            "if now >= attempt.stop_at:",
            "if now >= attempt.stop_at + 3600.0:",
        ),
        red=(
            "worker/claimed/test_lease_keeper.py"
            "::test_code_is_stopped_before_a_lease_runs_out_that_cannot_be_renewed",
        ),
    ),
    mutation(
        "lost-lease-goes-on",
        "Code goes on after its worker was told that the lease is lost.",
        (
            "worker/claimed/lease_keeper.py",
            "            attempt.lose(boot_clock())  # and the next tick stops it, unless it "
            "is over\n",
            "            pass\n",
        ),
        red=(
            "worker/claimed/test_lease_keeper.py::test_a_lease_that_was_taken_away_stops_the_code",
        ),
    ),
    mutation(
        "must-go-and-renews",
        "Code that does not stop after a hard cancel keeps its lease for ever.",
        (
            "worker/claimed/attempt.py",
            '        return self.stop in ("hard", "lost")\n',
            "        return False\n",
        ),
        red=("worker/claimed/test_attempt.py::test_nothing_is_renewed_once_it_must_go",),
    ),
    mutation(
        "watchdog-that-does-not-bite",
        "Code that lets no other thread run outlives its lease.",
        (
            "worker/processes/watchdog.py",
            "        if self._self_deadline <= now:\n",
            "        if self._self_deadline <= now - 3600.0:\n",
        ),
        red=(
            "worker/processes/test_watchdog.py"
            "::test_a_worker_that_hangs_is_killed_at_its_deadline_with_all_its_processes",
        ),
    ),
    mutation(
        "group-outlives-its-deadline",
        "The processes of a task run on after the lease of its worker.",
        (
            "worker/processes/watchdog.py",
            "if group[-1] <= now}",
            "if group[-1] <= now - 3600.0}",
        ),
        red=("worker/processes/test_watchdog.py::test_a_group_is_killed_when_its_deadline_passes",),
    ),
    mutation(
        "shim-without-a-deadline",
        "A placed task runs on after its worker has died and its lease has run out.",
        (
            "worker/processes/command_deadline.py",
            "        if self._deadline <= now:\n",
            "        if self._deadline <= now - 3600.0:\n",
        ),
        red=("worker/processes/test_command_supervisor.py::test_a_deadline_kills_everything",),
    ),
    mutation(
        "orphans-outlive-their-command",
        "What a command leaves in the background runs on, and nobody knows of it.",
        (
            "worker/processes/command_supervisor.py",
            "        process_tree.kill_listed(lambda: process_tree.list_tree(os.getpid()))\n"
            "        return False\n",
            "        return True\n",
        ),
        red=(
            "worker/processes/test_command_supervisor.py"
            "::test_a_daemon_that_left_the_session_and_cleared_its_environment_is_killed",
        ),
    ),
    mutation(
        "dropped-attempt-starts-again",
        "A call that names an attempt which has ended starts its command a second time.",
        (
            "worker/placed/held.py",
            "        self._dropped.add(key)\n",
            "",
        ),
        red=(
            "worker/placed/test_held_attempts.py"
            "::test_what_was_dropped_is_known_as_long_as_calls_name_it",
        ),
    ),
    mutation(
        "placed-lease-to-its-very-end",
        "A placed task is killed when its lease has run out, and not before.",
        (
            "worker/placed/attempt.py",
            "        return self.expires_at - self.margin\n",
            "        return self.expires_at\n",
        ),
        red=("worker/placed/test_attempt.py::test_a_lease_only_grows_and_ends_before_its_end",),
    ),
    mutation(
        "slot-taken-twice",
        "A second worker takes the slot of one that lives, and has all that it runs retried.",
        (
            "worker/slots.py",
            "fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)",
            "fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        ),
        red=("worker/test_slots.py::test_a_second_worker_gets_the_next_slot_until_there_is_none",),
    ),
    mutation(
        "completion-given-up",
        "A success is lost since the server was away for a second when the task ended.",
        (
            "worker/claimed/completions.py",
            '            log.warning("%d completions will be sent again: %s", len(batch), error)\n'
            "            return batch\n",
            '            log.warning("%d completions will be sent again: %s", len(batch), error)\n'
            "            for attempt, _ in batch:\n"
            "                self._forget(attempt)\n"
            "            return []\n",
        ),
        red=("worker/claimed/test_completions.py::test_completions_outlive_a_server_that_is_away",),
    ),
    mutation(
        "repeat-without-a-key",
        "A submission whose answer was lost is sent again, and is two jobs.",
        (
            "client/submission.py",
            'return msgspec.structs.replace(request, idempotency_key=f"auto-{uuid4()}")',
            "return request",
        ),
        red=("client/test_submission.py::test_a_job_that_is_sent_again_has_the_same_key",),
    ),
    mutation(
        "refusal-is-repeated",
        "What the server refuses is sent again and again.",
        (
            "client/transport.py",
            "            except Unavailable as error:\n                if not failures",
            "            except (Unavailable, Refused) as error:\n                if not failures",
        ),
        red=("client/test_transport.py::test_a_refusal_is_raised_and_not_tried_again",),
    ),
    mutation(
        "codec-leaves-named-arguments-plain",
        "What is passed by name stands in the database for all to read.",
        (
            "client/codec.py",
            "kwargs=dict(zip(names, _encode_all(codec, values), strict=True)),",
            "kwargs=entrypoint.kwargs,",
        ),
        red=("client/test_codec.py::test_requests_are_encoded_wherever_they_go",),
    ),
    mutation(
        "codec-leaves-inputs-plain",
        "The inputs of a fan-out stand in the database for all to read.",
        (
            "client/codec.py",
            '        changed["inputs"] = _encode_all(codec, request.inputs)\n',
            '        changed["inputs"] = request.inputs\n',
        ),
        red=("client/test_codec.py::test_inputs_of_a_fan_out_are_encoded",),
    ),
    mutation(
        "codec-leaves-compensations-plain",
        "The arguments of what undoes a job stand in the database for all to read.",
        (
            "client/codec.py",
            'changed["compensation"] = _encode_call(codec, request.compensation)',
            'changed["compensation"] = request.compensation',
        ),
        red=("client/test_codec.py::test_a_compensation_is_given_what_can_be_read",),
    ),
    mutation(
        "log-steers-the-terminal",
        "The output of a task rewrites the screen of whoever reads it.",
        (
            "cli/output/text.py",
            "    if text.isprintable():\n        return text\n",
            "    if keep is not None:\n        return text\n",
        ),
        red=("cli/output/test_text.py::test_what_would_steer_a_terminal_is_shown_instead",),
    ),
    mutation(
        "wait-says-success",
        "A script that waits for a job goes on after its failure.",
        (
            "cli/commands/work/wait.py",
            'return 0 if all(state_name(each.state) == "succeeded" for each in stands) else '
            "EXIT_NO",
            "return 0 if all(each.ended for each in stands) else EXIT_NO",
        ),
        red=("cli/commands/work/test_wait.py::test_waiting_ends_with_1_when_one_has_not",),
    ),
)
