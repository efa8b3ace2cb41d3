/* Reuse distances: the bytes that a device touches between two uses of the same data.  They tell
 * what a kernel finds in the caches. SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_REUSE_H
#define FF_REUSE_H

#include "ff/work.h"

/* The shortest reuse distance: inputs were just written, and outputs replace something just freed,
 * as short-lived gradients do. */
#define FF_REUSE_NEAR ((int64_t)1 << 16)

/* Prefix sums over the nodes of `graph` in order: n_nodes + 1 entries. */
struct ff_reuse {
	const struct ff_graph *graph;
	uint32_t n_devices;
	int64_t *values_bytes; /* values written by earlier nodes, and their gradients */
	int64_t *parameters;   /* elements of parameters whose first reader is an earlier node */
};

/* Memory from `a`; `g` must outlive it. */
int ff_reuse_find(const struct ff_graph *g, uint32_t n_devices, struct ff_arena *a,
		struct ff_reuse *ret, struct ff_error *err);

/* About how many bytes a device touches in one of a step's `micro_batches`: between two updates, or
 * two accumulations of a gradient.  Rounded to a power of sqrt(2), so that similar distances are
 * measured once. */
int64_t ff_reuse_bytes(const struct ff_reuse *p, uint32_t micro_batches);

/* Bytes that a device touches between the previous computation of `node`, in the other pass, and
 * this one: forward what earlier nodes touch, backward what later nodes touch.  So the last node
 * finds data in the caches that the first one has long lost.  Rounded to a power of two, at least
 * FF_REUSE_NEAR. */
int64_t ff_reuse_node(
		const struct ff_reuse *p, uint32_t micro_batches, uint32_t node, enum ff_pass pass);

/* Bytes touched between the previous node that used `value` in the same pass, and `node`, which
 * reads or writes it; ff_reuse_node if there is none.  Not rounded. */
int64_t ff_reuse_value(const struct ff_reuse *p, uint32_t micro_batches, uint32_t node,
		enum ff_pass pass, uint32_t value);

#endif
