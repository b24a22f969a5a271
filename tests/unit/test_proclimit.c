/* SPDX-License-Identifier: Apache-2.0
 *
 * test_proclimit: a failed fork says which limits there are and how far they are used.
 */
#include "os/proclimit.h"

#include "unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static int64_t number_after(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    cr_assert(at, "no \"%s\" in: %s", word, text);
    return strtoll(at + strlen(word), NULL, 10);
}

Test(proclimit, names_the_limit_of_the_user_and_its_use)
{
    struct err err;
    struct rlimit limit;
    char user[32];
    cr_assert_eq(getrlimit(RLIMIT_NPROC, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 54321 ? limit.rlim_max : 54321;
    cr_assert_eq(setrlimit(RLIMIT_NPROC, &limit), 0);
    err_set(&err, ERR_SYSTEM, EAGAIN, "cannot start");
    cr_expect_not(proclimit_explain(&err));
    cr_expect_eq(number_after(err.text, "ulimit -u (RLIMIT_NPROC) is "), (int64_t)limit.rlim_cur);
    snprintf(user, sizeof user, "user %u has ", (unsigned)getuid());
    cr_expect_geq(number_after(err.text, user), 1);
    cr_expect(strstr(err.text, "; raise the limit that is reached"), "%s", err.text);
}

Test(proclimit, another_reason_is_not_a_limit)
{
    struct err err;
    err_set(&err, ERR_SYSTEM, ENOMEM, "cannot start");
    cr_expect_not(proclimit_explain(&err));
    cr_expect_str_eq(err.text, "cannot start: Cannot allocate memory");
}
