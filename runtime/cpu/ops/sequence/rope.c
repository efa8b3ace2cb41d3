/* Rotary position embedding; backward turns the other way.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cpu/core/kernel.h"
#include "cpu/core/real.h"
#include "ff/clones.h"

/* `turns`: of each row the cosines and, behind them, the sines of a head's angles. */
struct rope {
	enum ff_dtype type;
	bool back;
	int64_t samples, rows, heads, half;
	float turns[];
};

FF_REAL_LOOP void turn_row(
		enum ff_dtype t, const struct rope *r, int64_t row, const void *x, void *y)
{
	const float *c = r->turns + row % r->rows * 2 * r->half, *s = c + r->half;
	float sign = r->back ? -1.0f : 1.0f;

	for (int64_t head = 0; head < r->heads; head++) {
		int64_t at = (row * r->heads + head) * 2 * r->half;
		const void *from = ff_real_in(t, x, at);
		void *to = ff_real_out(t, y, at);

		for (int64_t i = 0; i < r->half; i++) {
			float a = ff_real_get(t, from, i), b = ff_real_get(t, from, i + r->half);

			ff_real_put(t, to, i, a * c[i] - b * sign * s[i]);
			ff_real_put(t, to, i + r->half, b * c[i] + a * sign * s[i]);
		}
	}
}

FF_CLONES static void turn(const struct rope *r, int64_t row, const void *x, void *y)
{
	FF_REAL_CALL(r->type, turn_row, r, row, x, y);
}

static int run(const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct rope *r = k->state;
	int64_t rows = r->samples * r->rows;

	(void)err;
#pragma omp parallel for if (rows * r->heads * r->half >= FF_CPU_PARALLEL / 2)
	for (int64_t row = 0; row < rows; row++)
		turn(r, row, r->back ? io->dout[0] : io->in[0], r->back ? io->din[0] : io->out[0]);
	return FF_OK;
}

int ff_cpu_rope_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_rope_attrs *a = &w->node->attrs.rope;
	int64_t rows = ff_region_size(&w->out[0], 1), half = a->head_dim / 2;
	struct rope *r = ff_kernel_state(
			k, sizeof(*r) + (size_t)(2 * rows * half) * sizeof(*r->turns), err);

	if (!r)
		return FF_E_NOMEM;
	r->type = ff_work_type(w);
	r->back = w->pass == FF_BACKWARD;
	r->samples = ff_region_size(&w->out[0], 0);
	r->rows = rows;
	r->heads = ff_region_size(&w->out[0], 2) / a->head_dim;
	r->half = half;
	for (int64_t i = 0; i < rows * half; i++) {
		int64_t row = w->out[0].lo[1] + i / half;
		double place = (double)row, share = (double)(i % half);
		double angle = place * pow(a->base, -share / (double)half);
		float *of_row = r->turns + i / half * 2 * half;

		of_row[i % half] = (float)cos(angle);
		of_row[half + i % half] = (float)sin(angle);
	}
	k->run = r->back && !w->need_din[0] ? ff_kernel_run_nothing : run;
	return FF_OK;
}
