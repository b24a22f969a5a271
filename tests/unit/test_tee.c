/* SPDX-License-Identifier: Apache-2.0
 * tee's parts: the first and last lines, the queue between two threads, files that are bounded,
 * lines of several streams in one. The process itself is tested in tests/behave/test_logs.py.
 */
#include "tee/sink.h"
#include "tee/tail.h"

#include "base/clock.h"
#include "base/fd.h"
#include "folder.h"

#include <sys/eventfd.h>

/* --- tail --- */

static struct tail tail;
static char text[TAIL_TEXT_MAX];

static void fill(uint32_t lines, const char *bytes)
{
    memset(&tail, 0, sizeof tail);
    tail.lines = lines;
    tail_add(&tail, bytes, strlen(bytes));
}

static const char *last(uint32_t lines)
{
    return tail_last(&tail, lines, text, sizeof text);
}

Test(tail, first_and_last_lines)
{
    fill(2, "");
    cr_expect_str_eq(tail_first(&tail, text, sizeof text), "");
    cr_expect_str_eq(last(2), "");
    fill(2, "a\nb\nc\nd");
    cr_expect_str_eq(tail_first(&tail, text, sizeof text), "a\nb");
    cr_expect_str_eq(last(2), "c\nd");
    tail_add(&tail, "e\n", 2);
    cr_expect_str_eq(last(2), "c\nde");
    cr_expect_str_eq(last(9), "a\nb\nc\nde");
    cr_expect_str_eq(last(0), "");
    fill(0, "a\n");
    cr_expect_str_eq(tail_first(&tail, text, sizeof text), "");
    fill(3, "\n\n\n\n");
    cr_expect_str_eq(last(2), "\n");
}

/* A progress bar writes its line again and again; what it said before is of no interest. */
Test(tail, a_line_that_is_begun_anew)
{
    fill(5, "start\n\r 10%\r 20%\r100%\nTraceback\r\nend");
    cr_expect_str_eq(last(9), "start\n100%\nTraceback\nend");
    fill(5, "start\n 10%\r");
    cr_expect_str_eq(last(2), "start\n 10%", "what it says now");
    tail_add(&tail, "\n", 1);
    tail_add(&tail, "x", 1);
    cr_expect_str_eq(last(1), "x");
    fill(5, "kept\n");
    for (int i = 0; i < 100000; i++)
        tail_add(&tail, "\rprogress", 9);
    cr_expect_str_eq(last(5), "kept\nprogress");
}

/* The last bytes of such a line are kept, with a mark that it is cut. */
Test(tail, a_line_that_is_too_long)
{
    static char big[3 * TAIL_LAST_MAX];
    memset(big, 'x', sizeof big);
    for (size_t i = 0; i < 4; i++)
        big[sizeof big - 4 + i] = "end\n"[i];
    for (size_t piece = 1000; piece <= sizeof big; piece *= 5) {
        fill(3, "before\n");
        for (size_t i = 0; i < sizeof big; i += piece)
            tail_add(&tail, big + i, i + piece < sizeof big ? piece : sizeof big - i);
        last(3);
        cr_expect(strncmp(text, "...xx", 5) == 0, "%.10s", text);
        cr_expect_eq(strlen(text), 3 + TAIL_LAST_MAX - 1, "%zu", strlen(text));
        cr_expect_str_eq(text + strlen(text) - 4, "xend");
        cr_expect_null(strstr(text, "before"));
        tail_first(&tail, text, sizeof text);
        cr_expect(strncmp(text, "before\nxx", 9) == 0);
        cr_expect_eq(strlen(text), TAIL_FIRST_MAX + 3);
        cr_expect_str_eq(text + TAIL_FIRST_MAX, "...");
    }
}

/* However the bytes are cut into pieces, the result is the same. */
Test(tail, pieces_do_not_matter)
{
    static char whole[5 * TAIL_LAST_MAX], one[TAIL_TEXT_MAX];
    unsigned seed = 7;
    for (int round = 0; round < 200; round++) {
        size_t n = 1 + (size_t)rand_r(&seed) % sizeof whole;
        unsigned rare = 1 + (unsigned)rand_r(&seed) % 3000;
        for (size_t i = 0; i < n; i++) {
            unsigned at = (unsigned)rand_r(&seed);
            whole[i] = at % rare == 0 ? "\n\n\r"[at / rare % 3U] : "abcdef"[at % 6U];
        }
        fill(20, "");
        for (size_t i = 0; i < n; i++)
            tail_add(&tail, whole + i, 1);
        tail_last(&tail, 20, one, sizeof one);
        fill(20, "");
        for (size_t i = 0, k; i < n; i += k) {
            k = 1 + (size_t)rand_r(&seed) % (2 * TAIL_LAST_MAX);
            k = k < n - i ? k : n - i;
            tail_add(&tail, whole + i, k);
        }
        cr_assert_str_eq(last(20), one, "round %d", round);
    }
}

/* Another process writes the tail, and may be in the middle of a write. */
Test(tail, nonsense_is_survived)
{
    char small[64];
    unsigned seed = 3;
    for (int round = 0; round < 2000; round++) {
        for (size_t i = 0; i < sizeof tail; i++)
            ((unsigned char *)&tail)[i] = (unsigned char)rand_r(&seed);
        cr_assert_lt(strlen(tail_first(&tail, small, sizeof small)), sizeof small);
        cr_assert_lt(strlen(tail_last(&tail, 20, small, sizeof small)), sizeof small);
        cr_assert_lt(strlen(last(1000)), sizeof text);
    }
}

/* --- rotate --- */

static char path[128];

static void make_dir(void)
{
    folder_make();
    snprintf(path, sizeof path, "%s/a/b/log", folder);
}

/* "?": there is no such file */
static const char *content(int number)
{
    static char bytes[64];
    char name[80];
    snprintf(name, sizeof name, number ? "%s.%d" : "%s", path, number);
    int fd = open(name, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof bytes - 1);
    close(fd);
    if (n < 0)
        return "?";
    bytes[n] = '\0';
    return bytes;
}

TestSuite(rotate, .init = make_dir, .fini = folder_remove);

Test(rotate, full_files_move_on)
{
    struct rotate file = {.path = path, .max_size = 4, .keep = 2, .fd = -1};
    cr_assert_eq(rotate_write(&file, "", 0), 0);
    cr_expect_str_eq(content(0), "", "%d", errno);
    cr_assert_eq(rotate_write(&file, "abcd", 4), 4);
    cr_expect_str_eq(content(1), "?", "it is full, but there is nothing more");
    cr_assert_eq(rotate_write(&file, "efghi", 5), 5);
    cr_expect_str_eq(content(0), "i");
    cr_expect_str_eq(content(1), "efgh");
    cr_expect_str_eq(content(2), "abcd");
    cr_assert_eq(rotate_write(&file, "jklm", 4), 4);
    cr_expect_str_eq(content(0), "m");
    cr_expect_str_eq(content(2), "efgh");
    cr_expect_str_eq(content(3), "?");
    fd_close(&file.fd);
    cr_assert_eq(rotate_write(&file, "n", 1), 1, "what is there is added to");
    cr_expect_str_eq(content(0), "mn");
    fd_close(&file.fd);
}

Test(rotate, none_is_kept)
{
    struct rotate file = {.path = path, .max_size = 4, .keep = 0, .fd = -1};
    cr_assert_eq(rotate_write(&file, "abcdefghij", 10), 10);
    cr_expect_str_eq(content(0), "ij");
    cr_expect_str_eq(content(1), "?");
    fd_close(&file.fd);
}

Test(rotate, no_limit)
{
    struct rotate file = {.path = path, .keep = 2, .fd = -1};
    cr_assert_eq(rotate_write(&file, "abcdefghij", 10), 10);
    cr_expect_str_eq(content(0), "abcdefghij");
    fd_close(&file.fd);
}

/* A pipe would wait for a reader, and a link could lead anywhere. */
Test(rotate, other_things_are_left_alone)
{
    struct rotate file = {.path = path, .max_size = 4, .keep = 2, .fd = -1};
    char target[80];
    cr_assert_eq(rotate_write(&file, "", 0), 0);
    fd_close(&file.fd);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(rotate_write(&file, "a", 1), 0);
    cr_expect_eq(errno, ENXIO);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    cr_expect_eq(rotate_write(&file, "a", 1), 0);
    cr_expect_eq(errno, EEXIST);
    close(reader);
    cr_assert_eq(unlink(path), 0);
    snprintf(target, sizeof target, "%s/target", folder);
    cr_assert_eq(symlink(target, path), 0);
    cr_expect_eq(rotate_write(&file, "a", 1), 0);
    cr_expect_eq(errno, ELOOP);
    cr_expect_eq(access(target, F_OK), -1);
}

/* --- the queue of a sink --- */

enum { QUEUE_BYTES = 4 * 1000 * 1000, QUEUE_MAX = 1021 };

static char pattern(size_t i)
{
    return (char)(i * 131 + i / 251);
}

static void expect_pattern(void)
{
    static char bytes[QUEUE_BYTES + 1];
    int fd = open(path, O_RDONLY);
    cr_assert_eq(fd_read_all(fd, bytes, sizeof bytes), QUEUE_BYTES);
    for (size_t i = 0; i < QUEUE_BYTES; i++)
        cr_assert_eq(bytes[i], pattern(i), "byte %zu", i);
    close(fd);
}

static void add_all(struct sink *sink, struct branch *branch)
{
    char bytes[700];
    for (size_t sent = 0, n; sent < QUEUE_BYTES; sent += n) {
        int64_t until = CLOCK_NEVER;
        struct pollfd bell = {.fd = sink->bell->event, .events = POLLIN};
        uint64_t rings;
        n = sizeof bytes < QUEUE_BYTES - sent ? sizeof bytes : QUEUE_BYTES - sent;
        for (size_t i = 0; i < n; i++)
            bytes[i] = pattern(sent + i);
        while (!branch_accepts(branch, n, 1, &until)) {
            cr_assert_eq(poll(&bell, 1, UNIT_DEADLINE_MS), 1);
            cr_assert_eq(read(bell.fd, &rings, sizeof rings), sizeof rings);
        }
        branch_add(sink, branch, bytes, n);
    }
}

TestSuite(queue, .init = make_dir, .fini = folder_remove);

Test(queue, two_threads)
{
    struct bell bell = {.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .supervisor = -1};
    struct sink sink;
    struct branch_state state = {0};
    struct branch branch = {.file = {.path = path}};
    branch_init(&branch, QUEUE_MAX, &state);
    cr_assert(sink_init(&sink, 1, false, &bell));
    sink_put_in(&sink, &branch);
    cr_assert(sink_start(&sink));
    add_all(&sink, &branch);
    sink_close(&sink);
    pthread_join(sink.thread, NULL);
    cr_expect(sink_is_done(&sink));
    cr_expect_eq(state.waiting, 0);
    cr_expect_eq(state.lost, 0);
    expect_pattern();
    fd_close(&branch.file.fd);
    close(bell.event);
    free(sink.branches);
}

/* --- mixer --- */

static char out_bytes[MIXER_MAX(64) + 1];
static size_t out_len;
static struct mixer mixer;
static struct mixer_stream streams[2];

static void begin_mixer(void)
{
    out_len = 0;
    memset(out_bytes, 0, sizeof out_bytes);
    mixer = (struct mixer){0};
    streams[0] = (struct mixer_stream){.prefix = "[0] "};
    streams[1] = (struct mixer_stream){.prefix = "[1] "};
}

static size_t mix(int stream, const char *bytes, bool all)
{
    size_t n = all ? strlen(bytes) : mixer_whole_lines(bytes, strlen(bytes));
    out_len += mixer_add(&mixer, &streams[stream], bytes, n, out_bytes + out_len);
    return n;
}

TestSuite(mixer, .init = begin_mixer);

Test(mixer, whole_lines)
{
    cr_expect_eq(mix(0, "a\nb", false), 2);
    cr_expect_eq(mix(1, "c\n\n", false), 3);
    cr_expect_eq(mix(0, "b\n", false), 2);
    cr_expect_eq(mix(0, "d", false), 0);
    cr_expect_str_eq(out_bytes, "[0] a\n[1] c\n[1] \n[0] b\n");
}

Test(mixer, a_line_that_is_interrupted)
{
    cr_expect_eq(mix(0, "wait", true), 4);
    cr_expect_eq(mix(0, "...", true), 3);
    cr_expect_eq(mix(1, "x\n", false), 2);
    cr_expect_eq(mix(0, "done\n", false), 5);
    cr_expect_str_eq(out_bytes, "[0] wait...\n[1] x\n[0] done\n");
}

/* The cursor is at the left again, and what comes next writes over the prefix. */
Test(mixer, carriage_returns)
{
    cr_expect_eq(mix(0, "1%\r2%\r", false), 6);
    cr_expect_eq(mix(0, "3%\r", false), 3);
    cr_expect_eq(mix(0, "\ndos\r\nend\n", false), 10);
    cr_expect_str_eq(out_bytes, "[0] 1%\r[0] 2%\r[0] 3%\r\n[0] dos\r\n[0] end\n");
}

Test(mixer, no_prefix_changes_nothing)
{
    streams[0].prefix = streams[1].prefix = "";
    cr_expect_eq(mix(0, "a\r\n\rb\n\n", false), 7);
    cr_expect_eq(mix(1, "c\n", false), 2);
    cr_expect_str_eq(out_bytes, "a\r\n\rb\n\nc\n");
}

/* However many lines the bytes are, they fit, also with the longest prefix. */
Test(mixer, many_lines)
{
    static const char bytes[] = "\n\n\n\n\r\r\ra";
    char prefix[MIXER_PREFIX_MAX], want[sizeof out_bytes] = "x\n";
    memset(prefix, 'p', sizeof prefix - 1);
    prefix[sizeof prefix - 1] = '\0';
    streams[0].prefix = prefix;
    streams[1].prefix = "";
    mix(1, "x", true);
    for (const char *at = bytes; *at; at++)
        sprintf(want + strlen(want), "%s%c", prefix, *at);
    cr_expect_eq(mix(0, bytes, true), sizeof bytes - 1);
    cr_expect_str_eq(out_bytes, want);
    cr_expect_eq(out_len, 1 + MIXER_MAX(sizeof bytes - 1));
}
