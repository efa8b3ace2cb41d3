/* Buffers, and the place of each.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_MEMORY_H
#define FF_LOWER_MEMORY_H

#include "lower/state/lowering.h"

/* A buffer of `bytes` on `device`, first used by the task at hand; FF_NONE where the device is not
 * lowered. */
uint32_t ff_buffer_new(struct ff_lowering *l, uint32_t device, int64_t bytes);
/* One that lies for good in the device's memory of a bucket, at `offset`; likewise. */
uint32_t ff_buffer_pin(struct ff_lowering *l, uint32_t device, uint32_t bucket, int64_t bytes,
		int64_t offset);
/* The task at hand (the last one) uses `buffer` on its device. */
void ff_buffer_use(struct ff_lowering *l, uint32_t buffer);
/* `buffer` lives until the step ends. */
void ff_buffer_keep(struct ff_lowering *l, uint32_t buffer);
/* Gives every bucket and buffer its place; fills memory_bytes and live_bytes. */
int ff_memory_place(struct ff_lowering *l, struct ff_error *err);

#endif
