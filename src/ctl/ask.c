/* SPDX-License-Identifier: Apache-2.0
 * See ask.h.
 */
#include "ctl/ask.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A running pchrun answers at once; a stopped one never. */
#define ANSWER_WAIT_NS (5 * NS_PER_S)

bool ask_send(struct talk *talk, enum control_verb verb, const struct ctl_options *options,
              struct err *err)
{
    struct writer w;
    size_t len;
    writer_init(&w, CONTROL_REQUEST_MAX + 1, WRITER_LINE);
    writer_object(&w, NULL);
    writer_int(&w, "version", CONTROL_VERSION);
    writer_text(&w, "do", control_name(verb));
    if (verb == CONTROL_STATUS && options)
        writer_bool(&w, "all", true);
    if (verb == CONTROL_EVENTS)
        writer_bool(&w, "follow", options->follows);
    if (verb == CONTROL_DRAIN && options->in_ns >= 0)
        writer_int(&w, "left_ms", options->in_ns / NS_PER_MS);
    if (verb == CONTROL_DRAIN && options->text)
        writer_text(&w, "text", options->text);
    writer_end(&w);
    const char *text = writer_done(&w, &len);
    bool ok = text ? talk_say(talk, text, len, err)
                   : err_set(err, ERR_SYSTEM, ENOMEM, "cannot ask pchrun");
    writer_free(&w);
    return ok;
}

bool answer_read(struct answer *ret, const char *line, size_t len, struct err *err)
{
    *ret = (struct answer){.text = strdup(line)};
    if (!ret->text)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot read the answer");
    ret->root = json_read("answer", line, len, err);
    return (ret->root && json_make_printable(ret->root, err)) ||
           err_wrap(err, "this is not pchrun's answer");
}

static bool await_answer(struct talk *talk, struct answer *ret, struct err *err)
{
    char *line;
    size_t len;
    enum talk_result result = talk_read(talk, clock_now_ns() + ANSWER_WAIT_NS, &line, &len, err);
    if (result == TALK_END) {
        err_set(err, ERR_PEER, 0, "pchrun has closed the connection; has it ended?");
        err->sys_errno = ECONNRESET;
    }
    return result == TALK_LINE && answer_read(ret, line, len, err);
}

bool ask(const char *dir, enum control_verb verb, const struct ctl_options *options,
         struct answer *ret, struct err *err)
{
    struct talk talk = TALK_NONE;
    *ret = (struct answer){0};
    bool ok = talk_open(dir, &talk, err) && ask_send(&talk, verb, options, err) &&
              await_answer(&talk, ret, err);
    talk_close(&talk);
    if (!ok || answer_bool(ret->root, "ok"))
        return ok;
    return err_set(err, ERR_PEER, 0, "%s", answer_text(ret->root, "error"));
}

bool ask_found_nobody(const struct err *err)
{
    int why = err->sys_errno;
    return why == ENOENT || why == ECONNREFUSED || why == ECONNRESET || why == EPIPE;
}

void answer_free(struct answer *answer)
{
    json_free(answer->root);
    free(answer->text);
    *answer = (struct answer){0};
}

const struct json *answer_find(const struct json *object, const char *path)
{
    char key[64];
    while (object) {
        size_t len = strcspn(path, ".");
        if (len >= sizeof key || json_kind(object) != JSON_IS_OBJECT)
            return NULL;
        memcpy(key, path, len);
        key[len] = '\0';
        object = json_find(object, key);
        if (!path[len])
            return object;
        path += len + 1;
    }
    return NULL;
}

const struct json *answer_items(const struct json *object, const char *path)
{
    const struct json *found = answer_find(object, path);
    return found ? json_first(found) : NULL;
}

const char *answer_text(const struct json *object, const char *path)
{
    const char *found = json_text(answer_find(object, path));
    return found ? found : "";
}

bool answer_is(const struct json *object, const char *path, const char *text)
{
    return str_is(answer_text(object, path), text);
}

int64_t answer_int(const struct json *object, const char *path, int64_t missing)
{
    int64_t value;
    return json_int(answer_find(object, path), &value) ? value : missing;
}

double answer_real(const struct json *object, const char *path, double missing)
{
    double value;
    return json_number(answer_find(object, path), &value) ? value : missing;
}

bool answer_bool(const struct json *object, const char *path)
{
    bool value;
    return json_bool(answer_find(object, path), &value) && value;
}
