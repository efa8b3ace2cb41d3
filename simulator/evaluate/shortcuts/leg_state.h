/* Legs of a program: what one stage does in a row for one micro-batch, and does again for
 * others.  legs.c tells what they are for.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_LEG_STATE_H
#define FF_SIMULATOR_LEG_STATE_H

#include "../memo/records.h"
#include "ff/phase.h"

/* An operator in one phase; the micro-batch is the leg's. */
struct ff_leg_node {
	enum ff_phase phase;
	uint32_t node;
};
struct ff_leg_nodes {
	struct ff_leg_node *at;
	uint32_t n, cap;
};

/* How legs of a kind went whose blocks are those in place. */
#define FF_LEG_COURSES 4
struct ff_leg_courses {
	uint32_t n, next, last; /* that are known; the one that goes when there are more; the one
				 * that another leg went last */
	struct ff_lanes *run;   /* lanes that they hold, ascending: those that compute first */
	uint32_t n_runs, n_own_runs, cap_runs;
	uint32_t n_lanes, n_own;
	uint32_t n_before, n_behind; /* times of a course, before and behind it */
	double *times;               /* course by course */
	uint32_t cap_times;
	double most_us[FF_LEG_COURSES]; /* until the last lane is free */
};

/* Legs that do the same, step by step, but for their micro-batches.  What goes in and out of
 * them: */
struct ff_leg_kind {
	uint32_t first, n;          /* steps of one of them */
	struct ff_leg_nodes awaits; /* what is computed in it, and may be sent to from outside */
	struct ff_leg_nodes sends;  /* what is computed outside, and may be sent to */
	struct ff_leg_nodes tells;  /* what is computed in it, and asked for outside */
	struct ff_leg_nodes reads;  /* what is computed outside, and asked for */
	uint32_t *reader;           /* of `reads`, the step that does, behind `first` */
	uint32_t cap_reader;
	struct ff_leg_courses courses[2]; /* of the current strategy's blocks: `now`; of others */
	uint32_t now;
	uint32_t touched;     /* the number of the last proposal that has other blocks */
	uint32_t fails, wait; /* in a row that went as none before; so many are not looked at */
};

/* Those of a program. */
struct ff_legs {
	struct ff_leg {
		uint32_t first, end, kind;
	} * leg;
	struct ff_leg_kind *kind;
	uint32_t n, n_kinds, cap, cap_kinds;
	/* By node, and one behind the last: where the kinds that have to do with it begin in
	 * `kinds`. */
	uint32_t *begins, *kinds;
};

/* One pass over them. */
struct ff_leg_pass {
	uint32_t at;         /* the step at which the pass asks again; FF_NONE: none */
	uint32_t next;       /* the leg that comes next */
	uint32_t open;       /* the one that is timed, and noted; FF_NONE: none */
	double *lane, *idle; /* as it began: clocks, */
	double *told;        /* and what it may wait for */
	uint32_t cap_told;
	bool proposed;     /* blocks of a proposal are in place, */
	uint32_t number;   /* the last one's number */
	uint64_t n_folded; /* steps that passes left out */
};

#endif
