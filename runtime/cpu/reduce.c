/* Sums, means and maxima along axes.  SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"
#include "loops.h"
#include "real.h"

struct reduce {
	struct ff_cpu_loops l;
	int64_t elements; /* of the output */
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

/* Where element `i` of some axes is in the input. */
static int64_t place_of(const struct ff_loops *s, uint32_t first, uint32_t end, int64_t i)
{
	int64_t at = 0;

	for (uint32_t axis = end; axis-- > first;) {
		at += i % s->n[axis] * s->stride[FF_LOOP_X][axis];
		i /= s->n[axis];
	}
	return at;
}

/* Of equal ones each gets as much.  The loops are forward's. */
FF_REAL_LOOP void spread(enum ff_dtype type, const struct reduce *r, const struct ff_kernel_io *io,
		int64_t i)
{
	const struct ff_loops *s = &r->l.loops;
	int64_t steps = ff_loops_volume(s, s->kept, s->rank), first = place_of(s, 0, s->kept, i);
	float y = ff_real_get(type, io->out[0], i), dy = ff_real_get(type, io->dout[0], i);
	int64_t equal = 0;

	for (int64_t k = 0; k < steps; k++)
		equal += ff_real_get(type, io->in[0], first + place_of(s, s->kept, s->rank, k)) ==
			 y;
	for (int64_t k = 0; k < steps; k++) {
		int64_t at = first + place_of(s, s->kept, s->rank, k);
		bool best = ff_real_get(type, io->in[0], at) == y;

		ff_real_put(type, io->din[0], at, best ? dy / (float)equal : 0);
	}
}

static int run_backward_max(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct reduce *r = k->state;

	(void)err;
#pragma omp parallel for if (r->elements >= FF_CPU_PARALLEL / 64)
	for (int64_t i = 0; i < r->elements; i++)
		FF_REAL_CALL(r->l.type, spread, r, io, i);
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
	r->elements = ff_region_volume(&w->out[0]);
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

int ff_cpu_reduce_max_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct reduce *r = prepare(k, w, 1, err);

	if (!r)
		return FF_E_NOMEM;
	r->l.largest = true;
	if (w->pass == FF_FORWARD)
		return FF_OK;
	ff_loops_reduce(w, false, &r->l.loops);
	k->run = w->need_din[0] ? run_backward_max : ff_kernel_run_nothing;
	return FF_OK;
}
