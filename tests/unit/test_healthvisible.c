/* SPDX-License-Identifier: Apache-2.0
 *
 * test_healthvisible: which GPUs CUDA_VISIBLE_DEVICES has.
 */
#include "health/healthvisible.h"

#include <criterion/criterion.h>

TestSuite(healthvisible);

#define A "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
#define B "GPU-1d59a2c7-d72c-4106-c12f-20bd9faed9f6"

Test(healthvisible, numbers)
{
    cr_expect(healthvisible_has("0,2", 0, A));
    cr_expect(!healthvisible_has("0,2", 1, A));
    cr_expect(healthvisible_has("0,2", 2, ""));
    cr_expect(!healthvisible_has("10", 1, A) && !healthvisible_has("1", 10, A));
}

Test(healthvisible, uuids)
{
    cr_expect(healthvisible_has(A, 5, A));
    cr_expect(healthvisible_has(B "," A, 5, A));
    cr_expect(healthvisible_has("GPU-8932F9", 5, A), "its beginning, in any case");
    cr_expect(!healthvisible_has(B, 0, A));
    cr_expect(!healthvisible_has(A, 0, ""), "of which no UUID is known");
    cr_expect(!healthvisible_has(A "0", 0, A));
    cr_expect_eq(healthvisible_uuids("1," A "," B), 2);
    cr_expect_eq(healthvisible_uuids(NULL), 0);
}

Test(healthvisible, an_entry_that_is_neither_ends_the_list)
{
    cr_expect(healthvisible_has("0,-1,1", 0, A));
    cr_expect(!healthvisible_has("0,-1,1", 1, A));
    cr_expect(!healthvisible_has("NoDevFiles", 0, A));
    cr_expect(!healthvisible_has("", 0, A));
    cr_expect(!healthvisible_has("-1", 0, A));
    cr_expect_eq(healthvisible_uuids("-1," A), 0);
}

Test(healthvisible, all)
{
    cr_expect(healthvisible_has(NULL, 7, ""));
    cr_expect(healthvisible_has("MIG-" A "/1/0", 7, A));
}
