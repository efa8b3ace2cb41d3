/* Functions of two elements (binary.h), as their operands broadcast.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cpu/core/kernel.h"
#include "cpu/core/loops.h"
#include "ff/clones.h"

#define DEFINE_RUN(name, part, expression)                                                         \
	FF_CLONES static void name##_##part(const float *xs, const float *ys, const float *zs,     \
			float *restrict out, int64_t n)                                            \
	{                                                                                          \
		for (int64_t i = 0; i < n; i++) {                                                  \
			const float x = xs[i], y = ys[i], z = zs[i];                               \
                                                                                                   \
			(void)x, (void)y, (void)z;                                                 \
			out[i] = expression;                                                       \
		}                                                                                  \
	}
#define DEFINE(name, of_z, of_dx, of_dy)                                                           \
	DEFINE_RUN(name, z, of_z)                                                                  \
	DEFINE_RUN(name, dx, (of_dx)*z)                                                            \
	DEFINE_RUN(name, dy, (of_dy)*z)
FF_BINARIES(DEFINE)
#undef DEFINE
#undef DEFINE_RUN

static const ff_run runs[FF_BINARY_COUNT][FF_BINARY_PARTS] = {
#define RUNS(name, of_z, of_dx, of_dy) [FF_BINARY_##name] = {name##_z, name##_dx, name##_dy},
		FF_BINARIES(RUNS)
#undef RUNS
};

ff_run ff_cpu_binary(enum ff_binary f, enum ff_binary_part part)
{
	return runs[f][part];
}

struct binary {
	struct ff_cpu_loops z, gradient[2];
	bool need_din[2], reads;
};

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct binary *b = k->state;
	const void *const read[FF_LOOP_READ] = {io->in[0], io->in[1]};

	(void)err;
	ff_cpu_loops(&b->z, read, io->out[0]);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct binary *b = k->state;
	const void *const read[FF_LOOP_READ] = {
			b->reads ? io->in[0] : NULL, b->reads ? io->in[1] : NULL, io->dout[0]};

	(void)err;
	for (int i = 0; i < 2; i++)
		if (b->need_din[i])
			ff_cpu_loops(&b->gradient[i], read, io->din[i]);
	return FF_OK;
}

static void fill(const struct ff_work *w, enum ff_binary f, enum ff_binary_part part,
		struct ff_cpu_loops *ret)
{
	const struct ff_operand *in = w->node->in_map;
	int sink = (int)part - 1;

	ret->run = runs[f][part];
	ret->type = ff_work_type(w);
	ret->sink = sink < 0 ? ret->type : (enum ff_dtype)in[sink].gradient;
	ret->scale = 1;
	ff_loops_binary(w, sink, &ret->loops);
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, enum ff_binary f,
		struct ff_error *err)
{
	struct binary *b;

	if (w->node->n_in > 2)
		return ff_cpu_sum_prepare(k, w, err);
	b = ff_kernel_state(k, sizeof(*b), err);
	if (!b)
		return FF_E_NOMEM;
	b->reads = ff_op_row(w->node->op)->flags & FF_OP_BACKWARD_IN;
	fill(w, f, FF_BINARY_Z, &b->z);
	for (uint32_t i = 0; i < 2; i++) {
		b->need_din[i] = w->need_din[i];
		fill(w, f, i ? FF_BINARY_DY : FF_BINARY_DX, &b->gradient[i]);
	}
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	return FF_OK;
}

#define PREPARE(e, row)                                                                            \
	int ff_cpu_##row##_prepare(                                                                \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare(k, w, FF_BINARY_##row, err);                                        \
	}
FF_BINARY_OPS(PREPARE)
#undef PREPARE
