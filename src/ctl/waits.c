/* SPDX-License-Identifier: Apache-2.0
 * See waits.h.
 */
#include "ctl/waits.h"

#include "base/str.h"
#include "ctl/words.h"

#include <inttypes.h>

/* A rank that is behind is named after this time without a step, or after so many usual steps. */
#define LATE_S     2.0
#define LATE_STEPS 3.0
/* The same for a job in which no rank is behind. */
#define STILL_S     10.0
#define STILL_STEPS 10.0
/* A node is silent after this number of heartbeats, and after LATE_S. */
#define SILENT_BEATS 3

struct search {
    const struct json *answer;
    const struct tally *tally;
    struct waits *found;
};

/* True if the ranks wait for this rank; *ret_text gets the reason. NULL: only ask. */
typedef bool waits_reason(const struct search *search, const struct json *rank, char *text,
                          size_t size);

static double limit_s(const struct tally *tally, double least, double steps)
{
    double usual = tally->pace > 0 ? steps / tally->pace : 0;
    return usual > least ? usual : least;
}

static char *about_s(double seconds, char text[24])
{
    return str_about((int64_t)((seconds < 1e9 ? seconds : 1e9) * 1e9), text, 24);
}

/* --- nodes --- */

static struct wait *waits_add(struct waits *waits)
{
    if (waits->n == WAITS_MAX) {
        waits->more++;
        return NULL;
    }
    struct wait *wait = &waits->list[waits->n++];
    *wait = (struct wait){.rank = -1, .node = -1};
    return wait;
}

/* Its connection stands, and it sends no heartbeat: it is stopped, or its machine or the network
 * is. */
static bool node_is_silent(const struct json *answer, const struct json *node)
{
    static const char *const leaving[] = {"missing", "gone", "done", "lost", NULL};
    double beat_s = json_real_at(answer, "heartbeat_ms", 0) / 1000;
    double least = beat_s * SILENT_BEATS > LATE_S ? beat_s * SILENT_BEATS : LATE_S;
    return !str_is_one_of(json_text_at(node, "state"), leaving) && beat_s > 0 &&
           json_real_at(node, "heard_age", -1) >= least;
}

bool waits_has_node(const struct json *answer, const struct json *node)
{
    return json_is_at(node, "state", "missing") || json_is_at(node, "state", "checking") ||
           tally_is_cut(node) || node_is_silent(answer, node);
}

static void describe_node(const struct json *answer, const struct json *node, char *text,
                          size_t size)
{
    char about[24];
    double heard = json_real_at(node, "heard_age", -1);
    int64_t waited = tally_between(answer, "since", "now");
    if (json_is_at(node, "state", "missing")) {
        str_addf(text, size, "it has not joined");
        if (waited >= 0)
            str_addf(text, size, " for %s", str_about(waited, about, sizeof about));
    } else if (tally_is_cut(node)) {
        str_addf(text, size, "it has no connection");
        if (heard >= 0)
            str_addf(text, size, "; last heard %s ago", about_s(heard, about));
    } else if (node_is_silent(answer, node)) {
        str_addf(text, size, "no message from it for %s", about_s(heard, about));
    } else {
        str_addf(text, size, "its health check is under way");
    }
}

/* NULL: there is no room for one more. */
static struct wait *waits_add_node(struct search *search, int64_t node, const char *host)
{
    struct wait *wait = waits_add(search->found);
    if (!wait)
        return NULL;
    wait->node = node;
    str_addf(wait->text, sizeof wait->text, "node %" PRId64 "%s%s%s: ", node, *host ? " (" : "",
             host, *host ? ")" : "");
    return wait;
}

static void waits_for_node(struct search *search, const struct json *node)
{
    int64_t number = json_int_at(node, "node_rank", -1);
    const char *host = json_text_at(node, "host");
    host = *host ? host : json_text_at(node, "name");
    bool is_vacant = json_is_at(node, "state", "lost") &&
                     json_items_at(search->answer, "report.waits_for.nodes");
    if (is_vacant || !waits_has_node(search->answer, node))
        return;
    struct wait *wait = waits_add_node(search, number, host);
    if (wait)
        describe_node(search->answer, node, wait->text, sizeof wait->text);
}

/* Only node 0 knows since when each node is lost. */
static void waits_for_replacement(struct search *search, const struct json *node)
{
    const struct json *answer = search->answer;
    char about[24], left[24];
    int64_t own = tally_since(answer, node);
    int64_t since = own == INT64_MIN ? tally_between(answer, "report.waits_for.since", "now") : own;
    int64_t until = tally_between(answer, "now", "report.waits_for.until");
    struct wait *wait =
        waits_add_node(search, json_int_at(node, "node_rank", -1), json_text_at(node, "host"));
    if (wait)
        str_addf(wait->text, sizeof wait->text,
                 "its replacement, for %s so far; the job ends in %s, or by pchctl stop",
                 str_about(since > 0 ? since : 0, about, sizeof about),
                 str_about(until > 0 ? until : 0, left, sizeof left));
}

/* Lost nodes are to be replaced; or they were, and their processes may still run. */
static void waits_for_replacements(struct search *search)
{
    char about[24];
    const struct json *node = json_items_at(search->answer, "report.waits_for.nodes");
    int64_t fence = tally_between(search->answer, "now", "report.waits_for.starts_after");
    struct wait *wait = !node && fence > 0 ? waits_add(search->found) : NULL;
    if (wait)
        str_addf(wait->text, sizeof wait->text,
                 "the end of the lost node's processes, which may run for %s more",
                 str_about(fence, about, sizeof about));
    for (; node; node = json_next(node))
        waits_for_replacement(search, node);
    search->found->more += tally_more_vacant(search->answer);
}

/* The ranks are sorted by node. A rank that has attached once is listed. */
static void waits_for_attaching(struct search *search)
{
    const struct json *rank = json_items_at(search->answer, "ranks");
    const struct json *node = json_items_at(search->answer, "nodes");
    for (; node; node = json_next(node)) {
        int64_t number = json_int_at(node, "node_rank", -1), n = 0;
        int64_t expected = json_int_at(node, "ranks_expected", -1);
        for (; rank && json_int_at(rank, "node_rank", -1) == number; rank = json_next(rank))
            n++;
        bool is_behind = json_is_at(node, "state", "running") && json_bool_at(node, "ranks_known");
        struct wait *wait = is_behind && n < expected ? waits_add(search->found) : NULL;
        if (!wait)
            continue;
        wait->node = number;
        str_addf(wait->text, sizeof wait->text,
                 "node %" PRId64 " (%s): %" PRId64 " of %" PRId64 " ranks have attached", number,
                 json_text_at(node, "host"), n, expected);
    }
}

/* --- ranks --- */

static bool is_training(const struct json *rank)
{
    return json_bool_at(rank, "attached") && !json_bool_at(rank, "done");
}

/* In a normal save no rank has saved at first, and then one after the other has. So a rank is named
 * only once at least half of the others are further: at the step, or done with the save. */
static bool reason_unsaved(const struct search *search, const struct json *rank, char *text,
                           size_t size)
{
    char at[TALLY_NUMBER_SIZE], wanted[TALLY_NUMBER_SIZE];
    const struct tally *tally = search->tally;
    int64_t save_step = json_int_at(search->answer, "report.round.save_step", 0);
    int further = tally_step(rank) < save_step ? tally->come : tally->saved;
    if (!is_training(rank) || json_bool_at(rank, "counts_only") || further == 0 ||
        2 * further < tally->ranks - 1 || json_int_at(rank, "saved_step", 0) >= save_step)
        return false;
    if (text)
        str_addf(text, size, "it has not saved step %s; it is at step %s, %s",
                 tally_number(save_step, wanted), tally_number(tally_step(rank), at),
                 words_rank(rank));
    return true;
}

static bool reason_unattached(const struct search *search, const struct json *rank, char *text,
                              size_t size)
{
    if (search->tally->attached == 0 ||
        (!json_is_at(rank, "state", "not attached") && !json_is_at(rank, "state", "starting")))
        return false;
    if (text)
        str_addf(text, size, "it has not attached");
    return true;
}

/* "at step 48,208 for 40 s, all others at 48,210, evaluating" */
static void describe_stand(const struct search *search, const struct json *rank, char *text,
                           size_t size)
{
    char number[TALLY_NUMBER_SIZE], about[24];
    const struct tally *tally = search->tally;
    str_addf(text, size, "at step %s for %s", tally_number(tally_step(rank), number),
             about_s(json_real_at(rank, "step_age", 0), about));
    if (tally_step(rank) < tally->top)
        str_addf(text, size, ", %s at %s",
                 tally->at_top == tally->ranks - 1 ? "all others" : "the furthest",
                 tally_number(tally->top, number));
    if (!json_is_at(rank, "phase", "train"))
        str_addf(text, size, ", %s", words_rank(rank));
}

static bool reason_behind(const struct search *search, const struct json *rank, char *text,
                          size_t size)
{
    /* Most ranks end here: jobs have thousands. */
    if (tally_step(rank) >= search->tally->top)
        return false;
    double age = json_real_at(rank, "step_age", -1);
    if (age < limit_s(search->tally, LATE_S, LATE_STEPS) || !is_training(rank))
        return false;
    if (text)
        describe_stand(search, rank, text, size);
    return true;
}

static bool reason_alone(const struct search *search, const struct json *rank, char *text,
                         size_t size)
{
    if (!is_training(rank))
        return false;
    if (text)
        describe_stand(search, rank, text, size);
    return true;
}

/* In each step the other ranks wait for a slow one. */
static bool reason_slow(const struct search *search, const struct json *rank, char *text,
                        size_t size)
{
    double slow = json_real_at(rank, "slow", 0);
    if (slow <= 0 || !is_training(rank))
        return false;
    if (text)
        str_addf(text, size, "it is slow, its own part of a step takes %.3g x the median", slow);
    return true;
}

/* True if `a` is further behind than `b`, or else silent for longer. */
static bool is_worse(const struct json *a, const struct json *b)
{
    int64_t step_a = tally_step(a), step_b = tally_step(b);
    if (step_a != step_b)
        return step_a < step_b;
    return json_real_at(a, "step_age", -1) > json_real_at(b, "step_age", -1);
}

static void waits_describe(const struct search *search, const struct json *rank,
                           waits_reason *reason, struct wait *ret)
{
    char why[160] = "";
    *ret = (struct wait){.rank = json_int_at(rank, "rank", -1),
                         .node = json_int_at(rank, "node_rank", -1),
                         .step = tally_step(rank)};
    const char *host = tally_host(search->answer, ret->node);
    reason(search, rank, why, sizeof why);
    str_addf(ret->text, sizeof ret->text, "rank %" PRId64 "%s%s: %s", ret->rank,
             *host ? " on " : "", host, why);
}

/* Keeps the worst ranks, sorted, in the places that are left. */
static void waits_for_ranks(struct search *search, waits_reason *reason)
{
    const struct json *worst[WAITS_MAX];
    int n = 0, room = WAITS_MAX - search->found->n;
    const struct json *rank = json_items_at(search->answer, "ranks");
    for (; rank; rank = json_next(rank)) {
        if (!reason(search, rank, NULL, 0))
            continue;
        int at = n < room ? n++ : n;
        search->found->more += at == room;
        for (; at > 0 && is_worse(rank, worst[at - 1]); at--)
            if (at < room)
                worst[at] = worst[at - 1];
        if (at < room)
            worst[at] = rank;
    }
    for (int i = 0; i < n; i++)
        waits_describe(search, worst[i], reason, &search->found->list[search->found->n++]);
}

/* All ranks are at one step, and none finishes the next. False: that is not so. */
static bool waits_for_all(struct search *search)
{
    char about[24];
    const struct tally *tally = search->tally;
    bool is_still = tally->in_phase[PAGE_TRAIN] > 0 && tally->pace <= 0 &&
                    tally->youngest > limit_s(tally, STILL_S, STILL_STEPS);
    if (is_still && tally->attached == 1) {
        waits_for_ranks(search, reason_alone);
        return search->found->n > 0;
    }
    struct wait *wait = is_still ? waits_add(search->found) : NULL;
    if (wait)
        str_addf(wait->text, sizeof wait->text, "all ranks: none has finished a step for %s",
                 about_s(tally->youngest, about));
    return wait;
}

bool waits_has_rank(const struct json *answer, const struct tally *tally, const struct json *rank)
{
    const struct search search = {.answer = answer, .tally = tally};
    if (tally_is_saving(answer))
        return reason_unsaved(&search, rank, NULL, 0);
    return reason_unattached(&search, rank, NULL, 0) || reason_behind(&search, rank, NULL, 0);
}

void waits_find(const struct json *answer, const struct tally *tally, struct waits *ret)
{
    struct search search = {.answer = answer, .tally = tally, .found = ret};
    *ret = (struct waits){0};
    if (tally_is_over(answer))
        return;
    waits_for_replacements(&search);
    for (const struct json *node = json_items_at(answer, "nodes"); node; node = json_next(node))
        waits_for_node(&search, node);
    if (tally_is_saving(answer)) {
        waits_for_ranks(&search, reason_unsaved);
        return;
    }
    waits_for_attaching(&search);
    waits_for_ranks(&search, reason_unattached);
    waits_for_ranks(&search, reason_behind);
    if (ret->n == 0 && !waits_for_all(&search))
        waits_for_ranks(&search, reason_slow);
}
