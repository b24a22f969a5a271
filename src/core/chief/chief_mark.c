/* SPDX-License-Identifier: Apache-2.0
 * Marks for the ledger of the job: when it starts, trains, saves, hangs, restarts and stops. See
 * chief_parts.h.
 *
 * A mark follows from the present facts alone, after all decisions, so a repeated message makes no
 * mark. The slowest node counts: the job trains once a rank of every node has finished a step, and
 * saves once every rank has begun to.
 */
#include "core/chief/chief_parts.h"

static void emit_mark(struct chief *chief, enum mark_kind kind, uint64_t step, int64_t at)
{
    if (kind != MARK_COMMIT) {
        chief->mark.kind = kind;
        chief->mark.generation = chief->generation;
    }
    out_act(chief->out,
            &(struct action){
                .type = ACT_MARK,
                .mark = {.kind = kind, .generation = chief->generation, .step = step, .at = at}});
}

/* Nodes without ranks never step. While some nodes have stepped, `late` is a node that has not:
 * until it steps, a message costs the same for two nodes as for thousands. */
static void note_first_steps(struct chief *chief)
{
    if (chief->gen.mark.trains)
        return;
    if (!any_is(chief, FACT_STEPPED)) {
        chief->gen.mark.begins_at = chief->highest;
        return;
    }
    int *late = &chief->gen.mark.late, n = chief->params->nnodes;
    for (int i = 0; i < n; i++, *late = (*late + 1) % n)
        if (!peer_is(&chief->peers[*late], FACT_STEPPED) && chief->peers[*late].status.expected > 0)
            return;
    chief->gen.mark.trains = true;
}

/* A process that does not attach may train, but tells no step. */
static bool tells_no_step(const struct chief *chief)
{
    return !any_is(chief, FACT_ATTACHED) &&
           (chief->params->save_mode != SAVE_ATTACH || chief->gen.has_told_unattached);
}

static bool training_is_over(const struct chief *chief)
{
    return chief_is_over(chief) || all_are(chief, FACT_ENDED);
}

static enum mark_kind kind_of(const struct chief *chief)
{
    bool is_alone = chief->params->nnodes == 1;
    if (chief_is_waiting(chief))
        return MARK_WAITING;
    if (chief->order.end != END_NONE)
        return chief_is_restarting(chief) ? MARK_RESTARTING : MARK_STOPPING;
    if (!chief->order.start)
        return is_alone || all_are(chief, FACT_JOINED) ? MARK_STARTING : MARK_WAITING;
    if (chief_is_deciding(chief) && chief->gen.begun_at)
        return MARK_SAVING;
    if (training_is_over(chief))
        return MARK_STOPPING;
    if (chief->gen.hang.is_told)
        return MARK_HUNG;
    if (chief->gen.mark.trains)
        return MARK_TRAINING;
    return tells_no_step(chief) ? MARK_UNATTACHED : MARK_STARTING;
}

static uint64_t step_of(const struct chief *chief, enum mark_kind kind)
{
    if (kind == MARK_STARTING || (kind == MARK_WAITING && !chief->order.start))
        return chief->order.commit_step;
    if (kind == MARK_SAVING)
        return chief->order.save_step;
    bool begins = kind == MARK_TRAINING && chief->mark.kind != MARK_SAVING &&
                  chief->mark.kind != MARK_HUNG && chief->mark.kind != MARK_STOPPING;
    uint64_t first = chief->gen.mark.begins_at > chief->gen.first_step ? chief->gen.mark.begins_at
                                                                       : chief->gen.first_step;
    return begins ? first : chief->highest;
}

/* The job ends, or restarts, because of a hang. */
static void mark_hang(struct chief *chief)
{
    bool is_suspected =
        chief->gen.hang.is_examined || chief->gen.hang.is_told || chief->gen.hang.gave_up;
    bool has_hung =
        chief->order.outcome == OUTCOME_HANG || chief->order.outcome == OUTCOME_NO_PROGRESS;
    bool is_marked = chief->mark.kind == MARK_HUNG || chief->mark.kind == MARK_RESTARTING;
    if (is_suspected && has_hung && !is_marked)
        emit_mark(chief, MARK_HUNG, chief->highest, chief_moved_at(chief));
}

void chief_mark(struct chief *chief)
{
    note_first_steps(chief);
    if (chief->mark.kind == MARK_NONE || chief->mark.generation != chief->generation)
        emit_mark(chief, MARK_STARTING, chief->order.commit_step, chief->out->now);
    if (chief->order.commit_step > chief->mark.commit_step) {
        chief->mark.commit_step = chief->order.commit_step;
        emit_mark(chief, MARK_COMMIT, chief->order.commit_step, chief->out->now);
    }
    enum mark_kind kind = kind_of(chief);
    if (kind == chief->mark.kind)
        return;
    if (kind == MARK_RESTARTING || (kind == MARK_STOPPING && chief->order.end != END_NONE))
        mark_hang(chief);
    emit_mark(chief, kind, step_of(chief, kind),
              kind == MARK_HUNG ? chief_moved_at(chief) : chief->out->now);
}
