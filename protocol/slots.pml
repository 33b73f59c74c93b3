/*
 * Limits of use: three tasks, one bucket, two claimers, and whoever sets the limit.
 *
 *     in line --taken--> limits lock, bucket locked, counted --room--> LEASED --> ENDING --> DONE
 *                                                     |                  release: opens GATED
 *                                                     +--none--> GATED --opened--> in line
 *
 * A slot is held by an attempt from its lease to its release, and nobody keeps a counter: who decides
 * locks the bucket and counts what is committed. What a transaction has written is seen by others
 * after its commit alone: those places are named UNSEEN. A release takes no lock of the bucket, so a
 * task may be put behind a limit while its slot is given back: a chore opens what was missed.
 * Whoever decides holds the limits lock, shared; who sets a limit holds it alone, and counts in what
 * runs already. Any transaction may be undone.
 *
 * Properties: CHECK_SLOTS, and with LIVENESS every_task_ends. Broken: NO_BUCKET_LOCK,
 * COUNT_BEFORE_LOCK, FREED_AT_END, NO_LIMITS_LOCK, NO_CHORE.
 */

#define TASKS 3
#define CLAIMERS 2
#define MOST 1
#define NOBODY 9

mtype:place = { IN_LINE, TAKEN, LEASED_UNSEEN, LEASED, ENDING, GATED_UNSEEN, GATED, OPENED_UNSEEN,
                DONE };

mtype:place place[TASKS] = IN_LINE;
bool counted[TASKS] = false;        /* the lease names the bucket */
byte bucket_locked_by = NOBODY;
byte deciding = 0;                  /* who holds the limits lock, shared */
bool is_set = false;                /* there is a limit */

#ifdef LIVENESS
byte faults_left = FAULTS;
#define fault_allowed (faults_left > 0)
#define spend_fault() faults_left--
#else
#define fault_allowed true
#define spend_fault() skip
#endif

#define tell(what, whom) printf(what, whom)
#define runs(t) (place[t] == LEASED || place[t] == ENDING)
#ifdef FREED_AT_END
#define holds_slot(t) (counted[t] && place[t] == LEASED)
#else
#define holds_slot(t) (counted[t] && runs(t))
#endif
#define slots_used (holds_slot(0) + holds_slot(1) + holds_slot(2))
#define all_running (runs(0) + runs(1) + runs(2))

inline commit_lease(t)
{
    place[t] = LEASED;
#ifdef CHECK_SLOTS
    /* Of those that a limit has let start, never more than it has; what ran before it stays. */
    assert(!counted[t] || all_running <= MOST)
#else
    skip
#endif
}

inline let_go(c)
{
    bucket_locked_by = (bucket_locked_by == c -> NOBODY : bucket_locked_by);
    deciding--
}

proctype Claimer(byte c)
{
    byte mine;
    byte used;
    bool limited;
end:
    do
    :: atomic { (place[0] == IN_LINE || place[1] == IN_LINE || place[2] == IN_LINE) ->
        if
        :: place[0] == IN_LINE -> mine = 0
        :: place[1] == IN_LINE -> mine = 1
        :: place[2] == IN_LINE -> mine = 2
        fi;
        tell("a claimer takes task %d\n", mine);
        place[mine] = TAKEN;
        deciding++;
        limited = is_set }
#ifdef NO_LIMITS_LOCK
        d_step { deciding-- ; tell("task %d: the limits lock is let go\n", mine) }
#endif
        if
        :: d_step { !limited -> counted[mine] = false; place[mine] = LEASED_UNSEEN }
        :: limited ->
#ifdef COUNT_BEFORE_LOCK
            used = slots_used;
#endif
#ifndef NO_BUCKET_LOCK
            d_step { bucket_locked_by == NOBODY -> bucket_locked_by = c }
#endif
#ifndef COUNT_BEFORE_LOCK
            used = slots_used;
#endif
            d_step {
                if
                :: used < MOST -> counted[mine] = true; place[mine] = LEASED_UNSEEN
                :: else -> place[mine] = GATED_UNSEEN
                fi }
        fi;
        if
        :: d_step { place[mine] == LEASED_UNSEEN -> tell("task %d is leased\n", mine);
            commit_lease(mine) }
        :: d_step { place[mine] == GATED_UNSEEN -> tell("task %d is gated\n", mine);
            place[mine] = GATED }
        :: d_step { fault_allowed -> tell("the claim of task %d is undone\n", mine);
            spend_fault(); counted[mine] = false; place[mine] = IN_LINE }
        fi;
        d_step {
#ifdef NO_LIMITS_LOCK
            deciding++;
#endif
            let_go(c); used = 0; limited = false; mine = 0 }
    od
}

proctype Attempt(byte t)
{
    byte opened = NOBODY;
end:
    do
    :: d_step { place[t] == LEASED -> tell("attempt of task %d is ended\n", t); place[t] = ENDING }
    :: atomic { runs(t) ->
        tell("attempt of task %d is being released\n", t);
        if
        :: counted[t] && place[0] == GATED -> opened = 0
        :: counted[t] && place[1] == GATED -> opened = 1
        :: counted[t] && place[2] == GATED -> opened = 2
        :: else
        fi;
        if
        :: opened != NOBODY -> place[opened] = OPENED_UNSEEN
        :: else
        fi }
        if
        :: d_step { true -> tell("attempt of task %d is released\n", t);
            place[t] = DONE;
            if
            :: opened != NOBODY -> place[opened] = IN_LINE
            :: else
            fi }
        :: d_step { fault_allowed -> tell("the release of task %d is undone\n", t); spend_fault();
            if
            :: opened != NOBODY -> place[opened] = GATED
            :: else
            fi }
        fi;
        opened = NOBODY
    od
}

active proctype Operator()
{
    d_step { deciding == 0 && !is_set ->
        tell("a limit of %d is set, and counts in what runs\n", MOST);
        is_set = true;
        counted[0] = runs(0); counted[1] = runs(1); counted[2] = runs(2) }
}

#ifndef NO_CHORE
active proctype Chore()
{
    byte found;
end:
    do
    :: atomic { slots_used < MOST && (place[0] == GATED || place[1] == GATED || place[2] == GATED) ->
        if
        :: place[0] == GATED -> found = 0
        :: place[1] == GATED -> found = 1
        :: place[2] == GATED -> found = 2
        fi;
        tell("the chore puts task %d back in line\n", found);
        place[found] = IN_LINE;
        found = 0 }
    od
}
#endif

init
{
    atomic {
        run Claimer(0); run Claimer(1);
        run Attempt(0); run Attempt(1); run Attempt(2)
    }
}

#ifdef LIVENESS
ltl every_task_ends { <> (place[0] == DONE && place[1] == DONE && place[2] == DONE) }
#endif
