/* SPDX-License-Identifier: Apache-2.0
 *
 * trainjob: posts the lines of standard input to the TrainJob of Kubeflow Trainer (2.2, alpha), for
 * pchrun on node 0. It is no source: nothing is announced.
 *
 * A line is the body of a request. If lines come faster than the server answers, only the newest is
 * posted. Each request reads the token anew, because the kubelet replaces it. The first failure is
 * logged, and no later one: nothing depends on a post. Ends with standard input.
 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "watch/watchrun.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define URL_VARIABLE   "KUBEFLOW_TRAINER_SERVER_URL"
#define CA_VARIABLE    "KUBEFLOW_TRAINER_SERVER_CA_CERT"
#define TOKEN_VARIABLE "KUBEFLOW_TRAINER_SERVER_TOKEN"

#define TIMEOUT_NS (10 * NS_PER_S) /* the server asks the API server about the token */
#define TOKEN_MAX  8192

enum { LINE_BYTES_MAX = 16384, READ_BYTES = 4096 };

static struct trainjob {
    const char *url, *ca_file, *token_file;
    struct lines lines;
    char *body; /* the newest line; NULL: none waits */
    bool is_posting, has_told;
    bool is_off; /* nothing can be posted; lines are read and dropped */
} self;

static const char *trainjob_variable(const char *name, struct err *err)
{
    const char *value = getenv(name);
    if (!value || !*value)
        err_set(err, ERR_NOT_FOUND, 0,
                "%s is not set: this is no pod of a TrainJob, or its controller runs without the "
                "feature gate TrainJobStatus",
                name);
    return value && *value ? value : NULL;
}

/* The token must not travel unencrypted. */
static bool trainjob_find(struct err *err)
{
    self.url = trainjob_variable(URL_VARIABLE, err);
    self.ca_file = self.url ? trainjob_variable(CA_VARIABLE, err) : NULL;
    self.token_file = self.ca_file ? trainjob_variable(TOKEN_VARIABLE, err) : NULL;
    if (self.token_file && !str_starts(self.url, "https://"))
        return err_set(err, ERR_USAGE, 0, "%s is \"%.200s\", but it must begin with https://",
                       URL_VARIABLE, self.url);
    return self.token_file && http_open(err);
}

static void trainjob_tell(const struct err *err)
{
    snprintf(watch.last_failure, sizeof watch.last_failure, "%.380s", err->text);
    if (!self.has_told && !watch.options.is_check)
        log_warn("trainjob",
                 "the progress cannot be posted to the TrainJob: %s; pchrun goes on trying, and "
                 "logs no further failure. The job does not depend on it",
                 err->text);
    self.has_told = true;
}

static bool read_token(char *token, size_t size, struct err *err)
{
    if (fd_read_text(self.token_file, token, size) < 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot read the token %.300s", self.token_file);
    token[strcspn(token, " \r\n")] = '\0';
    return token[0] || err_set(err, ERR_PROTOCOL, 0, "the token %.300s is empty", self.token_file);
}

static void post_newest(void);

static void on_posted(void *ctx, const struct http_answer *answer)
{
    struct err err;
    self.is_posting = false;
    if (http_is_ok(answer, &err))
        watch_answered(0);
    else
        trainjob_tell(&err);
    post_newest();
}

static void post_newest(void)
{
    static char token[TOKEN_MAX], header[TOKEN_MAX + 32];
    struct err err;
    if (!self.body || self.is_posting)
        return;
    if (read_token(token, sizeof token, &err)) {
        snprintf(header, sizeof header, "Authorization: Bearer %s", token);
        self.is_posting = true;
        http_start(&(struct http_request){
            .method = HTTP_POST,
            .url = self.url,
            .headers = {header, "Content-Type: application/json", "Accept: application/json"},
            .body = self.body,
            .ca_file = self.ca_file,
            .timeout_ns = TIMEOUT_NS, /* --check has a limit of its own */
            .fn = on_posted});
    } else {
        trainjob_tell(&err);
    }
    free(self.body);
    self.body = NULL;
}

static void keep_line(const char *line, size_t len)
{
    if (len == 0 || self.is_off)
        return;
    free(self.body);
    self.body = strndup(line, len);
}

/* Only when there is something to read: standard input may block. */
static void on_input(void)
{
    char data[READ_BYTES], *line;
    size_t len;
    enum lines_result result;
    ssize_t n = read(STDIN_FILENO, data, sizeof data);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0 || !lines_add(&self.lines, data, (size_t)n)) {
        watch_finish(EXIT_SUCCESS);
        return;
    }
    while ((result = lines_next(&self.lines, &line, &len)) != LINES_NONE)
        if (result == LINES_ONE)
            keep_line(line, len);
    post_newest();
}

/* With --check an empty update, which the server accepts and does not store. */
static bool trainjob_start(struct err *err)
{
    self.is_off = !trainjob_find(err);
    if (watch.options.is_check) {
        self.body = self.is_off ? NULL : strdup("{}");
        post_newest();
        return !self.is_off;
    }
    if (self.is_off)
        trainjob_tell(err);
    lines_init(&self.lines, LINE_BYTES_MAX, READ_BYTES);
    watch.fd = STDIN_FILENO;
    watch.on_fd = on_input;
    return true;
}

const struct source source_trainjob = {
    .word = {"trainjob", "no source: posts pchrun's lines to the TrainJob of Kubeflow Trainer",
             NULL, " "},
    .topics = 1,
    .start = trainjob_start,
};
