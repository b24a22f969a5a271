/* SPDX-License-Identifier: Apache-2.0
 * See signames.h.
 */
#include "config/signames.h"

#include "base/nearest.h"
#include "base/str.h"

#include <ctype.h>
#include <signal.h>
#include <stddef.h>
#include <strings.h>

/* All signals. `refused`: why pchrun cannot use it; NULL: allowed. */
static const struct row {
    int number;
    const char *name;
    const char *refused;
} rows[] = {
    {SIGHUP, "HUP", NULL},
    {SIGINT, "INT", NULL},
    {SIGQUIT, "QUIT", NULL},
    {SIGUSR1, "USR1", NULL},
    {SIGUSR2, "USR2", NULL},
    {SIGALRM, "ALRM", NULL},
    {SIGSTKFLT, "STKFLT", NULL},
    {SIGTERM, "TERM", NULL},
    {SIGVTALRM, "VTALRM", NULL},
    {SIGPROF, "PROF", NULL},
    {SIGIO, "IO", NULL},
    {SIGPWR, "PWR", NULL},
    {SIGXCPU, "XCPU", NULL},
    {SIGKILL, "KILL", "no program can handle it"},
    {SIGSTOP, "STOP", "no program can handle it"},
    {SIGCHLD, "CHLD", "pchrun itself needs it"},
    {SIGPIPE, "PIPE", "it reports a broken pipe"},
    {SIGTSTP, "TSTP", "it belongs to job control"},
    {SIGTTIN, "TTIN", "it belongs to job control"},
    {SIGTTOU, "TTOU", "it belongs to job control"},
    {SIGCONT, "CONT", "it belongs to job control"},
    {SIGWINCH, "WINCH", "it belongs to the terminal"},
    {SIGURG, "URG", "it belongs to sockets"},
    {SIGSEGV, "SEGV", "it reports an error in the program"},
    {SIGBUS, "BUS", "it reports an error in the program"},
    {SIGFPE, "FPE", "it reports an error in the program"},
    {SIGILL, "ILL", "it reports an error in the program"},
    {SIGTRAP, "TRAP", "it reports an error in the program"},
    {SIGSYS, "SYS", "it reports an error in the program"},
    {SIGABRT, "ABRT", "it reports an error in the program"},
    {SIGXFSZ, "XFSZ", "it reports an error in the program"},
};

static bool unknown_signal(const char *name, const char *bare, struct err *err)
{
    char upper[32];
    str_copy(upper, sizeof upper, bare);
    for (char *p = upper; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    struct nearest nearest = nearest_to(upper);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        nearest_consider(&nearest, "", rows[i].name);
    return err_set(err, ERR_USAGE, 0, "\"%.40s\" is not a signal; %s%s", name,
                   nearest.name[0] ? "the nearest is " : "write a name, such as TERM",
                   nearest.name);
}

bool signame_parse(const char *name, int *ret, struct err *err)
{
    const char *bare = strncasecmp(name, "SIG", 3) == 0 ? name + 3 : name;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcasecmp(bare, rows[i].name) != 0)
            continue;
        if (rows[i].refused)
            return err_set(err, ERR_USAGE, 0, "SIG%s cannot be used here: %s", rows[i].name,
                           rows[i].refused);
        *ret = rows[i].number;
        return true;
    }
    return unknown_signal(name, bare, err);
}

const char *signame(int number)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].number == number)
            return rows[i].name;
    return NULL;
}

const char *signame_at(unsigned index)
{
    return index < ARRAY_LEN(rows) && !rows[index].refused ? rows[index].name : NULL;
}
