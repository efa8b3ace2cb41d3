/* Which intervals of a dim are alike.  Two are, whatever their degrees, if they
 * have the same size, divide alike, and every window over them is whole, or both
 * are cut at a border in the same way: then the keys of their parts' costs are
 * the same.  Of a dim that is placed each is like itself alone.  SPDX-License-Identifier:
 * Apache-2.0 */
#include "ff/intervals.h"

#include <stdlib.h>

#include "ff/grow.h"

static const struct ff_operand *operand(const struct ff_node *n, uint32_t i)
{
	if (i < n->n_in)
		return &n->in_map[i];
	return &n->out_map[i - n->n_in];
}

/* Elements from which and up to which term `t` of an axis reaches for [lo, hi)
 * of its dim, whatever the other terms add. */
static void reach(const struct ff_node *n, const struct ff_axis_map *m, uint32_t t, int32_t lo,
		int32_t hi, int64_t *least, int64_t *most)
{
	const struct ff_term *term = &m->term[t];

	if (m->over) { /* never alike: see look_along() */
		*least = -1;
		*most = 0;
		return;
	}
	lo = m->only == FF_ONLY_LAST ? hi - 1 : lo;
	hi = m->only == FF_ONLY_FIRST ? lo + 1 : hi;
	*least = m->offset + (int64_t)(lo / term->div) * term->step;
	*most = (int64_t)m->offset + m->window + (int64_t)((hi - 1) / term->div) * term->step;
	for (uint32_t k = 0; k < m->n_terms; k++) {
		const struct ff_term *other = &m->term[k];

		if (k != t)
			*most += (int64_t)((n->dim[other->dim].extent - 1) / other->div) *
				 other->step;
	}
}

/* Takes into `hash` what axis `m`, of `shape` elements, makes of [lo, hi).
 * True if nothing is cut there, and nothing divided. */
static bool look_along(const struct ff_node *n, const struct ff_axis_map *m, int32_t shape,
		uint32_t dim, int32_t lo, int32_t hi, uint64_t *hash)
{
	bool whole = true;

	for (uint32_t t = 0; t < m->n_terms; t++) {
		const struct ff_term *term = &m->term[t];
		int64_t least, most;

		if ((uint32_t)term->dim != dim)
			continue;
		whole = whole && term->div == 1 && !m->over;
		*hash = ff_hash_mix(*hash, (uint64_t)(lo % term->div));
		reach(n, m, t, lo, hi, &least, &most);
		if (least >= 0 && most <= shape)
			continue;
		whole = false;
		/* a plain axis costs by its size; else the place may matter */
		if (m->n_terms == 1 && m->window == 1 && term->div == 1 && term->step == 1 &&
				!m->over) {
			least = least < 0 ? 0 : least;
			most = most > shape ? shape : most;
			*hash = ff_hash_mix(*hash, most > least ? (uint64_t)(most - least) : 0);
		} else {
			*hash = ff_hash_mix(*hash, UINT64_C(1) << 32 | (uint32_t)lo);
		}
	}
	return whole;
}

/* What the cost of a part over [lo, hi) of the dim depends on.  True if nothing
 * in it depends on the place. */
static bool look_at(const struct ff_node *n, uint32_t dim, int32_t lo, int32_t hi, uint64_t *hash)
{
	bool is_reduction = n->dim[dim].label == FF_DIM_REDUCTION, whole = true;

	/* the first part of a reduction has the bias */
	*hash = ff_hash_mix(ff_hash_mix(0, (uint64_t)(hi - lo)), is_reduction && !lo);
	for (uint32_t i = 0; i < n->n_in + n->n_out; i++) {
		const struct ff_operand *o = operand(n, i);

		for (uint32_t a = 0; a < o->rank; a++) {
			uint64_t here = ff_hash_mix(ff_hash_mix(0, i), a);

			if (!look_along(n, &o->axis[a], o->shape[a], dim, lo, hi, &here))
				whole = false;
			*hash = ff_hash_mix(*hash, here);
		}
	}
	if (n->dim[dim].placed)
		*hash = ff_hash_mix(*hash, (uint64_t)lo);
	return whole && !(is_reduction && !lo) && !n->dim[dim].placed;
}

static bool look_at_part(
		const struct ff_node *n, uint32_t dim, uint32_t degree, uint32_t x, uint64_t *hash)
{
	int32_t extent = n->dim[dim].extent;

	return look_at(n, dim, ff_part_start(extent, degree, x),
			ff_part_start(extent, degree, x + 1), hash);
}

/* How many intervals from `x` on are like it: where neither it nor the last of
 * the same size is cut at a border, none between them is. */
static uint32_t run_of(
		const struct ff_node *n, uint32_t dim, uint32_t degree, uint32_t x, uint64_t *hash)
{
	uint32_t extra = (uint32_t)n->dim[dim].extent % degree, low = x, high;
	uint64_t other;

	if (!look_at_part(n, dim, degree, x, hash))
		return 1;
	high = x < extra ? extra : degree;
	if (look_at_part(n, dim, degree, high - 1, &other))
		return high - x;
	for (high--; high - low > 1;) { /* `low` is whole, `high` is not */
		uint32_t middle = low + (high - low) / 2;

		if (look_at_part(n, dim, degree, middle, &other))
			low = middle;
		else
			high = middle;
	}
	return high - x;
}

#define MOST_KINDS 16 /* of intervals that are remembered: borders, two sizes, and so on */

void ff_intervals_alike(const struct ff_node *n, uint32_t dim, uint32_t degree, uint16_t *like)
{
	struct {
		uint64_t like;
		uint16_t first;
	} kind[MOST_KINDS];
	uint32_t run, kinds = 0;

	for (uint32_t x = 0; x < degree; x += run) {
		uint64_t hash;
		uint32_t k = 0;

		run = run_of(n, dim, degree, x, &hash);
		while (k < kinds && kind[k].like != hash)
			k++;
		for (uint32_t i = x; i < x + run; i++)
			like[i] = k < kinds ? kind[k].first : (uint16_t)x;
		if (k == kinds && kinds < MOST_KINDS) {
			kind[kinds].like = hash;
			kind[kinds++].first = (uint16_t)x;
		}
	}
}

int ff_intervals_start(struct ff_intervals *s, uint32_t max_degree, struct ff_error *err)
{
	int code = FF_OK;

	while (code == FF_OK && s->degree_cap < max_degree + 2)
		code = ff_grow(&s->of_degree, s->degree_cap, &s->degree_cap, sizeof(*s->of_degree),
				err);
	if (code < 0)
		return code;
	s->n = 0;
	s->of_degree[1] = 0;
	return FF_OK;
}

int ff_intervals_add(struct ff_intervals *s, const struct ff_node *n, uint32_t dim, uint32_t degree,
		struct ff_error *err)
{
	uint32_t run, from = s->of_degree[degree];

	for (uint32_t x = 0; x < degree; x += run) {
		uint64_t like;
		uint32_t i = from;

		run = run_of(n, dim, degree, x, &like);
		while (i < s->n && s->interval[i].like != like)
			i++;
		if (i == s->n) {
			int code = ff_grow(&s->interval, s->n, &s->cap, sizeof(*s->interval), err);

			if (code < 0)
				return code;
			s->interval[s->n++] = (struct ff_interval){.like = like, .first = x};
		}
		s->interval[i].count += run;
	}
	s->of_degree[degree + 1] = s->n;
	return FF_OK;
}

void ff_intervals_finish(struct ff_intervals *s)
{
	free(s->interval);
	free(s->of_degree);
	*s = (struct ff_intervals){.n = 0};
}
