/* SPDX-License-Identifier: Apache-2.0
 *
 * test_journal: the lines that follow from what a core does and reports. tests/behave/test_ctl.py
 * tests how they come to their file.
 */
#include "status/journal.h"

#include "unit.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>

static struct core_params params = {.node_rank = 0,
                                    .nnodes = 1,
                                    .children = 1,
                                    .expected_procs = 1,
                                    .attempt = 7,
                                    .identity = "journal",
                                    .join_timeout_ns = 60 * NS_PER_S,
                                    .heartbeat_interval_ns = NS_PER_S,
                                    .heartbeat_timeout_ns = 15 * NS_PER_S,
                                    .reconnect_ns = 2 * NS_PER_S,
                                    .term_wait_ns = NS_PER_S,
                                    .kill_wait_ns = NS_PER_S,
                                    .exit = {42, 42, 42, 42, 43, 44, 45, 0}};
static struct reap reap;
static struct core *core;
static struct journal journal;
static int told; /* lines that were handed on */

static void act(void *ctx, const struct action *action)
{
    journal_take(&journal, action);
}

static void on_line(void *ctx, const char *text, size_t len)
{
    told++;
    cr_assert_eq(text[len - 1], '\n');
}

static void feed(struct event event)
{
    static int64_t now = 100 * NS_PER_S;
    event.now = now += NS_PER_MS;
    core_handle(core, &event);
    journal_settle(&journal);
}

static void begin(void)
{
    struct err err;
    core = core_new(&params, act, NULL);
    journal = (struct journal){.params = &params, .core = core, .on_line = on_line};
    cr_assert(core && journal_open(&journal, NULL, &reap, NULL, &err));
    feed((struct event){.type = EV_START});
    feed((struct event){.type = EV_CHILD_STARTED, .child = {.pid = 1000}});
}

static void end(void)
{
    journal_free(&journal);
    core_free(core);
}

TestSuite(journal, .init = begin, .fini = end);

/* The kept line of this number, oldest first; NULL: there are not so many. Valid until the next
 * call. */
static const char *line_of(unsigned number)
{
    static char copy[8192];
    const char *line = (const char *)buf_bytes(&journal.kept);
    const char *end = line ? line + buf_len(&journal.kept) : NULL;
    for (; line < end; number--) {
        size_t len = (size_t)((const char *)memchr(line, '\n', (size_t)(end - line)) + 1 - line);
        if (number == 0) {
            snprintf(copy, sizeof copy, "%.*s", (int)len, line);
            return copy;
        }
        line += len;
    }
    return NULL;
}

/* How many lines tell of this event; the last of them is copied. */
static int count(const char *event, char *ret, size_t size)
{
    int n = 0;
    const char *line;
    for (unsigned i = 0; (line = line_of(i)); i++) {
        struct err err;
        struct json *root = json_read("line", line, strlen(line), &err);
        cr_assert(root, "%s", err.text);
        cr_assert(json_text(json_find(root, "ts")) && json_find(root, "node") &&
                  json_find(root, "generation"));
        if (str_is(json_text(json_find(root, "event")), event)) {
            n++;
            snprintf(ret, size, "%s", line);
        }
        json_free(root);
    }
    return n;
}

static void assert_told(const char *event, int times, const char *part)
{
    char line[512] = "";
    cr_assert_eq(count(event, line, sizeof line), times, "%s", event);
    cr_assert(strstr(line, part), "no %s in %s", part, line);
}

Test(journal, a_start)
{
    assert_told("started", 1, "\"commands\": 1");
    assert_told("phase", 1, "\"phase\": \"starting\", \"step\": 0");
    assert_told("state", 1, "\"state\": \"running\"");
    assert_told("state", 1, "\"attempt\": 7");
    cr_assert_eq(told, (int)journal.count);
}

/* A state has a line when it begins, and no other. */
Test(journal, a_notice_is_told_once)
{
    struct notice notice = {.type = NOTICE_TERMINATE, .source = "cloud", .left_ns = 60 * NS_PER_S};
    feed((struct event){.type = EV_NOTICE, .notice = &notice});
    assert_told("notice", 1, "\"source\": \"cloud\"");
    notice.left_ns = 59 * NS_PER_S + NS_PER_S / 2;
    feed((struct event){.type = EV_NOTICE, .notice = &notice});
    feed((struct event){.type = EV_TIMER});
    assert_told("notice", 1, "\"of_node\": 0");
    notice.left_ns = 20 * NS_PER_S;
    feed((struct event){.type = EV_NOTICE, .notice = &notice});
    assert_told("notice", 2, "\"left_ms\"");
    notice.type = NOTICE_CANCEL;
    feed((struct event){.type = EV_NOTICE, .notice = &notice});
    assert_told("notice_over", 1, "");
}

Test(journal, a_failure_and_the_end)
{
    feed((struct event){.type = EV_CHILD_EXITED, .child = {.status = 7 << 8}});
    assert_told("failed", 1, "process 1000 ended with exit code 7");
    assert_told("failed", 1, "\"kind\": \"exit\", \"of_node\": 0");
    assert_told("failed", 1, "\"last_step\": 0");
    journal_exit(&journal, OUTCOME_FAILED, 7, "why");
    assert_told("exit", 1, "\"exit_code\": 7, \"last_step\": 0");
    cr_assert(strstr(line_of(journal.count - 1), "\"exit\""));
}

/* The process is dead, and the kernel frees its memory. The reason of the death is found meanwhile.
 */
Test(journal, a_death_is_told_again_when_more_is_known)
{
    struct death found = {.note = "the kernel killed it"};
    feed((struct event){.type = EV_CHILD_DYING, .child = {.status = 9}});
    assert_told("failed", 1, "process 1000 ended with signal 9 (Killed)\"");
    feed((struct event){.type = EV_CHILD_EXITED, .child = {.status = 9, .death = &found}});
    assert_told("failed", 2, "process 1000 ended with signal 9 (Killed): the kernel killed it");
    feed((struct event){.type = EV_TIMER});
    assert_told("failed", 2, "");
}

/* The newest lines are kept. */
Test(journal, it_is_bounded)
{
    char text[32];
    struct action action = {.type = ACT_LOG, .log = {LOG_INFO, "lost", text}};
    for (int i = 0; i < 3 * JOURNAL_KEPT; i++) {
        snprintf(text, sizeof text, "line %d.", i);
        journal_take(&journal, &action);
    }
    cr_assert_eq(journal.count, JOURNAL_KEPT);
    cr_assert_null(line_of(JOURNAL_KEPT));
    snprintf(text, sizeof text, "line %d.", 3 * JOURNAL_KEPT - 1);
    cr_assert(strstr(line_of(JOURNAL_KEPT - 1), text));
    snprintf(text, sizeof text, "line %d.", 2 * JOURNAL_KEPT);
    cr_assert(strstr(line_of(0), text));
    action.log.level = LOG_DEBUG;
    int before = told;
    journal_take(&journal, &action);
    cr_assert_eq(told, before, "lines of the debug level are not told");
}
