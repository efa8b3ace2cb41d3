/* Patterns of the null backend.  SPDX-License-Identifier: Apache-2.0 */
#include "pattern.h"
#include "ff/backward.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All elements of `region`, a part of a dense shard of `shard`, one by one. */
struct cursor {
	const struct ff_region *region, *shard;
	int32_t at[FF_MAX_RANK];
	int64_t left;
};

static struct cursor cursor_start(const struct ff_region *region, const struct ff_region *shard)
{
	struct cursor c = {region, shard, {0}, ff_region_volume(region)};

	memcpy(c.at, region->lo, sizeof(c.at));
	return c;
}

static void cursor_next(struct cursor *c)
{
	for (uint32_t i = c->region->rank; i-- > 0;) {
		if (++c->at[i] < c->region->hi[i])
			break;
		c->at[i] = c->region->lo[i];
	}
	c->left--;
}

/* Element `i` of a shard, as a number. */
static float element(const void *shard, enum ff_dtype type, int64_t i)
{
	switch (type) {
	case FF_I32:
		return (float)((const int32_t *)shard)[i];
	case FF_U8:
		return (float)((const uint8_t *)shard)[i];
	case FF_BF16:
		return ff_bf16_to_f32(((const uint16_t *)shard)[i]);
	default:
		return ((const float *)shard)[i];
	}
}

static void set_element(void *shard, enum ff_dtype type, int64_t i, float x)
{
	switch (type) {
	case FF_I32:
		((int32_t *)shard)[i] = (int32_t)x;
		break;
	case FF_U8:
		((uint8_t *)shard)[i] = (uint8_t)x;
		break;
	case FF_BF16:
		((uint16_t *)shard)[i] = ff_bf16_from_f32(x);
		break;
	default:
		((float *)shard)[i] = x;
	}
}

/* Small whole numbers, so that sums are exact; other ones in every micro-batch. */
static float value_at(uint32_t value, const struct ff_value *t, uint32_t micro, const int32_t *at)
{
	uint64_t h = value + (uint64_t)micro * 7919;

	for (uint32_t i = 0; i < t->rank; i++)
		h = h * (uint64_t)t->shape[i] + (uint64_t)at[i];
	h = (h ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return (float)(1 + (h >> 40) % (t->dtype == FF_F32 ? 1021 : 127));
}

static uint32_t node_of(const struct ff_work *w)
{
	return (uint32_t)(w->node - w->graph->nodes);
}

/* Every cell that reads an element of output `k` returns a gradient. */
static void count_readers(struct ff_pattern *p, uint32_t k)
{
	const struct ff_graph *g = p->work.graph;
	const struct ff_value *v = &g->values[p->work.node->out + k];

	for (uint32_t u = 0; u < v->n_uses; u++) {
		const struct ff_edge *e = &g->edges[ff_value_use(g, v, u)];
		const struct ff_node *n = &g->nodes[e->node];
		const struct ff_config *c = &p->s->config[e->node];

		if (!ff_edge_needs_grad(g, ff_value_use(g, v, u)))
			continue;
		for (uint32_t part = 0; part < ff_config_cells(c); part++) {
			struct ff_region box, in, both;

			ff_config_box(n, c, part, &box);
			ff_operand_region(n, &n->in_map[e->slot], &box, &in);
			if (!ff_region_intersect(&in, &p->work.out[k], &both))
				continue;
			for (struct cursor x = cursor_start(&both, &p->work.out[k]); x.left;
					cursor_next(&x))
				p->readers[k][ff_region_offset(v->order, x.shard, x.at)]++;
		}
	}
}

static int allocate_readers(struct ff_pattern *p, struct ff_error *err)
{
	const struct ff_node *n = p->work.node;

	for (uint32_t k = 0; k + n->n_saved < n->n_out; k++) {
		size_t volume = (size_t)ff_region_volume(&p->work.out[k]);

		p->readers[k] = calloc(volume ? volume : 1, sizeof(**p->readers));
		if (!p->readers[k])
			return ff_fail_memory(err);
		count_readers(p, k);
	}
	return FF_OK;
}

int ff_pattern_init(struct ff_pattern *p, const struct ff_work *w, const struct ff_schedule *s,
		struct ff_error *err)
{
	const struct ff_config *c;

	p->work = *w;
	p->s = s;
	p->partial = 1;
	p->lead = true;
	if (!s)
		return FF_OK;
	c = &s->config[node_of(w)];
	for (uint32_t i = 0; i < w->node->n_dims; i++) {
		if (w->node->dim[i].label != FF_DIM_REDUCTION)
			continue;
		p->partial *= c->degree[i];
		p->lead = p->lead && w->box.lo[i] == 0;
	}
	if (w->pass == FF_FORWARD || (ff_op_row(w->node->op)->flags & FF_OP_LOSS))
		return FF_OK;
	return allocate_readers(p, err);
}

void ff_pattern_finish(struct ff_pattern *p)
{
	for (uint32_t k = 0; k < FF_MAX_OUTPUTS; k++) {
		free(p->readers[k]);
		p->readers[k] = NULL;
	}
}

static int wrong(const struct ff_pattern *p, const char *what, const struct cursor *c, float found,
		float expected, struct ff_error *err)
{
	char at[128] = "";
	size_t len = 0;

	for (uint32_t i = 0; i < c->region->rank; i++)
		len += (size_t)snprintf(
				at + len, sizeof(at) - len, "%s%d", i ? ", " : "", c->at[i]);
	return ff_fail(err, FF_E_RUN,
			"operator %s, %s: %s has %g at (%s), expected %g; its part starts at %d",
			p->work.node->name, p->work.pass == FF_FORWARD ? "forward" : "backward",
			what, (double)found, at, (double)expected, p->work.box.lo[0]);
}

static int check_input(const struct ff_pattern *p, uint32_t i, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct ff_graph *g = p->work.graph;
	uint32_t value = g->edges[p->work.node->in + i].value;
	const struct ff_value *t = &g->values[value];
	const struct ff_region *r = &p->work.in[i];

	/* what comes from the data set, or was trained, is as it is */
	if (t->kind != FF_VALUE_ACTIVATION)
		return FF_OK;
	for (struct cursor c = cursor_start(r, r); c.left; cursor_next(&c)) {
		float found = element(io->in[i], t->dtype, ff_region_offset(t->order, r, c.at));
		float expected = value_at(value, t, io->micro, c.at);
		char what[64];

		if (found == expected)
			continue;
		snprintf(what, sizeof(what), "input %u (%.40s)", i, g->nodes[t->producer].name);
		return wrong(p, what, &c, found, expected, err);
	}
	return FF_OK;
}

/* Parts along the dim of a term whose elements share one, `at`. */
static uint32_t parts_at(const struct ff_pattern *p, const struct ff_term *t, int32_t at)
{
	uint32_t degree = p->s->config[node_of(&p->work)].degree[t->dim], n = 0;
	int32_t extent = p->work.node->dim[t->dim].extent;

	for (uint32_t i = 0; i < degree; i++)
		n += ff_part_start(extent, degree, i) / t->div <= at &&
		     (ff_part_start(extent, degree, i + 1) - 1) / t->div >= at;
	return n;
}

/* Whether this part is the first of those that write an element of output `k`, and how many
 * others do. */
static bool leads_at(const struct ff_pattern *p, uint32_t k, const int32_t *at, uint32_t *others)
{
	const struct ff_operand *o = &p->work.node->out_map[k];
	uint32_t n = p->partial;
	bool lead = p->lead;

	for (uint32_t i = 0; i < o->rank; i++) {
		const struct ff_term *t = &o->axis[i].term[0];

		if (!o->axis[i].n_terms || t->div == 1)
			continue;
		n *= parts_at(p, t, at[i]);
		lead = lead && p->work.box.lo[t->dim] <= at[i] * t->div;
	}
	*others = n - 1;
	return lead;
}

/* What this part writes at an element of output `k`: shares that the reduction of all
 * parts makes the value of. */
static float share_at(
		const struct ff_pattern *p, uint32_t k, uint32_t micro, const struct cursor *c)
{
	uint32_t out = p->work.node->out + k, others;
	const struct ff_value *v = &p->work.graph->values[out];
	float value = value_at(out, v, micro, c->at);
	bool lead = leads_at(p, k, c->at, &others);

	switch ((enum ff_reduce)p->work.node->out_map[k].reduce) {
	case FF_REDUCE_SUM:
		return lead ? value - (float)others : 1;
	case FF_REDUCE_MAX:
		return lead ? value : value - 1;
	case FF_REDUCE_LOG_SUM_EXP:
		/* equally large everywhere, so that each of the others counts as 1 */
		if (c->at[v->rank - 1] == 0)
			return value;
		return lead ? value - (float)others : 0;
	case FF_REDUCE_MOMENTS:
		return lead ? value : 0; /* of no elements */
	case FF_REDUCE_TIES:             /* equally large everywhere */
		if (c->at[v->rank - 1] == 0)
			return value;
		return lead ? value - (float)others : 1;
	}
	return value;
}

/* Values move; what is saved stays, so bytes are enough to tell it. */
static void write_output(const struct ff_pattern *p, uint32_t k, const struct ff_kernel_io *io)
{
	void *shard = io->out[k];
	const struct ff_operand *o = &p->work.node->out_map[k];
	const struct ff_region *r = &p->work.out[k];

	if (k + p->work.node->n_saved >= p->work.node->n_out) {
		memset(shard, 0x5a, (size_t)(ff_region_volume(r) * ff_dtype_bytes(o->dtype)));
		return;
	}
	for (struct cursor c = cursor_start(r, r); c.left; cursor_next(&c))
		set_element(shard, o->dtype, ff_region_offset(o->order, r, c.at),
				share_at(p, k, io->micro, &c));
}

/* What forward wrote is still there. */
static int check_output(const struct ff_pattern *p, uint32_t k, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct ff_operand *o = &p->work.node->out_map[k];
	const struct ff_region *r = &p->work.out[k];

	for (struct cursor c = cursor_start(r, r); c.left; cursor_next(&c)) {
		float found = element(io->out[k], o->dtype, ff_region_offset(o->order, r, c.at));
		float expected = share_at(p, k, io->micro, &c);

		if (found != expected)
			return wrong(p, "its own output", &c, found, expected, err);
	}
	return FF_OK;
}

static int check_saved(const struct ff_pattern *p, uint32_t k, const unsigned char *shard,
		struct ff_error *err)
{
	const struct ff_operand *o = &p->work.node->out_map[k];
	int64_t n = ff_region_volume(&p->work.out[k]) * ff_dtype_bytes(o->dtype);

	for (int64_t i = 0; i < n; i++)
		if (shard[i] != 0x5a)
			return ff_fail(err, FF_E_RUN,
					"operator %s, backward: what it saved is gone",
					p->work.node->name);
	return FF_OK;
}

static int told(const struct ff_pattern *p, struct ff_error *err)
{
	return p->s ? FF_OK
		    : ff_fail(err, FF_E_RUN,
				      "operator %s: the null backend was not told the schedule",
				      p->work.node->name);
}

int ff_pattern_forward(
		const struct ff_pattern *p, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct ff_node *n = p->work.node;
	int code = told(p, err);

	for (uint32_t i = 0; i < n->n_in && code == FF_OK; i++)
		code = check_input(p, i, io, err);
	if (code < 0)
		return code;
	if (ff_op_row(n->op)->flags & FF_OP_LOSS) {
		float *out = io->out[0];
		bool first = io->micro == 0;

		for (uint32_t i = 0; i < n->n_dims; i++)
			first = first && p->work.box.lo[i] == 0;
		out[0] = first ? 1 : 0; /* the shares sum to 1 */
		out[1] = 0;
		return FF_OK;
	}
	for (uint32_t k = 0; k < n->n_out; k++)
		if (io->out[k])
			write_output(p, k, io);
	return FF_OK;
}

/* One gradient everywhere, another one in every micro-batch. */
static float gradient_in(uint32_t micro)
{
	return (float)(1 + micro);
}

static void write_gradient(
		void *shard, enum ff_dtype type, const struct ff_region *r, float gradient)
{
	int64_t n = ff_region_volume(r);

	for (int64_t i = 0; i < n; i++)
		set_element(shard, type, i, gradient);
}

static int check_gradient(const struct ff_pattern *p, uint32_t k, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct ff_operand *o = &p->work.node->out_map[k];
	const struct ff_region *r = &p->work.out[k];

	for (struct cursor c = cursor_start(r, r); p->readers[k] && c.left; cursor_next(&c)) {
		int64_t at = ff_region_offset(o->order, r, c.at);
		float found = element(io->dout[k], o->dtype, at);
		float expected = (float)p->readers[k][at] * gradient_in(io->micro);

		if (found != expected)
			return wrong(p, "the output's gradient", &c, found, expected, err);
	}
	return FF_OK;
}

int ff_pattern_backward(
		const struct ff_pattern *p, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct ff_node *n = p->work.node;
	uint32_t flags = ff_op_row(n->op)->flags;
	int code = told(p, err);

	for (uint32_t i = 0; i < n->n_in && code == FF_OK && (flags & FF_OP_BACKWARD_IN); i++)
		if (ff_grads_read(p->work.grads, i >= n->n_data))
			code = check_input(p, i, io, err);
	for (uint32_t k = 0; k < n->n_out && code == FF_OK; k++) {
		bool saved = k + n->n_saved >= n->n_out;

		if (saved && io->out[k])
			code = check_saved(p, k, io->out[k], err);
		else if ((flags & FF_OP_BACKWARD_OUT) && !(flags & FF_OP_LOSS))
			code = check_output(p, k, io, err);
		if (code == FF_OK && !saved)
			code = check_gradient(p, k, io, err);
	}
	if (code < 0)
		return code;
	for (uint32_t i = 0; i < n->n_in; i++)
		if (p->work.need_din[i] && io->din[i])
			write_gradient(io->din[i], (enum ff_dtype)n->in_map[i].gradient,
					&p->work.in[i], gradient_in(io->micro));
	return FF_OK;
}
