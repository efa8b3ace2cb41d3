/* Numbers that are known: one sample is in the device's memory, and copied for each.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "cuda/core/copy.h"
#include "cuda/core/kernel.h"
#include "cuda/core/memory.h"
#include "cuda/core/stream.h"
#include "cuda/core/table.h"
#include "kernels/indices.h"

struct constant {
	enum ff_dtype type;
	struct ff_strided copy;
	void *sample;
};

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct constant *c = k->state;

	return ff_kernel_launched(ff_cuda_strided(&c->copy, c->type, c->sample, io->out[0],
						  ff_stream_queue(s)),
			k, err);
}

static void finish(struct ff_kernel *k)
{
	struct constant *c = k->state;

	if (c)
		ff_cuda_free(k->dev, c->sample);
}

int ff_cuda_constant_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct constant *c = ff_kernel_state(k, sizeof(*c), err);
	int64_t n = ff_constant_sample(w);
	size_t bytes;
	void *sample;
	int code;

	if (!c)
		return FF_E_NOMEM;
	k->finish = finish;
	k->run = w->pass == FF_FORWARD ? run_forward : ff_kernel_run_nothing;
	c->type = ff_work_type(w);
	c->copy = (struct ff_strided){.rank = 2,
			.n = {ff_constant_each(w) ? 1 : ff_region_size(&w->out[0], 0), n},
			.source = {0, 1},
			.sink = {n, 1}};
	bytes = (size_t)(n * ff_dtype_bytes(c->type));
	sample = malloc(bytes);
	if (!sample)
		return ff_fail_memory(err);
	ff_constant_fill(w, sample);
	code = ff_cuda_table(k->dev, sample, bytes, &c->sample, err);
	free(sample);
	return code;
}
