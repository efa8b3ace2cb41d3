/* Losses that compare each element with a target's (kernels/point_loss.h): this part's share of the
 * mean over all elements of the whole batch whose target is a number, or a label that counts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/point_loss.h"

#include "cpu/core/functions.h"
#include "cpu/core/kernel.h"
#include "cpu/core/real.h"
#include "kernels/loops.h"

#define SHARES 256 /* more than threads, few enough for the stack */

/* Elements lie as what is predicted does: loops over them from x, it, and y, the targets. */
struct point_loss {
	enum ff_dtype type; /* of what is read and of the gradient */
	struct ff_loops loops;
	int64_t n;
	float weight;
	int32_t ignore; /* of labels */
	struct share (*add_up)(const struct point_loss *l, const void *x, const void *t,
			int64_t first, int64_t end);
	void (*slope)(const struct point_loss *l, const void *x, const void *t, float scale,
			void *dx, int64_t first, int64_t end);
};

/* What some consecutive elements give. */
struct share {
	double sum;
	int64_t valid, right;
};

/* Elements from `at` on, before `end`, that lie in one run on both sides. */
struct run {
	int64_t x, t, step_x, step_t, n;
};

static struct run run_at(const struct ff_loops *l, int64_t at, int64_t end)
{
	uint32_t last = l->rank ? l->rank - 1 : 0;
	struct run r = {.step_x = 1, .step_t = 1, .n = end - at};
	int64_t rest = at;

	for (uint32_t axis = l->rank; axis-- > 0;) {
		int64_t next = rest / l->n[axis], i = rest - next * l->n[axis];

		r.x += i * l->stride[FF_LOOP_X][axis];
		r.t += i * l->stride[FF_LOOP_Y][axis];
		if (axis == last) {
			r.step_x = l->stride[FF_LOOP_X][axis];
			r.step_t = l->stride[FF_LOOP_Y][axis];
			r.n = l->n[axis] - i < r.n ? l->n[axis] - i : r.n;
		}
		rest = next;
	}
	return r;
}

#define DEFINE(name, loss, gradient, predicts)                                                     \
	FF_REAL_LOOP struct share name##_run(enum ff_dtype type, const void *xs, const void *ts,   \
			const struct run *r, struct share s)                                       \
	{                                                                                          \
		for (int64_t i = 0; i < r->n; i++) {                                               \
			const float x = ff_real_get(type, xs, r->x + i * r->step_x);               \
			const float t = ff_real_get(type, ts, r->t + i * r->step_t);               \
			const bool counts = t == t;                                                \
                                                                                                   \
			s.sum += counts ? (double)(loss) : 0;                                      \
			s.valid += counts;                                                         \
			s.right += counts && (predicts);                                           \
		}                                                                                  \
		return s;                                                                          \
	}                                                                                          \
	static struct share name##_add_up(const struct point_loss *l, const void *x,               \
			const void *t, int64_t first, int64_t end)                                 \
	{                                                                                          \
		struct share s = {0};                                                              \
                                                                                                   \
		while (first < end) {                                                              \
			const struct run r = run_at(&l->loops, first, end);                        \
                                                                                                   \
			s = FF_REAL_CALL(l->type, name##_run, x, t, &r, s);                        \
			first += r.n;                                                              \
		}                                                                                  \
		return s;                                                                          \
	}                                                                                          \
	FF_REAL_LOOP void name##_slope_run(enum ff_dtype type, const void *xs, const void *ts,     \
			const struct run *r, float scale, void *dx, int64_t at)                    \
	{                                                                                          \
		for (int64_t i = 0; i < r->n; i++) {                                               \
			const float x = ff_real_get(type, xs, r->x + i * r->step_x);               \
			const float t = ff_real_get(type, ts, r->t + i * r->step_t);               \
                                                                                                   \
			(void)x;                                                                   \
			ff_real_put(type, dx, at + i, t == t ? (gradient)*scale : 0);              \
		}                                                                                  \
	}                                                                                          \
	static void name##_slope(const struct point_loss *l, const void *x, const void *t,         \
			float scale, void *dx, int64_t first, int64_t end)                         \
	{                                                                                          \
		while (first < end) {                                                              \
			const struct run r = run_at(&l->loops, first, end);                        \
                                                                                                   \
			FF_REAL_CALL(l->type, name##_slope_run, x, t, &r, scale, dx, first);       \
			first += r.n;                                                              \
		}                                                                                  \
	}
FF_POINT_LOSSES(DEFINE)
#undef DEFINE

/* ---- of labels, a mean ---- */

static bool counts(
		const struct point_loss *l, const struct run *r, const int32_t *labels, int64_t i)
{
	return labels[r->t + i * r->step_t] != l->ignore;
}

static struct share labels_add_up(const struct point_loss *l, const void *x, const void *t,
		int64_t first, int64_t end)
{
	struct share s = {0};

	while (first < end) {
		const struct run r = run_at(&l->loops, first, end);

		for (int64_t i = 0; i < r.n; i++)
			if (counts(l, &r, t, i)) {
				s.sum += (double)FF_REAL_CALL(
						l->type, ff_real_get, x, r.x + i * r.step_x);
				s.valid++;
			}
		first += r.n;
	}
	return s;
}

static void labels_slope(const struct point_loss *l, const void *x, const void *t, float scale,
		void *dx, int64_t first, int64_t end)
{
	(void)x;
	while (first < end) {
		const struct run r = run_at(&l->loops, first, end);

		for (int64_t i = 0; i < r.n; i++)
			FF_REAL_CALL(l->type, ff_real_put, dx, first + i,
					counts(l, &r, t, i) ? scale : 0);
		first += r.n;
	}
}

/* As of softmax_cross_entropy: shares that do not depend on the number of threads, in order. */
static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct point_loss *l = k->state;
	int64_t each = (l->n + SHARES - 1) / SHARES;
	struct share share[SHARES], all = {0};
	float *out = io->out[0];

#pragma omp parallel for if (l->n >= FF_CPU_PARALLEL / 8)
	for (int64_t i = 0; i < SHARES; i++) {
		int64_t first = i * each, end = first + each;

		share[i] = l->add_up(l, io->in[0], io->in[1], first, end < l->n ? end : l->n);
	}
	for (int64_t i = 0; i < SHARES; i++) {
		all.sum += share[i].sum;
		all.valid += share[i].valid;
		all.right += share[i].right;
	}
	if (all.valid > io->valid)
		return ff_fail(err, FF_E_RUN,
				"%s: has %lld targets that count, but the whole batch %lld",
				k->name, (long long)all.valid, (long long)io->valid);
	out[0] = io->valid ? (float)(all.sum / (double)io->valid) : 0;
	out[1] = (float)all.right;
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct point_loss *l = k->state;
	float scale = io->valid ? (float)((double)l->weight / (double)io->valid) : 0;

	(void)err;
#pragma omp parallel for if (l->n >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < l->n; i += FF_REAL_BLOCK)
		l->slope(l, io->in[0], io->in[1], scale, io->din[0], i,
				i + FF_REAL_BLOCK < l->n ? i + FF_REAL_BLOCK : l->n);
	return FF_OK;
}

static struct point_loss *prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct point_loss *l = ff_kernel_state(k, sizeof(*l), err);

	if (!l)
		return NULL;
	l->type = w->node->in_map[0].dtype;
	l->n = ff_region_volume(&w->in[0]);
	l->weight = (float)w->node->attrs.loss.weight;
	l->ignore = w->node->attrs.loss.ignore;
	ff_loops_alike(w, &l->loops);
	if (w->pass == FF_FORWARD)
		k->run = run_forward;
	else
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	return l;
}

static bool of_labels(const struct ff_work *w)
{
	return w->node->in_map[1].dtype == FF_I32;
}

#define PREPARE(name, loss, gradient, predicts)                                                    \
	int ff_cpu_##name##_prepare(                                                               \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		struct point_loss *l = prepare(k, w, err);                                         \
                                                                                                   \
		if (!l)                                                                            \
			return FF_E_NOMEM;                                                         \
		l->add_up = of_labels(w) ? labels_add_up : name##_add_up;                          \
		l->slope = of_labels(w) ? labels_slope : name##_slope;                             \
		return FF_OK;                                                                      \
	}
FF_POINT_LOSSES(PREPARE)
#undef PREPARE
