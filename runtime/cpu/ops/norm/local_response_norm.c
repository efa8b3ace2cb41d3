/* Local response normalisation.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cpu/core/kernel.h"
#include "cpu/core/real.h"
#include "kernels/response.h"

struct response {
	enum ff_dtype type;
	struct ff_response r;
	int64_t shares; /* in the workspace, by position and channel that is written */
};

static void find(const struct ff_response *r, int64_t i, int64_t *in, int64_t *out)
{
	*in = *out = 0;
	for (uint32_t a = r->rank; a-- > 0;) {
		*in += i % r->n[a] * r->in[a];
		*out += i % r->n[a] * r->out[a];
		i /= r->n[a];
	}
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* What channel `c` is divided by, but for the power; `x` is the position's first. */
static float base_of(const struct response *s, const void *x, int64_t at, int64_t c)
{
	const struct ff_response *r = &s->r;
	int64_t lo = most(c - r->before, r->in_lo),
		hi = least(c + r->behind, r->in_lo + r->in_n - 1);
	float sum = 0;

	for (int64_t j = lo; j <= hi; j++) {
		float v = ff_real_get(s->type, x, at + (j - r->in_lo) * r->in_step);

		sum += v * v;
	}
	return r->k + r->scale * sum;
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct response *s = k->state;
	const struct ff_response *r = &s->r;

	(void)err;
#pragma omp parallel for if (r->positions * r->out_n >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < r->positions; i++) {
		int64_t in, out;

		find(r, i, &in, &out);
		for (int64_t c = r->out_lo; c < r->out_lo + r->out_n; c++) {
			float x = ff_real_get(s->type, io->in[0], in + (c - r->in_lo) * r->in_step);
			float y = x * powf(base_of(s, io->in[0], in, c), -r->beta);

			ff_real_put(s->type, io->out[0], out + (c - r->out_lo) * r->out_step, y);
		}
	}
	return FF_OK;
}

/* Of every channel that is written what its gradient gives to those next to it, then of every one
 * that is read the sum of those. */
static void spread(const struct response *s, const struct ff_kernel_io *io, int64_t in, int64_t out,
		float *share)
{
	const struct ff_response *r = &s->r;
	int64_t end = r->out_lo + r->out_n;

	for (int64_t c = r->out_lo; c < end; c++) {
		float x = ff_real_get(s->type, io->in[0], in + (c - r->in_lo) * r->in_step);
		float dy = ff_real_get(s->type, io->dout[0], out + (c - r->out_lo) * r->out_step);
		float base = base_of(s, io->in[0], in, c);

		share[2 * (c - r->out_lo)] = dy * powf(base, -r->beta);
		share[2 * (c - r->out_lo) + 1] = share[2 * (c - r->out_lo)] * x / base;
	}
	for (int64_t c = r->in_lo; c < r->in_lo + r->in_n; c++) {
		int64_t lo = most(c - r->behind, r->out_lo), hi = least(c + r->before, end - 1);
		float x = ff_real_get(s->type, io->in[0], in + (c - r->in_lo) * r->in_step);
		float sum = 0, own = 0;

		for (int64_t j = lo; j <= hi; j++)
			sum += share[2 * (j - r->out_lo) + 1];
		if (c >= r->out_lo && c < end)
			own = share[2 * (c - r->out_lo)];
		ff_real_put(s->type, io->din[0], in + (c - r->in_lo) * r->in_step,
				own - 2 * r->scale * r->beta * x * sum);
	}
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct response *s = k->state;
	const struct ff_response *r = &s->r;
	float *share = ff_kernel_at(io, s->shares);

	(void)err;
#pragma omp parallel for if (r->positions * r->out_n >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < r->positions; i++) {
		int64_t in, out;

		find(r, i, &in, &out);
		spread(s, io, in, out, share + 2 * i * r->out_n);
	}
	return FF_OK;
}

int ff_cpu_local_response_norm_prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct response *s = ff_kernel_state(k, sizeof(*s), err);

	if (!s)
		return FF_E_NOMEM;
	s->type = ff_work_type(w);
	ff_response_fill(w, &s->r);
	k->run = run_forward;
	if (w->pass == FF_FORWARD)
		return FF_OK;
	k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	if (w->need_din[0])
		s->shares = ff_kernel_reserve(k, s->r.positions * s->r.out_n * 2 * FF_F32_BYTES);
	return FF_OK;
}
