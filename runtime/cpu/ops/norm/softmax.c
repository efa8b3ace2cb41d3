/* Softmax along an axis, its logarithm, and their preludes.  Loops are over neighbours: over those
 * of the axis where it is the innermost, whose maximum and sum are then joined, or else over rows
 * side by side.  Exponentials are computed twice rather than kept. SPDX-License-Identifier:
 * Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cpu/core/functions.h"
#include "cpu/core/kernel.h"
#include "cpu/core/loops.h"
#include "cpu/core/real.h"
#include "ff/clones.h"
#include "kernels/softmax.h"

#define RUN 512

struct softmax {
	enum ff_dtype type; /* of x and y; statistics and their gradient are float32 */
	bool innermost;
	int64_t outer; /* so many times `inner` rows side by side */
	struct ff_soft f;
};

/* What goes together: `steps` times `n` neighbours, the last time perhaps fewer. */
struct group {
	int64_t first, n, steps, stride, last;
	int64_t row; /* number of the first */
};

FF_CLONES static void run_max(const float *restrict x, float *restrict most, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		most[i] = ff_larger(x[i], most[i]);
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

FF_CLONES static void run_slope(const float *restrict y, const float *restrict dy,
		const float *restrict sum, float *restrict dx, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		dx[i] = y[i] * (dy[i] - sum[i]);
}

FF_CLONES static void run_log_slope(const float *restrict y, const float *restrict dy,
		const float *restrict sum, float *restrict dx, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		dx[i] = dy[i] - y[i] * sum[i];
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
		most = ff_larger(x[i], most);
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

/* The two numbers of row `k`. */
static int64_t pair_at(const struct softmax *s, int64_t k)
{
	int64_t at = 0;

	for (uint32_t a = s->f.axes; a-- > 0; k /= s->f.n[a])
		at += k % s->f.n[a] * s->f.step[a];
	return at;
}

static void load(const struct softmax *s, const struct group *g, const float *pairs, float *first,
		float *second)
{
	for (int64_t i = 0; i < (s->innermost ? 1 : g->n); i++) {
		const float *pair = pairs + pair_at(s, g->row + i);

		first[i] = pair[0];
		second[i] = pair[1];
	}
	if (s->innermost) {
		fill(first, g->n, first[0]);
		fill(second, g->n, second[0]);
	}
}

static void store(const struct softmax *s, const struct group *g, const float *first,
		const float *second, float *pairs)
{
	for (int64_t i = 0; i < (s->innermost ? 1 : g->n); i++) {
		float *pair = pairs + pair_at(s, g->row + i);

		pair[0] = first[i];
		pair[1] = second[i];
	}
}

/* The largest of what the part has of each row, and the sum of exp(x - that). */
static void find(const struct softmax *s, const struct group *g, const void *in, float *most,
		float *sum)
{
	float x[RUN];

	fill(most, g->n, -INFINITY);
	fill(sum, g->n, 0);
	for (int64_t i = 0; i < g->steps; i++)
		run_max(ff_cpu_take(s->type, in, g->first + i * g->stride, 1, x, count(g, i)), most,
				count(g, i));
	if (s->innermost)
		join_max(most, g->n);
	for (int64_t i = 0; i < g->steps; i++)
		run_sum(ff_cpu_take(s->type, in, g->first + i * g->stride, 1, x, count(g, i)), most,
				sum, count(g, i));
	if (s->innermost)
		join_sum(sum, g->n);
}

/* The same of all of each row. */
static void find_all(const struct softmax *s, const struct group *g, const struct ff_kernel_io *io,
		float *most, float *sum)
{
	if (s->f.all) {
		find(s, g, io->in[0], most, sum);
		return;
	}
	load(s, g, io->in[1], most, sum);
	for (int64_t i = 0; i < g->n; i++)
		sum[i] += 1;
}

static void forward(const struct softmax *s, const struct group *g, const struct ff_kernel_io *io)
{
	float most[RUN], sum[RUN], x[RUN], y[RUN];

	find_all(s, g, io, most, sum);
	for (int64_t i = 0; i < g->n; i++)
		sum[i] = s->f.log ? most[i] + logf(sum[i]) : 1 / sum[i];
	for (int64_t i = 0; i < g->steps; i++) {
		int64_t at = g->first + i * g->stride;
		const float *from = ff_cpu_take(s->type, io->in[0], at, 1, x, count(g, i));

		if (s->f.log)
			run_log(from, sum, y, count(g, i));
		else
			run_soft(from, most, sum, y, count(g, i));
		ff_cpu_put(s->type, io->out[0], at, y, count(g, i));
	}
}

/* A part that has nothing but -infinity knows of no others. */
static void statistics(
		const struct softmax *s, const struct group *g, const struct ff_kernel_io *io)
{
	float most[RUN], sum[RUN];

	find(s, g, io->in[0], most, sum);
	for (int64_t i = 0; i < g->n; i++)
		sum[i] = most[i] != -INFINITY ? sum[i] - 1 : 0;
	store(s, g, most, sum, io->out[0]);
}

/* The part's share of what the slope has of all elements of a row: the sum of y dy, or of dy. */
static void add_shares(const struct softmax *s, const struct group *g, const void *in,
		const void *dout, const float *most, const float *scale, float *share)
{
	float x[RUN], y[RUN], dy[RUN];

	fill(share, g->n, 0);
	fill(y, g->n, 1);
	for (int64_t i = 0; i < g->steps; i++) {
		int64_t at = g->first + i * g->stride, n = count(g, i);

		if (!s->f.log)
			run_soft(ff_cpu_take(s->type, in, at, 1, x, n), most, scale, y, n);
		run_dot(y, ff_cpu_take(s->type, dout, at, 1, dy, n), share, n);
	}
	if (s->innermost)
		join_sum(share, g->n);
}

/* Of a part that has some of the axis. */
static void share(const struct softmax *s, const struct group *g, const struct ff_kernel_io *io)
{
	float most[RUN], sum[RUN], own[RUN];

	find_all(s, g, io, most, sum);
	for (int64_t i = 0; i < g->n; i++)
		sum[i] = 1 / sum[i];
	add_shares(s, g, io->in[0], io->dout[0], most, sum, own);
	for (int64_t i = 0; i < g->n; i++)
		most[i] = s->f.leads ? most[i] - logf(sum[i]) : 0;
	store(s, g, own, most, io->din[1]);
}

/* The gradient of y lies where that of x is to be. */
static void slope(const struct softmax *s, const struct group *g, const struct ff_kernel_io *io)
{
	float most[RUN], scale[RUN], all[RUN], x[RUN], y[RUN], dy[RUN], dx[RUN];

	if (s->f.all) {
		find(s, g, io->in[0], most, scale);
		for (int64_t i = 0; i < g->n; i++)
			scale[i] = 1 / scale[i];
		add_shares(s, g, io->in[0], io->din[0], most, scale, all);
	} else {
		load(s, g, io->dout[0], all, most);
		fill(scale, g->n, 1);
	}
	for (int64_t i = 0; i < g->steps; i++) {
		int64_t at = g->first + i * g->stride, n = count(g, i);
		const float *of_dy = ff_cpu_take(s->type, io->din[0], at, 1, dy, n);

		run_soft(ff_cpu_take(s->type, io->in[0], at, 1, x, n), most, scale, y, n);
		if (s->f.log)
			run_log_slope(y, of_dy, all, dx, n);
		else
			run_slope(y, of_dy, all, dx, n);
		ff_cpu_put(s->type, io->din[0], at, dx, n);
	}
}

static struct group group_of(const struct softmax *s, int64_t number)
{
	int64_t runs = s->innermost ? 1 : (s->f.inner + RUN - 1) / RUN, row = number / runs;
	int64_t skip = number % runs * RUN, left = s->f.inner - skip;
	struct group g = {.first = row * s->f.length * s->f.inner + skip,
			.row = row * s->f.inner + skip};

	if (s->innermost) {
		g.n = s->f.length < RUN ? s->f.length : RUN;
		g.steps = (s->f.length + RUN - 1) / RUN;
		g.stride = RUN;
		g.last = s->f.length - (g.steps - 1) * RUN;
		return g;
	}
	g.n = g.last = left < RUN ? left : RUN;
	g.steps = s->f.length;
	g.stride = s->f.inner;
	return g;
}

static void run(const struct ff_kernel *k, const struct ff_kernel_io *io,
		void (*fn)(const struct softmax *s, const struct group *g,
				const struct ff_kernel_io *io))
{
	const struct softmax *s = k->state;
	int64_t groups = s->outer * (s->innermost ? 1 : (s->f.inner + RUN - 1) / RUN);

#pragma omp parallel for if (s->outer * s->f.length * s->f.inner >= FF_CPU_PARALLEL / 8)
	for (int64_t i = 0; i < groups; i++) {
		struct group g = group_of(s, i);

		fn(s, &g, io);
	}
}

#define RUNNER(name, fn)                                                                           \
	static int name(const struct ff_kernel *k, const struct ff_kernel_io *io,                  \
			struct ff_error *err)                                                      \
	{                                                                                          \
		(void)err;                                                                         \
		run(k, io, fn);                                                                    \
		return FF_OK;                                                                      \
	}
RUNNER(run_forward, forward)
RUNNER(run_statistics, statistics)
RUNNER(run_share, share)
RUNNER(run_slope_all, slope)
#undef RUNNER

/* Where nothing is exchanged: what is exchanged elsewhere. */
static void clear(const struct softmax *s, float *pairs)
{
	memset(pairs, 0, (size_t)(2 * s->outer * s->f.inner) * sizeof(*pairs));
}

static int clear_statistics(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	(void)err;
	clear(k->state, io->out[0]);
	return FF_OK;
}

static int clear_share(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	(void)err;
	clear(k->state, io->din[1]);
	return FF_OK;
}

static struct softmax *prepare(struct ff_kernel *k, const struct ff_work *w, bool log,
		const struct ff_operand *pairs, const struct ff_region *region,
		struct ff_error *err)
{
	struct softmax *s = ff_kernel_state(k, sizeof(*s), err);

	if (!s)
		return NULL;
	s->type = w->node->in_map[0].dtype;
	ff_soft_fill(w, log, pairs, region, &s->f);
	s->outer = s->f.rows / s->f.inner;
	s->innermost = s->f.inner == 1;
	return s;
}

static int prepare_node(
		struct ff_kernel *k, const struct ff_work *w, bool log, struct ff_error *err)
{
	const struct softmax *s = prepare(k, w, log, &w->node->in_map[1], &w->in[1], err);

	if (!s)
		return FF_E_NOMEM;
	k->run = w->pass == FF_FORWARD ? run_forward
		 : !w->need_din[1]     ? ff_kernel_run_nothing
		 : s->f.all            ? clear_share
				       : run_share;
	return FF_OK;
}

static int prepare_prelude(
		struct ff_kernel *k, const struct ff_work *w, bool log, struct ff_error *err)
{
	const struct softmax *s = prepare(k, w, log, &w->node->out_map[0], &w->out[0], err);

	if (!s)
		return FF_E_NOMEM;
	if (w->pass == FF_FORWARD)
		k->run = s->f.all ? clear_statistics : run_statistics;
	else
		k->run = w->need_din[0] ? run_slope_all : ff_kernel_run_nothing;
	return FF_OK;
}

#define PREPARE(row, prelude, log)                                                                 \
	int ff_cpu_##row##_prepare(                                                                \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare_node(k, w, log, err);                                               \
	}                                                                                          \
	int ff_cpu_##prelude##_prepare(                                                            \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare_prelude(k, w, log, err);                                            \
	}
PREPARE(softmax, soft_statistics, false)
PREPARE(log_softmax, log_soft_statistics, true)
#undef PREPARE
