/* SPDX-License-Identifier: Apache-2.0
 *
 * lastword: the last line, for Kubernetes (/dev/termination-log), which puts it into the pod's
 * status. Written in place by a child of ours, for which we wait two seconds at most; what fails is
 * not worth a word more. Main thread, when nothing else runs any more.
 */
#ifndef PCHRUN_RUN_LASTWORD_H
#define PCHRUN_RUN_LASTWORD_H

/* Where the file is that Kubernetes makes. Elsewhere nobody knows whose a file of this name is, so
 * that it is written only there. */
#define LASTWORD_FILE "/dev/termination-log"

/* `path`: as termination_log has it, NULL: nowhere. */
void lastword_write(const char *path, const char *text);

#endif
