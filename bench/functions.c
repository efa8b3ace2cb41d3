/* Times of the CPU kernels' functions of one element, a loop over 65,536 numbers, beside the C
 * library called for each, and oneDNN where it has the function, with OMP_NUM_THREADS=1 on one
 * thread too.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dnnl.h>
#include <stdio.h>

#include "cpu/core/functions.h"
#include "ff/clock.h"
#include "ff/clones.h"
#include "kernels/unary.h"

#define N 65536
#define ROUNDS 200

static float in[N], out[N];

#define DEFINE(name, y, slope)                                                                     \
	FF_CLONES static void name##_ours(float a, float b)                                        \
	{                                                                                          \
		(void)a, (void)b;                                                                  \
		for (int i = 0; i < N; i++) {                                                      \
			const float x = in[i];                                                     \
                                                                                                   \
			out[i] = y;                                                                \
		}                                                                                  \
	}
FF_UNARIES(DEFINE)
#undef DEFINE

static void (*const ours[FF_UNARY_COUNT])(float a, float b) = {
#define OURS(name, y, slope) [FF_UNARY_##name] = name##_ours,
		FF_UNARIES(OURS)
#undef OURS
};

/* The C library, called for each. */
#define LIBRARY(name, y)                                                                           \
	static void name##_library(float a, float b)                                               \
	{                                                                                          \
		(void)a, (void)b;                                                                  \
		for (int i = 0; i < N; i++) {                                                      \
			const float x = in[i];                                                     \
                                                                                                   \
			out[i] = y;                                                                \
		}                                                                                  \
	}
LIBRARY(exp, expf(x))
LIBRARY(log, logf(x))
LIBRARY(tanh, tanhf(x))
LIBRARY(erf, erff(x))
LIBRARY(gelu, 0.5f * x * (1 + erff(x * 0.707106781f)))
LIBRARY(silu, x / (1 + expf(-x)))
LIBRARY(sigmoid, 1 / (1 + expf(-x)))

struct row {
	const char *name;
	enum ff_unary function;
	void (*library)(float a, float b);
	dnnl_alg_kind_t kind; /* dnnl_alg_kind_undef: it has none */
	float a, b;
};

static const struct row rows[] = {
		{"exp", FF_UNARY_exp, exp_library, dnnl_eltwise_exp, 0, 0},
		{"log", FF_UNARY_log, log_library, dnnl_eltwise_log, 0, 0},
		{"tanh", FF_UNARY_tanh, tanh_library, dnnl_eltwise_tanh, 0, 0},
		{"erf", FF_UNARY_erf, erf_library, dnnl_alg_kind_undef, 0, 0},
		{"sigmoid", FF_UNARY_sigmoid, sigmoid_library, dnnl_eltwise_logistic, 0, 0},
		{"gelu", FF_UNARY_gelu, gelu_library, dnnl_eltwise_gelu_erf, 0, 0},
		{"gelu by tanh", FF_UNARY_gelu_tanh, NULL, dnnl_eltwise_gelu_tanh, 0, 0},
		{"silu", FF_UNARY_silu, silu_library, dnnl_eltwise_swish, 1, 0},
		{"relu", FF_UNARY_relu, NULL, dnnl_eltwise_relu, 0, 0},
		{"pow 2.5", FF_UNARY_pow, NULL, dnnl_alg_kind_undef, 2.5f, 0},
};

static double time_loop(void (*loop)(float a, float b), const struct row *r)
{
	double best = 1e9;

	for (int i = 0; i < ROUNDS; i++) {
		double start = ff_clock_us(), us;

		loop(r->a, r->b);
		us = ff_clock_us() - start;
		best = us < best ? us : best;
	}
	return best;
}

static double time_dnnl(const struct row *r)
{
	const dnnl_dims_t n = {N};
	dnnl_primitive_desc_t pd;
	dnnl_memory_desc_t memory;
	dnnl_eltwise_desc_t d;
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	dnnl_primitive_t p;
	dnnl_exec_arg_t arg[] = {{DNNL_ARG_SRC, NULL}, {DNNL_ARG_DST, NULL}};
	double best = 1e9;

	if (dnnl_engine_create(&engine, dnnl_cpu, 0) ||
			dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) ||
			dnnl_memory_desc_init_by_tag(&memory, 1, n, dnnl_f32, dnnl_a) ||
			dnnl_eltwise_forward_desc_init(
					&d, dnnl_forward_training, r->kind, &memory, r->a, r->b) ||
			dnnl_primitive_desc_create(&pd, &d, NULL, engine, NULL) ||
			dnnl_primitive_create(&p, pd) ||
			dnnl_memory_create(&arg[0].memory, &memory, engine, in) ||
			dnnl_memory_create(&arg[1].memory, &memory, engine, out))
		return 0;
	for (int i = 0; i < ROUNDS; i++) {
		double start = ff_clock_us(), us;

		if (dnnl_primitive_execute(p, stream, 2, arg) || dnnl_stream_wait(stream))
			return 0;
		us = ff_clock_us() - start;
		best = us < best ? us : best;
	}
	dnnl_memory_destroy(arg[0].memory);
	dnnl_memory_destroy(arg[1].memory);
	dnnl_primitive_destroy(p);
	dnnl_primitive_desc_destroy(pd);
	dnnl_stream_destroy(stream);
	dnnl_engine_destroy(engine);
	return best;
}

int main(void)
{
	for (uint32_t i = 0; i < N; i++)
		in[i] = 0.01f + 4.0f * (float)(i * 40503 % N) / N;
	printf("%-14s %9s %9s %9s\n", "us", "ours", "library", "oneDNN");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];

		printf("%-14s %9.1f", r->name, time_loop(ours[r->function], r));
		if (r->library)
			printf(" %9.1f", time_loop(r->library, r));
		else
			printf(" %9s", "");
		if (r->kind != dnnl_alg_kind_undef)
			printf(" %9.1f", time_dnnl(r));
		printf("\n");
	}
	return 0;
}
