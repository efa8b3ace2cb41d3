/* Placements.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/placement.h"

#include <string.h>

/* Dims that cut one axis, or none, and how parts are numbered along them. */
struct dims {
	uint32_t n, dim[FF_MAX_DIMS];
	const struct ff_config *config;
	uint32_t step[FF_MAX_DIMS]; /* by dim of the node */
};

static uint32_t count(const struct dims *d)
{
	uint32_t n = 1;

	for (uint32_t i = 0; i < d->n; i++)
		n *= d->config->degree[d->dim[i]];
	return n;
}

/* Coordinates of combination `k`, last dim fastest, and what they add to a
 * part's number. */
static uint16_t unpack(const struct dims *d, uint32_t k, uint32_t *coord)
{
	uint32_t part = 0;

	for (uint32_t i = d->n; i-- > 0;) {
		uint32_t dim = d->dim[i], degree = d->config->degree[dim];

		coord[dim] = k % degree;
		part += coord[dim] * d->step[dim];
		k /= degree;
	}
	return (uint16_t)part;
}

bool ff_grid_axis_is_sorted(const struct ff_grid_axis *g)
{
	for (uint32_t k = 1; k < g->n; k++)
		if (g->lo[k] < g->lo[k - 1] || g->hi[k] < g->hi[k - 1])
			return false;
	return true;
}

static int build_axis(const struct ff_node *n, const struct ff_operand *o, uint32_t axis,
		const struct dims *d, struct ff_arena *a, struct ff_grid_axis *ret,
		struct ff_error *err)
{
	struct ff_grid_axis g = {.n = count(d)};
	int32_t *lo = ff_arena_array(a, g.n, sizeof(*lo)),
		*hi = ff_arena_array(a, g.n, sizeof(*hi));
	uint16_t *part = ff_arena_array(a, g.n, sizeof(*part));

	if (!lo || !hi || !part)
		return ff_fail_memory(err);
	for (uint32_t k = 0; k < g.n; k++) {
		uint32_t coord[FF_MAX_DIMS];
		int32_t from[FF_MAX_DIMS], to[FF_MAX_DIMS];

		part[k] = unpack(d, k, coord);
		for (uint32_t i = 0; i < d->n; i++) {
			uint32_t dim = d->dim[i], degree = d->config->degree[dim];

			from[dim] = ff_part_start(n->dim[dim].extent, degree, coord[dim]);
			to[dim] = ff_part_start(n->dim[dim].extent, degree, coord[dim] + 1);
		}
		ff_axis_interval(&o->axis[axis], o->shape[axis], from, to, &lo[k], &hi[k]);
	}
	g.lo = lo;
	g.hi = hi;
	g.part = part;
	g.sorted = ff_grid_axis_is_sorted(&g);
	*ret = g;
	return FF_OK;
}

/* Dims that cut no axis: their coordinates make copies.  Of what only the first
 * of a reduction uses, the others hold nothing. */
static int build_copies(const struct ff_node *n, const struct ff_operand *o, const bool *cuts,
		struct dims *d, struct ff_arena *a, struct ff_placement *ret, struct ff_error *err)
{
	uint32_t coord[FF_MAX_DIMS];
	uint16_t *copy;

	d->n = 0;
	for (uint32_t i = 0; i < n->n_dims; i++)
		if (!cuts[i] && !(o->lead_only && n->dim[i].label == FF_DIM_REDUCTION))
			d->dim[d->n++] = i;
	ret->n_copies = count(d);
	copy = ff_arena_array(a, ret->n_copies, sizeof(*copy));
	if (!copy)
		return ff_fail_memory(err);
	for (uint32_t k = 0; k < ret->n_copies; k++)
		copy[k] = unpack(d, k, coord);
	ret->copy = copy;
	return FF_OK;
}

/* The coordinates of the cell behind that at `coord`. */
static void advance(const struct ff_node *n, const struct ff_config *c, uint32_t *coord)
{
	uint32_t d = n->n_dims;

	while (d-- > 0 && ++coord[d] == c->degree[d])
		coord[d] = 0;
}

/* Coordinates along every axis, by cell. */
static int number_cells(const struct ff_node *n, const struct ff_operand *o,
		const struct ff_config *c, struct ff_arena *a, struct ff_placement *p,
		struct ff_error *err)
{
	for (uint32_t i = 0; i < o->rank; i++) {
		const struct ff_axis_map *m = &o->axis[i];
		uint32_t coord[FF_MAX_DIMS] = {0};
		uint16_t *of = ff_arena_array(a, p->cells, sizeof(*of));

		if (!of)
			return ff_fail_memory(err);
		p->axis[i].of = of;
		for (uint32_t cell = 0; cell < p->cells && p->axis[i].n > 1; cell++) {
			for (uint32_t t = 0; t < m->n_terms; t++)
				of[cell] = (uint16_t)(of[cell] * c->degree[m->term[t].dim] +
						      coord[m->term[t].dim]);
			advance(n, c, coord);
		}
	}
	return FF_OK;
}

/* Parts that hold nothing of what only the first of a reduction uses. */
static int find_idle(const struct ff_node *n, const struct ff_operand *o, const struct ff_config *c,
		struct ff_arena *a, struct ff_placement *p, struct ff_error *err)
{
	uint32_t leads = 1;
	bool *idle;

	for (uint32_t d = 0; d < n->n_dims; d++)
		leads *= n->dim[d].label == FF_DIM_REDUCTION ? c->degree[d] : 1;
	if (!o->lead_only || leads == 1)
		return FF_OK;
	idle = ff_arena_array(a, p->cells, sizeof(*idle));
	if (!idle)
		return ff_fail_memory(err);
	for (uint32_t cell = 0; cell < p->cells; cell++) {
		uint32_t coord[FF_MAX_DIMS];

		ff_config_coords(n, c, cell, coord);
		for (uint32_t d = 0; d < n->n_dims; d++)
			idle[cell] |= n->dim[d].label == FF_DIM_REDUCTION && coord[d] > 0;
	}
	p->idle = idle;
	return FF_OK;
}

void ff_placement_region(const struct ff_placement *p, uint32_t part, struct ff_region *ret)
{
	ret->rank = p->rank;
	for (uint32_t i = 0; i < p->rank; i++) {
		uint32_t k = ff_placement_coordinate(p, i, part);

		ret->lo[i] = p->axis[i].lo[k];
		ret->hi[i] = p->axis[i].hi[k];
	}
	if (p->idle && p->idle[part % p->cells])
		ret->hi[0] = ret->lo[0];
}

int64_t ff_placement_bytes(const struct ff_placement *p, uint32_t part)
{
	struct ff_region r;

	ff_placement_region(p, part, &r);
	return ff_region_volume(&r) * ff_dtype_bytes(p->type);
}

int64_t ff_placement_gradient_bytes(const struct ff_placement *p, uint32_t part)
{
	struct ff_region r;

	ff_placement_region(p, part, &r);
	return ff_region_volume(&r) * ff_dtype_bytes(p->gradient);
}

int ff_placement_build(const struct ff_node *n, const struct ff_operand *o,
		const struct ff_config *c, struct ff_arena *a, struct ff_placement *ret,
		struct ff_error *err)
{
	struct ff_placement p = {.type = o->dtype,
			.gradient = (enum ff_dtype)o->gradient,
			.order = o->order,
			.rank = o->rank,
			.reduce = (enum ff_reduce)o->reduce};
	struct dims d = {.config = c};
	bool cuts[FF_MAX_DIMS] = {0};
	uint32_t step = 1;
	int code = FF_OK;

	for (uint32_t i = n->n_dims; i-- > 0; step *= c->degree[i])
		d.step[i] = step;
	p.cells = step;
	p.replicas = c->replicas;
	p.n_parts = c->n_parts;
	for (uint32_t i = 0; i < o->rank && code == FF_OK; i++) {
		d.n = 0;
		for (uint32_t t = 0; t < o->axis[i].n_terms; t++) {
			d.dim[d.n++] = (uint32_t)o->axis[i].term[t].dim;
			cuts[o->axis[i].term[t].dim] = true;
		}
		code = build_axis(n, o, i, &d, a, &p.axis[i], err);
	}
	if (code == FF_OK)
		code = build_copies(n, o, cuts, &d, a, &p, err);
	if (code == FF_OK)
		code = number_cells(n, o, c, a, &p, err);
	if (code == FF_OK)
		code = find_idle(n, o, c, a, &p, err);
	if (code == FF_OK)
		*ret = p;
	return code;
}
