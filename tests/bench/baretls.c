/* SPDX-License-Identifier: Apache-2.0
 * See baretls.h. pchrun's code derives the secret, before the measurement.
 */
#include "bench/baretls.h"

#include "base/keyfile.h"
#include "bench/bench.h"
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <signal.h>

static uint8_t secret[TLS_SECRET_BYTES];

static int on_find_psk(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **ret)
{
    static const unsigned char suite[] = {0x13, 0x01};
    *ret = SSL_SESSION_new();
    if (*ret && SSL_SESSION_set1_master_key(*ret, secret, sizeof secret) == 1 &&
        SSL_SESSION_set_cipher(*ret, SSL_CIPHER_find(ssl, suite)) == 1 &&
        SSL_SESSION_set_protocol_version(*ret, TLS1_3_VERSION) == 1)
        return 1;
    bench_die("no session for the secret");
}

SSL_CTX *baretls_new(const char *key_file, const char *job)
{
    struct err err;
    struct key key;
    if (!keyfile_read(key_file, &key, &err) || !tls_secret(&key, job, secret, &err))
        bench_die("%s", err.text);
    signal(SIGPIPE, SIG_IGN);
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 ||
        SSL_CTX_set1_groups_list(context, "X25519") != 1 ||
        SSL_CTX_set_num_tickets(context, 0) != 1)
        bench_die("OpenSSL cannot be set up");
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_psk_find_session_callback(context, on_find_psk);
    return context;
}

SSL *baretls_accept(SSL_CTX *context, int fd)
{
    SSL *ssl = SSL_new(context);
    if (!ssl || SSL_set_fd(ssl, fd) != 1)
        bench_die("no memory for a connection");
    SSL_set_accept_state(ssl);
    return ssl;
}

ssize_t baretls_read(SSL *ssl, void *data, size_t size)
{
    ERR_clear_error();
    int n = SSL_read(ssl, data, (int)size);
    if (n > 0)
        return n;
    if (SSL_get_error(ssl, n) != SSL_ERROR_WANT_READ)
        return 0;
    errno = EAGAIN;
    return -1;
}
