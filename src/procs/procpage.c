/* SPDX-License-Identifier: Apache-2.0
 * See procpage.h. Read first: memfd_create(2), fcntl(2) on file seals, get_robust_list(2).
 */
#include "procs/procpage.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(((struct page_supervisor *)0)->alive_room),
               "the mutex fits into its room");

/* Some newer kernels refuse an executable memfd; older kernels do not know the flag. */
static int make_memfd(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

static const struct {
    const char *name;
    size_t size;
    int prot, seals;
} kinds[PROCPAGE__COUNT] = {
    [PROCPAGE_SUPERVISOR] = {"pch-supervisor", PAGE_SIZE_BYTES, PROT_READ | PROT_WRITE,
                             F_SEAL_FUTURE_WRITE},
    [PROCPAGE_PROCESS] = {"pch-process", PAGE_SIZE_BYTES + PAGE_STACKS_BYTES, PROT_READ, 0},
};

/* Shared memory that begins with a page. The seal against writing comes after the mapping and does
 * not affect this mapping. The memory behind the page is not used until a process writes to it. */
static void *make_page(int kind, int *ret_fd, struct err *err)
{
    size_t size = kinds[kind].size;
    FD_CLEANUP int fd = make_memfd(kinds[kind].name);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0) {
        err_set(err, ERR_SYSTEM, errno, "cannot make a page of shared memory for a process");
        return NULL;
    }
    void *page = mmap(NULL, size, kinds[kind].prot, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        err_set(err, ERR_SYSTEM, errno, "cannot map a page of shared memory for a process");
        return NULL;
    }
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | kinds[kind].seals;
    if (fcntl(fd, F_ADD_SEALS, seals) != 0) {
        err_set(err, ERR_SYSTEM, errno, "cannot seal the shared memory (Linux 5.1 is needed)");
        munmap(page, size);
        return NULL;
    }
    *ret_fd = fd_take(&fd);
    return page;
}

static pthread_mutex_t *alive_mutex(struct page_supervisor *page)
{
    return (pthread_mutex_t *)(void *)page->alive_room;
}

/* Holds the robust mutex while the process is attached. libpch reads the mutex's first word as the
 * futex, so check that the C library puts the futex there. */
static bool hold_alive(struct page_supervisor *page, struct err *err)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    int rc = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    if (rc == 0)
        rc = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    if (rc == 0)
        rc = pthread_mutex_init(alive_mutex(page), &attr);
    pthread_mutexattr_destroy(&attr);
    if (rc == 0)
        rc = pthread_mutex_lock(alive_mutex(page));
    if (rc != 0)
        return err_set(err, ERR_SYSTEM, rc, "cannot lock the liveness word of a process");
    if ((atomic_load(&page->alive) & PAGE_ALIVE_MASK) != (uint32_t)syscall(SYS_gettid))
        return err_set(
            err, ERR_SYSTEM, 0,
            "this C library lays out its mutexes in an unknown way; pchrun cannot supervise");
    return true;
}

static bool fill_pages(struct procpage *page, uint64_t gate, uint64_t step, struct err *err)
{
    if (pwrite(page->fd[PROCPAGE_PROCESS], &step, sizeof step,
               offsetof(struct page_process, step)) != sizeof step)
        return err_set(err, ERR_SYSTEM, errno, "cannot write the step into a process's page");
    page->supervisor->magic = PAGE_MAGIC;
    page->supervisor->version = PAGE_VERSION;
    page->supervisor->notice_deadline_ns = INT64_MAX;
    procpage_set_gate(page, gate);
    return hold_alive(page->supervisor, err);
}

bool procpage_make(struct procpage *ret, uint64_t gate, uint64_t step, struct err *err)
{
    struct procpage page = procpage_none;
    page.supervisor = make_page(PROCPAGE_SUPERVISOR, &page.fd[PROCPAGE_SUPERVISOR], err);
    if (page.supervisor)
        page.process = make_page(PROCPAGE_PROCESS, &page.fd[PROCPAGE_PROCESS], err);
    bool ok = page.process && fill_pages(&page, gate, step, err);
    if (!ok)
        procpage_release(&page);
    *ret = page;
    return ok;
}

int procpage_hand_over(struct procpage *page, int socket, const uint8_t *data, size_t size)
{
    union {
        char room[CMSG_SPACE(sizeof page->fd)];
        struct cmsghdr align;
    } control = {.room = {0}};
    struct iovec io = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &io,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof control.room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof page->fd);
    memcpy(CMSG_DATA(head), page->fd, sizeof page->fd);
    int rc = sendmsg(socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
    fd_close(&page->fd[PROCPAGE_SUPERVISOR]);
    return rc;
}

void procpage_release(struct procpage *page)
{
    for (int i = 0; i < PROCPAGE__COUNT; i++)
        fd_close(&page->fd[i]);
    if (page->supervisor) {
        /* Unlock first: the thread's list of robust mutexes must not point to freed memory. */
        if (page_is_alive(page->supervisor))
            pthread_mutex_unlock(alive_mutex(page->supervisor));
        munmap(page->supervisor, kinds[PROCPAGE_SUPERVISOR].size);
    }
    if (page->process)
        munmap((void *)(uintptr_t)page->process, kinds[PROCPAGE_PROCESS].size);
    *page = procpage_none;
}

bool procpage_clear_stacks(const struct procpage *page, struct procpage_stacks *ret)
{
    struct stat st;
    int fd = page->fd[PROCPAGE_PROCESS];
    uint32_t number = atomic_load(&page->process->stacks_signal);
    if (number < (uint32_t)SIGRTMIN || number > (uint32_t)SIGRTMAX || fstat(fd, &st) != 0 ||
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE_SIZE_BYTES,
                  PAGE_STACKS_BYTES) != 0 ||
        lseek(fd, PAGE_SIZE_BYTES, SEEK_SET) < 0)
        return false;
    *ret = (struct procpage_stacks){.number = (int)number,
                                    .text = (const char *)page->process + PAGE_SIZE_BYTES,
                                    .device = st.st_dev,
                                    .inode = st.st_ino};
    return true;
}

void procpage_set_notice(struct procpage *page, const char *text, int64_t deadline_ns)
{
    struct page_supervisor *s = page->supervisor;
    uint32_t seq = atomic_load_explicit(&s->notice_seq, memory_order_relaxed);
    atomic_store_explicit(&s->notice_seq, seq + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    str_copy(s->notice_text, sizeof s->notice_text, text);
    s->notice_len = (uint32_t)strlen(s->notice_text);
    s->notice_deadline_ns = deadline_ns;
    atomic_store_explicit(&s->notice_seq, seq + 2, memory_order_release);
}
