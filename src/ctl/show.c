/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h.
 */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "base/str.h"
#include "ctl/figures.h"
#include "ctl/stackline.h"
#include "ctl/waits.h"
#include "ctl/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Clocks of two hosts may differ by less. */
#define CLOCK_AHEAD_NS (10 * NS_PER_S)

enum { CELL = FIGURES_SIZE, STRIKES_SHOWN = 4 };

/* --- cells --- */

/* The time between two moments of the supervisor's clock; -1: one is missing. */
static int64_t between(const struct json *answer, const char *from, const char *to)
{
    int64_t ns = tally_between(answer, from, to);
    return ns > 0 ? ns : ns == INT64_MIN ? -1 : 0;
}

static char *age(const struct json *object, const char *key, bool is_least, char text[CELL])
{
    return figures_seconds(json_real_at(object, key, -1), is_least, text);
}

static char *pace(const struct json *object, char text[CELL])
{
    return figures_pace(json_real_at(object, "steps_per_second", 0), text);
}

static char *range(const struct json *node, char text[CELL])
{
    int64_t low = json_int_at(node, "lowest_step", 0), high = json_int_at(node, "highest_step", 0);
    if (low == high)
        snprintf(text, CELL, "%" PRId64, high);
    else
        snprintf(text, CELL, "%" PRId64 "-%" PRId64, low, high);
    return text;
}

/* --- the job --- */

static void show_head(const struct json *answer, const struct tally *tally)
{
    char says[WORDS_MAX], about[24];
    int64_t ago = between(answer, "as_of", "now"), ahead = between(answer, "now", "as_of");
    bool is_ahead = ahead > CLOCK_AHEAD_NS;
    printf("job %s: %s\n", json_text_at(answer, "report.job"), words_say(answer, tally, says));
    printf("attempt   %" PRId64 ", generation %" PRId64 ", node %" PRId64 " of %" PRId64 "\n",
           json_int_at(answer, "report.attempt", 0), json_int_at(answer, "report.generation", 0),
           json_int_at(answer, "report.node_rank", 0), json_int_at(answer, "report.nnodes", 0));
    if (ago >= 0)
        printf("as of     %s, %s %s by the files in %s\n", json_text_at(answer, "as_of"),
               str_about(is_ahead ? ahead : ago, about, sizeof about),
               is_ahead ? "ahead of the clock here: ages and times that are left may be wrong;"
                        : "ago,",
               json_text_at(answer, "dir"));
}

/* "rank 3 on h1: at step 9 for 12 s, all others at 12 (train.py:88 in backward)". Returns text. */
static char *wait_text(const struct json *answer, const struct wait *wait, char *text, size_t size)
{
    char line[CELL * 2];
    bool has_line = stackline_find(answer, wait, line, sizeof line);
    snprintf(text, size, "%s%s%s%s", wait->text, has_line ? " (" : "", has_line ? line : "",
             has_line ? ")" : "");
    return text;
}

static void show_waits(const struct json *answer, const struct tally *tally)
{
    char text[sizeof(struct wait)];
    struct waits waits;
    waits_find(answer, tally, &waits);
    for (int i = 0; i < waits.n; i++)
        printf("%-9s %s\n", i ? "" : "waits for",
               wait_text(answer, &waits.list[i], text, sizeof text));
    if (waits.more > 0)
        printf("          and %d more\n", waits.more);
}

static void show_spares(const struct json *answer)
{
    char text[WORDS_MAX];
    if (*words_spares(answer, text))
        printf("spares    %s\n", text);
}

static void show_cause(const struct json *cause, const char *before)
{
    int64_t node = json_int_at(cause, "node_rank", -1), rank = json_int_at(cause, "rank", -1);
    const char *host = json_text_at(cause, "host");
    char who[CELL] = "";
    if (node < 0)
        return;
    if (rank >= 0)
        snprintf(who, sizeof who, ", rank %" PRId64, rank);
    printf("cause     %snode %" PRId64 "%s%s%s%s: %s\n", before, node, *host ? " (" : "", host,
           *host ? ")" : "", who, json_text_at(cause, "text"));
}

static void show_restarts(const struct json *answer)
{
    char about[24];
    int64_t most = json_int_at(answer, "report.restarts.max", 0);
    int64_t lost = json_int_at(answer, "report.restarts.replace_max", 0);
    int64_t window = tally_time(answer, "report.restarts.window_ms");
    if (most > 0 || lost > 0)
        printf("restarts  %" PRId64 " in place", json_int_at(answer, "report.generation", 0));
    if (most > 0)
        printf("; restart.max allows %" PRId64 " %s%s", most, window ? "within " : "in an attempt",
               window ? str_duration(window, about, sizeof about) : "");
    if (lost > 0)
        printf("; cluster.replace_max allows %" PRId64 " lost node%s an hour", lost,
               lost == 1 ? "" : "s");
    if (most > 0 || lost > 0)
        printf("\n");
    if (json_int_at(answer, "report.first_cause.node_rank", -1) >= 0)
        show_cause(json_at(answer, "report.first_cause"), "");
    else
        show_cause(json_at(answer, "report.restarts.last_cause"), "of the last failure: ");
}

/* The hosts that were not healthy, the latest one first. Only node 0 knows them. */
static void show_strikes(const struct json *answer)
{
    char about[24];
    const struct json *strikes[STRIKES_SHOWN], *item = json_items_at(answer, "report.strikes");
    int n = 0;
    for (; item; item = json_next(item))
        strikes[n++ % STRIKES_SHOWN] = item;
    for (int i = n - 1; i >= 0 && i >= n - STRIKES_SHOWN; i--) {
        const struct json *strike = strikes[i % STRIKES_SHOWN];
        int64_t count = json_int_at(strike, "count", 0), at = json_int_at(strike, "at_ns", 0);
        int64_t ago = at > 0 ? clock_real_ns() - at : 0; /* a file may have any number */
        printf("%-9s %s, %" PRId64 " time%s, the last %s ago: %s\n", i == n - 1 ? "unhealthy" : "",
               json_text_at(strike, "host"), count, count == 1 ? "" : "s",
               str_about(ago > 0 ? ago : 0, about, sizeof about), json_text_at(strike, "text"));
    }
    if (n > STRIKES_SHOWN)
        printf("          and %d more\n", n - STRIKES_SHOWN);
}

/* The report lacks the step if a program without a commit may resume by itself, or if the job was
 * killed. */
static void show_next(const struct json *answer)
{
    const char *damage = json_text_at(answer, "resume_unknown_why");
    int64_t committed = json_int_at(answer, "resume_step", -1);
    int64_t step = committed >= 0 ? committed : json_int_at(answer, "report.next_start.step", -1);
    const char *path = json_text_at(answer, "report.next_start.path");
    if (step > 0 && !*path && step == json_int_at(answer, "report.commit.step", -1))
        path = json_text_at(answer, "report.commit.path");
    if (*damage)
        printf("next      pchrun does not start: %s\n"
               "          to begin anew, move the state directory away\n",
               damage);
    else if (step > 0)
        printf("next      resumes at step %" PRId64 "%s%s\n", step, *path ? " of " : "", path);
    else if (step == 0)
        printf("next      begins anew\n");
}

static void show_notice(const struct json *answer)
{
    char about[24];
    int64_t node = json_int_at(answer, "report.notice.node_rank", -1);
    if (node < 0) {
        printf("notice    none\n");
        return;
    }
    const char *text = json_text_at(answer, "report.notice.text");
    int64_t left = between(answer, "now", "report.notice.deadline");
    printf("notice    %s%s%s on node %" PRId64, json_text_at(answer, "report.notice.source"),
           *text ? " " : "", text, node);
    if (!tally_is_over(answer))
        printf(", %s left", left < 0 ? "any time" : str_about(left, about, sizeof about));
    printf("\n");
}

static void show_saves(const struct json *answer)
{
    char about[24], soon[24];
    int64_t step = json_int_at(answer, "report.commit.step", -1), next = words_next_save(answer);
    if (json_int_at(answer, "report.round.id", 0) > 0)
        printf("save      round %" PRId64 ", step %" PRId64 ": %s\n",
               json_int_at(answer, "report.round.id", 0),
               json_int_at(answer, "report.round.save_step", 0),
               json_text_at(answer, "report.round.phase"));
    int64_t every = tally_time(answer, "report.save_every_ms");
    if (every > 0)
        printf("saves     every %s, if no notice comes%s%s\n",
               str_about(every, about, sizeof about), next >= 0 ? "; the next in " : "",
               next >= 0 ? str_about(next, soon, sizeof soon) : "");
    if (step < 0) {
        printf("commit    none\n");
        return;
    }
    int64_t ago = between(answer, "report.commit.at", "now");
    const char *path = json_text_at(answer, "report.commit.path");
    if (ago >= 0)
        printf("commit    step %" PRId64 ", %s ago\n", step, str_about(ago, about, sizeof about));
    else
        printf("commit    step %" PRId64 ", before this pchrun began\n", step);
    if (*path)
        printf("          %s\n", path);
    const char *without = json_text_at(answer, "report.commit.without");
    if (*without)
        printf("          without %s\n", without);
}

/* --- a line for each job --- */

static char *commit_age(const struct json *answer, char text[CELL])
{
    char about[24];
    int64_t ago = between(answer, "report.commit.at", "now");
    bool has_commit = json_int_at(answer, "report.commit.step", -1) >= 0;
    if (ago >= 0)
        snprintf(text, CELL, "%s ago", str_about(ago, about, sizeof about));
    else
        snprintf(text, CELL, "%s", has_commit ? "earlier" : "none");
    return text;
}

static char *notice_left(const struct json *answer, char text[CELL])
{
    char about[24];
    int64_t left = between(answer, "now", "report.notice.deadline");
    bool has_notice = json_int_at(answer, "report.notice.node_rank", -1) >= 0;
    if (has_notice && left >= 0)
        snprintf(text, CELL, "%s left", str_about(left, about, sizeof about));
    else
        snprintf(text, CELL, "%s", has_notice ? "any time" : "-");
    return text;
}

/* The columns of the list, which is wide. */
#define JOB_TEXTS "%-16s %-12s %-7s %-11s %-8s %-12s %-12s %-26s %s\n"

void show_silent(const struct find_silent *silent, bool is_list)
{
    if (is_list)
        printf(JOB_TEXTS, "-", "silent", "-", "-", "-", "-", "-", silent->dir, silent->why);
    else
        printf("%s: silent: %s\n", silent->dir, silent->why);
}

void show_job(const struct json *answer, const char *run_dir)
{
    char commit[CELL], notice[CELL], speed[CELL];
    struct tally tally;
    struct waits waits;
    if (!answer) {
        printf(JOB_TEXTS, "JOB", "STATE", "ATTEMPT", "STEP", "STEPS/S", "COMMIT", "NOTICE",
               "RUN-DIR", "WAITS FOR");
        return;
    }
    tally_take(answer, &tally);
    waits_find(answer, &tally, &waits);
    printf("%-16s %-12s %-7" PRId64 " %-11" PRId64 " %-8s %-12s %-12s %-26s %s",
           json_text_at(answer, "report.job"), words_state(answer, &tally),
           json_int_at(answer, "report.attempt", 0), tally.top, figures_pace(tally.pace, speed),
           commit_age(answer, commit), notice_left(answer, notice), run_dir,
           waits.n > 0 ? waits.list[0].text : "-");
    if (waits.n + waits.more > 1)
        printf("; and %d more", waits.n + waits.more - 1);
    printf("\n");
}

/* --- the tables --- */

static void show_nodes(const struct json *answer)
{
    const struct json *node = json_items_at(answer, "nodes");
    char cells[5][CELL];
    if (!node || !json_next(node)) /* for a single node the table of ranks is enough */
        return;
    printf("\n%-5s %-20s %-9s %-9s %-17s %-8s %-9s %s\n", "NODE", "HOST", "STATE", "RANKS", "STEP",
           "STEPS/S", "AGE", "HEARD");
    for (; node; node = json_next(node)) {
        const char *why = json_text_at(node, "why"), *state = json_text_at(node, "state");
        printf("%-5" PRId64 " %-20s %-9s %-9s %-17s %-8s %-9s %s%s%s%s%s\n",
               json_int_at(node, "node_rank", 0), json_text_at(node, "host"), *state ? state : "-",
               figures_ranks(node, cells[0]), range(node, cells[1]), pace(node, cells[2]),
               age(node, "step_age", false, cells[3]), age(node, "heard_age", false, cells[4]),
               json_bool_at(node, "notice") ? ", notice" : "",
               tally_is_cut(node) ? ", no connection" : "", *why ? ": " : "", why);
    }
}

static void show_rank(const struct json *rank, bool has_nodes)
{
    char cells[3][CELL], saved[CELL] = "counts only";
    double slow = json_real_at(rank, "slow", 0);
    const char *word = words_rank(rank);
    printf("%-5" PRId64 " ", json_int_at(rank, "rank", 0));
    if (has_nodes)
        printf("%-5" PRId64 " ", json_int_at(rank, "node_rank", 0));
    if (!json_bool_at(rank, "counts_only"))
        snprintf(saved, sizeof saved, "%" PRId64, json_int_at(rank, "saved_step", 0));
    printf("%-8" PRId64 " %-12s %-17" PRId64 " %-8s %-9s %-9s %s", json_int_at(rank, "pid", 0),
           *word ? word : "-", json_int_at(rank, "step", 0), pace(rank, cells[0]),
           age(rank, "own_seconds", false, cells[2]),
           age(rank, "step_age", json_bool_at(rank, "step_age_is_least"), cells[1]), saved);
    if (slow > 0)
        printf(", slow: %.3g x the median (local rank %" PRId64 ")", slow,
               json_int_at(rank, "local_rank", 0));
    printf("\n");
}

/* Prints which nodes' ranks are unknown, and why; or which node knows all ranks. */
static void show_unknown(const struct json *answer)
{
    int64_t missing = json_int_at(answer, "report.nnodes", 1);
    for (const struct json *node = json_items_at(answer, "nodes"); node; node = json_next(node))
        missing--;
    if (json_is_at(answer, "ranks_of", "files") && missing > 0)
        printf("\nthe reports of %" PRId64 " other nodes are not in %s\n", missing,
               json_text_at(answer, "dir"));
    if (json_is_at(answer, "ranks_of", "node"))
        printf("\nonly the ranks of this node; pchctl on node 0, which is %s, shows all\n",
               json_text_at(answer, "chief"));
    for (const struct json *node = json_items_at(answer, "nodes"); node; node = json_next(node))
        if (*tally_why_unknown(node))
            printf("node %" PRId64 ": %s\n", json_int_at(node, "node_rank", 0),
                   tally_why_unknown(node));
}

static void show_ranks(const struct json *answer)
{
    const struct json *rank = json_items_at(answer, "ranks");
    bool has_nodes = json_int_at(answer, "report.nnodes", 1) > 1;
    if (!rank)
        printf("\nno process has attached\n");
    else
        printf("\n%-5s %s%-8s %-12s %-17s %-8s %-9s %-9s %s\n", "RANK", has_nodes ? "NODE  " : "",
               "PID", "STATE", "STEP", "STEPS/S", "OWN", "AGE", "SAVED");
    for (; rank; rank = json_next(rank))
        show_rank(rank, has_nodes);
    show_unknown(answer);
}

/* The last lines of the process that failed first. */
static void show_said(char *said)
{
    char *rest, *line = said ? strtok_r(said, "\n", &rest) : NULL;
    for (; line; line = strtok_r(NULL, "\n", &rest))
        printf("          | %s\n", str_printable(line));
}

void show_status(const struct json *answer, char *said)
{
    struct tally tally;
    tally_take(answer, &tally);
    show_head(answer, &tally);
    show_waits(answer, &tally);
    show_spares(answer);
    show_restarts(answer);
    show_strikes(answer);
    show_said(said);
    show_notice(answer);
    show_saves(answer);
    show_next(answer);
    show_nodes(answer);
    show_ranks(answer);
}

/* --- the attempts --- */

void show_attempt(const struct json *event, int64_t attempt)
{
    char number[CELL] = "none";
    if (!event && attempt == 0) {
        printf("\n%-8s %-24s %-17s %-5s %-9s %s\n", "ATTEMPT", "ENDED", "OUTCOME", "CODE", "STEP",
               "WHY");
        return;
    }
    attempt = json_int_at(event, "attempt", attempt);
    if (attempt > 0)
        snprintf(number, sizeof number, "%" PRId64, attempt);
    if (event)
        printf("%-8s %-24s %-17s %-5" PRId64 " %-9" PRId64 " %s\n", number,
               json_text_at(event, "ts"), json_text_at(event, "outcome"),
               json_int_at(event, "exit_code", -1), json_int_at(event, "last_step", 0),
               json_text_at(event, "text"));
    else
        printf("%-8s %-24s %-17s %-5s %-9s %s\n", number, "-", "-", "-", "-",
               "its end was not recorded: it was killed, or still runs");
}

/* --- a choice --- */

void show_choice(const struct json *answer, const char *run_dir)
{
    char node[CELL], ago[CELL], about[24];
    if (!answer) {
        fprintf(stderr, "%-16s %-6s %-8s %-9s %-12s %-24s %s\n", "JOB", "NODE", "PID", "STATE",
                "STARTED", "RUN-DIR", "COMMAND");
        return;
    }
    int64_t since = between(answer, "since", "now");
    snprintf(node, sizeof node, "%" PRId64 "/%" PRId64, json_int_at(answer, "report.node_rank", -1),
             json_int_at(answer, "report.nnodes", 0));
    snprintf(ago, sizeof ago, "%s%s", since < 0 ? "-" : str_about(since, about, sizeof about),
             since < 0 ? "" : " ago");
    fprintf(stderr, "%-16s %-6s %-8" PRId64 " %-9s %-12s %-24s %s\n",
            json_text_at(answer, "report.job"), node, json_int_at(answer, "pid", 0),
            json_text_at(answer, "report.state"), ago, run_dir, json_text_at(answer, "command"));
}
