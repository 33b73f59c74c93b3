/*
 * A claim that waits: repeated under its key, and lent to who stores work.
 *
 *     worker                    server: two requests of one claim           submission
 *       |--- claim, key --------->| looks: key known? the same answer          |
 *       |                         |        something ready? leased, with key   |
 *       |                         |        nothing: waits ----- lent --------->| stores a task and leases
 *       |                         |<---------- given, after the commit --------| it, in one transaction,
 *       |<-- what is leased ------|            or back: looks again            | or is undone
 *
 * A request may be sent twice (the worker heard nothing), and both may be under way at once. While a
 * claim is lent, its request neither looks nor answers. KEYLESS: a claim without a key, which is never
 * repeated.
 *
 * Properties: CHECK_ONCE, CHECK_TOLD. Broken: REPEAT_CLAIMS_AGAIN, LOOKS_WHILE_LENT,
 * GIVEN_BEFORE_COMMIT, KEY_TAKEN_LATER.
 */

#define REQUESTS 2
#define NOBODY 9

mtype:step = { UNSENT, LOOKING, WAITING, LENT, GIVEN, ANSWERED };

mtype:step step[REQUESTS] = UNSENT;
byte ready = 1;             /* committed, in line */
byte leased = 0;            /* to this claim, committed */
bool key_taken = false;
byte borrowed = NOBODY;     /* whose claim the submission has */

#define tell(what, whom) printf(what, whom)
#ifdef KEYLESS
#define knows_key false
#define may_repeat false
#define take_key() skip
#else
#define may_repeat true
#ifdef REPEAT_CLAIMS_AGAIN
#define knows_key false
#define take_key() skip
#else
#define knows_key key_taken
#define take_key() key_taken = true
#endif
#endif
#ifdef LOOKS_WHILE_LENT
#define looks(r) (step[r] == LOOKING || step[r] == LENT)
#else
#define looks(r) (step[r] == LOOKING)
#endif

inline check_once()
{
#ifdef CHECK_ONCE
    /* It has asked for one. */
    assert(leased <= 1)
#else
    skip
#endif
}

inline answer(r)
{
#ifdef CHECK_TOLD
    assert(leased > 0);
#endif
    step[r] = ANSWERED
}

proctype Request(byte r)
{
end:
    do
    :: d_step { step[r] == UNSENT && (r == 0 || may_repeat) ->
        tell("request %d arrives\n", r); step[r] = LOOKING }
    :: d_step { looks(r) && knows_key ->
        tell("request %d finds its key: the same answer\n", r); answer(r) }
    :: d_step { looks(r) && !knows_key && ready > 0 ->
        tell("request %d takes what is ready\n", r);
        ready--; leased++; take_key(); check_once(); answer(r) }
    :: d_step { step[r] == LOOKING && !knows_key && ready == 0 ->
        tell("request %d finds nothing, and waits\n", r); step[r] = WAITING }
    :: d_step { step[r] == WAITING -> tell("request %d is rung for, looks again\n", r);
        step[r] = LOOKING }
    :: d_step { step[r] == GIVEN -> tell("request %d answers what it was given\n", r); answer(r) }
    od
}

/* Others take what is in line, and store more. */
active proctype Others()
{
end:
    do
    :: d_step { ready > 0 -> tell("others take %d\n", ready); ready-- }
    :: d_step { ready == 0 -> tell("others store one, %d is in line\n", ready + 1); ready++ }
    od
}

proctype Submission()
{
    bool leases;
end:
    do
    :: atomic { borrowed == NOBODY && (step[0] == WAITING || step[1] == WAITING) ->
        if
        :: step[0] == WAITING -> borrowed = 0
        :: step[1] == WAITING -> borrowed = 1
        fi;
        tell("a submission borrows the claim of request %d\n", borrowed);
        step[borrowed] = LENT;
#ifdef KEY_TAKEN_LATER
        leases = !knows_key;
#endif
#ifdef GIVEN_BEFORE_COMMIT
        leases = !knows_key;
        if
        :: leases -> step[borrowed] = GIVEN
        :: else
        fi
#endif
        }
        if
        :: d_step { true ->
#ifndef KEY_TAKEN_LATER
#ifndef GIVEN_BEFORE_COMMIT
            leases = !knows_key;
#endif
#endif
            if
            :: leases -> leased++; take_key(); check_once(); step[borrowed] = GIVEN;
                tell("the task is stored, and leased to request %d\n", borrowed)
            :: else -> ready = (ready < 1 -> ready + 1 : ready); step[borrowed] = LOOKING;
                tell("the task is stored, the claim of request %d goes back\n", borrowed)
            fi }
        :: d_step { true -> tell("the submission is undone, the claim of request %d goes back\n", borrowed);
            step[borrowed] = (step[borrowed] == LENT -> LOOKING : step[borrowed]) }
        fi;
        d_step { borrowed = NOBODY; leases = false }
    od
}

init { atomic { run Request(0); run Request(1); run Submission() } }
