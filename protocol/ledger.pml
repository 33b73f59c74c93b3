/*
 * The ledger: what the database keeps about one task, and the transactions that both ways to a
 * worker (claimed.pml, placed.pml) share.
 *
 *     NO_LEASE --claim, placement--> LIVE --complete, expire, replace--> RELEASED
 *                                     |                                     ^
 *                   hard cancel, end of grace, run timeout, worker dead     |
 *                                     v                                     |
 *                                   ENDING --confirmed, run out, replaced---+
 *
 * The server may end an attempt at once; the next attempt waits until its lease is RELEASED.
 *
 * Time is a set of timers that one clock counts down, so a run may last for ever in finitely many
 * states. The clock waits only for a worker's own deadline: a machine that is not frozen stops in
 * time. The server keeps nothing between two transactions: its death is no step of its own but a
 * request or an answer lost. With LIVENESS every loss, repetition, stall, crash and drain costs one
 * of FAULTS; when they are spent, whatever can be done is done before time moves on.
 *
 * The attempt number stands for (task, attempt, token): all are new with every lease.
 * FROZEN_MACHINE: the clock waits for nobody; the tables must stay right all the same.
 */

#define WORKERS 2
#ifndef ATTEMPTS
#define ATTEMPTS 3      /* all budgets in one: a task tried so often is finished */
#endif
#define ROOM 3          /* for so many attempts, at most */
#define NOBODY ROOM
#define LEASE 4
#define KILL_TIME 1     /* a killed process may live on for so long */
#define WORK_MAX 4      /* LIVENESS: user code ends by itself, but needs a renewal */
#ifdef NO_MARGIN
#define MARGIN 1        /* the kill begins when the lease is about to run out, no earlier */
#else
#define MARGIN (KILL_TIME + 1)
#endif

mtype:task = { PENDING, ASSIGNED, DONE, EXHAUSTED, CANCELLED };
mtype:lease = { NO_LEASE, LIVE, ENDING, RELEASED };
mtype:outcome = { NONE, SUCCEEDED, FAILED, KILLED };    /* FAILED: any end that may be retried */

mtype:task task_state = PENDING;
bool soft_cancel = false;
byte attempts_made = 0;
mtype:lease lease[ROOM] = NO_LEASE;
byte lease_left[ROOM] = 0;
byte lease_worker[ROOM] = 0;
mtype:outcome outcome[ROOM] = NONE;
bool ended_by_worker[ROOM] = false;
bool incarnation_gone[ROOM] = false;        /* the incarnation that held this lease has died */

/* The workers: which attempt each holds, and how long by its own clock the lease surely lives. */
byte held[WORKERS] = NOBODY;
byte worker_left[WORKERS] = 0;
byte kill_left[WORKERS] = 0;

bool success_acknowledged = false;          /* seen by the properties alone */
byte each = 0;                              /* scratch, zero between two steps */
byte target = 0;

#ifdef LIVENESS
byte faults_left = FAULTS;
byte work_left[WORKERS] = 0;
#define fault_allowed (faults_left > 0)
#define spend_fault() faults_left--
#define set_work(w, ticks) work_left[w] = ticks
#else
#define fault_allowed true
#define spend_fault() skip
#define set_work(w, ticks) skip
#endif

#define tell(what, whom) printf(what, whom)     /* printed when a counterexample is replayed */
#define process_alive(w) (process_running(w) || process_stopping(w))
#define unreleased(a) (lease[a] == LIVE || lease[a] == ENDING)
#define any_unreleased (unreleased(0) || unreleased(1) || unreleased(2))
#ifdef CLAIM_WHILE_ENDING
#define claimable (task_state == PENDING)
#else
#define claimable (task_state == PENDING && !any_unreleased)
#endif
#define finished (task_state != PENDING && task_state != ASSIGNED)
#define listened_to(a) (held[0] == a || held[1] == a)
#define positive_difference(x, y) ((x) > (y) -> (x) - (y) : 0)
#define larger(x, y) ((x) > (y) -> (x) : (y))
#define count_down(timer) timer = (timer > 0 -> timer - 1 : 0)
#define count_up(age, most) age = (age < most -> age + 1 : most)

/* Without an attempt; the lease of the last one may still be ending. */
inline cancel()
{
    task_state = CANCELLED
}

inline check_properties()
{
#ifdef CHECK_PROCESSES
    /* The task runs once at a time, lease or no lease. */
    assert(!(process_alive(0) && process_alive(1)));
#endif
#ifdef CHECK_LEASES
    assert(unreleased(0) + unreleased(1) + unreleased(2) <= 1);
#endif
#ifdef CHECK_RELEASE
    /* Released means gone: capacity, compensation and the next attempt rely on it. */
    assert(!process_alive(0) || unreleased(held[0]));
    assert(!process_alive(1) || unreleased(held[1]));
#endif
#ifdef CHECK_KEPT
    assert(!success_acknowledged || (task_state == DONE && !any_unreleased));
#endif
    skip
}

/* The worker learns that its completion was stored; what was stored must be what it said. */
inline check_acknowledgement(a, said)
{
#ifdef CHECK_ACKNOWLEDGED
    assert(outcome[a] == said || (outcome[a] == KILLED && said == FAILED));
#endif
#ifdef CHECK_KEPT
    success_acknowledged = success_acknowledged || said == SUCCEEDED;
#endif
    skip
}

inline open_lease(w)
{
    lease[attempts_made] = LIVE;
    lease_left[attempts_made] = LEASE;
    lease_worker[attempts_made] = w;
    task_state = ASSIGNED;
    attempts_made++
}

inline after_attempt(a, how)
{
#ifdef CHECK_FINAL
    assert(outcome[a] == NONE && !finished);
#endif
    task_state = (how == SUCCEEDED -> DONE
                  : (how == KILLED || soft_cancel -> CANCELLED
                     : (attempts_made < ATTEMPTS -> PENDING : EXHAUSTED)));
    outcome[a] = (task_state == CANCELLED -> KILLED : how);
    soft_cancel = false
}

/* What nobody will read again is made equal, which keeps the states few. */
inline forget_attempt(a)
{
    if
    :: !unreleased(a) && !listened_to(a) -> outcome[a] = NONE; ended_by_worker[a] = false
    :: else
    fi;
    forget_traffic(a)
}

inline release(a)
{
    lease[a] = RELEASED;
    lease_left[a] = 0;
    lease_worker[a] = 0;
    incarnation_gone[a] = false;
    forget_attempt(a)
}

/* The server ends the attempt; the lease lives on until the process is known to be gone. */
inline end_attempt(a, how)
{
    after_attempt(a, how);
#ifdef RELEASE_AT_ONCE
    release(a)
#else
    lease[a] = ENDING
#endif
}

/* The lease has run out, or its holder is known to be gone. */
inline end_and_release(a)
{
    if
    :: lease[a] == LIVE -> after_attempt(a, FAILED)
    :: else
    fi;
    release(a)
}
