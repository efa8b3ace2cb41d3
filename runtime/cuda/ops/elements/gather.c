/* Elements of an axis in another order.  SPDX-License-Identifier: Apache-2.0 */
#include "gather.h"

#include <stdlib.h>

#include "cuda/core/kernel.h"
#include "cuda/core/memory.h"
#include "cuda/core/stream.h"
#include "cuda/core/table.h"

struct gather {
	enum ff_dtype type;
	struct ff_gather g;
	void *table;
};

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct gather *g = k->state;

	return ff_kernel_launched(ff_launch_pick(g->type, &g->g, g->table, io->in[0], io->out[0],
						  ff_stream_queue(s)),
			k, err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct gather *g = k->state;

	return ff_kernel_launched(ff_launch_pick_gradient(g->type, &g->g, g->table, io->dout[0],
						  io->din[0], ff_stream_queue(s)),
			k, err);
}

static void finish(struct ff_kernel *k)
{
	struct gather *g = k->state;

	if (g)
		ff_cuda_free(k->dev, g->table);
}

int ff_cuda_gather_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct gather *g = ff_kernel_state(k, sizeof(*g), err);
	size_t bytes;
	int32_t *table;
	int code;

	if (!g)
		return FF_E_NOMEM;
	k->finish = finish;
	g->type = ff_work_type(w);
	ff_gather_fill(w, &g->g);
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	bytes = (size_t)ff_gather_numbers(&g->g) * sizeof(*table);
	table = malloc(bytes);
	if (!table)
		return ff_fail_memory(err);
	ff_gather_table(w, &g->g, table);
	code = ff_cuda_table(k->dev, table, bytes, &g->table, err);
	free(table);
	return code;
}
