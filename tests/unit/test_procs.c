/* SPDX-License-Identifier: Apache-2.0
 *
 * procs against processes that do not use libpch, or not as they should. The processes are sockets
 * of the test itself: procs gets the same bytes.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "procs/rundir.h"
#include "wire/gate.h"
#include "wire/page.h"
#include "world.h"

#include <event2/event.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static struct world world;

static int dial(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    str_copy(addr.sun_path, sizeof addr.sun_path, procs_run_dir(world.procs)->addr.sun_path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    return fd;
}

static void say(int fd, const struct procmsg *msg)
{
    uint8_t frame[FRAME_MAX];
    size_t size = procmsg_encode(msg, frame, sizeof frame);
    cr_assert_gt(size, 0);
    cr_assert_eq(send(fd, frame, size, MSG_NOSIGNAL), (ssize_t)size);
}

static void say_attach(int fd)
{
    say(fd, &(struct procmsg){.type = PROCMSG_ATTACH, .rank = 0, .world_size = 1, .step = 5});
}

static bool is_readable(void *arg)
{
    char c;
    return recv(*(int *)arg, &c, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno == ECONNRESET;
}

/* The next message of procs; false at the end of the connection. The descriptors that come with it
 * go to fds. */
static bool hear(int fd, struct procmsg *ret, int fds[2])
{
    uint8_t data[FRAME_MAX];
    union {
        char room[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec io = {data, sizeof data};
    struct msghdr head = {.msg_iov = &io,
                          .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = sizeof control.room};
    struct frame frame;
    size_t size;
    world_wait(&world, is_readable, &fd, "an answer");
    ssize_t n = recvmsg(fd, &head, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == ECONNRESET)
        n = recvmsg(fd, &head, MSG_CMSG_CLOEXEC);
    if (n <= 0)
        return false;
    cr_assert_eq(frame_parse(FRAME_PROC, data, (size_t)n, &frame, &size), FRAME_OK);
    cr_assert(procmsg_decode(&frame, ret));
    struct cmsghdr *c = CMSG_FIRSTHDR(&head);
    if (fds && c)
        memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
    return true;
}

static void expect_end(int fd)
{
    struct procmsg msg;
    cr_expect(!hear(fd, &msg, NULL), "%s instead of the end", procmsg_name(msg.type));
    close(fd);
}

static void expect_refused(int fd, const char *why)
{
    struct procmsg msg;
    cr_assert(hear(fd, &msg, NULL), "the end without a message");
    cr_expect_eq(msg.type, PROCMSG_REFUSED);
    cr_expect(strstr(msg.text, why), "%s", msg.text);
    expect_end(fd);
}

static int attach(void)
{
    struct procmsg msg;
    int fds[2] = {-1, -1};
    int fd = dial();
    say_attach(fd);
    world_expect(&world, CALL_ATTACHED, 0);
    cr_assert(hear(fd, &msg, fds));
    cr_assert_eq(msg.type, PROCMSG_WELCOME);
    close(fds[0]);
    close(fds[1]);
    return fd;
}

static void detach(int fd)
{
    close(fd);
    world_expect(&world, CALL_GONE, 0);
}

WorldTest(procs, directory_and_socket_are_private)
{
    struct stat st;
    char dir[PATH_MAX];
    str_copy(dir, sizeof dir, procs_run_dir(world.procs)->addr.sun_path);
    cr_expect_eq(stat(dir, &st), 0);
    cr_expect_eq(st.st_mode, S_IFSOCK | 0600);
    *strrchr(dir, '/') = '\0';
    cr_expect_eq(stat(dir, &st), 0);
    cr_expect_eq(st.st_mode, S_IFDIR | 0700);
    cr_expect(str_starts(dir, world.dir), "%s", dir);
}

WorldTest(procs, pages_are_sealed)
{
    struct procmsg msg;
    int fds[2] = {-1, -1};
    int fd = dial();
    say_attach(fd);
    world_expect(&world, CALL_ATTACHED, 0);
    cr_assert(hear(fd, &msg, fds));
    for (int i = 0; i < 2; i++) {
        cr_expect(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        cr_expect(ftruncate(fds[i], 0) != 0 && errno == EPERM, "page %d can be cut", i);
        cr_expect(ftruncate(fds[i], 1 << 20) != 0 && errno == EPERM, "page %d can grow", i);
        cr_expect(fcntl(fds[i], F_ADD_SEALS, F_SEAL_WRITE) != 0, "page %d can be sealed", i);
    }
    cr_expect_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0), MAP_FAILED);
    /* A page that is opened anew is the same file, with the same seals. */
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fds[0]);
    int again = open(name, O_RDWR | O_CLOEXEC);
    cr_expect(again < 0 || write(again, "x", 1) < 0);
    cr_expect_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
    fd_close(&again);
    struct page_supervisor *s = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fds[0], 0);
    struct page_process *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    cr_assert(s != MAP_FAILED && p != MAP_FAILED);
    cr_expect_eq(s->magic, PAGE_MAGIC);
    cr_expect_eq(s->alive, (uint32_t)getpid());
    cr_expect_eq(p->step, 5);
    procs_gate(world.procs, gate_make(9, 1, true, false));
    cr_expect_eq(s->gate, gate_make(9, 1, true, false));
    /* The connection is closed: the process finds the supervisor gone. */
    procs_close(world.procs, 0);
    cr_expect(!page_is_alive(s));
    munmap(s, 4096);
    munmap(p, 4096);
    close(fds[0]);
    close(fds[1]);
    expect_end(fd);
    cr_expect(world_is_quiet(&world));
}

static void expect_cut_off(const void *data, size_t size)
{
    int fd = attach();
    cr_assert_eq(send(fd, data, size, MSG_NOSIGNAL), (ssize_t)size);
    expect_end(fd);
    world_expect(&world, CALL_GONE, 0);
}

WorldTest(procs, garbage_is_cut_off)
{
    uint8_t frame[FRAME_MAX + 100] = {0};
    expect_cut_off("GET / HTTP/1.1\r\n", 16);
    expect_cut_off("\x50", 1);
    memset(frame, 0xff, sizeof frame);
    expect_cut_off(frame, sizeof frame);
    /* A good frame, but too long, too short, of another version, with a tail, of an unknown type.
     */
    struct procmsg msg = {.type = PROCMSG_DONE, .step = 7};
    size_t size = procmsg_encode(&msg, frame, sizeof frame);
    expect_cut_off(frame, size - 1);
    expect_cut_off(frame, size + 1);
    frame[2]++;
    expect_cut_off(frame, size);
    frame[2]--;
    frame[3] = 63;
    expect_cut_off(frame, size);
    frame[3] = PROCMSG_DONE;
    frame[6] = 0xff;
    expect_cut_off(frame, sizeof frame);
}

WorldTest(procs, what_only_a_supervisor_says_is_cut_off)
{
    uint8_t frame[FRAME_MAX];
    struct procmsg msg = {.type = PROCMSG_WELCOME};
    size_t size = procmsg_encode(&msg, frame, sizeof frame);
    expect_cut_off(frame, size);
}

WorldTest(procs, attaching_twice_is_cut_off)
{
    int fd = attach();
    say_attach(fd);
    expect_end(fd);
    world_expect(&world, CALL_GONE, 0);
}

WorldTest(procs, a_stranger_is_told_before_it_is_cut_off)
{
    int fd = dial();
    say(fd, &(struct procmsg){.type = PROCMSG_DONE});
    expect_refused(fd, "protocol");
    fd = dial();
    cr_assert_eq(send(fd, "hello", 5, MSG_NOSIGNAL), 5);
    expect_refused(fd, "protocol");
    cr_expect(world_is_quiet(&world), "no process was attached, none is gone");
}

/* The last message of a process is read, although the process left an answer unread. The unread
 * answer resets the connection. */
WorldTest(procs, last_words_are_heard)
{
    int fd = attach();
    procs_send(world.procs, 0, &(struct procmsg){.type = PROCMSG_LOOK});
    say(fd, &(struct procmsg){.type = PROCMSG_ERROR, .number = 9, .text = "why"});
    say(fd, &(struct procmsg){.type = PROCMSG_DONE, .step = 8});
    close(fd);
    cr_expect_str_eq(world_expect(&world, CALL_MESSAGE, PROCMSG_ERROR)->msg.text, "why");
    cr_expect_eq(world_expect(&world, CALL_MESSAGE, PROCMSG_DONE)->msg.step, 8);
    world_expect(&world, CALL_GONE, 0);
}

WorldTest(procs, a_process_that_does_not_read_is_cut_off)
{
    struct procmsg msg = {.type = PROCMSG_SCRATCH_DIR};
    memset(msg.path, 'x', sizeof msg.path - 1);
    int fd = attach(), other = attach(), size = 4096;
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
    for (int i = 0; i < 1000; i++)
        procs_send(world.procs, 0, &msg);
    cr_expect_eq(world_expect(&world, CALL_GONE, 0)->slot, 0);
    close(fd);
    /* The close does not affect the others. */
    say(other, &(struct procmsg){.type = PROCMSG_DONE});
    cr_expect_eq(world_expect(&world, CALL_MESSAGE, PROCMSG_DONE)->slot, 1);
    detach(other);
}

/* Messages that do not fit into the socket's buffer come later, whole and in order. */
WorldTest(procs, what_has_to_wait_comes_in_order)
{
    enum { N = 35 }; /* more than a socket takes, less than procs keeps */
    struct procmsg msg = {.type = PROCMSG_SCRATCH_DIR};
    memset(msg.path, 'x', sizeof msg.path - 1);
    int fd = attach();
    for (int i = 0; i < N; i++) {
        snprintf(msg.text, sizeof msg.text, "%d", i);
        procs_send(world.procs, 0, &msg);
    }
    for (int i = 0; i <= N; i++) {
        struct procmsg got;
        cr_assert(hear(fd, &got, NULL), "the end after %d", i);
        cr_assert_eq(atoi(got.text), i);
        /* There is room again, but earlier messages still wait. */
        snprintf(msg.text, sizeof msg.text, "%d", N);
        if (i == 1)
            procs_send(world.procs, 0, &msg);
    }
    detach(fd);
}

WorldTest(procs, places_are_limited_and_free_again)
{
    static int fds[CORE_SLOTS_MAX];
    struct procmsg msg;
    for (int i = 0; i < CORE_SLOTS_MAX; i++)
        fds[i] = attach();
    int fd = dial();
    say_attach(fd);
    expect_refused(fd, "has 256 processes, its limit");
    cr_expect_eq(world.nunattached, 1);
    /* One process leaves: the next one gets its slot. */
    close(fds[77]);
    cr_expect_eq(world_expect(&world, CALL_GONE, 0)->slot, 77);
    fds[77] = dial();
    say_attach(fds[77]);
    const struct call *call = world_expect(&world, CALL_ATTACHED, 0);
    cr_expect_eq(call->slot, 77);
    cr_assert(hear(fds[77], &msg, NULL));
    /* calls[] is full; of the end only its arrival is checked. */
    for (int i = 0; i < CORE_SLOTS_MAX; i++) {
        procs_close(world.procs, i);
        expect_end(fds[i]);
    }
}

/* Broken programs connect again and again: the oldest connection makes room, and a process attaches
 * at once. As many processes as there are slots may be slow to attach. */
WorldTest(procs, connections_that_say_nothing_make_room)
{
    enum { LOBBY = 320, MORE = 30 };
    int fds[LOBBY + MORE];
    for (int i = 0; i < LOBBY + MORE; i++) {
        fds[i] = dial();
        event_base_loop(world.base, EVLOOP_NONBLOCK);
    }
    int64_t begin = clock_now_ns();
    int fd = dial();
    say_attach(fd);
    world_expect(&world, CALL_ATTACHED, 0);
    cr_expect_lt(clock_now_ns() - begin, 9 * NS_PER_S, "it waited for those that say nothing");
    expect_end(fds[0]);
    expect_end(fds[MORE]); /* in place of the process that has attached */
    say_attach(fds[MORE + 1]);
    world_expect(&world, CALL_ATTACHED, 0);
    detach(fd);
    close(fds[MORE + 1]);
    world_expect(&world, CALL_GONE, 0);
    for (int i = 1; i < LOBBY + MORE; i++)
        if (i < MORE || i > MORE + 1)
            close(fds[i]);
}

WorldTest(procs, a_connection_that_does_not_attach_is_closed_in_time)
{
    int64_t begin = clock_now_ns();
    int fd = dial(), other = attach();
    expect_end(fd);
    int64_t took = clock_now_ns() - begin;
    cr_expect_gt(took, 9 * NS_PER_S, "%lld ns", (long long)took);
    say(other, &(struct procmsg){.type = PROCMSG_DONE});
    world_expect(&world, CALL_MESSAGE, PROCMSG_DONE);
    detach(other);
}

static void on_over(evutil_socket_t fd, short what, void *arg)
{
    *(bool *)arg = true;
}

/* Without descriptors procs does not spin, and accepts when there are some again. */
WorldTest(procs, accepting_waits_out_a_lack_of_descriptors)
{
    struct rlimit old, tight;
    bool is_over = false;
    int fd = dial(), top = dup(0), turns = 0;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    tight = old;
    tight.rlim_cur = (rlim_t)top;
    close(top);
    struct event *over = evtimer_new(world.base, on_over, &is_over);
    evtimer_add(over, (&(struct timeval){.tv_usec = 300000}));
    /* The lowest free number is `top`: from here on every new descriptor is one too many. */
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
    while (!is_over) {
        event_base_loop(world.base, EVLOOP_ONCE);
        turns++;
    }
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    event_free(over);
    cr_expect_lt(turns, 10);
    cr_expect(world_is_quiet(&world));
    say_attach(fd);
    world_expect(&world, CALL_ATTACHED, 0);
    detach(fd);
}

static bool slot_is_closed_in_call;

static void close_at_once(void *ctx, const struct event *event)
{
    struct procs **procs = ctx;
    if (event->type != EV_PROC_ATTACHED && event->type != EV_PROC_MESSAGE)
        return;
    procs_close(*procs, event->proc.slot);
    slot_is_closed_in_call = true;
}

static void do_sweep(void *ctx, const struct scratch_sweep *what)
{
    scratch_sweep(what);
}

static bool is_set(void *arg)
{
    return *(bool *)arg;
}

WorldTest(procs, a_slot_may_be_closed_from_inside_of_a_call)
{
    struct err err;
    struct procs *mine = NULL, *usual = world.procs;
    struct procs_calls calls = {.news = close_at_once, .sweep = do_sweep, .ctx = &mine};
    struct config config = {.run_dir = world.dir};
    mine = world.procs = procs_new(world.base, &config, &calls, &err);
    cr_assert(mine, "%s", err.text);
    int fd = dial();
    say_attach(fd);
    say(fd, &(struct procmsg){.type = PROCMSG_DONE});
    world_wait(&world, is_set, &slot_is_closed_in_call, "the call");
    expect_end(fd);
    procs_free(mine);
    world.procs = usual;
}

/* Directories */

static void expect_dir(const char *run_dir, const char *expected)
{
    struct err err;
    struct stat st;
    char path[PATH_MAX];
    struct procs_calls calls = {.sweep = do_sweep};
    struct config config = {.run_dir = (char *)(uintptr_t)run_dir};
    struct procs *procs = procs_new(world.base, &config, &calls, &err);
    cr_assert(procs, "%s", err.text);
    procs_clean(procs);
    str_copy(path, sizeof path, procs_run_dir(procs)->addr.sun_path);
    cr_expect(str_starts(path, expected), "%s", path);
    cr_expect(stat(path, &st) == 0 && st.st_mode == (S_IFSOCK | 0600), "%o", st.st_mode);
    *strrchr(path, '/') = '\0';
    cr_expect(stat(path, &st) == 0 && st.st_mode == (S_IFDIR | 0700), "%o", st.st_mode);
    procs_free(procs);
}

/* A directory that the user named is never skipped in silence. */
static void expect_no_dir(const char *run_dir, const char *why)
{
    struct err err = {0};
    struct procs_calls calls = {.sweep = do_sweep};
    struct config config = {.run_dir = (char *)(uintptr_t)run_dir};
    cr_expect_null(procs_new(world.base, &config, &calls, &err), "%s is taken", run_dir);
    cr_expect(str_starts(err.text, "run_dir cannot be used"), "%s", err.text);
    cr_expect(strstr(err.text, run_dir) && strstr(err.text, why), "%s", err.text);
}

static void make_file(const char *path)
{
    close(open(path, O_CREAT | O_CLOEXEC, 0600));
}

/* Adds slashes up to this length. */
static void make_long(char *path, size_t len)
{
    memset(path + strlen(path), '/', len - strlen(path));
    path[len] = '\0';
}

WorldTest(procs, the_first_directory_that_works_is_taken)
{
    char file[128], deep[200] = "/tmp";
    snprintf(file, sizeof file, "%s/file", world.dir);
    make_file(file);
    make_long(deep, sizeof deep - 1);
    const char *wrong[] = {"relative", "", "/nonexistent", deep, file};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        setenv("XDG_RUNTIME_DIR", wrong[i], 1);
        setenv("TMPDIR", world.dir, 1);
        expect_dir(NULL, world.dir);
        setenv("TMPDIR", wrong[i], 1);
        expect_dir(NULL, "/tmp/pchrun.");
    }
    setenv("XDG_RUNTIME_DIR", world.dir, 1);
    expect_dir(NULL, world.dir);
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("TMPDIR");
    expect_dir(NULL, "/tmp/pchrun.");
    unlink(file);
}

WorldTest(procs, a_directory_named_by_the_user_works_or_is_an_error)
{
    char file[128], deep[200] = "/tmp";
    snprintf(file, sizeof file, "%s/file", world.dir);
    make_file(file);
    setenv("TMPDIR", world.dir, 1);
    expect_no_dir(file, "Not a directory");
    expect_no_dir("/nonexistent", "there is no directory /nonexistent; mkdir -p /nonexistent ");
    expect_no_dir("/tmp/nonexistent/0",
                  "there is no directory /tmp/nonexistent; mkdir -p /tmp/nonexistent/0 makes it");
    expect_no_dir("relative", "not an absolute path");
    unlink(file);
    make_long(deep, RUNDIR_BASE_MAX);
    expect_dir(deep, "/tmp/");
    make_long(deep, RUNDIR_BASE_MAX + 1);
    expect_no_dir(deep, "too long");
}

WorldTest(procs, umask_does_not_shut_us_out)
{
    umask(0777);
    expect_dir(world.dir, world.dir);
    umask(022);
}

WorldTest(procs, only_the_directories_of_the_dead_are_removed)
{
    char dead[128], living[128], fresh[128], path[160];
    struct stat st;
    snprintf(dead, sizeof dead, "%s/pchrun.dead00", world.dir);
    snprintf(living, sizeof living, "%s/pchrun.living", world.dir);
    /* A directory of the same name, except for its end. */
    snprintf(path, sizeof path, "%s/pchrun.dead00-logs", world.dir);
    cr_assert(mkdir(dead, 0700) == 0 && mkdir(living, 0700) == 0 && mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/pch-scratch-0-1", dead);
    cr_assert_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/socket", dead);
    make_file(path);
    snprintf(fresh, sizeof fresh, "%s/pchrun.fresh0", world.dir); /* the socket is yet to come */
    cr_assert_eq(mkdir(fresh, 0700), 0);
    snprintf(path, sizeof path, "%s/socket", living);
    make_file(path);
    int lock = open(living, O_RDONLY | O_CLOEXEC);
    cr_assert_eq(flock(lock, LOCK_EX), 0);
    expect_dir(world.dir, world.dir);
    cr_expect(stat(dead, &st) != 0 && errno == ENOENT);
    cr_expect_eq(stat(living, &st), 0);
    cr_expect_eq(rmdir(fresh), 0);
    cr_expect_eq(stat(procs_run_dir(world.procs)->addr.sun_path, &st), 0);
    close(lock);
    unlink(path);
    rmdir(living);
    snprintf(path, sizeof path, "%s/pchrun.dead00-logs", world.dir);
    cr_expect_eq(rmdir(path), 0);
}

/* A cleaner of /tmp removed the directory, and another program took its name. */
WorldTest(procs, what_took_the_place_of_our_directory_stays)
{
    for (int i = 0; i < 2; i++) {
        struct rundir dir;
        struct err err;
        FD_CLEANUP int listen = -1;
        cr_assert(rundir_make(world.dir, &dir, &listen, &err), "%s", err.text);
        cr_assert(unlink(dir.addr.sun_path) == 0 && rmdir(dir.path) == 0);
        if (i == 0)
            make_file(dir.path);
        else
            cr_assert_eq(mkdir(dir.path, 0700), 0);
        cr_expect(rundir_remove(&dir), "%s", strerror(errno));
        cr_expect_eq(dir.lock, -1);
        cr_expect_eq(remove(dir.path), 0);
    }
}

WorldTest(procs, scratch_of_this_node_s_earlier_starts_is_removed)
{
    char dir[80], path[3][256], other[256];
    const char *name = "0123456789abcdef-00000000-00000001";
    struct stat st;
    struct err err;
    struct procs_calls calls = {.sweep = do_sweep};
    snprintf(dir, sizeof dir, "%s/scratch", world.dir);
    snprintf(path[0], sizeof path[0], "%s/pch-scratch-1-%s", dir, name);
    snprintf(path[1], sizeof path[1], "%.200s/sub", path[0]);
    snprintf(path[2], sizeof path[2], "%.200s/link", path[0]);
    snprintf(other, sizeof other, "%s/pch-scratch-10-%s", dir, name);
    cr_assert(mkdir(dir, 0700) == 0 && mkdir(path[0], 0700) == 0 && mkdir(path[1], 0700) == 0 &&
              symlink("/", path[2]) == 0 && mkdir(other, 0700) == 0);
    struct config config = {
        .run_dir = world.dir, .checkpoint = {.dir = dir}, .cluster = {.node_rank = 1}};
    struct procs *procs = procs_new(world.base, &config, &calls, &err);
    cr_assert(procs, "%s", err.text);
    cr_expect_eq(stat(path[0], &st), 0, "not before it is told to");
    procs_clean(procs);
    cr_expect(stat(path[0], &st) != 0 && errno == ENOENT);
    cr_expect_eq(stat(other, &st), 0, "node 10's is not node 1's");
    procs_free(procs);
    rmdir(other);
    rmdir(dir);
}
