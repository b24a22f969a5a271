/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h.
 */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "pchrun." /* the names of private directories start with it */

#define FILES_TELL "pchctl status CHECKPOINT-DIR"

enum { BASES_MAX = 6 };

/* Time for pchruns to say which job they have: a look goes on without those that are stopped. A
 * command waits longer, since it must not take one of two jobs for the only one. */
#define LIST_WAIT_NS   (2 * NS_PER_S)
#define CHOOSE_WAIT_NS (5 * NS_PER_S)

struct search {
    const struct ctl_options *options;
    int64_t wait_ns;
    struct asked found[FIND_JOBS_MAX]; /* first those that have answered, and fit */
    int n, nasked;
    struct find_silent silent[FIND_JOBS_MAX];
    int nsilent;
    struct stat bases[BASES_MAX]; /* already searched */
    int nbases;
    char looked[256];
};

/* Does not check the directory's lock: if a pchrun runs there, its socket answers. */
static bool is_candidate(int base, const char *name)
{
    struct stat st, socket;
    FD_CLEANUP int dir = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return dir >= 0 && fstat(dir, &st) == 0 && (st.st_uid == geteuid() || geteuid() == 0) &&
           fstatat(dir, CONTROL_SOCKET, &socket, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISSOCK(socket.st_mode);
}

static void find_add_silent(struct search *search, const char *dir, const struct err *err)
{
    if (search->nsilent == FIND_JOBS_MAX)
        return;
    struct find_silent *silent = &search->silent[search->nsilent++];
    str_fit(silent->dir, sizeof silent->dir, dir);
    str_fit(silent->why, sizeof silent->why, err->text);
}

static bool find_fits(const struct ctl_options *options, const struct json *answer)
{
    return (!options->job || json_is_at(answer, "report.job", options->job)) &&
           (options->node < 0 || options->node == json_int_at(answer, "report.node_rank", -1));
}

/* Asks those that were found since the last call. */
static void find_ask(struct search *search)
{
    int begin = search->nasked, n = search->n;
    search->n = begin;
    ask_each(search->found + begin, n - begin, NULL, search->wait_ns);
    for (int i = begin; i < n; i++) {
        struct asked *asked = &search->found[i];
        if (!asked->answer.root && !ask_found_nobody(&asked->err))
            find_add_silent(search, asked->dir, &asked->err);
        if (asked->answer.root && find_fits(search->options, asked->answer.root))
            search->found[search->n++] = *asked;
        else
            answer_free(&asked->answer);
    }
    search->nasked = search->n;
}

static void find_take(void *ctx, const char *dir)
{
    struct search *search = ctx;
    /* Killed pchruns may have left many directories. */
    if (search->n == FIND_JOBS_MAX)
        find_ask(search);
    if (search->n < FIND_JOBS_MAX && str_copy(search->found[search->n].dir, FIND_DIR_MAX, dir))
        search->n++;
}

/* TMPDIR and /tmp may be the same. */
static bool is_new_base(struct search *search, const char *base)
{
    struct stat st;
    if (stat(base, &st) != 0 || search->nbases == BASES_MAX)
        return false;
    for (int i = 0; i < search->nbases; i++)
        if (search->bases[i].st_dev == st.st_dev && search->bases[i].st_ino == st.st_ino)
            return false;
    search->bases[search->nbases++] = st;
    return true;
}

void find_each(const char *base, find_fn *fn, void *ctx)
{
    char dir[FIND_DIR_MAX];
    struct dirent *entry;
    DIR *stream = opendir(base);
    if (!stream)
        return;
    while ((entry = readdir(stream)))
        if (str_starts(entry->d_name, PREFIX) && is_candidate(dirfd(stream), entry->d_name) &&
            snprintf(dir, sizeof dir, "%s/%s", base, entry->d_name) < (int)sizeof dir)
            fn(ctx, dir);
    closedir(stream);
}

static void look_in(struct search *search, const char *base)
{
    if (!base || !base[0])
        return;
    str_addf(search->looked, sizeof search->looked, "%s%s", search->looked[0] ? ", " : "", base);
    if (is_new_base(search, base))
        find_each(base, find_take, search);
}

/* --run-dir names the parent of private directories, or one of them. */
static void find_look_at(struct search *search, const char *dir)
{
    FD_CLEANUP int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err err;
    if (fd < 0 && errno == EACCES) {
        talk_denied(dir, &err);
        find_add_silent(search, dir, &err);
    } else if (fd >= 0 && is_candidate(fd, ".")) {
        str_copy(search->looked, sizeof search->looked, dir);
        find_take(search, dir);
    } else {
        look_in(search, dir);
    }
}

static void look_everywhere(struct search *search)
{
    look_in(search, getenv("PCHRUN_RUN_DIR"));
    look_in(search, getenv("XDG_RUNTIME_DIR"));
    look_in(search, getenv("TMPDIR"));
    look_in(search, "/tmp");
    look_in(search, "/dev/shm");
}

/* For a process of a job, the default is the pchrun of that process. */
static bool find_is_within(const struct ctl_options *options, char ret[FIND_DIR_MAX])
{
    const char *socket = getenv("PCH_SOCKET");
    const char *end = socket ? strrchr(socket, '/') : NULL;
    if (options->job || options->node >= 0 || options->run_dir || !end ||
        end - socket >= FIND_DIR_MAX)
        return false;
    snprintf(ret, FIND_DIR_MAX, "%.*s", (int)(end - socket), socket);
    return true;
}

void find_explain(const struct ctl_options *options, struct err *err)
{
    char dir[FIND_DIR_MAX];
    bool is_left = err->sys_errno == ENOENT || err->sys_errno == ECONNREFUSED;
    if (is_left && options->verb != CONTROL__COUNT && !options->path &&
        find_is_within(options, dir))
        err_set(err, err->code, 0,
                "PCH_SOCKET is set, but no pchrun runs in %s any more; unset it, or choose a "
                "pchrun by --job, --node or --run-dir",
                dir);
}

static void print_list(const struct search *search)
{
    if (search->options->is_quiet)
        return;
    show_choice(NULL, NULL);
    for (int i = 0; i < search->n; i++)
        show_choice(search->found[i].answer.root, search->found[i].dir);
}

/* Two jobs may have one name, but each has its own address of node 0. A job of one node has no
 * such address. */
static bool is_same_job(const struct json *a, const struct json *b)
{
    const char *chief = json_text_at(a, "chief");
    return chief[0] && json_is_at(b, "chief", chief) &&
           json_is_at(b, "report.job", json_text_at(a, "report.job")) &&
           json_int_at(a, "report.nnodes", 0) == json_int_at(b, "report.nnodes", 0);
}

/* The lowest node of a job answers for all: node 0 knows every rank. NULL: the pchruns that were
 * found are of several jobs, or two of them are the lowest node. */
static const struct asked *find_lowest(const struct search *search)
{
    const struct asked *lowest = &search->found[0];
    bool is_twice = false;
    for (int i = 1; i < search->n; i++) {
        const struct json *node = search->found[i].answer.root;
        int64_t rank = json_int_at(node, "report.node_rank", -1);
        int64_t least = json_int_at(lowest->answer.root, "report.node_rank", -1);
        if (!is_same_job(node, lowest->answer.root))
            return NULL;
        is_twice = rank == least || (is_twice && rank > least);
        if (rank < least)
            lowest = &search->found[i];
    }
    return is_twice ? NULL : lowest;
}

static const char *find_advice(const struct ctl_options *o)
{
    if (o->is_quiet)
        return "it appears here as soon as it runs";
    if (!o->run_dir)
        return "name its --run-dir; of a spare, and of a job that has ended or is on another "
               "host: " FILES_TELL;
    return access(o->run_dir, F_OK) == 0
               ? "has it ended, is it a spare, or on another host? then " FILES_TELL
               : "there is no such directory";
}

/* Sets *err: which pchrun was not found, and in which directories. */
static bool say_none(const struct search *search, struct err *err)
{
    const struct ctl_options *o = search->options;
    char node[32] = "";
    if (o->node >= 0)
        str_addf(node, sizeof node, ", node %d,", o->node);
    return err_set(err, ERR_USAGE, 0, "no pchrun%s%s%s%s was found in %s; %s",
                   o->job ? " of job " : "", o->job ? o->job : "", node,
                   geteuid() == 0 ? "" : " of this user", search->looked, find_advice(o));
}

/* "/tmp/pchrun.x: pchrun does not answer; is it stopped?; ..." Returns text. */
static const char *find_say_silent(const struct search *search, char *text, size_t size)
{
    text[0] = '\0';
    for (int i = 0; i < search->nsilent; i++) {
        const struct find_silent *silent = &search->silent[i];
        /* The reason may name the directory. */
        bool is_named = strstr(silent->why, silent->dir);
        str_addf(text, size, "%s%s%s%s", i > 0 ? "; " : "", is_named ? "" : silent->dir,
                 is_named ? "" : ": ", silent->why);
    }
    return text;
}

static bool find_choose(const struct search *search, char ret[FIND_DIR_MAX], struct err *err)
{
    char silent[512];
    const struct ctl_options *options = search->options;
    const struct asked *found = find_lowest(search);
    find_say_silent(search, silent, sizeof silent);
    if (search->n > 1 && !found) {
        print_list(search);
        return err_set(err, ERR_USAGE, 0,
                       "which of these %d? choose one by --job, --node or --run-dir", search->n);
    }
    if (search->n == 0 && silent[0])
        return err_set(err, ERR_USAGE, 0, "no pchrun answers: %s", silent);
    if (search->n == 0)
        return say_none(search, err);
    if (silent[0] && !options->job && options->node < 0) {
        print_list(search);
        return err_set(err, ERR_USAGE, 0,
                       "one pchrun answers, but %s; choose one by --job, --node or --run-dir",
                       silent);
    }
    str_copy(ret, FIND_DIR_MAX, found->dir);
    return true;
}

/* The caller frees it with search_free(). */
static struct search *find_search(const struct ctl_options *options, int64_t wait_ns)
{
    static struct search search; /* too large for a stack */
    search = (struct search){.options = options, .wait_ns = wait_ns};
    if (options->run_dir)
        find_look_at(&search, options->run_dir);
    else
        look_everywhere(&search);
    find_ask(&search);
    return &search;
}

static void search_free(struct search *search)
{
    for (int i = 0; i < search->n; i++)
        answer_free(&search->found[i].answer);
}

bool find_dir(const struct ctl_options *options, char ret[FIND_DIR_MAX], struct err *err)
{
    if (find_is_within(options, ret))
        return true;
    struct search *search = find_search(options, CHOOSE_WAIT_NS);
    bool ok = find_choose(search, ret, err);
    search_free(search);
    return ok;
}

/* --- for a look --- */

/* By job. Jobs of one name have a fixed order, too: a list that is repeated must not jump. */
static int found_compare(const void *a, const void *b)
{
    const struct asked *x = a, *y = b;
    int order = strcmp(json_text_at(x->answer.root, "report.job"),
                       json_text_at(y->answer.root, "report.job"));
    return order ? order : strcmp(x->dir, y->dir);
}

static bool find_is_lowest(const struct search *search, const struct asked *found)
{
    int64_t node = json_int_at(found->answer.root, "report.node_rank", -1);
    for (int i = 0; i < search->n; i++) {
        const struct json *other = search->found[i].answer.root;
        if (json_int_at(other, "report.node_rank", -1) < node &&
            is_same_job(other, found->answer.root))
            return false;
    }
    return true;
}

bool find_jobs(const struct ctl_options *options, struct find_jobs *ret, struct err *err)
{
    *ret = (struct find_jobs){0};
    if (find_is_within(options, ret->dirs[0])) {
        ret->n = 1;
        return true;
    }
    struct search *search = find_search(options, LIST_WAIT_NS);
    qsort(search->found, (size_t)search->n, sizeof search->found[0], found_compare);
    for (int i = 0; i < search->n; i++)
        if (find_is_lowest(search, &search->found[i]))
            str_copy(ret->dirs[ret->n++], FIND_DIR_MAX, search->found[i].dir);
    for (int i = 0; i < search->nsilent && !options->job && options->node < 0; i++)
        ret->silent[ret->nsilent++] = search->silent[i];
    bool ok = ret->n > 0 || find_choose(search, ret->dirs[0], err);
    search_free(search);
    return ok;
}
