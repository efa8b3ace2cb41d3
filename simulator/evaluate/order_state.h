/* State that depends only on the issue order of operators.  A trial has two: of the current
 * strategy, and of the last other order that was proposed. SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_ORDER_STATE_H
#define FF_SIMULATOR_ORDER_STATE_H

#include "layering.h"
#include "pass.h"
#include "shortcuts/pipe_slot_state.h"
#include "shortcuts/rejoin_state.h"

struct ff_param_use {
	uint32_t node, slot, param;
};

/* columns.c: bytes that come and, behind their last step, go, by device and step.  A column says
 * what changes on a device beyond what changes on the one before it. */
struct ff_account {
	struct ff_arena arena;
	int64_t *change_bytes; /* [columns][rows] */
	size_t cap;            /* room for so many */
	bool failed;           /* there was no room for a column */
	uint32_t n_columns;    /* in use; most devices have none */
	uint32_t *at;          /* by device: its column's number plus one; 0: it has none */
	uint32_t *n_set; /* by device: what is not 0 in its column; 0: it equals the one before */
	int64_t *sum;    /* scratch: a row each, of so many columns */
	uint32_t n_summed;
	/* By device, the most that lives there: known but of these devices.  And as that was before
	 * a proposal. */
	int64_t *peak, *peak_was;
	struct ff_unknown_peaks {
		uint32_t first, end;
	} unknown, unknown_was;
	uint32_t *row, n_rows; /* by step, and after the last; FF_NONE: repeats earlier ones */
	bool *counted;         /* by micro-batch: some of its steps have rows */
};

struct ff_order {
	uint32_t *nodes, *position; /* nodes in issue order; by node, its position */
	struct ff_program program;
	struct ff_arena arena; /* of the program, and of arrays by step */
	/* Uses of parameters in backward's order: those that complete gradients, those that
	 * accumulate into them. */
	struct ff_param_use *completing, *adding;
	uint32_t n_completing, n_adding;
	uint32_t *completes_at;      /* by parameter: its index in `completing` */
	uint32_t *first_edge;        /* by value: its first use in backward */
	bool *first_use, *completes; /* by edge */
	/* By edge: the first forward step of the first micro-batch that may move its value to the
	 * reader, its own or that of another use; FF_NONE: none does. */
	uint32_t *begins;
	uint64_t *active;           /* a bit a step: 0 if it moves nothing */
	struct ff_arrival *arrival; /* room for all arrivals of a pass */
	struct ff_run run[FF_RUNS]; /* repeated steps */
	uint32_t n_runs;
	struct ff_layers layers;
	struct ff_pipe_slots slots;
	struct ff_rejoin_plan rejoin;
	struct ff_account account;
};

/* The first active step from `i` on; program.n if there is none. */
static inline uint32_t ff_active_from(const struct ff_order *o, uint32_t i)
{
	uint32_t word = i / 64, end = o->program.n / 64;
	uint64_t bits = o->active[word] & ~(uint64_t)0 << i % 64;

	while (!bits && word < end)
		bits = o->active[++word];
	return bits ? 64 * word + (uint32_t)__builtin_ctzll(bits) : o->program.n;
}

#endif
