/* Layer, RMS and group norm.  Sums over a run of elements that lie behind each other are
 * float32 in as many lanes as a vector has, those of runs are added in float64.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/norm.h"

#include <math.h>
#include <string.h>

#include "cpu/core/kernel.h"
#include "cpu/core/real.h"

#define SHARES 16 /* of the rows, for gradients of weights: not as many as threads */
#define RUN 1024  /* elements at most whose sum is float32 */

struct norm {
	struct ff_norm n;
	enum ff_dtype type; /* gradients of weights are float32 */
	int64_t runs;       /* of a row's features: the last loop is cut into pieces */
	int64_t x_step, p_step;
	int64_t partial; /* in the workspace: gradients of weights by share */
	bool need[3];
};

/* Where run `i` of a row begins, in the data and in the parameters, and how long it is. */
struct run {
	int64_t x, p, n;
};

static struct run find_run(const struct norm *k, int64_t i)
{
	const struct ff_strided *f = &k->n.feature;
	uint32_t last = f->rank - 1;
	int64_t pieces = (f->n[last] + RUN - 1) / RUN, from = i % pieces * RUN;
	struct run r = {from * k->x_step, from * k->p_step,
			f->n[last] - from < RUN ? f->n[last] - from : RUN};

	i /= pieces;
	for (uint32_t a = last; a-- > 0;) {
		r.x += i % f->n[a] * f->sink[a];
		r.p += i % f->n[a] * f->source[a];
		i /= f->n[a];
	}
	return r;
}

/* Where row `i` begins, likewise. */
static void find_row(const struct norm *k, int64_t i, int64_t *x, int64_t *p)
{
	const struct ff_strided *r = &k->n.row;

	*x = 0;
	*p = k->n.first;
	for (uint32_t a = r->rank; a-- > 0;) {
		*x += i % r->n[a] * r->sink[a];
		*p += i % r->n[a] * r->source[a];
		i /= r->n[a];
	}
}

FF_REAL_LOOP float sum_run(enum ff_dtype t, int64_t step, int64_t n, const void *x)
{
	float sum = 0;

#pragma omp simd reduction(+ : sum)
	for (int64_t i = 0; i < n; i++)
		sum += ff_real_get(t, x, i * step);
	return sum;
}

FF_REAL_LOOP float square_run(enum ff_dtype t, int64_t step, int64_t n, const void *x, float mean)
{
	float sum = 0;

#pragma omp simd reduction(+ : sum)
	for (int64_t i = 0; i < n; i++) {
		float d = ff_real_get(t, x, i * step) - mean;

		sum += d * d;
	}
	return sum;
}

/* What a run of a row reads.  Steps are known where a loop is compiled. */
struct operands {
	int64_t n, step, p_step;   /* from element to element, of data and of parameters */
	const void *x, *dy;        /* dy: backward, the gradient of what was written */
	const void *scale, *shift; /* NULL where there are none */
	const float *saved;        /* the row's mean and rate */
};

FF_REAL_LOOP struct operands find_operands(enum ff_dtype t, int64_t step, int64_t p_step,
		const struct norm *k, const struct ff_kernel_io *io, struct run r)
{
	return (struct operands){.n = r.n,
			.step = step,
			.p_step = p_step,
			.x = ff_real_in(t, io->in[0], r.x),
			.scale = k->n.weight ? ff_real_in(t, io->in[1], r.p) : NULL};
}

FF_REAL_LOOP void write_run(enum ff_dtype t, struct operands o, void *restrict y)
{
	const float mean = o.saved[0], rate = o.saved[1];

#pragma omp simd
	for (int64_t i = 0; i < o.n; i++) {
		float v = (ff_real_get(t, o.x, i * o.step) - mean) * rate;

		if (o.scale)
			v *= ff_real_get(t, o.scale, i * o.p_step);
		if (o.shift)
			v += ff_real_get(t, o.shift, i * o.p_step);
		ff_real_put(t, y, i * o.step, v);
	}
}

FF_REAL_LOOP void forward_row(enum ff_dtype t, int64_t step, int64_t p_step, const struct norm *k,
		const struct ff_kernel_io *io, int64_t row)
{
	float *saved = (float *)io->out[1] + 2 * row, mean = 0;
	double sum = 0;
	int64_t x0, p0;

	find_row(k, row, &x0, &p0);
	for (int64_t i = 0; i < k->runs && k->n.centred; i++) {
		struct run r = find_run(k, i);

		sum += (double)sum_run(t, step, r.n, ff_real_in(t, io->in[0], x0 + r.x));
	}
	mean = (float)(sum / (double)k->n.features);
	sum = 0;
	for (int64_t i = 0; i < k->runs; i++) {
		struct run r = find_run(k, i);

		sum += (double)square_run(t, step, r.n, ff_real_in(t, io->in[0], x0 + r.x), mean);
	}
	saved[0] = mean;
	saved[1] = (float)(1 / sqrt(sum / (double)k->n.features + (double)k->n.epsilon));
	for (int64_t i = 0; i < k->runs; i++) {
		struct run r = find_run(k, i);
		int64_t x = x0 + r.x, p = p0 + r.p;
		struct operands o = find_operands(t, step, p_step, k, io, (struct run){x, p, r.n});

		o.saved = saved;
		o.shift = k->n.bias ? ff_real_in(t, io->in[2], p) : NULL;
		write_run(t, o, ff_real_out(t, io->out[0], x));
	}
}

/* Sums over runs of the gradient of what is normalised, and of its product with that; what a run
 * adds to the gradients of weight and bias. */
struct reduced {
	double g, gx;
	float *dweight, *dbias;
};

FF_REAL_LOOP void reduce_run(enum ff_dtype t, struct operands o, struct reduced *to)
{
	const float mean = o.saved[0], rate = o.saved[1];
	float *restrict dweight = to->dweight, *restrict dbias = to->dbias;
	float g = 0, gx = 0, all = 0, all_x = 0;

#pragma omp simd reduction(+ : g, gx, all, all_x)
	for (int64_t i = 0; i < o.n; i++) {
		float v = (ff_real_get(t, o.x, i * o.step) - mean) * rate;
		float d = ff_real_get(t, o.dy, i * o.step);
		float s = o.scale ? d * ff_real_get(t, o.scale, i * o.p_step) : d;

		g += s;
		gx += s * v;
		if (o.p_step) {
			dweight[i * o.p_step] += d * v;
			dbias[i * o.p_step] += d;
		} else {
			all += d;
			all_x += d * v;
		}
	}
	if (!o.p_step) {
		*dweight += all_x;
		*dbias += all;
	}
	to->g += (double)g;
	to->gx += (double)gx;
}

/* `g` and `gx`: the means of what was reduced. */
FF_REAL_LOOP void write_gradient(
		enum ff_dtype t, struct operands o, float g, float gx, void *restrict dx)
{
	const float mean = o.saved[0], rate = o.saved[1];

#pragma omp simd
	for (int64_t i = 0; i < o.n; i++) {
		float v = (ff_real_get(t, o.x, i * o.step) - mean) * rate;
		float d = ff_real_get(t, o.dy, i * o.step);

		if (o.scale)
			d *= ff_real_get(t, o.scale, i * o.p_step);
		ff_real_put(t, dx, i * o.step, rate * (d - g - v * gx));
	}
}

FF_REAL_LOOP void backward_row(enum ff_dtype t, int64_t step, int64_t p_step, const struct norm *k,
		const struct ff_kernel_io *io, int64_t row, float *partial)
{
	const float *saved = (const float *)io->out[1] + 2 * row;
	const double n = (double)k->n.features;
	struct reduced sums = {0};
	int64_t x0, p0;

	find_row(k, row, &x0, &p0);
	for (int64_t i = 0; i < k->runs; i++) {
		struct run r = find_run(k, i);
		int64_t x = x0 + r.x, p = p0 + r.p;
		struct operands o = find_operands(t, step, p_step, k, io, (struct run){x, p, r.n});

		o.saved = saved;
		o.dy = ff_real_in(t, io->dout[0], x);
		sums.dweight = partial + p;
		sums.dbias = partial + k->n.params + p;
		reduce_run(t, o, &sums);
	}
	for (int64_t i = 0; i < k->runs && k->need[0]; i++) {
		struct run r = find_run(k, i);
		int64_t x = x0 + r.x;
		struct operands o = find_operands(
				t, step, p_step, k, io, (struct run){x, p0 + r.p, r.n});

		o.saved = saved;
		o.dy = ff_real_in(t, io->dout[0], x);
		write_gradient(t, o, k->n.centred ? (float)(sums.g / n) : 0, (float)(sums.gx / n),
				ff_real_out(t, io->din[0], x));
	}
}

/* Loops for steps that are known, so that they become vectors. */
#define BY_STEPS(fn, t, k, ...)                                                                    \
	((k)->x_step == 1 && (k)->p_step == 1 ? fn(t, 1, 1, k, __VA_ARGS__)                        \
			: (k)->x_step == 1 && (k)->p_step == 0                                     \
					? fn(t, 1, 0, k, __VA_ARGS__)                              \
					: fn(t, (k)->x_step, (k)->p_step, k, __VA_ARGS__))

FF_REAL_LOOP void forward_one(
		enum ff_dtype t, const struct norm *k, const struct ff_kernel_io *io, int64_t row)
{
	BY_STEPS(forward_row, t, k, io, row);
}

FF_REAL_LOOP void backward_one(enum ff_dtype t, const struct norm *k, const struct ff_kernel_io *io,
		int64_t row, float *partial)
{
	BY_STEPS(backward_row, t, k, io, row, partial);
}

static int run_forward(
		const struct ff_kernel *kernel, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct norm *k = kernel->state;

	(void)err;
#pragma omp parallel for if (k->n.rows * k->n.features >= FF_CPU_PARALLEL)
	for (int64_t row = 0; row < k->n.rows; row++)
		FF_REAL_CALL(k->type, forward_one, k, io, row);
	return FF_OK;
}

static void add_shares(const struct norm *k, const float *partial, int which, float *sum)
{
	memset(sum, 0, (size_t)k->n.params * sizeof(*sum));
	for (int64_t share = 0; share < SHARES; share++)
		for (int64_t i = 0; i < k->n.params; i++)
			sum[i] += partial[(2 * share + which) * k->n.params + i];
}

/* Every share of the rows belongs to one thread, so that sums do not depend on their number. */
static int run_backward(
		const struct ff_kernel *kernel, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct norm *k = kernel->state;
	float *partial = ff_kernel_at(io, k->partial);

	(void)err;
#pragma omp parallel for if (k->n.rows * k->n.features >= FF_CPU_PARALLEL)
	for (int64_t share = 0; share < SHARES; share++) {
		float *mine = partial + 2 * share * k->n.params;

		memset(mine, 0, 2 * (size_t)k->n.params * sizeof(*mine));
		for (int64_t row = k->n.rows * share / SHARES;
				row < k->n.rows * (share + 1) / SHARES; row++)
			FF_REAL_CALL(k->type, backward_one, k, io, row, mine);
	}
	for (int i = 0; i < 2; i++)
		if (k->need[1 + i])
			add_shares(k, partial, i, io->din[1 + i]);
	return FF_OK;
}

static int prepare(struct ff_kernel *kernel, const struct ff_work *w, struct ff_error *err)
{
	struct norm *k = ff_kernel_state(kernel, sizeof(*k), err);
	uint32_t last;

	if (!k)
		return FF_E_NOMEM;
	ff_norm_fill(w, &k->n);
	last = k->n.feature.rank - 1;
	k->type = ff_work_type(w);
	k->x_step = k->n.feature.sink[last];
	k->p_step = k->n.feature.source[last];
	k->runs = (k->n.feature.n[last] + RUN - 1) / RUN * (k->n.features / k->n.feature.n[last]);
	for (uint32_t i = 0; i < w->node->n_in; i++)
		k->need[i] = w->need_din[i];
	kernel->run = run_forward;
	if (w->pass == FF_FORWARD)
		return FF_OK;
	kernel->run = run_backward;
	k->partial = ff_kernel_reserve(
			kernel, (int64_t)2 * SHARES * k->n.params * (int64_t)sizeof(float));
	return FF_OK;
}

int ff_cpu_layer_norm_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, err);
}

int ff_cpu_rms_norm_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, err);
}

int ff_cpu_group_norm_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, err);
}
