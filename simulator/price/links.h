/* Prices of messages and collectives, by measured tables or by the links' latencies and bandwidths.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_LINKS_H
#define FF_SIMULATOR_LINKS_H

#include "ff/costs.h"
#include "ff/price.h"
#include "ff/schedule.h"
#include "tables.h"
#include "wired.h"

/* Bytes of one move, by node; zero between moves. */
struct ff_node_tally {
	double inside_bytes, out_bytes, in_bytes;
};

struct ff_links {
	const struct ff_machine *machine;
	enum ff_estimate estimate;          /* if `costs` is NULL */
	const struct ff_costs *costs;       /* NULL: nothing was measured */
	struct ff_link *inside;             /* by node: the measured link, or the machine file's */
	struct ff_node_tally *node;         /* scratch */
	struct ff_traffic *traffic;         /* by device; scratch */
	struct ff_pair_tables beside, pair; /* of two devices of a node, of two nodes */
	/* Factors of measured times for overlap with compute, inside a node and between nodes. */
	double inside_times, between_times;
	bool by_nodes;         /* collectives run in stages if they can (ff/nodes.h) */
	struct ff_wired wired; /* NCCL's model; its machine is NULL: plain rings over the links */
};

/* A collective among at least two devices. */
struct ff_shared {
	enum ff_move_kind kind;
	enum ff_reduce reduce;
	uint32_t n;
	const uint16_t *device; /* ascending */
	int64_t size, elements; /* bytes of an element; of the whole array */
	int64_t chunk_bytes;    /* gather, scatter: the largest chunk of one device */
	bool regular;           /* gather, scatter: as ff_move has it */
};

int ff_links_init(struct ff_links *l, const struct ff_machine *m, enum ff_estimate estimate,
		const struct ff_costs *costs, struct ff_error *err);
void ff_links_finish(struct ff_links *l);
/* Microseconds of a collective, without packing and adding on devices. */
double ff_links_shared_us(const struct ff_links *l, const struct ff_shared *x);
/* Concurrent all-reduces of `elements` elements of `size` bytes: the devices form groups of `each`,
 * and those of equal place in their groups reduce with each other. */
double ff_links_across_us(const struct ff_links *l, uint32_t n, uint32_t each,
		const uint16_t *device, int64_t elements, int64_t size);
double ff_links_messages_us(const struct ff_links *l, const struct ff_move *mv);
/* An all-to-all of `bytes` from each device to each other one. */
double ff_links_all_to_all_us(
		const struct ff_links *l, uint32_t n, const uint16_t *device, int64_t bytes);

#endif
