/* SPDX-License-Identifier: Apache-2.0
 *
 * tlslib: OpenSSL 3 or 1.1.1, loaded when the first key is used and never before.
 *
 * One table holds its functions, so a pchrun without a key neither needs nor loads the library.
 * Both versions have all these functions. A loaded library stays. Only tls.c uses this. Main
 * thread.
 */
#pragma once

#include "base/library.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

/* The functions in use. Some functions of OpenSSL's manual are macros over these. */
#define TLSLIB_FUNCTIONS(F)                  \
    F(OPENSSL_init_ssl)                      \
    F(OpenSSL_version_num)                   \
    F(OpenSSL_version)                       \
    F(ERR_clear_error)                       \
    F(ERR_peek_error)                        \
    F(ERR_reason_error_string)               \
    F(EVP_sha256)                            \
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
    TLSLIB_FUNCTIONS(LIBRARY_POINTER)
};

/* Filled by tlslib_load(), and constant from then on. */
extern struct tlslib tlslib;

/* Loads once, then does nothing. False: OpenSSL is missing or not usable; the error says what to
 * install. */
MUST_CHECK bool tlslib_load(struct err *err);
/* Frees the library's file-backed pages. An open connection needs a tenth of the pages that start
 * and handshake need. The kernel reloads used pages from its cache. */
void tlslib_let_go(void);
