/* The blocks that a network repeats, found from the graph: names say nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "repeats.h"

#include <math.h>
#include <stdlib.h>

#include "ff/node_class.h"
#include "ff/work.h"

#define MOST_SEGMENTS 4096 /* looked at: the search for a period is quadratic */

/* The operators in a row, preludes and sources left out, cut into segments. */
struct row {
	const struct ff_graph *g;
	uint32_t *class;
	uint32_t *node, n;       /* those with a config */
	uint32_t *place;         /* by node: in that */
	uint32_t *first, n_segs; /* n_segs + 1 places */
};

/* By place the last one that reads something trained that is made there. */
static void find_last_uses(const struct row *r, uint32_t *last)
{
	const struct ff_graph *g = r->g;

	for (uint32_t i = 0; i < r->n; i++)
		last[i] = i;
	for (uint32_t e = 0; e < g->n_edges; e++) {
		uint32_t from = ff_edge_source(g, e), to = ff_node_leader(g, g->edges[e].node);

		if (!ff_node_needs_config(g, from) || !g->values[g->edges[e].value].needs_grad)
			continue;
		if (r->place[to] > last[r->place[from]])
			last[r->place[from]] = r->place[to];
	}
}

static int find_segments(struct row *r, struct ff_arena *a, struct ff_error *err)
{
	uint32_t *last = ff_arena_array(a, r->n, sizeof(*last)), reach = 0;

	r->first = ff_arena_array(a, (size_t)r->n + 1, sizeof(*r->first));
	if (!last || !r->first)
		return ff_fail_memory(err);
	find_last_uses(r, last);
	for (uint32_t i = 0; i < r->n; i++) {
		/* what was made before this one is read no more */
		if (reach <= i)
			r->first[++r->n_segs] = i + 1;
		reach = last[i] > reach ? last[i] : reach;
	}
	if (r->first[r->n_segs] < r->n)
		r->first[++r->n_segs] = r->n;
	return FF_OK;
}

static int find_row(
		const struct ff_graph *g, struct ff_arena *a, struct row *r, struct ff_error *err)
{
	int code = ff_classes_find(g, a, &r->class, err);

	r->g = g;
	r->node = ff_arena_array(a, g->n_nodes, sizeof(*r->node));
	r->place = ff_arena_array(a, g->n_nodes, sizeof(*r->place));
	if (!r->node || !r->place)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_needs_config(g, i)) {
			r->place[i] = r->n;
			r->node[r->n++] = i;
		}
	return code == FF_OK ? find_segments(r, a, err) : code;
}

static uint32_t segment_length(const struct row *r, uint32_t segment)
{
	return r->first[segment + 1] - r->first[segment];
}

/* Whether the operators of two segments are equal, and read each other alike. */
static bool segments_alike(const struct row *r, uint32_t a, uint32_t b)
{
	const struct ff_graph *g = r->g;

	if (segment_length(r, a) != segment_length(r, b))
		return false;
	for (uint32_t i = 0; i < segment_length(r, a); i++) {
		uint32_t x = r->node[r->first[a] + i], y = r->node[r->first[b] + i];
		const struct ff_node *n = &g->nodes[x];

		if (r->class[x] != r->class[y])
			return false;
		for (uint32_t k = 0; k < ff_node_inputs(n); k++) {
			uint32_t p = ff_edge_source(g, n->in + k);
			uint32_t q = ff_edge_source(g, g->nodes[y].in + k);

			if (!ff_node_needs_config(g, p) || !ff_node_needs_config(g, q) ||
					r->place[p] < r->first[a] || r->place[q] < r->first[b])
				continue;
			if (r->place[p] - r->first[a] != r->place[q] - r->first[b])
				return false;
		}
	}
	return true;
}

/* Which segments are blocks: `n` times `period` of them from `first` on. */
struct run {
	uint32_t first, period, n;
	uint32_t operators;
};

static int find_run(const struct row *r, struct ff_arena *a, struct run *ret, struct ff_error *err)
{
	uint32_t *kind = ff_arena_array(a, r->n_segs, sizeof(*kind));
	struct run best = {0};

	if (!kind)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < r->n_segs && i < MOST_SEGMENTS; i++)
		for (kind[i] = 0; !segments_alike(r, kind[i], i); kind[i]++)
			;
	for (uint32_t period = 1; r->n_segs <= MOST_SEGMENTS && period <= r->n_segs / 2; period++) {
		uint32_t from = 0;

		for (uint32_t i = 0; i + period < r->n_segs; i++) {
			struct run now = {.first = from, .period = period};

			if (kind[i] != kind[i + period]) {
				from = i + 1;
				continue;
			}
			now.n = (i + period + 1 - from) / period;
			now.operators = r->first[from + now.n * period] - r->first[from];
			if (now.n > 1 && now.operators > best.operators)
				best = now;
		}
	}
	*ret = best;
	return FF_OK;
}

/* Where a run is longer than whole blocks, those at its beginning count. */
static void mark_blocks(const struct row *r, const struct run *run, struct ff_repeats *ret)
{
	for (uint32_t i = 0; i < r->n_segs; i++) {
		ret->ends[r->node[r->first[i + 1] - 1]] = true;
		for (uint32_t k = r->first[i]; k < r->first[i + 1]; k++)
			ret->block[r->node[k]] =
					i >= run->first && i < run->first + run->n * run->period
							? (i - run->first) / run->period
							: FF_NONE;
	}
	ret->n_blocks = run->n;
}

/* Blocks, with what is before the first and behind the last. */
static void unite_blocks(const struct row *r, struct ff_repeats *ret)
{
	uint32_t unit = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		uint32_t block = ret->block[r->node[i]];

		unit = block != FF_NONE ? block : unit;
		ret->unit[r->node[i]] = unit;
	}
	ret->n_units = ret->n_blocks;
}

static void unite_segments(const struct row *r, struct ff_repeats *ret)
{
	for (uint32_t i = 0; i < r->n_segs; i++)
		for (uint32_t k = r->first[i]; k < r->first[i + 1]; k++)
			ret->unit[r->node[k]] = i;
	ret->n_units = r->n_segs;
}

/* Whether segments divide the graph, so that `least` stages of them may be about equal: not if one
 * has most of the work, as where a decoder reads what an encoder made at every step. */
static bool segments_divide(const struct row *r, const struct ff_machine *m, uint32_t least)
{
	double most = 0, all = 0;

	for (uint32_t i = 0; least > 1 && i < r->n_segs; i++) {
		double here = 0;

		for (uint32_t k = r->first[i]; k < r->first[i + 1]; k++)
			here += ff_node_roofline_s(r->g, m, r->node[k]);
		most = fmax(most, here);
		all += here;
	}
	return r->n_segs >= least && most * least <= 2 * all;
}

int ff_repeats_find(const struct ff_graph *g, const struct ff_machine *m, uint32_t least,
		struct ff_arena *a, struct ff_repeats *ret, struct ff_error *err)
{
	struct ff_repeats found = {0};
	struct row r = {0};
	struct run run = {0};
	int code = find_row(g, a, &r, err);

	if (code == FF_OK)
		code = find_run(&r, a, &run, err);
	if (code < 0)
		return code;
	found.ends = ff_arena_array(a, g->n_nodes, sizeof(*found.ends));
	found.block = ff_arena_array(a, g->n_nodes, sizeof(*found.block));
	found.unit = ff_arena_array(a, g->n_nodes, sizeof(*found.unit));
	if (!found.ends || !found.block || !found.unit)
		return ff_fail_memory(err);
	mark_blocks(&r, &run, &found);
	if (2 * run.operators >= r.n && run.n >= least) {
		unite_blocks(&r, &found);
	} else if (segments_divide(&r, m, least)) {
		unite_segments(&r, &found);
	} else {
		for (uint32_t i = 0; i < r.n; i++)
			found.unit[r.node[i]] = i;
		found.n_units = r.n;
	}
	*ret = found;
	return FF_OK;
}

/* ---- stages ---- */

double ff_node_roofline_on_s(
		const struct ff_graph *g, const struct ff_device_kind *kind, uint32_t node)
{
	const struct ff_node *n = &g->nodes[node];
	struct ff_region box = {.rank = n->n_dims};
	struct ff_work *w = malloc(sizeof(*w));
	double s = 0;

	for (uint32_t d = 0; d < n->n_dims; d++)
		box.hi[d] = n->dim[d].extent;
	for (int pass = 0; pass < 2 && w; pass++) {
		ff_work_fill(g, node, &box, (enum ff_pass)pass, w);
		s += fmax((double)ff_work_flops(w) / ff_device_flops_per_s(kind, ff_work_type(w)),
				(double)ff_work_bytes(w) / kind->memory_bytes_per_s);
	}
	free(w);
	return s;
}

double ff_node_roofline_s(const struct ff_graph *g, const struct ff_machine *m, uint32_t node)
{
	return ff_node_roofline_on_s(g, ff_device_kind(m, 0), node);
}

/* Costs in a row that are cut into runs, each of which is so many times as slow. */
struct cuts {
	const double *cost, *slow;
	uint32_t n, stages;
	bool *ends; /* scratch: behind so many costs, as an even number of stages may, or an odd */
};

static double slowness(const struct cuts *c, uint32_t stage)
{
	return c->slow ? c->slow[stage] : 1;
}

/* Where `stage` may end, none above `limit`, if those before it end where `ends` says. */
static void end_stage(
		const struct cuts *c, uint32_t stage, double limit, const bool *ends, bool *ret)
{
	uint32_t first = 0, begins = 0; /* the earliest begin, and how many there are from it on */
	double sum = 0, slow = slowness(c, stage);

	ret[0] = false;
	for (uint32_t i = 1; i <= c->n; i++) {
		sum += c->cost[i - 1];
		begins += ends[i - 1];
		while (first < i && sum * slow > limit) {
			sum = first + 1 < i ? sum - c->cost[first] : 0;
			begins -= ends[first++];
		}
		ret[i] = begins > 0;
	}
}

static bool fits_below(const struct cuts *c, double limit)
{
	bool *ends = c->ends, *next = c->ends + c->n + 1;

	for (uint32_t i = 0; i <= c->n; i++)
		ends[i] = i == 0;
	for (uint32_t s = 0; s < c->stages; s++) {
		bool *swap = ends;

		end_stage(c, s, limit, ends, next);
		ends = next;
		next = swap;
	}
	return ends[c->n];
}

/* The least that the largest run can be. */
static double least_largest(const struct cuts *c)
{
	double low = 0, high = 0, least = slowness(c, 0), most = least;

	for (uint32_t s = 1; s < c->stages; s++) {
		least = fmin(least, slowness(c, s));
		most = fmax(most, slowness(c, s));
	}
	for (uint32_t i = 0; i < c->n; i++) {
		low = fmax(low, c->cost[i] * least);
		high += c->cost[i] * most;
	}
	for (int i = 0; i < 50; i++) {
		double mid = (low + high) / 2;

		*(fits_below(c, mid) ? &high : &low) = mid;
	}
	return high;
}

/* How much `stages` stages from `first` on can take of costs, a little more for rounding. */
static double room(const struct cuts *c, uint32_t first, uint32_t stages, double limit)
{
	double sum = 0;

	for (uint32_t s = first; s < first + stages; s++)
		sum += limit / slowness(c, s);
	return sum * (1 + 1e-6);
}

/* squares[i]: the least sum of squares of the costs before i in the stages before `stage`;
 * from[i]: where that begins.  Cuts behind which the stages to come have no room are left out:
 * else thousands of nodes would be tried with thousands.  before[i]: the costs before i. */
static void add_stage(const struct cuts *c, uint32_t stage, double limit, const double *before,
		const double *squares, double *ret, uint32_t *from)
{
	double slow = slowness(c, stage), most = room(c, 0, stage + 1, limit);
	double least = before[c->n] - room(c, stage + 1, c->stages - 1 - stage, limit);
	double earlier = before[c->n] - room(c, stage, c->stages - stage, limit);

	for (uint32_t i = 0; i <= c->n; i++) {
		double sum = 0;

		ret[i] = INFINITY;
		if (before[i] < least || before[i] > most)
			continue;
		for (uint32_t k = i; k-- > 0 && before[k] >= earlier;) {
			sum += c->cost[k] * slow;
			if (sum > limit)
				break;
			if (squares[k] + sum * sum < ret[i]) {
				ret[i] = squares[k] + sum * sum;
				from[i] = k;
			}
		}
	}
}

int ff_stages_balance(const double *cost, uint32_t n, const double *slow, uint32_t stages,
		struct ff_arena *a, uint16_t *stage, struct ff_error *err)
{
	struct cuts c = {cost, slow, n, stages,
			ff_arena_array(a, 2 * ((size_t)n + 1), sizeof(*c.ends))};
	double *squares = ff_arena_array(a, 3 * ((size_t)n + 1), sizeof(*squares));
	uint32_t *from = ff_arena_array(a, stages * ((size_t)n + 1), sizeof(*from)), end = n;
	double *now = squares + n + 1, *before = now + n + 1, *swap, limit;

	if (!c.ends || !squares || !from)
		return ff_fail_memory(err);
	limit = least_largest(&c) * (1 + 1e-9);
	before[0] = 0;
	for (uint32_t i = 1; i <= n; i++) {
		squares[i] = INFINITY;
		before[i] = before[i - 1] + cost[i - 1];
	}
	for (uint32_t s = 0; s < stages; s++) {
		add_stage(&c, s, limit, before, squares, now, from + (size_t)s * (n + 1));
		swap = squares;
		squares = now;
		now = swap;
	}
	for (uint32_t s = stages; s-- > 0;) {
		uint32_t first = from[(size_t)s * (n + 1) + end];

		for (uint32_t i = first; i < end; i++)
			stage[i] = (uint16_t)s;
		end = first;
	}
	return FF_OK;
}
