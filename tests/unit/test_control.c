/* SPDX-License-Identifier: Apache-2.0
 *
 * test_control: the socket of pchctl, and clients that do what they should not: too many of them,
 * too long a line, no reading. No such client disturbs the others, or stops the loop.
 */
#include "status/control.h"

#include "folder.h"

#include "base/clock.h"
#include "base/str.h"

#include <event2/event.h>
#include <sys/socket.h>
#include <sys/un.h>

static char path[80];
#define STATUS "{\"version\":1,\"do\":\"status\"}\n"
#define FOLLOW "{\"version\":1,\"do\":\"events\",\"follow\":true}\n"

static struct event_base *base;
static struct control *control;
static struct control_request asked;
static int nasked;
static size_t answer_bytes; /* 0: a short answer */

static bool on_asked(void *ctx, struct control_client *client,
                     const struct control_request *request)
{
    asked = *request;
    nasked++;
    char *text = calloc(1, answer_bytes + 1);
    cr_assert(text);
    if (answer_bytes)
        control_answer(client, text, answer_bytes);
    else if (!request->follows)
        control_answer(client, "answer\n", 7);
    free(text);
    return true;
}

static void serve(int64_t patience_ns)
{
    struct err err;
    struct control_options options = {
        .base = base, .dir = folder, .patience_ns = patience_ns, .asked = on_asked};
    control_free(control);
    control = control_new(&options, &err);
    cr_assert(control, "%s", err.text);
}

/* The time limit for a request is long: a slow test machine makes no connection time out. */
static void begin(void)
{
    signal(SIGPIPE, SIG_IGN); /* as in pchrun */
    folder_make();
    snprintf(path, sizeof path, "%s/" CONTROL_SOCKET, folder);
    base = event_base_new();
    serve(UNIT_DEADLINE_MS * NS_PER_MS);
}

static void end(void)
{
    control_free(control);
    event_base_free(base);
    cr_assert_eq(access(path, F_OK), -1, "the socket is left");
    cr_assert_eq(rmdir(folder), 0);
}

TestSuite(control, .init = begin);

static int connect_to(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    str_copy(addr.sun_path, sizeof addr.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert(fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0);
    return fd;
}

/* Runs all events that are ready. */
static void run(void)
{
    for (int i = 0; i < 50; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
}

static int ask(const char *line)
{
    int fd = connect_to();
    cr_assert_eq(send(fd, line, strlen(line), 0), (ssize_t)strlen(line));
    run();
    return fd;
}

/* Reads all that is there; *ret_ended: the connection has ended. */
static char *heard(int fd, bool *ret_ended)
{
    static char text[4096];
    ssize_t n, len = 0;
    while ((n = recv(fd, text + len, sizeof text - 1 - (size_t)len, 0)) > 0)
        len += n;
    *ret_ended = n == 0;
    text[len] = '\0';
    return text;
}

static void assert_answer(int fd, const char *part)
{
    bool has_ended;
    const char *text = heard(fd, &has_ended);
    cr_assert(strstr(text, part), "no %s in %s", part, text);
    cr_assert(has_ended, "it is not closed behind its answer");
    close(fd);
}

EndedTest(control, a_question_and_its_answer, end)
{
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0600);
    int fd = ask(STATUS);
    cr_assert_eq(asked.verb, CONTROL_STATUS);
    cr_assert_eq(asked.pid, getpid());
    cr_assert_eq(asked.uid, (int)getuid());
    assert_answer(fd, "answer\n");
}

EndedTest(control, a_line_in_pieces, end)
{
    int fd = ask("{\"version\":1,");
    cr_assert_eq(nasked, 0);
    cr_assert_eq(send(fd, "\"do\":\"stop\"}\n", 13, 0), 13);
    run();
    assert_answer(fd, "answer\n");
}

/* One connection, one question: bytes behind the question are ignored. */
EndedTest(control, two_lines, end)
{
    int fd = ask("{\"version\":1,\"do\":\"status\"}\n{\"version\":1,\"do\":\"stop\"}\n");
    cr_assert_eq(nasked, 1);
    cr_assert_eq(asked.verb, CONTROL_STATUS);
    assert_answer(fd, "answer\n");
}

EndedTest(control, what_is_no_request, end)
{
    char line[CONTROL_REQUEST_MAX + 600];
    assert_answer(ask("hello\n"), "\"error\"");
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\0';
    assert_answer(ask(line), "at most 1024 bytes");
    cr_assert_eq(nasked, 0);
    close(ask("{\"version\":1")); /* and gone */
    run();
    assert_answer(ask(STATUS), "answer\n");
}

EndedTest(control, too_many_clients, end)
{
    int fds[CONTROL_CLIENTS_MAX];
    for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
        fds[i] = connect_to();
    run();
    assert_answer(ask(""), "too many clients");
    close(fds[3]);
    run();
    assert_answer(ask(STATUS), "answer\n");
    for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
        if (i != 3)
            close(fds[i]);
}

EndedTest(control, who_follows_hears_all, end)
{
    bool has_ended;
    int fd = ask(FOLLOW);
    int other = connect_to();
    run();
    control_answer_all(control, true, "one\n", 4);
    control_answer_all(control, true, "two\n", 4);
    run();
    cr_assert_str_eq(heard(fd, &has_ended), "one\ntwo\n");
    cr_assert(!has_ended);
    cr_assert_str_eq(heard(other, &has_ended), "", "it has asked for nothing");
    control_answer_all(control, true, "last\n", 5);
    control_free(control);
    control = NULL;
    cr_assert_str_eq(heard(fd, &has_ended), "last\n");
    cr_assert(has_ended);
    close(fd);
    close(other);
}

/* The other clients get their lines. The lines that wait for this client are bounded. */
EndedTest(control, who_follows_and_does_not_read_is_put_out, end)
{
    static char line[16 * 1024];
    char byte[4096];
    int fd = ask(FOLLOW);
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    size_t told = 0, got = 0;
    for (; told < 64 * sizeof line; told += sizeof line) {
        control_answer_all(control, true, line, sizeof line);
        run();
    }
    ssize_t n;
    while ((n = recv(fd, byte, sizeof byte, 0)) > 0)
        got += (size_t)n;
    cr_assert_eq(n, 0, "it is still connected");
    cr_assert_lt(got, told);
    assert_answer(ask(STATUS), "answer\n");
    close(fd);
}

/* Runs the loop until the client is disconnected; libevent has the timeout. */
static void await_end(int fd)
{
    char byte;
    ssize_t n;
    while ((n = recv(fd, &byte, 1, 0)) < 0 && errno == EAGAIN)
        cr_assert_eq(event_base_loop(base, EVLOOP_ONCE), 0, "nothing is waited for any more");
    cr_assert_eq(n, 0);
    close(fd);
}

EndedTest(control, who_asks_nothing_is_put_out, end)
{
    int fds[CONTROL_CLIENTS_MAX];
    serve(50 * NS_PER_MS);
    for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
        fds[i] = ask(i % 2 ? "{\"version\":1" : "");
    for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
        await_end(fds[i]);
    assert_answer(ask(STATUS), "answer\n");
}

/* The time for the request does not begin anew with each byte. */
EndedTest(control, who_asks_slowly_is_put_out, end)
{
    bool has_ended = false;
    serve(100 * NS_PER_MS);
    int fd = ask("{");
    for (int sent = 0; !has_ended && sent < CONTROL_REQUEST_MAX / 2; sent++) {
        struct pollfd ended = {.fd = fd, .events = POLLIN};
        ssize_t n = send(fd, " ", 1, MSG_NOSIGNAL);
        poll(&ended, 1, 10);
        run();
        cr_assert_str_empty(heard(fd, &has_ended), "%zd", n);
    }
    cr_assert(has_ended);
    close(fd);
}

/* A client that ends its side after the request gets as much as the socket takes at once. */
EndedTest(control, a_long_answer_to_who_sends_no_more, end)
{
    static const char line[] = STATUS;
    size_t n = 0;
    answer_bytes = 100000;
    int fd = connect_to();
    cr_assert_eq(send(fd, line, strlen(line), 0), (ssize_t)strlen(line));
    cr_assert_eq(shutdown(fd, SHUT_WR), 0);
    run();
    char bytes[4096];
    for (ssize_t got; (got = recv(fd, bytes, sizeof bytes, 0)) != 0; n += (size_t)got)
        cr_assert(got > 0, "after %zu bytes", n);
    cr_assert_eq(n, answer_bytes);
    answer_bytes = 0;
    close(fd);
}

/* A follower may be silent without limit, as long as it reads all that is sent to it. */
EndedTest(control, who_follows_is_not, end)
{
    bool has_ended;
    serve(50 * NS_PER_MS);
    int fd = ask(FOLLOW);
    await_end(connect_to()); /* a later connection that says nothing is closed */
    control_answer_all(control, true, "one\n", 4);
    run();
    cr_assert_str_eq(heard(fd, &has_ended), "one\n");
    cr_assert(!has_ended);
    close(fd);
}

/* --- what a request may hold, and what a client is told of one that it may not --- */

static bool is_read(const char *line, struct control_request *ret, struct err *err)
{
    return control_read(line, strlen(line), ret, err);
}

Test(control_request, each_verb)
{
    struct control_request request;
    struct err err;
    char line[128];
    for (unsigned i = 0; i < CONTROL__COUNT; i++) {
        snprintf(line, sizeof line, "{\"version\":1,\"do\":\"%s\"}", control_names[i]);
        cr_assert(is_read(line, &request, &err), "%s", err.text);
        cr_assert_eq(request.verb, i);
        cr_assert(!request.follows && !request.text[0]);
        cr_assert_eq(request.left_ns, NOTICE_LEFT_UNKNOWN);
    }
}

Test(control_request, all_members)
{
    struct control_request request;
    struct err err;
    cr_assert(is_read("{\"version\":1,\"do\":\"drain\",\"left_ms\":1500,\"text\":\"a\\u0007b\"}",
                      &request, &err));
    cr_assert_eq(request.left_ns, 1500 * NS_PER_MS);
    cr_assert_str_eq(request.text, "a?b", "a terminal is not to obey it");
    cr_assert(is_read("{\"follow\":true,\"do\":\"events\",\"version\":1}", &request, &err));
    cr_assert(request.follows && !request.is_of_all);
    cr_assert(is_read("{\"version\":1,\"do\":\"status\",\"all\":true}", &request, &err));
    cr_assert(request.is_of_all);
}

Test(control_request, what_is_wrong_is_told)
{
    static const struct {
        const char *line, *why;
    } rows[] = {
        {"", "request:1:1"},
        {"status", "request:1:6"},
        {"[]", "a request is an object, not a list"},
        {"{\"do\":\"status\"}", "speaks version 1"},
        {"{\"version\":2,\"do\":\"status\"}", "use the pchctl that came with it"},
        {"{\"version\":2,\"new\":7}", "speaks version 1"},
        {"{\"version\":1}", "names no request"},
        {"{\"version\":1,\"do\":\"dance\"}", "names no request"},
        {"{\"version\":1,\"do\":7}", "names no request"},
        {"{\"version\":1,\"do\":\"stop\",\"force\":true}",
         "a request may not have a member \"force\""},
        {"{\"version\":1,\"do\":\"events\",\"follow\":1}", "\"follow\" is not true or false"},
        {"{\"version\":1,\"do\":\"status\",\"all\":\"yes\"}", "\"all\" is not true or false"},
        {"{\"version\":1,\"do\":\"drain\",\"left_ms\":-1}", "at most a year"},
        {"{\"version\":1,\"do\":\"drain\",\"left_ms\":9223372036854775807}", "at most a year"},
        {"{\"version\":1,\"do\":\"drain\",\"left_ms\":1.5}", "at most a year"},
        {"{\"version\":1,\"do\":\"drain\",\"text\":7}", "must be a text"},
        {"{\"version\":1,\"do\":\"stop\",\"do\":\"status\"}", "duplicate object key"},
    };
    struct control_request request;
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert(!is_read(rows[i].line, &request, &err), "%s", rows[i].line);
        cr_assert(strstr(err.text, rows[i].why), "%s: %s", rows[i].line, err.text);
    }
}

Test(control_request, a_text_has_a_bound)
{
    struct control_request request;
    struct err err;
    char line[256], text[CONTROL_TEXT_MAX + 2];
    memset(text, 'x', sizeof text);
    snprintf(line, sizeof line, "{\"version\":1,\"do\":\"drain\",\"text\":\"%.*s\"}",
             CONTROL_TEXT_MAX, text);
    cr_assert(is_read(line, &request, &err));
    cr_assert_eq(strlen(request.text), CONTROL_TEXT_MAX);
    snprintf(line, sizeof line, "{\"version\":1,\"do\":\"drain\",\"text\":\"%.*s\"}",
             CONTROL_TEXT_MAX + 1, text);
    cr_assert(!is_read(line, &request, &err));
}
