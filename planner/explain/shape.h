/* The shape of a plan: how most of it is split, and what is split otherwise.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_SHAPE_H
#define FF_PLANNER_SHAPE_H

#include <stdio.h>

#include "layers.h"
#include "times.h"

/* Degrees of the operators that take most of the computing time together. */
struct ff_shape {
	uint32_t data, spatial, tensor; /* samples; attributes; parameters and reductions */
	uint32_t replicas;              /* devices that compute the same */
	uint32_t pipeline, chunks, micro_batches; /* shares of devices, stages of each */
	enum ff_order_rule rule;
	uint32_t n_operators, n_others; /* and how many of them are split otherwise */
	uint32_t n_parameters, n_flat, n_dropped;
	uint32_t n_cut;   /* parameters that are updated in parts, by their axes */
	bool scatters;    /* gradients of those that are flat are scattered */
	uint32_t shards;  /* that those are cut in, in each group; 0: over all who read them */
	uint32_t n_again; /* operators computed again */
	int64_t bucket_bytes;
};

#define FF_TOLD_SPLITS 5 /* rows that people are told; all others together are one */

/* Operators that are split alike. */
struct ff_split_row {
	const char *split; /* "sample 8, out_feature 2" */
	const char *names; /* "block0-47.mlp.fc1, head and 3 more" */
	uint32_t n;        /* operators */
	double us;         /* computing, a device's, in the mean */
	/* How much longer the step would be with them split as data parallelism has them, and all
	 * else as it is; NAN: nobody asked, or that cannot be. */
	double gain_us;
};
struct ff_splits {
	uint32_t n;
	struct ff_split_row *row; /* by falling n */
};

/* `g` is of the whole batch; all memory from `a`. */
void ff_shape_find(const struct ff_graph *g, const struct ff_plan *p, const struct ff_times *t,
		int64_t bucket_bytes, struct ff_shape *ret);
int ff_splits_find(const struct ff_graph *g, const struct ff_plan *p, const struct ff_layers *l,
		const struct ff_times *t, struct ff_arena *a, struct ff_splits *ret,
		struct ff_error *err);

/* "data 8, tensor 2, pipeline 4 (1f1b), 8 micro-batches"; "(interleaved, 2 stages each)". */
void ff_shape_words(const struct ff_shape *s, char *buf, size_t size);
/* Both, on `to`, behind `label` in the first line. */
void ff_shape_print(const struct ff_shape *s, const char *label, FILE *to);
/* "updates flat (ZeRO-1), 48 of 583 operators computed again"; "": neither. */
void ff_shape_savings(const struct ff_shape *s, char *buf, size_t size);

#endif
