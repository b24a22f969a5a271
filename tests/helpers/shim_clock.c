/* SPDX-License-Identifier: Apache-2.0
 *
 * shim_clock: sets the program's clock. CLOCK_REALTIME is off by the number of seconds in the file
 * SHIM_CLOCK, and CLOCK_MONOTONIC by those in the file SHIM_AHEAD. The test may change the file at
 * any time; without the file the clock is right. CLOCK_MONOTONIC passes SHIM_HASTE times as fast,
 * so that a test need not wait for a minute.
 */
#include "shim.h"

#include <fcntl.h>
#include <sys/time.h>
#include <time.h>

static time_t offset(const char *path)
{
    static int is_on = -1;
    char text[32] = "";
    if (is_on < 0)
        is_on = shim_is_on();
    int fd = is_on && path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? (time_t)strtoll(text, NULL, 10) : 0;
}

static void hasten(struct timespec *now)
{
    static struct timespec from;
    static long haste = -1;
    const char *text = getenv("SHIM_HASTE");
    if (haste < 0) {
        haste = text && shim_is_on() ? atol(text) : 1;
        from = *now;
    }
    long long ns = (now->tv_sec - from.tv_sec) * 1000000000LL + now->tv_nsec - from.tv_nsec;
    ns = ns * haste + from.tv_nsec;
    *now = (struct timespec){from.tv_sec + ns / 1000000000, ns % 1000000000};
}

SHIM_API int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int rc = SHIM_NEXT(clock_gettime)(clock, ret);
    if (rc == 0 && clock == CLOCK_MONOTONIC)
        hasten(ret);
    if (rc == 0 && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)) /* libevent's */
        ret->tv_sec += offset(getenv("SHIM_AHEAD"));
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        ret->tv_sec += offset(getenv("SHIM_CLOCK"));
    return rc;
}

SHIM_API int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    int rc = SHIM_NEXT(gettimeofday)(ret, zone);
    if (rc == 0)
        ret->tv_sec += offset(getenv("SHIM_CLOCK"));
    return rc;
}

SHIM_API time_t time(time_t *ret)
{
    time_t now = SHIM_NEXT(time)(NULL) + offset(getenv("SHIM_CLOCK"));
    if (ret)
        *ret = now;
    return now;
}
