/* The loops of norms.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/norm.h"

#include "ff/work.h"

static void add_loop(struct ff_strided *s, int64_t n, int64_t source, int64_t sink)
{
	s->n[s->rank] = n;
	s->source[s->rank] = source;
	s->sink[s->rank++] = sink;
}

/* Axes from `lead` on are normalised over; parameters have them and no other. */
static void fill_last(const struct ff_work *w, uint32_t lead, struct ff_norm *n)
{
	const struct ff_region *r = &w->out[0];
	int64_t stride[FF_MAX_RANK], rows = n->rows, params = n->own;

	ff_region_strides(w->node->out_map[0].order, r, stride);
	for (uint32_t i = 0; i < r->rank; i++) {
		int64_t size = ff_region_size(r, i);

		if (i < lead) {
			rows /= size;
			add_loop(&n->row, size, 0, stride[i]);
			add_loop(&n->rest, size, rows, stride[i]);
		} else {
			params /= size;
			add_loop(&n->feature, size, params, stride[i]);
			add_loop(&n->param, size, 0, stride[i]);
		}
	}
}

/* Parameters have the channels, a row some of them. */
static void fill_groups(const struct ff_work *w, struct ff_norm *n)
{
	const struct ff_region *r = &w->out[0];
	int64_t stride[FF_MAX_RANK], groups = ff_region_size(&w->out[1], 1);
	int64_t each = n->own / groups;

	ff_region_strides(w->node->out_map[0].order, r, stride);
	add_loop(&n->row, ff_region_size(r, 0), 0, stride[0]);
	add_loop(&n->row, groups, each, each * stride[1]);
	add_loop(&n->param, groups, 1, each * stride[1]);
	add_loop(&n->param, each, 0, stride[1]);
	add_loop(&n->feature, each, 1, stride[1]);
	add_loop(&n->rest, ff_region_size(r, 0), groups, stride[0]);
	for (uint32_t i = 2; i < r->rank; i++) {
		add_loop(&n->feature, ff_region_size(r, i), 0, stride[i]);
		add_loop(&n->rest, ff_region_size(r, i), 0, stride[i]);
	}
}

void ff_norm_fill(const struct ff_work *w, struct ff_norm *ret)
{
	const struct ff_node *node = w->node;
	const struct ff_norm_attrs *a = &node->attrs.norm;
	uint32_t params = node->n_in - node->n_data;
	struct ff_norm n = {.rows = ff_region_volume(&w->out[1]) / 2,
			.weight = params > 0,
			.bias = params > 1,
			.centred = node->op != FF_OP_RMS_NORM,
			.epsilon = (float)a->epsilon};

	n.features = ff_region_volume(&w->out[0]) / n.rows;
	n.own = n.params = n.features;
	if (node->op == FF_OP_GROUP_NORM) {
		n.own = ff_region_size(&w->out[0], 1);
		n.first = w->out[0].lo[1];
		n.params = node->out_map[0].shape[1];
		fill_groups(w, &n);
	} else {
		fill_last(w, w->out[0].rank - (uint32_t)a->axes, &n);
	}
	n.rests = ff_region_volume(&w->out[0]) / n.own;
	*ret = n;
	/* any order of them will do: as they lie */
	ff_strided_normalise(&n.feature, &ret->feature);
	ff_strided_normalise(&n.rest, &ret->rest);
}

void ff_batch_fill(const struct ff_work *w, struct ff_batch *ret)
{
	const uint8_t *order = w->node->in_map[0].order;
	const struct ff_region *r = &w->in[0];
	struct ff_batch b = {.outer = 1, .channels = 1, .inner = 1, .groups = 1};
	int32_t group = w->node->attrs.norm.group;

	b.epsilon = (float)w->node->attrs.norm.epsilon;
	b.momentum = (float)w->node->attrs.norm.momentum;
	for (uint32_t i = 0, behind = 0; i < r->rank; i++) {
		int64_t size = ff_region_size(r, order[i]);

		if (order[i] == 1)
			b.channels = size;
		else
			*(behind ? &b.inner : &b.outer) *= size;
		behind |= order[i] == 1;
	}
	b.group = b.outer;
	if (group) { /* samples are the outermost of all orders */
		int64_t each = b.outer / ff_region_size(r, 0);

		b.groups = (r->hi[0] - 1) / group - r->lo[0] / group + 1;
		b.group = group * each;
		b.skip = r->lo[0] % group * each;
	}
	*ret = b;
}
