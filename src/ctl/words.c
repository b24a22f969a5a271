/* SPDX-License-Identifier: Apache-2.0
 * See words.h.
 */
#include "ctl/words.h"

#include "base/clock.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>

static bool words_is_over(const struct json *answer)
{
    return !json_is_at(answer, "report.outcome", "unknown") &&
           json_text_at(answer, "report.outcome")[0];
}

/* The phase that most of the attached ranks are in. */
static enum page_phase words_phase(const struct tally *tally)
{
    enum page_phase most = PAGE_START;
    for (enum page_phase i = PAGE_START; i < PAGE_PHASES; i++)
        if (tally->in_phase[i] > tally->in_phase[most])
            most = i;
    return most;
}

static const char *const words_phases[PAGE_PHASES] = {
    [PAGE_START] = "starting",    [PAGE_TRAIN] = "training", [PAGE_EVAL] = "evaluating",
    [PAGE_COMPILE] = "compiling", [PAGE_SAVE] = "saving",
};

const char *words_rank(const struct json *rank)
{
    enum page_phase phase;
    if (!json_is_at(rank, "state", "attached"))
        return json_text_at(rank, "state");
    return tally_phase(rank, &phase) ? words_phases[phase] : "";
}

/* The state by the ledger of the job; "": the answer has none, or it is older than the report. */
static const char *words_of_ledger(const struct json *answer)
{
    static const char *const words[][2] = {
        {"starting", "starting"},     {"waiting", "starting"}, {"unattached", "not attached"},
        {"training", "training"},     {"saving", "saving"},    {"hung", "training"},
        {"restarting", "restarting"}, {"stopping", "stopping"}};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (json_is_at(answer, "ledger.phase", words[i][0]))
            return words[i][1];
    return "";
}

static bool words_is_replacing(const struct json *answer)
{
    return json_text_at(answer, "report.waits_for.since")[0];
}

const char *words_state(const struct json *answer, const struct tally *tally)
{
    const char *state = json_text_at(answer, "report.state"), *does = words_of_ledger(answer);
    if (str_is(state, "done"))
        return "ended";
    if (json_bool_at(answer, "gone"))
        return "gone";
    if (words_is_over(answer))
        return "ending";
    if (str_is(state, "restarting"))
        return words_is_replacing(answer) ? "waiting" : "restarting";
    if (str_is(state, "stopping") || str_is(state, "leaving"))
        return "stopping";
    if (str_is(state, "saving") || tally_is_saving(answer))
        return "saving";
    if (*does)
        return does;
    if (str_is(state, "waiting"))
        return "starting";
    if (tally->attached > 0)
        return words_phases[words_phase(tally)];
    if (tally->done > 0)
        return "finishing";
    return tally->starting > 0 ? "starting" : "not attached";
}

static void words_add_end(const struct json *answer, char text[WORDS_MAX])
{
    str_addf(text, WORDS_MAX, ": %s, exit code %" PRId64 ": %s",
             json_text_at(answer, "report.outcome"), json_int_at(answer, "report.exit_code", -1),
             json_text_at(answer, "report.why"));
}

static void words_add_nodes(const struct json *answer, char text[WORDS_MAX])
{
    int here = 0, all = 0;
    for (const struct json *node = json_items_at(answer, "nodes"); node; node = json_next(node)) {
        all++;
        here += !json_is_at(node, "state", "missing") && !json_is_at(node, "state", "lost");
    }
    if (all > here)
        str_addf(text, WORDS_MAX, ": %d of %d nodes have joined", here, all);
}

/* Whole seconds or minutes: the sentence is read at a glance. */
static char *words_about(int64_t ns, char *text, size_t size)
{
    if (ns >= 120 * NS_PER_S && ns < 7200 * NS_PER_S)
        snprintf(text, size, "%d min", (int)(ns / (60 * NS_PER_S)));
    else
        str_about(ns - ns % NS_PER_S, text, size);
    return text;
}

int64_t words_next_save(const struct json *answer)
{
    int64_t ago = tally_between(answer, "report.commit.at", "now");
    int64_t every = tally_time(answer, "report.save_every_ms");
    return ago >= 0 && every > ago && !tally_is_over(answer) ? every - ago : -1;
}

static void words_add_commit(const struct json *answer, char text[WORDS_MAX])
{
    char about[24];
    int64_t step = json_int_at(answer, "report.commit.step", -1);
    int64_t ago = tally_between(answer, "report.commit.at", "now");
    int64_t next = words_next_save(answer);
    if (step < 0)
        str_addf(text, WORDS_MAX, ", no commit so far");
    else if (ago >= 0)
        str_addf(text, WORDS_MAX, ", last commit %s ago", words_about(ago, about, sizeof about));
    else
        str_addf(text, WORDS_MAX, ", last commit before this pchrun began");
    if (step >= 0 && next >= 0)
        str_addf(text, WORDS_MAX, ", next save in %s", words_about(next, about, sizeof about));
}

static void words_add_progress(const struct json *answer, const struct tally *tally,
                               char text[WORDS_MAX])
{
    char step[TALLY_NUMBER_SIZE];
    int64_t final = json_int_at(answer, "report.steps.final", 0);
    if (tally->top > 0)
        str_addf(text, WORDS_MAX, " at step %s", tally_number(tally->top, step));
    if (tally->top > 0 && final > 0)
        str_addf(text, WORDS_MAX, " of %s", tally_number(final, step));
    if (tally->pace > 0)
        str_addf(text, WORDS_MAX, ", %.3g steps/s", tally->pace);
    words_add_commit(answer, text);
}

static void words_add_saving(const struct json *answer, const struct tally *tally,
                             char text[WORDS_MAX])
{
    char step[TALLY_NUMBER_SIZE];
    str_addf(text, WORDS_MAX, " step %s: %d of %d ranks have saved",
             tally_number(json_int_at(answer, "report.round.save_step", 0), step), tally->saved,
             tally->ranks);
}

static void words_add_gone(const struct json *answer, const struct tally *tally,
                           char text[WORDS_MAX])
{
    char about[24], step[TALLY_NUMBER_SIZE];
    int64_t ago = tally_between(answer, "as_of", "now");
    str_addf(text, WORDS_MAX, ": it was killed, or its machine is; its last sign is of %s ago",
             words_about(ago > 0 ? ago : 0, about, sizeof about));
    if (tally->top > 0)
        str_addf(text, WORDS_MAX, ", at step %s", tally_number(tally->top, step));
}

/* "node 3", "nodes 3, 7 and 12", "nodes 3, 7, 12 and 5 more". False: no place is vacant. */
static bool words_add_vacant(const struct json *answer, char *text, size_t size)
{
    enum { NAMED = 3 };
    const struct json *first = json_items_at(answer, "report.waits_for.nodes"), *node;
    int n = tally_more_vacant(answer), i = 0;
    for (node = first; node; node = json_next(node))
        n++;
    const char *before = n > 1 ? "nodes " : "node ";
    for (node = first; node && i < NAMED; node = json_next(node)) {
        str_addf(text, size, "%s%" PRId64, before, json_int_at(node, "node_rank", -1));
        before = ++i + 1 == n ? " and " : ", ";
    }
    if (n > i)
        str_addf(text, size, " and %d more", n - i);
    return first;
}

static void words_add_replacement(const struct json *answer, char text[WORDS_MAX])
{
    char about[24], vacant[96] = "";
    int64_t left = tally_between(answer, "now", "report.waits_for.until");
    if (words_add_vacant(answer, vacant, sizeof vacant))
        str_addf(text, WORDS_MAX, " for a replacement of %s, %s more at most", vacant,
                 words_about(left > 0 ? left : 0, about, sizeof about));
    else
        str_addf(text, WORDS_MAX, ": every place is taken; the lost node's processes must end");
}

char *words_say(const struct json *answer, const struct tally *tally, char text[WORDS_MAX])
{
    const char *state = words_state(answer, tally);
    str_copy(text, WORDS_MAX, state);
    if (words_is_over(answer))
        words_add_end(answer, text);
    else if (str_is(state, "gone"))
        words_add_gone(answer, tally, text);
    else if (tally_is_saving(answer))
        words_add_saving(answer, tally, text);
    else if (str_is(state, "restarting"))
        str_addf(text, WORDS_MAX, " in place, generation %" PRId64,
                 json_int_at(answer, "report.generation", 0));
    else if (str_is(state, "waiting"))
        words_add_replacement(answer, text);
    else if (str_is(state, "not attached"))
        str_addf(text, WORDS_MAX, ": the command runs, and no rank has attached so far");
    else if (str_is(state, "finishing"))
        str_addf(text, WORDS_MAX, ": %d of %d ranks are done", tally->done, tally->ranks);
    else if (tally->starting > 0 && tally->attached == 0)
        str_addf(text, WORDS_MAX, ": %d of %d ranks have attached", tally->attached, tally->ranks);
    else if (str_is(state, "starting") && tally->attached == 0)
        words_add_nodes(answer, text);
    else if (!str_is(state, "stopping"))
        words_add_progress(answer, tally, text);
    return text;
}

/* "2 stand by (h5, h6)" */
static void words_add_standing(const struct json *spares, char text[WORDS_MAX])
{
    enum { NAMED = 4 };
    char hosts[WORDS_MAX / 2] = "";
    int n = 0;
    for (const struct json *spare = json_first(spares); spare; spare = json_next(spare)) {
        if (json_int_at(spare, "takes_place_of", -1) >= 0)
            continue;
        if (n++ < NAMED)
            str_addf(hosts, sizeof hosts, "%s%.40s", n > 1 ? ", " : "",
                     json_text_at(spare, "host"));
    }
    if (n == 0)
        str_addf(text, WORDS_MAX, "none stands by");
    else
        str_addf(text, WORDS_MAX, "%d stand%s by (%s%s)", n, n == 1 ? "s" : "", hosts,
                 n > NAMED ? ", ..." : "");
}

char *words_spares(const struct json *answer, char text[WORDS_MAX])
{
    const struct json *spares = json_at(answer, "report.spares");
    text[0] = '\0';
    if (tally_is_over(answer) || !spares || json_kind(spares) != JSON_IS_LIST)
        return text;
    words_add_standing(spares, text);
    for (const struct json *spare = json_first(spares); spare; spare = json_next(spare))
        if (json_int_at(spare, "takes_place_of", -1) >= 0)
            str_addf(text, WORDS_MAX, "; %.40s takes the place of node %" PRId64,
                     json_text_at(spare, "host"), json_int_at(spare, "takes_place_of", -1));
    return text;
}

const char *words_then(const struct json *answer, const struct tally *tally)
{
    if (words_is_over(answer))
        return "The job is ending.";
    if (tally->attached == 0)
        return "No rank has attached, so pchrun cannot ask for a save. The job ends.";
    return "Every rank saves one step before the end. The next start resumes there.";
}
