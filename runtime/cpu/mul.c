/* Product of two tensors of one shape.  Shards are dense on all sides and lie
 * alike.  SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

struct mul {
	int64_t volume;
	bool need_din[2];
};

static void multiply(
		const float *restrict x, const float *restrict y, float *restrict out, int64_t n)
{
#pragma omp parallel for simd if (n >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < n; i++)
		out[i] = x[i] * y[i];
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct mul *m = k->state;

	(void)err;
	multiply(io->in[0], io->in[1], io->out[0], m->volume);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct mul *m = k->state;

	(void)err;
	for (int i = 0; i < 2; i++)
		if (m->need_din[i])
			multiply(io->dout[0], io->in[1 - i], io->din[i], m->volume);
	return FF_OK;
}

int ff_cpu_mul_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct mul *m = ff_kernel_state(k, sizeof(*m), err);

	if (!m)
		return FF_E_NOMEM;
	m->volume = ff_region_volume(&w->out[0]);
	m->need_din[0] = w->need_din[0];
	m->need_din[1] = w->need_din[1];
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	return FF_OK;
}
