/* SPDX-License-Identifier: Apache-2.0
 *
 * rawcall: system calls without libc, for a child that shares our memory until its exec. libc would
 * write to errno, which belongs to the parent. Returns the kernel's result: a negative number is an
 * errno. Any thread.
 */
#ifndef PCHRUN_OS_RAWCALL_H
#define PCHRUN_OS_RAWCALL_H

#include <sys/syscall.h>

#define RAWCALL_CLONE3 435 /* on every architecture */

#if defined(__x86_64__) && defined(__LP64__)
#define RAWCALL_EXISTS 1
static inline long rawcall(long number, long a, long b, long c, long d)
{
    long ret;
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return ret;
}
/* clone3(2) with a stack: the child calls `run`, which never returns. */
static inline long rawclone(const void *args, unsigned long size, int (*run)(void *), void *arg)
{
    long ret;
    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "movq %[arg], %%rdi\n\t"
                     "call *%[run]\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(ret)
                     : "a"(RAWCALL_CLONE3), "D"(args), "S"(size), [run] "r"(run), [arg] "r"(arg)
                     : "rcx", "r11", "memory", "cc");
    return ret;
}
#elif defined(__aarch64__) && defined(__LP64__)
#define RAWCALL_EXISTS 1
static inline long rawcall(long number, long a, long b, long c, long d)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
static inline long rawclone(const void *args, unsigned long size, int (*run)(void *), void *arg)
{
    register long x8 __asm__("x8") = RAWCALL_CLONE3;
    register long x0 __asm__("x0") = (long)args;
    register long x1 __asm__("x1") = (long)size;
    register void *x2 __asm__("x2") = arg;
    register int (*x3)(void *) __asm__("x3") = run;
    __asm__ volatile("svc 0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x0, x2\n\t"
                     "blr x3\n\t"
                     "brk 0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
                     : "memory", "cc");
    return x0;
}
#else /* correct only where the child has its own errno */
#define RAWCALL_EXISTS 0
#include <errno.h>
#include <unistd.h>
static inline long rawcall(long number, long a, long b, long c, long d)
{
    long ret = syscall(number, a, b, c, d);
    return ret < 0 ? -errno : ret;
}
static inline long rawclone(const void *args, unsigned long size, int (*run)(void *), void *arg)
{
    return -ENOSYS;
}
#endif

#endif
