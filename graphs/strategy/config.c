/* Configs: how one operator is split, and the boxes of its parts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/config.h"

#include <string.h>

#include "ff/intervals.h"
#include "ff/machine.h"

void ff_config_coords(
		const struct ff_node *n, const struct ff_config *c, uint32_t part, uint32_t *coord)
{
	for (uint32_t d = n->n_dims; d-- > 0;) {
		coord[d] = part % c->degree[d];
		part /= c->degree[d];
	}
}

void ff_config_box(const struct ff_node *n, const struct ff_config *c, uint32_t part,
		struct ff_region *box)
{
	uint32_t coord[FF_MAX_DIMS];

	ff_config_coords(n, c, part, coord);
	box->rank = n->n_dims;
	for (uint32_t d = 0; d < n->n_dims; d++) {
		box->lo[d] = ff_part_start(n->dim[d].extent, c->degree[d], coord[d]);
		box->hi[d] = ff_part_start(n->dim[d].extent, c->degree[d], coord[d] + 1);
	}
}

void ff_config_devices(const struct ff_node *n, const struct ff_config *c, uint16_t *device)
{
	uint32_t have = 1;

	if (c->list) {
		memmove(device, c->list, c->n_parts * sizeof(*device));
		return;
	}
	/* The list so far, repeated once for each coordinate of the next dim out. */
	device[0] = c->start;
	for (uint32_t d = n->n_dims; d-- > 0;) {
		for (uint32_t k = have; k < have * c->degree[d]; k++)
			device[k] = (uint16_t)(device[k - have] + c->stride[d]);
		have *= c->degree[d];
	}
	for (uint32_t k = have; k < c->n_parts; k++)
		device[k] = (uint16_t)(device[k - have] + c->replica_stride);
}

uint16_t ff_config_device(const struct ff_node *n, const struct ff_config *c, uint32_t part)
{
	uint32_t coord[FF_MAX_DIMS], device;

	if (c->list)
		return c->list[part];
	ff_config_coords(n, c, part, coord);
	device = c->start + part / ff_config_cells(c) * c->replica_stride;
	for (uint32_t d = 0; d < n->n_dims; d++)
		device += coord[d] * c->stride[d];
	return (uint16_t)device;
}

void ff_config_alike(
		const struct ff_node *n, const struct ff_config *c, uint16_t *like, uint16_t *first)
{
	uint32_t cells = ff_config_cells(c), step = 1;

	memset(first, 0, cells * sizeof(*first));
	for (uint32_t d = n->n_dims; d-- > 0; step *= c->degree[d]) {
		if (c->degree[d] == 1)
			continue;
		ff_intervals_alike(n, d, c->degree[d], like);
		for (uint32_t at = 0, i = 0; i < cells; i += step) {
			for (uint32_t k = i; k < i + step; k++)
				first[k] = (uint16_t)(first[k] + like[at] * step);
			at = at + 1 < c->degree[d] ? at + 1 : 0;
		}
	}
}

/* Strides of what is not split say nothing. */
static bool same_view(const struct ff_node *n, const struct ff_config *a, const struct ff_config *b)
{
	if (a->start != b->start || (a->replicas > 1 && a->replica_stride != b->replica_stride))
		return false;
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (a->degree[d] > 1 && a->stride[d] != b->stride[d])
			return false;
	return true;
}

bool ff_config_equal(const struct ff_node *n, const struct ff_config *a, const struct ff_config *b)
{
	uint16_t x[FF_MAX_DEVICES], y[FF_MAX_DEVICES];

	if (a->n_parts != b->n_parts)
		return false;
	if (!a->n_parts)
		return a->flat == b->flat;
	if (a->replicas != b->replicas ||
			memcmp(a->degree, b->degree, n->n_dims * sizeof(*a->degree)) != 0)
		return false;
	if (!a->list && !b->list)
		return same_view(n, a, b);
	ff_config_devices(n, a, x);
	ff_config_devices(n, b, y);
	return !memcmp(x, y, a->n_parts * sizeof(*x));
}

/* Whether each stride of a view is longer than all that lies within it: then no device has
 * two parts.  It is so of every view that a search draws. */
static bool is_nested(const struct ff_node *n, const struct ff_config *c)
{
	uint32_t length[FF_MAX_DIMS + 1], stride[FF_MAX_DIMS + 1], k = 0;

	for (uint32_t d = 0; d < n->n_dims; d++)
		if (c->degree[d] > 1) {
			length[k] = (c->degree[d] - 1u) * c->stride[d];
			stride[k++] = c->stride[d];
		}
	if (c->replicas > 1) {
		length[k] = (c->replicas - 1u) * c->replica_stride;
		stride[k++] = c->replica_stride;
	}
	for (uint32_t i = 0; i < k; i++) {
		uint32_t within = 0;

		for (uint32_t j = 0; j < k; j++)
			if (j != i && stride[j] <= stride[i])
				within += length[j];
		if (stride[i] <= within)
			return false;
	}
	return true;
}

/* Device by device. */
static int check_parts(const struct ff_node *n, const struct ff_config *c, uint32_t n_devices,
		struct ff_error *err)
{
	uint64_t seen[FF_MAX_DEVICES / 64] = {0};
	uint16_t device[FF_MAX_DEVICES];

	ff_config_devices(n, c, device);
	for (uint32_t p = 0; p < c->n_parts; p++) {
		uint32_t dev = device[p];

		if (dev >= n_devices)
			return ff_fail(err, FF_E_INPUT,
					"operator %s: device %u does not exist (there are %u)",
					n->name, dev, n_devices);
		if (seen[dev / 64] >> (dev % 64) & 1)
			return ff_fail(err, FF_E_INPUT, "operator %s: device %u is named twice",
					n->name, dev);
		seen[dev / 64] |= UINT64_C(1) << (dev % 64);
	}
	return FF_OK;
}

static int check_devices(const struct ff_node *n, const struct ff_config *c, uint32_t n_devices,
		struct ff_error *err)
{
	uint64_t reach = c->start + (uint64_t)(c->replicas - 1) * c->replica_stride;

	for (uint32_t d = 0; d < n->n_dims; d++)
		reach += (uint64_t)(c->degree[d] - 1) * c->stride[d];
	if (!c->list && reach >= n_devices)
		return ff_fail(err, FF_E_INPUT,
				"operator %s: device %u does not exist (there are %u)", n->name,
				(uint32_t)reach, n_devices);
	return !c->list && is_nested(n, c) ? FF_OK : check_parts(n, c, n_devices, err);
}

int ff_config_check(const struct ff_node *n, const struct ff_config *c, uint32_t n_devices,
		struct ff_error *err)
{
	uint64_t parts = c->replicas;

	if (!parts || parts > n_devices)
		return ff_fail(err, FF_E_INPUT, "operator %s: %u replicas are not in 1..%u",
				n->name, c->replicas, n_devices);
	for (uint32_t d = 0; d < n->n_dims; d++) {
		if (c->degree[d] < 1 || c->degree[d] > n->dim[d].extent)
			return ff_fail(err, FF_E_INPUT,
					"operator %s: degree %u of dim %s is not in 1..%d", n->name,
					c->degree[d], n->dim[d].name, n->dim[d].extent);
		parts *= c->degree[d];
		if (parts > n_devices)
			return ff_fail(err, FF_E_INPUT,
					"operator %s: its degrees ask for more than %u devices",
					n->name, n_devices);
	}
	if (parts != c->n_parts)
		return ff_fail(err, FF_E_INPUT,
				"operator %s: its degrees make %u parts but %u devices are named",
				n->name, (uint32_t)parts, c->n_parts);
	return check_devices(n, c, n_devices, err);
}

bool ff_config_next_degrees(const struct ff_node *n, uint32_t max_parts, struct ff_config *c)
{
	c->replicas = 1;
	if (c->n_parts == 0) {
		for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
			c->degree[d] = 1;
		c->n_parts = 1;
		return true;
	}
	/* an odometer, last dim fastest, that skips products over the limit */
	for (uint32_t d = n->n_dims; d-- > 0;) {
		uint32_t others = c->n_parts / c->degree[d];
		uint32_t next = c->degree[d] + 1u;

		if ((int64_t)next <= n->dim[d].extent && next * others <= max_parts) {
			c->degree[d] = (uint16_t)next;
			c->n_parts = next * others;
			return true;
		}
		c->degree[d] = 1;
		c->n_parts = others;
	}
	return false;
}

/* The reader's dim that cuts `axis` of what it reads, or FF_NONE. */
static uint32_t cutting_dim(const struct ff_operand *o, uint32_t axis)
{
	return o->axis[axis].n_terms ? (uint32_t)o->axis[axis].term[0].dim : FF_NONE;
}

/* Parts that read nothing of a parameter that only the first of a reduction uses. */
static bool reads(const struct ff_node *n, const struct ff_operand *o, const uint32_t *coord)
{
	for (uint32_t d = 0; o->lead_only && d < n->n_dims; d++)
		if (n->dim[d].label == FF_DIM_REDUCTION && coord[d])
			return false;
	return true;
}

void ff_config_follow(const struct ff_graph *g, uint32_t edge, const struct ff_config *reader,
		uint16_t *list, struct ff_config *ret)
{
	const struct ff_edge *e = &g->edges[edge];
	const struct ff_node *n = &g->nodes[e->node];
	const struct ff_operand *o = &n->in_map[e->slot];
	uint16_t device[FF_MAX_DEVICES], filled[FF_MAX_DEVICES] = {0};
	struct ff_config c = {.list = list, .replicas = 0};
	uint32_t cells = 1;

	for (uint32_t i = 0; i < FF_MAX_DIMS; i++) {
		uint32_t d = i < o->rank ? cutting_dim(o, i) : FF_NONE;

		c.degree[i] = d == FF_NONE ? 1 : reader->degree[d];
		cells *= c.degree[i];
	}
	ff_config_devices(n, reader, device);
	for (uint32_t p = 0; p < reader->n_parts; p++) {
		uint32_t coord[FF_MAX_DIMS], cell = 0;

		ff_config_coords(n, reader, p, coord);
		if (!reads(n, o, coord))
			continue;
		for (uint32_t i = 0; i < o->rank; i++)
			cell = cell * c.degree[i] +
			       (c.degree[i] > 1 ? coord[cutting_dim(o, i)] : 0);
		list[filled[cell]++ * cells + cell] = device[p];
		c.n_parts++;
	}
	c.replicas = (uint16_t)(c.n_parts / cells);
	*ret = c;
}
