/* SPDX-License-Identifier: Apache-2.0
 *
 * arc4random: libevent's archive, as a distribution with glibc 2.36 or later builds it, takes its
 * random numbers from that glibc. Linked into pchrun it would keep it from all older systems, for
 * two functions that we never come to (they serve its own resolver). So we have them ourselves;
 * only in a build with that archive. They cannot fail: a kernel that has no random numbers ends the
 * program.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>

uint32_t arc4random(void);
void arc4random_buf(void *data, size_t size);

void arc4random_buf(void *data, size_t size)
{
    uint8_t *to = data;
    while (size > 0) {
        ssize_t n = getrandom(to, size, 0);
        if (n < 0 && errno != EINTR)
            __builtin_trap();
        if (n > 0) {
            to += n;
            size -= (size_t)n;
        }
    }
}

uint32_t arc4random(void)
{
    uint32_t number;
    arc4random_buf(&number, sizeof number);
    return number;
}
