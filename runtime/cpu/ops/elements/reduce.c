/* Sums, means and maxima along axes.  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/core/kernel.h"
#include "cpu/core/loops.h"
#include "cpu/core/real.h"

struct reduce {
	struct ff_cpu_loops l;
};

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct reduce *r = k->state;
	const void *const read[FF_LOOP_READ] = {[FF_LOOP_X] = io->in[0]};

	(void)err;
	ff_cpu_loops(&r->l, read, io->out[0]);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct reduce *r = k->state;
	const void *const read[FF_LOOP_READ] = {[FF_LOOP_Z] = io->dout[0]};

	(void)err;
	ff_cpu_loops(&r->l, read, io->din[0]);
	return FF_OK;
}

static struct reduce *prepare(
		struct ff_kernel *k, const struct ff_work *w, float scale, struct ff_error *err)
{
	bool backward = w->pass == FF_BACKWARD;
	struct reduce *r = ff_kernel_state(k, sizeof(*r), err);

	if (!r)
		return NULL;
	r->l.type = r->l.sink = ff_work_type(w);
	r->l.run = ff_cpu_binary(FF_BINARY_first, backward ? FF_BINARY_DX : FF_BINARY_Z);
	r->l.scale = scale;
	ff_loops_reduce(w, backward, &r->l.loops);
	k->run = !backward ? run_forward : w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	return r;
}

int ff_cpu_reduce_sum_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, 1, err) ? FF_OK : FF_E_NOMEM;
}

int ff_cpu_reduce_mean_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	float share = 1 / (float)ff_reduce_count(w->node);

	return prepare(k, w, share, err) ? FF_OK : FF_E_NOMEM;
}

/* ---- the largest ---- */

/* What its prelude finds, an element of the output at a time: the largest, then how many. */
struct ties {
	struct ff_cpu_loops largest, equal;
	int64_t elements, most, count; /* where both lie in the workspace */
};

static int run_statistics(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct ties *t = k->state;
	const void *most = ff_kernel_at(io, t->most);
	const float *count = ff_kernel_at(io, t->count);
	const void *const read[FF_LOOP_READ] = {io->in[0], most};
	float *pairs = io->out[0];

	(void)err;
	ff_cpu_loops(&t->largest, (const void *const[FF_LOOP_READ]){io->in[0]},
			ff_kernel_at(io, t->most));
	ff_cpu_loops(&t->equal, read, ff_kernel_at(io, t->count));
	for (int64_t i = 0; i < t->elements; i++) {
		pairs[2 * i] = ff_real_get(t->largest.type, most, i);
		pairs[2 * i + 1] = count[i];
	}
	return FF_OK;
}

int ff_cpu_max_statistics_prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct ties *t = ff_kernel_state(k, sizeof(*t), err);

	if (!t)
		return FF_E_NOMEM;
	t->elements = ff_region_volume(&w->out[0]) / 2;
	t->most = ff_kernel_reserve(k, t->elements * (int64_t)sizeof(float));
	t->count = ff_kernel_reserve(k, t->elements * (int64_t)sizeof(float));
	t->largest = (struct ff_cpu_loops){.run = ff_cpu_binary(FF_BINARY_first, FF_BINARY_Z),
			.type = w->node->in_map[0].dtype,
			.sink = w->node->in_map[0].dtype,
			.largest = true,
			.scale = 1};
	ff_loops_statistics(w, &t->largest.loops);
	t->equal = t->largest;
	t->equal.run = ff_cpu_binary(FF_BINARY_equal, FF_BINARY_Z);
	t->equal.sink = FF_F32;
	t->equal.largest = false;
	k->run = run_statistics;
	return FF_OK;
}

static int run_largest(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct reduce *r = k->state;
	const void *const read[FF_LOOP_READ] = {[FF_LOOP_X] = io->in[1]};

	(void)err;
	ff_cpu_loops(&r->l, read, io->out[0]);
	return FF_OK;
}

/* Of `n` elements from `i` on, neighbours along the last axis, which begins `skip` before them.  Of
 * equal ones each gets as much; where the largest is no number nothing is. */
FF_REAL_LOOP void spread(enum ff_dtype type, const struct ff_loops *l,
		const struct ff_kernel_io *io, int64_t i, int64_t skip, int64_t n)
{
	uint32_t last = l->rank - 1;
	int64_t row = i / l->n[last], y = skip * l->stride[FF_LOOP_Y][last];
	int64_t z = skip * l->stride[FF_LOOP_Z][last];
	const float *pairs = io->in[1];

	for (uint32_t axis = last; axis-- > 0; row /= l->n[axis]) {
		y += row % l->n[axis] * l->stride[FF_LOOP_Y][axis];
		z += row % l->n[axis] * l->stride[FF_LOOP_Z][axis];
	}
	for (int64_t k = 0; k < n; k++) {
		const float *pair = pairs + y + k * l->stride[FF_LOOP_Y][last];
		float dy = ff_real_get(type, io->dout[0], z + k * l->stride[FF_LOOP_Z][last]);
		bool best = ff_real_get(type, io->in[0], i + k) == pair[0];
		float share = best ? dy / pair[1] : 0;

		ff_real_put(type, io->din[0], i + k, pair[0] == pair[0] ? share : pair[0]);
	}
}

static int run_spread(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct reduce *r = k->state;
	const struct ff_loops *l = &r->l.loops;
	int64_t volume = ff_loops_volume(l, 0, l->rank), length = l->n[l->rank - 1];

	(void)err;
#pragma omp parallel for if (volume >= FF_CPU_PARALLEL)
	for (int64_t first = 0; first < volume; first += FF_REAL_BLOCK) {
		int64_t end = first + FF_REAL_BLOCK < volume ? first + FF_REAL_BLOCK : volume;

		for (int64_t at = first, n; at < end; at += n) {
			n = length - at % length < end - at ? length - at % length : end - at;
			FF_REAL_CALL(r->l.type, spread, l, io, at, at % length, n);
		}
	}
	return FF_OK;
}

int ff_cpu_reduce_max_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	bool backward = w->pass == FF_BACKWARD;
	struct reduce *r = ff_kernel_state(k, sizeof(*r), err);

	if (!r)
		return FF_E_NOMEM;
	r->l.type = backward ? ff_work_type(w) : FF_F32;
	r->l.sink = ff_work_type(w);
	r->l.run = ff_cpu_binary(FF_BINARY_first, FF_BINARY_Z);
	r->l.scale = 1;
	ff_loops_largest(w, backward, &r->l.loops);
	if (!r->l.loops.rank) { /* a single element */
		r->l.loops.rank = r->l.loops.kept = 1;
		r->l.loops.n[0] = 1;
	}
	k->run = !backward ? run_largest : w->need_din[0] ? run_spread : ff_kernel_run_nothing;
	return FF_OK;
}
