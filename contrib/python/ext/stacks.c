/* SPDX-License-Identifier: Apache-2.0
 * See stacks.h. Read first: the documentation of faulthandler.register(), sigsetjmp(3).
 *
 * faulthandler reads the frames of threads that may run meanwhile, so it may read freed memory.
 * That would end a training which only looked like a hang. So our handler calls faulthandler's, and
 * leaves it at a fault. After a fault faulthandler writes no more in this process. In Python 3.10
 * it also changes reference counts, so there it gets only the thread that the signal interrupts.
 */
#include "stacks.h"

#include "base/str.h"
#include "libpch/line.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    int fd; /* of the process's page; -1: none */
    dev_t device;
    ino_t inode;
    int number;         /* the signal; 0: none */
    void (*write)(int); /* faulthandler's handler */
} stacks = {.fd = -1};

/* The thread that writes the stacks now. */
static struct {
    atomic_flag is_taken;
    pthread_t thread;
    sigjmp_buf before;
} writer = {.is_taken = ATOMIC_FLAG_INIT};

static const int faults[] = {SIGSEGV, SIGBUS};
enum { FAULTS = 2 };
static struct sigaction usual[FAULTS]; /* what the process does at a fault */

static void set_usual(void)
{
    for (int i = 0; i < FAULTS; i++)
        sigaction(faults[i], &usual[i], NULL);
}

/* In another thread the fault happens again, and is handled as usual. */
static void on_fault(int number)
{
    if (pthread_equal(writer.thread, pthread_self()))
        siglongjmp(writer.before, 1);
    set_usual();
}

static void write_guarded(int number)
{
    static const char note[] = "(the rest was changing, and could not be read)\n";
    struct sigaction guard = {.sa_handler = on_fault};
    sigemptyset(&guard.sa_mask);
    writer.thread = pthread_self();
    for (int i = 0; i < FAULTS; i++)
        sigaction(faults[i], NULL, &usual[i]);
    if (sigsetjmp(writer.before, 1) == 0) {
        for (int i = 0; i < FAULTS; i++)
            sigaction(faults[i], &guard, NULL);
        stacks.write(number);
    } else if (write(stacks.fd, note, sizeof note - 1) < 0) {
        /* the room is full */
    }
    set_usual();
}

static void on_signal(int number)
{
    int saved = errno;
    if (atomic_flag_test_and_set(&writer.is_taken))
        return;
    write_guarded(number);
    atomic_flag_clear(&writer.is_taken);
    errno = saved;
}

/* False if the program has closed the descriptor: the number may be another file's by now. */
static bool has_fd(void)
{
    struct stat st;
    return stacks.fd >= 0 && fstat(stacks.fd, &st) == 0 && st.st_dev == stacks.device &&
           st.st_ino == stacks.inode;
}

/* A fork that attaches has its parent's descriptor: the handler gets the new page under the same
 * number. A new number is never 0, 1 or 2, even if the program has closed those. */
static void take_page(int fd)
{
    struct stat st;
    int kept =
        has_fd() ? dup3(fd, stacks.fd, O_CLOEXEC) : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    stacks.fd = kept >= 0 && fstat(kept, &st) == 0 ? kept : -1;
    if (stacks.fd < 0)
        return;
    stacks.device = st.st_dev;
    stacks.inode = st.st_ino;
}

void stacks_init(void)
{
    line_show_page = take_page;
}

static void (*handler_of(int number))(int)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 ? action.sa_handler : SIG_ERR;
}

static bool is_registered(void)
{
    return stacks.number && handler_of(stacks.number) == on_signal;
}

/* A signal with the default action that is neither blocked nor of the job. Programs and libraries
 * usually take the lowest ones, and Valgrind the highest. 0: none. */
static int find_signal(uint64_t notices)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    for (int number = SIGRTMAX - 1; number >= SIGRTMIN; number--)
        if (handler_of(number) == SIG_DFL && !sigismember(&blocked, number) &&
            !(notices >> (number - 1) & 1))
            return number;
    return 0;
}

/* Calls a function of faulthandler; `arguments` as of Py_BuildValue(). */
static bool call_faulthandler(const char *name, PyObject *arguments)
{
    PyObject *module = arguments ? PyImport_ImportModule("faulthandler") : NULL;
    PyObject *function = module ? PyObject_GetAttrString(module, name) : NULL;
    PyObject *result = function ? PyObject_CallObject(function, arguments) : NULL;
    bool ok = result != NULL;
    Py_XDECREF(result);
    Py_XDECREF(function);
    Py_XDECREF(module);
    Py_XDECREF(arguments);
    return ok;
}

/* Replaces faulthandler's handler by ours. */
static bool put_over(int number)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    void (*theirs)(int) = handler_of(number);
    if (theirs == SIG_DFL || theirs == SIG_IGN || theirs == SIG_ERR)
        return false;
    if (theirs != on_signal)
        stacks.write = theirs;
    sigemptyset(&action.sa_mask);
    stacks.number = number;
    return sigaction(number, &action, NULL) == 0;
}

/* Keeps the exception that is set. */
static bool stacks_register(int number)
{
    PyObject *type, *value, *trace;
    int is_whole = !str_starts(Py_GetVersion(), "3.10."), chains = 0;
    PyErr_Fetch(&type, &value, &trace);
    bool ok = number && call_faulthandler(
                            "register", Py_BuildValue("iiii", number, stacks.fd, is_whole, chains));
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    if (!ok)
        return false;
    return put_over(number);
}

static void tell_supervisor(struct pch *job, int number)
{
    struct live *live = job_live(job);
    pthread_mutex_lock(&job->lock);
    if (job_state(live) != LIVE_OFF && live->process)
        atomic_store(&live->process->stacks_signal, (uint32_t)number);
    pthread_mutex_unlock(&job->lock);
}

void stacks_show(struct pch *job)
{
    if (!pch_supervised(job) || !has_fd())
        return;
    if (stacks_register(is_registered() ? stacks.number : find_signal(job->notices)))
        tell_supervisor(job, stacks.number);
}

bool stacks_are_shown(int *ret_fd, int *ret_number)
{
    *ret_fd = stacks.fd;
    *ret_number = stacks.number;
    return has_fd() && is_registered();
}

void stacks_help(int fd, int number)
{
    take_page(fd);
    close(fd);
    if (has_fd() && handler_of(number) == SIG_DFL)
        stacks_register(number);
}
