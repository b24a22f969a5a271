/* SPDX-License-Identifier: Apache-2.0
 *
 * test_recordfile: when a write of the record is late. Its writer stands still until a test ends
 * it.
 */
#include "record/recordfile.h"

#include "folder.h"
#include "standstill.h"

static struct event_base *base;
static struct reap reap;
static struct record_file file;
static char path[128];
static enum { NOT_YET, WRITTEN, FAILED } told;

static void on_written(void *ctx, uint64_t tag, const struct err *err)
{
    told = err ? FAILED : WRITTEN;
}

static void begin(void)
{
    struct err err;
    unit_block_sigchld();
    folder_make();
    snprintf(path, sizeof path, "%s/commit.json", folder);
    base = watch_open(&err);
    cr_assert(base, "%s", err.text);
    cr_assert(statefile_init(&file.file, path, &reap, &err), "%s", err.text);
    file.file.fn = on_written;
    file.file.check = standstill_begin;
    recordfile_open(&file, base);
    cr_assert(statefile_write(&file.file, 1, "{}", 2, &err), "%s", err.text);
    recordfile_set_deadline(&file);
    standstill_await(file.file.writer.watch.pid);
}

static void end(void)
{
    recordfile_free(&file);
    watch_close(base);
    unit_reap_all();
    folder_remove();
}

TestSuite(recordfile, .init = begin, .fini = end);

/* pchrun was stopped, or the machine was, and the writer with it. The time is over when the loop
 * goes on, and the write is not late. */
Test(recordfile, a_standstill_makes_no_write_late)
{
    pid_t writer = file.file.writer.watch.pid;
    standstill_last(RECORDFILE_WAIT_NS + NS_PER_S / 5);
    cr_assert(watch_turn(base));
    cr_assert_eq(told, NOT_YET);
    standstill_end(writer);
    reap_all(&reap);
    cr_assert_eq(told, WRITTEN);
}

/* At the end of the run that time counts: another limit follows. */
Test(recordfile, the_end_of_the_run_does_not_wait_for_a_standstill)
{
    recordfile_hasten(&file, clock_now_ns() + NS_PER_S / 10);
    standstill_last(NS_PER_S / 5);
    cr_assert(watch_turn(base));
    cr_assert_eq(told, FAILED);
}

/* A write that begins after that has no more time. */
Test(recordfile, a_late_write_has_the_limit_of_the_end)
{
    recordfile_hasten(&file, clock_now_ns() + NS_PER_S / 10);
    recordfile_set_deadline(&file);
    standstill_last(NS_PER_S / 5);
    cr_assert(watch_turn(base));
    cr_assert_eq(told, FAILED);
}
