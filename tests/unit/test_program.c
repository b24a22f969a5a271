/* SPDX-License-Identifier: Apache-2.0
 *
 * test_program: where a program is found, and the errors for a program that is missing or cannot be
 * run.
 */
#include "os/program.h"

#include "base/str.h"
#include "folder.h"

#include <limits.h>

static char found[PATH_MAX];
static struct err err;

static void make(const char *name, mode_t mode)
{
    folder_put(name, "");
    cr_assert_eq(chmod(name, mode), 0);
}

static void set_up(void)
{
    folder_enter();
    make("a/plain", 0644);
    make("b/run", 0755);
    make("b/c", 0755);
    cr_assert_eq(mkdir("a/c", 0755), 0);
}

TestSuite(program, .init = set_up, .fini = folder_remove);

static void expect_found(const char *name, const char *path, const char *want)
{
    cr_assert(program_find(name, path, found, sizeof found, &err), "%s", err.text);
    cr_expect_str_eq(found, folder_path(want));
}

Test(program, a_name_is_looked_for_in_path)
{
    expect_found("run", "a:b", "b/run");
    expect_found("c", "a:b", "b/c"); /* a directory is no program */
    cr_assert(chdir("b") == 0);
    expect_found("run", "/nowhere:", "b/./run");
    expect_found("./run", NULL, "b/./run");
    cr_assert(chdir("..") == 0);
    cr_assert(program_find("sh", NULL, found, sizeof found, &err), "%s", err.text);
    cr_expect(found[0] == '/');
}

Test(program, what_is_not_there)
{
    cr_expect(!program_find("nothing", "a:b", found, sizeof found, &err));
    cr_expect_eq(err.code, ERR_NOT_FOUND);
    cr_expect_str_eq(err.text, "cannot execute 'nothing': it is in no directory of PATH (a:b)");
    cr_assert(chdir("b") == 0);
    cr_expect(!program_find("run", "../a", found, sizeof found, &err));
    cr_expect_str_eq(err.text,
                     "cannot execute 'run': it is in no directory of PATH (../a); it is a "
                     "file in the current directory: write ./ before its name");
    folder_put("b/train.py", "");
    cr_expect(!program_find("train.py", "../a", found, sizeof found, &err));
    cr_expect_str_eq(err.text,
                     "cannot execute 'train.py': it is in no directory of PATH (../a); it is "
                     "a file in the current directory: write python before its name");
    cr_assert(chdir("..") == 0);
    cr_expect(!program_find("b/nothing", "a:b", found, sizeof found, &err));
    cr_expect_eq(err.code, ERR_NOT_FOUND);
    cr_expect_str_eq(err.text, "cannot execute 'b/nothing': No such file or directory");
    cr_expect(!program_find("", "a:b", found, sizeof found, &err));
}

Test(program, what_cannot_be_run)
{
    cr_expect(!program_find("plain", "b:a", found, sizeof found, &err));
    cr_expect_eq(err.code, ERR_NOT_EXEC);
    cr_expect_str_eq(err.text, "cannot execute 'a/plain': Permission denied; is it a file with "
                               "permission to execute (chmod +x)?");
    cr_expect(!program_find("/dev/null", NULL, found, sizeof found, &err));
    cr_expect_eq(err.sys_errno, EACCES);
    cr_expect(!program_find("./a", NULL, found, sizeof found, &err));
    cr_expect_str_eq(err.text, "cannot execute './a': Is a directory");
}

Test(program, a_command)
{
    char *command[] = {"run", "a b", "", NULL};
    char **args = program_args(command, "a:b", &err);
    cr_assert(args, "%s", err.text);
    cr_assert_str_eq(args[0], folder_path("b/run"));
    cr_assert(str_is(args[1], "a b") && str_is(args[2], "") && !args[3]);
    program_args_free(args);
    cr_assert(!program_args(command, "a", &err));
    cr_assert_eq(err.code, ERR_NOT_FOUND);
    program_args_free(NULL);
}

Test(program, what_does_not_fit)
{
    char small[16];
    cr_expect(!program_find("./b/run", NULL, small, sizeof small, &err));
    cr_expect_eq(err.sys_errno, ENAMETOOLONG);
}

/* In our folder, which is where the tests lie. */
Test(program, beside_us)
{
    const char *end = "/test_env";
    cr_assert(program_beside("test_env", found, sizeof found));
    cr_expect(strlen(found) > strlen(end) && str_is(found + strlen(found) - strlen(end), end));
    cr_expect(!program_beside("no-such-test", found, sizeof found));
    cr_expect(!program_beside("../unit", found, sizeof found), "a folder");
}

/* From our folder, and by a whole path. */
Test(program, file_near_us)
{
    const char *const places[] = {"no-such-test", "../unit/test_program", "test_env", NULL};
    const char *const whole[] = {"../no-such-test", "/etc/passwd", NULL};
    const char *const none[] = {"no-such-test", "/nowhere/passwd", "/tmp", NULL};
    const char *end = "/../unit/test_program";
    cr_assert(program_file_near(places, found, sizeof found));
    cr_expect(strlen(found) > strlen(end) && str_is(found + strlen(found) - strlen(end), end));
    cr_assert(program_file_near(whole, found, sizeof found));
    cr_expect_str_eq(found, "/etc/passwd");
    cr_expect(!program_file_near(none, found, sizeof found));
    cr_expect_eq(found[0], '/');
    cr_expect_str_eq(strrchr(found, '/'), "/no-such-test");
}

/* Only root can give a file away. */
Test(program, near_us_but_another_users)
{
    const char *whole = folder_path("b/run");
    const char *const places[] = {whole, NULL};
    cr_assert(program_beside(whole, found, sizeof found));
    cr_assert(program_file_near(places, found, sizeof found));
    if (geteuid() != 0)
        cr_skip_test("not root");
    cr_assert(chown(whole, 12345, 12345) == 0);
    cr_expect(!program_beside(whole, found, sizeof found));
    cr_expect(!program_file_near(places, found, sizeof found));
}
