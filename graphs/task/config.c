/* Configs: how one operator is split, and the boxes of its parts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/strategy.h"

#include <string.h>

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
	uint32_t coord[FF_MAX_RANK];

	ff_config_coords(n, c, part, coord);
	box->rank = n->n_dims;
	for (uint32_t d = 0; d < n->n_dims; d++) {
		box->lo[d] = ff_part_start(n->dim[d].extent, c->degree[d], coord[d]);
		box->hi[d] = ff_part_start(n->dim[d].extent, c->degree[d], coord[d] + 1);
	}
}

bool ff_config_equal(const struct ff_node *n, const struct ff_config *a, const struct ff_config *b)
{
	return a->n_parts == b->n_parts &&
	       !memcmp(a->degree, b->degree, n->n_dims * sizeof(*a->degree)) &&
	       (!a->n_parts || !memcmp(a->device, b->device, a->n_parts * sizeof(*a->device)));
}

int ff_config_check(const struct ff_node *n, const struct ff_config *c, uint32_t n_devices,
		struct ff_error *err)
{
	uint64_t parts = 1, seen[FF_MAX_DEVICES / 64] = {0};

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
	for (uint32_t p = 0; p < c->n_parts; p++) {
		uint32_t dev = c->device[p];

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

bool ff_config_next_degrees(const struct ff_node *n, uint32_t max_parts, struct ff_config *c)
{
	if (c->n_parts == 0) {
		for (uint32_t d = 0; d < FF_MAX_RANK; d++)
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
