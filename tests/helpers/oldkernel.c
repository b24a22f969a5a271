/* SPDX-License-Identifier: Apache-2.0
 *
 * oldkernel: runs a command as on Linux 4.18, the kernel of the oldest C library that libpch
 * promises.
 *
 *   oldkernel [--eperm] COMMAND [ARGUMENT ...]
 *
 * Every younger system call fails with ENOSYS, for the command and for all that it starts; with
 * --eperm it fails with EPERM, as in a container whose runtime has an old libseccomp. Such
 * calls are pidfd_open, pidfd_send_signal, close_range, clone3, futex_waitv, openat2, faccessat2
 * and so on. It does not matter whether pchrun, a library or the C library calls them. All of them
 * are numbered from 424 up, alike on every architecture, so one comparison finds them. A seccomp
 * filter does this: unlike a preloaded shim it misses no call. Exit status: the command's; 125 if
 * the filter is not possible here, 127 if the command is not.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The first number that Linux 5.1 gave out (pidfd_send_signal); 4.18 knows none above it. */
#define FIRST_YOUNGER 424U

static int filter(unsigned error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_YOUNGER, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
        return 0;
    /* Without CAP_SYS_ADMIN, a process must first give up set-user-ID programs. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
    int is_eperm = argc > 1 && strcmp(argv[1], "--eperm") == 0;
    argv += is_eperm;
    if (argc < 2 + is_eperm) {
        fprintf(stderr, "usage: oldkernel [--eperm] COMMAND [ARGUMENT ...]\n");
        return 125;
    }
    if (filter(is_eperm ? EPERM : ENOSYS) != 0) {
        fprintf(stderr, "oldkernel: cannot set a seccomp filter: %s\n", strerror(errno));
        return 125;
    }
    execvp(argv[1], argv + 1);
    fprintf(stderr, "oldkernel: cannot run %s: %s\n", argv[1], strerror(errno));
    return 127;
}
