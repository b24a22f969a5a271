/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest: finds the known name that a mistyped one most probably means. Owns nothing. Any thread;
 * cannot fail.
 */
#pragma once

/* A search. `name` is the nearest name so far; "": none is near enough to be suggested. */
struct nearest {
    const char *typed;
    unsigned distance;
    char name[72];
};

struct nearest nearest_to(const char *typed);
/* Compares one known name. `prefix` is put before it in the result, and is not compared. */
void nearest_consider(struct nearest *nearest, const char *prefix, const char *name);
/* How many letters must change to turn a into b (at most 64 letters are looked at). */
unsigned nearest_distance(const char *a, const char *b);
