/* SPDX-License-Identifier: Apache-2.0
 * See tls.h. OpenSSL reads and writes through stream_plain (a BIO of our own), since its own socket
 * BIO raises SIGPIPE. Read first: SSL_CTX_set_psk_use_session_callback(3), SSL_get_error(3),
 * RFC 8446 section 2.2, RFC 9257.
 */
#include "net/tls.h"

#include "base/policy.h"
#include "base/str.h"
#include "net/tlslib.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define SUITE          "TLS_AES_128_GCM_SHA256" /* tls_secret() uses the same hash */
#define GROUPS         "X25519:P-256"
#define IDENTITY       "pchrun/1 " /* then the name of the job */
#define IDENTITY_MAX   128
#define SECRET_CONTEXT "pchrun/1 tls13 sha256 member to chief "

struct tls {
    SSL_CTX *context;
    BIO_METHOD *transport;
    uint8_t *secret; /* a page of its own */
    char identity[IDENTITY_MAX];
};

/* Of one connection. */
struct tls_session {
    struct tls *tls;
    SSL *ssl;
    struct stream below; /* borrows the descriptor */
    struct err failure;  /* error of `below`; ERR_NONE: none */
    bool is_ours, is_ready;
    bool has_begun;           /* something was received */
    bool is_plain;            /* the first bytes are not TLS; they are still to be read */
    bool is_ended;            /* the other side has closed, with or without a close alert */
    bool is_broken;           /* OpenSSL cannot use the session any more */
    char asked[IDENTITY_MAX]; /* the other side's identity, if it is not ours */
};

/* ---- the secret ---- */

/* HKDF-Expand (RFC 5869) for one block: the key is random and needs no Extract. */
bool tls_secret(const struct key *key, const char *job, uint8_t ret[TLS_SECRET_BYTES],
                struct err *err)
{
    uint8_t info[IDENTITY_MAX];
    unsigned size = 0;
    if (!tlslib_load(err))
        return false;
    int n = snprintf((char *)info, sizeof info - 1, "%s%s", SECRET_CONTEXT, job);
    if (n < 0 || (size_t)n >= sizeof info - 1)
        return err_set(err, ERR_USAGE, 0, "the job's name is too long for a key");
    info[n++] = 1;
    if (tlslib.HMAC(tlslib.EVP_sha256(), key->bytes, (int)sizeof key->bytes, info, (size_t)n, ret,
                    &size) &&
        size == TLS_SECRET_BYTES)
        return true;
    return err_set(err, ERR_SYSTEM, 0, "OpenSSL cannot derive a secret from the key");
}

/* Keeps the secret out of core dumps and, since Linux 4.14, out of children. */
static uint8_t *new_secret(void)
{
    void *page =
        mmap(NULL, TLS_SECRET_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    (void)madvise(page, TLS_SECRET_BYTES, MADV_DONTDUMP);
    (void)madvise(page, TLS_SECRET_BYTES, MADV_WIPEONFORK);
    return page;
}

/* OpenSSL takes a shared secret as a session: one for each handshake, owned by OpenSSL. */
static SSL_SESSION *new_psk(struct tls_session *session)
{
    static const unsigned char suite[] = {0x13, 0x01}; /* SUITE, as RFC 8446 numbers it */
    const SSL_CIPHER *cipher = tlslib.SSL_CIPHER_find(session->ssl, suite);
    SSL_SESSION *psk = cipher ? tlslib.SSL_SESSION_new() : NULL;
    if (psk &&
        tlslib.SSL_SESSION_set1_master_key(psk, session->tls->secret, TLS_SECRET_BYTES) == 1 &&
        tlslib.SSL_SESSION_set_cipher(psk, cipher) == 1 &&
        tlslib.SSL_SESSION_set_protocol_version(psk, TLS1_3_VERSION) == 1)
        return psk;
    if (psk)
        tlslib.SSL_SESSION_free(psk);
    return NULL;
}

static struct tls_session *session_of(const SSL *ssl)
{
    return tlslib.SSL_get_ex_data(ssl, 0);
}

/* On the other nodes: their identity and the secret. Without a session the handshake fails. */
static int on_use_psk(SSL *ssl, const EVP_MD *md, const unsigned char **ret_id, size_t *ret_len,
                      SSL_SESSION **ret)
{
    struct tls_session *session = session_of(ssl);
    *ret = new_psk(session); /* no check of `md` is needed: it can only be the hash of SUITE */
    *ret_id = (const unsigned char *)session->tls->identity;
    *ret_len = *ret ? strlen(session->tls->identity) : 0;
    return 1;
}

/* For the log: keeps an unknown identity if it is printable. */
static void keep_asked(struct tls_session *session, const unsigned char *id, size_t len)
{
    if (len >= sizeof session->asked)
        return;
    for (size_t i = 0; i < len; i++)
        if (id[i] < ' ' || id[i] > '~')
            return;
    memcpy(session->asked, id, len);
    session->asked[len] = '\0';
}

/* On node 0. */
static int on_find_psk(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **ret)
{
    struct tls_session *session = session_of(ssl);
    const char *wanted = session->tls->identity;
    *ret = NULL;
    if (len == strlen(wanted) && memcmp(id, wanted, len) == 0)
        *ret = new_psk(session);
    else
        keep_asked(session, id, len);
    return 1;
}

/* ---- what OpenSSL reads and writes through ---- */

/* False: the other side does not speak TLS, so its bytes must not reach OpenSSL. */
static bool look_at_first(struct tls_session *session)
{
    uint8_t first[2];
    ssize_t n = recv(session->below.fd, first, sizeof first, MSG_PEEK);
    session->has_begun = n > 0;
    session->is_plain = n > 0 && !tls_is_record(first, (size_t)n);
    return !session->is_plain;
}

static int tls_on_read(BIO *bio, char *data, int size)
{
    struct tls_session *session = tlslib.BIO_get_data(bio);
    tlslib.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    if (!session->has_begun && !look_at_first(session))
        return -1;
    ssize_t n = session->below.kind->read(&session->below, data, (size_t)size, &session->failure);
    if (n > 0)
        return (int)n;
    session->is_ended = session->is_ended || n == STREAM_END;
    if (n == STREAM_WANT_READ)
        tlslib.BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
    return n == STREAM_END ? 0 : -1;
}

static int tls_on_write(BIO *bio, const char *data, int size)
{
    struct tls_session *session = tlslib.BIO_get_data(bio);
    tlslib.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    ssize_t n = session->below.kind->write(&session->below, data, (size_t)size, &session->failure);
    if (n == STREAM_WANT_WRITE)
        tlslib.BIO_set_flags(bio, BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY);
    return n > 0 ? (int)n : -1;
}

static long on_control(BIO *bio, int command, long number, void *data)
{
    struct tls_session *session = tlslib.BIO_get_data(bio);
    if (command == BIO_CTRL_EOF)
        return session->is_ended;
    return command == BIO_CTRL_FLUSH; /* a flush succeeds: nothing is buffered */
}

/* ---- what went wrong ---- */

static bool tls_fail(struct err *err, const char *text)
{
    return err_set(err, ERR_PEER, 0, "%s", text);
}

/* Node 0 refuses by an alert. An alert says little, but only few causes are possible. */
static bool explain_alert(const struct tls_session *session, int alert, const char *reason,
                          struct err *err)
{
    if (alert == SSL_AD_ILLEGAL_PARAMETER || alert == SSL_AD_DECRYPT_ERROR)
        return tls_fail(err, "node 0 has another key; all nodes need the same cluster.key_file");
    if (alert == SSL_AD_HANDSHAKE_FAILURE)
        return err_set(err, ERR_PEER, 0, "node 0 does not know job \"%.63s\"; " JOB_ADVICE,
                       session->tls->identity + strlen(IDENTITY));
    if (alert == SSL_AD_PROTOCOL_VERSION)
        return err_set(err, ERR_PROTOCOL, 0, "it does not speak TLS 1.3");
    return err_set(err, ERR_PEER, 0, "node 0 refuses the handshake: %.60s", reason);
}

/* ERR_USAGE: the other side is a pchrun, and a user can correct the setting. ERR_PROTOCOL: it is
 * another program. */
static bool explain_handshake(const struct tls_session *session, int code, const char *reason,
                              struct err *err)
{
    if (session->is_ours && code > SSL_AD_REASON_OFFSET)
        return explain_alert(session, code - SSL_AD_REASON_OFFSET, reason, err);
    if (code == SSL_R_BINDER_DOES_NOT_VERIFY)
        return err_set(err, ERR_USAGE, 0,
                       "it has another key; all nodes need the same cluster.key_file");
    if (str_starts(session->asked, IDENTITY))
        return err_set(
            err, ERR_USAGE, 0, "it belongs to job \"%.63s\", this is job \"%.63s\"; " JOB_ADVICE,
            session->asked + strlen(IDENTITY), session->tls->identity + strlen(IDENTITY));
    if (session->is_ours && code == SSL_R_CERTIFICATE_VERIFY_FAILED)
        return err_set(err, ERR_PROTOCOL, 0, "it shows a certificate");
    if (session->is_ended)
        return tls_fail(err, "closed by the other side during the handshake");
    return err_set(err, ERR_PEER, 0, "the TLS handshake failed: %.60s", reason);
}

/* Does the work of ERR_GET_REASON(), which differs between the versions of OpenSSL. In each version
 * the reasons of TLS fit into these bits. */
static int tls_code(unsigned long error)
{
    return (int)(error & 0xfff);
}

static const char *tls_reason(unsigned long error)
{
    const char *reason = error ? tlslib.ERR_reason_error_string(error) : NULL;
    return reason ? reason : "OpenSSL gives no reason";
}

/* Turns an OpenSSL result without bytes into a stream_result. `at_end`: what an end means; NULL: an
 * end is no failure. */
static ssize_t result_of(struct tls_session *session, int n, const char *at_end, struct err *err)
{
    int code = tlslib.SSL_get_error(session->ssl, n);
    if (code == SSL_ERROR_WANT_READ)
        return STREAM_WANT_READ;
    if (code == SSL_ERROR_WANT_WRITE)
        return STREAM_WANT_WRITE;
    unsigned long error = tlslib.ERR_peek_error();
    const char *reason = tls_reason(error);
    /* The other side has closed without an alert: only the connection was lost. */
    bool is_end = code == SSL_ERROR_ZERO_RETURN || (session->is_ready && session->is_ended);
    session->is_broken = session->is_broken || code != SSL_ERROR_ZERO_RETURN;
    if (is_end && !at_end)
        return STREAM_END;
    if (is_end)
        tls_fail(err, at_end);
    else if (session->failure.code != ERR_NONE && !session->is_ended)
        *err = session->failure;
    else if (!session->is_ready)
        explain_handshake(session, tls_code(error), reason, err);
    else
        err_set(err, ERR_PEER, 0, "%s was damaged on the way: %.60s",
                tls_code(error) > SSL_AD_REASON_OFFSET ? "data sent to it"
                                                       : "data received from it",
                reason);
    return STREAM_FAILED;
}

/* ---- the kind of stream ---- */

static void free_session(struct tls_session *session)
{
    if (session->ssl)
        tlslib.SSL_free(session->ssl);
    free(session);
}

static ssize_t tls_handshake(struct stream *stream, struct err *err)
{
    struct tls_session *session = stream->session;
    tlslib.ERR_clear_error(); /* an old error would look like the cause of the next failure */
    int n = tlslib.SSL_do_handshake(session->ssl);
    if (session->is_plain) {
        free_session(session);
        *stream = (struct stream){.fd = stream->fd, .kind = &stream_plain};
        return STREAM_FOREIGN;
    }
    if (n != 1)
        return result_of(session, n, "closed by the other side during the handshake", err);
    session->is_ready = true;
    /* The settings below make sure of the key and the version. The check stays, because all
     * security depends on both. */
    if (tlslib.SSL_session_reused(session->ssl) == 1 &&
        tlslib.SSL_version(session->ssl) == TLS1_3_VERSION)
        return 1;
    session->is_broken = true;
    tls_fail(err, "the handshake did not use the key");
    return STREAM_FAILED;
}

static ssize_t tls_read(struct stream *stream, void *data, size_t size, struct err *err)
{
    struct tls_session *session = stream->session;
    tlslib.ERR_clear_error();
    int n = tlslib.SSL_read(session->ssl, data, size < INT_MAX ? (int)size : INT_MAX);
    return n > 0 ? n : result_of(session, n, NULL, err);
}

static ssize_t tls_write(struct stream *stream, const void *data, size_t size, struct err *err)
{
    struct tls_session *session = stream->session;
    tlslib.ERR_clear_error();
    int n = tlslib.SSL_write(session->ssl, data, size < INT_MAX ? (int)size : INT_MAX);
    return n > 0 ? n : result_of(session, n, "closed by the other side", err);
}

static bool tls_has_more(const struct stream *stream)
{
    const struct tls_session *session = stream->session;
    return tlslib.SSL_has_pending(session->ssl) == 1;
}

/* Sends the close alert; its loss does no harm. */
static void tls_end(struct stream *stream)
{
    struct tls_session *session = stream->session;
    if (!session->is_ready || session->is_broken)
        return;
    tlslib.ERR_clear_error();
    (void)tlslib.SSL_shutdown(session->ssl);
}

static void tls_close(struct stream *stream)
{
    free_session(stream->session);
}

static const struct stream_kind stream_tls = {.handshake = tls_handshake,
                                              .read = tls_read,
                                              .write = tls_write,
                                              .has_more = tls_has_more,
                                              .end = tls_end,
                                              .close = tls_close};

static bool open_session(struct tls_session *session)
{
    session->ssl = tlslib.SSL_new(session->tls->context);
    BIO *bio = session->ssl ? tlslib.BIO_new(session->tls->transport) : NULL;
    if (!bio)
        return false;
    tlslib.BIO_set_data(bio, session);
    tlslib.BIO_set_init(bio, 1);
    tlslib.SSL_set_bio(session->ssl, bio, bio); /* ssl owns bio from here on */
    if (tlslib.SSL_set_ex_data(session->ssl, 0, session) != 1)
        return false;
    if (session->is_ours)
        tlslib.SSL_set_connect_state(session->ssl);
    else
        tlslib.SSL_set_accept_state(session->ssl);
    if (session->is_ours) /* no node has a certificate, so any certificate must fail */
        tlslib.SSL_set_verify(session->ssl, SSL_VERIFY_PEER, NULL);
    return true;
}

bool tls_stream(struct tls *tls, int fd, bool is_ours, struct stream *ret)
{
    struct stream stream = {.fd = fd, .kind = &stream_plain};
    struct tls_session *session = calloc(1, sizeof *session);
    if (session) {
        session->tls = tls;
        session->is_ours = is_ours;
        session->below = stream;
        if (open_session(session)) {
            *ret = (struct stream){.fd = fd, .kind = &stream_tls, .session = session};
            return true;
        }
        free_session(session);
    }
    stream_close(&stream);
    return false;
}

void tls_rest(const struct tls *tls)
{
    tlslib_let_go();
}

bool tls_is_record(const uint8_t *data, size_t len)
{
    return len >= 1 && data[0] >= SSL3_RT_CHANGE_CIPHER_SPEC &&
           data[0] <= SSL3_RT_APPLICATION_DATA && (len < 2 || data[1] == SSL3_VERSION_MAJOR);
}

/* ---- what all streams have in common ---- */

static bool set_up_context(struct tls *tls)
{
    SSL_CTX *context = tls->context;
    char groups[] = GROUPS;
    __typeof__(&SSL_CTX_ctrl) control = tlslib.SSL_CTX_ctrl;
    tlslib.SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    control(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    /* A repeated write may find its data moved. Idle buffers would be most of node 0's memory. */
    control(context, SSL_CTRL_MODE,
            SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                SSL_MODE_RELEASE_BUFFERS,
            NULL);
    /* One system call reads a record's header and body. */
    control(context, SSL_CTRL_SET_READ_AHEAD, 1, NULL);
    tlslib.SSL_CTX_set_psk_use_session_callback(context, on_use_psk);
    tlslib.SSL_CTX_set_psk_find_session_callback(context, on_find_psk);
    return control(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) == 1 &&
           control(context, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, NULL) == 1 &&
           control(context, SSL_CTRL_SET_GROUPS_LIST, 0, groups) == 1 &&
           tlslib.SSL_CTX_set_ciphersuites(context, SUITE) == 1 &&
           tlslib.SSL_CTX_set_num_tickets(context, 0) == 1;
}

static bool set_up_transport(struct tls *tls)
{
    tls->transport = tlslib.BIO_meth_new(BIO_TYPE_SOURCE_SINK, "pchrun");
    return tls->transport && tlslib.BIO_meth_set_read(tls->transport, tls_on_read) == 1 &&
           tlslib.BIO_meth_set_write(tls->transport, tls_on_write) == 1 &&
           tlslib.BIO_meth_set_ctrl(tls->transport, on_control) == 1;
}

static bool tls_set_up(struct tls *tls, const struct key *key, const char *job, struct err *err)
{
    snprintf(tls->identity, sizeof tls->identity, IDENTITY "%s", job);
    tls->secret = new_secret();
    if (!tls->secret)
        return err_set(err, ERR_SYSTEM, errno, "cannot keep the key");
    if (!tls_secret(key, job, tls->secret, err))
        return false;
    tls->context = tlslib.SSL_CTX_new(tlslib.TLS_method());
    if (tls->context && set_up_context(tls) && set_up_transport(tls))
        return true;
    return err_set(err, ERR_SYSTEM, 0, "cannot set up TLS 1.3 (%s): %s", SUITE,
                   tls_reason(tlslib.ERR_peek_error()));
}

struct tls *tls_new(const struct key *key, const char *job, struct err *err)
{
    struct tls *tls = calloc(1, sizeof *tls);
    if (!tls) {
        err_set(err, ERR_SYSTEM, ENOMEM, "cannot keep the key");
        return NULL;
    }
    if (tls_set_up(tls, key, job, err))
        return tls;
    tls_free(tls);
    return NULL;
}

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    if (tls->context)
        tlslib.SSL_CTX_free(tls->context);
    if (tls->transport)
        tlslib.BIO_meth_free(tls->transport);
    if (tls->secret) {
        explicit_bzero(tls->secret, TLS_SECRET_BYTES);
        munmap(tls->secret, TLS_SECRET_BYTES);
    }
    free(tls);
}
