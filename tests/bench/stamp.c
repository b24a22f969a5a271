/* SPDX-License-Identifier: Apache-2.0
 *
 * stamp: the command whose main() launch waits for: writes the time, and ends.
 */
#include "bench/bench.h"

#include <unistd.h>

int main(void)
{
    int64_t now = bench_now();
    return write(STAMP_FD, &now, sizeof now) == (ssize_t)sizeof now ? 0 : 1;
}
