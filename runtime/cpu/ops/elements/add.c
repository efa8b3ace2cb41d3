/* Sum of more than two tensors, of one shape.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/core/kernel.h"
#include "cpu/core/real.h"

struct add {
	enum ff_dtype type;
	uint32_t n_in;
	int64_t volume;
	bool need_din[];
};

/* Elements `first` to first + n - 1, in the order of the inputs, rounded at the end. */
FF_REAL_LOOP void add_block(enum ff_dtype type, const struct add *a, const struct ff_kernel_io *io,
		int64_t first, int64_t n)
{
	const void *x = ff_real_in(type, io->in[0], first);
	const void *y = ff_real_in(type, io->in[1], first);
	void *out = ff_real_out(type, io->out[0], first);
	float sum[FF_REAL_BLOCK];

	for (int64_t i = 0; i < n; i++)
		sum[i] = ff_real_get(type, x, i) + ff_real_get(type, y, i);
	for (uint32_t slot = 2; slot < a->n_in; slot++) {
		y = ff_real_in(type, io->in[slot], first);
		for (int64_t i = 0; i < n; i++)
			sum[i] += ff_real_get(type, y, i);
	}
	for (int64_t i = 0; i < n; i++)
		ff_real_put(type, out, i, sum[i]);
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct add *a = k->state;

	(void)err;
#pragma omp parallel for if (a->volume >= FF_CPU_PARALLEL)
	for (int64_t at = 0; at < a->volume; at += FF_REAL_BLOCK) {
		int64_t n = a->volume - at < FF_REAL_BLOCK ? a->volume - at : FF_REAL_BLOCK;

		FF_REAL_CALL(a->type, add_block, a, io, at, n);
	}
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct add *a = k->state;

	(void)err;
	for (uint32_t slot = 0; slot < a->n_in; slot++)
		if (a->need_din[slot])
			memcpy(io->din[slot], io->dout[0],
					(size_t)(a->volume * ff_dtype_bytes(a->type)));
	return FF_OK;
}

int ff_cpu_sum_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	uint32_t n_in = w->node->n_in;
	struct add *a = ff_kernel_state(k, sizeof(*a) + n_in * sizeof(a->need_din[0]), err);

	if (!a)
		return FF_E_NOMEM;
	a->type = ff_work_type(w);
	a->n_in = n_in;
	a->volume = ff_region_volume(&w->out[0]);
	memcpy(a->need_din, w->need_din, n_in * sizeof(a->need_din[0]));
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	return FF_OK;
}
