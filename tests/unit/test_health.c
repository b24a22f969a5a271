/* SPDX-License-Identifier: Apache-2.0
 *
 * test_health: the order of the health checks, each in a process of its own.
 */
#include "health/health.h"

#include "unit.h"

#include "base/clock.h"

static struct reap reap;
static struct loop loop;
static struct config config;
static struct health health;
static char folder[] = "/tmp/healthXXXXXX";

static void begin(void)
{
    struct err err;
    cr_assert(mkdtemp(folder));
    loop.base = watch_open(&err);
    cr_assert_not_null(loop.base);
    config.checkpoint.dir = folder;
    config.health.disk = true;
    config.health.timeout_ns = config.stop.kill_wait_ns = UNIT_DEADLINE_MS * NS_PER_MS;
    health = (struct health){.config = &config, .reap = &reap, .loop = &loop};
    cr_assert(health_open(&health, &err));
}

static void end(void)
{
    health_free(&health);
    UNIT_SETTLE(reap);
    watch_close(loop.base);
    cr_expect_eq(rmdir(folder), 0);
    cr_expect(unit_no_children());
}

TestSuite(health);

/* As a report that is written at any time. */
static void expect_written(const char *part)
{
    struct writer w;
    size_t len;
    writer_init(&w, 10000, WRITER_LINE);
    writer_object(&w, NULL);
    health_write(&health, &w, "health");
    writer_end(&w);
    const char *text = writer_done(&w, &len);
    cr_assert(text);
    cr_expect(strstr(text, part), "%s", text);
    writer_free(&w);
}

static void turn_until_over(void)
{
    while (health.kind < HEALTH__COUNT) {
        cr_assert(watch_turn(loop.base));
        expect_written("\"checking\", \"check\": \"health.disk\"");
    }
}

/* Node 0 tells only then that the check is over, and pchctl may ask before. */
EndedTest(health, can_be_written_between_two_checks, end)
{
    begin();
    health_check(&health);
    turn_until_over();
    cr_expect_eq(health.answer.verdict, HEALTH_GOOD);
}

/* A job restarts at once, and the process of the last check has answered, but is not reaped. */
EndedTest(health, waits_for_the_end_of_the_last_check, end)
{
    begin();
    health_check(&health);
    turn_until_over();
    health_check(&health);
    cr_assert(watch_turn(loop.base));
    cr_assert_lt(health.kind, HEALTH__COUNT);
    UNIT_SETTLE(reap);
    turn_until_over();
    cr_expect_eq(health.answer.verdict, HEALTH_GOOD);
}

/* It may hang in the driver or in a file system. */
EndedTest(health, does_not_wait_for_ever, end)
{
    begin();
    config.stop.kill_wait_ns = NS_PER_MS;
    health_check(&health);
    turn_until_over();
    health_check(&health);
    turn_until_over();
    cr_expect_eq(health.answer.verdict, HEALTH_UNKNOWN);
    cr_expect(strstr(health.answer.text, "has not ended"), "%s", health.answer.text);
}
