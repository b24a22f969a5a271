/* SPDX-License-Identifier: Apache-2.0
 *
 * interval: the time between two saves that costs a job the least, by Young and Daly.
 *
 * Saves cost time, and a failure costs the training since the last save. J. Daly, A higher order
 * estimate of the optimum checkpoint interval for restart dumps (2006). Pure.
 */
#pragma once

#include <stdint.h>

/* From the end of a save to the begin of the next, within [least, most], if a save takes `save` and
 * a failure comes every `between`. Any numbers are allowed. */
int64_t interval_best(int64_t save, int64_t between, int64_t least, int64_t most);
