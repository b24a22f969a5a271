/* SPDX-License-Identifier: Apache-2.0
 *
 * lastline: the last line, for Kubernetes (/dev/termination-log), which shows it in the pod's
 * status. A child overwrites the file in place; pchrun waits two seconds at most. A failure is
 * logged at debug level only. Main thread, when nothing else runs any more.
 */
#ifndef PCHRUN_STATUS_LASTLINE_H
#define PCHRUN_STATUS_LASTLINE_H

/* The file that Kubernetes makes. Outside of Kubernetes it may belong to any program, so it is not
 * written there. */
#define LASTWORD_FILE "/dev/termination-log"

/* `path`: the value of termination_log; NULL: write nothing. */
void lastline_write(const char *path, const char *text);

#endif
