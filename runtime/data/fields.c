/* What a graph's inputs want of a data set.  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ff/rewrite.h"
#include "source.h"

/* A loss compares its first input with its second, and has its prelude read both. */
static const struct ff_node *compares(const struct ff_graph *g, uint32_t edge)
{
	uint32_t node = ff_node_leader(g, g->edges[edge].node);

	return ff_node_is_loss(g, node) && g->edges[edge].slot == 1 ? &g->nodes[node] : NULL;
}

/* What losses want of it; *agree: the same. */
static void describe_target(
		const struct ff_graph *g, uint32_t node, struct ff_field *f, bool *agree)
{
	const struct ff_value *v = &g->values[g->nodes[node].out];

	f->target = v->n_uses > 0;
	f->none = -1;
	*agree = true;
	for (uint32_t i = 0; i < v->n_uses; i++) {
		const struct ff_node *loss = compares(g, ff_value_use(g, v, i));

		f->target = f->target && loss;
		if (!loss)
			continue;
		if (f->whole && f->compared && f->none != loss->attrs.loss.ignore)
			*agree = false;
		if (f->whole)
			f->none = loss->attrs.loss.ignore;
		f->binary = ff_op_row(loss->op)->predicts == FF_PREDICTS_BITS;
		f->compared = true;
	}
}

static int describe(
		const struct ff_graph *g, uint32_t node, struct ff_field *ret, struct ff_error *err)
{
	const struct ff_node *n = &g->nodes[node];
	const struct ff_value *v = &g->values[n->out];
	bool agree;

	*ret = (struct ff_field){.node = node,
			.stream = ff_node_stream(g, node),
			.name = n->name,
			.whole = v->dtype == FF_I32,
			.classes = n->attrs.input.classes,
			.rank = v->rank - 1,
			.elements = ff_shape_volume(v->rank - 1, v->shape + 1)};
	memcpy(ret->shape, v->shape + 1, ret->rank * sizeof(*ret->shape));
	describe_target(g, node, ret, &agree);
	return agree ? FF_OK
		     : ff_fail(err, FF_E_INPUT,
				       "graph %s: losses that read labels %s have another "
				       "\"ignore_index\" each",
				       g->name, n->name);
}

int ff_fields_of(const struct ff_graph *g, struct ff_arena *a, struct ff_fields *ret,
		struct ff_error *err)
{
	uint32_t n = 0, features = 0;
	int code;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		n += ff_node_is_source(g, i);
	ret->graph = g->name;
	ret->n = 0;
	ret->field = ff_arena_array(a, n, sizeof(*ret->field));
	if (!ret->field)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		if (!ff_node_is_source(g, i) || g->nodes[i].attrs.input.sums.n)
			continue;
		if ((code = describe(g, i, &ret->field[ret->n], err)) < 0)
			return code;
		features += !ret->field[ret->n++].target;
	}
	return features ? FF_OK
			: ff_fail(err, FF_E_INPUT,
					  "graph %s: has no input of float32 values or int32 "
					  "ids beside its labels",
					  g->name);
}

int ff_fields_labelled(
		const struct ff_opening *o, uint32_t *image, uint32_t *label, struct ff_error *err)
{
	const struct ff_fields *f = o->fields;

	*image = *label = FF_NONE;
	for (uint32_t i = 0; i < f->n; i++) {
		const struct ff_field *in = &f->field[i];
		uint32_t *place = in->target ? label : image;

		if (in->whole != in->target || *place != FF_NONE ||
				(in->target && in->elements != 1))
			return ff_fail(err, FF_E_INPUT,
					"data %s: has images and a label for each, but graph %s "
					"has an input %s of another kind",
					o->spec->text, f->graph, in->name);
		*place = i;
	}
	if (*image == FF_NONE || *label == FF_NONE)
		return ff_fail(err, FF_E_INPUT,
				"data %s: has images and a label for each, but graph %s has no "
				"input for %s",
				o->spec->text, f->graph, *image == FF_NONE ? "images" : "labels");
	return FF_OK;
}

/* The axes of more than one element. */
static uint32_t squeeze(uint32_t rank, const int64_t *shape, int64_t *ret)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < rank; i++)
		if (shape[i] != 1)
			ret[n++] = shape[i];
	return n;
}

bool ff_field_fits(const struct ff_field *f, uint32_t rank, const int64_t *shape)
{
	int64_t want[FF_MAX_RANK], have[FF_MAX_RANK], elements = 1;
	uint32_t n;

	if (rank > FF_MAX_RANK)
		return false;
	for (uint32_t i = 0; i < f->rank; i++)
		want[i] = f->shape[i];
	for (uint32_t i = 0; i < rank; i++)
		if (__builtin_mul_overflow(elements, shape[i], &elements))
			return false;
	if (elements != f->elements)
		return false;
	n = squeeze(f->rank, want, want);
	return n <= 1 ||
	       (n == squeeze(rank, shape, have) && !memcmp(want, have, n * sizeof(*want)));
}

void ff_sample_text(uint32_t rank, const int64_t *shape, char ret[FF_SHAPE_TEXT])
{
	size_t at = 0;

	snprintf(ret, FF_SHAPE_TEXT, "single numbers");
	for (uint32_t i = 0; i < rank && at < FF_SHAPE_TEXT - 24; i++)
		at += (size_t)snprintf(
				ret + at, FF_SHAPE_TEXT - at, "%s%" PRId64, i ? "x" : "", shape[i]);
}

void ff_field_text(const struct ff_field *f, char ret[FF_SHAPE_TEXT])
{
	int64_t shape[FF_MAX_RANK];

	for (uint32_t i = 0; i < f->rank; i++)
		shape[i] = f->shape[i];
	ff_sample_text(f->rank, shape, ret);
}
