/* SPDX-License-Identifier: Apache-2.0
 *
 * promtext: metrics in the text format of Prometheus: HELP and TYPE of a name, then its samples.
 * Each sample has the labels of the node. Writes to a stream of the caller. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

struct promtext {
    FILE *out;
    char who[256]; /* the labels that every sample has */
};

/* Each sample from now on is of this job, and of this node. */
void promtext_begin(struct promtext *text, FILE *out, const char *job, int node);
/* Appends a label to the others in dst, escaped as the format wants it. A byte that is not UTF-8
 * becomes '?', since it would make the whole text invalid. */
void promtext_label(char *dst, size_t size, const char *name, const char *value);
/* Begins a metric of this type; the name is without its "pchrun_". */
void promtext_metric(struct promtext *text, const char *type, const char *name, const char *help);
/* The same for a gauge. */
void promtext_head(struct promtext *text, const char *name, const char *help);
/* `more`: labels that this sample has besides; "": none. */
void promtext_sample(struct promtext *text, const char *name, const char *more, double value);
/* A gauge, or a counter, with one sample. */
void promtext_gauge(struct promtext *text, const char *name, const char *help, double value);
void promtext_counter(struct promtext *text, const char *name, const char *help, double value);
