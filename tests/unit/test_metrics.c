/* SPDX-License-Identifier: Apache-2.0
 *
 * test_metrics: the text that Prometheus reads, by a strict reader: HELP, TYPE, then the samples of
 * that name and no others, each name once; the names of counters, and of no gauge, end in _total;
 * labels quoted and escaped; a number at the end.
 */
#include "status/metrics.h"

#include "unit.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>

static struct core_params params = {.node_rank = 1, .nnodes = 2, .job = "a\"b\\c\nd", .host = "n1"};
static struct core_report report = {.state = NODE_RUNNING,
                                    .attempt = 3,
                                    .last_step = 40,
                                    .ranks_expected = 2,
                                    .commit_step = 30,
                                    .commit_at = 90 * NS_PER_S,
                                    .outcome = OUTCOME_PREEMPTED};
static struct status_ranks ranks = {.list = {{.slot = 0,
                                              .rank = 2,
                                              .pid = 10,
                                              .step = 44,
                                              .is_attached = true,
                                              .own_ns = 160 * NS_PER_MS,
                                              .slow = 160},
                                             {.slot = -1, .rank = 3, .local_rank = 1, .step = 39}},
                                    .rates = {{.age_ns = -1}, {.age_ns = -1}},
                                    .n = 2,
                                    .now = 100 * NS_PER_S};

static const struct counts counts = {
    .loading_ns = 40000000000,
    .restarts = {[OUTCOME_HANG] = 2},
    .steps = 100,
    .lost = 7,
    .failed = 1,
    .agreement = {.in = {1, 0, 0, 2}, .n = 3, .sum_s = 1.75},
    .save = {.in = {[COUNTS_BUCKETS - 1] = 1}, .n = 1, .sum_s = 700},
    .notices = {{"gce", 2}, {"file", 1}},
    .resumed_step = 10};

static char *compose(bool is_up)
{
    char *text = NULL;
    size_t len;
    struct metrics_view view = {.params = &params,
                                .report = &report,
                                .ranks = &ranks,
                                .counts = &counts,
                                .spares = 3,
                                .real_now = 1000000 * NS_PER_S,
                                .since = 40 * NS_PER_S,
                                .exit_code = is_up ? -1 : 42};
    FILE *out = open_memstream(&text, &len);
    metrics_compose(&view, out);
    cr_assert_eq(fclose(out), 0);
    return text;
}

/* --- the strict reader --- */

static const char *name_at(const char *p, char ret[64])
{
    size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz_");
    cr_assert(n > 0 && n < 64, "no name: %.40s", p);
    snprintf(ret, 64, "%.*s", (int)n, p);
    return p + n;
}

/* name="value", with \\ \" and \n alone as escapes. */
static const char *label_at(const char *p)
{
    char name[64];
    p = name_at(p, name);
    cr_assert(strncmp(p, "=\"", 2) == 0, "%.40s", p);
    for (p += 2; *p != '"'; p++) {
        cr_assert(*p && *p != '\n', "the value of %s does not end", name);
        if (*p == '\\')
            cr_assert(strchr("\\\"n", *++p), "\\%c", *p);
    }
    return p + 1;
}

/* The samples of a histogram have three names. */
static bool is_name_of(const char *name, const char *of, const char *type)
{
    size_t n = strlen(of);
    if (!str_is(type, "histogram"))
        return str_is(name, of);
    return strncmp(name, of, n) == 0 &&
           (str_is(name + n, "_bucket") || str_is(name + n, "_sum") || str_is(name + n, "_count"));
}

static void read_sample(const char *line, const char *of, const char *type)
{
    char name[64], *end;
    const char *p = name_at(line, name);
    cr_assert(is_name_of(name, of, type), "a sample of %s among those of %s", name, of);
    cr_assert_eq(*p, '{', "%s", line);
    do
        p = label_at(p + 1);
    while (*p == ',');
    cr_assert(strncmp(p, "} ", 2) == 0, "%s", line);
    strtod(p + 2, &end);
    cr_assert(end > p + 2 && !*end, "no number: %s", line);
}

/* Returns how many samples there are. */
static int read_all(char *text)
{
    char name[64] = "", type[16] = "", seen[4096] = "", word[80];
    int samples = 0;
    bool has_type = false;
    cr_assert_eq(text[strlen(text) - 1], '\n');
    for (char *save, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        if (str_starts(line, "# HELP ")) {
            cr_assert(!name[0] || samples > 0);
            cr_assert_eq(*name_at(line + 7, name), ' ', "%s", line);
            snprintf(word, sizeof word, " %s ", name);
            cr_assert(!strstr(seen, word), "%s is there twice", name);
            str_addf(seen, sizeof seen, "%s", word);
            cr_assert(str_starts(name, "pchrun_"));
            has_type = false;
        } else if (str_starts(line, "# TYPE ")) {
            snprintf(word, sizeof word, "# TYPE %s ", name);
            cr_assert(str_starts(line, word) && !has_type, "%s", line);
            snprintf(type, sizeof type, "%s", line + strlen(word));
            bool is_total = strlen(name) > 6 && str_is(name + strlen(name) - 6, "_total");
            cr_assert(str_is(type, is_total ? "counter" : "gauge") ||
                          (!is_total && str_is(type, "histogram")),
                      "%s", line);
            has_type = true;
        } else {
            cr_assert(has_type, "a sample without a type: %s", line);
            read_sample(line, name, type);
            samples++;
        }
    }
    return samples;
}

static void assert_has(bool is_up, const char *line)
{
    char *text = compose(is_up);
    cr_assert(strstr(text, line), "no %s in\n%s", line, text);
    free(text);
}

#define WHO "name=\"a\\\"b\\\\c\\nd\",node=\"1\""

Test(metrics, a_strict_reader_takes_it)
{
    for (int is_up = 0; is_up < 2; is_up++) {
        report.notice.is_live = is_up;
        report.wait.since = is_up;
        char *text = compose(is_up);
        cr_assert_gt(read_all(text), 15);
        free(text);
    }
}

/* Only node 0 knows them. */
Test(metrics, spares_that_stand_by)
{
    char *text = compose(true);
    cr_assert(!strstr(text, "pchrun_spares"));
    free(text);
    params.node_rank = 0;
    params.spares = 4;
    assert_has(true, "\npchrun_spares{name=\"a\\\"b\\\\c\\nd\",node=\"0\"} 3\n");
}

Test(metrics, what_is_told)
{
    ranks.list[0].step = 50;
    ranks.rates[0] = (struct steprate_view){.steps_per_s = 3};
    assert_has(true, "\npchrun_step{" WHO "} 50\n");
    assert_has(true, "\npchrun_steps_per_second{" WHO "} 3\n");
    assert_has(true, "\npchrun_rank_step{" WHO ",rank=\"2\",local_rank=\"0\"} 50\n");
    assert_has(true, "\npchrun_rank_step{" WHO ",rank=\"3\",local_rank=\"1\"} 39\n");
    assert_has(true, "\npchrun_rank_attached{" WHO ",rank=\"3\",local_rank=\"1\"} 0\n");
    assert_has(true,
               "\npchrun_rank_own_step_seconds{" WHO ",rank=\"2\",local_rank=\"0\"} 0.16\n# HELP");
    assert_has(true, "\npchrun_rank_slow{" WHO ",rank=\"2\",local_rank=\"0\"} 1\n");
    report.loading_ns = 1500000000;
    ranks.list[1].loaded_ns = 2 * NS_PER_S;
    assert_has(true, "\npchrun_loading_seconds_total{" WHO "} 42\n");
    assert_has(true, "\npchrun_steps_total{" WHO "} 140\n");
    assert_has(true, "\npchrun_steps_lost_total{" WHO "} 7\n");
    assert_has(true, "\npchrun_restarts_total{" WHO ",after=\"failed\"} 0\n");
    assert_has(true, "\npchrun_restarts_total{" WHO ",after=\"hang\"} 2\n");
    assert_has(true, "\npchrun_saves_total{" WHO ",result=\"committed\"} 1\n");
    assert_has(true, "\npchrun_saves_total{" WHO ",result=\"failed\"} 1\n");
    assert_has(true, "\npchrun_notices_total{" WHO ",source=\"file\"} 1\n");
    assert_has(true, "\npchrun_ranks_attached{" WHO "} 1\n");
    assert_has(true, "\npchrun_ranks_expected{" WHO "} 2\n");
    assert_has(true, "\npchrun_commit_step{" WHO "} 30\n");
    assert_has(true, "\npchrun_commit_timestamp_seconds{" WHO "} 999990\n");
    assert_has(true, "\npchrun_state{" WHO ",state=\"running\"} 1\n");
    assert_has(true, "\npchrun_state{" WHO ",state=\"done\"} 0\n");
    assert_has(true, "\npchrun_notice{" WHO "} 0\n");
    assert_has(true, "\npchrun_start_timestamp_seconds{" WHO "} 999940\n");
    assert_has(true, "\npchrun_written_timestamp_seconds{" WHO "} 1000000\n");
    assert_has(true, "pchrun_up{" WHO "} 1\n");
    assert_has(false, "pchrun_up{" WHO "} 0\n");
    assert_has(false, "\npchrun_exit_code{" WHO ",outcome=\"preempted\"} 42\n");
}

/* A replacement may have come: then the job waits for a time that no node decides. */
Test(metrics, a_wait_for_a_replacement)
{
    assert_has(true, "\npchrun_waiting{" WHO "} 0\n# HELP");
    report.wait = (struct core_wait){
        .since = ranks.now - 60 * NS_PER_S, .nvacant = 1, .until = ranks.now + 60 * NS_PER_S};
    assert_has(true, "\npchrun_waiting{" WHO "} 1\n");
    assert_has(true, "\npchrun_waiting_deadline_timestamp_seconds{" WHO "} 1000060\n");
    report.wait.nvacant = 0;
    assert_has(true, "\npchrun_waiting{" WHO "} 1\n# HELP");
}

/* A bucket holds all times up to its bound. */
Test(metrics, histograms)
{
    assert_has(true, "\npchrun_agreement_seconds_bucket{" WHO ",le=\"0.5\"} 1\n");
    assert_has(true, "\npchrun_agreement_seconds_bucket{" WHO ",le=\"1\"} 3\n");
    assert_has(true, "\npchrun_agreement_seconds_bucket{" WHO ",le=\"+Inf\"} 3\n");
    assert_has(true, "\npchrun_agreement_seconds_sum{" WHO "} 1.75\n");
    assert_has(true, "\npchrun_save_seconds_bucket{" WHO ",le=\"600\"} 0\n");
    assert_has(true, "\npchrun_save_seconds_bucket{" WHO ",le=\"+Inf\"} 1\n");
    assert_has(true, "\npchrun_save_seconds_count{" WHO "} 1\n");
}

/* One byte that is not UTF-8 would void the whole file. */
Test(metrics, a_name_that_is_not_text)
{
    strcpy(params.job, "\xff\xfeok");
    char *text = compose(true);
    cr_assert(strstr(text, "name=\"??ok\""), "%s", text);
    free(text);
}
