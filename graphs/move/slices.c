/* Slices of sinks.  SPDX-License-Identifier: Apache-2.0 */
#include "slices.h"

#include "ff/nodes.h"

static uint32_t count(const struct ff_placement *sink)
{
	return sink->n_copies * sink->replicas;
}

uint32_t ff_slices_part(const struct ff_placement *sink, uint32_t part, uint32_t slice)
{
	return part + sink->copy[slice % sink->n_copies] + slice / sink->n_copies * sink->cells;
}

/* The first part of the cell of `part`. */
static uint32_t first_part(const struct ff_placement *p, uint32_t part)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < p->rank; i++)
		first += p->axis[i].part[ff_placement_coordinate(p, i, part)];
	return first;
}

static bool nodes_are_apart(const struct ff_machine *m, const struct ff_side *source,
		const struct ff_side *sink)
{
	uint64_t set[FF_MAX_DEVICES / 64] = {0};

	if (m->node_of[source->device[0]] == m->node_of[sink->device[0]])
		return false;
	for (uint32_t p = 0; p < source->place->n_parts; p++) {
		uint32_t node = m->node_of[source->device[p]];

		set[node / 64] |= UINT64_C(1) << (node % 64);
	}
	for (uint32_t p = 0; p < sink->place->n_parts; p++) {
		uint32_t node = m->node_of[sink->device[p]];

		if (set[node / 64] >> (node % 64) & 1)
			return false;
	}
	return true;
}

/* ---- how they are cut ---- */

static bool divides(const struct ff_grid_axis *g, uint32_t n)
{
	for (uint32_t k = 0; k < g->n; k++)
		if ((uint32_t)(g->hi[k] - g->lo[k]) % n)
			return false;
	return true;
}

/* What all intervals are long; 0: they are not alike. */
static uint32_t common_size(const struct ff_grid_axis *g)
{
	int32_t size = g->hi[0] - g->lo[0];

	for (uint32_t k = 1; k < g->n; k++)
		if (g->hi[k] - g->lo[k] != size)
			return 0;
	return (uint32_t)size;
}

/* From the outermost axis on, each cut in single elements before the next is cut, so that slices
 * are runs; `stride` is by axis what its next slice adds to the number of the whole's. */
static bool cut_axes(const struct ff_placement *sink, uint32_t *each, uint32_t *stride)
{
	uint32_t left = count(sink);

	for (uint32_t i = 0; i < sink->rank; i++) {
		uint32_t axis = sink->order[i];
		const struct ff_grid_axis *g = &sink->axis[axis];
		uint32_t n = divides(g, left) ? left : common_size(g);

		if (!n || left % n)
			return false;
		left /= n;
		each[axis] = n;
		stride[axis] = left;
	}
	return left == 1;
}

/* Whether parts are numbered slice by slice along each axis, as those of a grid are. */
static bool is_grid(const struct ff_placement *sink, const uint32_t *each, const uint32_t *stride)
{
	for (uint32_t k = 0; k < count(sink); k++) {
		uint32_t part = 0;

		for (uint32_t i = 0; i < sink->rank; i++)
			part += ff_slices_part(sink, 0, k / stride[i] % each[i] * stride[i]);
		if (part != ff_slices_part(sink, 0, k))
			return false;
	}
	return true;
}

/* ---- whether it takes less ---- */

static int64_t bytes_of(const struct ff_side *s, uint32_t part)
{
	return s->gradients ? ff_placement_gradient_bytes(s->place, part)
			    : ff_placement_bytes(s->place, part);
}

/* The devices of a cell, ascending; false: they are on several nodes. */
static bool list_devices(const struct ff_machine *m, const struct ff_side *sink, uint32_t part,
		uint16_t *device)
{
	uint32_t node = m->node_of[sink->device[part]];

	for (uint32_t k = 0; k < count(sink->place); k++) {
		uint16_t d = sink->device[ff_slices_part(sink->place, part, k)];
		uint32_t at = k;

		if (m->node_of[d] != node)
			return false;
		for (; at && device[at - 1] > d; at--)
			device[at] = device[at - 1];
		device[at] = d;
	}
	return true;
}

/* With n sinks of b bytes, n b come over the cards beside them, or b and then n - 1 steps of a
 * ring, a slice long each: less if such a step takes less than b over the cards. */
static bool pays(const struct ff_machine *m, uint32_t n, const uint16_t *device, double bytes)
{
	const struct ff_link *in = &m->nodes[m->node_of[device[0]]].inside;
	double step = in->latency_us + bytes / n * (in->shared ? n : 1) / in->bytes_per_us;

	return step < bytes / ff_cards_rate(m, n, device);
}

static bool all_pay(const struct ff_machine *m, const struct ff_side *sink)
{
	uint16_t device[FF_MAX_DEVICES];

	for (uint32_t p = 0; p < sink->place->cells; p++) {
		int64_t bytes = bytes_of(sink, p);

		if (bytes && first_part(sink->place, p) == p &&
				!(list_devices(m, sink, p, device) &&
						pays(m, count(sink->place), device, (double)bytes)))
			return false;
	}
	return true;
}

/* ---- the placement ---- */

/* Which slice of its cell each part has. */
static uint16_t *number_slices(const struct ff_placement *sink, struct ff_arena *a)
{
	uint16_t *slice = ff_arena_array(a, sink->n_parts, sizeof(*slice));

	for (uint32_t p = 0; slice && p < sink->cells; p++)
		for (uint32_t k = 0; k < count(sink) && first_part(sink, p) == p; k++)
			slice[ff_slices_part(sink, p, k)] = (uint16_t)k;
	return slice;
}

static int cut_axis(const struct ff_placement *sink, uint32_t axis, uint32_t each, uint32_t stride,
		const uint16_t *slice, struct ff_arena *a, struct ff_grid_axis *ret,
		struct ff_error *err)
{
	const struct ff_grid_axis *g = &sink->axis[axis];
	uint32_t n = g->n * each;
	int32_t *lo = ff_arena_array(a, n, sizeof(*lo)), *hi = ff_arena_array(a, n, sizeof(*hi));
	uint16_t *part = ff_arena_array(a, n, sizeof(*part));
	uint16_t *of = ff_arena_array(a, sink->n_parts, sizeof(*of));

	if (!lo || !hi || !part || !of)
		return ff_fail_memory(err);
	for (uint32_t k = 0; k < n; k++) {
		int32_t size = (g->hi[k / each] - g->lo[k / each]) / (int32_t)each;

		lo[k] = g->lo[k / each] + (int32_t)(k % each) * size;
		hi[k] = lo[k] + size;
		part[k] = (uint16_t)ff_slices_part(sink, g->part[k / each], k % each * stride);
	}
	for (uint32_t p = 0; p < sink->n_parts; p++)
		of[p] = (uint16_t)(ff_placement_coordinate(sink, axis, p) * each +
				   slice[p] / stride % each);
	*ret = (struct ff_grid_axis){.n = n, .lo = lo, .hi = hi, .part = part, .of = of};
	ret->sorted = ff_grid_axis_is_sorted(ret);
	return FF_OK;
}

static int cut(const struct ff_placement *sink, const uint32_t *stride, struct ff_arena *a,
		struct ff_slices *ret, struct ff_error *err)
{
	static const uint16_t alone;
	const uint16_t *slice = number_slices(sink, a);
	int code = slice ? FF_OK : ff_fail_memory(err);

	ret->place = *sink;
	ret->place.n_copies = ret->place.replicas = 1;
	ret->place.copy = &alone;
	ret->place.cells = sink->n_parts;
	for (uint32_t i = 0; i < sink->rank && code == FF_OK; i++)
		code = cut_axis(sink, i, ret->each[i], stride[i], slice, a, &ret->place.axis[i],
				err);
	return code;
}

int ff_slices_find(const struct ff_machine *m, const struct ff_side *source,
		const struct ff_side *sink, struct ff_arena *a, struct ff_slices *ret, bool *found,
		struct ff_error *err)
{
	const struct ff_placement *p = sink->place;
	uint32_t stride[FF_MAX_RANK];

	*found = m->n_nodes > 1 && count(p) > 1 && !p->idle &&
		 ff_reduce_width(source->place->reduce) == 1 && nodes_are_apart(m, source, sink) &&
		 cut_axes(p, ret->each, stride) && is_grid(p, ret->each, stride) &&
		 all_pay(m, sink);
	return *found ? cut(p, stride, a, ret, err) : FF_OK;
}
