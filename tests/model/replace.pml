/* SPDX-License-Identifier: Apache-2.0
 *
 * replace: a node is lost, and another supervisor takes its place.
 *
 * In the model: node 0 with its rank, and the place of node 1. A first supervisor has that place.
 * A second one, its replacement, may call at any time, even while the first one is well. With
 * INCARNATIONS=3 there is a third. Each is an incarnation. An incarnation can lose its connection,
 * be given up by node 0, come back, leave with a goodbye, or die, at any instant. Its messages, and
 * those to it, are lost, come twice, or come any time later; with DEPTH=2 they overtake each other.
 * Each carries the generation, and node 0 knows its incarnation. Once, the job also restarts in
 * place. A generation has one round: propose, vote, save, commit. Then this holds:
 *
 *   - A commit has the saves of one generation's roster: those of its incarnations, made in it.
 *   - Two incarnations of the node never train at once.
 *   - A goodbye opens the fence only when the ranks of every lost incarnation have ended.
 *   - Two incarnations never have the place.
 *   - Each wait ends: the next generation begins, or the job ends with 42, or the caller is refused
 *     or gives up. The wait for a replacement ends at its deadline, even if the replacement is lost
 *     in it. After the deadline only the fence is waited for, if all else is ready. When the fence
 *     is over, too, the next generation begins at once.
 *
 * The fence is an assumption about time, FENCE_HOLDS: FENCE ticks after node 0 has answered an
 * incarnation for the last time, that incarnation has ended, and its ranks. FENCE is the lease, the
 * time for killing, and the margin for the clocks; lease.pml shows that the rules of the lease make
 * it true. Node 0 keeps no clock of another node. It starts no rank of the next generation before
 * the fence is over, unless the lost incarnation said that its ranks have ended. SUSPENDS drops
 * the assumption: a machine sleeps, wakes, and its old ranks run on. Then two incarnations may
 * train, but still no wrong commit is made.
 *
 * Node 0's last answer never comes after the newest message of that incarnation. So a fence that
 * counts from that message is safe. But the replacement's own messages move it, so a filled place
 * waits for ever.
 *
 * Not in the model: ballots, and votes against a step (agreement.pml); what is durable when;
 * notices; several nodes lost at once; the calls of spares, and the time that a place has which is
 * filled just before the deadline (spare.pml); the health check; the limits of replacements and of
 * generations without a commit; ranks that cannot be killed. Node 0's own end is as good as an
 * unannounced end of the job, which is in the model.
 *
 * By hand (check.py knows all flags; check.py --list):
 *
 *   spin -a replace.pml && cc -O2 -w -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m500000
 *
 * World: INCARNATIONS (2), RESTARTS (1: in place), DEPTH (1: messages in flight, per direction),
 * ROUNDS (1; 0: without saves), SUSPENDS. The proofs have two incarnations and DEPTH=1; only
 * mutants and witnesses have more. Every other flag leaves out one rule, and must then be caught;
 * what each is called in words is in check.py. WITNESS=n asserts that something cannot happen.
 */

#ifndef INCARNATIONS
#define INCARNATIONS 2
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#ifndef DEPTH
#define DEPTH 1
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#define NONE INCARNATIONS

/* In ticks. Node 0 gives a silent node up after TIMEOUT at the latest. */
#define TIMEOUT 1
#define FENCE   2
#define WAIT    2 /* for a replacement, and for the end of a generation */
#define JOIN    1 /* how long a caller waits for its admission */
#ifdef FENCE_EARLY
#define FENCE_LEFT(i) (FENCE - quiet[i])
#else
#define FENCE_LEFT(i) (FENCE + 1 - quiet[i])
#endif

/* A message: a generation and a word. Words of a node; a STATUS is a sum of the first three. */
#define MESSAGE(g, word) ((g) * 16 + (word))
#define GENERATION(m)    ((m) / 16)
#define WORD(m)          ((m) % 16)
#define VOTED 1
#define SAVED 2
#define GONE  4 /* its ranks have ended, and it waits for the next generation */
#define HELLO 8
#define BYE   9 /* its ranks have ended, and so has it */
/* Words of node 0; the first five are orders, each newer than the one before. */
#define STARTED   1
#define PROPOSED  2
#define DECIDED   3
#define COMMITTED 4
#define STOP      5
#define WELCOME   8
#define REFUSED   9

chan up[INCARNATIONS] = [DEPTH] of { byte };
chan down[INCARNATIONS] = [DEPTH] of { byte };

/* The incarnations. The first one is a member from the start; its ranks have yet to begin. */
#define AWAY   0 /* not started yet */
#define CALLS  1 /* waits for its admission */
#define MEMBER 2
#define OUT    3 /* it has ended: with 42, or refused */
byte life[INCARNATIONS];
byte generation[INCARNATIONS];
byte said[INCARNATIONS]; /* its STATUS */
byte seen[INCARNATIONS]; /* the newest order */
bool trains[INCARNATIONS];
byte called[INCARNATIONS]; /* since its first call */

/* Node 0. */
#define RUNS  0
#define STOPS 1 /* between two generations */
#define OVER  2
#define FIRST_PHASE (ROUNDS -> PROPOSED : STARTED)
byte job, phase = FIRST_PHASE, now_generation = 1;
byte holder;   /* the incarnation that has the place; NONE: it is vacant */
byte former = NONE; /* the incarnation that had it before, in a wait */
bool waits;    /* for a replacement, in STOPS */
byte left;     /* until the end of STOPS */
byte fence;    /* until ranks may run in the place; 0: now */
bool has_save, has_own_save, is_gone;
bool was_lost[INCARNATIONS]; /* it had the place: its HELLO names a generation */
byte restarts;

/* The world, and a history of the run for the assertions alone. */
byte quiet[INCARNATIONS]; /* since node 0's last answer to it */
bool is_owed[INCARNATIONS]; /* lost, and without a goodbye */
bool has_place[INCARNATIONS];
bool has_saved[INCARNATIONS]; /* its rank, in node 0's generation */
bool own_has_saved;           /* and node 0's rank */
byte roster;                  /* the incarnation of node 1 that this generation began with */
byte waited;

#if INCARNATIONS == 3
#define ALL(what)  (what(0) && what(1) && what(2))
#define SOME(what) (what(0) || what(1) || what(2))
#define TWO(what)  ((what[0] && what[1]) || (what[0] && what[2]) || (what[1] && what[2]))
#else
#define ALL(what)  (what(0) && what(1))
#define SOME(what) (what(0) || what(1))
#define TWO(what)  (what[0] && what[1])
#endif

/* The model must be able to do these things. In a run with -DWITNESS=n this assertion has to
 * fail: so no proof holds only because nothing happens. */
#ifdef WITNESS
bool witness;
#define SHOW(n, what) \
    if :: WITNESS == n && (what) -> witness = 1; assert(!witness) :: else fi
#else
#define SHOW(n, what) skip
#endif

/* ---- messages ---- */

/* A message that is lost might as well not have been sent, so sending is always a choice. */
#define CAN_SEND(channel, m) (nfull(channel) && !(channel??[eval(m)]))

inline may_send(channel, m)
{
    if :: CAN_SEND(channel, m) -> channel!!(m) :: true fi
}

/* Any of them: a channel keeps no order. */
inline receive(channel)
{
    if
    :: channel?m
    :: len(channel) == 2 -> channel?other; channel?m; channel!!other; other = 0
    fi
}

inline empty_out(channel)
{
    do :: channel?_ :: empty(channel) -> break od
}

/* ---- time ---- */

/* Some things must happen before time passes. The guards are those of the process that does them:
 * so time never stops for good. */
#define MUST_END(i)     (life[i] == MEMBER && quiet[i] >= FENCE)
#ifdef CALLER_WAITS
#define MUST_GIVE_UP(i) false
#else
#define MUST_GIVE_UP(i) (life[i] == CALLS && called[i] >= JOIN)
#endif
#ifdef SUSPENDS
#define FENCE_HOLDS true
#else
#define FENCE_HOLDS !SOME(MUST_END)
#endif
#define IS_SILENT  (holder != NONE && quiet[holder] >= TIMEOUT)
#define MUST_STOP  (job == RUNS && holder == NONE)
#define CAN_RENEW  (job == STOPS && holder != NONE && is_gone && fence == 0)
/* At the deadline the job ends, unless only the fence is left to wait for. */
#define IS_READY   (holder != NONE && is_gone)
#ifdef NO_DEADLINE
#define IS_LATE (job == STOPS && left == 0 && !waits)
#else
#define IS_LATE (job == STOPS && left == 0 && !IS_READY)
#endif
#define CHIEF_IS_DUE (job != OVER && (IS_SILENT || MUST_STOP || CAN_RENEW || IS_LATE))

#define TRAINS(i)       trains[i]
#define IS_OVER(i)      (life[i] == OUT || life[i] == AWAY)
#define FENCE_IS_OVER(i) (!is_owed[i] || quiet[i] > FENCE)

inline grow_older(i)
{
    if
    :: (life[i] == MEMBER || is_owed[i] || holder == i) && quiet[i] <= FENCE -> quiet[i]++
    :: else
    fi;
    if :: life[i] == CALLS -> called[i]++; assert(called[i] <= JOIN) :: else fi
}

proctype time()
{
    do
    :: atomic {
           FENCE_HOLDS && !SOME(MUST_GIVE_UP) && !CHIEF_IS_DUE && !(job == OVER && ALL(IS_OVER)) ->
           assert(!(job == STOPS && IS_READY && ALL(FENCE_IS_OVER)));
           if
           :: job == STOPS ->
              waited++;
              assert(waited <= WAIT || IS_READY);
              left = (left > 0 -> left - 1 : 0)
           :: else
           fi;
           fence = (fence > 0 -> fence - 1 : 0);
           grow_older(0);
           grow_older(1);
#if INCARNATIONS == 3
           grow_older(2);
#endif
       }
    :: atomic { job == OVER && ALL(IS_OVER) -> break }
    od
}

/* ---- an incarnation of node 1 ---- */

inline obey()
{
    if
    :: GENERATION(m) == generation[i] + 1 -> generation[i]++; said[i] = 0
    :: else
    fi;
    seen[i] = WORD(m);
    if
    :: seen[i] < STOP ->
       trains[i] = true;
#ifndef SUSPENDS
       assert(!TWO(trains));
#endif
       if :: seen[i] == PROPOSED -> said[i] = VOTED :: else fi
    :: else
    fi
}

inline end_incarnation()
{
    trains[i] = false;
    life[i] = OUT;
    generation[i] = 0; said[i] = 0; seen[i] = 0; called[i] = 0;
    empty_out(down[i])
}

#define IS_NEWER(m) \
    (GENERATION(m) == generation[i] && WORD(m) > seen[i] || \
     GENERATION(m) == generation[i] + 1 && (said[i] & GONE))

proctype incarnation(byte i)
{
    byte m, other;
    do
    :: atomic { /* the replacements are alike, so they call in their order */
           life[i] == AWAY && life[i - 1] != AWAY && job != OVER -> life[i] = CALLS }
    :: atomic { life[i] == AWAY && job == OVER -> break }
    :: atomic { /* a member calls again when its connection broke */
           job != OVER && (life[i] == CALLS || was_lost[i]) && CAN_SEND(up[i], MESSAGE(0, HELLO)) ->
           up[i]!!MESSAGE(0, HELLO) }
    :: atomic {
           job != OVER && said[i] && CAN_SEND(up[i], MESSAGE(generation[i], said[i])) ->
           up[i]!!MESSAGE(generation[i], said[i]) }
    :: atomic {
           (life[i] == CALLS || life[i] == MEMBER) && nempty(down[i]) ->
           receive(down[i]);
           if
           :: WORD(m) == WELCOME && life[i] == CALLS ->
              life[i] = MEMBER; generation[i] = GENERATION(m); called[i] = 0
           :: WORD(m) == REFUSED ->
              SHOW(3, trains[i] && has_place[1]); end_incarnation(); m = 0; break
           :: WORD(m) <= STOP && life[i] == MEMBER && IS_NEWER(m) -> obey()
           :: else
           fi;
           m = 0
       }
    :: atomic { trains[i] && seen[i] == DECIDED && !(said[i] & SAVED) -> /* its rank saves */
           said[i] = SAVED; has_saved[i] = (generation[i] == now_generation) }
    :: atomic { seen[i] == STOP && !(said[i] & GONE) ->
           trains[i] = false; said[i] = (said[i] & SAVED) | GONE }
    :: atomic { /* its lease is over, or it has a notice, or it dies */
           life[i] == MEMBER ->
           if
           :: job != OVER && CAN_SEND(up[i], MESSAGE(0, BYE)) -> up[i]!!MESSAGE(0, BYE)
           :: true
           fi;
           end_incarnation(); break }
    :: atomic { MUST_GIVE_UP(i) -> end_incarnation(); break }
    od
}

/* ---- node 0 ---- */

inline begin_wait()
{
    waits = true; left = WAIT; waited = 0
}

/* Gives the incarnation up that has the place. In a wait it has no ranks yet. */
inline lose(has_ended)
{
    was_lost[holder] = true;
    has_place[holder] = false;
    is_owed[holder] = !(has_ended);
#ifndef NO_FENCE
    if
    :: !(has_ended) && FENCE_LEFT(holder) > fence -> fence = FENCE_LEFT(holder)
    :: else
    fi;
#endif
    if
    :: job == STOPS && !waits -> begin_wait()
#ifdef UNTIL_MOVES
    :: job == STOPS && waits -> left = WAIT
#endif
    :: else
    fi;
    former = holder;
    holder = NONE;
    is_gone = false
}

#ifdef GOODBYE_OF_ANOTHER
#define BELIEVES(i) true
#else
#define BELIEVES(i) is_owed[i]
#endif

/* The incarnation that was lost last says that its ranks have ended. If it was lost in the wait, it
 * never had any, and those of an earlier incarnation may still run. Then its word opens nothing. */
inline hear_former()
{
    if
    :: BELIEVES(i) ->
#ifndef SUSPENDS
       assert(fence == 0 || !SOME(TRAINS));
#endif
       is_owed[i] = false; fence = 0
    :: else
    fi
}

inline admit()
{
    holder = i;
    has_place[i] = true;
    quiet[i] = 0;
    assert(!TWO(has_place))
}

inline on_hello()
{
    if
    :: i == holder -> quiet[i] = 0; may_send(down[i], MESSAGE(now_generation, WELCOME))
    :: i != holder && was_lost[i] ->
#ifdef OLD_ADMITTED
       if :: holder != NONE -> admit() :: else fi
#else
       may_send(down[i], MESSAGE(0, REFUSED))
#endif
    :: i != holder && !was_lost[i] && holder == NONE && waits ->
       admit();
       may_send(down[i], MESSAGE(now_generation, WELCOME))
    :: i != holder && !was_lost[i] && holder != NONE -> /* held back, or refused */
       may_send(down[i], MESSAGE(0, REFUSED))
    :: else
    fi
}

/* Each counts only in the phase that asks for it. */
inline count()
{
    phase = ((m & VOTED) && phase == PROPOSED && GENERATION(m) == now_generation ->
             DECIDED : phase);
#ifdef GENERATION_IGNORED
    has_save = has_save || ((m & SAVED) && phase == DECIDED);
#else
    has_save = has_save || ((m & SAVED) && phase == DECIDED && GENERATION(m) == now_generation);
    SHOW(4, (m & SAVED) && phase == DECIDED && GENERATION(m) != now_generation);
#endif
    is_gone = is_gone || ((m & GONE) && GENERATION(m) == now_generation)
}

#ifdef INCARNATION_IGNORED
#define IS_OF_HOLDER(i) (holder != NONE)
#else
#define IS_OF_HOLDER(i) (i == holder)
#endif

inline on_message(n)
{
    i = n;
    receive(up[i]);
    if
    :: WORD(m) == HELLO -> on_hello()
    :: WORD(m) == BYE && IS_OF_HOLDER(i) ->
       assert(!trains[holder]);
       lose(true)
    :: WORD(m) < HELLO && IS_OF_HOLDER(i) -> count()
    :: i == former && holder == NONE && waits &&
       (WORD(m) == BYE || WORD(m) < HELLO && (m & GONE) && GENERATION(m) == now_generation) ->
       hear_former()
    :: else ->
#ifdef ANSWERS_LOST
       if :: was_lost[i] -> quiet[i] = 0 :: else fi
#endif
       skip
    fi;
    m = 0;
    i = 0
}

inline end_generation()
{
    job = STOPS;
    phase = STOP;
    left = WAIT;
    waited = 0;
    waits = (holder == NONE)
}

/* Clears values that no rule reads any more, so that equal states are equal. */
inline forget(n)
{
    has_saved[n] = false;
    is_owed[n] = false;
    quiet[n] = (life[n] == OUT && holder != n -> 0 : quiet[n])
}

inline end_job()
{
    job = OVER;
    holder = NONE; former = NONE; phase = 0;
    waits = false; left = 0; waited = 0; fence = 0;
    has_save = false; has_own_save = false; is_gone = false;
    own_has_saved = false; roster = 0;
    forget(0);
    forget(1);
    empty_out(up[0]);
    empty_out(up[1])
#if INCARNATIONS == 3
    ; forget(2); empty_out(up[2])
#endif
}

inline renew()
{
    SHOW(2, waits && is_owed[0]);
    SHOW(6, waits && was_lost[0] && !is_owed[0] && life[0] == OUT && waited == 0);
    SHOW(8, now_generation == 2);
    SHOW(9, INCARNATIONS == 3 && holder == 2 && waits && is_owed[0]);
    now_generation++;
    roster = holder;
    job = RUNS;
    phase = FIRST_PHASE;
    waits = false; left = 0; waited = 0; fence = 0; former = NONE;
    own_has_saved = false;
    forget(0);
    forget(1);
#if INCARNATIONS == 3
    forget(2);
#endif
#ifndef TWO_ROSTERS
    has_save = false; has_own_save = false;
#endif
#ifndef KEEPS_GOODBYE
    is_gone = false
#endif
}

proctype chief()
{
    byte m, other, i;
    do
    :: atomic { nempty(up[0]) -> on_message(0) }
    :: atomic { nempty(up[1]) -> on_message(1) }
#if INCARNATIONS == 3
    :: atomic { nempty(up[2]) -> on_message(2) }
#endif
    :: atomic { holder != NONE && CAN_SEND(down[holder], MESSAGE(now_generation, phase)) ->
           down[holder]!!MESSAGE(now_generation, phase) }
    :: atomic { /* no answer, but it is to stop */
           waits && holder == NONE && CAN_SEND(down[former], MESSAGE(now_generation, STOP)) ->
           down[former]!!MESSAGE(now_generation, STOP) }
    :: atomic { /* the connection is broken, or silent */
           holder != NONE ->
           SHOW(7, job == STOPS && holder == 1);
           lose(is_gone || waits) }
    :: atomic { /* a heartbeat, and its answer */
           holder != NONE && life[holder] == MEMBER && quiet[holder] ->
           quiet[holder] = 0;
#ifdef FENCE_FROM_HEARD
           fence = (waits -> FENCE + 1 : fence)
#endif
       }
    :: atomic { MUST_STOP -> end_generation() }
    :: atomic { job == RUNS && restarts < RESTARTS -> restarts++; end_generation() }
    :: atomic { CAN_RENEW -> renew() }
    :: atomic { IS_LATE -> SHOW(5, waits); end_job(); break }
    :: atomic { end_job(); break } /* a user stops the job, or node 0 dies */
    :: atomic { job == RUNS && phase == DECIDED && !has_own_save ->
           has_own_save = true; own_has_saved = true }
    :: atomic { job == RUNS && phase == DECIDED && has_own_save && has_save ->
           assert(own_has_saved && has_saved[roster]);
           SHOW(1, holder == 1);
           phase = COMMITTED }
    od
}

init
{
    atomic {
        has_place[0] = true;
        life[0] = MEMBER; generation[0] = 1;
        /* pan takes the steps of the last process first: so it soon finds what needs time. */
#if INCARNATIONS == 3
        run incarnation(2);
#endif
        run incarnation(1);
        run incarnation(0);
        run chief();
        run time();
    }
}
