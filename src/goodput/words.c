/* SPDX-License-Identifier: Apache-2.0
 * The figures of goodput.h as words: times, shares, dates, ends.
 */
#include "goodput/goodput.h"

#include "base/clock.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>

char *goodput_lasting(int64_t ms, char text[GOODPUT_WORD])
{
    int64_t s = (ms + 500) / 1000, min = (s + 30) / 60;
    if (ms < 60 * 1000)
        snprintf(text, GOODPUT_WORD, "%.1f s", (double)ms / 1000);
    else if (s < 3600)
        snprintf(text, GOODPUT_WORD, "%" PRId64 " min %2" PRId64 " s", s / 60, s % 60);
    else
        snprintf(text, GOODPUT_WORD, "%" PRId64 " h %2" PRId64 " min", min / 60, min % 60);
    return text;
}

char *goodput_date(int64_t ms, char text[GOODPUT_WORD])
{
    clock_iso8601(ms * NS_PER_MS, text, GOODPUT_WORD);
    text[10] = ' ';
    text[16] = '\0';
    return text;
}

char *goodput_percent(int64_t part, int64_t whole, char text[GOODPUT_WORD])
{
    double share = whole > 0 ? 100 * (double)part / (double)whole : 0;
    if (part > 0 && share < 0.05)
        str_copy(text, GOODPUT_WORD, "<0.1");
    else if (part < whole && share > 99.9)
        str_copy(text, GOODPUT_WORD, "99.9");
    else
        snprintf(text, GOODPUT_WORD, "%.1f", share);
    return text;
}

const char *goodput_ending(const struct goodput *g, int run)
{
    if (g->runs[run].outcome[0])
        return g->runs[run].outcome;
    return g->is_running && run == g->nruns - 1 ? "running" : "killed";
}

static void goodput_note(struct goodput_notes *notes, int64_t count, const char *one,
                         const char *several)
{
    if (count > 0 && notes->n < GOODPUT_NOTES_MAX)
        snprintf(notes->text[notes->n++], GOODPUT_NOTE, "%" PRId64 " %s", count,
                 count == 1 ? one : several);
}

struct goodput_notes goodput_find_notes(const struct goodput *g)
{
    struct goodput_notes notes = {.n = 0};
    int64_t killed = 0, jumped = 0;
    for (int i = 0; i < g->nruns; i++) {
        killed += !g->runs[i].outcome[0] && !(g->is_running && i == g->nruns - 1);
        jumped += g->runs[i].has_jumped;
    }
    if (g->is_torn)
        str_copy(notes.text[notes.n++], GOODPUT_NOTE, "the last line is cut, and does not count");
    goodput_note(&notes, g->damaged, "line is damaged, and does not count",
                 "lines are damaged, and do not count");
    goodput_note(&notes, g->dropped, "line is missing: node 0 could not write it",
                 "lines are missing: node 0 could not write them");
    goodput_note(&notes, g->strange, "line is of a later pchrun, and does not count",
                 "lines are of a later pchrun, and do not count");
    goodput_note(&notes, g->stray, "line of an attempt that had been replaced does not count",
                 "lines of attempts that had been replaced do not count");
    goodput_note(
        &notes, killed,
        "attempt has no end: pchrun was killed; up to a minute of it counts as queued",
        "attempts have no end: pchrun was killed; up to a minute of each counts as queued");
    goodput_note(&notes, jumped, "attempt saw the clock being set; its own time is right",
                 "attempts saw the clock being set; their own time is right");
    return notes;
}
