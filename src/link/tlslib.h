/* SPDX-License-Identifier: Apache-2.0
 *
 * tlslib: OpenSSL 3, loaded when the first key is used and never before.
 *
 * Its functions are called through one table, so that a pchrun without a key neither needs the
 * library nor pays for it. Once loaded it stays. tls.c alone uses this. Main thread.
 */
#ifndef PCHRUN_LINK_TLSLIB_H
#define PCHRUN_LINK_TLSLIB_H

#include "base/err.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

/* What is used of it. Some of what its manual calls functions are macros over these. */
#define TLSLIB_FUNCTIONS(F)                  \
    F(OPENSSL_init_ssl)                      \
    F(OpenSSL_version_num)                   \
    F(OpenSSL_version)                       \
    F(ERR_clear_error)                       \
    F(ERR_peek_error)                        \
    F(ERR_reason_error_string)               \
    F(EVP_sha256)                            \
    F(EVP_MD_is_a)                           \
    F(HMAC)                                  \
    F(BIO_meth_new)                          \
    F(BIO_meth_free)                         \
    F(BIO_meth_set_read)                     \
    F(BIO_meth_set_write)                    \
    F(BIO_meth_set_ctrl)                     \
    F(BIO_new)                               \
    F(BIO_set_data)                          \
    F(BIO_get_data)                          \
    F(BIO_set_init)                          \
    F(BIO_set_flags)                         \
    F(BIO_clear_flags)                       \
    F(TLS_method)                            \
    F(SSL_CTX_new)                           \
    F(SSL_CTX_free)                          \
    F(SSL_CTX_ctrl)                          \
    F(SSL_CTX_set_options)                   \
    F(SSL_CTX_set_ciphersuites)              \
    F(SSL_CTX_set_num_tickets)               \
    F(SSL_set_verify)                        \
    F(SSL_CTX_set_psk_use_session_callback)  \
    F(SSL_CTX_set_psk_find_session_callback) \
    F(SSL_new)                               \
    F(SSL_free)                              \
    F(SSL_set_bio)                           \
    F(SSL_set_ex_data)                       \
    F(SSL_get_ex_data)                       \
    F(SSL_set_accept_state)                  \
    F(SSL_set_connect_state)                 \
    F(SSL_do_handshake)                      \
    F(SSL_session_reused)                    \
    F(SSL_version)                           \
    F(SSL_read)                              \
    F(SSL_write)                             \
    F(SSL_has_pending)                       \
    F(SSL_shutdown)                          \
    F(SSL_get_error)                         \
    F(SSL_CIPHER_find)                       \
    F(SSL_SESSION_new)                       \
    F(SSL_SESSION_free)                      \
    F(SSL_SESSION_set1_master_key)           \
    F(SSL_SESSION_set_cipher)                \
    F(SSL_SESSION_set_protocol_version)

struct tlslib {
/* A field cannot stand in parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define TLSLIB_FIELD(name) __typeof__(&name) name;
    TLSLIB_FUNCTIONS(TLSLIB_FIELD)
#undef TLSLIB_FIELD
};

/* The same each time. NULL: it is not there, or is not what it should be; the error says what to
 * install. */
MUST_CHECK const struct tlslib *tlslib_load(struct err *err);
/* Lets go of the library's pages, as far as they are no more than a file's. A connection that is up
 * needs a tenth of what the start and the handshake did; that comes back when it is used, from the
 * system's cache. */
void tlslib_let_go(const struct tlslib *lib);
/* For OpenSSL's callbacks: it is loaded. */
const struct tlslib *tlslib_loaded(void);

#endif
