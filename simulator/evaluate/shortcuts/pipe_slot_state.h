/* Slots of a pipeline: what one stage does in a row for one micro-batch, and does again for others
 * (pipe_slots.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_PIPE_SLOT_STATE_H
#define FF_SIMULATOR_PIPE_SLOT_STATE_H

#include "../memo/records.h"
#include "ff/phase.h"

/* An operator in one phase; the micro-batch is the slot's. */
struct ff_pipe_slot_node {
	enum ff_phase phase;
	uint32_t node;
};
struct ff_pipe_slot_nodes {
	struct ff_pipe_slot_node *at;
	uint32_t n, cap;
};

/* How slots of a kind went, while their blocks were those in place.  A memo has times relative to
 * one: of lanes and arrivals that a slot began with, and of what it left. */
#define FF_SLOT_MEMOS 4
struct ff_slot_memos {
	uint32_t n, next, last; /* memos; the one that is overwritten next; the last replayed */
	struct ff_lanes *run;   /* lanes that they hold, ascending: those that compute first */
	uint32_t n_runs, n_own_runs, cap_runs;
	uint32_t n_lanes, n_own;
	uint32_t n_before, n_behind; /* times of a memo, before its slot and behind it */
	double *times;               /* memo by memo */
	uint32_t cap_times;
	double most_us[FF_SLOT_MEMOS]; /* until the last lane is free */
};

/* Slots that do the same, step by step, but for their micro-batches.  What goes in and out of
 * them: */
struct ff_pipe_slot_kind {
	uint32_t first, n; /* steps of one of them */
	struct ff_pipe_slot_nodes
			awaits; /* what is computed in it, and may be sent to from outside */
	struct ff_pipe_slot_nodes sends;   /* what is computed outside, and may be sent to */
	struct ff_pipe_slot_nodes results; /* what is computed in it, and asked for outside */
	struct ff_pipe_slot_nodes reads;   /* what is computed outside, and asked for */
	uint32_t *reader;                  /* of `reads`, the step that does, behind `first` */
	uint32_t cap_reader;
	struct ff_slot_memos memos[2]; /* of the current strategy's blocks: `now`; of others */
	uint32_t now;
	uint32_t touched;     /* the number of the last proposal that has other blocks */
	uint32_t fails, wait; /* in a row that no memo had; so many are not looked at */
};

/* Those of a program. */
struct ff_pipe_slots {
	struct ff_pipe_slot {
		uint32_t first, end, kind;
	} * slot;
	struct ff_pipe_slot_kind *kind;
	uint32_t n, n_kinds, cap, cap_kinds;
	/* By node, and one behind the last: where the kinds that have to do with it begin in
	 * `kinds`. */
	uint32_t *begins, *kinds;
};

/* One pass over them. */
struct ff_pipe_slot_pass {
	uint32_t at;         /* the step at which the pass asks again; FF_NONE: none */
	uint32_t next;       /* the slot that comes next */
	uint32_t open;       /* the one that is timed, and recorded; FF_NONE: none */
	double *lane, *idle; /* as it began: clocks, */
	double *captured;    /* and what it may wait for */
	uint32_t cap_captured;
	bool proposed;     /* blocks of a proposal are in place, */
	uint32_t number;   /* the last one's number */
	uint64_t n_folded; /* steps that passes left out */
};

#endif
