/* Communication tasks, as the files share them that carry them out.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_COMMUNICATION_H
#define FF_EXEC_COMMUNICATION_H

#include "exec/core/state.h"

struct ff_averaging; /* averaging.c */
struct ff_packing;   /* packing.c */

struct ff_fill {
	void *memory;
	int64_t n; /* elements */
};

/* A communication task as what this process does of it, in this order: fills, copies
 * into the stage or to what was not sent, messages that are compressed, what is posted, messages
 * that are decoded beside the sinks, copies out of it, messages that are decoded into the sinks,
 * which may begin with such a copy; or a load. */
struct ff_transfer {
	struct ff_executor *x;
	const struct ff_task *task;
	uint32_t n_fills, n_before, n_after, n_parcels;
	struct ff_fill *fill;
	struct ff_copy *before, *after;
	struct ff_parcel *parcel;
	uint32_t n_encoded, n_aside, n_decoded;
	struct ff_coding *encoded, *aside, *decoded;
	struct ff_collective collective; /* n_devices 0: none */
	/* Instead: of a bucket in groups one in each, then one of each run among them. */
	uint32_t n_grouped;
	struct ff_collective *grouped;
	struct ff_packing *packing;     /* of a bucket: NULL, or it goes compressed */
	struct ff_averaging *averaging; /* of a bucket: NULL, or of weights and states */
	void *sink, *load;              /* LOAD: where to, and the host memory on the way there */
	size_t prefetched;              /* LOAD: or else the place in a slot */
};

#endif
