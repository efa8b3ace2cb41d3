/* Functions of one element (unary.h).  Loops are over float32; blocks of bfloat16 are widened
 * before and rounded behind, in the first cache.  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/core/functions.h"
#include "cpu/core/kernel.h"
#include "cpu/core/real.h"
#include "ff/clones.h"
#include "kernels/unary.h"

/* Forward `v` is x and `dy` nothing. */
typedef void (*ff_unary_loop)(
		const float *v, const float *dy, float *out, int64_t n, float a, float b);

#define DEFINE(name, y, slope)                                                                     \
	FF_CLONES static void name##_forward(const float *restrict in, const float *dy,            \
			float *restrict out, int64_t n, float a, float b)                          \
	{                                                                                          \
		(void)dy, (void)a, (void)b;                                                        \
		for (int64_t i = 0; i < n; i++) {                                                  \
			const float x = in[i];                                                     \
                                                                                                   \
			out[i] = y;                                                                \
		}                                                                                  \
	}                                                                                          \
	FF_CLONES static void name##_backward(const float *restrict from,                          \
			const float *restrict dy, float *restrict out, int64_t n, float a,         \
			float b)                                                                   \
	{                                                                                          \
		(void)a, (void)b;                                                                  \
		for (int64_t i = 0; i < n; i++) {                                                  \
			const float v = from[i];                                                   \
                                                                                                   \
			(void)v;                                                                   \
			out[i] = dy[i] * (slope);                                                  \
		}                                                                                  \
	}
FF_UNARIES(DEFINE)
#undef DEFINE

static const ff_unary_loop loops[FF_UNARY_COUNT][2] = {
#define LOOPS(name, y, slope) [FF_UNARY_##name] = {name##_forward, name##_backward},
		FF_UNARIES(LOOPS)
#undef LOOPS
};

struct elementwise {
	enum ff_dtype type;
	ff_unary_loop loop;
	float a, b;
	int64_t volume;
	bool reads_out; /* backward reads the output, else the input, or what it does not use */
};

FF_CLONES static void widen(const uint16_t *restrict in, float *restrict out, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = ff_bf16_to_f32(in[i]);
}

FF_CLONES static void narrow(const float *restrict in, uint16_t *restrict out, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = ff_bf16_from_f32(in[i]);
}

static void run_rounded(const struct elementwise *e, const uint16_t *v, const uint16_t *dy,
		uint16_t *out, int64_t n)
{
	float x[FF_REAL_BLOCK], y[FF_REAL_BLOCK], z[FF_REAL_BLOCK];

	widen(v, x, n);
	if (dy)
		widen(dy, y, n);
	e->loop(x, y, z, n, e->a, e->b);
	narrow(z, out, n);
}

static void run(const struct elementwise *e, const void *v, const void *dy, void *out)
{
	enum ff_dtype t = e->type;

#pragma omp parallel for if (e->volume >= FF_CPU_PARALLEL)
	for (int64_t at = 0; at < e->volume; at += FF_REAL_BLOCK) {
		int64_t n = e->volume - at < FF_REAL_BLOCK ? e->volume - at : FF_REAL_BLOCK;
		const void *x = ff_real_in(t, v, at), *y = dy ? ff_real_in(t, dy, at) : NULL;
		void *z = ff_real_out(t, out, at);

		if (t == FF_BF16)
			run_rounded(e, x, y, z, n);
		else
			e->loop(x, y, z, n, e->a, e->b);
	}
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	(void)err;
	run(k->state, io->in[0], NULL, io->out[0]);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct elementwise *e = k->state;
	const void *v = e->reads_out ? io->out[0] : io->in[0] ? io->in[0] : io->dout[0];

	(void)err;
	run(e, v, io->dout[0], io->din[0]);
	return FF_OK;
}

/* Shards are dense on both sides and lie alike. */
static int prepare(struct ff_kernel *k, const struct ff_work *w, enum ff_unary function,
		struct ff_error *err)
{
	const struct ff_unary_attrs *a = &w->node->attrs.unary;
	const struct ff_op_row *row = ff_op_row(w->node->op);
	struct elementwise *e = ff_kernel_state(k, sizeof(*e), err);
	bool backward = w->pass == FF_BACKWARD;

	if (!e)
		return FF_E_NOMEM;
	if (row->n_attrs) {
		e->a = (float)a->a;
		e->b = (float)a->b;
		function += (uint32_t)a->form;
	}
	e->type = ff_work_type(w);
	e->loop = loops[function][backward];
	e->volume = ff_region_volume(&w->out[0]);
	e->reads_out = row->flags & FF_OP_BACKWARD_OUT;
	k->run = !backward ? run_forward : w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	return FF_OK;
}

#define PREPARE(e, row)                                                                            \
	int ff_cpu_##row##_prepare(                                                                \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare(k, w, FF_UNARY_##row, err);                                         \
	}
FF_UNARY_OPS(PREPARE)
#undef PREPARE
