/* SPDX-License-Identifier: Apache-2.0
 *
 * shell_say: the first lines of a start in the log: which job this is, where it begins, and how it
 * saves. A part of shell.h. Main thread.
 */
#pragma once

struct shell;

/* On node 0, logs each line once: at the start, before the command can print. With --quiet, as soon
 * as pchrun is sure that the command is a training job: without a state directory and other nodes,
 * only an attached process proves that. */
void shell_say_start(struct shell *shell);
