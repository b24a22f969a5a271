/* SPDX-License-Identifier: Apache-2.0
 *
 * healthxid: the Xids that NVIDIA's driver writes into the kernel log, and which of them say that a
 * GPU is broken. Pure.
 *
 * NVIDIA's catalogue of Xids tells what each one needs. Those that need a reset of the GPU, a
 * restart of the machine or a repair count against the node. Those that only end the program
 * (13, 31, 43, 45) or that the GPU has contained (63, 94) do not. Drivers that write Xids from 144
 * tell themselves what the GPU needs (nvml.h).
 */
#pragma once

#include <stdbool.h>

struct xid {
    long long number;             /* of the line in the kernel log: it only grows */
    unsigned domain, bus, device; /* the GPU's place on the PCI bus */
    int xid;
};

/* One record of /dev/kmsg, as "4,1234,98765,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has …". False: it
 * has no Xid. */
bool healthxid_read(const char *line, struct xid *ret);
/* True if the driver says in this record that it was loaded: earlier Xids are over. */
bool healthxid_is_new_driver(const char *line);
/* The number of any record; -1: it has none. */
long long healthxid_number(const char *line);
/* In a few words, if this Xid says that the GPU is broken; otherwise NULL. */
const char *healthxid_meaning(int xid);
