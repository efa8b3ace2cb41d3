/* How much goes by: what a kernel finds in the caches depends on it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_REUSE_H
#define FF_REUSE_H

#include "ff/work.h"

/* Nothing has: what is read was just written, and what is written lies where something was left
 * just before, as short-lived gradients do. */
#define FF_REUSE_NEAR ((int64_t)1 << 16)

/* Of `graph` on so many devices, by node, and one more for all nodes. */
struct ff_reuse {
	const struct ff_graph *graph;
	uint32_t n_devices;
	int64_t *values_bytes; /* of what earlier nodes write, and of as many gradients */
	int64_t *parameters;   /* elements of what the first to read them are earlier nodes */
};

/* In memory from `a`; `g` must outlive it. */
int ff_reuse_find(const struct ff_graph *g, uint32_t n_devices, struct ff_arena *a,
		struct ff_reuse *ret, struct ff_error *err);

/* Bytes that a device touches, near enough, in a step or, where there are several, in one of its
 * `micro_batches`: between two updates or two sums of a gradient.  Rounded to a power of the root
 * of two, so that what differs little is measured once. */
int64_t ff_reuse_bytes(const struct ff_reuse *p, uint32_t micro_batches);

/* Bytes that a device touches between the last time that `node` was computed, in the other pass,
 * and this one.  Forward that is what earlier nodes touch since their backward, backward what later
 * ones do: the last node finds in caches what the first one has long lost.  Rounded to a power of
 * two, FF_REUSE_NEAR at least. */
int64_t ff_reuse_node(
		const struct ff_reuse *p, uint32_t micro_batches, uint32_t node, enum ff_pass pass);

/* Bytes touched between the last time that another node, the same way, had `value`, which `node`
 * reads or writes, and `node`; what ff_reuse_node says where none had.  Not rounded. */
int64_t ff_reuse_value(const struct ff_reuse *p, uint32_t micro_batches, uint32_t node,
		enum ff_pass pass, uint32_t value);

#endif
