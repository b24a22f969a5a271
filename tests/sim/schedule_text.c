/* SPDX-License-Identifier: Apache-2.0
 * A schedule in words. See sim.h.
 */
#include "sim.h"

#define MS NS_PER_MS
#define S  NS_PER_S

const char *fault_text(const struct fault *f, char text[FAULT_TEXT])
{
    static const char *const names[DO__COUNT] = {"SIGTERM",
                                                 "SIGUSR2",
                                                 "killed",
                                                 "killed",
                                                 "line broken",
                                                 "partitioned",
                                                 "paused",
                                                 "all frozen",
                                                 "will be killed when its ranks have saved",
                                                 "killed, to be started anew",
                                                 "gets a twin",
                                                 "hangs",
                                                 "stopped",
                                                 "lags",
                                                 "says why it fails",
                                                 "is asked for the end of the job",
                                                 "is asked for a save and the end of the job",
                                                 "its source repeats a notice",
                                                 "one way of its line fails",
                                                 "its source gives a notice",
                                                 "its source withdraws the notice",
                                                 "its source advises to save"};
    bool is_of_proc = f->kind == DO_KILL_PROC || (f->kind >= DO_HANG && f->kind <= DO_CONFESS);
    snprintf(text, FAULT_TEXT, "%s %d: %s", is_of_proc ? "process" : "node",
             is_of_proc ? f->proc : f->node, names[f->kind]);
    return text;
}

void schedule_print(const struct schedule *s, FILE *out)
{
    char text[FAULT_TEXT];
    static const char *const leftovers[] = {"", ", a leftover that ends of SIGTERM",
                                            ", a leftover that needs SIGKILL"};
    fprintf(out, "seed %llu: %d nodes x %d processes, %s, steps %llu..%llu, %s, grace %.1f s%s%s\n",
            ull(s->seed), s->nnodes, s->nprocs,
            s->is_forwarded          ? "handed the signal"
            : !s->attaches           ? "not attaching"
            : s->style == STYLE_SYNC ? "sync"
                                     : "async",
            ull(s->first_step), ull(s->last_step), s->is_lockstep ? "lockstep" : "free running",
            (double)s->grace / S, s->own_every ? ", own saves" : "",
            s->is_benign ? ", benign" : "");
    if (s->has_shells)
        fprintf(out, "  each process below a shell, SIGTERM goes to all\n");
    for (int i = 0; i < s->nnodes; i++)
        if (s->guesses[i])
            fprintf(out, "  node %d does not know how long its grace is\n", i);
    if (s->slow_from)
        fprintf(out, "  from step %llu on a step takes %lld times as long\n", ull(s->slow_from),
                (long long)s->slow_by);
    if (s->slow_until)
        fprintf(out, "  from step %llu on as before\n", ull(s->slow_until));
    if (s->every_steps || s->every_ns)
        fprintf(out, "  a save every %llu steps, %.3f to %.3f s%s\n", ull(s->every_steps),
                (double)s->every_ns / S, (double)s->every_most / S,
                s->is_regular ? ", regular" : "");
    if (s->known_start)
        fprintf(out, "  earlier starts took %.1f s, saves %.1f s\n", (double)s->known_start / S,
                (double)s->known_save / S);
    if (s->patience)
        fprintf(out, "  a process waits %.1f s for the others, and then fails%s%s\n",
                (double)s->patience / S, s->says_so ? "" : " in silence",
                s->hung_gives_up ? ", also the one that hangs; some stay" : "");
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        fprintf(out,
                "  process %d: %.1f ms for %llu steps, save %.0f ms, attaches at %.0f "
                "ms%s%s%s%s%s%s%s%s%s%s%s%s\n",
                i, (double)s->step_time[i] / MS, ull(s->stride[i]), (double)s->save_time[i] / MS,
                (double)s->attach_at[i] / MS, s->ends_early[i] ? ", ends early" : "",
                s->fails_to_save[i] ? ", fails to save" : "", s->cut_at[i] ? ", is cut off" : "",
                s->is_mute[i] ? ", mute" : "", s->is_terse[i] ? ", terse" : "",
                s->is_bare[i] ? ", handles SIGTERM" : "",
                s->stays_attached[i] ? ", stays attached" : "",
                s->is_hidden[i] ? ", its failure hidden" : "", s->is_silent[i] ? ", silent" : "",
                s->is_stubborn[i] ? ", stubborn" : "", s->reattaches[i] ? ", reattaches" : "",
                s->is_unkillable[i] ? ", unkillable" : "");
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        if (s->lingers[i])
            fprintf(out, "  process %d ends %.1f s after it is done\n", i,
                    (double)s->lingers[i] / S);
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        if (s->exit_time[i])
            fprintf(out, "  process %d takes %.1f s to leave%s\n", i, (double)s->exit_time[i] / S,
                    s->known_end ? ", as node 0 knows" : "");
    for (int i = 0; i < s->nnodes; i++)
        if (s->leftover[i])
            fprintf(out, "  node %d%s%s\n", i, leftovers[s->leftover[i]],
                    s->leaves_leftovers ? ", to be left" : "");
    needs_print(s, out);
    health_print(s, out);
    network_print(s, out);
    replace_print(s, out);
    spares_print(s, out);
    for (int i = 0; i < s->nfaults; i++)
        fprintf(out, "  at %.3f s: %s (%.1f s)\n", (double)s->faults[i].at / S,
                fault_text(&s->faults[i], text), (double)s->faults[i].length / S);
}
