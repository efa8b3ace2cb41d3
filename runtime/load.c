/* Loads: sinks that are filled from the data set, by the host in the stream's order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "executor.h"

#include <stdlib.h>

static size_t load_bytes(const struct ff_transfer *t)
{
	const struct ff_move *mv = t->task->move;

	return (size_t)(ff_region_volume(&mv->region) * ff_dtype_bytes(mv->type));
}

int ff_load_build(struct ff_transfer *t, struct ff_error *err)
{
	struct ff_ends e;

	(void)err;
	ff_transfer_ends(t, &e);
	t->load = t->sink = ff_bind_buffer(t->x, e.sink[t->task->move->sink[0]]);
	return FF_OK;
}

int ff_load_stage(struct ff_executor *x, struct ff_error *err)
{
	size_t most = 0;

	for (uint32_t i = 0; i < x->s->n_tasks && !x->b->host_memory; i++) {
		const struct ff_transfer *t = x->job[i].transfer;

		if (t && t->load && load_bytes(t) > most)
			most = load_bytes(t);
	}
	if (!most)
		return FF_OK;
	if (x->b->pin) {
		int code = x->b->pin(x->host[0].dev, most, &x->load_stage, err);

		if (code < 0)
			return code;
	} else if (!(x->load_stage = malloc(most))) {
		return ff_fail_memory(err);
	}
	for (uint32_t i = 0; i < x->s->n_tasks; i++)
		if (x->job[i].transfer && x->job[i].transfer->load)
			x->job[i].transfer->load = x->load_stage;
	return FF_OK;
}

void ff_load_close(struct ff_executor *x)
{
	if (x->load_stage && x->b->pin)
		x->b->unpin(x->host[0].dev, x->load_stage);
	else
		free(x->load_stage);
}

/* The elements of its micro-batch, by their place in the batch. */
static int load(void *arg, struct ff_error *err)
{
	const struct ff_transfer *t = arg;
	const struct ff_executor *x = t->x;
	int32_t before = (int32_t)t->task->micro * x->s->graph->batch;
	struct ff_region region = t->task->move->region;

	(void)err;
	region.lo[0] += before;
	region.hi[0] += before;
	ff_dataset_fill(x->data, x->training, x->step, ff_edge_source(x->s->graph, t->task->edge),
			&region, t->load);
	return FF_OK;
}

int ff_load_issue(struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err)
{
	const struct ff_backend *b = t->x->b;
	int code = b->call(stream, load, t, err);

	if (code < 0 || t->load == t->sink)
		return code;
	return b->upload(stream, t->sink, t->load, load_bytes(t), err);
}
