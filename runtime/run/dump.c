/* A step as a safetensors file (https://github.com/huggingface/safetensors):
 * eight bytes that say how long the JSON header is, the header, the tensors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ff/file.h"

/* Called twice over the same tensors: for the header, then for the data. */
struct dump {
	const struct ff_run_options *opt;
	struct ff_plan *plan;
	struct ff_executor *x;
	struct ff_out header;
	struct ff_file file; /* on the first rank */
	bool lead;
	int64_t at; /* bytes of data so far */
};

static int64_t volume(uint32_t rank, const int32_t *shape)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < rank; i++)
		n *= shape[i];
	return n;
}

static void head(struct dump *d, const char *name, const char *dtype, uint32_t rank,
		const int32_t *shape)
{
	int64_t bytes = volume(rank, shape) * FF_F32_BYTES;

	ff_out_object(&d->header, name);
	ff_out_string(&d->header, "dtype", dtype);
	ff_out_array(&d->header, "shape");
	for (uint32_t i = 0; i < rank; i++)
		ff_out_int(&d->header, NULL, shape[i]);
	ff_out_close(&d->header);
	ff_out_array(&d->header, "data_offsets");
	ff_out_int(&d->header, NULL, d->at);
	ff_out_int(&d->header, NULL, d->at + bytes);
	ff_out_close(&d->header);
	ff_out_close(&d->header);
	d->at += bytes;
}

static int put(struct dump *d, const void *data, int64_t elements, struct ff_error *err)
{
	if (!d->lead)
		return FF_OK;
	return ff_file_write(&d->file, data, (size_t)elements * FF_F32_BYTES, err);
}

/* All ranks gather; the first one writes. */
static int put_parameter(struct dump *d, uint32_t node, bool gradient, struct ff_error *err)
{
	const struct ff_value *v = &d->plan->graph.values[d->plan->graph.nodes[node].out];
	int64_t n = volume(v->rank, v->shape);
	float *whole = malloc((size_t)n * sizeof(*whole));
	int code;

	if (!whole)
		return ff_fail_memory(err);
	code = ff_executor_parameter(d->x, node, gradient, whole, err);
	if (code == FF_OK)
		code = put(d, whole, n, err);
	free(whole);
	return code;
}

/* The first batch in the order of the axes, whatever the storage. */
static int put_input(struct dump *d, uint32_t node, struct ff_error *err)
{
	const struct ff_value *t = &d->plan->graph.values[d->plan->graph.nodes[node].out];
	int64_t n = volume(t->rank, t->shape);
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
		ff_dataset_fill(d->plan->data, true, 0, node, &all, shard);
	for (int64_t k = 0; shard && whole && k < n; k++) {
		int64_t from = ff_region_offset(t->order, &all, at);

		whole[k] = t->dtype == FF_BF16 ? ff_bf16_to_f32(halves[from]) : shard[from];
		for (uint32_t i = t->rank; i-- > 0 && ++at[i] == t->shape[i];)
			at[i] = 0;
	}
	if (code == FF_OK)
		code = put(d, whole, n, err);
	free(shard);
	free(whole);
	return code;
}

static int each_parameter(struct dump *d, bool gradient, bool data, struct ff_error *err)
{
	const struct ff_graph *g = &d->plan->graph;
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		const struct ff_value *v = &g->values[g->nodes[i].out];
		char name[512];

		if (!ff_node_is_parameter(g, i))
			continue;
		snprintf(name, sizeof(name), "%s%s", gradient ? "grad." : "", g->nodes[i].name);
		if (data)
			code = put_parameter(d, i, gradient, err);
		else
			head(d, name, "F32", v->rank, v->shape);
	}
	return code;
}

static int each_input(struct dump *d, bool data, struct ff_error *err)
{
	const struct ff_graph *g = &d->plan->graph;
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		const struct ff_value *t = &g->values[g->nodes[i].out];
		char name[512];

		if (!(ff_op_row(g->nodes[i].op)->flags & FF_OP_SOURCE))
			continue;
		snprintf(name, sizeof(name), "input.%s", g->nodes[i].name);
		if (!data)
			head(d, name, t->dtype == FF_I32 ? "I32" : "F32", t->rank, t->shape);
		else if (d->lead)
			code = put_input(d, i, err);
	}
	return code;
}

static int walk(struct dump *d, bool data, double loss, struct ff_error *err)
{
	float value = (float)loss;
	int code;

	if ((code = each_parameter(d, false, data, err)) < 0 ||
			(code = each_parameter(d, true, data, err)) < 0 ||
			(code = each_input(d, data, err)) < 0)
		return code;
	if (data)
		return put(d, &value, 1, err);
	head(d, "loss", "F32", 0, NULL);
	return FF_OK;
}

static int write_header(struct dump *d, struct ff_error *err)
{
	uint64_t len;
	uint8_t bytes[8];
	int code;

	ff_out_object(&d->header, NULL);
	walk(d, false, 0, err);
	ff_out_close(&d->header);
	while (!d->header.failed && d->header.len % 8)
		ff_out_printf(&d->header, " "); /* the format pads with spaces */
	if (d->header.failed)
		return ff_fail_memory(err);
	if (!d->lead)
		return FF_OK;
	len = d->header.len;
	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(len >> (8 * i));
	code = ff_file_write(&d->file, bytes, sizeof(bytes), err);
	return code < 0 ? code : ff_file_write(&d->file, d->header.text, len, err);
}

int ff_dump(const struct ff_run_options *opt, struct ff_plan *p, struct ff_executor *x, bool lead,
		double loss, struct ff_error *err)
{
	struct dump d = {.opt = opt, .plan = p, .x = x, .lead = lead, .file = {.fd = -1}};
	int code = lead ? ff_file_open(opt->dump, &d.file, err) : FF_OK;

	if (code < 0)
		return code;
	ff_out_init(&d.header);
	code = write_header(&d, err);
	if (code == FF_OK)
		code = walk(&d, true, loss, err);
	ff_out_finish(&d.header);
	if (code == FF_OK && lead)
		code = ff_file_commit(&d.file, err);
	ff_file_drop(&d.file);
	return code;
}
