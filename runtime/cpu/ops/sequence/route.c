/* Which places go to which experts.  SPDX-License-Identifier: Apache-2.0 */
#include "kernels/route.h"

#include <string.h>

#include "cpu/core/kernel.h"
#include "cpu/core/real.h"

struct route {
	enum ff_dtype type;
	struct ff_route r;
	int64_t last, taken; /* workspace, int32: by place its last choice; by expert slots taken */
};

/* The next best expert behind `last`, -1: the best; -1 where there is none that is a number. */
FF_REAL_LOOP int32_t next_choice(
		enum ff_dtype t, const struct ff_route *r, const void *x, int64_t at, int32_t last)
{
	float bound = last < 0 ? 0 : ff_real_get(t, x, at + last * r->expert), most = 0;
	int32_t best = -1;

	for (int32_t e = 0; e < r->experts; e++) {
		float v = ff_real_get(t, x, at + e * r->expert);

		if ((last < 0 ? v == v : FF_ROUTE_BEFORE(bound, last, v, e)) &&
				(best < 0 || v > most)) {
			best = e;
			most = v;
		}
	}
	return best;
}

/* Writes that place `p` has slot `slot` of expert `e`. */
static void write_slot(const struct route *k, const struct ff_kernel_io *io, int64_t sample,
		int64_t p, int64_t e, int64_t slot)
{
	const struct ff_route *r = &k->r;
	int64_t row = sample * r->places + p, slots = r->slots * r->experts;

	if (r->index)
		((int32_t *)io->out[1])[(sample * r->experts + e) * r->slots + slot] = (int32_t)p;
	FF_REAL_CALL(k->type, ff_real_put, io->out[0],
			r->index ? row * r->experts + e : row * slots + slot * r->experts + e, 1);
}

static void route_sample(const struct route *k, const struct ff_kernel_io *io, int64_t sample)
{
	const struct ff_route *r = &k->r;
	int32_t *last = (int32_t *)ff_kernel_at(io, k->last) + sample * r->places;
	int32_t *taken = (int32_t *)ff_kernel_at(io, k->taken) + sample * r->experts;

	memset(last, 0xff, (size_t)r->places * sizeof(*last));
	memset(taken, 0, (size_t)r->experts * sizeof(*taken));
	for (int64_t choice = 0; choice < r->choices; choice++)
		for (int64_t p = 0; p < r->places; p++) {
			int64_t at = sample * r->sample + p * r->place;
			int32_t e = choice && last[p] < 0 ? -1
							  : FF_REAL_CALL(k->type, next_choice, r,
									    io->in[0], at, last[p]);

			last[p] = e;
			if (e < 0 || taken[e] == r->slots)
				continue;
			write_slot(k, io, sample, p, e, r->limited ? taken[e]++ : choice);
		}
}

static int run(const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct route *state = k->state;
	const struct ff_route *r = &state->r;
	int64_t n = r->samples * r->places * r->experts * (r->index ? 1 : r->slots);
	int64_t all = r->samples * r->experts * r->slots;

	(void)err;
	if (r->index)
		memset(io->out[1], 0xff, (size_t)all * sizeof(int32_t));
	memset(io->out[0], 0, (size_t)(n * ff_dtype_bytes(state->type)));
#pragma omp parallel for if (n >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < r->samples; i++)
		route_sample(state, io, i);
	return FF_OK;
}

int ff_cpu_route_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct route *state = ff_kernel_state(k, sizeof(*state), err);

	if (!state)
		return FF_E_NOMEM;
	state->type = ff_work_type(w);
	ff_route_fill(w, &state->r);
	state->last = ff_kernel_reserve(
			k, state->r.samples * state->r.places * (int64_t)sizeof(int32_t));
	state->taken = ff_kernel_reserve(
			k, state->r.samples * state->r.experts * (int64_t)sizeof(int32_t));
	k->run = w->pass == FF_FORWARD ? run : ff_kernel_run_nothing;
	return FF_OK;
}
