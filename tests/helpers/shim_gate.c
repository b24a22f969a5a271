/* SPDX-License-Identifier: Apache-2.0
 *
 * shim_gate: holds a launcher at a named point between fork and exec until the test lets it go, so
 * that races which need luck happen every time.
 *
 * SHIM_GATES=point,point names the points; SHIM_DIR is a directory. On its way through a point the
 * process creates SHIM_DIR/POINT.reached and waits for SHIM_DIR/POINT.go, for at most 30 seconds.
 * What a launcher's child asks the kernel itself, past libc (os/rawcall.h), is caught by
 * seccomp(2), by where in memory it is asked; so the program after exec is not concerned. And since
 * that child may share its parent's memory, nothing here touches errno in it.
 */
#include "os/rawcall.h"
#include "shim.h"

#include <fcntl.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <time.h>
#include <ucontext.h>

#define ARG(pointer) ((long)(uintptr_t)(pointer))

static bool is_gate(const char *point)
{
    const char *list = getenv("SHIM_GATES");
    size_t len = strlen(point);
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == len && memcmp(at, point, len) == 0)
            return true;
    return false;
}

static void gate(const char *point)
{
    static const struct timespec moment = {.tv_nsec = 2000000};
    const char *dir = getenv("SHIM_DIR");
    if (!dir || !shim_is_on() || !is_gate(point))
        return;
    char path[512];
    snprintf(path, sizeof path, "%s/%s.reached", dir, point);
    long fd = rawcall(SYS_openat, AT_FDCWD, ARG(path), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        _exit(99);
    rawcall(SYS_close, fd, 0, 0, 0);
    snprintf(path, sizeof path, "%s/%s.go", dir, point);
    for (int i = 0; i < 15000 && rawcall(SYS_faccessat, AT_FDCWD, ARG(path), F_OK, 0) < 0; i++)
        rawcall(SYS_nanosleep, ARG(&moment), 0, 0, 0);
}

/* --- in the child --- */

static long call(long number, const long *a)
{
    bool is_deathsig = number == SYS_prctl && a[0] == PR_SET_PDEATHSIG;
    if (number == SYS_setpgid)
        gate("child-before-setpgid");
    else if (is_deathsig)
        gate("before-pdeathsig");
    else if (number == SYS_execve)
        gate("before-exec");
    long result = rawcall(number, a[0], a[1], a[2], a[3]);
    if (number == SYS_setpgid)
        gate("child-after-setpgid");
    else if (is_deathsig)
        gate("after-pdeathsig");
    return result;
}

static void on_call(int number, siginfo_t *info, void *context)
{
    ucontext_t *at = context;
#if defined(__x86_64__)
    greg_t *regs = at->uc_mcontext.gregs;
    const long a[] = {regs[REG_RDI], regs[REG_RSI], regs[REG_RDX], regs[REG_R10]};
    regs[REG_RAX] = call(info->si_syscall, a);
#elif defined(__aarch64__)
    __u64 *regs = (__u64 *)at->uc_mcontext.regs;
    const long a[] = {(long)regs[0], (long)regs[1], (long)regs[2], (long)regs[3]};
    regs[0] = (__u64)call(info->si_syscall, a);
#endif
}

struct range {
    uintptr_t from, to;
};

/* The program's own code: it comes first. */
static int find_code(struct dl_phdr_info *info, size_t size, void *ret)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X))
            *(struct range *)ret = (struct range){from, from + part->p_memsz};
    }
    return 1;
}

static struct range code;

__attribute__((constructor)) static void find(void)
{
    dl_iterate_phdr(find_code, &code);
}

#define LOAD(field, more) \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field) + (more))
#define IS_CALL(number, then) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, then, 0)

static void watch_calls(void)
{
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER};
    struct sock_filter steps[] = {
        LOAD(instruction_pointer, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(code.from >> 32), 0, 7),
        LOAD(instruction_pointer, 0),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)code.from, 0, 5),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (uint32_t)code.to, 4, 0),
        LOAD(nr, 0),
        IS_CALL(SYS_setpgid, 3),
        IS_CALL(SYS_prctl, 2),
        IS_CALL(SYS_execve, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog filter = {.len = sizeof steps / sizeof steps[0], .filter = steps};
    sigset_t trapped;
    if (!getenv("SHIM_GATES") || !shim_is_on())
        return;
    sigemptyset(&trapped);
    sigaddset(&trapped, SIGSYS);
    if (sigaction(SIGSYS, &action, NULL) != 0 || sigprocmask(SIG_UNBLOCK, &trapped, NULL) != 0 ||
        code.from >> 32 != code.to >> 32 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        rawcall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, ARG(&filter), 0) < 0)
        _exit(99);
}

/* --- the way there --- */

SHIM_API pid_t fork(void)
{
    gate("before-fork");
    pid_t pid = SHIM_NEXT(fork)();
    if (pid == 0)
        watch_calls();
    gate(pid == 0 ? "child-after-fork" : "parent-after-fork");
    return pid;
}

struct entry {
    int (*fn)(void *arg);
    void *arg;
};

static int enter(void *arg)
{
    struct entry entry = *(struct entry *)arg;
    watch_calls();
    gate("child-after-fork");
    return entry.fn(entry.arg);
}

typedef int clone_fn(int (*fn)(void *), void *stack, int flags, void *arg, ...);

/* Without the arguments for threads. What the child gets lives as long as the process. */
SHIM_API int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
    struct entry *entry = malloc(sizeof *entry);
    if (!entry)
        _exit(99);
    *entry = (struct entry){fn, arg};
    gate("before-fork");
    int pid = ((clone_fn *)shim_next("clone"))(enter, stack, flags, entry);
    gate("parent-after-fork");
    return pid;
}

SHIM_API int setpgid(pid_t pid, pid_t pgid)
{
    gate("parent-before-setpgid");
    int result = SHIM_NEXT(setpgid)(pid, pgid);
    gate("parent-after-setpgid");
    return result;
}
