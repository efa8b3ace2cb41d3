/* Product of two tensors of one shape.  Shards are dense on all sides and lie
 * alike.  SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"
#include "real.h"

struct mul {
	enum ff_dtype type;
	int64_t volume;
	bool need_din[2];
};

FF_REAL_LOOP void multiply_block(enum ff_dtype type, const void *restrict x, const void *restrict y,
		void *restrict out, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		ff_real_put(type, out, i, ff_real_get(type, x, i) * ff_real_get(type, y, i));
}

static void multiply(const struct mul *m, const void *x, const void *y, void *out)
{
#pragma omp parallel for if (m->volume >= FF_CPU_PARALLEL)
	for (int64_t at = 0; at < m->volume; at += FF_REAL_BLOCK) {
		int64_t n = m->volume - at < FF_REAL_BLOCK ? m->volume - at : FF_REAL_BLOCK;

		FF_REAL_CALL(m->type, multiply_block, ff_real_in(m->type, x, at),
				ff_real_in(m->type, y, at), ff_real_out(m->type, out, at), n);
	}
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct mul *m = k->state;

	(void)err;
	multiply(m, io->in[0], io->in[1], io->out[0]);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct mul *m = k->state;

	(void)err;
	for (int i = 0; i < 2; i++)
		if (m->need_din[i])
			multiply(m, io->dout[0], io->in[1 - i], io->din[i]);
	return FF_OK;
}

int ff_cpu_mul_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct mul *m = ff_kernel_state(k, sizeof(*m), err);

	if (!m)
		return FF_E_NOMEM;
	m->type = ff_work_type(w);
	m->volume = ff_region_volume(&w->out[0]);
	m->need_din[0] = w->need_din[0];
	m->need_din[1] = w->need_din[1];
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	return FF_OK;
}
