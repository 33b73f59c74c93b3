/*
 * Claimed work: the worker calls. One task, two workers, a network that may do anything.
 *
 *     worker                         server                      database (its clock rules)
 *       |--- claim, key -------------->|--- open lease ------------>|  PENDING -> ASSIGNED
 *       |<-- attempt, remaining -------|                            |
 *    the process runs until (claim or renewal SENT) + remaining - margin
 *       |--- renew at half ----------->|--- extend ---------------->|
 *       |<-- remaining, stop order ----|                            |
 *       |--- complete ---------------->|--- end and release ------->|  only for this attempt
 *       |<-- accepted | conflict ------|                            |
 *                                      reaper: run out -> WORKER_FAILED, released
 *
 * A request once sent may arrive at any later time, never, or again and again; an answer arrives
 * late or never. ledger.pml says what leases are and how time passes.
 *
 * What runs in a worker that crashes is killed by its watchdog, a moment later; who replaces the
 * worker waits until it is gone.
 *
 * Properties: CHECK_PROCESSES, CHECK_LEASES, CHECK_RELEASE, CHECK_ACKNOWLEDGED, CHECK_KEPT,
 * CHECK_FINAL, and with LIVENESS every_task_ends. Broken: NO_FENCE, RELEASE_AT_ONCE,
 * CLAIM_WHILE_ENDING, ENDING_MAY_SUCCEED, ENDING_IS_ACCEPTED, REPLACES_WHAT_RUNS,
 * DEADLINE_FROM_RECEIPT, NO_MARGIN, NO_REAPER.
 */

#define process_running(w) (activity[w] == RUNNING)
#define process_stopping(w) (activity[w] == STOPPING || activity[w] == LEFT)
#include "ledger.pml"
#define RENEW_AT 3      /* half of the time until the worker must stop */

mtype:activity = { IDLE, CLAIMING, RUNNING, STOPPING, REPORTING, LEFT };
mtype:claim = { NO_CLAIM, WANTED, ABANDONED };
mtype:order = { CONTINUE, STOP_SOFT, STOP_HARD };
mtype:answer = { NO_ANSWER, ACCEPTED, NOT_ACCEPTED, CONFLICT };

mtype:activity activity[WORKERS] = IDLE;
mtype:outcome report[WORKERS] = NONE;
byte claimed_with_key[WORKERS] = NOBODY;    /* the database: what the worker's key has got */

/* The network: requests with their age, answers with what their grant is still worth. */
mtype:claim claim_request[WORKERS] = NO_CLAIM;
byte claim_age[WORKERS] = 0;
byte claim_grant[WORKERS] = 0;
bool renew_request[ROOM] = false;
byte renew_age[ROOM] = 0;
byte renew_grant[ROOM] = 0;
mtype:order renew_order[ROOM] = CONTINUE;
mtype:outcome complete_request[ROOM] = NONE;
mtype:answer complete_answer[ROOM] = NO_ANSWER;

inline forget_traffic(a)
{
    if
    :: !listened_to(a) ->
        renew_grant[a] = 0;
        renew_order[a] = CONTINUE;
        complete_answer[a] = NO_ANSWER;
        renew_request[a] = renew_request[a] && unreleased(a);
        renew_age[a] = (renew_request[a] -> LEASE : 0)
    :: else
    fi
}

/* ---- transactions ---- */

inline claim_transaction(w)
{
    if
    :: claimable && (claim_request[w] == ABANDONED || claimed_with_key[w] == NOBODY) ->
        claimed_with_key[w] = (claim_request[w] == WANTED -> attempts_made : claimed_with_key[w]);
        open_lease(w)
    :: else
    fi;
    /* A repeat is answered like the first time, unless the attempt has ended meanwhile. */
    if
    :: claim_request[w] == WANTED && activity[w] == CLAIMING && claimed_with_key[w] != NOBODY ->
        target = claimed_with_key[w];
#ifdef DEADLINE_FROM_RECEIPT
        claim_grant[w] = (lease[target] == LIVE -> lease_left[target] : 0);
#else
        claim_grant[w] = (lease[target] == LIVE ->
                          positive_difference(lease_left[target], claim_age[w]) : 0);
#endif
        target = 0
    :: else
    fi
}

inline renew_transaction(a)
{
    lease_left[a] = (unreleased(a) -> LEASE : 0);
    if
    :: listened_to(a) && activity[(held[0] == a -> 0 : 1)] == RUNNING ->
#ifdef DEADLINE_FROM_RECEIPT
        renew_grant[a] = larger(renew_grant[a], lease_left[a]);
#else
        target = positive_difference(lease_left[a], renew_age[a]);
        renew_grant[a] = larger(renew_grant[a], target);
        target = 0;
#endif
        renew_order[a] = (lease[a] == LIVE -> (soft_cancel -> STOP_SOFT : CONTINUE) : STOP_HARD)
    :: else
    fi
}

inline complete_transaction(a)
{
    target = a;
#ifdef NO_FENCE
    /* Whoever speaks, the task's open attempt is ended. */
    target = (attempts_made > 0 && lease[attempts_made - 1] == LIVE -> attempts_made - 1 : a);
#endif
    if
#ifdef ENDING_MAY_SUCCEED
    :: unreleased(target) ->
#else
    :: lease[target] == LIVE ->
#endif
        after_attempt(target, complete_request[a]);
        ended_by_worker[target] = true;
        complete_answer[a] = ACCEPTED;
        release(target)
    :: lease[target] == ENDING ->           /* confirms that the process is gone */
#ifdef ENDING_IS_ACCEPTED
        complete_answer[a] = ACCEPTED;
#else
        complete_answer[a] = NOT_ACCEPTED;
#endif
        release(target)
    :: else -> complete_answer[a] = (ended_by_worker[target] -> ACCEPTED : CONFLICT)
    fi;
    complete_answer[a] = (listened_to(a) -> complete_answer[a] : NO_ANSWER);
    target = 0
}

/* ---- the clock ---- */

#define claim_under_way(w) (claim_request[w] != NO_CLAIM || claim_grant[w] > 0)
#define renewal_under_way(a) (renew_request[a] || renew_grant[a] > 0 || renew_order[a] != CONTINUE)
#define completion_under_way(a) (complete_request[a] != NONE || complete_answer[a] != NO_ANSWER)
#define traffic(a) (renewal_under_way(a) || completion_under_way(a))
#define worker_can_act(w) (claim_under_way(w) || activity[w] == CLAIMING \
                           || activity[w] == REPORTING || (activity[w] == IDLE && claimable) \
                           || (activity[w] == RUNNING \
                               && (work_left[w] == 0 || worker_left[w] <= RENEW_AT)))

inline age_attempt(a)
{
#ifndef DEADLINE_FROM_RECEIPT
    count_down(renew_grant[a]);
#endif
    count_up(renew_age[a], (renew_request[a] -> LEASE : 0))
}

inline age_worker(w)
{
#ifndef DEADLINE_FROM_RECEIPT
    count_down(claim_grant[w]);
#endif
    count_up(claim_age[w], (claim_request[w] == WANTED -> LEASE : 0))
}

#include "clock.pml"

/* ---- the server: each option is one transaction ---- */

/* What has arrived stays in the network as its own delayed duplicate. */
inline consume(request, nothing)
{
#ifdef LIVENESS
    if
    :: request = nothing
    :: fault_allowed -> spend_fault()
    fi
#else
    skip
#endif
}

proctype ClaimsOf(byte w)
{
end:
    do
    :: atomic { claim_request[w] != NO_CLAIM ->
        d_step { tell("claim of worker %d arrives\n", w); claim_transaction(w) }
        consume(claim_request[w], NO_CLAIM);
        d_step { check_properties() } }
#ifdef LIVENESS
    :: d_step { claim_under_way(w) && fault_allowed ->
        tell("claim of worker %d or its answer is lost\n", w); spend_fault();
        claim_request[w] = NO_CLAIM; claim_grant[w] = 0 }
#endif
    od
}

proctype LeaseOf(byte a)
{
end:
    do
    :: atomic { renew_request[a] ->
        d_step { tell("renewal of attempt %d arrives\n", a); renew_transaction(a) }
        consume(renew_request[a], false) }
    :: atomic { complete_request[a] != NONE ->
        d_step { tell("completion of attempt %d arrives\n", a); complete_transaction(a) }
        consume(complete_request[a], NONE);
        d_step { check_properties() } }
#ifndef NO_REAPER
    :: d_step { unreleased(a) && lease_left[a] == 0 ->
        tell("reaper ends the lease of attempt %d\n", a); end_and_release(a); check_properties() }
#endif
#ifdef REPLACES_WHAT_RUNS
    :: d_step { unreleased(a) && incarnation_gone[a] ->
#else
    :: d_step { unreleased(a) && incarnation_gone[a] && !listened_to(a) ->
#endif
        tell("the holder of attempt %d is replaced\n", a); end_and_release(a);
        check_properties() }
    :: d_step { lease[a] == LIVE && !soft_cancel ->
        tell("soft cancel of attempt %d\n", a); soft_cancel = true }
    :: d_step { lease[a] == LIVE ->
        tell("hard cancel of attempt %d, or its grace is over\n", a); end_attempt(a, KILLED);
        check_properties() }
    :: d_step { lease[a] == LIVE ->
        tell("run timeout of attempt %d, may be retried\n", a); end_attempt(a, FAILED);
        check_properties() }
#ifdef LIVENESS
    :: d_step { renewal_under_way(a) && fault_allowed ->
        tell("renewal of attempt %d or its answer is lost\n", a); spend_fault();
        renew_request[a] = false; renew_grant[a] = 0; renew_order[a] = CONTINUE }
    :: d_step { completion_under_way(a) && fault_allowed ->
        tell("completion of attempt %d or its answer is lost\n", a); spend_fault();
        complete_request[a] = NONE; complete_answer[a] = NO_ANSWER }
#endif
    od
}

active proctype CancelWithoutAttempt()
{
end:
    do
    :: d_step { task_state == PENDING ->
        tell("cancel before attempt %d\n", attempts_made); cancel(); check_properties() }
    od
}

/* ---- the workers ---- */

/* With its key a claim is given up for ever: what is still under way will surprise the server. */
inline abandon_claim(w)
{
    claim_request[w] = (claim_request[w] == NO_CLAIM || claimed_with_key[w] != NOBODY ->
                        NO_CLAIM : ABANDONED);
    claim_age[w] = 0;
    claim_grant[w] = 0;
    claimed_with_key[w] = NOBODY
}

inline hold_claim(w)
{
    held[w] = claimed_with_key[w];
    worker_left[w] = claim_grant[w];
    abandon_claim(w)
}

inline stop_listening(w)
{
    worker_left[w] = 0;
    renew_grant[held[w]] = 0;
    renew_order[held[w]] = CONTINUE;
    set_work(w, 0)
}

inline kill_process(w)
{
    activity[w] = STOPPING;
    kill_left[w] = KILL_TIME;
    stop_listening(w)
}

inline process_gone(w, how)
{
    activity[w] = REPORTING;
    kill_left[w] = 0;
    report[w] = how;
    stop_listening(w)
}

inline become_idle(w)
{
    activity[w] = IDLE;
    worker_left[w] = 0;
    kill_left[w] = 0;
    report[w] = NONE;
    set_work(w, 0);
    target = held[w];
    held[w] = NOBODY;
    if
    :: target != NOBODY -> forget_attempt(target)
    :: else
    fi;
    target = 0
}

inline take_answer(w)
{
    if
    :: complete_answer[held[w]] == ACCEPTED -> check_acknowledgement(held[w], report[w])
    :: else
    fi;
    become_idle(w)
}

inline crash(w)
{
    for (each : 0 .. ROOM - 1) {
        incarnation_gone[each] = incarnation_gone[each] ||
                                 (unreleased(each) && lease_worker[each] == w)
    }
    each = 0;
    abandon_claim(w);
    if
    :: process_alive(w) ->
        kill_left[w] = (activity[w] == RUNNING -> KILL_TIME : kill_left[w]);
        activity[w] = LEFT;
        report[w] = NONE;
        stop_listening(w)
    :: else -> become_idle(w)
    fi
}

proctype Worker(byte w)
{
end:
    do
#ifdef LIVENESS
    :: d_step { activity[w] == IDLE && claimable && claim_request[w] == NO_CLAIM ->
#else
    :: d_step { activity[w] == IDLE && !finished ->
#endif
        tell("worker %d sends a claim\n", w);
        activity[w] = CLAIMING; claim_request[w] = WANTED; claim_age[w] = 0 }
    :: d_step { activity[w] == CLAIMING && claim_request[w] == NO_CLAIM && claim_grant[w] == 0 &&
                claimed_with_key[w] != NOBODY && lease[claimed_with_key[w]] == LIVE &&
                lease_left[claimed_with_key[w]] > 0 ->
        tell("worker %d repeats its claim, same key\n", w);
        claim_request[w] = WANTED; claim_age[w] = 0 }
    :: d_step { activity[w] == CLAIMING && claim_grant[w] == 0 && claim_request[w] == NO_CLAIM ->
        tell("worker %d gives up its claim\n", w); abandon_claim(w); activity[w] = IDLE }
    :: d_step { activity[w] == CLAIMING && claim_request[w] == WANTED && fault_allowed ->
        tell("worker %d gives up its claim, still under way\n", w);
        spend_fault(); abandon_claim(w); activity[w] = IDLE }
    :: d_step { activity[w] == CLAIMING && claim_grant[w] > MARGIN ->
        tell("worker %d has its claim, starts the process\n", w);
        hold_claim(w); activity[w] = RUNNING; set_work(w, WORK_MAX); check_properties() }
    :: d_step { activity[w] == CLAIMING && claim_grant[w] > 0 && claim_grant[w] <= MARGIN ->
        tell("worker %d has its claim, too late to start: hands back\n", w);
        hold_claim(w); process_gone(w, FAILED) }

#ifdef LIVENESS
    :: d_step { activity[w] == RUNNING && worker_left[w] <= RENEW_AT &&
                !renewal_under_way(held[w]) ->
#else
    :: d_step { activity[w] == RUNNING && worker_left[w] <= RENEW_AT ->
#endif
        tell("worker %d sends a renewal\n", w);
        renew_request[held[w]] = true; renew_age[held[w]] = 0 }
    :: d_step { activity[w] == RUNNING && renew_grant[held[w]] > 0 ->
        tell("worker %d has its renewal\n", w);
        worker_left[w] = larger(worker_left[w], renew_grant[held[w]]);
        renew_grant[held[w]] = 0 }
    :: d_step { activity[w] == RUNNING && renew_order[held[w]] != CONTINUE ->
        tell("worker %d is told to stop, kills\n", w); kill_process(w) }
    :: d_step { activity[w] == RUNNING && renew_order[held[w]] == STOP_SOFT ->
        tell("worker %d is told to stop, runs on in its grace\n", w);
        renew_order[held[w]] = CONTINUE }

    :: d_step { activity[w] == RUNNING && worker_left[w] <= MARGIN ->
        tell("worker %d reaches its own deadline, kills\n", w); kill_process(w) }
    :: d_step { activity[w] == RUNNING && fault_allowed ->
        tell("worker %d drains, kills and will hand back\n", w); spend_fault(); kill_process(w) }
    :: d_step { activity[w] == STOPPING ->
        tell("worker %d sees the killed process gone\n", w); process_gone(w, FAILED) }
    :: d_step { activity[w] == RUNNING ->
        tell("worker %d sees its process succeed\n", w); process_gone(w, SUCCEEDED) }
    :: d_step { activity[w] == RUNNING ->
        tell("worker %d sees its process fail\n", w); process_gone(w, FAILED) }

    :: d_step { activity[w] == REPORTING && complete_request[held[w]] == NONE &&
                complete_answer[held[w]] == NO_ANSWER ->
        tell("worker %d sends its completion\n", w); complete_request[held[w]] = report[w] }
    :: d_step { activity[w] == REPORTING && complete_answer[held[w]] != NO_ANSWER ->
        tell("worker %d has the answer to its completion\n", w);
        take_answer(w); check_properties() }
    :: d_step { activity[w] != IDLE && activity[w] != LEFT && fault_allowed ->
        tell("worker %d crashes\n", w); spend_fault(); crash(w); check_properties() }
    :: d_step { activity[w] == LEFT ->
        tell("what worker %d has left is gone, killed by its watchdog\n", w); become_idle(w) }
    od
}

init
{
    atomic {
        run ClaimsOf(0); run ClaimsOf(1);
        run LeaseOf(0); run LeaseOf(1); run LeaseOf(2);
        run Worker(0); run Worker(1)
    }
}

#ifdef LIVENESS
ltl every_task_ends {
    <> (finished && !any_unreleased && activity[0] == IDLE && activity[1] == IDLE)
}
#endif
