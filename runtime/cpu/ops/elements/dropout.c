/* Dropout.  Element i of the whole tensor (row-major, whatever the split), or sample i, is
 * kept when its Philox number is at least p; backward draws it again.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/core/copy.h"
#include "cpu/core/kernel.h"
#include "cpu/core/real.h"
#include "ff/philox.h"
#include "ff/rewrite.h"

#define RUN 256 /* numbers drawn at a time */

struct dropout {
	enum ff_dtype type;
	uint32_t node, rank;
	float p, scale;
	bool per_sample;
	int64_t volume;
	/* The axes but the last in storage order: rows whose elements follow each
	 * other in the tensor, `step` apart in the shard. */
	int64_t rows, row, step;
	int64_t n[FF_MAX_RANK], stride[FF_MAX_RANK], index[FF_MAX_RANK];
	int64_t first; /* index of the shard's first element in the tensor */
	int64_t whole; /* numbers for the tensor of one micro-batch */
};

/* The elements of `x`, `step` apart, whose numbers are in `u`. */
FF_REAL_LOOP void mask_run(enum ff_dtype type, const struct dropout *d, const float *u, int64_t n,
		int64_t step, const void *x, void *y)
{
	for (int64_t j = 0; j < n; j++)
		ff_real_put(type, y, j * step,
				u[j] < d->p ? 0 : ff_real_get(type, x, j * step) * d->scale);
}

static void mask_row(const struct dropout *d, const struct ff_kernel_io *io, int64_t index,
		const void *x, void *y)
{
	uint64_t stream = ff_philox_stream(d->node, (uint32_t)io->step);
	float u[RUN];

	for (int64_t i = 0; i < d->row; i += RUN) {
		int64_t n = d->row - i < RUN ? d->row - i : RUN;
		const void *from = ff_real_in(d->type, x, i * d->step);
		void *to = ff_real_out(d->type, y, i * d->step);

		ff_philox_uniform(io->seed, stream, (uint64_t)(d->per_sample ? index : index + i),
				d->per_sample ? 1 : (size_t)n, u);
		for (int64_t j = 1; d->per_sample && j < n; j++)
			u[j] = u[0];
		if (d->step == 1)
			FF_REAL_CALL(d->type, mask_run, d, u, n, 1, from, to);
		else
			FF_REAL_CALL(d->type, mask_run, d, u, n, d->step, from, to);
	}
}

static void mask(const struct dropout *d, const struct ff_kernel_io *io, const void *x, void *y)
{
	if (!io->training) {
		memcpy(y, x, (size_t)(d->volume * ff_dtype_bytes(d->type)));
		return;
	}
#pragma omp parallel for if (d->volume >= FF_CPU_PARALLEL / 8)
	for (int64_t row = 0; row < d->rows; row++) {
		int64_t rest = row, at = 0, index = d->first + io->micro * d->whole;

		for (uint32_t i = d->rank - 1; i-- > 0;) {
			at += rest % d->n[i] * d->stride[i];
			index += rest % d->n[i] * d->index[i];
			rest /= d->n[i];
		}
		mask_row(d, io, index, ff_real_in(d->type, x, at), ff_real_out(d->type, y, at));
	}
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	(void)err;
	mask(k->state, io, io->in[0], io->out[0]);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	(void)err;
	mask(k->state, io, io->dout[0], io->din[0]);
	return FF_OK;
}

int ff_cpu_dropout_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const uint8_t *order = w->node->out_map[0].order;
	uint32_t last = w->out[0].rank - 1, at = 0;
	struct dropout *d = ff_kernel_state(k, sizeof(*d), err);
	int64_t stride[FF_MAX_RANK], index[FF_MAX_RANK], step = 1;

	if (!d)
		return FF_E_NOMEM;
	d->type = ff_work_type(w);
	d->node = ff_node_stream(w->graph, (uint32_t)(w->node - w->graph->nodes));
	d->rank = w->out[0].rank;
	d->p = (float)w->node->attrs.dropout.p;
	d->scale = (float)(1 / (1 - w->node->attrs.dropout.p));
	d->volume = ff_region_volume(&w->out[0]);
	ff_region_strides(order, &w->out[0], stride);
	for (uint32_t i = d->rank; i-- > 0;) {
		index[i] = step;
		d->first += w->out[0].lo[i] * step;
		step *= w->node->out_map[0].shape[i];
	}
	d->whole = step;
	d->per_sample = w->node->attrs.dropout.per == FF_DROP_SAMPLE && d->rank > 1;
	if (d->per_sample) {
		memset(index, 0, sizeof(index));
		index[0] = 1;
		d->first = w->out[0].lo[0];
		d->whole = w->node->out_map[0].shape[0];
	}
	d->row = ff_region_size(&w->out[0], last);
	d->rows = d->volume / d->row;
	d->step = stride[last];
	for (uint32_t i = 0; i < d->rank; i++)
		if (order[i] != last) {
			d->n[at] = ff_region_size(&w->out[0], order[i]);
			d->stride[at] = stride[order[i]];
			d->index[at++] = index[order[i]];
		}
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	return FF_OK;
}
