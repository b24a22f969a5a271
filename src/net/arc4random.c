/* SPDX-License-Identifier: Apache-2.0
 *
 * arc4random: a libevent archive built against glibc 2.36 or later calls arc4random() of that
 * glibc. pchrun would then not start on older systems. Only libevent's own resolver calls it, which
 * pchrun does not use. So only a build with such an archive defines both functions here. They
 * cannot fail: without random numbers from the kernel the program ends.
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
