/* What a part of a recurrence has to do, for the kernels of both backends.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_RECURRENCE_H
#define FF_RUNTIME_RECURRENCE_H

#include <stdint.h>

struct ff_work;

/* What is saved lies step by step: [steps, samples, features], states half by half. */
struct ff_recurrence {
	int64_t samples, steps, hidden, gates;  /* gates: so many times `hidden` features of x */
	int64_t halves;                         /* products of a step, 1 or 2 */
	int64_t kept;                           /* numbers saved a feature of each step */
	int64_t x_sample, x_step;               /* of the input, and its gradient, in elements */
	int64_t y_sample, y_step;               /* of the output */
	int32_t has_cell, has_bias, has_states; /* states: the first step finds some */
	int32_t writes_cell, reverse;
	int32_t was_carried, carries; /* those are of the part before; the last are for the next */
	/* numbers of the values: saved states, what is kept, saved cells; parameters; the state
	 * that the first step finds, the first that is carried on, each with the cell's behind it
	 */
	uint32_t states, keeps, cells, weight, bias, first, left;
};

/* Of row rnn, lstm or gru. */
void ff_recurrence_fill(const struct ff_work *w, struct ff_recurrence *ret);

/* The `i`th step in the order of time: its place in the sequence. */
static inline int64_t ff_recurrence_step(const struct ff_recurrence *r, int64_t i)
{
	return r->reverse ? r->steps - 1 - i : i;
}
/* The `i`th half in the order of time: its place among what is saved of halves. */
static inline int64_t ff_recurrence_half(const struct ff_recurrence *r, int64_t i)
{
	return ff_recurrence_step(r, i / r->halves) * r->halves + i % r->halves;
}

#endif
