/* What is linear along every axis of images.  SPDX-License-Identifier: Apache-2.0 */
#include "resample.h"

#include <stdlib.h>

#define FF_RESAMPLE_FN static inline
#include "cuda/core/kernel.h"
#include "cuda/core/memory.h"
#include "cuda/core/stream.h"
#include "cuda/core/table.h"
#include "kernels/resample.h"

struct resample {
	enum ff_dtype type;
	struct ff_resampling map;
	void *table;
};

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct resample *r = k->state;

	return ff_kernel_launched(ff_launch_resample(r->type, &r->map, io->in[0], io->out[0],
						  ff_stream_queue(s)),
			k, err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct resample *r = k->state;

	return ff_kernel_launched(ff_launch_resample_gradient(r->type, &r->map, io->dout[0],
						  io->din[0], ff_stream_queue(s)),
			k, err);
}

static void finish(struct ff_kernel *k)
{
	struct resample *r = k->state;

	if (r)
		ff_cuda_free(k->dev, r->table);
}

/* Weights differ between the first input and the others at most. */
static void fill_outputs(const struct ff_resample_axis *a, struct ff_resample_run *to)
{
	for (int64_t i = 0; i < a->out_n; i++) {
		int64_t o = a->out_lo + i, first = ff_resample_begin(a, o);
		int64_t end = ff_resample_end(a, o);

		to[i] = (struct ff_resample_run){.first = (int32_t)(first - a->in_lo),
				.end = (int32_t)(end - a->in_lo)};
		if (first >= end)
			continue;
		to[i].weight = ff_resample_weight(a, o, first);
		to[i].others = ff_resample_weight(a, o, end - 1);
	}
}

static void fill_inputs(const struct ff_resample_axis *a, struct ff_resample_run *to)
{
	for (int64_t i = 0; i < a->in_n; i++) {
		int64_t first = ff_resample_reader(a, a->in_lo + i) - a->out_lo;
		int64_t end = ff_resample_last(a, a->in_lo + i) - a->out_lo;

		to[i] = (struct ff_resample_run){.first = (int32_t)(first < 0 ? 0 : first),
				.end = (int32_t)(end > a->out_n ? a->out_n : end)};
	}
}

static int fill_table(struct ff_kernel *k, const struct ff_resample *r, struct resample *state,
		struct ff_error *err)
{
	const struct ff_resample_axis *a = r->axis;
	int64_t outputs = a[0].out_n + a[1].out_n + a[2].out_n;
	int64_t inputs = a[0].in_n + a[1].in_n + a[2].in_n;
	size_t bytes = (size_t)(outputs + inputs) * sizeof(struct ff_resample_run);
	struct ff_resample_run *runs = malloc(bytes), *of_out = runs, *of_in = runs + outputs;
	int code;

	if (!runs)
		return ff_fail_memory(err);
	for (int i = 0; i < 3; of_out += a[i].out_n, of_in += a[i].in_n, i++) {
		fill_outputs(&a[i], of_out);
		fill_inputs(&a[i], of_in);
	}
	code = ff_cuda_table(k->dev, runs, bytes, &state->table, err);
	free(runs);
	state->map.runs = state->table;
	return code;
}

int ff_cuda_resample(struct ff_kernel *k, const struct ff_work *w, const struct ff_resample *r,
		struct ff_error *err)
{
	struct resample *state = ff_kernel_state(k, sizeof(*state), err);

	if (!state)
		return FF_E_NOMEM;
	k->finish = finish;
	state->type = ff_work_type(w);
	state->map.n = r->n;
	state->map.c = r->c;
	for (int i = 0; i < 3; i++) {
		state->map.in[i] = r->axis[i].in_n;
		state->map.out[i] = r->axis[i].out_n;
	}
	k->run = w->pass == FF_FORWARD ? run_forward
		 : w->need_din[0]      ? run_backward
				       : ff_kernel_run_nothing;
	return fill_table(k, r, state, err);
}
