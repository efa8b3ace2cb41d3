/* Where in device memory things lie.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_ADDRESS_H
#define FF_EXEC_ADDRESS_H

#include "communication.h"
#include "ff/bucket_layout.h"

/* The memory of `buffer`; NULL for FF_NONE and for devices hosted elsewhere. */
void *ff_address_buffer(const struct ff_executor *x, uint32_t buffer);
/* The arrays of a bucket's device at `position` (ff_bucket_layout); NULL if hosted elsewhere. */
char *ff_address_bucket(const struct ff_executor *x, uint32_t bucket, uint32_t position);
/* One of them, FF_ARRAY_WEIGHTS, FF_ARRAY_GRADIENTS or a state, and which of the bucket's elements
 * it has: those from `first` up to `end`. */
float *ff_address_array(const struct ff_executor *x, uint32_t bucket, uint32_t position,
		uint32_t array, int64_t *first, int64_t *end);
/* The elements that the device at `position` updates: all, or of a flat bucket its run. */
void ff_address_run(const struct ff_bucket *b, uint32_t position, int64_t *first, int64_t *end);
/* In such a bucket's memory, what of its gradients was not sent; only where they are compressed. */
float *ff_address_residual(const struct ff_executor *x, uint32_t bucket, char *at);
/* What a device hosted here has not sent of a piece that is compressed. */
float *ff_address_move_residual(
		const struct ff_executor *x, const struct ff_task *t, const struct ff_piece *p);
/* Of the device at `position`, its weights rounded to what the graph computes in, elements `first`
 * up to `end`; NULL where the graph computes in float32. */
uint16_t *ff_address_rounded(const struct ff_executor *x, uint32_t bucket, uint32_t position,
		int64_t *first, int64_t *end);

/* The sending or receiving shards' side of a move. */
struct ff_ends {
	const uint32_t *source, *sink; /* buffers by part */
	uint32_t source_node, sink_node;
	const struct ff_operand *source_map, *sink_map;
};
void ff_address_ends(const struct ff_transfer *t, struct ff_ends *ret);
/* The position of `device` in a move. */
uint32_t ff_address_position(const struct ff_move *mv, uint32_t device);
void *ff_address_stage(const struct ff_transfer *t, uint32_t position);

#endif
