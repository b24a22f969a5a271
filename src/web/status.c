/* SPDX-License-Identifier: Apache-2.0
 * See status.h.
 */
#include "web/status.h"

#include "base/clock.h"
#include "web/picture.h"

#include <stdio.h>
#include <stdlib.h>

enum { CONTACT_MAX = 4096, STATUS_VERSION = 1 };

char *status_why(const char *why)
{
    struct writer w;
    size_t len;
    writer_init(&w, CONTACT_MAX, WRITER_LINE);
    writer_object(&w, NULL);
    writer_text(&w, "why", why);
    return picture_done(&w, &len);
}

char *status_contact(const struct asker_picture *picture, const struct asker_contact *contact,
                     int64_t now, size_t *ret_len)
{
    struct writer w;
    writer_init(&w, CONTACT_MAX, WRITER_LINE);
    writer_object(&w, NULL);
    writer_int_if(&w, "picture_age_ms", (now - picture->at) / NS_PER_MS, picture->at != 0);
    writer_int_if(&w, "lost_ms", (now - contact->since) / NS_PER_MS, contact->is_lost);
    writer_text(&w, "lost_why", contact->is_lost ? contact->why : NULL);
    return picture_done(&w, ret_len);
}

char *status_text(const struct asker_picture *picture, const struct asker_contact *contact,
                  int64_t now, size_t *ret_len)
{
    size_t head;
    char *text = NULL, *about = status_contact(picture, contact, now, &head);
    /* The answer is whole JSON, and is large: it is copied as it is. */
    int len = about ? asprintf(&text, "{\"version\":%d,%.*s,\"status\":%s}\n", STATUS_VERSION,
                               (int)head - 2, about + 1, picture->at ? picture->answer : "null")
                    : -1;
    free(about);
    *ret_len = len > 0 ? (size_t)len : 0;
    return len > 0 ? text : NULL;
}
