/* What is moved between devices, and onto them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_TRANSFER_H
#define FF_RUNTIME_TRANSFER_H

#include "executor.h"

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
	enum ff_move_kind kind;
	uint32_t n_fills, n_before, n_after, n_parcels;
	struct ff_fill *fill;
	struct ff_copy *before, *after;
	struct ff_parcel *parcel;
	uint32_t n_encoded, n_aside, n_decoded;
	struct ff_coding *encoded, *aside, *decoded;
	struct ff_collective collective; /* n_devices 0: none */
	struct ff_packing *packing;      /* SYNC: NULL, or it goes compressed */
	struct ff_averaging *averaging;  /* SYNC: NULL, or it is of weights and states */
	void *sink, *load;               /* LOAD: where to, and the host memory on the way there */
	size_t prefetched;               /* LOAD: or else the place in a slot */
};

/* The sending or receiving shards' side of a move (address.c). */
struct ff_ends {
	const uint32_t *source, *sink; /* buffers by part */
	uint32_t source_node, sink_node;
	const struct ff_operand *source_map, *sink_map;
};
void ff_address_ends(const struct ff_transfer *t, struct ff_ends *ret);
/* The position of `device` in a move. */
uint32_t ff_address_position(const struct ff_move *mv, uint32_t device);
void *ff_address_stage(const struct ff_transfer *t, uint32_t position);

/* transfer.c: moves and synchronisations. */
int ff_transfer_build(struct ff_executor *x, const struct ff_task *task, struct ff_transfer **ret,
		struct ff_error *err);
int ff_transfer_issue(struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err);

/* collective.c: the collectives among them. */
int ff_collective_build(struct ff_transfer *t, struct ff_error *err);
int ff_sync_build(struct ff_transfer *t, struct ff_error *err);

/* averaging.c: one of weights and states. */
int ff_averaging_build(struct ff_transfer *t, struct ff_error *err);
int ff_averaging_issue(const struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err);

/* packing.c: a synchronisation whose messages are compressed. */
int ff_packing_build(struct ff_transfer *t, struct ff_error *err);
int ff_packing_issue(const struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err);

#endif
