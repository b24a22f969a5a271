/* SPDX-License-Identifier: Apache-2.0
 * See drill_phases.h.
 */
#include "run/drill_phases.h"

#include "base/str.h"

/* --- looks --- */

static void note_stretch(struct drill_phases *phases, int slot, int64_t now, bool is_open)
{
    const struct drill_rank *rank = &phases->slots[slot].rank;
    int64_t since = phases->slots[slot].since;
    struct drill_stretch *longest = &phases->longest[rank->phase];
    if (since && !rank->is_serving && now - since > longest->ns)
        *longest = (struct drill_stretch){.ns = now - since, .is_open = is_open};
}

static bool is_same(const struct drill_rank *a, const struct drill_rank *b)
{
    return a->step == b->step && a->phase == b->phase && a->is_serving == b->is_serving;
}

/* After the first step a process in its start phase trains. */
static void look_at(struct drill_phases *phases, struct drill_rank rank, int64_t now)
{
    __typeof__(phases->slots[0]) *slot = &phases->slots[rank.slot];
    if (rank.phase == PAGE_START)
        rank.phase = PAGE_TRAIN;
    bool is_new = !slot->seen_at || slot->rank.pid != rank.pid;
    if (is_new && !phases->stepped_at)
        phases->attached_at = now;
    if (is_new || !is_same(&slot->rank, &rank)) {
        bool has_stepped = rank.step > rank.first_step;
        if (!is_new)
            note_stretch(phases, rank.slot, now, false);
        slot->since = has_stepped ? now : 0;
        if (has_stepped && !phases->stepped_at)
            phases->stepped_at = now;
    }
    phases->has_announced = phases->has_announced || rank.phase != PAGE_TRAIN;
    slot->rank = rank;
    slot->seen_at = now;
}

void drill_phases_look(struct drill_phases *phases, const struct drill_rank *ranks, int n,
                       int64_t now)
{
    for (int i = 0; i < n && !phases->is_over; i++)
        look_at(phases, ranks[i], now);
    phases->looked_at = now;
}

/* A rank that ended before the job is in no phase. */
void drill_phases_end(struct drill_phases *phases, int64_t now)
{
    for (int slot = 0; slot < CORE_SLOTS_MAX && !phases->is_over; slot++)
        if (phases->slots[slot].seen_at == phases->looked_at)
            note_stretch(phases, slot, now, true);
    phases->is_over = true;
}

int64_t drill_phases_longest(const struct drill_phases *phases)
{
    int64_t longest = 0;
    for (int i = 0; i < PAGE_PHASES; i++)
        if (phases->longest[i].ns > longest)
            longest = phases->longest[i].ns;
    return longest;
}

/* --- the lines --- */

static const struct {
    const char *name, *advice;
} phase_words[PAGE_PHASES] = {
    [PAGE_TRAIN] = {"step", "call pch_step (in Python: job.step) more often"},
    [PAGE_EVAL] = {"evaluation",
                   "shorten it, or leave it when pch_notice (in Python: job.notice) has a text"},
    [PAGE_COMPILE] = {"compilation", "compile before the first step, or keep the compiled code"},
    [PAGE_SAVE] = {"the program's own save", "save faster, or in the background (pch_durable)"},
};

/* Of a stretch that the end cut short, only its least length is known. */
static bool is_late(const struct drill_stretch *longest, const struct drill_saving *saving)
{
    return longest->ns + saving->save_ns > saving->grace_ns ||
           (longest->is_open && longest->ns >= saving->grace_ns / 2);
}

static void tell_start(const struct drill_phases *phases, struct drill_line *line)
{
    char import[32], first[32], both[32];
    *line = (struct drill_line){.is_bad = false};
    str_about(phases->attached_at - phases->began_at, import, sizeof import);
    str_addf(line->text, sizeof line->text,
             "import: %s from the start of the commands until every rank had attached", import);
    if (phases->stepped_at)
        str_addf(line->text, sizeof line->text,
                 "; first step: %s more; a notice in these %s saves nothing",
                 str_about(phases->stepped_at - phases->attached_at, first, sizeof first),
                 str_about(phases->stepped_at - phases->began_at, both, sizeof both));
    else
        str_addf(line->text, sizeof line->text, "; a notice in it saves nothing");
}

/* The notice at the start of a phase is the worst one. */
static void tell_late(const struct drill_stretch *longest, int phase,
                      const struct drill_saving *saving, struct drill_line *line)
{
    char took[32], needs[32], has[32];
    str_about(longest->ns, took, sizeof took);
    str_about(longest->ns + saving->save_ns, needs, sizeof needs);
    str_about(saving->grace_ns, has, sizeof has);
    *line = (struct drill_line){.is_bad = true};
    str_addf(line->text, sizeof line->text, "%s: ", phase_words[phase].name);
    if (longest->is_open)
        str_addf(line->text, sizeof line->text, "%s, and not over when the time was up", took);
    else
        str_addf(line->text, sizeof line->text,
                 "up to %s; a notice at its start needs %s with the save, and has %s", took, needs,
                 has);
    str_addf(line->text, sizeof line->text, "; %s", phase_words[phase].advice);
}

/* Adds a phase to the line of those that are short enough. */
static void add_short(const struct drill_stretch *longest, int phase, struct drill_line *line)
{
    char took[32];
    str_addf(line->text, sizeof line->text, "%s%s (up to %s)",
             line->text[0] ? ", " : "a notice in these is saved in time: ", phase_words[phase].name,
             str_about(longest->ns, took, sizeof took));
}

int drill_phases_tell(const struct drill_phases *phases, const struct drill_saving *saving,
                      struct drill_line lines[DRILL_LINES_MAX])
{
    struct drill_line in_time = {.text = ""};
    int n = 0;
    if (phases->attached_at)
        tell_start(phases, &lines[n++]);
    for (int i = 0; i < PAGE_PHASES; i++) {
        const struct drill_stretch *longest = &phases->longest[i];
        if (longest->ns && is_late(longest, saving))
            tell_late(longest, i, saving, &lines[n++]);
        else if (longest->ns && saving->save_ns)
            add_short(longest, i, &in_time);
    }
    if (in_time.text[0])
        lines[n++] = in_time;
    if (phases->has_announced && !phases->longest[PAGE_EVAL].ns)
        lines[n++] = (struct drill_line){.text = "an evaluation was not seen in this drill"};
    return n;
}
