/* SPDX-License-Identifier: Apache-2.0
 * See web.h.
 */
#include "web/web.h"

#include "base/fd.h"
#include "base/str.h"
#include "web/server.h"
#include "web/token.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PORT 8042

/* Exit codes. */
enum {
    WEB_ENDED,  /* by SIGTERM or SIGINT */
    WEB_FAILED, /* no port, no memory */
    WEB_USAGE,  /* a wrong command line, or no job or several jobs fit */
};

struct web_options {
    const char *job, *run_dir, *state_dir; /* which job is meant */
    int node;
    const char *listen, *token_file;
};

#define AT(field) offsetof(struct web_options, field)

static const struct args_row rows[] = {
    {"help", 'h', NULL, "this text", ARGS_HELP},
    {"version", 'V', NULL, "the version", ARGS_VERSION},
    {"job", 'j', "NAME", "the job of this name", ARGS_TEXT, AT(job)},
    {"node", 'n', "N", "the job's node with this number", ARGS_NUMBER, AT(node), .max = INT32_MAX},
    {"run-dir", 0, "DIR", "where its socket is: run_dir of pchrun.json(5)", ARGS_TEXT, AT(run_dir)},
    {"state-dir", 0, "DIR", "its state_dir or checkpoint.dir; it need not run", ARGS_TEXT,
     AT(state_dir)},
    {"listen", 0, "ADDRESS", "where to listen [127.0.0.1:8042]", ARGS_TEXT, AT(listen)},
    {"token-file", 0, "FILE", "the token that browsers must know", ARGS_TEXT, AT(token_file)},
};

static struct args_row web_row(size_t i)
{
    return i < ARRAY_LEN(rows) ? rows[i] : (struct args_row){0};
}

const struct args web_args = {
    .program = "pchrun-web",
    .version = PCHRUN_VERSION,
    .head = "Usage: pchrun-web [options]\n\nShow a job that runs under pchrun as a page for a "
            "browser. See pchrun-web(1).\n\n",
    .tail = "Without --job, --node and --run-dir the job is that of PCH_SOCKET, else the only one "
            "of this user\non this machine.\n",
    .left = 21,
    .row = web_row,
    .is_alone = true,
    .too_many = "choose a job by --job NAME",
};

static bool web_take_address(const struct web_options *options, struct guard *guard,
                             struct err *err)
{
    if (!address_parse(options->listen, PORT, &guard->listen, err))
        return err_wrap(err, "--listen");
    if (gethostname(guard->host, sizeof guard->host) != 0)
        guard->host[0] = '\0';
    guard->host[sizeof guard->host - 1] = '\0';
    if (options->token_file && !token_read(options->token_file, guard->token, err))
        return false;
    return guard->token[0] || address_is_loopback(&guard->listen) ||
           err_set(err, ERR_USAGE, 0,
                   "other machines can reach %s, so a token is needed: see --token-file; or listen "
                   "at 127.0.0.1, and use ssh -L",
                   options->listen);
}

/* "localhost:8042", as a URL and ssh -L have it. */
static char *web_at(const struct guard *guard, const char *host, char text[ADDRESS_TEXT_MAX])
{
    struct address address = {.port = guard->listen.port};
    str_copy(address.host, sizeof address.host, host);
    return address_text(&address, text);
}

static void web_greet(const struct guard *guard)
{
    char at[ADDRESS_TEXT_MAX];
    const struct address *listen = &guard->listen;
    bool is_any = str_is(listen->host, "0.0.0.0") || str_is(listen->host, "::");
    const char *near = is_any ? "localhost" : listen->host;
    const char *here = guard->host[0] ? guard->host : "HOST";
    web_at(guard, near, at);
    printf(
        "open http://%s/\nfrom another machine: ssh -L %d:%s %s, then open http://localhost:%d/\n",
        at, listen->port, at, here, listen->port);
    if (guard->token[0])
        printf("the page asks for the token of --token-file\n");
    if (!address_is_loopback(listen))
        printf("other machines can also open http://%s/; that connection is not encrypted\n",
               web_at(guard, is_any ? here : near, at));
    fflush(stdout); /* a failed write does not end the program */
}

/* A job that the user names by its state directory need not run: the asker looks for it. */
static bool web_find(const struct web_options *options, struct asker *asker, struct err *err)
{
    struct stat st;
    if (!options->state_dir)
        return find_dir(&asker->which, asker->dir, err);
    if (stat(options->state_dir, &st) != 0)
        return err_set(err, ERR_USAGE, errno, "--state-dir: cannot look into %.200s",
                       options->state_dir);
    return S_ISDIR(st.st_mode) ||
           err_set(err, ERR_USAGE, 0, "--state-dir: %.200s is not a directory", options->state_dir);
}

static bool web_run(struct server *server, struct asker *asker, struct err *err)
{
    server->asker = asker;
    if (!server_open(server, err) || !asker_start(asker, err))
        return false;
    web_greet(&server->guard);
    bool ok = server_run(server, err);
    asker_stop(asker);
    return ok;
}

static enum args_end web_read_options(char **argv, struct web_options *ret, struct err *err)
{
    struct args_reading reading = {.options = ret, .out = stdout};
    return args_read(&web_args, argv, &reading, err);
}

int web_main(char **argv)
{
    /* The thread of the asker may outlive this function. */
    static struct server server;
    static struct asker asker;
    struct web_options options = {.node = -1, .listen = "127.0.0.1"};
    struct err err;
    unsigned opened;
    enum args_end end = ARGS_BAD;
    if (fd_fill_standard(&opened, &err))
        end = web_read_options(argv, &options, &err);
    if (end == ARGS_SHOWN)
        return WEB_ENDED;
    asker.which =
        (struct ctl_options){.job = options.job, .node = options.node, .run_dir = options.run_dir};
    asker.state_dir = server.state_dir = options.state_dir;
    bool is_found = end == ARGS_RUN && web_take_address(&options, &server.guard, &err) &&
                    web_find(&options, &asker, &err);
    bool ok = is_found && web_run(&server, &asker, &err);
    server_free(&server);
    if (ok)
        return WEB_ENDED;
    fprintf(stderr, "pchrun-web: %s\n", err.text);
    return !is_found && err.code == ERR_USAGE ? WEB_USAGE : WEB_FAILED;
}
