/*
 * Placed work: the server calls. One task, two workers, leaders that come and go.
 *
 *     leader (epoch, number)             worker (one incarnation)           process, under its shim
 *       |--- request n: wanted, acks ----->| refuses n unless it is new       |
 *       |    last answer stored: m         |--- start, kill ----------------->|
 *       |                                  | deadline = (answer m SENT) + what was left of the
 *       |                                  | lease when m was stored; margin off
 *       |<-- answer n: runs, has finished -|                                  |
 *     stores it: renews what runs, ends what finished, ends what is missing, releases what it had
 *     asked to stop and does not run. No answer in time: a failure; three of them: dead for ever,
 *     its attempts end at once, their leases run out.
 *
 * A worker gets one call at a time. When the call has failed or its leader is deposed, the request
 * may still be under way (`late`, one of them is followed) and arrive whenever it likes. Numbers
 * are kept as their order: what is late is lower than the call, and a worker refuses what is lower
 * than, or equal to, something it has seen. leader.pml is the server's side, ledger.pml says what
 * leases are and how time passes.
 *
 * UNDELIVERED: what cannot have arrived is ended and released; two attempts show all of that.
 * SEVERAL: an answer is stored in two transactions, first the ends it tells of, then that it was
 * heard; others may come in between, and the second may never come.
 * SOFT_CANCEL: an attempt may be asked to stop; what it then ends with is not tried again.
 *
 * Properties: those of claimed.pml and CHECK_START. Broken: NO_FENCE, TAKEOVER_AT_THREE,
 * RELEASE_AT_ONCE, CLAIM_WHILE_ENDING, ENDING_MAY_SUCCEED, ENDING_IS_ACCEPTED,
 * DEADLINE_FROM_RECEIPT, STALE_DESIRED_SET, ANY_ANSWER_RENEWS, NO_MARGIN, START_AGAIN,
 * DEPOSED_LEADER_READS, BROKEN_CALL_IS_NONE, ADOPT_UNFENCED, REPLACES_WHAT_RUNS,
 * ACKNOWLEDGED_UNSTORED, NO_REAPER.
 */

#define process_running(w) (process[w] == RUNNING)
#define process_stopping(w) (process[w] == STOPPING)
#include "ledger.pml"
#define TRANSIT_MAX (LEASE - MARGIN)    /* an answer that took longer grants nothing of use */

mtype:process = { NO_PROCESS, RUNNING, STOPPING };
mtype:call = { NO_CALL, REQUESTED, ANSWERED, HALF_STORED };

typedef Request {
    byte named;         /* the attempt this worker's unreleased lease belongs to */
    bool wanted;        /* run it, or stop it */
    byte good_for;      /* what is left of the lease, counted from the answer named */
    byte acknowledged   /* a completion that is stored, accepted or not */
};

/* The database, per worker. */
bool dead[WORKERS] = false;                 /* this incarnation, for ever */
bool answer_stored[WORKERS] = false;        /* at least one, of this incarnation */
byte answer_transit[WORKERS] = 0;           /* ticks between its sending and its storing */
bool reported[ROOM] = false;                /* the worker has acknowledged the attempt */
#ifdef UNDELIVERED
bool offered[ROOM] = false;                 /* in a call that may have arrived; the leader's memory */
#define forget_offer(a) offered[a] = false
#else
#define forget_offer(a) skip
#endif
byte completion_stored[WORKERS] = NOBODY;

/* The network. */
mtype:call call[WORKERS] = NO_CALL;
Request request[WORKERS];
byte answer_runs[WORKERS] = NOBODY;
byte answer_finished[WORKERS] = NOBODY;
byte answer_age[WORKERS] = 0;
bool late[WORKERS] = false;
Request late_request[WORKERS];

/* The workers. */
mtype:process process[WORKERS] = NO_PROCESS;
mtype:outcome finished_as[WORKERS] = NONE;  /* kept until acknowledged */
byte known[WORKERS] = NOBODY;               /* started here; kept while requests name it */
#ifdef CHECK_START
bool started[ROOM] = false;                 /* seen by the property alone */
#endif
#ifdef LIVENESS
bool called[WORKERS] = false;               /* one call a tick */
#endif

inline forget_traffic(a)
{
#ifdef CHECK_START
    started[a] = started[a] && unreleased(a);       /* CHECK_RELEASE covers the rest */
#endif
#ifdef UNDELIVERED
    offered[a] = offered[a] && unreleased(a);
#endif
    reported[a] = reported[a] && unreleased(a)
}

inline clear_request(r)
{
    r.named = NOBODY;
    r.wanted = false;
    r.good_for = 0;
    r.acknowledged = NOBODY
}

#include "leader.pml"

/* ---- the workers ---- */

inline kill_process(w)
{
    process[w] = STOPPING;
    worker_left[w] = 0;
    kill_left[w] = KILL_TIME;
    set_work(w, 0)
}

inline process_gone(w, how)
{
    process[w] = NO_PROCESS;
    worker_left[w] = 0;
    kill_left[w] = 0;
    finished_as[w] = how;
    set_work(w, 0)
}

inline let_go(w)
{
    finished_as[w] = NONE;
    target = held[w];
    held[w] = NOBODY;
    completion_stored[w] = NOBODY;      /* to acknowledge it again would tell the worker nothing */
    forget_attempt(target);
    target = 0
}

inline obey(r, w)
{
    if
    :: finished_as[w] != NONE && r.acknowledged == held[w] ->
#ifdef CHECK_ACKNOWLEDGED
        /* What is acknowledged is stored: the attempt has ended by it, or before, or is another's. */
        assert(!belongs(held[w], w));
#endif
        if
        :: ended_by_worker[held[w]] -> check_acknowledgement(held[w], finished_as[w])
        :: else
        fi;
        let_go(w)
    :: else
    fi;
#ifdef START_AGAIN
    known[w] = NOBODY;
#else
    known[w] = (held[w] == NOBODY && known[w] != r.named -> NOBODY : known[w]);
#endif
    if
    :: process[w] == RUNNING && !(r.wanted && r.named == held[w]) -> kill_process(w)
    :: process[w] == RUNNING && r.wanted && r.named == held[w] ->
        worker_left[w] = larger(worker_left[w], r.good_for)
    :: process[w] == NO_PROCESS && held[w] == NOBODY && r.wanted && r.good_for > MARGIN &&
       known[w] == NOBODY ->
        tell("  and starts attempt %d\n", r.named);
#ifdef CHECK_START
        assert(!started[r.named]);
        started[r.named] = true;
#endif
        held[w] = r.named;
        known[w] = r.named;
        worker_left[w] = r.good_for;
        process[w] = RUNNING;
        set_work(w, WORK_MAX)
    :: else
    fi
}

inline answer(w)
{
    call[w] = ANSWERED;
    answer_runs[w] = (process_alive(w) -> held[w] : NOBODY);
    answer_finished[w] = (finished_as[w] != NONE -> held[w] : NOBODY);
    answer_age[w] = 0
}

/*
 * Processes outlive their worker, and their shims write down how they ended. To register and to
 * adopt is one transaction: a call written in between would not name the attempt, and so kill it.
 */
inline restart(w)
{
    for (each : 0 .. ROOM - 1) {
        incarnation_gone[each] = incarnation_gone[each] ||
                                 (unreleased(each) && lease_worker[each] == w)
    }
    each = 0;
    end_call(w);
    forget_late(w);             /* every request names the incarnation it is meant for */
    dead[w] = false;
    answer_stored[w] = false;
    answer_transit[w] = 0;
    completion_stored[w] = NOBODY;
    known[w] = held[w]
}

proctype Worker(byte w)
{
end:
    do
    :: d_step { call[w] == REQUESTED ->
        tell("worker %d has the call\n", w);
        obey(request[w], w); answer(w);
#ifndef STALE_DESIRED_SET
        /* A lower number is refused whenever it comes, and so is this one when it comes again. */
        forget_late(w); request[w].good_for = 0; request[w].acknowledged = NOBODY;
#endif
        check_properties() }
    :: d_step { late[w] ->
        tell("worker %d has a late request\n", w);
        obey(late_request[w], w); forget_late(w); check_properties() }
    :: d_step { process[w] == RUNNING && worker_left[w] <= MARGIN ->
        tell("worker %d reaches its own deadline, kills\n", w); kill_process(w) }
    :: d_step { process[w] == STOPPING ->
        tell("worker %d sees the killed process gone\n", w); process_gone(w, FAILED) }
    :: d_step { process[w] == RUNNING ->
        tell("worker %d sees its process succeed\n", w); process_gone(w, SUCCEEDED) }
    :: d_step { process[w] == RUNNING ->
        tell("worker %d sees its process fail\n", w); process_gone(w, FAILED) }
    :: d_step { process[w] == RUNNING && fault_allowed ->
        tell("worker %d loses its process without a trace\n", w); spend_fault();
        process_gone(w, FAILED); let_go(w) }
    :: atomic { dead[w] || fault_allowed ->
        d_step {
            tell("worker %d begins a new incarnation\n", w);
            if
            :: !dead[w] -> spend_fault()
            :: else
            fi;
            restart(w) }
        if
        /* What is ending is bound to it too: it has the process, so it is the one to be asked. */
        :: d_step { held[w] != NOBODY && unreleased(held[w]) ->
            tell("  and adopts attempt %d\n", held[w]);
            incarnation_gone[held[w]] = false; reported[held[w]] = true;
            forget_offer(held[w]) }
#ifdef ADOPT_UNFENCED
        :: d_step { attempts_made > 0 && unreleased(attempts_made - 1) ->
            tell("  and adopts whatever runs, attempt %d\n", attempts_made - 1);
            lease_worker[attempts_made - 1] = w; incarnation_gone[attempts_made - 1] = false;
            reported[attempts_made - 1] = true }
#endif
        :: true
        fi }
    od
}

/* ---- the clock ---- */

#define traffic(a) false
#define worker_can_act(w) (call[w] != NO_CALL || late[w] || dead[w] || !called[w] \
                           || (claimable && can_take(w)) \
                           || (process[w] == RUNNING && work_left[w] == 0))
/* A grant within the margin neither starts nor prolongs anything: it counts as nothing. */
#define age_grant(grant) grant = (grant > MARGIN + 1 -> grant - 1 : 0)

inline age_attempt(a) { skip }

inline age_worker(w)
{
#ifndef DEADLINE_FROM_RECEIPT
    age_grant(request[w].good_for);
    age_grant(late_request[w].good_for);
#endif
#ifdef ANY_ANSWER_RENEWS
    count_up(answer_transit[w], TRANSIT_MAX);
#endif
#ifdef LIVENESS
    called[w] = false;
#endif
    count_up(answer_age[w], (call[w] == ANSWERED || call[w] == HALF_STORED -> TRANSIT_MAX : 0));
    if
    :: late_request[w].good_for == 0 -> forget_late(w)
    :: else
    fi
}

#include "clock.pml"

init
{
    atomic {
        clear_request(request[0]); clear_request(request[1]);
        clear_request(late_request[0]); clear_request(late_request[1]);
        run CallsTo(0); run CallsTo(1);
        run LeaseOf(0); run LeaseOf(1); run LeaseOf(2);
        run Worker(0); run Worker(1)
    }
}

#ifdef LIVENESS
ltl every_task_ends { <> (finished && !any_unreleased && held[0] == NOBODY && held[1] == NOBODY) }
#endif
