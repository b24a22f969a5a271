/* SPDX-License-Identifier: Apache-2.0
 *
 * guard: which Host headers and tokens pchrun-web accepts, and which token files.
 */
#include "web/guard.h"

#include "base/str.h"
#include "web/token.h"

#include "folder.h"

#define TOKEN "0123456789abcdef-._~"

static struct guard guard_at(const char *listen)
{
    struct guard guard = {.host = "n7"};
    struct err err;
    cr_assert(address_parse(listen, 8042, &guard.listen, &err), "%s", err.text);
    return guard;
}

static const struct {
    const char *listen, *header;
    bool is_known;
} hosts[] = {
    {"127.0.0.1", "127.0.0.1:8042", true},
    {"127.0.0.1", "localhost:8042", true},
    {"127.0.0.1", "LOCALHOST", true},
    {"127.0.0.1", "localhost:9000", true}, /* ssh -L 9000:127.0.0.1:8042 */
    {"127.0.0.1", "[::1]:8042", true},
    {"127.0.0.1", "attacker.example", false}, /* resolves to 127.0.0.1 */
    {"127.0.0.1", "127.0.0.1.attacker.example:8042", false},
    {"127.0.0.1", "localhost.attacker.example", false},
    {"127.0.0.1", "n7:8042", false},
    {"127.0.0.1", "10.0.0.7:8042", false},
    {"127.0.0.1", "", false},
    {"127.0.0.1", "localhost:8042 attacker.example", false},
    {"127.0.0.1", "a@localhost", false},
    {"127.0.0.1", NULL, false},
    {"0.0.0.0", "n7:8042", true},
    {"0.0.0.0", "N7:8042", true},
    {"0.0.0.0", "10.0.0.7:8042", true},
    {"0.0.0.0", "[fd00::7]:8042", true},
    {"0.0.0.0", "n7.attacker.example:8042", false},
    {"web.cluster", "web.cluster:8042", true},
};

Test(guard, knows_the_names_of_this_machine)
{
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        struct guard guard = guard_at(hosts[i].listen);
        cr_expect_eq(guard_knows_host(&guard, hosts[i].header), hosts[i].is_known, "%s at %s",
                     hosts[i].header ? hosts[i].header : "none", hosts[i].listen);
    }
}

Test(guard, admits_the_token_alone)
{
    static const char *const wrong[] = {
        NULL,
        "",
        "Bearer",
        "Bearer ",
        TOKEN,
        "Basic " TOKEN,
        "Bearer " TOKEN "x",
        "Bearer x" TOKEN,
        "Bearer 0123456789abcdef-._",
        "Bearer 0123456789abcdef-._!",
        "Bearer  " TOKEN,
    };
    struct guard guard = guard_at("127.0.0.1");
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        cr_expect(guard_admits(&guard, wrong[i]), "no token is needed");
    str_copy(guard.token, sizeof guard.token, TOKEN);
    cr_expect(guard_admits(&guard, "Bearer " TOKEN) && guard_admits(&guard, "bearer " TOKEN));
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        cr_expect_not(guard_admits(&guard, wrong[i]), "%zu", i);
}

/* --- the file --- */

static const struct {
    const char *text, *why; /* why NULL: it is read */
    mode_t mode;
} files[] = {
    {TOKEN "\n", NULL, 0600},
    {TOKEN, NULL, 0400},
    {TOKEN "\n", "is open to others (mode 0640); close it: chmod 600 ", 0640},
    {TOKEN "\n", "is open to others (mode 0604)", 0604},
    {"", "must be one line of 16 to 128 letters and digits", 0600},
    {"0123456789abcde\n", "must be one line of 16 to 128", 0600},
    {TOKEN "\nmore\n", "must be one line", 0600},
    {TOKEN " x\n", "must be one line", 0600},
};

TestSuite(token, .init = folder_make, .fini = folder_remove);

static bool read_text(const char *text, mode_t mode, char token[GUARD_TOKEN_MAX + 1],
                      struct err *err)
{
    folder_put("token", text);
    cr_assert_eq(chmod(folder_path("token"), mode), 0);
    bool ok = token_read(folder_path("token"), token, err);
    cr_assert_eq(unlink(folder_path("token")), 0);
    return ok;
}

Test(token, is_read_from_a_private_file)
{
    char token[GUARD_TOKEN_MAX + 1];
    struct err err;
    cr_expect_not(token_read(folder_path("token"), token, &err));
    cr_expect(strstr(err.text, "there is no token file ") && strstr(err.text, "openssl rand"));
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        bool ok = read_text(files[i].text, files[i].mode, token, &err);
        cr_expect_eq(ok, !files[i].why, "%zu: %s", i, ok ? token : err.text);
        cr_expect(ok ? str_is(token, TOKEN) : strstr(err.text, files[i].why) != NULL, "%zu: %s", i,
                  ok ? token : err.text);
    }
}

Test(token, has_a_bound)
{
    char longest[GUARD_TOKEN_MAX + 2], token[GUARD_TOKEN_MAX + 1];
    struct err err;
    memset(longest, 'a', sizeof longest);
    longest[GUARD_TOKEN_MAX + 1] = '\0';
    cr_expect_not(read_text(longest, 0600, token, &err));
    longest[GUARD_TOKEN_MAX] = '\0';
    cr_expect(read_text(longest, 0600, token, &err), "%s", err.text);
    cr_expect_str_eq(token, longest);
}
