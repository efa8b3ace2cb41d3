/* The numbers that flow through a schedule in test_flow.c: what every element is, every
 * partial result and every contribution to a gradient.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TESTS_FLOW_H
#define FF_TESTS_FLOW_H

#include <string.h>

#include "ff/hash.h"
#include "ff/schedule.h"
#include "placed.h"

struct flow {
	struct ff_schedule s;
	double *memory[PLACED_DEVICES]; /* one number a byte, an element at its first */
	double **gradient; /* by value and micro-batch (parameters: all in one): dense */
	uint32_t micro;    /* of the task at hand */
	/* Of a flat bucket that is being updated: the device's run, elements, and where the shard
	 * at hand begins. */
	int64_t run, run_end, shard;
	/* Of a scattered one: where its first element would lie, were there room before the run. */
	double *summed_at;
	uint32_t dropped, scattered, across, summed_before, joined, kinds[8],
			reductions[FF_REDUCE_COUNT], syncs, gathers, micro_batches, recomputed,
			brought_again, groups_apart, groups_cut, summed, types[FF_DTYPE_COUNT];
};

/* Visits all positions of a region that is not empty. */
static inline bool step(const struct ff_region *r, int32_t *at)
{
	for (uint32_t i = r->rank; i-- > 0;) {
		if (++at[i] < r->hi[i])
			return true;
		at[i] = r->lo[i];
	}
	return false;
}

static inline struct ff_region whole_of(const struct ff_value *v)
{
	struct ff_region r = {.rank = v->rank};

	memcpy(r.hi, v->shape, sizeof(v->shape));
	return r;
}

/* A small whole number for each position, so that sums are exact. */
static inline double number(uint64_t salt, uint32_t rank, const int32_t *at)
{
	uint64_t h = salt;

	for (uint32_t i = 0; i < rank; i++)
		h = ff_hash_mix(h, (uint64_t)(uint32_t)at[i]);
	return (double)(ff_hash_mix(h, 1) % 1000);
}

/* Parameters are what they are in all micro-batches, everything else differs. */
static inline uint32_t micro_of(const struct flow *f, uint32_t value)
{
	return f->s.graph->values[value].kind == FF_VALUE_PARAMETER ? 0 : f->micro;
}

static inline uint64_t salt_of(const struct flow *f, uint32_t value)
{
	return value + (uint64_t)micro_of(f, value) * 15485863;
}

static inline double element(const struct flow *f, uint32_t value, const int32_t *at)
{
	return number(salt_of(f, value), f->s.graph->values[value].rank, at);
}

static inline double *gradient(const struct flow *f, uint32_t value)
{
	return f->gradient[(size_t)value * f->s.strategy->micro_batches + micro_of(f, value)];
}

/* Where a node's part has a position: among `n` partials, number `index`. */
struct partial {
	uint32_t index, n;
};

/* Along the dim of a term that divides, those that share position `at`. */
static inline void share_partial(struct partial *p, const struct ff_dim *dim,
		const struct ff_term *t, uint32_t degree, uint32_t coord, int32_t at)
{
	uint32_t n = 0, index = 0;

	for (uint32_t i = 0; i < degree; i++) {
		bool meets = ff_part_start(dim->extent, degree, i) / t->div <= at &&
			     (ff_part_start(dim->extent, degree, i + 1) - 1) / t->div >= at;

		n += meets;
		index += meets && i < coord;
	}
	p->index = p->index * n + index;
	p->n *= n;
}

static inline struct partial partial_of(const struct flow *f, uint32_t node,
		const struct ff_operand *o, uint32_t part, const int32_t *at)
{
	const struct ff_node *n = &f->s.graph->nodes[node];
	struct partial p = {0, 1};
	uint32_t coord[FF_MAX_DIMS];
	bool cuts[FF_MAX_DIMS] = {0};

	ff_config_coords(n, &f->s.config[node], part, coord);
	for (uint32_t i = 0; i < o->rank; i++)
		for (uint32_t t = 0; t < o->axis[i].n_terms; t++) {
			const struct ff_term *term = &o->axis[i].term[t];

			cuts[term->dim] = true;
			if (term->div > 1)
				share_partial(&p, &n->dim[term->dim], term,
						f->s.config[node].degree[term->dim],
						coord[term->dim], at[i]);
		}
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (!cuts[d]) {
			p.index = p.index * f->s.config[node].degree[d] + coord[d];
			p.n *= f->s.config[node].degree[d];
		}
	return p;
}

static inline const struct ff_operand *output_of(const struct flow *f, uint32_t value)
{
	const struct ff_value *v = &f->s.graph->values[value];

	return &f->s.graph->nodes[v->producer].out_map[v->port];
}

/* Partials differ, and what the value's reduction makes of them is the element. */
static inline double partial_element(
		const struct flow *f, uint32_t value, struct partial p, const int32_t *at)
{
	uint32_t rank = f->s.graph->values[value].rank, op = output_of(f, value)->reduce;
	double rest = element(f, value, at);

	if (op == FF_REDUCE_MAX) /* one of them is it */
		return rest - (p.index == (uint32_t)(rest + at[0]) % p.n ? 0 : 1 + p.index);
	if (op == FF_REDUCE_MOMENTS)
		return p.index ? 0 : rest; /* the others have seen no elements */
	if ((op == FF_REDUCE_LOG_SUM_EXP || op == FF_REDUCE_TIES) && at[rank - 1] == 0)
		return rest; /* equally large, so that each largest but one is among the others */
	if (op == FF_REDUCE_LOG_SUM_EXP && p.index == 0)
		rest -= p.n - 1;
	if (p.index)
		return number(salt_of(f, value) + (uint64_t)p.index * 1000003, rank, at);
	for (uint32_t k = 1; k < p.n; k++)
		rest -= number(salt_of(f, value) + (uint64_t)k * 1000003, rank, at);
	return rest;
}

/* What a cell of a reader adds to the gradient of what it reads. */
static inline double contribution(
		const struct flow *f, uint32_t edge, uint32_t part, const int32_t *at)
{
	uint32_t node = f->s.graph->edges[edge].node;
	uint32_t cell = part % ff_config_cells(&f->s.config[node]);
	const struct ff_value *v = &f->s.graph->values[f->s.graph->edges[edge].value];

	return number(7000000007 + (uint64_t)edge * 4099 + cell + (uint64_t)f->micro * 104729,
			v->rank, at);
}

#endif
