/* Batch norm and its prelude.  Sums over a block of rows are float32, a vector of channels at
 * a time; those of blocks are added in float64.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cpu/core/kernel.h"
#include "cpu/core/real.h"
#include "ff/norm.h"

#define SHARES 16 /* of the rows, for sums: not as many as threads */
#define ROWS 64   /* of a block, which two passes find in a cache */

struct batch {
	struct ff_batch b;
	enum ff_dtype type; /* of x, y and what is read of weight and bias; all else is float32 */
	bool weight, bias, need[4];
	int64_t sums, block; /* in the workspace: float64 by share, float32 by share */
	int64_t line;        /* likewise: up to four float32 a channel */
};

/* Two float64 a channel, and as many float32. */
static double *sums_of(const struct batch *k, const struct ff_kernel_io *io, int64_t share)
{
	return (double *)ff_kernel_at(io, k->sums) + 2 * share * k->b.channels;
}
static float *block_of(const struct batch *k, const struct ff_kernel_io *io, int64_t share)
{
	return (float *)ff_kernel_at(io, k->block) + 2 * share * k->b.channels;
}

/* Rows that belong together: group number `g` of the part. */
struct group {
	int64_t g, first, rows;
};

static struct group group_at(const struct batch *k, int64_t g)
{
	int64_t first = g * k->b.group - k->b.skip, end = first + k->b.group;

	first = first < 0 ? 0 : first;
	end = end < k->b.outer ? end : k->b.outer;
	return (struct group){g, first, end - first};
}

static bool is_large(const struct batch *k, const struct group *g)
{
	return g->rows * k->b.channels * k->b.inner >= FF_CPU_PARALLEL;
}

/* Four numbers for each of its channels. */
static int64_t moments_at(const struct batch *k, const struct group *g)
{
	return 4 * g->g * k->b.channels;
}

/* ---- moments ---- */

/* sum[c] += x, of `rows` rows; squares of the distance from mean[c], where there is one. */
FF_REAL_LOOP void add_rows(enum ff_dtype t, const struct ff_batch *b, int64_t rows,
		const void *restrict x, const float *restrict mean, float *restrict sum)
{
	for (int64_t r = 0; r < rows && b->inner == 1; r++) {
		const void *restrict row = ff_real_in(t, x, r * b->channels);

#pragma omp simd
		for (int64_t c = 0; c < b->channels; c++) {
			float v = ff_real_get(t, row, c) - (mean ? mean[c] : 0);

			sum[c] += mean ? v * v : v;
		}
	}
	for (int64_t i = 0; i < rows * b->channels && b->inner > 1; i++) {
		const void *restrict run = ff_real_in(t, x, i * b->inner);
		float own = mean ? mean[i % b->channels] : 0, all = 0;

#pragma omp simd reduction(+ : all)
		for (int64_t k = 0; k < b->inner; k++) {
			float v = ff_real_get(t, run, k) - own;

			all += mean ? v * v : v;
		}
		sum[i % b->channels] += all;
	}
}

/* Adds `n` elements a channel, with these sums and squares, to `before` others. */
static void merge(int64_t channels, double before, double n, const double *mean,
		const double *squares, double *all)
{
	double share = n / (before + n);

	for (int64_t c = 0; c < channels; c++) {
		double apart = mean[c] - all[c];

		all[c] += apart * share;
		all[channels + c] += squares[c] + apart * apart * before * share;
	}
}

FF_REAL_LOOP double share_moments(enum ff_dtype t, const struct batch *k,
		const struct ff_kernel_io *io, int64_t first, int64_t end, double *all,
		float *block)
{
	const struct ff_batch *b = &k->b;
	int64_t most = b->inner == 1 ? ROWS : 1, n = b->channels;
	double seen = 0;

	memset(all, 0, 2 * (size_t)n * sizeof(*all));
	for (int64_t at = first; at < end; at += most) {
		int64_t rows = end - at < most ? end - at : most;
		double count = (double)(rows * b->inner), share = count / (seen + count);
		const void *x = ff_real_in(t, io->in[0], at * n * b->inner);

		memset(block, 0, 2 * (size_t)n * sizeof(*block));
		add_rows(t, b, rows, x, NULL, block);
		for (int64_t c = 0; c < n; c++)
			block[c] /= (float)count;
		add_rows(t, b, rows, x, block, block + n);
		for (int64_t c = 0; c < n; c++) {
			double apart = (double)block[c] - all[c];

			all[c] += apart * share;
			all[n + c] += (double)block[n + c] + apart * apart * seen * share;
		}
		seen += count;
	}
	return seen;
}

static int64_t share_start(const struct group *g, int64_t share)
{
	return g->first + g->rows * share / SHARES;
}

/* Every share of the rows belongs to one thread, so that sums do not depend on their number. */
static void find_moments(const struct batch *k, const struct ff_kernel_io *io, struct group g)
{
	int64_t n = k->b.channels;
	double *all = sums_of(k, io, 0), seen = 0;
	float *out = (float *)io->out[0] + moments_at(k, &g);

#pragma omp parallel for if (is_large(k, &g))
	for (int64_t i = 0; i < SHARES; i++)
		FF_REAL_CALL(k->type, share_moments, k, io, share_start(&g, i),
				share_start(&g, i + 1), sums_of(k, io, i), block_of(k, io, i));
	for (int64_t i = 0; i < SHARES; i++) {
		double count = (double)((share_start(&g, i + 1) - share_start(&g, i)) * k->b.inner);
		const double *own = sums_of(k, io, i);

		if (count > 0 && seen > 0)
			merge(n, seen, count, own, own + n, all);
		else if (count > 0)
			memmove(all, own, 2 * (size_t)n * sizeof(*all));
		seen += count;
	}
	for (int64_t c = 0; c < n; c++) {
		out[4 * c] = (float)seen;
		out[4 * c + 1] = (float)all[c];
		out[4 * c + 2] = (float)all[n + c];
		out[4 * c + 3] = 0;
	}
}

static int run_moments(
		const struct ff_kernel *kernel, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct batch *k = kernel->state;

	(void)err;
	for (int64_t g = 0; g < k->b.groups; g++)
		find_moments(k, io, group_at(k, g));
	return FF_OK;
}

/* ---- what is the same for all elements of a channel ---- */

/* y = shift + scale * (x - origin). */
FF_REAL_LOOP void map_row(enum ff_dtype t, const struct ff_batch *b, int64_t row,
		const void *restrict from, const float *restrict origin,
		const float *restrict scale, const float *restrict shift, void *restrict to)
{
	int64_t first = row * b->channels * b->inner;
	const void *restrict x = ff_real_in(t, from, first);
	void *restrict y = ff_real_out(t, to, first);

	if (b->inner == 1) {
#pragma omp simd
		for (int64_t c = 0; c < b->channels; c++)
			ff_real_put(t, y, c,
					(ff_real_get(t, x, c) - origin[c]) * scale[c] + shift[c]);
		return;
	}
	for (int64_t c = 0; c < b->channels; c++) {
		float o = origin[c], s = scale[c], d = shift[c];

#pragma omp simd
		for (int64_t i = c * b->inner; i < (c + 1) * b->inner; i++)
			ff_real_put(t, y, i, (ff_real_get(t, x, i) - o) * s + d);
	}
}

/* g = d g + b + c (x - a); `line` has all a, then all b and so on. */
FF_REAL_LOOP void blend_row(enum ff_dtype t, const struct ff_batch *b, int64_t row,
		const void *restrict from, const float *restrict line, void *restrict gradient)
{
	int64_t n = b->channels, first = row * n * b->inner;
	const void *restrict x = ff_real_in(t, from, first);
	void *restrict g = ff_real_out(t, gradient, first);

	if (b->inner == 1) {
#pragma omp simd
		for (int64_t c = 0; c < n; c++)
			ff_real_put(t, g, c,
					ff_real_get(t, g, c) * line[3 * n + c] + line[n + c] +
							line[2 * n + c] * (ff_real_get(t, x, c) -
											  line[c]));
		return;
	}
	for (int64_t c = 0; c < n; c++) {
		float o = line[c], d = line[n + c], slope = line[2 * n + c], s = line[3 * n + c];

#pragma omp simd
		for (int64_t i = c * b->inner; i < (c + 1) * b->inner; i++)
			ff_real_put(t, g, i,
					ff_real_get(t, g, i) * s + d +
							slope * (ff_real_get(t, x, i) - o));
	}
}

/* `line`: origins, scales, shifts. */
static void map_rows(const struct batch *k, struct group g, const float *line, const void *from,
		void *to)
{
	int64_t n = k->b.channels;

#pragma omp parallel for if (is_large(k, &g))
	for (int64_t row = g.first; row < g.first + g.rows; row++)
		FF_REAL_CALL(k->type, map_row, &k->b, row, from, line, line + n, line + 2 * n, to);
}

static float parameter(const struct batch *k, const void *array, int64_t c)
{
	return k->type == FF_BF16 ? ff_real_get(FF_BF16, array, c) : ff_real_get(FF_F32, array, c);
}

/* 1 / deviation of channel `c` of a group. */
static double rate_of(const struct batch *k, const float *moments, int64_t c)
{
	const float *m = moments + 4 * c;

	return 1 / sqrt((double)m[2] / (double)m[0] + (double)k->b.epsilon);
}

static void blend_rows(const struct batch *k, const struct ff_kernel_io *io, struct group g)
{
	const float *gradient = (const float *)io->dout[0] + moments_at(k, &g);
	float *line = ff_kernel_at(io, k->line);
	int64_t n = k->b.channels;

	for (int64_t c = 0; c < 4 * n; c++)
		line[c % 4 * n + c / 4] = gradient[c];
#pragma omp parallel for if (is_large(k, &g))
	for (int64_t row = g.first; row < g.first + g.rows; row++)
		FF_REAL_CALL(k->type, blend_row, &k->b, row, io->in[0], line, io->din[0]);
}

/* What the prelude wrote comes back as (a, b, c, d), and the gradient of y lies where that of x
 * is to be: d dy + b + c (x - a). */
static int run_moments_backward(
		const struct ff_kernel *kernel, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct batch *k = kernel->state;

	(void)err;
	for (int64_t g = 0; g < k->b.groups; g++)
		blend_rows(k, io, group_at(k, g));
	return FF_OK;
}

/* ---- batch norm ---- */

static void normalise(const struct batch *k, const struct ff_kernel_io *io, struct group g)
{
	const float *moments = (const float *)io->in[1] + moments_at(k, &g);
	const float *mean = io->out[1], *variance = io->out[2];
	float *line = ff_kernel_at(io, k->line);
	int64_t n = k->b.channels;

	for (int64_t c = 0; c < n; c++) {
		double rate = io->training ? rate_of(k, moments, c)
					   : 1 / sqrt((double)variance[c] + (double)k->b.epsilon);

		if (k->weight)
			rate *= (double)parameter(k, io->in[2], c);
		line[c] = io->training ? moments[4 * c + 1] : mean[c];
		line[n + c] = (float)rate;
		line[2 * n + c] = k->bias ? parameter(k, io->in[3], c) : 0;
	}
	map_rows(k, g, line, io->in[0], io->out[0]);
}

static int run_forward(
		const struct ff_kernel *kernel, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct batch *k = kernel->state;

	(void)err;
	for (int64_t g = 0; g < k->b.groups; g++)
		normalise(k, io, group_at(k, g));
	return FF_OK;
}

/* sum[c] += dy, and behind it dy (x - mean). */
FF_REAL_LOOP void add_gradients(enum ff_dtype t, const struct ff_batch *b, int64_t rows,
		const void *restrict x, const void *restrict dy, const float *restrict mean,
		float *restrict sum, float *restrict product)
{
	for (int64_t r = 0; r < rows && b->inner == 1; r++) {
		const void *restrict xs = ff_real_in(t, x, r * b->channels);
		const void *restrict ds = ff_real_in(t, dy, r * b->channels);

#pragma omp simd
		for (int64_t c = 0; c < b->channels; c++) {
			float d = ff_real_get(t, ds, c);

			sum[c] += d;
			product[c] += d * (ff_real_get(t, xs, c) - mean[c]);
		}
	}
	for (int64_t i = 0; i < rows * b->channels && b->inner > 1; i++) {
		const void *restrict xs = ff_real_in(t, x, i * b->inner);
		const void *restrict ds = ff_real_in(t, dy, i * b->inner);
		float own = mean[i % b->channels], all = 0, all_x = 0;

#pragma omp simd reduction(+ : all, all_x)
		for (int64_t k = 0; k < b->inner; k++) {
			float d = ff_real_get(t, ds, k);

			all += d;
			all_x += d * (ff_real_get(t, xs, k) - own);
		}
		sum[i % b->channels] += all;
		product[i % b->channels] += all_x;
	}
}

FF_REAL_LOOP void share_gradients(enum ff_dtype t, const struct batch *k,
		const struct ff_kernel_io *io, const struct group *g, const float *mean,
		int64_t share)
{
	const struct ff_batch *b = &k->b;
	int64_t end = share_start(g, share + 1), most = b->inner == 1 ? ROWS : 1, n = b->channels;
	double *all = sums_of(k, io, share);
	float *block = block_of(k, io, share);

	memset(all, 0, 2 * (size_t)n * sizeof(*all));
	for (int64_t at = share_start(g, share); at < end; at += most) {
		int64_t rows = end - at < most ? end - at : most, from = at * n * b->inner;

		memset(block, 0, 2 * (size_t)n * sizeof(*block));
		add_gradients(t, b, rows, ff_real_in(t, io->in[0], from),
				ff_real_in(t, io->dout[0], from), mean, block, block + n);
		for (int64_t c = 0; c < 2 * n; c++)
			all[c] += (double)block[c];
	}
}

static void add_shares(const struct batch *k, const struct ff_kernel_io *io)
{
	double *all = sums_of(k, io, 0);

	for (int64_t i = 1; i < SHARES; i++)
		for (int64_t c = 0; c < 2 * k->b.channels; c++)
			all[c] += sums_of(k, io, i)[c];
}

/* What comes of the sums over the part's share of a group; those of parameters are over all. */
static void write_sums(const struct batch *k, const struct ff_kernel_io *io,
		const struct group *own, int64_t c)
{
	const float *moments = (const float *)io->in[1] + moments_at(k, own), *m = moments + 4 * c;
	const double *all = sums_of(k, io, 0);
	double count = (double)m[0], rate = rate_of(k, moments, c), scale = rate;
	double dy = all[c], product = all[k->b.channels + c];
	double part = (double)(own->rows * k->b.inner) / count;
	float *g = (float *)io->din[1] + moments_at(k, own) + 4 * c;
	float *dweight = io->din[2], *dbias = io->din[3];

	if (k->weight)
		scale *= (double)parameter(k, io->in[2], c);
	if (k->need[2])
		dweight[c] = (own->g ? dweight[c] : 0) + (float)(product * rate);
	if (k->need[3])
		dbias[c] = (own->g ? dbias[c] : 0) + (float)dy;
	if (!k->need[1])
		return;
	g[0] = (float)((double)m[1] * part);
	g[1] = (float)(-scale * dy / count);
	g[2] = (float)(-scale * rate * rate * product / count);
	g[3] = (float)(scale * part);
}

static void sum_gradients(const struct batch *k, const struct ff_kernel_io *io, struct group g)
{
	const float *moments = (const float *)io->in[1] + moments_at(k, &g);
	float *line = ff_kernel_at(io, k->line);
	int64_t n = k->b.channels;

	for (int64_t c = 0; c < n; c++)
		line[c] = moments[4 * c + 1];
#pragma omp parallel for if (is_large(k, &g))
	for (int64_t i = 0; i < SHARES; i++)
		FF_REAL_CALL(k->type, share_gradients, k, io, &g, line, i);
	add_shares(k, io);
	for (int64_t c = 0; c < n; c++)
		write_sums(k, io, &g, c);
}

/* As PyTorch: the variance that is kept is that of a sample.  Of several groups the mean, each as
 * much as the part has of it. */
static void keep(const struct batch *k, const struct ff_kernel_io *io, int64_t c)
{
	float *mean = io->out[1], *variance = io->out[2], own[2] = {0};

	for (int64_t i = 0; i < k->b.groups; i++) {
		struct group g = group_at(k, i);
		const float *m = (const float *)io->in[1] + moments_at(k, &g) + 4 * c;
		float share = (float)g.rows / (float)k->b.outer;

		own[0] += share * m[1];
		own[1] += share * (m[2] / (m[0] - 1));
	}
	mean[c] += k->b.momentum * (own[0] - mean[c]);
	variance[c] += k->b.momentum * (own[1] - variance[c]);
}

static int run_backward(
		const struct ff_kernel *kernel, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct batch *k = kernel->state;

	(void)err;
	for (int64_t g = 0; g < k->b.groups; g++)
		sum_gradients(k, io, group_at(k, g));
	for (int64_t c = 0; c < k->b.channels; c++)
		keep(k, io, c);
	return FF_OK;
}

static struct batch *prepare(
		struct ff_kernel *kernel, const struct ff_work *w, struct ff_error *err)
{
	struct batch *k = ff_kernel_state(kernel, sizeof(*k), err);
	int64_t each;

	if (!k)
		return NULL;
	ff_batch_fill(w, &k->b);
	each = (int64_t)2 * SHARES * k->b.channels;
	k->type = w->node->in_map[0].dtype;
	k->weight = w->node->n_in > 2;
	k->bias = w->node->n_in > 3;
	for (uint32_t i = 0; i < w->node->n_in; i++)
		k->need[i] = w->need_din[i];
	k->line = ff_kernel_reserve(kernel, 4 * k->b.channels * (int64_t)sizeof(float));
	k->sums = ff_kernel_reserve(kernel, each * (int64_t)sizeof(double));
	k->block = ff_kernel_reserve(kernel, each * (int64_t)sizeof(float));
	return k;
}

int ff_cpu_batch_moments_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	k->run = w->pass == FF_FORWARD ? run_moments
		 : w->need_din[0]      ? run_moments_backward
				       : ff_kernel_run_nothing;
	return prepare(k, w, err) ? FF_OK : FF_E_NOMEM;
}

int ff_cpu_batch_norm_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	return prepare(k, w, err) ? FF_OK : FF_E_NOMEM;
}
