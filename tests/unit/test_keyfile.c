/* SPDX-License-Identifier: Apache-2.0
 *
 * keyfile: valid keys, the users that may read a key, and new keys.
 */
#include "base/fd.h"
#include "base/keyfile.h"
#include "base/str.h"

#include "folder.h"

#define DIGITS "00112233445566778899aabbccddeeFF0123456789abcdefABCDEF9876543210"
#define LINE   "pchrun-key-1:" DIGITS

static const struct key wanted = {{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa,
                                   0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab,
                                   0xcd, 0xef, 0xab, 0xcd, 0xef, 0x98, 0x76, 0x54, 0x32, 0x10}};

TestSuite(keyfile, .init = folder_enter, .fini = folder_remove);

static void put(const char *text, mode_t mode)
{
    unlink("key"); /* a file that may not be written is replaced, not opened */
    FD_CLEANUP int fd = open("key", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cr_assert(fd >= 0 && fd_write_all(fd, text, strlen(text)) && fchmod(fd, mode) == 0);
}

static void expect_refused(const char *path, const char *why, const char *what_to_do)
{
    struct key key;
    struct err err;
    cr_assert(!keyfile_read(path, &key, &err), "%s was taken", path);
    cr_expect_eq(err.code, ERR_USAGE);
    cr_expect(strstr(err.text, why), "'%s' does not say '%s'", err.text, why);
    cr_expect(strstr(err.text, what_to_do), "'%s' does not say '%s'", err.text, what_to_do);
}

Test(keyfile, a_key_with_and_without_its_newline)
{
    static const char *const good[] = {LINE, LINE "\n"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct key key;
        struct err err;
        put(good[i], 0600);
        cr_assert(keyfile_read("key", &key, &err), "%s", err.text);
        cr_expect_arr_eq(key.bytes, wanted.bytes, sizeof key.bytes);
        key_wipe(&key);
        for (size_t b = 0; b < sizeof key.bytes; b++)
            cr_expect_eq(key.bytes[b], 0);
    }
}

/* A key that is read in part, or guessed, is worse than none. */
Test(keyfile, what_is_no_key)
{
    static const char *const bad[] = {
        "\n",
        DIGITS,
        DIGITS "\n",
        LINE "\n\n",
        LINE " ",
        LINE "\r\n",
        LINE "0",
        " " LINE,
        "pchrun-key-1:",
        "pchrun-key-1:\n",
        LINE LINE,
        LINE "\n" LINE,
        "correct horse\n",
        "pchrun-key-2:" DIGITS,
        "PCHRUN-KEY-1:" DIGITS,
        "pchrun-key-1: " DIGITS,
        "pchrun-key-1:g0112233445566778899aabbccddeeff0123456789abcdefABCDEF9876543210",
        "pchrun-key-1:00112233445566778899aabbccddeeff0123456789abcdefABCDEF987654321",
        "pchrun-key-1:00112233445566778899aabbccddeeff0123456789abcdefABCDEF987654321\n",
        "pchrun-key-1:-1112233445566778899aabbccddeeff0123456789abcdefABCDEF9876543210",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        put(bad[i], 0600);
        expect_refused("key", "key file key does not hold a key", "pchrun --make-key");
    }
    put("", 0600);
    expect_refused("key", "key file key is empty", "pchrun --make-key");
    /* A NUL is no end: what follows it counts. */
    struct key key;
    cr_expect(!keyfile_parse(LINE "\0x", sizeof LINE + 1, &key));
}

Test(keyfile, who_may_read_it)
{
    static const struct {
        mode_t mode;
        bool is_good;
    } modes[] = {{0600, true},  {0400, true},  {0440, true},  {0640, true},  {0700, true},
                 {0660, false}, {0604, false}, {0602, false}, {0601, false}, {0644, false},
                 {0777, false}, {0620, false}, {01604, false}};
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct key key;
        struct err err;
        char said[32];
        put(LINE, modes[i].mode);
        snprintf(said, sizeof said, "(mode %04o)", modes[i].mode);
        if (modes[i].is_good)
            cr_expect(keyfile_read("key", &key, &err), "%s", err.text);
        else
            expect_refused("key", said, "chmod g-w,o= key");
    }
}

Test(keyfile, whose_it_may_be)
{
    if (geteuid() != 0)
        cr_skip_test("only root can give a file away");
    put(LINE, 0600);
    cr_assert(chown("key", 12345, -1) == 0);
    expect_refused("key", "belongs to user 12345", "chown 0 key");
}

/* Kubernetes shows a secret as a link to a link to a file. */
Test(keyfile, links_are_followed)
{
    struct key key;
    struct err err;
    put(LINE, 0440);
    cr_assert(symlink("key", "link") == 0);
    cr_expect(keyfile_read("link", &key, &err), "%s", err.text);
    put(LINE, 0444);
    expect_refused("link", "(mode 0444)", "chmod");
}

Test(keyfile, what_is_no_file)
{
    expect_refused("key", "there is no key file key", "pchrun --make-key key");
    expect_refused(".", ". is not a regular file", "name the key file");
    cr_assert(mkfifo("key", 0600) == 0);
    expect_refused("key", "key is not a regular file", "name the key file"); /* and does not wait */
}

Test(keyfile, a_new_one)
{
    struct key first, second;
    struct stat st;
    struct err err;
    umask(0777);
    cr_assert(keyfile_make("key", &err), "%s", err.text);
    cr_assert(stat("key", &st) == 0);
    cr_expect_eq(st.st_mode & 07777, 0600);
    cr_assert(keyfile_read("key", &first, &err), "%s", err.text);
    cr_assert(!keyfile_make("key", &err));
    cr_expect(strstr(err.text, "key is there already"), "%s", err.text);
    cr_assert(keyfile_read("key", &second, &err), "%s", err.text);
    cr_expect_arr_eq(first.bytes, second.bytes, sizeof first.bytes);
    unlink("key");
    cr_assert(keyfile_make("key", &err) && keyfile_read("key", &second, &err), "%s", err.text);
    cr_expect_arr_neq(first.bytes, second.bytes, sizeof first.bytes);
}

/* A link that leads nowhere must not decide where a secret is written. */
Test(keyfile, where_it_cannot_be_made)
{
    struct err err;
    cr_assert(symlink("elsewhere", "link") == 0);
    cr_expect(!keyfile_make("link", &err));
    cr_expect(access("elsewhere", F_OK) != 0);
    cr_expect(!keyfile_make("none/key", &err));
    cr_expect_str_eq(err.text, "cannot make the key file none/key: No such file or directory");
}
