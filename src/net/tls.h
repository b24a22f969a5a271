/* SPDX-License-Identifier: Apache-2.0
 *
 * tls: streams between nodes that share a key. They use TLS 1.3 with that pre-shared key only.
 *
 * No certificates, no other version, one cipher suite, no resumption: without the key the handshake
 * fails. The shared secret is derived from the key and the job's name, so nodes of another job with
 * the same key fail, too. A node's own messages cannot be sent back to it: only node 0 accepts, and
 * only the other nodes connect. A struct tls owns the derived secret, in memory that is in no core
 * dump and in no child. The key is not kept. Streams must be closed before tls_free(). Main thread.
 */
#pragma once

#include "base/keyfile.h"
#include "net/stream.h"

#define TLS_SECRET_BYTES 32

struct tls;

/* Loads OpenSSL. NULL: OpenSSL is missing, or memory is short. */
MUST_CHECK struct tls *tls_new(const struct key *key, const char *job, struct err *err);
void tls_free(struct tls *tls);
/* Takes the descriptor of a connected TCP socket. `is_ours`: this node started the connection.
 * False: memory is short, and the descriptor is closed. */
MUST_CHECK bool tls_stream(struct tls *tls, int fd, bool is_ours, struct stream *ret);
/* Call when no handshake is expected soon: frees the memory that only handshakes need. */
void tls_rest(const struct tls *tls);
/* The secret that the nodes of `job` share: one step of HKDF, see pchrun-protocol(7). */
MUST_CHECK bool tls_secret(const struct key *key, const char *job, uint8_t ret[TLS_SECRET_BYTES],
                           struct err *err);
/* True if these first received bytes begin a TLS record. */
bool tls_is_record(const uint8_t *data, size_t len);
