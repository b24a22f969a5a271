/* SPDX-License-Identifier: Apache-2.0
 * See stacks.h. The text has the form of Python's faulthandler: the newest thread first, and in
 * each thread the innermost call first. Read first: proc(5) on SigCgt, SigBlk and SigPnd.
 */
#include "commands/stacks.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "os/proc.h"

#include <string.h>
#include <time.h>

#define ASK_WAIT_NS (1 * NS_PER_S) /* of one process */
#define ALL_WAIT_NS (3 * NS_PER_S)
#define POLL_NS     (5 * NS_PER_MS)
#define WHERE       "\nwhere the ranks are in Python:\n"
#define RANK        "  rank "
#define HEAD        "\nPython stack of "
#define NO_HEAD     "\nno Python stack of "

enum {
    ASKS_MAX = 1024,
    SETTLED = 2, /* so many polls must see no pending signal: one may miss a signal in delivery */
    TEXT_MAX = 3 * 1024 * 1024 / 2, /* of all processes */
    PLACE_MAX = 300
};

/* One process that is asked. */
struct ask {
    const struct stacks *stacks;
    int rank;       /* index in stacks->ranks */
    pid_t pid, tid; /* tid 0: not asked yet */
    const char *text;
    size_t len;
    int64_t until;
    int settled;
    bool is_over;
    char why[120]; /* why the text is missing or not whole; "": it is whole */
};

/* --- in the supervisor --- */

void stacks_list(struct stacks *stacks, struct children *children,
                 const struct core_rank_report *ranks, int n)
{
    stacks->n = 0;
    for (int i = 0; i < n && stacks->n < STACKS_RANKS; i++)
        if (ranks[i].rank >= 0 && ranks[i].pid > 1 &&
            procs_clear_stacks(children->attach->procs, ranks[i].slot,
                               &stacks->ranks[stacks->n].room)) {
            stacks->ranks[stacks->n].rank = ranks[i].rank;
            stacks->ranks[stacks->n++].pid = ranks[i].pid;
        }
    if (stacks->n > 0)
        children_scan(children, &stacks->tree);
}

void stacks_free(struct stacks *stacks)
{
    tree_free(&stacks->tree);
}

void stacks_log(const uint8_t *text, size_t len, int max)
{
    char line[PLACE_MAX];
    if (len < strlen(WHERE) || memcmp(text, WHERE, strlen(WHERE)) != 0)
        return;
    const char *at = (const char *)text + strlen(WHERE), *all = (const char *)text + len, *end;
    while (max > 0 && (end = memchr(at, '\n', (size_t)(all - at))) && end > at) {
        snprintf(line, sizeof line, "%.*s", (int)(end - at), at);
        if (str_starts(line, RANK)) {
            log_notice("watchdog", "%s", str_printable(line + strspn(line, " ")));
            max--;
        }
        at = end + 1;
    }
}

bool stacks_are_in(const uint8_t *text, size_t len, pid_t pid)
{
    char head[64];
    snprintf(head, sizeof head, HEAD "process %d ", (int)pid);
    return memmem(text, len, head, strlen(head)) != NULL;
}

/* --- asking --- */

/* The length of the text that the process has written by now. */
static size_t written(const struct ask *ask)
{
    const char *room = ask->stacks->ranks[ask->rank].room.text;
    return strnlen(ask->text, PAGE_STACKS_BYTES - (size_t)(ask->text - room));
}

static void ask_end(struct ask *ask, const char *why)
{
    ask->is_over = true;
    str_copy(ask->why, sizeof ask->why, why);
    if (ask->text)
        ask->len = written(ask);
}

static const char *why_no_thread(pid_t pid)
{
    struct proc proc;
    if (!proc_read(pid, &proc) || proc_is_dead(&proc))
        return "it has ended";
    if (proc.state == 'T' || proc.state == 't')
        return "it is stopped";
    return proc.state == 'D' ? "it waits in the kernel, where no signal reaches it"
                             : "it blocks the signal";
}

static bool is_askable(const struct procpage_stacks *room, pid_t pid)
{
    return proc_handles(pid, room->number) && proc_has_open(pid, room->device, room->inode);
}

static void ask_begin(struct ask *ask)
{
    const struct procpage_stacks *room = &ask->stacks->ranks[ask->rank].room;
    ask->until = clock_now_ns() + ASK_WAIT_NS;
    ask->text = room->text + strnlen(room->text, PAGE_STACKS_BYTES);
    if (!is_askable(room, ask->pid))
        ask_end(ask, "its Python has ended, or the program has taken away the handler or the file");
    else if (!(ask->tid = proc_ready_thread(ask->pid, room->number)))
        ask_end(ask, why_no_thread(ask->pid));
    else if (!proc_signal_thread(ask->pid, ask->tid, room->number))
        ask_end(ask, "it cannot be signalled");
}

static void ask_drive(struct ask *ask)
{
    if (!ask->tid) {
        ask_begin(ask);
        return;
    }
    int number = ask->stacks->ranks[ask->rank].room.number;
    bool is_busy = proc_is_busy_with(ask->pid, ask->tid, number);
    ask->settled = is_busy ? 0 : ask->settled + 1;
    if (ask->settled >= SETTLED)
        ask_end(ask, written(ask) > 0 ? "" : "it has written none");
    else if (clock_now_ns() > ask->until)
        ask_end(ask, "it has not finished in time");
}

/* The processes of one rank follow each other in `asks`. */
static void ask_processes(struct ask *asks, int n)
{
    int64_t until = clock_now_ns() + ALL_WAIT_NS;
    for (int left = n; left > 0;) {
        int rank = -1;
        left = 0;
        for (int i = 0; i < n; i++) {
            if (asks[i].is_over || asks[i].rank == rank)
                continue;
            rank = asks[i].rank;
            if (clock_now_ns() > until)
                ask_end(&asks[i], "there was no time for it");
            else
                ask_drive(&asks[i]);
            left++;
        }
        if (left > 0)
            nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
}

/* True if the entry is below the process. */
static bool is_below(const struct tree *tree, size_t entry, pid_t pid)
{
    int at = tree->entries[entry].parent;
    while (at >= 0 && tree->entries[at].proc.pid != pid)
        at = tree->entries[at].parent;
    return at >= 0;
}

/* A child that is a rank itself has another file. */
static int list_asks(const struct stacks *stacks, struct ask *asks)
{
    int n = 0;
    for (int i = 0; i < stacks->n && n < ASKS_MAX; i++) {
        pid_t pid = stacks->ranks[i].pid;
        asks[n++] = (struct ask){.stacks = stacks, .rank = i, .pid = pid};
        for (size_t k = 0; k < stacks->tree.n && n < ASKS_MAX; k++)
            if (is_below(&stacks->tree, k, pid) &&
                is_askable(&stacks->ranks[i].room, stacks->tree.entries[k].proc.pid))
                asks[n++] = (struct ask){
                    .stacks = stacks, .rank = i, .pid = stacks->tree.entries[k].proc.pid};
    }
    return n;
}

/* --- the text --- */

/* False: the entry is a child of the rank. */
static bool is_of_rank(const struct ask *ask)
{
    return ask->pid == ask->stacks->ranks[ask->rank].pid;
}

/* The end of the text, from the beginning of a line on: faulthandler writes the first thread last.
 */
static const char *text_end(const struct ask *ask, size_t max, size_t *ret_len)
{
    size_t skipped = ask->len > max ? ask->len - max : 0;
    const char *line = skipped ? memchr(ask->text + skipped, '\n', max) : NULL;
    if (line)
        skipped = (size_t)(line + 1 - ask->text);
    *ret_len = ask->len - skipped;
    return ask->text + skipped;
}

/* The process may write anything there, at any time. */
static void write_printable(int out, const char *text, size_t len)
{
    char part[4096];
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        part[n++] = text[i];
        if (part[n - 1] != '\n' && (part[n - 1] < ' ' || part[n - 1] > '~'))
            part[n - 1] = '?';
        if ((n == sizeof part || i + 1 == len) && !fd_write_all(out, part, n))
            return;
        n %= sizeof part;
    }
}

static void write_ask(const struct ask *ask, int out, size_t max)
{
    struct proc proc = {.comm = "?"};
    size_t len;
    const char *text = text_end(ask, max, &len);
    if (!proc_read(ask->pid, &proc))
        str_copy(proc.comm, sizeof proc.comm, "?");
    dprintf(out, "%sprocess %d (%s), %srank %d%s%s%s\n", len > 0 ? HEAD : NO_HEAD, (int)ask->pid,
            proc.comm, is_of_rank(ask) ? "" : "a child of ", ask->stacks->ranks[ask->rank].rank,
            len < ask->len ? ", only its end" : "", *ask->why ? ": " : "", ask->why);
    write_printable(out, text, len);
}

/* A line of the program itself says more than a call within the standard library or an installed
 * package. */
static bool is_library(const char *line)
{
    static const char *const marks[] = {"/site-packages/", "/dist-packages/", "/lib/python3.",
                                        "\"<frozen "};
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (strstr(line, marks[i]))
            return true;
    return false;
}

/* `  File "/job/train.py", line 41 in loss` as "train.py:41 in loss". */
static bool read_place(char *line, char *ret, size_t size)
{
    char *file = strstr(line, "File \""), *end = strstr(line, "\", line "), *in;
    if (!file || !end || end < file + 6 || !(in = strstr(end + 8, " in ")))
        return false;
    *end = *in = '\0';
    char *slash = strrchr(file + 6, '/');
    ret[0] = '\0';
    str_addf(ret, size, "%s:%s in %s", slash ? slash + 1 : file + 6, end + 8, in + 4);
    return true;
}

/* Finds the innermost call of the first thread, if possible of the program itself. */
static bool find_place(const struct ask *ask, char *ret, size_t size)
{
    enum { THREAD_MAX = 32 * 1024 };
    char text[THREAD_MAX], *rest = text, *line;
    enum found { NOTHING, A_LIBRARY, THE_PROGRAM } found = NOTHING;
    size_t len;
    const char *from = text_end(ask, sizeof text - 1, &len);
    memcpy(text, from, len);
    text[len] = '\0';
    while ((line = strsep(&rest, "\n"))) {
        enum found now = is_library(line) ? A_LIBRARY : THE_PROGRAM;
        if (strstr(line, "hread 0x"))
            found = NOTHING;
        else if (now > found && read_place(line, ret, size))
            found = now;
    }
    return found != NOTHING;
}

void stacks_write(const struct stacks *stacks, int out)
{
    static struct ask asks[ASKS_MAX];
    char place[PLACE_MAX];
    int n = list_asks(stacks, asks);
    if (n == 0)
        return;
    ask_processes(asks, n);
    dprintf(out, WHERE);
    for (int i = 0; i < n; i++) {
        bool is_rank = is_of_rank(&asks[i]);
        dprintf(out, "%s%d: %s\n", is_rank ? RANK : "    its child ",
                is_rank ? stacks->ranks[asks[i].rank].rank : (int)asks[i].pid,
                find_place(&asks[i], place, sizeof place) ? str_printable(place) : asks[i].why);
    }
    for (int i = 0; i < n; i++)
        write_ask(&asks[i], out, TEXT_MAX / (size_t)n);
}
