/* SPDX-License-Identifier: Apache-2.0
 *
 * healthvisible: the GPUs that a program may use, by CUDA_VISIBLE_DEVICES, as CUDA reads it. Pure.
 *
 * It is a list of numbers and of UUIDs, which may be cut short ("GPU-8932f9"). An entry that is
 * neither ends the list: "-1", or Slurm's "NoDevFiles". An empty list has no GPU.
 */
#pragma once

#include <stdbool.h>

/* `list` NULL: every GPU is in it. So is each with a list of parts of GPUs (MIG), whose UUIDs do
 * not tell the GPU. `number`: of the GPUs that this process may open, from 0. `uuid` "": it is not
 * known. */
bool healthvisible_has(const char *list, unsigned number, const char *uuid);
/* How many entries are UUIDs. */
unsigned healthvisible_uuids(const char *list);
