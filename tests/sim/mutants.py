#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks one rule of the core at a time, and expects the simulator to find it.

Each mutant is one exact replacement in one source file. The file is compiled anew, linked with the
rest of the simulator, and run until a schedule breaks a promise. A mutant that no schedule catches, or
whose text is not found exactly once, is a failure: either the simulator has become blind, or the rule
has moved and the mutant must follow it. A run that takes too long or crashes catches nothing either.
"""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import time

# name, file, the text of the rule, its replacement
MUTANTS = [
    ("dead-node-waited-for", "src/core/chief/chief.c",
     "else if (event->peer.has_ended && chief_is_awaited(chief, peer))",
     "else if (false && chief_is_awaited(chief, peer))"),
    ("broken-line-is-a-death", "src/core/chief/chief.c",
     "else if (event->peer.has_ended && chief_is_awaited(chief, peer))",
     "else if (chief_is_awaited(chief, peer))"),
    ("ack-at-or-below", "src/core/node/round.c",
     "ranks_steps_of(round->ranks).highest < round->save_step ?",
     "ranks_steps_of(round->ranks).highest <= round->save_step ?"),
    ("ack-always", "src/core/node/round.c",
     "ranks_steps_of(round->ranks).highest < round->save_step ?", "true ?"),
    ("no-wait-at-tentative-gate", "tests/sim/proc.c",
     "if (!gate_is_decided(word)) {", "if (!gate_is_decided(word)) { go_on(w, p); return; } if (0) {"),
    ("save-at-tentative-gate", "tests/sim/proc.c",
     "if (!gate_is_decided(word)) {", "if (0) {"),
    ("no-re-proposal", "src/core/chief/chief_round.c",
     "if (!any_is(chief, FACT_NACK)) {", "if (true) {"),
    ("decide-on-first-vote", "src/core/chief/chief_round.c",
     "if (!all_are(chief, FACT_VOTED))", "if (!any_is(chief, FACT_VOTED))"),
    ("vote-of-any-ballot", "src/core/chief/chief_facts.c",
     "bool is_ballot = is_round && peer->stamp.ballot == chief->gen.ballot;",
     "bool is_ballot = is_round;"),
    ("saves-of-any-round", "src/core/chief/chief_facts.c",
     "bool is_round = chief->gen.round > 0 && peer->stamp.round == chief->gen.round;",
     "bool is_round = chief->gen.round > 0;"),
    ("no-port-for-the-next-generation", "src/core/chief/chief_restart.c",
     "    chief->order.port = out_port(chief->out);", "    "),
    ("commit-before-all-saved", "src/core/chief/chief_round.c",
     "} else if (all_are(chief, FACT_SAVED)) {", "} else if (any_is(chief, FACT_SAVED)) {"),
    ("commit-when-all-served", "src/core/chief/chief_round.c",
     "} else if (all_are(chief, FACT_SAVED)) {", "} else if (all_are(chief, FACT_SERVED)) {"),
    ("gate-not-lifted-after-round", "src/core/node/round.c",
     "    if (gate_is_decided(round->word) && all_have_served(round))\n"
     "        lift_gate(round);", ""),
    ("gate-lifted-by-first-saver", "src/core/node/round.c",
     "if (gate_is_decided(round->word) && all_have_served(round))",
     "if (gate_is_decided(round->word) && count_served(round) > 0)"),
    ("fail-lifts-gate", "src/core/node/round.c",
     "if (round->is_closed && !gate_is_decided(round->word))\n        lift_gate",
     "if (round->is_closed && (round->phase == PHASE_FAILED || !gate_is_decided(round->word)))\n"
     "        lift_gate"),
    ("abort-after-some-decided", "src/core/chief/chief_round.c",
     "    if (any_is(chief, FACT_BAD)) {\n"
     "        chief_give_up(chief, PHASE_FAILED, first_error(chief, text, sizeof text));",
     "    if (!chief->gen.wants_to_end && any_is(chief, FACT_SERVED) && !all_are(chief, FACT_SERVED)) {\n"
     '        chief_close_round(chief, PHASE_ABORTED, "mutant");'),
    ("abort-not-obeyed", "src/core/node/round.c",
     "if (round->is_closed && !gate_is_decided(round->word))\n        lift_gate",
     "if (round->is_closed && round->phase != PHASE_ABORTED &&"
     " !gate_is_decided(round->word))\n        lift_gate"),
    ("steps-before-gate", "src/core/node/round.c",
     "    set_gate(round, word_of(round, false));\n"
     "    out_simple(round->out, ACT_READ_STEPS);",
     "    out_simple(round->out, ACT_READ_STEPS);"),
    ("stale-save-not-answered", "src/core/node/round.c",
     "    else\n        answer_waits(round);\n}", "}"),
    ("no-answer-at-close", "src/core/node/round.c",
     "        else if (is_over)\n", "        else if (is_over && is_own)\n"),
    ("next-round-early", "src/core/chief/chief_round.c",
     "(chief->order.phase == PHASE_ABORTED || all_are(chief, FACT_SERVED)));", "true);"),
    ("next-round-before-close", "src/core/chief/chief_round.c",
     "(all_are(chief, FACT_CLOSED) &&", "(true &&"),
    ("process-forgets-round", "tests/sim/proc.c",
     "p->served_tag = gate_tag(word);", "p->served_tag = 0;"),
    ("look-not-sent", "src/core/node/round.c",
     "out_proc(round->out, m->slot, &(struct procmsg){.type = PROCMSG_LOOK});\n    }\n}", "    }\n}"),
    ("waiting-not-compared", "src/core/node/round.c",
     "if (msg->word != round->word)", "if (0)"),
    ("heartbeat-not-answered", "src/core/chief/chief.c",
     "    if (s->wants_reply)\n        chief_send_order(chief, peer->at.conn, msg->stamp.seq);", ""),
    ("who-waits-is-not-held", "src/core/chief/chief.c", "        chief_hold_duplicates(chief);\n", "        ;\n"),
    ("no-reconnection", "src/core/node/uplink.c",
     "    if (!u->is_given_up) /* at once after a WELCOME: most often only the connection broke */\n"
     "        u->retry_at = u->out->now + (u->is_welcome ? 0 : u->backoff);", ""),
    ("broken-line-is-a-loss", "src/core/chief/chief.c",
     "    peer->down_at = peer->went_at = chief->out->now;\n",
     "    peer->down_at = peer->went_at = chief->out->now;\n"
     '    if (chief->order.start)\n        chief_lose(chief, peer, "mutant");\n'),
    ("absence-not-forgiven", "src/core/core.c",
     "    if (core->is_chief)\n        chief_forgive(&core->chief);", ""),
    ("absence-of-chief-not-forgiven", "src/core/core.c", "    node_forgive(&core->node, away);\n", ""),
    ("leave-with-processes", "src/core/node/node.c",
     "if (node->may_leave && node->state == NODE_LEAVING)", "if (node->may_leave)"),
    ("no-ladder", "src/core/node/node_end.c",
     "        ladder_start(&node->gen.ladder, ending->manner, sig, now, deadline);", "        ;"),
    ("ladder-catches-up", "src/core/node/ladder.c", "    put_off(ladder, now - ret->at);\n", ""),
    ("no-sweep", "src/core/node/node_end.c", "    ladder_sweep(&node->gen.ladder, node->out->now, node_deadline(node));", ""),
    ("no-sweep-while-stopping", "src/core/node/node_end.c",
     "node->state > NODE_STOPPING)", "node->state > NODE_RUNNING)"),
    ("wanted-leftovers-waited-for", "src/core/node/node_end.c",
     "!node->is_tree_empty && node->params->leftovers == LEFTOVERS_KILL;", "!node->is_tree_empty;"),
    ("wanted-leftovers-signalled", "src/core/node/node_children.c",
     "return leaves && rung->target == TARGET_TREE ? TARGET_CHILDREN : rung->target;",
     "return rung->target;"),
    ("late-notice-preempts", "src/core/chief/chief.c",
     "(!chief->notice.is_live || all_are(chief, FACT_DONE) || has_returned)",
     "(all_are(chief, FACT_DONE) || has_returned)"),
    ("end-told-before-notice", "src/core/node/node_status.c", " || node->gen.notice_wants_steps ||", " ||"),
    ("end-told-before-goodbye", "src/core/node/node_end.c",
     "return node_settles_at(node) != CLOCK_NEVER || node->gen.end_wants_steps;", "return false;"),
    ("silence-is-success", "src/core/node/node_procs.c",
     "    round_ended(&node->gen.round);\n    node_judge_silence(node);\n    node->is_dirty = true;",
     "    round_ended(&node->gen.round);\n    node->is_dirty = true;"),
    ("who-stays-attached-is-a-success", "src/core/node/node_procs.c",
     "if (stays || (ranks_is_silent(m)", "if ((ranks_is_silent(m)"),
    ("silence-judged-too-early", "src/core/node/node_children.c",
     "    node_judge_silence(node);\n    node_sweep_if_last(node);", "    node_sweep_if_last(node);"),
    ("goodbye-is-silence", "src/core/node/node_procs.c", "    m->is_closed = m->status == 0;", ""),
    ("goodbye-not-taken", "src/core/node/node_procs.c",
     "    ranks_gone(&node->gen.ranks, m, msg->step);", ""),
    ("goodbye-with-a-failure-is-success", "src/core/node/node_procs.c",
     "    m->is_closed = m->status == 0;", "    m->is_closed = true;"),
    ("completed-after-notice", "src/core/chief/chief.c",
     "    if (chief->notice.is_live && !chief->gen.is_trained)\n        chief_stop", "    if (0)\n        chief_stop"),
    ("done-without-the-last-save-is-preempted", "src/core/chief/chief_order.c",
     "chief->gen.wants_to_end && !all_are(chief, FACT_DONE);", "chief->gen.wants_to_end;"),
    ("done-and-swept-too-late", "src/core/chief/chief.c",
     "(!chief->notice.is_live || all_are(chief, FACT_DONE) || has_returned)", "!chief->notice.is_live"),
    ("trained-again-after-a-return", "src/core/node/node_status.c",
     "(m->has_returned && !may_have_left)", "false"),
    ("returned-without-attaching-is-preempted", "src/core/chief/chief.c",
     "all_are(chief, FACT_DONE) || has_returned);", "all_are(chief, FACT_DONE));"),
    ("own-handler-is-a-return", "src/core/node/node_status.c",
     "bool may_have_left = !m->is_shielded &&", "bool may_have_left = false &&"),
    ("success-of-one-is-enough", "src/core/chief/chief.c",
     "if (!all_are(chief, FACT_FINISHED) ||", "if (!any_is(chief, FACT_FINISHED) ||"),
    ("loss-undoes-saved-round", "src/core/chief/chief_loss.c",
     "!peer_is(&chief->peers[i], FACT_SAVED))\n            return true;",
     "true)\n            return true;"),
    ("loss-ignored", "src/core/chief/chief.c", "if (chief_losses_matter(chief)) {", "if (0) {"),
    ("own-saves-of-some", "src/core/common/ranks.c",
     "        if (!ranks_has_own(&ranks->members[i], step))\n            return false;", ""),
    ("offer-not-held", "src/core/node/round.c", ".own = offered_own(round)", ".own = 0"),
    ("offer-taken-back-unheard", "src/core/node/round.c",
     "return round->prepared_own > told_over(round) ?", "return round->prepared_own > own_over(round) ?"),
    ("passed-over-while-it-is-committed", "src/core/chief/chief_round.c",
     " && chief->writing == COMMIT_NOTHING)\n        close_own", ")\n        close_own"),
    ("record-lets-go-while-all-leave", "src/core/node/round.c", "round->leaves || round->out->broken", "round->out->broken"),
    ("own-saves-at-different-steps", "src/core/chief/chief_round.c", "    if (own.lowest == own.highest && own.lowest != chief->gen.own_failed) {",
     "    if (1) {"),
    ("bad-record-is-a-commit", "src/core/chief/chief_round.c",
     "    if (bad)\n        chief_give_up(chief, PHASE_FAILED, bad->text);\n    else\n"
     "        committed_round(chief);",
     "    chief->order.commit_step = chief->writing_step;\n    committed_round(chief);"),
    ("commit-without-waiting-for-disk", "src/core/chief/chief_round.c",
     "    chief->writing_step = step;",
     "    chief->writing_step = step;\n    chief->order.commit_step = step;\n"
     "    chief->is_changed = true;"),
    ("stride-ignored", "src/core/chief/chief_round.c",
     "uint64_t step = stride_up(chief->gen.stride, least);", "uint64_t step = least;"),
    ("claim-refused-at-once", "src/core/chief/chief_join.c",
     "    peer->duplicate = *caller;\n", "    refuse_as_twin(chief, peer, caller);\n    return;\n"),
    ("claim-replaces", "src/core/chief/chief_join.c",
     "(!chief->order.start && !peer_is(peer, FACT_JOINED));", "true;"),
    ("claim-is-a-loss", "src/core/chief/chief_join.c",
     "    peer->duplicate = *caller;\n",
     "    peer->duplicate = *caller;\n    chief_set_fact(chief, peer, FACT_LOST, true);\n"),
    ("claim-not-refused", "src/core/chief/chief.c", "    chief_refuse_duplicate(chief, peer);\n", ""),
    ("claim-not-told-the-end", "src/core/chief/chief.c",
     "        chief_tell_duplicate(chief, &chief->peers[i]);\n", ""),
    ("commit-of-who-was-replaced-only-fails", "src/core/node/node.c",
     "    [EV_COMMITTED] = {node_on_committed, ALIVE, \"commit written\"},\n", ""),
    ("save-of-who-was-replaced-only-fails", "src/core/node/node_procs.c",
     "    node_judge_record(node, event->unwritten);\n    round_prepared",
     "    round_prepared"),
    ("what-was-heard-before-the-end-is-forgotten", "src/core/node/node.c", "        node_tell_final(node);\n", ""),
    ("who-is-replaced-while-it-stops-is-preempted", "src/core/chief/chief_fault.c",
     "return chief_is_restarting(chief) || gives_way;", "return chief_is_restarting(chief);"),
    ("replaced-while-it-stops-is-not-told", "src/core/node/node_cause.c",
     "(node->state > NODE_RUNNING && verdict_gives_way(node->gen.end.outcome));", "false;"),
    ("who-was-replaced-is-preempted", "src/core/chief/chief_fault.c",
     "chief->gen.was_preempted && fault != FAULT_REPLACED &&", "chief->gen.was_preempted &&"),
    ("stop-hides-what-failed-before", "src/core/chief/chief_fault.c",
     "is_final(told) ? &chief->gen.finals : &chief->gen.causes", "&chief->gen.causes"),
    ("stop-is-a-failure", "src/core/chief/chief_fault.c",
     "    if (fault == FAULT_STOPPED)\n        return OUTCOME_STOPPED;\n", ""),
    ("stop-is-forgotten-between-two-generations", "src/core/node/node_end.c",
     "    node_enter(node, NODE_WAITING);\n    node_tell_final(node);", "    node_enter(node, NODE_WAITING);"),
    ("stop-not-told", "src/core/node/node_notice.c",
     "    node_tell_final(node);\n    if (!node->uplink.was_welcome)\n        node_stop_alone(node, OUTCOME_STOPPED",
     "    if (!node->uplink.was_welcome)\n        node_stop_alone(node, OUTCOME_STOPPED"),
    ("late-nodes-not-told-of-notice", "src/core/chief/chief.c",
     "            return chief->tell_until;\n    return CLOCK_NEVER;", "            break;\n    return CLOCK_NEVER;"),
    ("no-deadline", "src/core/chief/chief_notice.c",
     "    } else if (chief->out->now >= chief_abort_at(chief)) {", "    } else if (0) {"),
    ("last-save-too-late", "src/core/chief/chief_plan.c",
     "int64_t last = time_for_last(chief, steps, save) + expected_agreement(chief);", "int64_t last = 0;"),
    ("last-save-too-early", "src/core/chief/chief_plan.c",
     "chief->notice.final_at = chief->notice.deadline - grace_reserve(grace_of(chief)) - last;",
     "chief->notice.final_at = chief->notice.deadline - last - 20 * NS_PER_S;"),
    ("save-time-not-measured", "src/core/chief/chief_plan.c",
     "    chief->save_ns = chief_save_time(chief, true);", ""),
    ("no-first-save", "src/core/chief/chief_notice.c",
     "    else if (chief_first_is_due(chief))", "    else if (false)"),
    ("save-step-far-ahead", "src/core/chief/chief_round.c",
     "uint64_t least = highest < chief->gen.least_step ? chief->gen.least_step : highest + 1;",
     "uint64_t least = highest < chief->gen.least_step ? chief->gen.least_step : highest + 20;"),
    ("last-save-given-up-early", "src/core/chief/chief_plan.c",
     "        kept = clock_min(kept, needed);", "        kept = 3 * NS_PER_S;"),
    ("leaves-after-first-save", "src/core/chief/chief_plan.c",
     "return (chief->params->trains_on || is_plan) && chief->notice.hurry",
     "return false && chief->notice.hurry"),
    ("withdrawn-notice-holds", "src/core/common/grace.c",
     "(!notice->id[0] || str_is(n->label.id, notice->id)))\n            take_out(grace, n);",
     "(!notice->id[0] || str_is(n->label.id, notice->id)))\n            ;"),
    ("withdrawn-by-another-id", "src/core/common/grace.c",
     "(!notice->id[0] || str_is(n->label.id, notice->id))", "true"),
    ("later-deadline-wins", "src/core/common/grace.c",
     "n->deadline < grace->notices[first].deadline", "n->deadline > grace->notices[first].deadline"),
    ("first-heard-stays-the-cause", "src/core/chief/chief_fault.c",
     "    if (cause_is_same(first, &chief->gen.cause))\n        return;", "    return;"),
    ("clocks-are-not-compared", "src/core/common/cause.c",
     "return told->error_ns >= 0 && told->at_ns < latest ? told->at_ns : latest;", "return latest;"),
    ("crash-counts-when-it-is-seen", "src/core/common/cause.c",
     "is_crash(fault, code) ? at - CRASH_LAG_NS : at;", "at;"),
    ("clocks-are-taken-for-equal", "src/core/node/uplink.c", "*ret_theirs = ours + sample->offset;",
     "*ret_theirs = ours;"),
    ("way-back-not-counted", "src/core/node/uplink.c", ".offset = theirs - (sent + half), .error = half + 1};",
     ".offset = theirs - sent, .error = half + 1};"),
    ("code-of-the-first-heard", "src/core/node/node_cause.c", "        end->exit_code = ending->exit_code;", ""),
    ("cause-told-when-all-leave", "src/core/chief/chief_fault.c", "if (chief->order.end != END_STOP ||",
     "if (chief->order.end != END_LEAVE ||"),
    ("said-before-does-not-count", "src/core/node/node_cause.c",
     "((fault->is_told || fault->was_dead) && at < node->gen.stopped_at);", "false;"),
    # A failure by our own signal has no mutant here: test_core_death has its cases, and 160,000 schedules told nothing.
    ("a-jump-makes-the-next-step-slow", "src/core/chief/chief.c",
     "peer->rate <= 0 || most < peer->rate;", "peer->rate <= 0 || rate < peer->rate;"),
    ("waits-for-the-furthest-rank-twice", "src/core/chief/chief_plan.c",
     "int64_t step = time_of_step(chief, false);", "int64_t step = time_of_step(chief, true);"),
    ("killed-by-another-is-ours", "src/core/node/node_children.c", "child->status == SIGKILL && !node->gen.has_killed", "false"),
    ("death-told-at-the-end", "src/core/node/node_children.c",
     "    record_death(node, event->child.index, NULL);\n", ""),
    ("died-when-its-end-was-told", "src/core/node/node_cause.c",
     "timed.wall = known->wall - (known->at - timed.at);", "timed.wall = node->out->wall;"),
    ("who-misses-a-node-is-the-cause", "src/core/chief/chief_fault.c",
     "        chief_tell_loss(chief, follows_until(chief, first)))", "        0)"),
    ("put-off-is-not-believed", "src/core/chief/chief.c",
     "if (s->has_notice && s->notice_version == peer->notice_version &&", "if (s->has_notice &&"),
    ("barrier-of-one-node", "src/core/chief/chief_restart.c",
     "return all_are(chief, FACT_GONE) &&", "return any_is(chief, FACT_GONE) &&"),
    ("restart-before-the-commit-is-written", "src/core/chief/chief_restart.c",
     "return all_are(chief, FACT_GONE) && chief->writing == COMMIT_NOTHING;",
     "return all_are(chief, FACT_GONE);"),
    ("restart-before-the-record-is-written", "src/core/node/node_end.c",
     "(has_attached || node->gen.round.is_writing)", "has_attached"),
    ("restart-before-all-have-hung-up", "src/core/node/node_end.c",
     "bool has_attached = node->gen.ranks.nconnected > 0 ||", "bool has_attached = "),
    ("restart-before-all-counters-have-hung-up", "src/core/node/node_end.c",
     "node->gen.ranks.nconnected > 0 || node->gen.ranks.ncounting > 0;", "node->gen.ranks.nconnected > 0;"),
    ("counters-are-not-watched", "src/core/common/watchdog.c",
     "        if (!is_watched(m))\n", "        if (!is_watched(m) || m->is_counter)\n"),
    ("counters-are-ranks", "src/core/node/node_procs.c",
     "bool counts = event->proc.msg->flags & PROCMSG_FLAG_COUNTS;\n    struct member", "bool counts = false;\n    struct member"),
    ("restart-with-the-last-round", "src/core/node/node_end.c",
     "    memset(&node->gen, 0, sizeof node->gen);\n    node_begin_generation(node);\n",
     "    struct round last = node->gen.round;\n    memset(&node->gen, 0, sizeof node->gen);\n"
     "    node_begin_generation(node);\n    node->gen.round = last;\n"),
    ("restart-behind-a-closed-gate", "src/core/node/node_end.c", ".gate = GATE_OPEN", ".gate = gate_leave()"),
    ("status-of-the-last-generation", "src/core/chief/chief.c",
     "msg->stamp.generation != chief->generation ||", ""),
    ("gone-before-it-hears-of-the-end", "src/core/chief/chief_order.c", "    await_all(chief);\n", ""),
    ("restart-over-what-is-left", "src/core/chief/chief_restart.c",
     "} else if (any_is(chief, FACT_LEFT)) {", "} else if (false) {"),
    ("one-restart-too-many", "src/core/chief/restart.c", "r->n >= p->max", "r->n > p->max"),
    ("goes-on-before-the-notice-is-over", "src/core/chief/chief_restart.c",
     "bool waits = chief->gen.waits_for_notice && chief->notice.is_live;", "bool waits = false;"),
    ("what-repeats-is-restarted", "src/core/chief/restart.c", "else if (f->repeats[0])", "else if (false)"),
    ("what-repeats-and-is-heard-late-is-restarted", "src/core/chief/chief_restart.c",
     "} else if (is_final_after_all(chief, because, sizeof because)) {", "} else if (false) {"),
    ("no-restart", "src/core/chief/restart.c",
     "    if (r->policy->max == 0)\n        return false;", "    return false;"),
    ("hang-while-one-moves", "src/core/chief/chief_hang.c",
     "bool stands = !any_is(chief, FACT_MOVES) &&", "bool stands ="),
    ("hang-never-found", "src/core/common/watchdog.c",
     "is_over(now - view.still_ns, view.limit_ns, now) ? MOTION_STANDS", "false ? MOTION_STANDS"),
    ("hang-names-who-waits", "src/core/common/watchdog.c",
     "return a->stand.step < b->stand.step;", "return a->stand.step > b->stand.step;"),
    ("hang-names-a-node-that-waits", "src/core/chief/chief_hang.c",
     "return a->behind_step < b->behind_step;", "return a->behind_step > b->behind_step;"),
    ("one-limit-for-all-phases", "src/core/common/watchdog.c",
     "int64_t limit = limit_of(dog, m, phase);\n        view.limit", "int64_t limit = limit_of(dog, m, PAGE_TRAIN);\n        view.limit"),
    ("a-rank-that-gave-up-is-named", "src/core/common/watchdog.c",
     "!m->is_ended && !m->gave_up &&", "!m->is_ended &&"),
    ("a-rank-that-gave-up-has-failed", "src/core/chief/chief_fault.c",
     "fault == FAULT_GAVE_UP ? OUTCOME_HANG", "false ? OUTCOME_HANG"),
    ("an-abort-after-its-time-is-a-failure", "src/core/node/node_children.c",
     "m->gave_up || watchdog_waited_out(", "m->gave_up || false & watchdog_waited_out("),
    ("debugged-is-stuck", "src/core/common/watchdog.c",
     "    if (event->examined.is_traced)\n", "    if (0)\n"),
    ("stopped-holds-for-ever", "src/core/common/watchdog.c",
     "    if (event->examined.is_traced)\n", "    if (pid)\n"),
    ("bell-not-hung", "src/core/node/round.c", "    round->bell = order->bell;\n", ""),
    ("bell-not-taken-away", "src/core/node/round.c", "        round->rung = round->bell;\n", ""),
    ("bell-rings-too-late", "src/core/chief/chief_period.c",
     "return due > early ? due - early : 1;", "return due + 100;"),
    ("period-not-counted-from-commit", "src/core/chief/chief_round.c",
     "        chief_count_anew(chief, chief->writing_step);\n", ""),
    ("period-not-begun", "src/core/chief/chief_roster.c", "        chief_begin_period(chief);\n", ""),
    ("nobody-wakes-for-the-period", "src/core/chief/chief_period.c",
     "return waits ? chief->gen.period.from_at + chief->every_ns : CLOCK_NEVER;",
     "return CLOCK_NEVER;"),
    ("chosen-period-is-not-kept", "src/core/chief/chief_period.c",
     "return waits ? chief->gen.period.from_at + chief->every_ns : CLOCK_NEVER;",
     "return waits ? chief->gen.period.from_at + chief->params->every_ns : CLOCK_NEVER;"),
    ("period-above-the-longest", "src/core/chief/interval.c",
     "return best < least ? least : clock_min(best, most);", "return best < least ? least : best;"),
    ("period-below-the-shortest", "src/core/chief/interval.c",
     "return best < least ? least : clock_min(best, most);", "return clock_min(best, most);"),
    ("shell-takes-its-ranks-along", "src/core/node/node_children.c",
     "    if (leaves_ranks(node, child->status)) {", "    if (false) {"),
    ("who-left-never-ends", "src/core/node/node_children.c",
     "    if (at != CLOCK_NEVER && !may_end_by_themselves(node))\n        return node->out->now;\n"
     "    return node_notice_is_near(node) ? CLOCK_NEVER : at;", "    return CLOCK_NEVER;"),
    ("preempted-before-the-first-step-counts", "src/core/chief/chief.c",
     "    if (chief_is_uncounted(chief))\n", "    if (false)\n"),
    ("preempted-later-does-not-count", "src/core/chief/chief_order.c",
     "verdict_is_preempted(outcome) && !chief->has_stepped &&", "verdict_is_preempted(outcome) &&"),
    ("repeated-notice-ends-the-job", "src/core/common/grace.c",
     "n->type == NOTICE_TERMINATE && !n->is_served && !n->is_repeated;",
     "n->type == NOTICE_TERMINATE && !n->is_served;"),
    ("repeated-notice-is-not-saved-for", "src/core/node/node_notice.c",
     "is near: save and go on\");\n    ask_for_save(node);", "is near: save and go on\");"),
    ("standing-notice-ends-the-start", "src/core/chief/chief_start.c",
     "} else if (chief_notice_is_near(chief)) {", "} else if (chief->notice.is_live) {"),
    ("far-notice-makes-a-failure-a-preemption", "src/core/chief/chief_fault.c",
     "chief->gen.was_preempted = chief_notice_is_near(chief);",
     "chief->gen.was_preempted = chief->notice.is_live;"),
    ("far-notice-forbids-a-restart", "src/core/chief/chief_fault.c",
     "!chief_notice_is_near(chief) && !any_is(chief, FACT_INTER",
     "!chief->notice.is_live && !any_is(chief, FACT_INTER"),
    ("far-notice-hides-a-hang", "src/core/chief/chief_hang.c",
     "if (!stands || chief_notice_is_near(chief)) {", "if (!stands || chief->notice.is_live) {"),
    ("notice-from-before-the-start-is-judged-late", "src/core/chief/chief_notice.c",
     "is_judged = !chief->order.start;", "is_judged = false;"),
    ("standing-notice-has-nothing-to-save", "src/core/chief/chief_plan.c",
     "return until != CLOCK_NEVER &&", "return false &&"),
    ("one-save-ends-a-standing-notice", "src/core/chief/chief_plan.c",
     "(chief->params->trains_on || is_plan)", "chief->params->trains_on"),
    # These are caught where the core asserts the promise.
    ("gate-above-the-step-of-the-vote", "src/core/node/round.c",
     "    set_gate(round, word_of(round, false));", "    set_gate(round, word_of(round, false) + 1);"),
    ("tentative-gate-lifted-by-any-order", "src/core/node/round.c",
     "if (round->is_closed && !gate_is_decided(round->word))\n        lift_gate",
     "if (!gate_is_decided(round->word))\n        lift_gate"),
    ("commit-without-this-node's-record", "src/core/chief/chief_facts.c",
     "is_round && is_all && (s->prepared || s->expected == 0) && !s->mismatch);",
     "is_round && is_all && !s->mismatch);"),
    ("success-before-all-have-ended", "src/core/chief/chief.c",
     "if (!all_are(chief, FACT_FINISHED) ||", "if (!all_are(chief, FACT_ENDED) ||"),
    ("ends-with-code-0", "src/core/node/node_end.c",
     "    node->gen.end = *ending;\n", "    node->gen.end = *ending;\n    node->gen.end.exit_code = 0;\n"),
    ("leaves-before-its-processes", "src/core/node/node_end.c",
     "(has_more && !node->gen.has_given_up))", "false)"),
    ("mute-chief-waited-for", "src/core/node/node_notice.c",
     "int64_t at = deadline - grace_margin(deadline - g->at) / 2;", "int64_t at = CLOCK_NEVER;"),
    ("mute-node-waited-for", "src/core/chief/chief_loss.c",
     "    return at > mute ? at : mute;", "    return CLOCK_NEVER;"),
    ("a-save-and-the-end-is-forgotten", "src/core/chief/chief_order.c",
     "    return any_is(chief, FACT_STOPS) &&\n", "    return false && any_is(chief, FACT_STOPS) &&\n"),
    ("trains-on-while-it-saves-for-the-end", "src/core/chief/chief_round.c",
     "chief->order.ends_run = chief->gen.wants_to_end || any_is(chief, FACT_STOPS);",
     "chief->order.ends_run = chief->gen.wants_to_end;"),
    ("saves-for-the-end-and-goes-on", "src/core/chief/chief_round.c",
     "chief->gen.wants_to_end || is_due || any_is(chief, FACT_STOPS);", "chief->gen.wants_to_end || is_due;"),
]

# For mutants that few schedules catch: a seed a little before such a schedule, so that thousands need not run in vain.
# If the schedules have changed, any other seed is as good.
BEGIN_AT = {
    "waits-for-the-furthest-rank-twice": 77000325000,
    "a-jump-makes-the-next-step-slow": 55000062400,
    "gone-before-it-hears-of-the-end": 31416674600,
    "done-without-the-last-save-is-preempted": 31415951900,
    "what-was-heard-before-the-end-is-forgotten": 7310002400,
    "who-waits-is-not-held": 7755900,
    "mute-chief-waited-for": 426800,
    "replaced-while-it-stops-is-not-told": 189700,
    "notice-from-before-the-start-is-judged-late": 131200,
    "stop-is-forgotten-between-two-generations": 42000,
    "one-save-ends-a-standing-notice": 28800,
    "status-of-the-last-generation": 23000,
    "standing-notice-ends-the-start": 22400,
    "end-told-before-notice": 22300,
    "mute-node-waited-for": 22200,
    "abort-not-obeyed": 21800,
    "a-rank-that-gave-up-is-named": 20100,
    "offer-taken-back-unheard": 18700,
    "passed-over-while-it-is-committed": 18700,
    "end-told-before-goodbye": 17700,
    "late-notice-preempts": 17000,
    "stale-save-not-answered": 12300,
    "period-below-the-shortest": 11300,
    "repeated-notice-is-not-saved-for": 10700,
    "what-repeats-and-is-heard-late-is-restarted": 9000,
    "bell-not-taken-away": 8900,
    "later-deadline-wins": 8200,
    "restart-before-the-commit-is-written": 5800,
    "record-lets-go-while-all-leave": 5300,
    "own-handler-is-a-return": 3900,
    "who-misses-a-node-is-the-cause": 3000,
    "claim-not-refused": 2900,
    "who-is-replaced-while-it-stops-is-preempted": 2900,
    "stop-hides-what-failed-before": 2900,
    "dead-node-waited-for": 2700,
    "loss-undoes-saved-round": 2600,
    "stopped-holds-for-ever": 2400,
    "completed-after-notice": 2300,
    "clocks-are-not-compared": 2300,
    "chosen-period-is-not-kept": 2200,
    "period-above-the-longest": 2200,
    "nobody-wakes-for-the-period": 2100,
    "an-abort-after-its-time-is-a-failure": 2000,
    "claim-not-told-the-end": 1900,
    "restart-before-all-counters-have-hung-up": 1800,
    "ladder-catches-up": 1500,
    "what-repeats-is-restarted": 1300,
    "debugged-is-stuck": 1200,
    "last-save-too-late": 1000,
    "last-save-too-early": 1000,
    "withdrawn-notice-holds": 1000,
    "put-off-is-not-believed": 1000,
    "claim-refused-at-once": 900,
    "who-was-replaced-is-preempted": 900,
    "late-nodes-not-told-of-notice": 900,
    "absence-not-forgiven": 700,
    "absence-of-chief-not-forgiven": 700,
}

# These mutants break no promise, or too seldom. The list has the reason, so that no one is added again.
#   commit-round-ends-run-late: only the time of the training's end differs
#   no-order-on-return, no-status-on-return: the next heartbeat brings both; this only takes longer
#   old-order-obeyed, old-status-believed: numbers of rounds and ballots, which only rise, say the same
#   round-aborted-at-the-end: the order that closes it also ends the job, so no gate is lifted
#   record-of-another-round: one schedule in 60,000 opens a round while a record is written; a unit
#       test does
#   left-before-the-ladder: a node must have stood still for a minute while it stops; a unit test does
#   ladder-misses-who-starts: one schedule in 70,000 stops a node in that instant; a unit test does
#   hang-under-a-notice, hang-not-looked-at-again: the nodes check the same as the chief
#   hang-by-one-node's-clock: one schedule in 100,000 has a rank that waited for another one
#       and is now to move itself; a unit test does
#   any-death-in-the-end-counts: the first failure has ended the job, and is still named
#   period-of-who-does-not-train: a save without any training breaks no promise; a process
#       test does
#   stopped-is-not-named: here the others come further than a stopped rank; a unit test does
#   dead-command-is-stuck, watchdog-looks-once: a failure, or another read of the steps, comes before it
#   decided-save-is-given-up: one schedule in 40,000 and more has a death beside a loss just then
#   shell-is-not-waited-for: its processes end by themselves or of SIGTERM, and both count; a unit test does
#   what-was-asked-is-a-return, short-of-the-last-step-is-a-return: a rank that leaves while it is asked,
#       or early, has trained enough here; unit tests do
#   done-and-saved-is-preempted: one schedule in 100,000 commits the last save when every rank has ended;
#       a unit test does
#   asked-when-it-is-too-late: the job ends at the deadline all the same; a unit test does
#   examination-waited-for: an examination ends by itself within a minute; a unit test does
#   record-outlives-the-deadline: the chief no longer wakes for a time that has passed; a unit test does
#   older-save-not-answered: the round that is open by then answers it, as it answers an own save
#   others-get-no-time-to-give-up: one schedule in 100,000 and more names another rank; a unit test does
#   timeout-aborts-decided-round: by then every node has seen the decision, and keeps its gate


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", default=pathlib.Path(__file__).resolve().parents[2],
                        type=pathlib.Path, help="the project's folder")
    parser.add_argument("--build", required=True, type=pathlib.Path, help="a folder for the results")
    parser.add_argument("--seeds", default=60000, type=int, help="schedules per mutant (default %(default)s)")
    parser.add_argument("--only", metavar="NAME", help="this mutant alone, with the trace of its end")
    return parser.parse_args()


# A busy machine may need long for all the schedules of a mutant that is not caught.
RUN_LIMIT_S = 400
# The exit code of pchrun-sim for a broken promise.
BREAKS_PROMISE = 1

# Most of the time goes to the compiler: -O2 takes twice as long, and the programs are no faster.
CFLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-w", "-c"]


def compile_file(options, path, target):
    subprocess.run([os.environ.get("CC", "cc"), *CFLAGS, f"-I{options.source}/src",
                    f"-I{options.source}/tests/sim", str(path), "-o", str(target)], check=True)
    return target


def objects(options):
    """The unchanged simulator, by source file."""
    names = [path for folder in ("src/core", "src/wire", "src/base", "tests/sim")
             for path in sorted((options.source / folder).rglob("*.c"))]
    made = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {}
        for path in names:
            name = str(path.relative_to(options.source))
            target = options.build / (name.replace("/", "_") + ".o")
            jobs[name] = pool.submit(compile_file, options, path, target)
        for name, job in jobs.items():
            made[name] = job.result()
    return made


def link_and_run(options, name, files, seeds):
    program = options.build / f"sim-{name}"
    subprocess.run([os.environ.get("CC", "cc"), *map(str, files), "-o", str(program)], check=True)
    command = [str(program), "--from", str(BEGIN_AT.get(name, 1)), "--seeds", str(seeds)]
    if not options.only:
        command.append("--quiet")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S)
        return done.returncode, done.stdout or f"the run ended with {done.returncode}"
    except subprocess.TimeoutExpired:
        return None, f"the run took more than {RUN_LIMIT_S} s; let it begin nearer to a schedule (BEGIN_AT)"
    finally:
        program.unlink()


def run_mutant(options, made, mutant):
    """Returns the name, whether the mutant was caught, a text about it, and the seconds that it took."""
    name, file, old, new = mutant
    started = time.monotonic()
    text = (options.source / file).read_text()
    if text.count(old) != 1:
        return name, None, f"its text occurs {text.count(old)} times in {file}, must be once", 0
    changed = options.build / f"{name}.c"
    changed.write_text(text.replace(old, new))
    files = dict(made)
    files[file] = compile_file(options, changed, options.build / f"{name}.o")
    code, output = link_and_run(options, name, files.values(), options.seeds)
    text = output.strip()
    return name, code == BREAKS_PROMISE, text if options.only else text.splitlines()[0], time.monotonic() - started


def main():
    options = arguments()
    options.build.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    made = objects(options)
    # Checks only that the simulator runs; another test checks that every promise holds.
    code, output = link_and_run(options, "unchanged", made.values(), 1000)
    if code != 0:
        print(f"the unchanged core fails:\n{output}")
        return 1
    chosen = [m for m in MUTANTS if options.only in (None, m[0])]
    missed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, caught, text, took in pool.map(lambda m: run_mutant(options, made, m), chosen):
            missed += not caught
            print(f"{'caught' if caught else 'MISSED'}  {took:4.1f} s  {name}: {text}", flush=True)
    print(f"{len(chosen) - missed} mutants caught, {missed} missed, "
          f"{time.monotonic() - started:.0f} s")
    return missed != 0


if __name__ == "__main__":
    sys.exit(main())
