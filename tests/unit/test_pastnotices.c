/* SPDX-License-Identifier: Apache-2.0
 *
 * test_pastnotices: the notices that have ended an attempt: how often, for how long they are known,
 * and which files are refused. Each test runs in a directory of its own.
 */
#include "notices/pastnotices.h"

#include "base/clock.h"
#include "base/str.h"
#include "folder.h"

#include <inttypes.h>

#define DAY (24 * 3600 * NS_PER_S)
#define NOW (INT64_C(20000) * DAY)

TestSuite(pastnotices, .init = folder_enter, .fini = folder_remove);

static struct pastnotices pastnotices;
static struct err err;

static struct notice notice_of(const char *source, const char *id)
{
    struct notice notice = {.type = NOTICE_TERMINATE};
    str_copy(notice.source, sizeof notice.source, source);
    str_copy(notice.id, sizeof notice.id, id);
    return notice;
}

static enum pastnotices_result take(const char *source, const char *id, int64_t now)
{
    int count = -1;
    struct notice notice = notice_of(source, id);
    enum pastnotices_result result = pastnotices_take(&pastnotices, &notice, now, &count);
    cr_expect(result == HANDLED_NEW || count >= pastnotices.limit);
    return result;
}

static void cancel(const char *source, const char *id)
{
    int count;
    struct notice notice = notice_of(source, id);
    notice.type = NOTICE_CANCEL;
    cr_expect_eq(pastnotices_take(&pastnotices, &notice, NOW, &count), HANDLED_NEW);
}

/* The end of an attempt, by the notice with this source and id; NULL: by none. */
static bool end_by(const char *source, const char *id, int64_t now)
{
    struct notice by = notice_of(source, id);
    return pastnotices_end(&pastnotices, source ? &by : NULL, now);
}

/* The end of an attempt, and the start of the next one. */
static void pass_on(const char *source, const char *id, int64_t now)
{
    struct writer w;
    if (end_by(source, id, now)) {
        writer_init(&w, 1 << 20, WRITER_PRETTY);
        pastnotices_write(&pastnotices, &w);
        const char *text = writer_done(&w, NULL);
        cr_assert(text != NULL);
        folder_put("n.json", text);
        writer_free(&w);
    }
    pastnotices = (struct pastnotices){.job = "j", .limit = pastnotices.limit};
    cr_assert(pastnotices_read(&pastnotices, "n.json", now, &err), "%s", err.text);
}

static void begin(int limit)
{
    pastnotices = (struct pastnotices){.job = "j", .limit = limit};
}

Test(pastnotices, a_notice_ends_so_many_attempts)
{
    begin(2);
    for (int attempt = 0; attempt < 2; attempt++) {
        cr_expect_eq(take("gce", "e", NOW), HANDLED_NEW);
        cr_expect_eq(take("gce", "e", NOW), HANDLED_NEW);
        pass_on("gce", "e", NOW);
        cr_assert_eq(pastnotices.n, 1);
        cr_expect_eq(pastnotices.list[0].count, attempt + 1);
    }
    cr_expect_eq(take("gce", "e", NOW), HANDLED_ENOUGH);
    cr_expect_eq(take("gce", "e", NOW), HANDLED_SAID_THAT);
    cr_expect_eq(take("gce", "f", NOW), HANDLED_NEW);
    cr_expect_eq(take("aws", "e", NOW), HANDLED_NEW);
    pass_on("aws", "f", NOW);
    cr_expect_eq(pastnotices.list[0].count, 2, "it ended no more of them");
    cr_expect_eq(take("gce", "e", NOW), HANDLED_ENOUGH);
}

/* A notice may stand for days while other things end attempts. */
Test(pastnotices, what_did_not_end_it_is_not_counted)
{
    begin(1);
    cr_expect_eq(take("gce", "e", NOW), HANDLED_NEW);
    cr_expect_eq(take("aws", "f", NOW), HANDLED_NEW);
    pass_on("aws", "f", NOW);
    cr_assert_eq(pastnotices.n, 1);
    cr_expect_str_eq(pastnotices.list[0].source, "aws");
    cr_expect_eq(take("gce", "e", NOW), HANDLED_NEW);
    cr_expect(!end_by(NULL, NULL, NOW));
    cr_expect(!end_by("SIGTERM", "", NOW));
}

Test(pastnotices, what_was_taken_back_is_not_counted)
{
    begin(2);
    take("gce", "e", NOW);
    take("gce", "f", NOW);
    take("gce", "g", NOW);
    cancel("gce", "e");
    cancel("aws", "");
    pass_on("gce", "f", NOW);
    cr_expect_eq(pastnotices.n, 1, "the other did not end it");
    take("gce", "f", NOW);
    cancel("gce", "");
    cr_expect(!end_by("gce", "f", NOW));
}

Test(pastnotices, only_terminations_with_an_id_are_known)
{
    struct notice notice = notice_of("gce", "e");
    int count;
    begin(2);
    notice.type = NOTICE_CHECKPOINT;
    cr_expect_eq(pastnotices_take(&pastnotices, &notice, NOW, &count), HANDLED_NEW);
    cr_expect_eq(take("gce", "", NOW), HANDLED_NEW);
    cr_expect_eq(pastnotices.n, 0);
    cr_expect(!end_by("gce", "", NOW));
    begin(0);
    cr_expect_eq(take("gce", "e", NOW), HANDLED_NEW);
    cr_expect(!end_by("gce", "e", NOW));
    cr_expect_eq(pastnotices.n, 0);
}

/* Two nodes with one source: the first report ends the attempt of both. */
Test(pastnotices, what_came_to_another_node_counts)
{
    begin(2);
    pass_on("gce", "e", NOW);
    cr_assert_eq(pastnotices.n, 1);
    cr_expect_eq(take("gce", "e", NOW), HANDLED_NEW);
    pass_on("gce", "e", NOW);
    cr_expect_eq(pastnotices.list[0].count, 2);
    cr_expect_eq(take("gce", "e", NOW), HANDLED_ENOUGH);
}

/* Each report of the notice counts, even without effect. */
Test(pastnotices, it_is_forgotten_after_thirty_days_of_silence)
{
    begin(1);
    take("gce", "e", NOW);
    pass_on("gce", "e", NOW);
    pass_on(NULL, NULL, NOW + 30 * DAY);
    cr_assert_eq(pastnotices.n, 1);
    cr_expect_eq(take("gce", "e", NOW + 30 * DAY), HANDLED_ENOUGH);
    pass_on(NULL, NULL, NOW + 30 * DAY);
    pass_on(NULL, NULL, NOW + 60 * DAY);
    cr_expect_eq(pastnotices.n, 1);
    pass_on(NULL, NULL, NOW + 60 * DAY + 1);
    cr_expect_eq(pastnotices.n, 0);
}

/* A clock that was ahead once does not keep a notice for ever. */
Test(pastnotices, a_time_to_come_is_now)
{
    begin(1);
    take("gce", "e", NOW + 1000 * DAY);
    pass_on("gce", "e", NOW + 1000 * DAY);
    pass_on(NULL, NULL, NOW);
    cr_assert_eq(pastnotices.n, 1);
    cr_expect_eq(pastnotices.list[0].at_ns, NOW);
}

Test(pastnotices, of_more_than_fit_the_oldest_go)
{
    char id[16];
    begin(1);
    for (int i = 0; i < HANDLED_MAX + 5; i++) {
        snprintf(id, sizeof id, "e%d", i);
        cr_expect_eq(take("gce", id, NOW + i), HANDLED_NEW);
        pass_on("gce", id, NOW + i);
    }
    cr_expect_eq(pastnotices.n, HANDLED_MAX);
    cr_expect_eq(take("gce", "e4", NOW + DAY), HANDLED_NEW);
    cr_expect_eq(take("gce", "e68", NOW + DAY), HANDLED_ENOUGH);
}

Test(pastnotices, files_that_are_not_ours)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"[]", "n.json does not have the form that pchrun writes"},
        {"{\"schema\":2,\"job\":\"j\",\"notices\":[]}",
         "n.json does not have the form that pchrun writes"},
        {"{\"schema\":1,\"job\":\"k\",\"notices\":[]}", "n.json belongs to job \"k\""},
        {"{\"schema\":1,\"job\":\"j\",\"notices\":{}}",
         "n.json does not have the form that pchrun writes"},
        {"{\"schema\":1,\"job\":\"j\",\"notices\":[\n1]}",
         "n.json: notices: item 1 is not a notice"},
        {"{\"schema\":1,\"job\":\"j\",\"notices\":[{\"source\":\"a\",\"id\":\"b\",\"attempts\":1,"
         "\"at_ns\":1728000000000000000},\n{\"source\":\"a\",\"id\":\"\",\"attempts\":1,"
         "\"at_ns\":1}]}",
         "n.json: notices: item 2 is not a notice"},
        {"{\"schema\":1,\"job\":\"j\",\"notices\":[{\"source\":\"a\",\"id\":\"b\",\"attempts\":0,"
         "\"at_ns\":1}]}",
         "n.json: notices: item 1 is not a notice"},
    };
    begin(1);
    cr_expect(pastnotices_read(&pastnotices, "n.json", NOW, &err),
              "none is as good as an empty one");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        folder_put("n.json", rows[i].text);
        cr_expect(!pastnotices_read(&pastnotices, "n.json", NOW, &err), "%s is accepted",
                  rows[i].text);
        cr_expect_str_eq(err.text, rows[i].want, "%s: %s", rows[i].text, err.text);
        cr_expect_eq(pastnotices.n, 0);
    }
}

/* A text longer than our own texts is cut. It then matches no notice. */
Test(pastnotices, long_texts)
{
    char text[400];
    begin(1);
    snprintf(text, sizeof text,
             "{\"schema\":1,\"job\":\"j\",\"notices\":[{\"source\":\"%0100d\",\"id\":\"%0100d\","
             "\"attempts\":9223372036854775807,\"at_ns\":%" PRId64 "}]}",
             7, 7, NOW);
    folder_put("n.json", text);
    cr_assert(pastnotices_read(&pastnotices, "n.json", NOW, &err), "%s", err.text);
    cr_expect_eq(strlen(pastnotices.list[0].id), 63);
    cr_expect_gt(pastnotices.list[0].count, 0);
}
