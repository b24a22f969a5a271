/* SPDX-License-Identifier: Apache-2.0
 *
 * savepath: how pchrun keeps the path that a program reports for its checkpoint.
 */
#include "libpch/job.h"

#include "folder.h"

static char taken[PROCMSG_PATH_MAX];
static struct err err;

static void set_up(void)
{
    folder_enter();
    folder_put("step-7/part", "");
    folder_put("ckpt-5.index", "");
    folder_put("ckpt-50.index", "");
    cr_assert_eq(symlink("step-7", "latest"), 0);
    cr_assert_eq(symlink("step-6", "broken"), 0);
}

TestSuite(savepath, .init = set_up, .fini = folder_remove);

static bool is_there(const char *given)
{
    return savepath_take(taken, given, &err) && savepath_look(taken, &err);
}

/* Within the folder. */
static void expect_absolute(const char *given, const char *rest)
{
    char wanted[PROCMSG_PATH_MAX];
    snprintf(wanted, sizeof wanted, "%s/%s", folder, rest);
    cr_expect(is_there(given), "%s: %s", given, err.text);
    cr_expect_str_eq(taken, wanted);
}

static void expect_kept(const char *given)
{
    cr_expect(is_there(given), "%s: %s", given, err.text);
    cr_expect_str_eq(taken, given);
}

static void expect_missing(const char *given)
{
    memset(&err, 0, sizeof err);
    cr_expect_not(is_there(given), "%s", given);
    cr_expect(strstr(err.text, "there is nothing at /"), "%s: %s", given, err.text);
    cr_expect(strstr(err.text, "a rank that writes no checkpoint passes NULL"), "%s: %s", given,
              err.text);
}

Test(savepath, one_rank_may_save_for_another)
{
    expect_kept("");
    cr_expect(savepath_take(taken, NULL, &err));
    cr_expect_str_eq(taken, "");
}

Test(savepath, a_relative_path_becomes_absolute)
{
    expect_absolute("step-7", "step-7");
    expect_absolute("step-7/part", "step-7/part");
    expect_absolute("step-7/", "step-7/");
    expect_absolute("latest", "latest");
    cr_assert_eq(chdir("/"), 0);
    cr_expect(savepath_take(taken, folder + 1, &err));
    cr_expect_str_eq(taken, folder);
    expect_kept(folder);
    expect_kept("/");
    cr_assert_eq(chdir(folder), 0);
}

Test(savepath, what_is_not_there_is_no_save)
{
    expect_missing("/not/there");
    expect_missing("/not");
    expect_missing("//not//there//");
    expect_missing("step-8");
    expect_missing("step-7/part/below");
    expect_missing("step-7/par");
    expect_missing("broken");
    expect_missing("broken/part");
}

/* TensorFlow names a checkpoint by the common beginning of its files' names (test_ckptfile.c). */
Test(savepath, a_path_may_be_a_prefix)
{
    expect_absolute("ckpt-5", "ckpt-5");
    expect_absolute("ckpt-50", "ckpt-50");
    expect_missing("ckpt-");
    expect_missing("ckpt-500");
    expect_missing("ck");
}

/* Only the program can look for a save in an object store. */
Test(savepath, a_url_is_not_looked_for)
{
    expect_kept("gs://bucket/step-7");
    expect_kept("s3+https://store/step-7");
    expect_missing("://step-7");
    expect_missing("gs:/bucket/step-7");
    expect_missing("/gs://bucket");
}

Test(savepath, a_path_that_becomes_too_long)
{
    char path[PROCMSG_PATH_MAX];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    cr_expect_not(savepath_take(taken, path, &err));
    cr_expect(strstr(err.text, "too long"), "%s", err.text);
    for (size_t i = 0; i < sizeof path - 1; i += 100)
        path[i] = '/';
    expect_missing(path);
    cr_expect_lt(strlen(err.text), 256, "the message has no more room: %s", err.text);
}

Test(savepath, a_working_directory_that_is_gone)
{
    cr_assert(mkdir("gone", 0700) == 0 && chdir("gone") == 0 && rmdir("../gone") == 0);
    memset(&err, 0, sizeof err);
    cr_expect_not(savepath_take(taken, "step-7", &err));
    cr_expect(strstr(err.text, "the working directory was removed"), "%s", err.text);
    expect_kept(folder);
    cr_assert_eq(chdir(folder), 0);
}
