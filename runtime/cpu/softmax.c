/* Softmax along an axis, and its logarithm.  Loops are over neighbours: over those of the axis
 * where it is the innermost, whose maximum and sum are then joined, or else over rows side by
 * side.  Exponentials are computed twice rather than kept.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ff/clones.h"
#include "functions.h"
#include "kernel.h"
#include "loops.h"
#include "real.h"

#define RUN 512

struct softmax {
	enum ff_dtype type;
	bool log, innermost;
	int64_t outer, length, inner; /* as they lie: rows of `length`, `inner` apart */
};

/* What goes together: `steps` times `n` neighbours, the last time perhaps fewer. */
struct group {
	int64_t first, n, steps, stride, last;
};

FF_CLONES static void run_max(const float *restrict x, float *restrict most, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		most[i] = x[i] > most[i] ? x[i] : most[i];
}

FF_CLONES static void run_sum(
		const float *restrict x, const float *restrict most, float *restrict sum, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		sum[i] += ff_exp(x[i] - most[i]);
}

FF_CLONES static void run_soft(const float *restrict x, const float *restrict most,
		const float *restrict scale, float *restrict y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = ff_exp(x[i] - most[i]) * scale[i];
}

FF_CLONES static void run_log(
		const float *restrict x, const float *restrict shift, float *restrict y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] - shift[i];
}

FF_CLONES static void run_dot(
		const float *restrict y, const float *restrict dy, float *restrict sum, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		sum[i] += y[i] * dy[i];
}

FF_CLONES static void run_soft_back(const float *restrict y, const float *restrict dy,
		const float *restrict sum, float *restrict dx, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		dx[i] = y[i] * (dy[i] - sum[i]);
}

FF_CLONES static void run_log_back(const float *restrict y, const float *restrict dy,
		const float *restrict sum, float *restrict dx, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		dx[i] = dy[i] - ff_exp(y[i]) * sum[i];
}

static void fill(float *x, int64_t n, float value)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = value;
}

static void join_max(float *x, int64_t n)
{
	float most = x[0];

	for (int64_t i = 1; i < n; i++)
		most = x[i] > most ? x[i] : most;
	fill(x, n, most);
}

static void join_sum(float *x, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += (double)x[i];
	fill(x, n, (float)sum);
}

static int64_t count(const struct group *g, int64_t step)
{
	return step + 1 < g->steps ? g->n : g->last;
}

static void forward(const struct softmax *s, const struct group *g, const struct ff_kernel_io *io)
{
	float most[RUN], sum[RUN], x[RUN], y[RUN];
	const float *from;

	fill(most, g->n, -INFINITY);
	fill(sum, g->n, 0);
	for (int64_t i = 0; i < g->steps; i++) {
		from = ff_cpu_take(s->type, io->in[0], g->first + i * g->stride, 1, x, count(g, i));
		run_max(from, most, count(g, i));
	}
	if (s->innermost)
		join_max(most, g->n);
	for (int64_t i = 0; i < g->steps; i++) {
		from = ff_cpu_take(s->type, io->in[0], g->first + i * g->stride, 1, x, count(g, i));
		run_sum(from, most, sum, count(g, i));
	}
	if (s->innermost)
		join_sum(sum, g->n);
	for (int64_t i = 0; i < g->n; i++)
		sum[i] = s->log ? most[i] + logf(sum[i]) : 1 / sum[i];
	for (int64_t i = 0; i < g->steps; i++) {
		int64_t at = g->first + i * g->stride;

		from = ff_cpu_take(s->type, io->in[0], at, 1, x, count(g, i));
		if (s->log)
			run_log(from, sum, y, count(g, i));
		else
			run_soft(from, most, sum, y, count(g, i));
		ff_cpu_put(s->type, io->out[0], at, y, count(g, i));
	}
}

static void backward(const struct softmax *s, const struct group *g, const struct ff_kernel_io *io)
{
	float sum[RUN], one[RUN], y[RUN], dy[RUN], dx[RUN];

	fill(sum, g->n, 0);
	fill(one, g->n, 1);
	for (int64_t i = 0; i < g->steps; i++) {
		int64_t at = g->first + i * g->stride, n = count(g, i);
		const float *of_y = s->log ? one : ff_cpu_take(s->type, io->out[0], at, 1, y, n);

		run_dot(of_y, ff_cpu_take(s->type, io->dout[0], at, 1, dy, n), sum, n);
	}
	if (s->innermost)
		join_sum(sum, g->n);
	for (int64_t i = 0; i < g->steps; i++) {
		int64_t at = g->first + i * g->stride, n = count(g, i);
		const float *of_y = ff_cpu_take(s->type, io->out[0], at, 1, y, n);
		const float *of_dy = ff_cpu_take(s->type, io->dout[0], at, 1, dy, n);

		if (s->log)
			run_log_back(of_y, of_dy, sum, dx, n);
		else
			run_soft_back(of_y, of_dy, sum, dx, n);
		ff_cpu_put(s->type, io->din[0], at, dx, n);
	}
}

static struct group group_of(const struct softmax *s, int64_t number)
{
	int64_t runs = s->innermost ? 1 : (s->inner + RUN - 1) / RUN, row = number / runs;
	int64_t skip = number % runs * RUN, left = s->inner - skip;
	struct group g = {.first = row * s->length * s->inner + skip};

	if (s->innermost) {
		g.n = s->length < RUN ? s->length : RUN;
		g.steps = (s->length + RUN - 1) / RUN;
		g.stride = RUN;
		g.last = s->length - (g.steps - 1) * RUN;
		return g;
	}
	g.n = g.last = left < RUN ? left : RUN;
	g.steps = s->length;
	g.stride = s->inner;
	return g;
}

static void run(const struct ff_kernel *k, const struct ff_kernel_io *io,
		void (*fn)(const struct softmax *s, const struct group *g,
				const struct ff_kernel_io *io))
{
	const struct softmax *s = k->state;
	int64_t groups = s->outer * (s->innermost ? 1 : (s->inner + RUN - 1) / RUN);

#pragma omp parallel for if (s->outer * s->length * s->inner >= FF_CPU_PARALLEL / 8)
	for (int64_t i = 0; i < groups; i++) {
		struct group g = group_of(s, i);

		fn(s, &g, io);
	}
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	(void)err;
	run(k, io, forward);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	(void)err;
	run(k, io, backward);
	return FF_OK;
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, bool log, struct ff_error *err)
{
	uint32_t axis = (uint32_t)w->node->attrs.softmax.axis;
	struct softmax *s = ff_kernel_state(k, sizeof(*s), err);
	int64_t stride[FF_MAX_RANK];

	if (!s)
		return FF_E_NOMEM;
	ff_region_strides(w->node->out_map[0].order, &w->out[0], stride);
	s->type = ff_work_type(w);
	s->log = log;
	s->length = ff_region_size(&w->out[0], axis);
	s->inner = stride[axis];
	s->outer = ff_region_volume(&w->out[0]) / (s->length * s->inner);
	s->innermost = s->inner == 1;
	if (w->pass == FF_FORWARD)
		k->run = run_forward;
	else
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	return FF_OK;
}

int ff_cpu_softmax_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, false, err);
}

int ff_cpu_log_softmax_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, true, err);
}
