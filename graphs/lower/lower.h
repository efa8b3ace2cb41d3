/* Lowering, inside: the state that its files share while a schedule is put
 * together: lower.c finds the pieces, tasks.c puts them in order (emit.h), memory.c finds
 * room for them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TASK_LOWER_H
#define FF_TASK_LOWER_H

#include "ff/block.h"
#include "ff/program.h"
#include "ff/sharing.h"

/* How far a device's two lanes are known to have come: tasks done, counted on
 * its compute lane and on its communication lane. */
struct ff_clock {
	uint32_t compute, comm;
};

/* A buffer while it is being placed. */
struct ff_life {
	struct ff_clock born; /* known to be done before its first task starts */
	struct ff_clock last; /* its last use on either lane */
};

struct ff_list {
	uint32_t *v, n, cap;
};

struct ff_lowering {
	const struct ff_graph *g; /* of one micro-batch */
	const struct ff_machine *m;
	const struct ff_strategy *s;
	const struct ff_lower_options *opt;
	struct ff_arena *a;       /* what the schedule keeps */
	struct ff_arena *scratch; /* what it does not */
	uint32_t *order, *position;
	struct ff_program program;
	struct ff_config *config;          /* by node, parameters resolved */
	const struct ff_node_block **node; /* NULL for inputs */
	struct ff_edge_block *edge;
	struct ff_bucketing buckets;
	bool *synced;         /* by node: a parameter whose gradients are all-reduced in place */
	uint32_t *first_edge; /* by value: its first use in backward, or FF_NONE */
	uint32_t *taken;      /* by edge: ff_edge_taken_from */
	struct ff_sums sums;

	struct ff_schedule r;
	struct ff_list lanes, deps;
	/* By phase, micro-batch and node: the first task, or FF_NONE. */
	uint32_t *compute[FF_PHASE_COUNT];
	/* By pass and node, of nodes whose parts run in turn: how many tasks behind that one part
	 * p is.  NULL: p. */
	uint32_t **place[2];
	/* By pass, edge and instance, sink part: task that fills it, or FF_NONE. */
	uint32_t **moved[2];
	uint32_t *sync_task;  /* by bucket: SYNC task, or FF_NONE */
	uint32_t *delay_task; /* its DELAY task on its first device, others behind it; or FF_NONE */
	uint32_t *paced; /* by device: its last FF_PACE paced computes, last first; or FF_NONE */

	uint32_t *first_clock;  /* by task: of its devices' clocks */
	struct ff_clock *clock; /* when it is done; by first_clock + position of the device */
	struct ff_clock *born;  /* before it starts; likewise */
	uint32_t n_clocks;
	struct ff_clock *lane_clock[2]; /* by device: of its compute and communication lane */
	struct ff_life *life;           /* by buffer */
	bool failed;                    /* out of memory somewhere */
};

/* What is moved at an edge in a phase. */
static inline const struct ff_redistribution *ff_moves_at(
		const struct ff_lowering *l, enum ff_phase phase, uint32_t edge)
{
	return phase == FF_PHASE_BACKWARD ? &l->edge[edge].backward : &l->edge[edge].forward;
}

/* changes.c: FF_E_INPUT for what does not go with the rest of what was asked for. */
int ff_changes_check(const struct ff_lowering *l, struct ff_error *err);

/* delays.c: steps that gradients wait which backward writes in a bucket; buffers of those that wait
 * elsewhere, and of those whose turn it is. */
uint32_t ff_delays_of(const struct ff_lowering *l, uint32_t bucket);
void ff_delays_build(struct ff_lowering *l);

/* tables.c: of parts that run in turn, room for their places among a step's tasks; the tables that
 * say which buffer each part has. */
int ff_tables_places(struct ff_lowering *l, struct ff_error *err);
int ff_tables_build(struct ff_lowering *l, struct ff_error *err);

/* tasks.c: all tasks, in order. */
void ff_tasks_emit(struct ff_lowering *l);

/* clocks.c: index of `device` among the devices of a task or a bucket, ascending, or FF_NONE. */
uint32_t ff_device_index(const uint16_t *list, uint32_t n, uint32_t device);
/* Whether a task is on its devices' communication lanes, beside what they compute. */
static inline bool ff_on_comm_lane(const struct ff_lowering *l, const struct ff_task *t)
{
	if (!l->m->overlap || t->kind != FF_TASK_MOVE)
		return l->m->overlap && t->kind == FF_TASK_SYNC;
	return !ff_move_is_own(l->g, t->edge, t->move);
}
/* What is known to be done on `device` before a task of its starts. */
const struct ff_clock *ff_clock_before(const struct ff_lowering *l, uint32_t task, uint32_t device);
/* Advances the clocks by the task at hand, whose dependencies are known. */
void ff_clock_tick(struct ff_lowering *l);

/* memory.c: a buffer of `bytes` on `device`, first used by the task at hand. */
uint32_t ff_buffer_new(struct ff_lowering *l, uint32_t device, int64_t bytes);
/* One that lies for good in the device's memory of a bucket, at `offset`. */
uint32_t ff_buffer_pin(struct ff_lowering *l, uint32_t device, uint32_t bucket, int64_t bytes,
		int64_t offset);
/* The task at hand (the last one) uses `buffer` on its device. */
void ff_buffer_use(struct ff_lowering *l, uint32_t buffer);
/* `buffer` lives until the step ends. */
void ff_buffer_keep(struct ff_lowering *l, uint32_t buffer);
/* Gives every bucket and buffer its place; fills memory_bytes and live_bytes. */
int ff_memory_place(struct ff_lowering *l, struct ff_error *err);

/* layout.c: places what is in no bucket, from `base` on (by device). */
int ff_layout_place(struct ff_lowering *l, const int64_t *base, struct ff_error *err);

#endif
