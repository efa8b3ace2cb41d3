/* Sum of tensors of one shape.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernel.h"

struct add {
	uint32_t n_in;
	int64_t volume;
	bool need_din[];
};

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct add *a = k->state;
	float *restrict out = io->out[0];
	const float *restrict x = io->in[0];
	const float *restrict y = io->in[1];

	(void)err;
#pragma omp parallel for simd if (a->volume >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < a->volume; i++)
		out[i] = x[i] + y[i];
	for (uint32_t slot = 2; slot < a->n_in; slot++) {
		y = io->in[slot];
#pragma omp parallel for simd if (a->volume >= FF_CPU_PARALLEL)
		for (int64_t i = 0; i < a->volume; i++)
			out[i] += y[i];
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
			memcpy(io->din[slot], io->dout[0], (size_t)a->volume * FF_F32_BYTES);
	return FF_OK;
}

int ff_cpu_add_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	uint32_t n_in = w->node->n_in;
	struct add *a = ff_kernel_state(k, sizeof(*a) + n_in * sizeof(a->need_din[0]), err);

	if (!a)
		return FF_E_NOMEM;
	a->n_in = n_in;
	a->volume = ff_region_volume(&w->out[0]);
	memcpy(a->need_din, w->need_din, n_in * sizeof(a->need_din[0]));
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	return FF_OK;
}
