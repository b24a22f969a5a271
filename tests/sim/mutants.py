#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks one rule of the core at a time, and expects the simulator to find it.

Each mutant is one replacement in one function. The file is compiled anew, linked with the
rest of the simulator, and run until a schedule breaks a promise. A mutant that no schedule catches, or
whose expression does not occur exactly once in its function, is a failure: either the simulator has become blind, or
the rule has moved and the mutant must follow it. A run that takes too long or crashes catches nothing either.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

# name, file (of src/core, or with its whole path), function ("": outside of one), an expression in it that occurs once,
# its replacement. White space does not count.
MUTANTS = [
    ("dead-node-waited-for", "chief/chief.c", "on_down", "event->peer.has_ended", "false"),
    ("broken-line-is-a-death", "chief/chief.c", "on_down", "event->peer.has_ended &&", ""),
    ("state-not-told", "node/node_status.c", "node_flush", "out_simple(node->out, ACT_STATE);", ""),
    ("directories-told-again", "chief/chief_join.c", "chief_tell_dirs", "chief->has_told_dirs = true;", ""),
    ("directories-told-early", "chief/chief_join.c", "chief_tell_dirs", "any_is(chief, FACT_LOOKS)", "false"),
    ("ack-at-or-below", "node/round.c", "round_steps_read", "highest < round->save_step",
     "highest <= round->save_step"),
    ("ack-always", "node/round.c", "round_steps_read", "ranks_steps_of(round->ranks).highest < round->save_step",
     "true"),
    ("no-wait-at-tentative-gate", "tests/sim/proc.c", "look", "if (!gate_is_decided(word)) {",
     "if (!gate_is_decided(word)) { go_on(w, p); return; } if (0) {"),
    ("save-at-tentative-gate", "tests/sim/proc.c", "look", "!gate_is_decided(word)", "0"),
    ("no-re-proposal", "chief/chief_round.c", "decide_proposed", "!any_is(chief, FACT_NACK)", "true"),
    ("decide-on-first-vote", "chief/chief_round.c", "decide_proposed", "all_are(chief, FACT_VOTED)",
     "any_is(chief, FACT_VOTED)"),
    ("vote-of-any-ballot", "chief/chief_facts.c", "note_round",
     "is_round && peer->stamp.ballot == chief->gen.ballot", "is_round"),
    ("saves-of-any-round", "chief/chief_facts.c", "note_round", "0 && peer->stamp.round == chief->gen.round", "0"),
    ("no-port-for-the-next-generation", "chief/chief_restart.c", "renew",
     "chief->order.port = out_port(chief->out);", ""),
    ("commit-before-all-saved", "chief/chief_round.c", "decide_decided", "all_are(chief, FACT_SAVED)",
     "any_is(chief, FACT_SAVED)"),
    ("commit-when-all-served", "chief/chief_round.c", "decide_decided", "(chief, FACT_SAVED)",
     "(chief, FACT_SERVED)"),
    ("gate-not-lifted-after-round", "node/round.c", "lift_if_served",
     "if (gate_is_decided(round->word) && all_have_served(round)) lift_gate(round);", ""),
    ("gate-lifted-by-first-saver", "node/round.c", "lift_if_served", "all_have_served(round)",
     "count_served(round) > 0"),
    ("fail-lifts-gate", "node/round.c", "round_order", "!gate_is_decided(round->word)",
     "(round->phase == PHASE_FAILED || !gate_is_decided(round->word))"),
    ("abort-after-some-decided", "chief/chief_round.c", "decide_decided",
     "if (any_is(chief, FACT_BAD)) { chief_give_up(chief, PHASE_FAILED, first_error(chief, text, sizeof text));",
     "if (!chief->gen.wants_to_end && any_is(chief, FACT_SERVED) && !all_are(chief, FACT_SERVED)) {"
     ' chief_close_round(chief, PHASE_ABORTED, "mutant");'),
    ("abort-not-obeyed", "node/round.c", "round_order", "is_closed && !gate_is_decided",
     "is_closed && round->phase != PHASE_ABORTED && !gate_is_decided"),
    ("steps-before-gate", "node/round.c", "open_ballot", "set_gate(round, word_of(round, false));", ""),
    ("stale-save-not-answered", "node/round.c", "wait_for_answer", "else answer_waits(round);", ""),
    ("no-answer-at-close", "node/round.c", "answer_waits", "if (is_over)", "if (is_over && is_own)"),
    ("next-round-early", "chief/chief_round.c", "chief_can_open",
     "(chief->order.phase == PHASE_ABORTED || all_are(chief, FACT_SERVED))", "true"),
    ("next-round-before-close", "chief/chief_round.c", "chief_can_open", "all_are(chief, FACT_CLOSED)", "true"),
    ("process-forgets-round", "tests/sim/proc.c", "look", "gate_tag(word);", "0;"),
    ("look-not-sent", "node/round.c", "set_gate",
     "out_proc(round->out, m->slot, &(struct procmsg){.type = PROCMSG_LOOK});", ""),
    ("waiting-not-compared", "node/round.c", "on_waiting", "msg->word != round->word", "0"),
    ("heartbeat-not-answered", "chief/chief.c", "on_status",
     "chief_send_order(chief, peer->at.conn, is_lost ? 0 : msg->status.sent_ns)", "(void)0"),
    ("lease-from-the-arrival", "node/uplink.c", "take_answer", "clock_max(u->lease_from, sent)", "now"),
    ("lease-never-ends", "node/uplink.c", "uplink_lost_at", "? lease_until(u)", "? CLOCK_NEVER"),
    ("lost-node-is-answered", "chief/chief.c", "on_status", "is_lost ? 0 :", ""),
    ("replaced-without-a-fence", "chief/chief_restart.c", "is_due",
     "chief->out->now >= chief->gen.replace.fence_at", "true"),
    ("fence-without-the-lease", "chief/chief_replace.c", "fence_of", "p->heartbeat_timeout_ns,", "0,"),
    ("fence-without-the-killing", "chief/chief_replace.c", "fence_of", "p->kill_wait_ns)", "0)"),
    ("fence-of-the-replacement", "chief/chief_replace.c", "find_fence",
     "clock_max(chief->gen.replace.fence_at, chief->peers[i].fence_at)", "chief->peers[i].fence_at"),
    ("standstill-renews-the-lease", "node/uplink.c", "uplink_forgive", "replace_wait_ns == 0", "replace_wait_ns >= 0"),
    ("start-behind-the-lease", "node/node.c", "take_order", "&& uplink_has_lease(&node->uplink)", ""),
    ("lease-ends-with-a-long-stop", "node/node_end.c", "node_stop_alone",
     "clock_min(node->notice.deadline, kill_by)", "node->notice.deadline"),
    ("lease-ends-while-it-stops", "node/node_end.c", "node_stop_alone",
     "ladder_limit(&node->gen.ladder, node->out->now, kill_by);", "(void)0;"),
    ("wait-begins-anew-with-each-loss", "chief/chief_replace.c", "begin_wait",
     "chief->gen.replace.until == 0", "true"),
    ("only-one-lost-node-is-named", "core.c", "settle",
     "chief_report_wait(&core->chief, &core->node.gen.wait);", ""),
    ("wait-without-an-end", "chief/chief_replace.c", "chief_wait_is_over",
     "chief->out->now >= chief_waits_until(chief)", "false"),
    ("loss-never-waited-for", "chief/chief_replace.c", "may_wait", "p->replace_wait_ns == 0 ||", "true ||"),
    ("loss-is-a-failure-of-its-victim", "chief/chief_fault.c", "chief_fault_counts",
     "(chief_is_deciding(chief) || may_be_replaced)", "chief_is_deciding(chief)"),
    ("saved-wait-is-unsaved", "chief/chief_order.c", "outcome_of_end",
     "chief->order.outcome == OUTCOME_PREEMPTED", "false"),
    ("replaced-too-often", "chief/chief_replace.c", "has_replacements_left", "n <", "n <="),
    ("notice-of-one-node-ends-all", "chief/chief_replace.c", "outlives_notice",
     "chief->params->replace_wait_ns > 0", "false"),
    ("notice-of-node-0-is-outlived", "chief/chief_replace.c", "outlives_notice", "!is_noticed(&chief->peers[0])",
     "true"),
    ("replacement-that-cannot-start-ends-all", "chief/chief_replace.c", "chief_lose_unable", "|| has_begun", ""),
    ("unfit-replacement-ends-all", "chief/chief_replace.c", "chief_lose_unable",
     "chief_is_restarting(chief) || joins", "joins"),
    ("replaced-host-not-recorded", "chief/chief_fault.c", "chief_note_strike", "told->fault != FAULT_UNFIT ||",
     "told->fault != FAULT_UNFIT || chief_is_restarting(chief) ||"),
    ("host-recorded-with-each-message", "chief/chief_fault.c", "chief_note_strike",
     "|| peer->struck == peer->at.incarnation", ""),
    ("unfit-node-ends-all-before-the-start", "chief/chief_replace.c", "chief_lose_unable",
     "chief_is_restarting(chief) || joins", "chief_is_restarting(chief)"),
    ("wait-before-the-start-lasts", "chief/chief_start.c", "start", "chief->gen.replace.until = 0;", ""),
    ("missing-node-is-waited-for", "chief/chief_replace.c", "chief_vacate_missing", "left > 0", "false"),
    ("spare-called-for-a-node-that-may-come", "chief/chief_replace.c", "is_overdue",
     "since + chief->params->join_timeout_ns / 10", "since"),
    ("missing-nodes-called-for-too-often", "chief/chief_replace.c", "chief_vacate_missing",
     "&& has_replacements_left(chief)", ""),
    ("late-node-is-a-twin", "chief/chief_join.c", "fill_place", "peer->was_replaced = true;", ""),
    ("spare-and-returning-node-take-the-place", "chief/chief_join.c", "chief_hello",
     "peer_is(peer, FACT_VACANT) && may_come", "may_come"),
    ("spare-called-to-two-places", "chief/chief_spare.c", "may_be_called", "!spare->place && !spare->was_called", "true"),
    ("lost-spare-keeps-the-place", "chief/chief_spare.c", "look_at_spare", "now >= spare->called_until", "false"),
    ("spare-not-told-the-end", "chief/chief.c", "send_order_to_all", "chief_end_spares(chief);", ";"),
    ("former-node-stands-by", "chief/chief_join.c", "chief_hello",
     "is_other && is_former && chief->params->replace_wait_ns > 0", "false"),
    ("spare-with-a-notice-stays", "spare/spare.c", "take_signal", "rule == SIGNAL_PREEMPT", "false"),
    ("spare-outlives-node-0", "spare/spare.c", "on_time", "s->out.now >= lost_at(s)", "false"),
    ("no-reconnection", "node/uplink.c", "uplink_down",
     "u->retry_at = u->out->now + (u->is_welcome ? 0 : u->backoff);", ";"),
    ("broken-line-is-a-loss", "chief/chief.c", "on_down", "out->now;",
     'out->now; if (chief->order.start) chief_lose(chief, peer, "mutant");'),
    ("absence-not-forgiven", "core.c", "forgive_absence", "if (core->is_chief) chief_forgive(&core->chief, away);", ""),
    ("absence-of-chief-not-forgiven", "core.c", "forgive_absence", "node_forgive(&core->node, away);", ""),
    ("leave-with-processes", "node/node.c", "take_order", "may_leave && node->state == NODE_LEAVING", "may_leave"),
    ("no-ladder", "node/node_end.c", "node_stop",
     "ladder_start(&node->gen.ladder, ending->manner, sig, now, deadline)", ""),
    ("ladder-catches-up", "node/ladder.c", "ladder_climb", "put_off(ladder, now - ret->at);", ""),
    ("steps-unread-when-it-stops", "node/node_end.c", "node_stop", "if (ending->restarts)",
     "if (false)"),
    ("no-sweep", "node/node_end.c", "node_sweep_if_last",
     "ladder_sweep(&node->gen.ladder, node->out->now, node_deadline(node));", ""),
    ("no-sweep-while-stopping", "node/node_end.c", "node_sweep_if_last", "state > NODE_STOPPING",
     "state > NODE_RUNNING"),
    ("wanted-leftovers-waited-for", "node/node_end.c", "node_has_work",
     "is_tree_empty && node->params->leftovers == LEFTOVERS_KILL", "is_tree_empty"),
    ("wanted-leftovers-signalled", "node/node_children.c", "target_of",
     "leaves && rung->target == TARGET_TREE ? TARGET_CHILDREN :", ""),
    ("late-notice-preempts", "chief/chief.c", "has_trained", "!chief->notice.is_live ||", ""),
    ("end-told-before-notice", "node/node_status.c", "life_of", "node->gen.notice_wants_steps ||", ""),
    ("end-told-before-goodbye", "node/node_end.c", "node_is_settling",
     "node_settles_at(node) != CLOCK_NEVER || node->gen.end_wants_steps", "false"),
    ("silence-is-success", "node/node_procs.c", "node_on_proc_gone", "node_judge_silence(node);", ""),
    ("who-stays-attached-is-a-success", "node/node_procs.c", "node_judge_silence",
     "if (stays || (ranks_is_silent(m)", "if ((ranks_is_silent(m)"),
    ("silence-judged-too-early", "node/node_children.c", "look_what_is_left", "node_judge_silence(node);", ""),
    ("goodbye-is-silence", "node/node_procs.c", "on_close", "m->is_closed = m->status == 0;", ""),
    ("goodbye-not-taken", "node/node_procs.c", "on_close", "ranks_gone(&node->gen.ranks, m, msg->step);", ""),
    ("goodbye-with-a-failure-is-success", "node/node_procs.c", "on_close", "m->status == 0", "true"),
    ("completed-after-notice", "chief/chief.c", "decide_finished",
     "chief->notice.is_live && !chief->gen.is_trained", "0"),
    ("who-is-cut-off-keeps-the-done", "chief/chief_done.c", "ends_at", "chief_time_is_up_at(chief)",
     "chief_abort_at(chief)"),
    ("done-and-swept-too-late", "chief/chief.c", "has_trained",
     "(!chief->notice.is_live || all_are(chief, FACT_DONE) || has_returned)", "!chief->notice.is_live"),
    ("trained-again-after-a-return", "node/node_end.c", "node_rank_is_done",
     "(m->has_returned && !may_have_left)", "false"),
    ("returned-without-attaching-is-preempted", "chief/chief.c", "has_trained",
     "(chief, FACT_DONE) || has_returned", "(chief, FACT_DONE)"),
    ("own-handler-is-a-return", "node/node_end.c", "node_rank_is_done", "!m->is_shielded", "false"),
    ("success-of-one-is-enough", "chief/chief.c", "decide_finished", "all_are(chief, FACT_FINISHED)",
     "any_is(chief, FACT_FINISHED)"),
    ("loss-undoes-saved-round", "chief/chief_loss.c", "chief_losses_matter",
     "!peer_is(&chief->peers[i], FACT_SAVED)", "true"),
    ("loss-ignored", "chief/chief.c", "decide_running", "chief_losses_matter(chief)", "0"),
    ("own-saves-of-some", "common/ranks.c", "all_have_own",
     "if (!ranks_has_own(&ranks->members[i], step)) return false;", ""),
    ("offer-not-held", "node/round.c", "write_next", "offered_own(round)", "0"),
    ("offer-taken-back-unheard", "node/round.c", "offered_own", "told_over(round)", "own_over(round)"),
    ("passed-over-while-it-is-committed", "chief/chief_round.c", "chief_decide_round",
     "&& chief->writing == COMMIT_NOTHING) close_own", ") close_own"),
    ("record-lets-go-while-all-leave", "node/round.c", "write_next", "leaves || round->", ""),
    ("own-saves-at-different-steps", "chief/chief_round.c", "decide_own",
     "own.lowest == own.highest && own.lowest != chief->gen.own_failed", "1"),
    ("bad-record-is-a-commit", "chief/chief_round.c", "chief_committed",
     "if (bad) chief_give_up(chief, PHASE_FAILED, bad->text); else",
     "chief->order.commit_step = chief->writing_step;"),
    ("commit-without-waiting-for-disk", "chief/chief_round.c", "write_commit", "writing_step = step;",
     "writing_step = step; chief->order.commit_step = step; chief->is_changed = true;"),
    ("stride-ignored", "chief/chief_round.c", "propose", "stride_up(chief->gen.stride, least)", "least"),
    ("claim-refused-at-once", "chief/chief_join.c", "hold_duplicate", "peer->duplicate = *caller",
     "refuse_as_twin(chief, peer, caller); return"),
    ("claim-replaces", "chief/chief_join.c", "is_vacant", "(!chief->order.start && !peer_is(peer, FACT_JOINED))",
     "true"),
    ("claim-is-a-loss", "chief/chief_join.c", "hold_duplicate", "duplicate = *caller;",
     "duplicate = *caller; chief_set_fact(chief, peer, FACT_LOST, true);"),
    ("claim-not-refused", "chief/chief.c", "on_status", "chief_refuse_duplicate(chief, peer);", ""),
    ("claim-not-told-the-end", "chief/chief.c", "send_order_to_all",
     "chief_tell_duplicate(chief, &chief->peers[i]);", ""),
    ("commit-of-who-was-replaced-only-fails", "node/node.c", "",
     '[EV_COMMITTED] = {node_on_committed, ALIVE, "commit written"},', ""),
    ("save-of-who-was-replaced-only-fails", "node/node_procs.c", "node_on_prepared",
     "node_judge_record(node, event->unwritten);", ""),
    ("what-was-heard-before-the-end-is-forgotten", "node/node.c", "take_order", "node_tell_final(node);", ""),
    ("who-is-replaced-while-it-stops-is-preempted", "chief/chief_fault.c", "may_begin_again",
     "(chief) || gives_way", "(chief)"),
    ("replaced-while-it-stops-is-not-told", "node/node_cause.c", "counts",
     "(node->state > NODE_RUNNING && verdict_gives_way(node->gen.end.outcome))", "false"),
    ("who-was-replaced-is-preempted", "chief/chief_fault.c", "outcome_of", "fault != FAULT_REPLACED &&", ""),
    ("stop-hides-what-failed-before", "chief/chief_fault.c", "chief_note_fault",
     "cause_is_final(told->fault) ? &chief->gen.finals :", ""),
    ("stop-is-a-failure", "chief/chief_fault.c", "outcome_of",
     "if (fault == FAULT_STOPPED) return OUTCOME_STOPPED;", ""),
    ("stop-is-forgotten-between-two-generations", "node/node_end.c", "node_renew", "node_tell_final(node);", ""),
    ("stop-not-told", "node/node_notice.c", "node_on_stop_asked", "node_tell_final(node);", ""),
    ("late-nodes-not-told-of-notice", "chief/chief.c", "tells_until", "return chief->tell_until", "break"),
    ("no-deadline", "chief/chief_notice.c", "chief_decide_notice", "chief->out->now >= chief_abort_at(chief)", "0"),
    ("last-save-too-late", "chief/chief_plan.c", "chief_plan",
     "step + chief_lag(chief) + save + expected_agreement(chief)", "0"),
    ("spare-time-is-all-that-is-left", "chief/chief_plan.c", "chief_plan", "left > 0", "false"),
    ("last-save-too-early", "chief/chief_plan.c", "chief_plan", "- end - last", "- end - last - 20 * NS_PER_S"),
    ("time-to-end-not-planned", "chief/chief_plan.c", "chief_plan", "grace_end_need(expected_end(chief)) +", ""),
    ("time-to-end-without-the-eighth", "common/grace.c", "grace_end_need", "+ end_ns / 7", "- end_ns / 2"),
    ("time-to-end-of-the-first-node", "chief/chief_plan.c", "chief_took_to_end", "s->end_ns > longest",
     "longest == 0"),
    ("time-to-end-not-taken", "chief/chief.c", "decide_leave", "chief_note_end(chief);", ""),
    ("time-to-end-of-who-is-killed", "node/node_end.c", "note_end", "has_killed && !node->gen.swept_at", "has_killed"),
    ("first-pace-counts", "chief/chief_pace.c", "note_pace", "if (peer->is_warm)", ""),
    ("save-time-not-measured", "chief/chief_plan.c", "chief_note_saved",
     "chief->save_ns = chief_save_time(chief, true);", ""),
    ("pause-in-a-save-is-its-time", "chief/chief_plan.c", "took_to_save", "&& !is_odd", ""),
    ("no-first-save", "chief/chief_notice.c", "open_round", "chief_first_is_due(chief)", "false"),
    ("save-step-far-ahead", "chief/chief_round.c", "propose", "highest + 1", "highest + 20"),
    ("deadline-that-passed-unseen-ends-the-job", "chief/chief_plan.c", "chief_time_is_up_at",
     "has_slept_through(chief)", "false"),
    ("late-news-of-a-failed-save-is-the-last", "chief/chief_order.c", "chief_give_up", "!chief_hears_late_news(chief)",
     "true"),
    ("last-save-given-up-early", "chief/chief_plan.c", "chief_time_is_up_at", "clock_min(kept, needed)", "3 * NS_PER_S"),
    ("leaves-after-first-save", "chief/chief_plan.c", "chief_uses_time", "(may_train_on(chief) || is_plan)",
     "false"),
    ("trains-on-by-a-guess", "chief/chief_plan.c", "may_train_on", "is_auto ? !chief->notice.is_guess", "is_auto ? true"),
    ("known-deadline-is-not-used", "chief/chief_plan.c", "may_train_on", "!chief->notice.is_guess", "false"),
    ("short-standing-notice-ends-the-job", "common/grace.c", "grace_plan_need", "start_ns && save_ns", "false"),
    ("guess-is-not-told", "node/node_status.c", "fill_notice", "n->is_guess", "false"),
    ("withdrawn-notice-holds", "common/grace.c", "cancel", "take_out(grace, n)", ""),
    ("withdrawn-by-another-id", "common/grace.c", "cancel", "(!notice->id[0] || str_is(n->label.id, notice->id))",
     "true"),
    ("later-deadline-wins", "common/grace.c", "earliest", "deadline < grace", "deadline > grace"),
    ("first-heard-stays-the-cause", "chief/chief_fault.c", "chief_tell_fault",
     "if (is_known && cause_is_same(first, &chief->gen.cause))", ""),
    ("clocks-are-not-compared", "common/cause.c", "time_of",
     "told->error_ns >= 0 && told->at_ns < latest ? told->at_ns :", ""),
    ("told-crash-counts-earlier", "node/node_cause.c", "node_counts_from", "fault->is_told ? fault->at :", ""),
    ("crash-counts-when-it-is-seen", "common/cause.c", "cause_counts_from",
     "is_crash(fault, code) ? at - CRASH_LAG_NS :", ""),
    ("crash-follows-from-an-exit", "common/cause.c", "causes_first", "may_be_before(&causes->list[i], earliest)", "false"),
    ("clocks-are-taken-for-equal", "node/uplink.c", "clockoff_theirs", "ours + sample->offset", "ours"),
    ("way-back-not-counted", "node/uplink.c", "clockoff_take", "(sent + half)", "sent"),
    ("code-of-the-first-heard", "node/node_cause.c", "node_take_cause", "end->exit_code = ending->exit_code;", ""),
    ("cause-told-when-all-leave", "chief/chief_fault.c", "chief_tell_fault", "end != END_STOP", "end != END_LEAVE"),
    ("said-before-does-not-count", "node/node_cause.c", "counts",
     "((fault->is_told || fault->was_dead) && at < node->gen.stopped_at)", "false"),
    ("one-pause-makes-all-steps-slow", "chief/chief_pace.c", "note_pace",
     "slowness_median(count_paces, peer)", "peer->paces[(peer->npaces - 1) % CHIEF_PACES]"),
    ("one-time-makes-a-rank-slow", "common/slowness.c", "judge", "own != m->over_ns", "true"),
    ("loading-of-an-earlier-process-is-lost", "common/ranks.c", "ranks_attach", "ranks_loading(&before)", "0"),
    ("loading-of-the-last-reading", "node/node_procs.c", "node_on_proc_message", "hear_loading(m, event);", ""),
    ("loading-of-the-last-heard", "chief/chief.c", "on_status", "if (s->loading_ns > chief->gen.loading_ns)", ""),
    ("starts-count-unseen", "chief/chief_order.c", "has_lost_all", "&& chief->begins_anew", ""),
    ("wait-for-a-vote-is-a-slow-step", "chief/chief_pace.c", "in_this_step",
     "chief->order.phase == PHASE_PROPOSED", "false"),
    ("wait-at-the-save-step-is-a-slow-step", "chief/chief_pace.c", "in_this_step", "|| awaits_others", ""),
    ("pace-with-the-saves", "chief/chief_plan.c", "chief_note_saved", "chief_pace_again(chief, &chief->peers[i])", "(void)0"),
    ("one-quick-second-is-a-pace", "chief/chief_pace.c", "time_of_a_step_now", "now > before ? now : before", "now"),
    ("one-comparison-is-enough", "chief/chief_pace.c", "chief_lag", "twice_shown(&chief->gen.lag)",
     "chief->gen.lag.newest"),
    ("lag-is-not-planned", "chief/chief_plan.c", "chief_plan", "step + chief_lag(chief) +", "step +"),
    ("one-late-answer-is-believed", "node/uplink.c", "uplink_send_status", "twice_shown(&u->rtt)", "u->rtt.newest"),
    ("one-slow-agreement-is-believed", "chief/chief_plan.c", "expected_agreement", "twice_shown(&chief->agreement)",
     "chief->agreement.newest"),
    ("save-counts-from-the-first-rank", "chief/chief_round.c", "decide_decided",
     "all_are(chief, FACT_SERVED) && !chief->gen.begun_at", "any_is(chief, FACT_SERVED) && !chief->gen.begun_at"),
    ("killed-by-another-is-ours", "node/node_children.c", "time_of_death",
     "child->status == SIGKILL && !node->gen.has_killed", "false"),
    ("death-told-at-the-end", "node/node_children.c", "node_on_child_dying",
     "fail(node, event->child.index, NULL);", ""),
    ("died-when-its-end-was-told", "node/node_cause.c", "node_record_fault", "known->wall - (known->at - timed.at)",
     "node->out->wall"),
    ("who-misses-a-node-is-the-cause", "chief/chief_fault.c", "chief_tell_fault",
     "chief_tell_loss(chief, follows_until(chief, first))", "0"),
    ("put-off-is-not-believed", "chief/chief.c", "take_notice", "s->notice_version == peer->notice_version &&", ""),
    ("barrier-of-one-node", "chief/chief_restart.c", "is_over", "return all_are", "return any_is"),
    ("restart-before-the-commit-is-written", "chief/chief_restart.c", "is_over",
     "&& chief->writing == COMMIT_NOTHING", ""),
    ("restart-before-the-record-is-written", "node/node_end.c", "has_more_to_end",
     "(has_attached || node->gen.round.is_writing)", "has_attached"),
    ("restart-before-all-have-hung-up", "node/node_end.c", "has_more_to_end", "node->gen.ranks.nconnected > 0 ||",
     ""),
    ("restart-before-all-counters-have-hung-up", "node/node_end.c", "has_more_to_end",
     "0 || node->gen.ranks.ncounting > 0", "0"),
    ("bad-line-is-no-failure", "node/node_children.c", "node_on_child_bad", "node_record_fault(node, &fault);", ""),
    ("counters-are-not-watched", "common/watchdog.c", "view_of_ranks", "is_watched(m)",
     "is_watched(m) || m->is_counter"),
    ("counters-are-ranks", "node/node_procs.c", "node_on_proc_attached",
     "event->proc.msg->flags & PROCMSG_FLAG_COUNTS", "false"),
    ("restart-with-the-last-round", "node/node_end.c", "node_renew",
     "memset(&node->gen, 0, sizeof node->gen); node_begin_generation(node)",
     "struct round last = node->gen.round; memset(&node->gen, 0, sizeof node->gen); node_begin_generation(node);"
     " node->gen.round = last"),
    ("restart-behind-a-closed-gate", "node/node_end.c", "node_renew", "gate = GATE_OPEN", "gate = gate_leave()"),
    ("status-of-the-last-generation", "chief/chief.c", "on_status", "msg->stamp.generation != chief->generation ||",
     ""),
    ("gone-before-it-hears-of-the-end", "chief/chief_order.c", "chief_tell_end", "await_all(chief);", ""),
    ("restart-over-what-is-left", "chief/chief_restart.c", "chief_decide_restart", "any_is(chief, FACT_LEFT)",
     "false"),
    ("one-restart-too-many", "common/restart.c", "is_forbidden", "n >= p->", "n > p->"),
    ("goes-on-before-the-notice-is-over", "chief/chief_restart.c", "is_due",
     "chief->gen.waits_for_notice && chief->notice.is_live", "false"),
    ("what-repeats-is-restarted", "common/restart.c", "restart_is_final", "f->repeats[0]", "false"),
    ("steps-while-it-ends-make-a-start-good", "chief/chief_restart.c", "find_what_repeats",
     "chief->order.restart ? chief->gen.had_stepped : chief->has_stepped", "chief->has_stepped"),
    ("same-failure-is-restarted", "common/restart.c", "came_before", "is_in_training(f)", "false"),
    ("same-failure-by-its-numbers", "common/restart.c", "is_same_text", "b = after_number(b);", ""),
    ("same-failure-is-forgotten", "chief/chief_restart.c", "renew", "restart_note(&chief->restart, &failure);", ""),
    ("same-failure-of-a-kill", "common/restart.c", "is_in_training",
     "f->cause->code != EXIT_BY_SIGNAL + SIGKILL", "true"),
    ("same-failure-over-a-commit", "common/restart.c", "came_before", "r->last_commit == f->commit_step", "true"),
    ("no-restart", "common/restart.c", "restart_allows", "if (r->policy->max == 0)", ""),
    ("hang-while-one-moves", "chief/chief_hang.c", "hangs", "!any_is(chief, FACT_MOVES) &&", ""),
    ("hang-never-found", "common/watchdog.c", "view_of_ranks", "is_over(now - view.still_ns, view.limit_ns, now)",
     "false"),
    ("hang-names-who-waits", "common/watchdog.c", "is_behind", "step < b", "step > b"),
    ("hang-names-a-node-that-waits", "chief/chief_hang.c", "is_further_behind", "behind_step < b", "behind_step > b"),
    ("one-limit-for-all-phases", "common/watchdog.c", "view_of_ranks", "(dog, m, phase);", "(dog, m, PAGE_TRAIN);"),
    ("a-rank-that-gave-up-is-named", "common/watchdog.c", "is_watched", "!m->gave_up &&", ""),
    ("a-rank-that-gave-up-has-failed", "chief/chief_fault.c", "outcome_of", "fault == FAULT_GAVE_UP", "false"),
    ("an-abort-after-its-time-is-a-failure", "node/node_children.c", "has_waited_out",
     "gave_up || watchdog_waited_out", "gave_up || false & watchdog_waited_out"),
    ("debugged-is-stuck", "common/watchdog.c", "watchdog_examined", "(event->examined.is_traced)", "(0)"),
    ("stopped-holds-for-ever", "common/watchdog.c", "watchdog_examined", "(event->examined.is_traced)", "(pid)"),
    ("bell-not-hung", "node/round.c", "round_order", "round->bell = order->bell;", ""),
    ("bell-not-taken-away", "node/round.c", "on_waiting", "round->rung = round->bell;", ""),
    ("bell-rings-too-late", "chief/chief_period.c", "bell_step", "due > early ? due - early : 1", "due + 100"),
    ("period-not-counted-from-commit", "chief/chief_round.c", "chief_committed",
     "chief_count_anew(chief, chief->writing_step);", ""),
    ("period-not-begun", "chief/chief_roster.c", "chief_check_roster", "chief_begin_period(chief);", ""),
    ("nobody-wakes-for-the-period", "chief/chief_period.c", "chief_period_until",
     "waits ? chief->gen.period.from_at + chief->every_ns :", ""),
    ("chosen-period-is-not-kept", "chief/chief_period.c", "chief_period_until", "chief->every_ns",
     "chief->params->every_ns"),
    ("period-above-the-longest", "common/interval.c", "interval_best", "clock_min(best, most)", "best"),
    ("period-below-the-shortest", "common/interval.c", "interval_best", "best < least ? least :", ""),
    ("shell-takes-its-ranks-along", "node/node_children.c", "node_on_child_exited",
     "may_be_notice(node, child->status)", "false"),
    ("who-left-never-ends", "node/node_children.c", "node_misses_notice_at",
     "if (may_end_by_themselves(node))", "return CLOCK_NEVER;\n    if (0)"),
    ("who-left-has-failed-at-once", "node/node_children.c", "may_be_notice", "(may_follow ||", "("),
    ("who-left-failed-when-it-was-judged", "node/node_children.c", "time_of_death",
     "if (child->died_at) return child->died_at;", ""),
    ("fault-told-before-its-notice", "node/node_status.c", "fault_waits",
     "|| notice_waits(node)", ""),
    ("preempted-before-the-first-step-counts", "chief/chief.c", "decide_leave", "chief_is_uncounted(chief)", "false"),
    ("end-by-a-user-counts", "chief/chief_order.c", "chief_is_uncounted", "is_by_user ||", ""),
    ("preempted-later-does-not-count", "chief/chief_order.c", "chief_is_uncounted", "!chief->has_stepped &&", ""),
    ("repeated-notice-ends-the-job", "common/grace.c", "ends_run", "is_served && !n->is_repeated", "is_served"),
    ("repeated-notice-is-not-saved-for", "node/node_notice.c", "node_save_for_repeated", "ask_for_save(node);", ""),
    ("standing-notice-ends-the-start", "chief/chief_start.c", "chief_decide_start", "chief_notice_is_near(chief)",
     "chief->notice.is_live"),
    ("far-notice-makes-a-failure-a-preemption", "chief/chief_fault.c", "chief_end_by_fault",
     "chief_notice_is_near(chief);", "chief->notice.is_live;"),
    ("far-notice-forbids-a-restart", "chief/chief_fault.c", "may_restart", "chief_notice_is_near(chief)",
     "chief->notice.is_live"),
    ("far-notice-hides-a-hang", "chief/chief_hang.c", "hangs", "chief_notice_is_near(chief)",
     "chief->notice.is_live"),
    ("standing-notice-has-nothing-to-save", "chief/chief_plan.c", "chief_awaits_first_step", "until != CLOCK_NEVER",
     "false"),
    ("one-save-ends-a-standing-notice", "chief/chief_plan.c", "chief_uses_time",
     "(may_train_on(chief) || is_plan)", "may_train_on(chief)"),
    ("gate-above-the-step-of-the-vote", "node/round.c", "open_ballot", "(round, false)", "(round, false) + 1"),
    ("tentative-gate-lifted-by-any-order", "node/round.c", "round_order", "round->is_closed &&", ""),
    ("commit-without-this-node's-record", "chief/chief_facts.c", "note_round",
     "(s->prepared || s->expected == 0) &&", ""),
    ("success-before-all-have-ended", "chief/chief.c", "decide_finished", "chief, FACT_FINISHED",
     "chief, FACT_ENDED"),
    ("ends-with-code-0", "node/node_end.c", "keep_ending", "end = *ending;",
     "end = *ending; node->gen.end.exit_code = 0;"),
    ("leaves-before-its-processes", "node/node_end.c", "node_check_gone", "(has_more && !node->gen.has_given_up)",
     "false"),
    ("mute-chief-waited-for", "node/node_notice.c", "give_up_chief_at",
     "deadline - grace_margin(deadline - g->at) / 2", "CLOCK_NEVER"),
    ("mute-node-waited-for", "chief/chief_loss.c", "mute_at", "at > mute ? at : mute", "CLOCK_NEVER"),
    ("a-save-and-the-end-is-forgotten", "chief/chief_order.c", "stops_for_good", "return any_is",
     "return false && any_is"),
    ("trains-on-while-it-saves-for-the-end", "chief/chief_round.c", "decide",
     "wants_to_end || any_is(chief, FACT_STOPS)", "wants_to_end"),
    ("saves-for-the-end-and-goes-on", "chief/chief_round.c", "committed_round",
     "is_hurt || any_is(chief, FACT_STOPS)", "is_hurt"),
    ("done-on-one-node-is-done", "chief/chief_facts.c", "chief_is_over", "all_are(chief, FACT_OVER)",
     "any_is(chief, FACT_OVER)"),
    ("done-has-no-deadline", "chief/chief_done.c", "chief_decide_done", "chief->out->now >= ends_at(chief)", "false"),
    ("done-is-unsaved", "chief/chief_done.c", "end", "OUTCOME_COMPLETED", "OUTCOME_PREEMPTED_UNSAVED"),
    ("first-node-that-steps-trains", "chief/chief_mark.c", "note_first_steps", "expected > 0", "expected > 99"),
    ("run-without-a-first-mark", "chief/chief_mark.c", "chief_mark",
     "emit_mark(chief, MARK_STARTING, chief->order.commit_step, chief->out->now);", ";"),
    ("saving-before-all-have-begun", "chief/chief_mark.c", "kind_of", "&& chief->gen.begun_at", ""),
    ("generation-without-a-mark", "chief/chief_mark.c", "chief_mark",
     "|| chief->mark.generation != chief->generation", ""),
    ("commit-not-marked", "chief/chief_mark.c", "chief_mark",
     "emit_mark(chief, MARK_COMMIT, chief->order.commit_step, chief->out->now);", ""),
    ("hang-marked-when-found", "chief/chief_mark.c", "mark_hang", "chief_moved_at(chief)", "chief->out->now"),
    ("who-gives-up-has-moved", "node/node_procs.c", "node_on_proc_message", "&& !m->gave_up", ""),
    ("background-save-is-a-move", "node/node_procs.c", "node_on_proc_message",
     "&& !is_of_background_save(m, msg)", "&& (true || is_of_background_save(m, msg))"),
    ("hang-is-found-before-the-failure-of-who-gave-up", "chief/chief_hang.c", "chief_decide_hang",
     "|| chief->out->now < chief->gen.hang.others_until", ""),
    ("only-the-first-to-give-up-is-waited-for", "chief/chief_hang.c", "await_others", "ngave_up = n;",
     "ngave_up = n; return;"),
    ("hang-is-not-found-when-all-gave-up", "chief/chief_hang.c", "only_wait_to_fail", "return any_is",
     "return false && any_is"),
    ("hang-is-found-at-once-when-all-gave-up", "chief/chief_hang.c", "due_at", "moved_at + limit : CLOCK_NEVER",
     "moved_at : CLOCK_NEVER"),
    ("who-has-failed-has-moved", "common/watchdog.c", "watchdog_ended", "if (!has_failed)", ""),
    ("last-step-of-who-has-ended-is-no-move", "node/node_procs.c", "end_connection", "m->step > known", "false"),
    ("second-to-give-up-is-not-told", "node/node_children.c", "has_waited_out",
     "node->is_dirty = node->is_dirty || m->gave_up;", ""),
    ("one-save-is-always-enough", "chief/chief_round.c", "decide", "(uint8_t)chief_needs(chief)", "NEEDS_ANY"),
    ("needs-of-the-first-round", "chief/chief_round.c", "decide", "(uint8_t)chief_needs(chief)",
     "({ static uint8_t first; if (chief->gen.round == 1) first = (uint8_t)chief_needs(chief); first; })"),
    ("unlike-declarations-do", "chief/chief_needs.c", "declared", "n == 1 ? found : NEEDS_ALL", "found"),
    ("directory-need-not-be-shared", "chief/chief_needs.c", "chief_needs",
     "shares_saves(chief) ? wanted(chief, &differs) : NEEDS_ALL", "wanted(chief, &differs)"),
    ("other-directory-is-not-looked-for", "chief/chief_needs.c", "shares_saves",
     "&& all_are(chief, FACT_SAME_DIR)", ""),
    ("path-on-a-node-s-own-disk", "chief/chief_facts.c", "note_needs",
     "chief->params->nnodes == 1 || s->paths == PATHS_SHARED", "true"),
    ("save-of-another-rank-than-0", "node/needed.c", "is_enough",
     "round->needs != NEEDS_RANK0 || m->rank == 0", "true"),
    ("whole-before-it-is-saved", "node/needed.c", "needed_whole", "has_saved(round, m) &&", ""),
    ("late-rank-is-not-waited-for", "chief/chief_facts.c", "note_needs", "s->need.came == s->expected", "true"),
    ("silent-node-is-gone", "chief/chief_needs.c", "chief_is_enough", "all_are(chief, FACT_CAME)",
     "chief->count[FACT_CAME] + chief->params->nnodes - chief->count[FACT_CONNECTED] >= chief->params->nnodes"),
    ("rank-that-left-is-gone", "node/needed.c", "needed_has_come", "ranks_is_silent(m)", "m->is_ended"),
    ("lost-node-ends-the-round", "chief/chief_loss.c", "chief_losses_matter",
     "if (chief_outlives(chief)) return false;", ""),
    ("dead-rank-ends-the-round", "chief/chief_fault.c", "chief_fault_counts", "&& !is_outlived", ""),
    ("hurt-round-has-no-deadline", "chief/chief_needs.c", "chief_outlives", "is_in_time &&", ""),
    ("takeover-is-unheard-in-a-round", "node/node_cause.c", "counts", "|| is_outlived ||", "||"),
    ("failure-waits-for-steps-while-it-stops", "node/node_status.c", "fault_waits",
     "node->gen.fault_wants_steps && node->state <= NODE_RUNNING", "node->gen.fault_wants_steps"),
    ("failure-behind-a-final-cause-is-forgotten", "node/node_cause.c", "is_first", "at < node->gen.failed_at ||",
     "at < node_counts_from(known) ||"),
    ("whose-save-it-is-is-not-told", "chief/chief_round.c", "chief_committed",
     "chief->order.commit_whole = chief->writing_whole;", ""),
    ("start-before-the-health-is-known", "chief/chief_start.c", "chief_decide_start", "!any_is(chief, FACT_CHECKS) &&", ""),
    ("next-generation-before-the-health-is-known", "chief/chief_restart.c", "may_renew",
     "&& !any_is(chief, FACT_CHECKS)", ""),
    ("transfers-awaited-for-ever", "chief/chief_join.c", "chief_knows_network",
     "(all_are(chief, FACT_MEASURED) || is_late)", "all_are(chief, FACT_MEASURED)"),
    ("listening-awaited-for-ever", "chief/chief_join.c", "chief_knows_network",
     "(all_are(chief, FACT_LISTENS) || is_late)", "all_are(chief, FACT_LISTENS)"),
    ("ranks-start-in-a-measurement", "chief/chief_join.c", "end_measure",
     "set_measure(chief, (struct peer_measure){0}, 0);", ""),
    ("health-checked-twice-at-once", "node/node_end.c", "node_check_health", "|| node->is_checking", ""),
    ("unhealthy-node-trains", "node/node_end.c", "node_on_checked", "node_record_fault(node, &fault);", ""),
    ("unhealthy-node-has-the-code-of-the-others", "node/node_end.c", "node_own_code", "node->is_unfit", "false"),
    ("healthy-node-has-the-code-of-the-unhealthy", "node/node_end.c", "node_own_code", "OUTCOME_UNHEALTHY && node->is_unfit",
     "OUTCOME_UNHEALTHY"),
]

# For mutants that few schedules catch: a seed a little before such a schedule, so that thousands need not run in vain.
# If the schedules have changed, any other seed is as good.
BEGIN_AT = {
    "wait-before-the-start-lasts": 30000,
    "saved-wait-is-unsaved": 20400,
    "time-to-end-of-who-is-killed": 6100,
    "replaced-host-not-recorded": 9700,
    "background-save-is-a-move": 20261209434300,
    "lease-ends-while-it-stops": 420900,
    "start-behind-the-lease": 20261615746900,
    "late-node-is-a-twin": 785400,
    "steps-unread-when-it-stops": 20261130036400,
    "lost-spare-keeps-the-place": 211600,
    "former-node-stands-by": 43800,
    "steps-while-it-ends-make-a-start-good": 830000010900,
    "unfit-replacement-ends-all": 84200,
    "failure-waits-for-steps-while-it-stops": 735000467200,
    "hang-is-found-before-the-failure-of-who-gave-up": 745000188900,
    "failure-behind-a-final-cause-is-forgotten": 705000120500,
    "takeover-is-unheard-in-a-round": 606090191400,
    "deadline-that-passed-unseen-ends-the-job": 299792458046900,
    "first-pace-counts": 7702611304700,
    "gone-before-it-hears-of-the-end": 31416703500,
    "late-news-of-a-failed-save-is-the-last": 202611718300,
    "what-was-heard-before-the-end-is-forgotten": 7310002400,
    "one-quick-second-is-a-pace": 725000268200,
    "short-standing-notice-ends-the-job": 5000002600,
    "pause-in-a-save-is-its-time": 515075400,
    "one-late-answer-is-believed": 8111500,
    "save-counts-from-the-first-rank": 8012800,
    "lag-is-not-planned": 8010100,
    "one-slow-agreement-is-believed": 8002200,
    "one-pause-makes-all-steps-slow": 8001200,
    "one-comparison-is-enough": 8000900,
    "who-is-cut-off-keeps-the-done": 742500,
    "replaced-while-it-stops-is-not-told": 189700,
    "end-told-before-goodbye": 139300,
    "mute-chief-waited-for": 69900,
    "stop-is-forgotten-between-two-generations": 42000,
    "pace-with-the-saves": 39200,
    "wait-for-a-vote-is-a-slow-step": 61803543500,
    "last-step-of-who-has-ended-is-no-move": 350497490800,
    "second-to-give-up-is-not-told": 506300,
    "wait-at-the-save-step-is-a-slow-step": 800003500,
    "one-save-ends-a-standing-notice": 38100,
    "status-of-the-last-generation": 23000,
    "standing-notice-ends-the-start": 22400,
    "end-told-before-notice": 22300,
    "mute-node-waited-for": 22200,
    "abort-not-obeyed": 21800,
    "a-rank-that-gave-up-is-named": 157900,
    "offer-taken-back-unheard": 18700,
    "passed-over-while-it-is-committed": 18700,
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
    "crash-follows-from-an-exit": 840000077400,
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

# Only schedules in which a lost node may be replaced can catch these.
OF_REPLACEMENTS = {
    "replaced-without-a-fence", "fence-without-the-lease", "fence-without-the-killing", "fence-of-the-replacement",
    "standstill-renews-the-lease", "start-behind-the-lease", "lease-ends-with-a-long-stop",
    "lease-ends-while-it-stops", "wait-begins-anew-with-each-loss", "wait-without-an-end",
    "loss-never-waited-for", "loss-is-a-failure-of-its-victim", "replaced-too-often",
    "saved-wait-is-unsaved", "notice-of-one-node-ends-all", "notice-of-node-0-is-outlived", "unfit-replacement-ends-all",
    "replacement-that-cannot-start-ends-all",
    "health-checked-twice-at-once", "spare-and-returning-node-take-the-place", "spare-called-to-two-places",
    "unfit-node-ends-all-before-the-start", "wait-before-the-start-lasts", "missing-node-is-waited-for",
    "spare-called-for-a-node-that-may-come", "missing-nodes-called-for-too-often", "late-node-is-a-twin",
    "lost-spare-keeps-the-place", "spare-not-told-the-end", "former-node-stands-by", "spare-with-a-notice-stays",
    "spare-outlives-node-0",
}

# These mutants break no promise, or too seldom. The list has the reason, so that no one is added again.
#   commit-round-ends-run-late: only the time of the training's end differs
#   no-order-on-return, no-status-on-return: the next heartbeat brings both; this only takes longer
#   old-order-obeyed, old-status-believed: numbers of rounds and ballots, which only rise, say the same
#   round-aborted-at-the-end: the order that closes it also ends the job, so no gate is lifted
#   record-of-another-round: one schedule in 60,000 opens a round while a record is written; a unit
#       test does
#   spare-instead-of-a-node: node 0 never begins another attempt here; a unit test does
#   first-start-that-fails-is-a-loss: no schedule in 20,000 hears of it when the job restarts; a unit test does
#   late-rate-is-believed, rate-of-any-measurement: node and node 0 check the same; unit tests do
#   silent-node-is-not-lost: one schedule in 2,000 ends otherwise, but is_sound() leaves out lines that fail one way, so no
#       promise says which end is right; a unit test and chaos do
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
#   done-without-the-last-save-is-preempted: one schedule in 300,000 and more gives a save up then; a unit
#       test does
#   done-waits-for-the-lost: nearly always a notice's deadline ends such a job soon; a unit test does
#   done-and-saved-is-preempted: one schedule in 100,000 commits the last save when every rank has ended;
#       a unit test does
#   signal-is-a-plan, own-notice-is-near-by-itself: nothing else happens here under a short standing
#       notice; unit tests do
#   who-waits-is-not-held: one schedule in 100,000 starts a node anew in a save that long; a unit test does
#   notice-from-before-the-start-is-judged-late: one schedule in 100,000 has a step before every node knows; a
#       unit test does
#   overtaken-heartbeat-not-answered: with the next one the answer comes, most often in time; a unit test does
#   asked-when-it-is-too-late: the job ends at the deadline all the same; a unit test does
#   examination-waited-for: an examination ends by itself within a minute; a unit test does
#   record-outlives-the-deadline: the chief no longer wakes for a time that has passed; a unit test does
#   older-save-not-answered: the round that is open by then answers it, as it answers an own save
#   others-get-no-time-to-give-up: one schedule in 100,000 and more names another rank; a unit test does
#   stands-still-before-the-steps-are-read: few schedules stop a node in such an instant; a unit test does
#   late-commit-ends-the-job: one schedule in 100,000 freezes while the commit is written; a unit test does
#   paces-of-different-times: since a wait at the save step is no slow step, 150,000 schedules with stalls held; a unit
#       test does
#   steps-of-different-moments: it brings a last save forward by less than a second; a unit test does
#   step-when-all-are-gone: the ranks of a schedule seldom train on while they end for such a failure; a unit
#       test does
#   fence-lowered-by-any-word: one schedule in 30,000 and more has another supervisor there so soon; a unit test
#       does
#   losses-without-a-commit-are-waited-for: no promise counts them; a unit test does
#   former-node-takes-the-place: a second replacement must be awaited just then; a unit test does
#   lost-node-takes-its-place-again: it has stopped its processes by then, and could do so
#   final-before-all-are-gone: the exit of a victim seldom looks like the first failure; a unit test does
#   vacant-place-is-left-empty: a vacant node has not said that it is gone, or has no connection
#   short-times-of-training-are-no-pace: hardly a schedule hurries by this pace alone; a unit test does
#   timeout-aborts-decided-round: by then every node has seen the decision, and keeps its gate


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", default=pathlib.Path(__file__).resolve().parents[2],
                        type=pathlib.Path, help="the project's folder")
    parser.add_argument("--build", required=True, type=pathlib.Path, help="a folder for the results")
    parser.add_argument("--seeds", default=60000, type=int, help="schedules per mutant (default %(default)s)")
    parser.add_argument("--only", metavar="NAME", help="this mutant alone, with the trace of its end")
    parser.add_argument("--half", type=int, choices=[0, 1],
                        help="every second mutant; of the others only those that do not apply any more")
    return parser.parse_args()


# A busy machine may need long for all the schedules of a mutant that is not caught.
RUN_LIMIT_S = 400
# The exit code of pchrun-sim for a broken promise.
BREAKS_PROMISE = 1

# Most of the time goes to the compiler: -O2 takes twice as long, and the programs are no faster.
CFLAGS = ["-std=gnu11", "-D_GNU_SOURCE", '-DPCHRUN_BUGS=""', "-O1", "-w", "-c"]


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
    if name in OF_REPLACEMENTS:
        command.append("--replace")
    if not options.only:
        command.append("--quiet")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S)
        return done.returncode, done.stdout or f"the run ended with {done.returncode}"
    except subprocess.TimeoutExpired:
        return None, f"the run took more than {RUN_LIMIT_S} s; let it begin nearer to a schedule (BEGIN_AT)"
    finally:
        program.unlink()


WORD = re.compile(r"\s+|\w+|[^\w\s]")


def part_of(text, function):
    """(begin, end) of the function in the text of a file; the whole text without one."""
    if not function:
        return 0, len(text)
    found = list(re.finditer(rf"^[A-Za-z_][^;{{}}=#]*?\b{function}\s*\([^;{{}}]*\)\s*\n\{{.*?^\}}", text, re.M | re.S))
    return found[0].span() if len(found) == 1 else (0, 0)


def changed(text, function, old, new):
    """The text with the expression `old` of the function replaced; None if it does not occur once."""
    begin, end = part_of(text, function)
    pattern = "".join(r"\s+" if word.isspace() else re.escape(word) for word in WORD.findall(old))
    found = list(re.finditer(pattern, text[begin:end]))
    if len(found) != 1:
        return None
    return text[:begin + found[0].start()] + new + text[begin + found[0].end():]


def apply(options, mutant):
    """(the file's name, its text with the mutant): the text is None if the mutant does not apply."""
    _, file, function, old, new = mutant
    file = file if file.startswith("tests/") else f"src/core/{file}"
    return file, changed((options.source / file).read_text(), function, old, new)


def run_mutant(options, made, mutant):
    """Returns the name, whether the mutant was caught, a text about it, and the seconds that it took."""
    name, function = mutant[0], mutant[2]
    started = time.monotonic()
    file, text = apply(options, mutant)
    if text is None:
        return name, None, f"its expression does not occur once in {function or 'it'} of {file}", 0
    source = options.build / f"{name}.c"
    source.write_text(text)
    files = dict(made)
    files[file] = compile_file(options, source, options.build / f"{name}.o")
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
    if options.half is not None:
        others = chosen[1 - options.half::2]
        chosen = chosen[options.half::2] + [m for m in others if apply(options, m)[1] is None]
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
