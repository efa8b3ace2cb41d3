/* Plans from one number of devices to another.  SPDX-License-Identifier: Apache-2.0 */
#include "carry.h"

#include <string.h>

#include "ff/micro.h"

static uint32_t sample_dim(const struct ff_node *n)
{
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (n->dim[d].label == FF_DIM_SAMPLE)
			return d;
	return FF_NONE;
}

/* `value` times `to` by `from`; *whole: it divides. */
static uint16_t scaled(uint32_t value, uint32_t from, uint32_t to, bool *whole)
{
	uint64_t product = (uint64_t)value * to;

	*whole = *whole && product % from == 0 && product / from <= UINT16_MAX;
	return (uint16_t)(product / from);
}

/* Samples in more parts or fewer, where they stood before: what strides over all their parts
 * strides so much farther. */
static bool scale(const struct ff_node *n, uint32_t from, uint32_t to, struct ff_config *c)
{
	uint32_t s = sample_dim(n), inner;
	struct ff_config r = *c;
	bool whole = s != FF_NONE && !c->list;

	if (!whole)
		return false;
	inner = c->degree[s] > 1 ? c->stride[s] : 0;
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (d != s && c->degree[d] > 1 && inner && c->stride[d] > inner)
			r.stride[d] = scaled(c->stride[d], from, to, &whole);
	if (c->replicas > 1 && inner && c->replica_stride > inner)
		r.replica_stride = scaled(c->replica_stride, from, to, &whole);
	r.start = scaled(c->start, from, to, &whole);
	r.degree[s] = scaled(c->degree[s], from, to, &whole);
	r.n_parts = scaled(c->n_parts, from, to, &whole);
	if (!inner) /* samples were whole: their parts stand outside of all that there is */
		r.stride[s] = (uint16_t)c->n_parts;
	if (whole && r.degree[s] >= 1 && r.degree[s] <= n->dim[s].extent) {
		*c = r;
		return true;
	}
	return false;
}

/* By sample over `width` devices from `first` on, or as many as there are samples. */
static void split_samples(
		const struct ff_node *n, uint32_t first, uint32_t width, struct ff_config *c)
{
	uint32_t s = sample_dim(n), degree = 1;

	*c = (struct ff_config){.replicas = 1, .start = (uint16_t)first};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		c->degree[d] = 1;
	if (s != FF_NONE)
		degree = (uint32_t)n->dim[s].extent < width ? (uint32_t)n->dim[s].extent : width;
	c->n_parts = degree;
	if (degree > 1) {
		c->degree[s] = (uint16_t)degree;
		c->stride[s] = 1;
	}
}

static uint32_t count_stages(const struct ff_strategy *s)
{
	uint32_t last = 0;

	for (uint32_t i = 0; i < s->n_nodes; i++)
		last = s->stage[i] > last ? s->stage[i] : last;
	return last + 1;
}

int ff_strategy_carry(const struct ff_graph *g, const struct ff_strategy *s, uint32_t from,
		uint32_t to, struct ff_arena *a, struct ff_strategy *ret, struct ff_error *err)
{
	uint32_t width = to / count_stages(s) ? to / count_stages(s) : 1;
	struct ff_strategy r;
	struct ff_graph micro;
	struct ff_error why;
	int code = ff_strategy_create(g, a, &r, err);

	if (code == FF_OK)
		code = ff_graph_micro(g, s->micro_batches, a, &micro, err);
	if (code < 0)
		return code;
	ff_strategy_copy(&r, s);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct ff_config *c = &r.config[i];

		if (ff_node_is_parameter(g, i) && c->n_parts && from != to)
			*c = (struct ff_config){.n_parts = 0}; /* it follows who reads it */
		if (!ff_node_needs_config(g, i))
			continue;
		if (from != to && !scale(&micro.nodes[i], from, to, c))
			c->n_parts = 0;
		if (!c->n_parts || ff_config_check(&micro.nodes[i], c, to, &why) < 0)
			split_samples(&micro.nodes[i], r.stage[i] * width, width, c);
	}
	code = ff_strategy_check(&micro, &r, to, err);
	if (code == FF_OK)
		*ret = r;
	return code;
}
