/* What a part of an attention has to do.  SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"

#include <math.h>
#include <string.h>

#include "ff/rewrite.h"
#include "ff/work.h"

enum { SAMPLE, HEAD, QUERY, KEY, MASK = 3 };

/* 0 along axes that are broadcast. */
static void fill_mask(const struct ff_work *w, struct ff_attention *ret)
{
	const struct ff_operand *o = &w->node->in_map[MASK];

	ff_region_strides(o->order, &w->in[MASK], ret->mask_stride);
	for (uint32_t i = 0; i < 4; i++)
		if (o->shape[i] == 1)
			ret->mask_stride[i] = 0;
}

/* As ff_op_dropout has them of a tensor of all scores, the rows' last axis that of the keys. */
static void fill_numbers(const struct ff_work *w, struct ff_attention *ret)
{
	uint32_t node = (uint32_t)(w->node - w->graph->nodes);
	double p = w->node->attrs.attention.dropout;

	ret->node = ff_node_stream(w->graph, ff_node_leader(w->graph, node));
	ret->dropped = (float)p;
	ret->kept = (float)(1 / (1 - p));
	ret->numbers = 1;
	for (uint32_t i = KEY + 1; i-- > 0;) {
		if (i < KEY)
			ret->number_stride[i] = ret->numbers;
		ret->first_number += w->box.lo[i] * ret->numbers;
		ret->numbers *= w->node->dim[i].extent;
	}
}

void ff_attention_fill(const struct ff_work *w, struct ff_attention *ret)
{
	const struct ff_attention_attrs *a = &w->node->attrs.attention;
	const struct ff_region *box = &w->box;

	memset(ret, 0, sizeof(*ret));
	ret->samples = ff_region_size(box, SAMPLE);
	ret->heads = ff_region_size(box, HEAD);
	ret->queries = ff_region_size(box, QUERY);
	ret->keys = ff_region_size(box, KEY);
	ret->size = a->head_dim;
	ret->key_heads = ff_region_size(&w->in[1], 2) / a->head_dim;
	ret->first_head = box->lo[HEAD];
	ret->first_key_head = w->in[1].lo[2] / a->head_dim;
	ret->first_query = box->lo[QUERY];
	ret->first_key = box->lo[KEY];
	ret->shared = w->node->in_map[0].shape[2] / w->node->in_map[1].shape[2];
	ret->causal = a->causal;
	ret->masked = w->node->n_data - w->node->n_prelude > MASK;
	ret->all_keys = ret->keys == w->node->dim[KEY].extent;
	ret->scale = (float)(a->scale > 0 ? a->scale : 1 / sqrt((double)a->head_dim));
	if (ret->masked)
		fill_mask(w, ret);
	if (a->dropout > 0)
		fill_numbers(w, ret);
}
