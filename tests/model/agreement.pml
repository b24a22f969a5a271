/* SPDX-License-Identifier: Apache-2.0
 *
 * agreement: the save round as pchrun builds it (src/wire/peermsg.h, gate.h), every interleaving.
 *
 * In the model: a chief, its nodes and their processes go through two rounds. Round 1 goes on,
 * round 2 ends the run. STATUS and ORDER are whole snapshots. A channel holds the newest (or the
 * last DEPTH): a newer one pushes an older out unread. The far node's connection breaks at any
 * instant. Messages in flight are lost, or come late over the old connection, after newer ones. On
 * reconnection both sides send their snapshot again. A chief, a node or the network between them
 * is lost for good. The chief calls a round off, or fails it for want of time, at any instant. A
 * commit record takes its time. The processes run at any skew, end their training early, fail to
 * save, die, or save in the background. Then this holds:
 *
 *   - No two processes save at different steps in a round, and no process passes a saved step
 *     unsaved (CHECK).
 *   - A record is written only of a save that is durable on every rank, and never goes back.
 *   - No process begins a save in a round that was called off. No process saves twice in one round.
 *   - All processes that are told to leave leave at one step.
 *   - A decided step is at most one above the furthest process: a drop of the pace cannot put it out of
 *     reach, and there is no lower step that a new round could agree on.
 *   - In the end no process is held and every round is closed on every node (SETTLED). Events alone
 *     bring that about: with CALM no deadline comes to help. LIVENESS says the same as a formula,
 *     under weak fairness.
 *
 * Not in the model: heartbeats and time. A snapshot that was pushed out or lost is sent again on
 * reconnection only, and a deadline is a choice that may come at any instant. Nor is there
 * attaching late (all are attached), strides, a program's own saves, the join, the stop ladder,
 * restarts, tags that wrap around, and STATUS.seen. The nodes have no records of their own: a
 * process's SAVED stands for both. One process's messages to its node arrive in order, and HELD
 * with its ANSWER is one look at the node. The save step has no margin. A lost node is not let in
 * again. Steps and rounds are few: LAST, ROUNDS.
 *
 * By hand (check.py knows all flags; check.py --list):
 *
 *   spin -DLAST=2 -DONE_NODE -a agreement.pml
 *   cc -O2 -w -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -o pan pan.c && ./pan -E -m500000
 *   spin -DLAST=2 -DONE_NODE -t -p -g -k agreement.pml.trail agreement.pml   # an error's trace
 *
 * World: ONE_NODE, THREE (else two nodes, one process each), LAST, ROUNDS, DEPTH, BREAKS, LOSS,
 * FAULTS (saves fail, processes die, the record cannot be written), LOCKSTEP and COLLSAVE (a
 * step, a save is a collective), ASYNC (saves in the background), CALM. With LOSS give cc
 * -DNOREDUCE; with LIVENESS leave out -DSAFETY, give cc -DNFAIR=3 and run pan with -a -f. Every
 * other flag leaves out one rule, and must then be caught; what each is called in words is in
 * check.py.
 */

#ifndef ROUNDS
#define ROUNDS 2 /* the last one ends the run */
#endif
#ifndef LAST
#define LAST 3 /* steps in the whole training */
#endif
#ifndef DEPTH
#define DEPTH 1 /* snapshots in flight, per direction; a newer one pushes out the oldest */
#endif
#ifndef BREAKS
#define BREAKS 0 /* how often the far node's connection breaks */
#endif

#if defined(ONE_NODE) /* both processes behind one gate word, the node away from the chief */
#define NODES    1
#define P        2
#define NODE(p)  0
#define FIRST(i) 0
#define COUNT(i) 2
#elif defined(THREE) /* process 0; processes 1 and 2 */
#define NODES    2
#define P        3
#define NODE(p)  ((p) > 0)
#define FIRST(i) (i)
#define COUNT(i) (1 + (i))
#else
#define NODES    2
#define P        2
#define NODE(p)  (p)
#define FIRST(i) (i)
#define COUNT(i) 1
#endif
#define FAR  (NODES - 1) /* the node whose connection may break */
#define NONE 15

/* Phases of an order, and its votes. */
#define IDLE      0
#define PROPOSED  1
#define DECIDED   2
#define COMMITTED 3
#define FAILED    4
#define ABORTED   5
#define NO_VOTE   0
#define ACK       1
#define NACK      2
#define MIXED     14 /* saved_step of ranks that saved at different steps */

/* A process says one of these to its node. A later word may replace one not yet read: it says
 * more. */
#define SERVING   1
#define SAVED     2
#define NOT_SAVED 3
#define ENDED     4
/* The answers of pch_saved. */
#define GO    1
#define LEAVE 2

/* Processes. */
byte step[P];   /* finished steps: the process's page */
byte served[P]; /* the round whose save it has begun last */
byte said[P];
byte answer[P];
bit ended[P];
byte left_at[P] = NONE; /* the step at which it was told to leave */

/* A history of the run, for the assertions alone. */
byte begun[ROUNDS * P] = NONE; /* where a process began its save */
bit durable[ROUNDS * P];
byte record;         /* the commit record on the disk: a step */
byte aborted;        /* bits: rounds that were called off */
#define BEGUN(r, p)   begun[((r)-1) * P + (p)]
#define DURABLE(r, p) durable[((r)-1) * P + (p)]

/* Nodes: the gate word is read and written in one piece. */
byte gate_step[NODES] = NONE;
byte gate_round[NODES];
bit gate_decided[NODES];
byte node_round[NODES];
bit node_closed[NODES];

/* The chief. */
byte round, phase;

/* round, ballot, phase, save step */
chan order[NODES] = [DEPTH] of { byte, byte, byte, byte };
/* round, ballot, vote, highest, closed, saved, out, saved step, served */
chan status[NODES] = [DEPTH] of { byte, byte, byte, byte, bit, byte, byte, byte, byte };
/* A snapshot's number. It rises with every change; what it counts only grows, so the model computes
 * it: a counter would say the same and multiply the states. */
#define ORDER_SEQ(round, ballot, phase) (((round) << 6) + ((ballot) << 3) + (phase))
#define STATUS_SEQ(round, ballot, rest) (((round) << 8) + ((ballot) << 4) + (rest))
bit down; /* the far node's connection */
#define IS_UP(i) (i != FAR || !down)
#if BREAKS > 0
bit greet; /* the far node has connected again and the chief has not yet answered */
/* Messages that an old connection still holds when the new one is up. They may come after newer
 * ones. */
chan old_order = [1] of { byte, byte, byte, byte };
chan old_status = [1] of { byte, byte, byte, byte, bit, byte, byte, byte, byte };
#endif
#ifdef LOSS
bit cut;           /* for good */
bit told_to_stop;  /* node 0, by the chief */
bit gone[NODES];   /* this supervisor has ended, and with it its processes */
bit chief_gone;
#define WHILE(lives) provided(lives)
#else
#define WHILE(lives)
#endif

/* ---- what must hold ---- */

/* The model must be able to do these things. In a run with -DWITNESS=n this assertion has to
 * fail. */
#ifdef WITNESS
bit witness;
#define SHOW(n, what)                                                                              \
    if :: WITNESS == n && (what) -> witness = 1; assert(!witness) :: else fi
#else
#define SHOW(n, what) skip
#endif

/* If p has begun its save, q saves at the same step and passes no later one. */
#define AGREES(r, p, q)                                                                            \
    (BEGUN(r, p) == NONE || BEGUN(r, q) == BEGUN(r, p) ||                                          \
     (BEGUN(r, q) == NONE && step[q] <= BEGUN(r, p)))
#if P == 2
#define ONE_STEP(r) (AGREES(r, 0, 1) && AGREES(r, 1, 0))
#define ALL(what)   (what(0) && what(1))
#else
#define ONE_STEP(r)                                                                                \
    (AGREES(r, 0, 1) && AGREES(r, 1, 0) && AGREES(r, 0, 2) && AGREES(r, 2, 0) &&                   \
     AGREES(r, 1, 2) && AGREES(r, 2, 1))
#define ALL(what) (what(0) && what(1) && what(2))
#endif
#if ROUNDS == 2
#define CHECK assert(ONE_STEP(1) && ONE_STEP(2))
#else
#define CHECK assert(ONE_STEP(1))
#endif

/* No process is held, and every round that was opened is closed everywhere. */
#ifdef LOSS
#define NODE_SETTLED(i) (gone[i] || (node_round[i] == round && node_closed[i]))
#define CHIEF_SETTLED   (chief_gone || phase != PROPOSED && phase != DECIDED)
#else
#define NODE_SETTLED(i) (node_round[i] == round && node_closed[i])
#define CHIEF_SETTLED   (round == ROUNDS && phase >= COMMITTED)
#endif
#if NODES == 2
#define EACH(what) (what(0) && what(1))
#define SOME(what) (what(0) || what(1))
#else
#define EACH(what) what(0)
#define SOME(what) what(0)
#endif
#define HAS_ENDED(p) ended[p]
#define SETTLED      (ALL(HAS_ENDED) && CHIEF_SETTLED && EACH(NODE_SETTLED))

#ifdef LIVENESS
ltl settled { <> SETTLED }
#else
/* Every run comes to a rest (nothing repeats itself), so it is enough to look there. */
active proctype rest()
{
    atomic {
        timeout -> assert(SETTLED);
        SHOW(1, phase == COMMITTED && BEGUN(1, 0) != NONE && BEGUN(2, 0) != NONE)
    }
}
#endif

/* ---- a training process ---- */

#ifdef NO_TAG
#define STOPS(p) (step[p] >= gate_step[NODE(p)])
#else
#define STOPS(p) (step[p] >= gate_step[NODE(p)] && gate_round[NODE(p)] != served[p])
#endif
#ifdef NO_WAIT
#define MAY_LOOK(p) true
#else
#define MAY_LOOK(p) (!STOPS(p) || gate_decided[NODE(p)])
#endif
#define OUTCOME(p) (node_round[NODE(p)] == served[p] && node_closed[NODE(p)])

#ifdef LOCKSTEP /* a step is a collective: no process is more than one ahead */
#define HAS_REACHED(q) (step[q] >= step[p] || ended[q])
#define MAY_STEP       (step[p] < LAST && ALL(HAS_REACHED))
#else
#define MAY_STEP (step[p] < LAST)
#endif
#ifdef COLLSAVE /* so is a save */
#define IN_SAVE(q) (BEGUN(served[p], q) != NONE || ended[q])
#define MAY_SAVE   ALL(IN_SAVE)
#else
#define MAY_SAVE true
#endif

#ifdef ASYNC
#define WRITING 1
#define WRITTEN 2
byte writer[ROUNDS * P];
#define WRITER(r, p) writer[((r)-1) * P + (p)]
#if ROUNDS == 2
#define WRITERS_DONE(p) (WRITER(1, p) == 0 && WRITER(2, p) == 0)
#else
#define WRITERS_DONE(p) (WRITER(1, p) == 0)
#endif
#else
#define WRITERS_DONE(p) true
#endif

inline begin_save()
{
    served[p] = gate_round[NODE(p)];
    assert(BEGUN(served[p], p) == NONE);
    assert(!(aborted & (1 << served[p])));
    BEGUN(served[p], p) = step[p];
    said[p] = SERVING;
    CHECK
}

#define SAME_LEFT(q) (left_at[q] == NONE || left_at[q] == step[p])
inline leave()
{
    left_at[p] = step[p];
    assert(ALL(SAME_LEFT))
}

proctype process(byte p) WHILE(!gone[NODE(p)])
{
    bit hold; /* it has begun the last save and waits at its next step for the outcome */
    do
    :: atomic { MAY_STEP -> step[p]++; CHECK };
       atomic {
           if
           :: hold && OUTCOME(p) ->
#ifdef ASYNC
              leave();
#endif
              break
#ifdef EXIT_LATER
           :: !(hold && OUTCOME(p)) && MAY_LOOK(p)
#else
           :: !hold && MAY_LOOK(p)
#endif
           fi;
           if
           :: STOPS(p) && gate_decided[NODE(p)] -> begin_save()
           :: else -> goto next
           fi
       };
#ifdef ASYNC
       atomic { WRITER(served[p], p) = WRITING; hold = (served[p] == ROUNDS) };
#else
       if
       :: atomic { MAY_SAVE -> DURABLE(served[p], p) = 1; said[p] = SAVED };
          atomic {
              if
              :: answer[p] == LEAVE -> leave(); break
              :: answer[p] == GO -> answer[p] = 0
#ifdef FAULTS
              :: said[p] == 0 -> break /* it dies while it waits */
#endif
              fi
          }
#ifdef FAULTS
       :: atomic { said[p] = NOT_SAVED; hold = (served[p] == ROUNDS) }
#endif
       fi;
#endif
#ifdef NO_TAG
       served[p] = 0;
#endif
next:  skip
#ifdef FAULTS
    :: step[p] < LAST -> break /* it dies */
#endif
    :: step[p] == LAST -> break
    od;
    atomic { WRITERS_DONE(p) -> ended[p] = 1; said[p] = ENDED }
}

#ifdef ASYNC
/* The background writers: done at any time after they have begun. */
active proctype writers()
{
end:
    do
    :: atomic { WRITER(1, 0) == WRITING -> WRITER(1, 0) = WRITTEN; DURABLE(1, 0) = 1 }
    :: atomic { WRITER(1, 1) == WRITING -> WRITER(1, 1) = WRITTEN; DURABLE(1, 1) = 1 }
#if ROUNDS == 2
    :: atomic { WRITER(2, 0) == WRITING -> WRITER(2, 0) = WRITTEN; DURABLE(2, 0) = 1 }
    :: atomic { WRITER(2, 1) == WRITING -> WRITER(2, 1) = WRITTEN; DURABLE(2, 1) = 1 }
#endif
    od
}
#endif

/* ---- a node's supervisor ---- */

#define BITS(mask)   (((mask)&1) + (((mask) >> 1) & 1) + (((mask) >> 2) & 1))
#define MINE(i)      (((1 << COUNT(i)) - 1) << FIRST(i))
#define ALL_BEGUN(i) ((begun_or_ended & MINE(i)) == MINE(i))

/* Sends its snapshot: the newest pushes out the oldest that has not been read. */
inline send_status()
{
    if
    :: IS_UP(i) ->
       if :: full(status[i]) -> status[i]?_, _, _, _, _, _, _, _, _ :: nfull(status[i]) fi;
       status[i]!node_round[i], ballot, vote, highest, node_closed[i], BITS(saved), BITS(out),
           saved_step, BITS(begun_or_ended)
    :: !IS_UP(i)
    fi
}

inline set_gate(s, r, d)
{
    gate_step[i] = s;
    gate_round[i] = r;
    gate_decided[i] = d
}
inline lift_gate()
{
#ifndef NEVER_LIFTS
    set_gate(NONE, 0, 0)
#else
    skip
#endif
}
inline lift_if_done()
{
    if :: gate_decided[i] && ALL_BEGUN(i) -> lift_gate() :: else fi
}

inline answer_process(w, r)
{
    answer[w] = (r == ROUNDS -> LEAVE : GO)
}
inline close_round()
{
    node_closed[i] = 1;
    q = FIRST(i);
    do
    :: q < FIRST(i) + COUNT(i) ->
       if :: waiting & (1 << q) -> answer_process(q, node_round[i]) :: else fi;
       q++
    :: else -> break
    od;
    waiting = 0;
    q = 0
}

inline count_saved(w, s)
{
    saved = saved | (1 << w);
    saved_step = (saved_step == NONE || saved_step == (s) -> (s) : MIXED)
}
inline take_report(w)
{
    if
    :: said[w] == SAVED ->
       if
       :: served[w] == node_round[i] && !node_closed[i] ->
          count_saved(w, step[w]);
          waiting = waiting | (1 << w)
#ifdef STALE_SILENT
       :: else -> waiting = waiting | (1 << w)
#else
       :: else -> SHOW(4, true); answer_process(w, served[w]) /* of a closed round */
#endif
       fi;
#ifdef LIFT_AT_FIRST
       lift_gate();
#endif
       begun_or_ended = begun_or_ended | (served[w] == node_round[i] -> 1 << w : 0)
    :: said[w] == ENDED ->
       ended_ones = ended_ones | (1 << w);
       begun_or_ended = begun_or_ended | (1 << w);
       out = out | (saved & (1 << w) -> 0 : 1 << w)
    :: else -> /* SERVING, NOT_SAVED */
       begun_or_ended = begun_or_ended | (served[w] == node_round[i] -> 1 << w : 0);
       out = out | (said[w] == NOT_SAVED && served[w] == node_round[i] -> 1 << w : 0)
    fi;
    said[w] = 0;
    lift_if_done();
    send_status()
}
#ifdef ASYNC
inline take_durable(r, w)
{
    WRITER(r, w) = 0;
    if
#ifdef UNTAGGED
    :: !node_closed[i] ->
#else
    :: r == node_round[i] && !node_closed[i] ->
#endif
       count_saved(w, BEGUN(r, w));
       begun_or_ended = begun_or_ended | (1 << w);
       lift_if_done();
       send_status()
    :: else
    fi
}
#endif

inline enter_round(r)
{
    node_round[i] = r;
    node_closed[i] = 0;
    vote = NO_VOTE;
    ballot = b;
#ifndef STALE_COUNTS
    saved = 0;
    saved_step = NONE;
#endif
    begun_or_ended = ended_ones;
    out = ended_ones
}

#ifdef ACK_LE
#define IS_BELOW(h, s) ((h) <= (s))
#else
#define IS_BELOW(h, s) ((h) < (s))
#endif

#ifdef LOSS
inline end_node(x)
{
    ended[FIRST(x)] = 1;
    ended[FIRST(x) + COUNT(x) - 1] = 1;
    gone[x] = 1 /* last: this stops the process that runs these lines */
}
#endif

/* An order that closes or decides the round. */
inline obey()
{
    if
    :: f == DECIDED -> set_gate(s, r, 1); lift_if_done()
    :: f == COMMITTED -> lift_gate(); close_round()
    :: f == FAILED ->
       SHOW(3, !gate_decided[i] && !ALL_BEGUN(i));
       /* All serve a step that some have saved, also where DECIDED has not been seen. */
#if defined(FAIL_LIFTS)
       lift_gate();
#elif !defined(FAIL_KEEPS)
       set_gate(s, r, 1);
       lift_if_done();
#endif
       close_round()
    :: f == ABORTED -> lift_gate(); close_round()
    fi
}

proctype node(byte i) WHILE(!gone[i])
{
    byte seen; /* the number of the newest order */
    byte ballot, vote, highest;
    byte saved, out, begun_or_ended, ended_ones, waiting; /* bits: its processes */
    byte saved_step = NONE;
    byte r, b, f, s, q; /* the order at hand */
end:
    do
    :: atomic {
           if
           :: order[i]?r, b, f, s
#if BREAKS > 0
           :: i == FAR && nempty(old_order) -> old_order?r, b, f, s
#endif
           fi;
           if
#ifdef ORDER_SEQ_IGNORED
           :: true ->
#else
           :: ORDER_SEQ(r, b, f) > seen ->
#endif
              seen = ORDER_SEQ(r, b, f);
              if :: r != node_round[i] -> enter_round(r) :: else fi;
              if
              :: f == PROPOSED ->
                 ballot = b;
                 vote = NO_VOTE;
                 highest = 0;
                 q = FIRST(i);
#ifndef READ_FIRST
                 set_gate(s, r, 0)
#endif
              :: f != PROPOSED -> obey(); send_status()
              fi
#ifndef ORDER_SEQ_IGNORED
           :: else -> SHOW(5, ORDER_SEQ(r, b, f) < seen); f = IDLE
#endif
           fi;
           if
           :: f == PROPOSED -> r = 0; b = 0; f = 0
           :: f != PROPOSED -> r = 0; b = 0; f = 0; s = 0; goto next
           fi
       };
count: /* the steps, one by one, while the processes run */
       highest = (step[q] > highest -> step[q] : highest);
       atomic {
           q++;
           if
           :: q < FIRST(i) + COUNT(i) -> goto count
           :: q == FIRST(i) + COUNT(i)
           fi;
#ifdef READ_FIRST
           set_gate(s, node_round[i], 0);
#endif
           vote = (IS_BELOW(highest, s) -> ACK : NACK);
           send_status();
           q = 0;
           s = 0
       };
next:  skip
    :: atomic { NODE(0) == i && said[0] -> take_report(0) }
    :: atomic { NODE(1) == i && said[1] -> take_report(1) }
#if P == 3
    :: atomic { NODE(2) == i && said[2] -> take_report(2) }
#endif
#ifdef ASYNC
    :: atomic { NODE(0) == i && WRITER(1, 0) == WRITTEN -> take_durable(1, 0) }
    :: atomic { NODE(1) == i && WRITER(1, 1) == WRITTEN -> take_durable(1, 1) }
#if ROUNDS == 2
    :: atomic { NODE(0) == i && WRITER(2, 0) == WRITTEN -> take_durable(2, 0) }
    :: atomic { NODE(1) == i && WRITER(2, 1) == WRITTEN -> take_durable(2, 1) }
#endif
#endif
#if BREAKS > 0
    :: atomic {
           i == FAR && down ->
           down = 0;
           greet = 1;
#ifndef NO_RESEND
           send_status()
#endif
       }
#endif
#ifdef NODE_LIFTS
    :: atomic { gate_step[i] != NONE && !gate_decided[i] -> lift_gate() }
#endif
#ifdef LOSS
    :: atomic { i == FAR && cut -> end_node(FAR) } /* the chief is lost to it */
    :: atomic { i != FAR && told_to_stop -> end_node(0) }
#endif
    od
}

/* ---- the chief ---- */

inline send_order(i)
{
    if
    :: IS_UP(i) ->
       if :: full(order[i]) -> order[i]?_, _, _, _ :: nfull(order[i]) fi;
       order[i]!round, ballot, phase, save_step
    :: !IS_UP(i)
    fi
}
inline announce(f)
{
    phase = f;
    send_order(0);
#if NODES == 2
    send_order(1)
#endif
}
inline take_status(i)
{
    if
#ifdef STATUS_SEQ_IGNORED
    :: true ->
#else
    :: STATUS_SEQ(r, b, (v > 0) + c + sa + o + be) > seen[i] ->
#endif
       seen[i] = STATUS_SEQ(r, b, (v > 0) + c + sa + o + be);
       vround[i] = r;
       vballot[i] = b;
       vvote[i] = v;
       vclosed[i] = c;
       vsaved[i] = sa;
       vout[i] = o;
       vstep[i] = st;
       vbegun[i] = be;
       highest = (hi > highest -> hi : highest)
#ifndef STATUS_SEQ_IGNORED
    :: else
#endif
    fi;
    r = 0; b = 0; v = 0; hi = 0; c = 0; sa = 0; o = 0; st = 0; be = 0
}

/* Of a node the chief counts only messages of this round, and only votes of this ballot. */
#define IS_FRESH(i) (vround[i] == round && vballot[i] == ballot)
#if defined(OLD_ACKS)
#define HAS_VOTED(i) (vvote[i] == ACK || IS_FRESH(i) && vvote[i] != NO_VOTE)
#elif defined(STALE_VOTE)
#define HAS_VOTED(i) (vvote[i] != NO_VOTE)
#else
#define HAS_VOTED(i) (IS_FRESH(i) && vvote[i] != NO_VOTE)
#endif
#define SAYS_NO(i) (vvote[i] == NACK)
#if defined(ENDED_COUNTS)
#define HAS_SAVED(i) (vround[i] == round && vsaved[i] + vout[i] == COUNT(i))
#elif defined(SOME_SAVED)
#define HAS_SAVED(i) (vround[i] == round && vsaved[i] > 0)
#else
#define HAS_SAVED(i) (vround[i] == round && vsaved[i] == COUNT(i))
#endif
#define SAME_STEP(i)    (vstep[i] == vstep[0] && vstep[i] != MIXED)
#define SAVED_OR_OUT(i) (vround[i] == round && vsaved[i] + vout[i] == COUNT(i))
#define ALL_SAVED       (EACH(HAS_SAVED) && EACH(SAME_STEP))
#if defined(NEXT_EARLY)
#define IS_THROUGH(i) (vround[i] == round && vclosed[i])
#elif defined(NEXT_UNHEARD)
#define IS_THROUGH(i) true
#else
#define IS_THROUGH(i)                                                                              \
    (vround[i] == round && vclosed[i] && (phase == ABORTED || vbegun[i] == COUNT(i)))
#endif
#ifdef LATE_RECORD
#define RECORD_IDLE true
#else
#define RECORD_IDLE (record_due == 0)
#endif
#define MAY_OPEN                                                                                   \
    (!lost && round < ROUNDS && RECORD_IDLE &&                                                     \
     (phase == IDLE || phase >= COMMITTED && EACH(IS_THROUGH)))

#define IS_DURABLE(p) (DURABLE(r, p) && BEGUN(r, p) == due_step[r - 1])
#define NOT_BEGUN(p)  (BEGUN(round, p) == NONE)
/* The record of round r reaches the disk. */
inline write_record(which)
{
    r = which;
    assert(ALL(IS_DURABLE));
    assert(due_step[r - 1] > record);
    record = due_step[r - 1];
    record_due = record_due & ~(1 << r);
    SHOW(6, phase == DECIDED && lost);
    if :: phase == DECIDED && round == r -> announce(COMMITTED) :: else fi;
    r = 0
}

#ifdef FAR_STEP
#define MARGIN 2
#else
#define MARGIN 1
#endif
#define HAS_FAR_TO_GO(p) (!ended[p] && step[p] + 1 < save_step)

proctype chief() WHILE(!chief_gone)
{
    byte ballot, save_step, highest;
    byte record_due; /* bits: rounds whose record is being written */
    byte due_step[ROUNDS];
    short seen[NODES];
    byte vround[NODES], vballot[NODES], vvote[NODES]; /* what the nodes last said */
    byte vsaved[NODES], vout[NODES], vstep[NODES], vbegun[NODES];
    bit vclosed[NODES];
    byte r, b, v, hi, sa, o, st, be; /* the status at hand */
    bit c, lost;
end:
    do
    :: atomic { status[0]?r, b, v, hi, c, sa, o, st, be -> take_status(0) }
#if NODES == 2
    :: atomic { status[1]?r, b, v, hi, c, sa, o, st, be -> take_status(1) }
#endif
#if BREAKS > 0
    :: atomic { old_status?r, b, v, hi, c, sa, o, st, be -> take_status(FAR) }
    :: atomic {
           greet -> greet = 0;
#ifndef NO_RESEND
           send_order(FAR)
#endif
       }
#endif
    :: atomic {
           MAY_OPEN ->
           round++;
           ballot = 1;
           save_step = highest + MARGIN;
           announce(PROPOSED)
       }
    :: atomic {
           phase == PROPOSED && EACH(HAS_VOTED) ->
           if
#ifndef DECIDE_ON_NACK
           :: SOME(SAYS_NO) ->
              assert(highest >= save_step); /* every ballot is higher than the one before */
              ballot++;
              save_step = highest + MARGIN;
              SHOW(2, ballot == 3);
              announce(PROPOSED)
#endif
           :: else ->
              /* The furthest process has one step to go: no lower step is left to revise this one to. */
#ifndef ANY_STEP /* mutants that break this rule on the way to theirs */
              assert(!ALL(HAS_FAR_TO_GO));
#endif
              highest = save_step;
              announce(DECIDED)
           fi
       }
#ifdef CALM /* a loss apart, only what the nodes say moves the round */
#define MAY_GIVE_UP (lost && !(phase == DECIDED && HAS_SAVED(FAR)))
#else
#define MAY_GIVE_UP true
#endif
    :: atomic { /* called off, or out of time, or a node is lost */
#ifdef ABORT_LATE
           phase == DECIDED && MAY_GIVE_UP ->
#else
           phase == PROPOSED && MAY_GIVE_UP ->
#endif
           aborted = aborted | (1 << round);
           assert(ALL(NOT_BEGUN));
           announce(ABORTED)
       }
    :: atomic { /* out of time, or a node is lost */
           phase == DECIDED && MAY_GIVE_UP -> announce(FAILED)
       }
    :: atomic { /* nothing more will come, and it is not enough */
           phase == DECIDED && EACH(SAVED_OR_OUT) && !ALL_SAVED -> announce(FAILED)
       }
    :: atomic {
           phase == DECIDED && !(record_due & (1 << round)) && ALL_SAVED ->
           record_due = record_due | (1 << round);
           due_step[round - 1] = vstep[0]
       }
    :: atomic { record_due & 2 -> write_record(1) }
#if ROUNDS == 2
    :: atomic { record_due & 4 -> write_record(2) }
#endif
#ifdef FAULTS
    :: atomic { /* the write fails */
           record_due ->
           record_due = 0;
           if :: phase == DECIDED -> announce(FAILED) :: else fi
       }
#endif
#ifdef LOSS
    :: atomic { cut && !lost -> lost = 1 } /* silent for too long */
    :: atomic { lost && phase != PROPOSED && phase != DECIDED -> told_to_stop = 1; break }
#endif
    od
}

/* ---- the world ---- */

#if BREAKS > 0
/* The connection breaks: what is in flight is lost, or comes late, over the old connection. */
inline break_link()
{
    down = 1;
    greet = 0;
    if
    :: nempty(order[FAR]) && empty(old_order) ->
       order[FAR]?r, b, f, s;
       old_order!r, b, f, s;
       r = 0; b = 0; f = 0; s = 0
    :: true
    fi;
    if
    :: nempty(status[FAR]) && empty(old_status) ->
       status[FAR]?r, b, f, hi, c, sa, o, s, be;
       old_status!r, b, f, hi, c, sa, o, s, be;
       r = 0; b = 0; f = 0; hi = 0; c = 0; sa = 0; o = 0; s = 0; be = 0
    :: true
    fi;
    do :: order[FAR]?_, _, _, _ :: empty(order[FAR]) -> break od;
    do :: status[FAR]?_, _, _, _, _, _, _, _, _ :: empty(status[FAR]) -> break od
}
active proctype link()
{
    byte r, b, f, s, hi, sa, o, be, breaks;
    bit c;
end:
    do
    :: atomic { breaks < BREAKS && !down -> breaks++; break_link() }
    od
}
#endif

#ifdef LOSS
/* A host or the network between them is lost, at any instant, for good; what is in flight arrives
 * or does not. */
active proctype loss()
{
    atomic {
        down = 1;
        cut = 1;
        if
        :: end_node(FAR)
        :: chief_gone = 1;
#if NODES == 2
           end_node(0)
#endif
        :: skip
        fi;
        if :: order[FAR]?_, _, _, _ :: true fi;
        if :: status[FAR]?_, _, _, _, _, _, _, _, _ :: true fi
    }
}
#endif

init
{
    atomic {
        run process(0);
        run process(1);
#if P == 3
        run process(2);
#endif
        run node(0);
#if NODES == 2
        run node(1);
#endif
        run chief()
    }
}
