/* SPDX-License-Identifier: Apache-2.0
 *
 * test_ckptfile: what counts as a checkpoint at a path.
 */
#include "base/ckptfile.h"

#include "folder.h"

#include "base/str.h"

static const char *const files[] = {
    "step-7/part",     "ckpt-5.index",         "ckpt-5.data-00000-of-00001",  "ckpt-50.index",
    "ckpt-10.pt.tmp",  "ckpt-11.pt.index.tmp", "ckpt-12.data-00000-of-00001", /* the index was
                                                                               * removed first */
    "ckpt-13.indexes", "\xfc-1.index",
};

static const char *const links[][2] = {{"step-7", "latest"},
                                       {"step-6", "broken"},
                                       {"ckpt-5.index", "linked-5.index"},
                                       {"ckpt-6.index", "gone-6.index"},
                                       {"loop", "loop"}};

static void set_up(void)
{
    folder_enter();
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        folder_put(files[i], "");
    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        cr_assert_eq(symlink(links[i][0], links[i][1]), 0);
}

TestSuite(ckptfile, .init = set_up, .fini = folder_remove);

static enum ckptfile look(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return ckptfile_look(path);
}

Test(ckptfile, a_file_or_a_folder)
{
    static const char *const there[] = {"step-7", "step-7/",      "step-7//part",
                                        "../",    "latest",       "latest/part",
                                        "",       "ckpt-5.index", "ckpt-10.pt.tmp"};
    static const char *const absent[] = {
        "step-6",  "step-7/part/below", "step-7/par", "step-6/part",       "broken",
        "broken/", "broken/part",       "loop",       "step-8/rank-0/part"};
    for (size_t i = 0; i < ARRAY_LEN(there); i++)
        cr_expect_eq(look(there[i]), CKPTFILE_THERE, "%s", there[i]);
    for (size_t i = 0; i < ARRAY_LEN(absent); i++)
        cr_expect_eq(look(absent[i]), CKPTFILE_ABSENT, "%s", absent[i]);
    cr_expect_eq(ckptfile_look("/"), CKPTFILE_THERE);
    cr_expect_eq(ckptfile_look("/not"), CKPTFILE_ABSENT);
    cr_expect_eq(ckptfile_look("//not//there//"), CKPTFILE_ABSENT);
}

/* A path of another program that only begins a file's name is no checkpoint: such a file may be
 * half written. */
Test(ckptfile, a_prefix_as_tensorflow_has_it)
{
    static const char *const there[] = {"ckpt-5", "ckpt-50", "linked-5", "\xfc-1"};
    static const char *const absent[] = {
        "ckpt",    "ckpt-",      "ckpt-500", "ckpt-6",  "ck",      "gone-6",     "ckpt-10.pt",
        "ckpt-10", "ckpt-11.pt", "ckpt-12",  "ckpt-13", "ckpt-5.", "ckpt-5/part"};
    for (size_t i = 0; i < ARRAY_LEN(there); i++)
        cr_expect_eq(look(there[i]), CKPTFILE_THERE, "%s", there[i]);
    for (size_t i = 0; i < ARRAY_LEN(absent); i++)
        cr_expect_eq(look(absent[i]), CKPTFILE_ABSENT, "%s", absent[i]);
}

Test(ckptfile, a_path_that_is_too_long)
{
    char path[9000];
    memset(path, 'x', sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    cr_expect_eq(ckptfile_look(path), CKPTFILE_ABSENT);
}

/* Root may look everywhere, so the test becomes another user first. */
Test(ckptfile, what_cannot_be_looked_at_is_not_called_absent)
{
    cr_assert_eq(chmod("step-7", 0), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(geteuid() == 0 && setuid(65534) != 0 ? 100 : (int)look("step-7/part"));
    int status = -1;
    cr_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    cr_expect_eq(WEXITSTATUS(status), (int)CKPTFILE_UNKNOWN);
    cr_assert_eq(chmod("step-7", 0700), 0);
}
