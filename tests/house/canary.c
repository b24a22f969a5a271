/* SPDX-License-Identifier: Apache-2.0
 *
 * canary: tests with faults on purpose. No suite runs them. tests/run.sh runs them to see that the
 * sanitizers report a fault in a Criterion test that passes. Without sanitizers they do no harm.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>

static void *volatile the_block;
static volatile int the_number = INT_MAX;

Test(canary, leak)
{
    the_block = malloc(1234);
    cr_assert_not_null(the_block);
    the_block = NULL;
}

Test(canary, overflow)
{
    the_number = the_number + 1;
}
