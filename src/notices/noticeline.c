/* SPDX-License-Identifier: Apache-2.0
 * See noticeline.h.
 */
#include "notices/noticeline.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

#include <inttypes.h>
#include <string.h>

/* --- texts --- */

static void noticeline_take_text(struct notice *notice, const char *text)
{
    size_t n = str_fitting(text, sizeof notice->text - 1);
    memcpy(notice->text, text, n);
    notice->text[n] = '\0';
    str_printable(notice->text);
}

/* An id that is too long or not printable becomes its beginning and a hash. The hash keeps two long
 * ids with the same beginning apart. */
static void take_id(struct notice *notice, const char *id)
{
    enum { HASHED = 1 + 16 };
    const size_t max = sizeof notice->id - 1;
    bool is_plain = true;
    for (const char *p = id; *p; p++)
        is_plain = is_plain && (unsigned char)*p >= 0x20 && *p != 0x7f;
    if (is_plain && strlen(id) <= max) {
        str_copy(notice->id, sizeof notice->id, id);
        return;
    }
    size_t n = str_fitting(id, max - HASHED);
    memcpy(notice->id, id, n);
    notice->id[n] = '\0';
    str_printable(notice->id);
    str_addf(notice->id, sizeof notice->id, "~%016" PRIx64, str_hash(id));
}

/* --- fields --- */

static void noticeline_complain(struct err *err, const char *what)
{
    if (!err->text[0])
        err_set(err, ERR_PROTOCOL, 0, "%s", what);
}

static bool take_seconds(const struct json *value, struct notice *ret, struct err *err)
{
    double seconds;
    if (!value)
        return false;
    if (!json_number(value, &seconds)) {
        noticeline_complain(err, "deadline_seconds is not a number");
        return false;
    }
    double ns = seconds * (double)NS_PER_S;
    bool is_far = ns >= (double)NOTICELINE_LEFT_MAX_NS;
    ret->left_ns = is_far ? NOTICELINE_LEFT_MAX_NS : ns > 0 ? (int64_t)ns : 0;
    return true;
}

static void take_deadline(const struct json *value, int64_t real_now_ns, struct notice *ret,
                          struct err *err)
{
    const char *text = json_text(value);
    int64_t at_ns, left_ns;
    if (!value)
        return;
    if (!text || !date_parse(text, &at_ns)) {
        noticeline_complain(err, "deadline is not a time as in 2026-11-21T12:03:04Z");
        return;
    }
    if (__builtin_sub_overflow(at_ns, real_now_ns, &left_ns))
        left_ns = INT64_MAX; /* the wall clock is before 1970 */
    ret->left_ns = left_ns < 0 ? 0 : clock_min(left_ns, NOTICELINE_LEFT_MAX_NS);
}

static bool read_type(const struct json *root, bool is_termination, struct notice *ret,
                      struct err *err)
{
    const struct json *value = json_find(root, "type");
    const char *text = json_text(value);
    if (!value && is_termination) {
        ret->type = NOTICE_TERMINATE;
        return true;
    }
    if (!value)
        return err_set(err, ERR_PROTOCOL, 0, "it has no type");
    if (!text)
        return err_set(err, ERR_PROTOCOL, 0, "its type is not a string but %s",
                       json_kind_name(value));
    return notice_type_of(text, &ret->type) ||
           err_set(err, ERR_PROTOCOL, 0,
                   "its type \"%.40s\" is not one of terminate, checkpoint, log, cancel", text);
}

/* An id may be a number: some sources number their events. */
static bool read_id(const struct json *root, struct notice *ret, struct err *err)
{
    const struct json *value = json_find(root, "id");
    const char *text = json_text(value);
    int64_t number;
    if (!value || json_kind(value) == JSON_IS_NULL)
        return true;
    if (text)
        take_id(ret, text);
    else if (json_int(value, &number))
        str_addf(ret->id, sizeof ret->id, "%" PRId64, number);
    else
        return err_set(err, ERR_PROTOCOL, 0, "its id is not a string but %s",
                       json_kind_name(value));
    return true;
}

static enum noticeline_result noticeline_read_root(const struct noticeline_reader *reader,
                                                   const struct json *root, struct notice *ret,
                                                   struct err *err)
{
    if (json_kind(root) != JSON_IS_OBJECT) {
        err_set(err, ERR_PROTOCOL, 0, "it is not an object but %s", json_kind_name(root));
        return NOTICELINE_BAD;
    }
    if (!read_type(root, reader->is_termination, ret, err) || !read_id(root, ret, err))
        return NOTICELINE_BAD;
    const struct json *text = json_find(root, "text");
    *err = (struct err){0};
    if (json_text(text))
        noticeline_take_text(ret, json_text(text));
    else if (text && json_kind(text) != JSON_IS_NULL)
        noticeline_complain(err, "text is not a string");
    if (!take_seconds(json_find(root, "deadline_seconds"), ret, err))
        take_deadline(json_find(root, "deadline"), reader->real_now_ns, ret, err);
    return err->text[0] ? NOTICELINE_PART : NOTICELINE_OK;
}

enum noticeline_result noticeline_read(const struct noticeline_reader *reader, const char *line,
                                       size_t len, struct notice *ret, struct err *err)
{
    *ret = (struct notice){.left_ns = NOTICE_LEFT_UNKNOWN};
    str_copy(ret->source, sizeof ret->source, reader->source);
    if (len > NOTICELINE_MAX) {
        err_set(err, ERR_PROTOCOL, 0, "it is longer than %d bytes", NOTICELINE_MAX);
        return NOTICELINE_BAD;
    }
    JSON_CLEANUP struct json *root = json_read("line", line, len, err);
    return root ? noticeline_read_root(reader, root, ret, err) : NOTICELINE_BAD;
}
