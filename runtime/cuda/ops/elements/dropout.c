/* Dropout; backward draws its numbers again.  SPDX-License-Identifier: Apache-2.0 */
#include "dropout.h"

#include <string.h>

#include "cuda/core/copy.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "ff/rewrite.h"

struct dropout {
	enum ff_dtype type;
	int64_t whole; /* numbers for the tensor of one micro-batch */
	struct ff_dropout mask;
};

static int mask(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		const void *x, void *y, struct ff_error *err)
{
	const struct dropout *d = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	struct ff_dropout m = d->mask;

	if (!io->training)
		return ff_kernel_launched(ff_cuda_run_of(d->type, x, y, m.volume, queue), k, err);
	m.first += io->micro * d->whole;
	m.seed = io->seed;
	m.step = io->step;
	m.figures = io->figures;
	return ff_kernel_launched(ff_launch_dropout(d->type, &m, x, y, queue), k, err);
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	return mask(k, s, io, io->in[0], io->out[0], err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	return mask(k, s, io, io->dout[0], io->din[0], err);
}

int ff_cuda_dropout_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_operand *o = &w->node->out_map[0];
	const struct ff_region *out = &w->out[0];
	struct dropout *d = ff_kernel_state(k, sizeof(*d), err);
	int64_t index[FF_MAX_RANK], step = 1;

	if (!d)
		return FF_E_NOMEM;
	d->type = ff_work_type(w);
	d->mask = (struct ff_dropout){.rank = out->rank,
			.volume = ff_region_volume(out),
			.node = ff_node_stream(w->graph, (uint32_t)(w->node - w->graph->nodes)),
			.p = (float)w->node->attrs.dropout.p,
			.scale = (float)(1 / (1 - w->node->attrs.dropout.p))};
	for (uint32_t i = out->rank; i-- > 0;) {
		index[i] = step;
		d->mask.first += out->lo[i] * step;
		step *= o->shape[i];
	}
	d->whole = step;
	if (w->node->attrs.dropout.per == FF_DROP_SAMPLE) {
		memset(index, 0, sizeof(index));
		index[0] = 1;
		d->mask.first = out->lo[0];
		d->whole = o->shape[0];
	}
	for (uint32_t i = 0; i < out->rank; i++) {
		d->mask.n[i] = ff_region_size(out, o->order[i]);
		d->mask.index[i] = index[o->order[i]];
	}
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	return FF_OK;
}
