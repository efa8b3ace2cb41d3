/* Rows of places in the slots of experts, and back: each row is one thread's, and what is added up
 * is in the order of the experts, so that sums do not depend on the number of threads.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/core/kernel.h"
#include "cpu/core/real.h"
#include "kernels/slots.h"

#define RUN 256 /* features that are added up at a time */

struct experts {
	enum ff_dtype type;
	bool need_slots, need_shares;
	struct ff_slots s;
};

/* A slot of an expert of a sample. */
struct slot {
	int64_t sample, expert, slot;
};

static struct slot slot_at(const struct ff_slots *s, int64_t i)
{
	int64_t row = i / s->slots;

	return (struct slot){row / s->experts, row % s->experts, i % s->slots};
}

/* Where its row begins. */
static int64_t locate(const struct ff_slots *s, struct slot at)
{
	return at.sample * s->side.sample + at.expert * s->side.expert + at.slot * s->side.slot;
}

/* The part's place that has it, or -1. */
static int64_t place_of(const struct ff_slots *s, const int32_t *places, struct slot at)
{
	int64_t p = places[at.sample * s->index.sample + at.expert * s->index.place +
				    at.slot * s->index.feature] -
		    s->first;

	return p < s->places ? p : -1;
}

static int64_t locate_row(const struct ff_slots *s, int64_t sample, int64_t place)
{
	return sample * s->row.sample + place * s->row.place;
}

/* Which slot of an expert a place has: what gradients read. */
static void list_slots(const struct ff_slots *s, const int32_t *places, int32_t *table)
{
	int64_t n = s->samples * s->experts * s->slots;

	memset(table, 0xff, (size_t)(s->samples * s->places * s->columns) * sizeof(*table));
	for (int64_t i = 0; i < n; i++) {
		struct slot at = slot_at(s, i);
		int64_t p = place_of(s, places, at);

		if (p >= 0)
			table[(at.sample * s->places + p) * s->columns + s->column + at.expert] =
					(int32_t)at.slot;
	}
}

/* to = share * from, of features that lie so far apart; of nobody zeros. */
FF_REAL_LOOP void copy_row(enum ff_dtype type, int64_t n, const void *from, int64_t step,
		float share, void *to, int64_t to_step)
{
	if (!from)
		for (int64_t i = 0; i < n; i++)
			ff_real_put(type, to, i * to_step, 0);
	else
		for (int64_t i = 0; i < n; i++)
			ff_real_put(type, to, i * to_step,
					share * ff_real_get(type, from, i * step));
}

/* Adds up the slots of place number `i`, by share where there are any. */
FF_REAL_LOOP void add_slots(enum ff_dtype type, const struct ff_slots *s, const int32_t *table,
		int64_t i, const void *slots, const void *shares, void *rows)
{
	int64_t sample = i / s->places, place = i % s->places;
	int64_t to = locate_row(s, sample, place);
	float sum[RUN];

	for (int64_t c = 0; c < s->features; c += RUN) {
		int64_t n = s->features - c < RUN ? s->features - c : RUN;

		memset(sum, 0, sizeof(sum));
		for (int64_t e = 0; e < s->experts; e++) {
			int32_t k = table[i * s->columns + s->column + e];
			int64_t from = k < 0 ? 0 : locate(s, (struct slot){sample, e, k});
			float share = 1;

			if (k < 0)
				continue;
			if (shares)
				share = ff_real_get(type, shares,
						sample * s->share.sample + place * s->share.place +
								e * s->share.feature);
			for (int64_t j = 0; j < n; j++)
				sum[j] += share * ff_real_get(type, slots,
								  from + (c + j) * s->side.feature);
		}
		for (int64_t j = 0; j < n; j++)
			ff_real_put(type, rows, to + (c + j) * s->row.feature, sum[j]);
	}
}

static void add_all(const struct experts *x, const int32_t *table, const void *slots,
		const void *shares, void *rows)
{
	const struct ff_slots *s = &x->s;
	int64_t n = s->samples * s->places;

#pragma omp parallel for if (n * s->features >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < n; i++)
		FF_REAL_CALL(x->type, add_slots, s, table, i, slots, shares, rows);
}

/* Of every slot the row of its place, by share where there are any. */
static void fill_slots(const struct experts *x, const int32_t *places, const void *rows,
		const void *shares, void *slots)
{
	const struct ff_slots *s = &x->s;
	int64_t n = s->samples * s->experts * s->slots;

#pragma omp parallel for if (n * s->features >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < n; i++) {
		struct slot at = slot_at(s, i);
		int64_t p = place_of(s, places, at);
		const void *from = NULL;
		float share = 1;

		if (p >= 0)
			from = ff_real_in(x->type, rows, locate_row(s, at.sample, p));
		if (p >= 0 && shares)
			share = FF_REAL_CALL(x->type, ff_real_get, shares,
					at.sample * s->share.sample + p * s->share.place +
							at.expert * s->share.feature);
		FF_REAL_CALL(x->type, copy_row, s->features, from, s->row.feature, share,
				ff_real_out(x->type, slots, locate(s, at)), s->side.feature);
	}
}

/* ---- dispatch ---- */

static int run_dispatch(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct experts *x = k->state;

	(void)err;
	list_slots(&x->s, io->in[1], io->out[1]);
	fill_slots(x, io->in[1], io->in[0], NULL, io->out[0]);
	return FF_OK;
}

static int run_dispatch_back(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	(void)err;
	add_all(k->state, io->out[1], io->dout[0], NULL, io->din[0]);
	return FF_OK;
}

int ff_cpu_dispatch_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct experts *x = ff_kernel_state(k, sizeof(*x), err);

	if (!x)
		return FF_E_NOMEM;
	x->type = ff_work_type(w);
	ff_slots_of_dispatch(w, &x->s);
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_dispatch_back : ff_kernel_run_nothing;
	else
		k->run = run_dispatch;
	return FF_OK;
}

/* ---- combine ---- */

static int run_combine(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct experts *x = k->state;

	(void)err;
	list_slots(&x->s, io->in[2], io->out[1]);
	add_all(x, io->out[1], io->in[0], io->in[1], io->out[0]);
	return FF_OK;
}

/* What a place's gradient and what its experts made agree in; nothing where none took it. */
FF_REAL_LOOP void share_gradients(enum ff_dtype type, const struct ff_slots *s,
		const int32_t *table, int64_t i, const void *slots, const void *rows, void *shares)
{
	int64_t sample = i / s->places, place = i % s->places;
	int64_t row = locate_row(s, sample, place);

	for (int64_t e = 0; e < s->experts; e++) {
		int32_t k = table[i * s->columns + s->column + e];
		int64_t at = k < 0 ? 0 : locate(s, (struct slot){sample, e, k});
		float sum = 0;

		for (int64_t c = 0; k >= 0 && c < s->features; c++)
			sum += ff_real_get(type, rows, row + c * s->row.feature) *
			       ff_real_get(type, slots, at + c * s->side.feature);
		ff_real_put(type, shares,
				sample * s->share.sample + place * s->share.place +
						e * s->share.feature,
				sum);
	}
}

static int run_combine_back(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct experts *x = k->state;
	const struct ff_slots *s = &x->s;
	int64_t n = s->samples * s->places;

	(void)err;
	if (x->need_slots)
		fill_slots(x, io->in[2], io->dout[0], io->in[1], io->din[0]);
	if (!x->need_shares)
		return FF_OK;
#pragma omp parallel for if (n * s->features >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < n; i++)
		FF_REAL_CALL(x->type, share_gradients, s, io->out[1], i, io->in[0], io->dout[0],
				io->din[1]);
	return FF_OK;
}

int ff_cpu_combine_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct experts *x = ff_kernel_state(k, sizeof(*x), err);

	if (!x)
		return FF_E_NOMEM;
	x->type = ff_work_type(w);
	x->need_slots = w->need_din[0];
	x->need_shares = w->need_din[1];
	ff_slots_of_combine(w, &x->s);
	k->run = w->pass == FF_BACKWARD ? run_combine_back : run_combine;
	return FF_OK;
}
