/* SPDX-License-Identifier: Apache-2.0
 *
 * test_statefile: a file is replaced as a whole, and failures are reported.
 */
#include "os/statefile.h"

#include "folder.h"

#include <time.h>

static char path[128], state[80];
static struct reap reap;
static struct statefile file;
static struct {
    int count;
    uint64_t tag;
    bool failed;
    struct err err;
} told;

static void on_written(void *ctx, uint64_t tag, const struct err *err)
{
    told.count++;
    told.tag = tag;
    told.failed = err;
    if (err)
        told.err = *err;
}

static void begin(void)
{
    struct err err;
    folder_make();
    snprintf(state, sizeof state, "%s/state", folder);
    snprintf(path, sizeof path, "%s/report.json", state);
    cr_assert(statefile_init(&file, path, &reap, &err));
    file.fn = on_written;
}

static void end(void)
{
    statefile_free(&file);
    unit_reap_all();
    folder_remove();
}

TestSuite(statefile, .init = begin, .fini = end);

/* Waits until no writer of this file runs. */
static void settle_of(struct statefile *of)
{
    while (statefile_is_busy(of)) {
        siginfo_t info;
        cr_assert_eq(waitid(P_PID, (id_t)of->writer.watch.pid, &info, WEXITED | WNOWAIT), 0);
        reap_all(&reap);
    }
}

static void settle(void)
{
    settle_of(&file);
}

static void put(uint64_t tag, const char *text)
{
    struct err err;
    cr_assert(statefile_write(&file, tag, text, strlen(text), &err), "%s", err.text);
}

static void assert_file(const char *at, const char *expected)
{
    char text[1000];
    FILE *in = fopen(at, "re");
    cr_assert(in, "%s is not there", at);
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    cr_assert_str_eq(text, expected);
}

static int count_names(const char *of)
{
    DIR *d = opendir(of);
    int n = 0;
    for (struct dirent *entry; d && (entry = readdir(d));)
        n += entry->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

Test(statefile, replaces_the_whole_file)
{
    put(1, "a longer first content");
    settle();
    cr_assert(told.count == 1 && told.tag == 1 && !told.failed, "%s", told.err.text);
    assert_file(path, "a longer first content");
    put(2, "second");
    settle();
    cr_assert(told.count == 2 && told.tag == 2 && !told.failed);
    assert_file(path, "second");
    cr_assert_eq(count_names(state), 1);
}

Test(statefile, the_last_of_those_that_wait_wins)
{
    put(1, "one");
    put(2, "two");
    put(3, "three");
    settle();
    cr_assert_eq(told.count, 2);
    cr_assert_eq(told.tag, 3);
    assert_file(path, "three");
}

Test(statefile, says_why_it_failed_and_leaves_no_litter)
{
    cr_assert_eq(mkdir(state, 0755), 0);
    cr_assert_eq(mkdir(path, 0755), 0); /* a directory is in the way of the rename */
    put(1, "one");
    settle();
    cr_assert(told.count == 1 && told.failed);
    cr_assert(strstr(told.err.text, "replace") && strstr(told.err.text, path), "%s", told.err.text);
    cr_assert_eq(told.err.sys_errno, EISDIR);
    cr_assert_eq(count_names(state), 1);
}

/* Makes a file in `state` that is `age_s` old. */
static void make_old(const char *name, time_t age_s)
{
    char made[160];
    struct timespec times[2] = {{.tv_sec = time(NULL) - age_s}, {.tv_sec = time(NULL) - age_s}};
    snprintf(made, sizeof made, "%s/%s", state, name);
    close(open(made, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    cr_assert_eq(utimensat(AT_FDCWD, made, times, 0), 0);
}

/* A node that dies takes writers along in the middle of their work, and does so for years. */
Test(statefile, removes_what_killed_writers_have_left)
{
    static const char *const others[] = {"report.json.0123456.tmp", "report.json.012345678.tmp",
                                         "report.json.0123456x.tmp", "report.json.01234567.tmp2",
                                         "other.json.01234567.tmp"};
    char made[160];
    cr_assert_eq(mkdir(state, 0755), 0);
    make_old("report.json.01234567.tmp", 3600);
    make_old("report.json.89abcdef.tmp", 3600);
    make_old("report.json.aaaaaaaa.tmp", 0); /* its writer may still be at work */
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        make_old(others[i], 3600);
    put(1, "one");
    settle();
    cr_assert_eq(count_names(state), 7);
    snprintf(made, sizeof made, "%s/report.json.aaaaaaaa.tmp", state);
    cr_assert_eq(access(made, F_OK), 0);
    assert_file(path, "one");
}

Test(statefile, says_which_directory_is_missing)
{
    struct statefile deep = {.fn = on_written};
    struct err err;
    char where[128];
    snprintf(where, sizeof where, "%s/not/there/file", folder);
    cr_assert(statefile_init(&deep, where, &reap, &err));
    cr_assert(statefile_write(&deep, 1, "x", 1, &err));
    settle_of(&deep);
    cr_assert(told.failed && told.err.sys_errno == ENOENT);
    cr_assert(strstr(told.err.text, "not/there'"), "%s", told.err.text);
    statefile_free(&deep);
}

/* A program that puts a pipe in the file's place keeps the pipe. */
Test(statefile, replaces_nothing_but_regular_files)
{
    struct stat st;
    cr_assert_eq(mkdir(state, 0700), 0);
    cr_assert_eq(mkfifo(path, 0600), 0);
    put(1, "one");
    settle();
    cr_assert(told.failed && strstr(told.err.text, "not a regular file"), "%s", told.err.text);
    cr_assert(lstat(path, &st) == 0 && S_ISFIFO(st.st_mode));
}

/* Two writers need one directory that does not exist yet. The second writer finds it made. */
Test(statefile, writers_may_make_one_directory_together)
{
    enum { TRIES = 30 };
    struct statefile other;
    struct err err;
    char place[160], first[200], second[200];
    for (int i = 0; i < TRIES; i++) {
        snprintf(place, sizeof place, "%s/fresh.%d", folder, i);
        snprintf(first, sizeof first, "%s/a.json", place);
        snprintf(second, sizeof second, "%s/b.json", place);
        statefile_free(&file);
        cr_assert(statefile_init(&file, first, &reap, &err));
        file.fn = on_written;
        other = (struct statefile){.fn = on_written};
        cr_assert(statefile_init(&other, second, &reap, &err));
        put(1, "a");
        cr_assert(statefile_write(&other, 2, "b", 1, &err), "%s", err.text);
        settle();
        settle_of(&other);
        cr_assert_not(told.failed, "%s", told.err.text);
        statefile_free(&other);
    }
    cr_assert_eq(told.count, 2 * TRIES);
}

Test(statefile, a_writer_that_hangs_is_given_up)
{
    put(1, "one");
    settle();
    put(2, "two");
    /* The writer may have come to any point; it never reports. */
    cr_assert_eq(kill(file.writer.watch.pid, SIGSTOP), 0);
    put(3, "three");
    statefile_give_up(&file);
    cr_assert(told.count == 2 && told.tag == 2 && told.failed);
    cr_assert_eq(told.err.sys_errno, ETIMEDOUT);
    settle();
    cr_assert(told.count == 3 && told.tag == 3 && !told.failed);
    assert_file(path, "three");
}

/* The log once said "wait status 0x9". A writer may be faster than the SIGKILL. */
Test(statefile, a_killed_writer_is_told_in_words)
{
    for (uint64_t tag = 1; tag <= 100 && !told.failed; tag++) {
        put(tag, "text");
        cr_assert_eq(kill(file.writer.watch.pid, SIGKILL), 0);
        settle();
    }
    cr_assert(told.failed && strstr(told.err.text, "its writer ended with signal 9 (Killed)"), "%s",
              told.err.text);
}

/* --- the standby writer --- */

static struct {
    int state; /* as the writer's check sees it */
    int answer;
} own;

static size_t pack(void *ctx, void *room, size_t size)
{
    memcpy(room, &own.state, sizeof own.state);
    return sizeof own.state;
}

static void unpack(void *ctx, const void *packed, size_t len)
{
    cr_assert_eq(len, sizeof own.state);
    memcpy(&own.state, packed, len);
}

static bool watch(struct statefile *of, int answer, struct err *err)
{
    own.answer = answer;
    return true;
}

static const struct statefile_standby standby = {pack, unpack, watch};

/* The text is refused if the state is odd. */
static bool is_even(void *ctx, struct err *err)
{
    return own.state % 2 == 0 || err_set(err, ERR_USAGE, 0, "%d is odd", own.state);
}

static pid_t begin_standby(void)
{
    struct err err;
    unit_block_sigchld();
    file.standby = &standby;
    file.check = is_even;
    cr_assert(statefile_begin(&file, &err), "%s", err.text);
    cr_assert_eq(own.answer, file.writer.answer);
    return file.writer.watch.pid;
}

static void put_and_wait(uint64_t tag, const char *text)
{
    put(tag, text);
    statefile_wait(&file, (int64_t)UNIT_DEADLINE_MS * 1000000);
    cr_assert(told.tag == tag && !statefile_is_busy(&file));
}

Test(statefile, a_standby_writer_does_all_writes_and_knows_the_newest_state)
{
    pid_t pid = begin_standby();
    put_and_wait(1, "one");
    own.state = 3;
    put_and_wait(2, "two");
    cr_assert(told.failed && strstr(told.err.text, "3 is odd"));
    assert_file(path, "one");
    own.state = 4;
    put_and_wait(3, "three");
    cr_assert(!told.failed);
    assert_file(path, "three");
    cr_assert_eq(file.writer.watch.pid, pid);
}

Test(statefile, a_standby_writer_that_hangs_or_dies_is_replaced)
{
    siginfo_t info;
    pid_t pid = begin_standby();
    put_and_wait(1, "one");
    cr_assert_eq(kill(pid, SIGSTOP), 0);
    put(2, "two");
    put(3, "three");
    statefile_give_up(&file);
    cr_assert(told.tag == 2 && told.err.sys_errno == ETIMEDOUT);
    cr_assert_not(statefile_take(&file), "its answer is too late");
    while (file.writer.watch.pid == pid)
        reap_all(&reap);
    statefile_wait(&file, (int64_t)UNIT_DEADLINE_MS * 1000000);
    cr_assert(told.tag == 3 && !told.failed, "the one that waited, from the next writer");
    pid = file.writer.watch.pid;
    cr_assert_eq(kill(pid, SIGKILL), 0);
    cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    cr_assert_not(statefile_take(&file), "it is dead, and no task is under way");
    reap_all(&reap);
    put_and_wait(4, "four");
    assert_file(path, "four");
}

/* A writer that never answers is not started over and over. */
Test(statefile, a_standby_writer_that_dies_at_once_fails_its_write_alone)
{
    pid_t pid = begin_standby();
    cr_assert_eq(kill(pid, SIGSTOP), 0); /* a writer that is dead already gets no task */
    put(1, "one");
    cr_assert_eq(kill(pid, SIGKILL), 0);
    statefile_wait(&file, (int64_t)UNIT_DEADLINE_MS * 1000000);
    cr_assert(told.count == 1 && told.failed);
    cr_assert_eq(file.writer.watch.pid, 0);
    put_and_wait(2, "two");
    assert_file(path, "two");
}

/* --- the other manners --- */

static void add(const char *text)
{
    struct err err;
    cr_assert(statefile_write(&file, 1, text, strlen(text), &err), "%s", err.text);
    settle();
}

Test(statefile, a_journal_grows_and_is_rotated)
{
    char old[160];
    snprintf(old, sizeof old, "%s.1", path);
    file.is_journal = true;
    file.max = 8;
    add("one\n");
    add("two\n");
    assert_file(path, "one\ntwo\n");
    add("three\nfour\n");
    assert_file(old, "one\ntwo\n");
    assert_file(path, "three\nfour\n");
    add("five\n");
    assert_file(old, "three\nfour\n");
    assert_file(path, "five\n");
    cr_assert(!told.failed);
}

/* The last line is cut: its writer was killed, or the disk was full. */
Test(statefile, a_journal_goes_on_with_a_whole_line)
{
    file.is_journal = true;
    file.max = 1000;
    add("one\ncut");
    add("two\n");
    assert_file(path, "one\ncut\ntwo\n");
}

Test(statefile, a_journal_at_a_pipe_fails)
{
    char command[400];
    file.is_journal = true;
    file.max = 1000;
    snprintf(command, sizeof command, "mkdir %s/state; mkfifo %s", folder, path);
    cr_assert_eq(system(command), 0);
    add("one\\n");
    cr_assert(told.failed, "a writer without a reader would wait for ever");
}
