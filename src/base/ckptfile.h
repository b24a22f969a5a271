/* SPDX-License-Identifier: Apache-2.0
 *
 * ckptfile: is there a checkpoint at a path that a rank has reported? Used by libpch at a save, and
 * by pchrun before it resumes. Owns nothing. Blocks as long as the file system does. Any thread.
 */
#pragma once

enum ckptfile {
    CKPTFILE_ABSENT,
    CKPTFILE_THERE,
    CKPTFILE_UNKNOWN, /* no permission to look, or an error of the file system */
};

/* `path` is absolute. It names a file, a directory, or the prefix of a TensorFlow checkpoint. A
 * dangling symbolic link counts as absent. */
enum ckptfile ckptfile_look(const char *path);
