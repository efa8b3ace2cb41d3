/* Work: what one part of one operator computes, and the key its cost has.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/work.h"

#include <stdio.h>
#include <string.h>

#include "ff/backward.h"
#include "ff/hash.h"

void ff_work_fill(const struct ff_graph *g, uint32_t node, const struct ff_region *box,
		enum ff_pass pass, struct ff_work *ret)
{
	const struct ff_node *n = &g->nodes[node];

	ret->graph = g;
	ret->node = n;
	ret->pass = pass;
	ret->grads = FF_GRADS_ALL;
	ret->box = *box;
	for (uint32_t i = 0; i < n->n_out; i++)
		ff_operand_region(n, &n->out_map[i], box, &ret->out[i]);
	for (uint32_t i = 0; i < n->n_in; i++) {
		ff_operand_region(n, &n->in_map[i], box, &ret->in[i]);
		ret->need_din[i] = pass == FF_BACKWARD && ff_edge_needs_grad(g, n->in + i);
	}
}

void ff_work_keep(struct ff_work *w, enum ff_grads grads)
{
	w->grads = grads;
	for (uint32_t i = 0; i < w->node->n_in; i++)
		w->need_din[i] = w->need_din[i] && ff_grads_make(grads, i >= w->node->n_data);
}

/* Collects the fields of a key as text, as a hash, or both. */
struct key {
	char *text;
	size_t len;
	uint64_t hash;
};

static void key_number(struct key *k, uint64_t v)
{
	k->hash = ff_hash_mix(k->hash, v);
}

static void key_text(struct key *k, const char *text)
{
	size_t room = FF_KEY_BYTES - 1 - k->len, n = strlen(text);

	if (n > room)
		n = room;
	memcpy(k->text + k->len, text, n + (n < room));
	k->len += n;
	k->text[k->len] = '\0';
}

static void key_field(struct key *k, const char *name, uint32_t tag, const int32_t *v, uint32_t n)
{
	key_number(k, (uint64_t)tag << 32 | n);
	for (uint32_t i = 0; i < n; i++)
		key_number(k, (uint64_t)(uint32_t)v[i]);
	if (!k->text)
		return;
	key_text(k, " ");
	key_text(k, name);
	for (uint32_t i = 0; i < n; i++) {
		char number[16];

		snprintf(number, sizeof(number), "%c%d", i ? 'x' : '=', v[i]);
		key_text(k, number);
	}
}

enum key_tag {
	TAG_ATTR,
	TAG_OUT = 32,
	TAG_IN = 256,
	TAG_BORDER = 512,
	TAG_SKEW = 768,
	TAG_DIN = 1024,
	TAG_GRADS = 1280,
	TAG_SPARSE
};

/* Parts that nothing is carried to, or from, have the keys that there were before. */
static bool is_in_key(const struct ff_node *n, uint32_t at, uint32_t end, const struct ff_region *r)
{
	return at + n->n_carried < end || ff_region_volume(r) > 0;
}

static void key_region(struct key *k, const char *name, uint32_t tag, const struct ff_region *r)
{
	int32_t size[FF_MAX_RANK];

	for (uint32_t i = 0; i < r->rank; i++)
		size[i] = ff_region_size(r, i);
	key_field(k, name, tag, size, r->rank);
}

/* How elements lie between others, and where between them the first one does. */
static void key_ratio(struct key *k, uint32_t slot, uint32_t axis, const struct ff_axis_map *m,
		int64_t first)
{
	int32_t v[4] = {(int32_t)axis, m->term[0].step, m->over,
			(int32_t)((first % m->over + m->over) % m->over)};

	key_field(k, "ratio", TAG_SKEW + slot, v, 4);
}

/* What clamping took from the windows at the borders (the padding this part
 * really has), and where in a divided axis it starts. */
static void key_placement(struct key *k, const struct ff_operand *o, uint32_t slot,
		const struct ff_region *box, const struct ff_region *r)
{
	for (uint32_t i = 0; i < o->rank; i++) {
		const struct ff_axis_map *m = &o->axis[i];
		int64_t first = m->over ? m->from : m->offset, last = m->over ? m->to : m->offset;
		int32_t lo, hi, v[3];

		for (uint32_t t = 0; t < m->n_terms; t++) {
			const struct ff_term *term = &m->term[t];

			first += (int64_t)(box->lo[term->dim] / term->div) * term->step;
			last += (int64_t)((box->hi[term->dim] - 1) / term->div) * term->step;
			v[0] = (int32_t)i;
			v[1] = box->lo[term->dim] % term->div;
			if (term->div > 1 && v[1])
				key_field(k, "skew", TAG_SKEW + slot, v, 2);
		}
		if (m->over) {
			key_ratio(k, slot, i, m, first);
			first = ff_axis_over(m, first);
			last = ff_axis_over(m, last);
		}
		lo = (int32_t)first;
		hi = (int32_t)(last + m->window);
		v[1] = r->lo[i] - lo;
		v[2] = hi - r->hi[i];
		if (m->n_terms && (m->window > 1 || m->over) && (v[1] || v[2]))
			key_field(k, "border", TAG_BORDER + slot, v, 3);
	}
}

/* A number with all its digits. */
static void key_real(struct key *k, const struct ff_attr_row *attr, uint32_t tag, const void *at)
{
	char text[40];
	uint64_t bits;
	double v;

	memcpy(&v, at, sizeof(v));
	if (attr->later && v == attr->preset)
		return; /* keys of older costs stay what they were */
	memcpy(&bits, at, sizeof(bits));
	key_field(k, attr->name, tag, NULL, 0);
	key_number(k, bits);
	if (!k->text)
		return;
	snprintf(text, sizeof(text), "=%.17g", v);
	key_text(k, text);
}

static void key_attributes(struct key *k, const struct ff_node *n)
{
	const struct ff_op_row *row = ff_op_row(n->op);

	for (uint32_t i = 0; i < row->n_attrs; i++) {
		const struct ff_attr_row *at = &row->attrs[i];
		const int32_t *v = (const int32_t *)((const char *)&n->attrs + at->offset);

		if (at->in_key == FF_KEY_UNLESS_PRESET && *v == (int32_t)at->preset)
			continue;
		if (at->in_key && at->type == FF_ATTR_REAL)
			key_real(k, at, TAG_ATTR + i, v);
		else if (at->in_key && at->type == FF_ATTR_SHAPE)
			key_field(k, at->name, TAG_ATTR + i, v + 1, (uint32_t)*v);
		else if (at->in_key)
			key_field(k, at->name, TAG_ATTR + i, v,
					at->type == FF_ATTR_AXES ? row->axes : 1);
	}
}

enum ff_dtype ff_work_type(const struct ff_work *w)
{
	const struct ff_node *n = w->node;

	if (n->n_in && n->in_map[0].dtype == FF_BF16)
		return FF_BF16;
	return n->n_out ? n->out_map[0].dtype : FF_F32;
}

/* Of parts of one size whose place makes their work different. */
static void key_flops(struct key *k, int64_t flops)
{
	char text[40];

	key_number(k, (uint64_t)flops);
	if (!k->text)
		return;
	snprintf(text, sizeof(text), " flops=%lld", (long long)flops);
	key_text(k, text);
}

static void key_walk(const struct ff_work *w, struct key *k)
{
	const struct ff_node *n = w->node;
	const struct ff_op_row *row = ff_op_row(n->op);
	enum ff_dtype type = ff_work_type(w);
	char name[24];

	k->hash = (uint64_t)type << 32 | (uint64_t)n->op << 1 | (uint64_t)w->pass;
	if (k->text) {
		key_text(k, row->name);
		key_text(k, w->pass == FF_FORWARD ? ".forward" : ".backward");
	}
	key_attributes(k, n);
	for (uint32_t i = 0; i < n->n_data; i++) {
		if (!is_in_key(n, i, n->n_data, &w->in[i]))
			continue;
		if (k->text)
			snprintf(name, sizeof(name), "in%u", i);
		key_region(k, name, TAG_IN + i, &w->in[i]);
		key_placement(k, &n->in_map[i], i, &w->box, &w->in[i]);
		if (w->need_din[i])
			key_field(k, "din", TAG_DIN + i, NULL, 0);
	}
	for (uint32_t i = n->n_data; i < n->n_in; i++)
		if (ff_region_volume(&w->in[i]))
			key_region(k, row->param[i - n->n_data], TAG_IN + i, &w->in[i]);
	for (uint32_t i = 0; i + n->n_saved < n->n_out; i++) {
		if (!is_in_key(n, i, n->n_out - n->n_saved, &w->out[i]))
			continue;
		if (k->text)
			snprintf(name, sizeof(name), i ? "out%u" : "out", i);
		key_region(k, name, TAG_OUT + i, &w->out[i]);
	}
	if (row->flops)
		key_flops(k, row->flops(w));
	if (ff_work_sparse_rows(w))
		key_field(k, "sparse", TAG_SPARSE, NULL, 0);
	if (w->grads == FF_GRADS_DATA) /* those of parameters alone are as where data needs none */
		key_field(k, "data", TAG_GRADS, NULL, 0);
	if (k->text) {
		key_text(k, " ");
		key_text(k, ff_dtype_name(type));
	}
}

void ff_work_key(const struct ff_work *w, char key[FF_KEY_BYTES])
{
	struct key k = {.text = key};

	key[0] = '\0';
	key_walk(w, &k);
	/* a key too long for its room (a concat of very many tensors) ends in its
	 * hash, so that keys stay different */
	if (k.len >= FF_KEY_BYTES - 24) {
		k.len = FF_KEY_BYTES - 24;
		snprintf(key + k.len, 24, " #%016llx", (unsigned long long)k.hash);
	}
}

uint64_t ff_work_hash(const struct ff_work *w)
{
	struct key k = {.text = NULL};

	key_walk(w, &k);
	return k.hash;
}

int64_t ff_work_flops(const struct ff_work *w)
{
	const struct ff_node *n = w->node;
	double share = 1,
	       all = (double)(w->pass == FF_FORWARD ? n->flops_forward : n->flops_backward);

	if (ff_op_row(n->op)->flops)
		return ff_op_row(n->op)->flops(w);
	for (uint32_t d = 0; d < n->n_dims; d++)
		share *= (double)ff_region_size(&w->box, d) / n->dim[d].extent;
	return (int64_t)(all * share + 0.5);
}

static int64_t region_bytes(const struct ff_operand *o, const struct ff_region *r)
{
	return ff_region_volume(r) * ff_dtype_bytes(o->dtype);
}

int64_t ff_work_sparse_rows(const struct ff_work *w)
{
	const struct ff_node *n = w->node;

	if (!n->sparse_rows || w->pass != FF_BACKWARD || !w->need_din[n->n_data])
		return 0;
	return ff_sparse_rows(n, ff_region_volume(&w->in[0]) == n->sparse_rows,
			ff_region_size(&w->in[n->n_data], 0));
}

/* Dense gradients are written once.  Of a sparse one the rows of the step before become zero, those
 * that are read now are added to; both are listed. */
int64_t ff_work_gradient_bytes(const struct ff_work *w, uint32_t i)
{
	int64_t size = ff_dtype_bytes((enum ff_dtype)w->node->in_map[i].gradient), rows;

	if (!w->need_din[i])
		return 0;
	rows = i == w->node->n_data ? ff_work_sparse_rows(w) : 0;
	if (!rows)
		return ff_region_volume(&w->in[i]) * size;
	return rows * (3 * ff_region_size(&w->in[i], 1) * size + 2 * (int64_t)sizeof(int32_t));
}

int64_t ff_work_bytes(const struct ff_work *w)
{
	const struct ff_node *n = w->node;
	uint32_t flags = ff_op_row(n->op)->flags, outputs = n->n_out - n->n_saved;
	bool back = w->pass == FF_BACKWARD;
	int64_t bytes = 0, looked_up = region_bytes(&n->out_map[0], &w->out[0]);

	/* forward writes outputs, backward reads their gradients */
	for (uint32_t i = 0; i < n->n_out; i++)
		bytes += region_bytes(&n->out_map[i], &w->out[i]);
	if (back && (flags & FF_OP_BACKWARD_OUT))
		for (uint32_t i = 0; i < outputs; i++)
			bytes += region_bytes(&n->out_map[i], &w->out[i]);
	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct ff_operand *o = &n->in_map[i];
		bool read = back ? i >= n->n_data || (flags & FF_OP_BACKWARD_IN)
				 : !o->backward_only;
		int64_t volume = ff_region_volume(&w->in[i]);
		int64_t size = volume * ff_dtype_bytes(o->dtype);

		bytes += ff_work_gradient_bytes(w, i);
		if (i < n->n_data || !(flags & FF_OP_LOOKUP))
			bytes += size * read;
		else if (!back)
			bytes += looked_up < size ? looked_up : size;
	}
	return bytes;
}
