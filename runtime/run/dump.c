/* A step as a safetensors file.  SPDX-License-Identifier: Apache-2.0 */
#include "weights.h"

#include <stdio.h>
#include <stdlib.h>

/* The first batch in the order of the axes, whatever the storage. */
static int put_input(const struct ff_run_plan *p, uint32_t node, struct ff_tensors_out *out,
		struct ff_error *err)
{
	const struct ff_value *t = &p->graph.values[p->graph.nodes[node].out];
	int64_t n = ff_value_volume(t);
	float *shard = malloc((size_t)n * sizeof(*shard)),
	      *whole = malloc((size_t)n * sizeof(*whole));
	const uint16_t *halves = (const uint16_t *)shard;
	struct ff_region all = {.rank = t->rank};
	int32_t at[FF_MAX_RANK] = {0};
	int code = FF_OK;

	for (uint32_t i = 0; i < t->rank; i++)
		all.hi[i] = t->shape[i];
	if (!shard || !whole)
		code = ff_fail_memory(err);
	else
		code = ff_dataset_fill(p->data, true, 0, node, &all, shard, err);
	for (int64_t k = 0; code == FF_OK && k < n; k++) {
		int64_t from = ff_region_offset(t->order, &all, at);

		whole[k] = t->dtype == FF_BF16 ? ff_bf16_to_f32(halves[from]) : shard[from];
		for (uint32_t i = t->rank; i-- > 0 && ++at[i] == t->shape[i];)
			at[i] = 0;
	}
	if (code == FF_OK)
		code = ff_tensors_write(out, whole, (size_t)n * sizeof(*whole), err);
	free(shard);
	free(whole);
	return code;
}

static void declare(const struct ff_graph *g, struct ff_tensors_out *out)
{
	ff_weights_declare(g, FF_ARRAY_WEIGHTS, out);
	ff_weights_declare(g, FF_ARRAY_GRADIENTS, out);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_value *t = &g->values[g->nodes[i].out];
		char name[FF_TENSOR_NAME];

		if (!ff_node_is_source(g, i))
			continue;
		snprintf(name, sizeof(name), "input.%s", g->nodes[i].name);
		ff_tensors_declare(
				out, name, t->dtype == FF_I32 ? "I32" : "F32", t->rank, t->shape);
	}
	ff_tensors_declare(out, "loss", "F32", 0, NULL);
}

static int put_rest(const struct ff_run_plan *p, double loss, struct ff_tensors_out *out,
		struct ff_error *err)
{
	float value = (float)loss;
	int code = FF_OK;

	for (uint32_t i = 0; i < p->graph.n_nodes && code == FF_OK; i++)
		if (ff_node_is_source(&p->graph, i))
			code = put_input(p, i, out, err);
	if (code == FF_OK)
		code = ff_tensors_write(out, &value, sizeof(value), err);
	return code < 0 ? code : ff_tensors_commit(out, err);
}

int ff_dump(const char *path, struct ff_run_plan *p, struct ff_executor *x, bool lead, double loss,
		struct ff_error *err)
{
	struct ff_tensors_out out = {.file = {.fd = -1}}, *to = lead ? &out : NULL;
	int code = lead ? ff_tensors_create(path, &out, err) : FF_OK;

	if (code < 0)
		return code;
	if (lead)
		declare(&p->graph, &out);
	code = ff_weights_write(x, &p->graph, FF_ARRAY_WEIGHTS, to, err);
	if (code == FF_OK)
		code = ff_weights_write(x, &p->graph, FF_ARRAY_GRADIENTS, to, err);
	if (code == FF_OK && lead)
		code = put_rest(p, loss, &out, err);
	ff_tensors_drop(&out);
	return code;
}
