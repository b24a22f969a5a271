/* SPDX-License-Identifier: Apache-2.0
 *
 * test_signals: what is taken, left alone and given back, and the sender of a signal.
 */
#include "os/signals.h"

#include "base/sigtext.h"
#include "unit.h"

#include <stdlib.h>
#include <sys/mman.h>

static bool is_blocked(int number)
{
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    return sigismember(&mask, number) == 1;
}

static void (*handler_of(int number))(int)
{
    struct sigaction action;
    sigaction(number, NULL, &action);
    return action.sa_handler;
}

Test(signals, takes_what_it_may)
{
    signal(SIGHUP, SIG_DFL); /* the tests may run under nohup */
    signals_begin();
    const int taken[] = {SIGHUP, SIGINT, SIGTERM, SIGCHLD, SIGTSTP, SIGRTMIN, SIGRTMAX};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        cr_assert(is_blocked(taken[i]), "signal %d", taken[i]);
    const int left[] = {SIGPIPE, SIGURG};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        cr_assert(!is_blocked(left[i]), "signal %d", left[i]);
    cr_assert_eq(handler_of(SIGPIPE), SIG_IGN);
}

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

/* Replaces the handlers of a sanitizer. */
static void begin_with_faults(void (*handler)(int))
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        signal(faults[i], handler);
    signals_begin();
}

Test(signals, takes_faults_that_are_sent)
{
    begin_with_faults(SIG_DFL);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        cr_assert(is_blocked(faults[i]), "signal %d", faults[i]);
}

static void on_fault(int number)
{
}

Test(signals, leaves_faults_to_those_who_handle_them)
{
    begin_with_faults(on_fault);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        cr_assert(!is_blocked(faults[i]) && handler_of(faults[i]) == on_fault, "signal %d",
                  faults[i]);
}

/* The faults end the process although they are blocked. */
Test(signals, dies_of_a_fault_of_its_own)
{
    begin_with_faults(SIG_DFL);
    pid_t pid = fork();
    if (pid == 0)
        *(volatile char *)mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) = 1;
    cr_assert_eq(WTERMSIG(unit_wait(pid)), SIGSEGV);
    pid = fork();
    if (pid == 0)
        abort();
    cr_assert_eq(WTERMSIG(unit_wait(pid)), SIGABRT);
}

Test(signals, leaves_alone_what_nohup_ignored)
{
    signal(SIGHUP, SIG_IGN);
    signals_begin();
    cr_assert(!is_blocked(SIGHUP));
    cr_assert_eq(handler_of(SIGHUP), SIG_IGN);
    cr_assert(is_blocked(SIGINT));
}

Test(signals, puts_sigchld_back_to_default)
{
    signal(SIGCHLD, SIG_IGN);
    signals_begin();
    cr_assert_eq(handler_of(SIGCHLD), SIG_DFL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(7);
    cr_assert_eq(WEXITSTATUS(unit_wait(pid)), 7);
}

Test(signals, gives_back_a_sigchld_that_was_ignored)
{
    signal(SIGCHLD, SIG_IGN);
    signals_begin();
    signals_restore(false);
    cr_assert_eq(handler_of(SIGCHLD), SIG_IGN);
    signals_restore(true);
    cr_assert_eq(handler_of(SIGCHLD), SIG_DFL);
}

Test(signals, tells_who_sent_it)
{
    struct err err;
    struct signals_info info;
    signals_begin();
    int fd = signals_open(&err);
    cr_assert_geq(fd, 0);
    cr_assert(!signals_read(fd, &info));
    kill(getpid(), SIGUSR1);
    cr_assert(signals_read(fd, &info));
    cr_assert_eq(info.number, SIGUSR1);
    cr_assert_eq(info.from, SIGNAL_FROM_OUTSIDE);
    cr_assert_eq(info.sender, getpid());

    pid_t pid = fork();
    if (pid == 0)
        _exit(kill(getppid(), SIGUSR2));
    cr_assert(unit_readable(fd));
    cr_assert(signals_read(fd, &info));
    cr_assert_eq(info.number, SIGUSR2);
    cr_assert_eq(info.from, SIGNAL_FROM_JOB);
    cr_assert_eq(info.sender, pid);
    cr_assert_eq(unit_wait(pid), 0);
    close(fd);
}

Test(signals, keeps_what_came_too_late)
{
    struct err err;
    struct signals_info info;
    signals_begin();
    int first = signals_open(&err);
    kill(getpid(), SIGTERM);
    cr_assert(signals_read(first, &info));
    signals_keep(info.number);
    cr_assert(!signals_read(first, &info));
    signals_close(&first);
    cr_assert_eq(first, -1);
    int second = signals_open(&err);
    cr_assert(signals_read(second, &info));
    cr_assert_eq(info.number, SIGTERM);
    cr_assert_eq(info.from, SIGNAL_FROM_OUTSIDE);
    cr_expect_eq(info.sender, 0, "a signal of pchrun itself does not count");
    signals_close(&second);
    int third = signals_open(&err);
    cr_assert(!signals_read(third, &info));
    signals_close(&third);
}

Test(signals, gives_back_what_it_inherited)
{
    sigset_t mask;
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    signals_begin();
    pid_t pid = fork();
    if (pid == 0) {
        signals_restore(false);
        bool is_right = handler_of(SIGPIPE) == SIG_DFL && handler_of(SIGXFSZ) == SIG_IGN &&
                        handler_of(SIGTERM) == SIG_IGN && is_blocked(SIGUSR1) &&
                        !is_blocked(SIGTERM) && !is_blocked(SIGCHLD);
        _exit(is_right ? 0 : 1);
    }
    cr_assert_eq(unit_wait(pid), 0);
}

Test(signals, dies_of_a_signal_that_was_taken)
{
    static const int taken[] = {SIGSEGV, SIGTERM};
    signals_begin();
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            signals_die_of(taken[i]);
            _exit(1);
        }
        int status = unit_wait(pid);
        cr_assert(WIFSIGNALED(status));
        cr_assert_eq(WTERMSIG(status), taken[i]);
        cr_assert(!WCOREDUMP(status));
    }
}

Test(signals, has_names)
{
    cr_assert_str_eq(SIGTEXT(SIGTERM), "SIGTERM");
    cr_assert_str_eq(SIGTEXT(SIGRTMIN + 3), "SIGRTMIN+3");
    cr_assert_str_eq(SIGTEXT(32), "signal 32");
    cr_assert_str_eq(SIGTEXT(-1), "signal -1");
}
