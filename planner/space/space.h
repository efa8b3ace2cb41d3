/* The space's insides, for the planner's own files.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_SPACE_H
#define FF_PLANNER_SPACE_H

#include "ff/space.h"
#include "ff/strategy.h"

/* Degree vectors of all nodes whose dims have the same extents (as far as the
 * machine can tell: an extent above the devices counts as the devices). */
struct ff_degrees {
	uint32_t n_dims, n;
	int32_t cap[FF_MAX_DIMS];
	uint16_t pinned[FF_MAX_DIMS]; /* the only degree; 0: any */
	uint16_t *degree;             /* n * n_dims */
	uint64_t *before;             /* n + 1: configs of the vectors before; saturates */
	/* "Tidy" vectors, whose product divides the number of devices, grouped by
	 * product, ascending. */
	uint32_t *tidy, n_tidy;
	uint32_t *group, n_groups; /* n_groups + 1 offsets into tidy */
};

/* What the configs of an operator must be like. */
struct ff_pin {
	uint16_t degree[FF_MAX_DIMS]; /* 0: any */
	struct ff_config fixed;       /* the only one; n_parts 0: any of these degrees */
};

/* Limits of the space: starts, proposals and exact methods keep to them (limits.c). */
struct ff_limits {
	const struct ff_pin **pin;        /* by node; NULL: none */
	bool no_pipeline;                 /* all operators are in one stage */
	bool tensor_inside_node;          /* parts that have the same samples are in one node */
	uint32_t max_micro;               /* micro-batches, at most; 0: any number */
	const char *why_one;              /* batch alone: the map's reason; NULL: as asked */
	const struct ff_prime_mesh *mesh; /* prime_mesh.h; NULL: any parts on any devices */
};

struct ff_space {
	struct ff_arena arena;
	const struct ff_graph *graph;
	const struct ff_machine *machine;
	struct ff_limits limits;
	uint32_t n_devices;
	uint32_t what;                          /* FF_SPACE_* */
	uint32_t micro[FF_MOST_MICRO], n_micro; /* numbers of micro-batches, ascending from 1 */
	const struct ff_degrees **of;           /* by node; NULL for inputs, parameters, preludes */
	uint32_t divisor[64], n_divisors;       /* of n_devices, ascending */
};

/* From now on there is nothing but what keeps to `l`, whose pins have to outlive `s`; after
 * ff_space_allow.  FF_E_INPUT where an operator has no such config. */
int ff_space_limit(struct ff_space *s, const struct ff_limits *l, struct ff_error *err);
/* Parts of all operators in all micro-batches, which evaluating and lowering take time for: of
 * `plan`, or where each operator has `parts`. */
uint64_t ff_space_instances(const struct ff_space *s, const struct ff_strategy *plan);
uint64_t ff_space_instances_each(const struct ff_space *s, uint32_t micro_batches, uint32_t parts);
/* Whether a search tries a strategy that has so many of both. */
bool ff_space_has_time(uint32_t micro_batches, uint64_t instances);
static inline const struct ff_pin *ff_space_pin(const struct ff_space *s, uint32_t node)
{
	return s->limits.pin ? s->limits.pin[node] : NULL;
}

/* Part 0 runs on `start`; a step along dim d is `stride[d]` devices. */
struct ff_view {
	uint32_t start;
	uint32_t stride[FF_MAX_DIMS];
};

/* Writes the config of `degree` (n_dims of them) on `view`. */
void ff_view_config(uint32_t n_dims, const uint16_t *degree, const struct ff_view *view,
		struct ff_config *ret);
/* Whether the strides are those of a permutation of the split dims times one
 * base stride, and all devices are below `n_devices`. */
bool ff_view_check(uint32_t n_dims, const uint16_t *degree, const struct ff_view *view,
		uint32_t n_devices);
/* The view that `c` is on (strides of dims with degree 1 are 0); of a list the one
 * that its first parts suggest. */
void ff_view_of(uint32_t n_dims, const struct ff_config *c, struct ff_view *ret);
/* A random view for `degree`; `tidy` asks for an aligned block. */
void ff_view_draw(const struct ff_space *s, uint32_t n_dims, const uint16_t *degree, bool tidy,
		struct ff_random *r, struct ff_view *ret);

#endif
