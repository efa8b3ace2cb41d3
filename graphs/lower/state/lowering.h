/* Lowering, inside: the state that its files share while a schedule is put
 * together: lower.c finds the pieces, tasks.c puts them in order, memory/ finds
 * room for them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_LOWERING_H
#define FF_LOWER_LOWERING_H

#include "ff/bucketing.h"
#include "ff/machine_lanes.h"
#include "ff/program.h"
#include "ff/sharing.h"

/* How far a device's lanes are known to have come: tasks done, by enum ff_lane_class. */
struct ff_clock {
	uint32_t done[FF_DEVICE_LANES];
};

/* clocks.c: those of all tasks. */
struct ff_clocks {
	uint32_t *first;       /* by task: of its devices' clocks */
	struct ff_clock *done; /* when it is done; by `first` + position of the device */
	struct ff_clock *born; /* before it starts; likewise */
	struct ff_clock *lane[FF_DEVICE_LANES]; /* by device: of its lanes */
	uint32_t n;
};

/* A buffer while it is being placed. */
struct ff_life {
	struct ff_clock born; /* known to be done before its first task starts */
	struct ff_clock last; /* its last use on each lane */
};

struct ff_list {
	uint32_t *v, n, cap;
};

/* arrivals.c: tasks that others wait for which are still to be told. */
struct ff_arrivals {
	/* By phase, by micro-batch and node, by part and lane: the newest of its list, or FF_NONE.
	 */
	uint32_t **first[FF_PHASE_COUNT];
	struct ff_arrival {
		uint32_t task, next; /* next: FF_NONE behind the last */
	} * at;
	uint32_t n, cap;
};

/* Tasks that others come after. */
struct ff_told {
	uint32_t *sync;    /* by bucket: that sums its gradients, or FF_NONE */
	uint32_t *delay;   /* by bucket: its delay on its first device, others behind it */
	uint32_t *limited; /* by device: its last FF_PREFETCH_DISTANCE limited computes, last first
			    */
	uint32_t round;    /* the first of the norms, or of the updates */
};

/* Scratch of kernels: equal nodes that are cut alike have the same, part by part. */
struct ff_scratches {
	const uint32_t *class; /* by node: the first one equal to it */
	struct ff_scratch {
		uint16_t degree[FF_MAX_DIMS], replicas;
		int64_t *bytes[2]; /* by pass, by part; < 0: nobody has asked; NULL: of no part */
	} * of;                    /* by class */
};

/* computes.c: what is computed while its parts are told. */
struct ff_computing {
	uint32_t *alias[FF_MAX_INPUTS]; /* by slot: the producer's part whose gradient its own is */
	struct ff_arena_mark mark;
	struct ff_scratches scratches;
};

/* Whether a parameter's gradients are summed in place, and whether it is updated flat. */
struct ff_param_state {
	bool synced;
	enum ff_flat flat;
};

struct ff_lowering {
	const struct ff_graph *g; /* of one micro-batch */
	const struct ff_machine *m;
	const struct ff_strategy *s;
	const struct ff_lower_options *opt;
	struct ff_arena *a;       /* what the schedule keeps */
	struct ff_arena *scratch; /* what it does not */
	struct ff_arena lasting;  /* that neither, but from step to step */
	uint32_t *order, *position;
	struct ff_program program;
	struct ff_config *config;          /* by node, parameters resolved */
	const struct ff_node_block **node; /* NULL for inputs */
	struct ff_edge_block *edge;
	struct ff_bucketing buckets;
	struct ff_param_state *param; /* by node */
	uint32_t *first_edge;         /* by value: its first use in backward, or FF_NONE */
	uint32_t *shared_from;        /* by edge: ff_sharing_find */
	struct ff_sums sums;

	struct ff_schedule r;
	struct ff_list lanes, deps;
	/* By phase, micro-batch and node: the first task, or FF_NONE. */
	uint32_t *compute[FF_PHASE_COUNT];
	/* By pass and node, of nodes whose parts run in turn or are not all lowered: how many tasks
	 * behind that one part p is, or FF_NONE.  NULL: p. */
	uint32_t **place[2];

	struct ff_told told;
	struct ff_arrivals arrivals;
	struct ff_computing computing;
	struct ff_clocks clocks;
	struct ff_life *life; /* by buffer */
	bool failed;          /* out of memory somewhere */
	/* equal_devices.c: by device, the first that does the same, which alone is lowered; NULL:
	 * all are. */
	const uint16_t *like;
};

static inline struct ff_block_graph ff_lowering_blocks(const struct ff_lowering *l)
{
	return (struct ff_block_graph){l->g, l->position, l->node};
}

static inline bool ff_device_is_lowered(const struct ff_lowering *l, uint32_t device)
{
	return !l->like || l->like[device] == device;
}

/* What backward has made stays where it is: compressed, or until a later step. */
static inline bool ff_lowering_stays(const struct ff_lowering *l)
{
	return l->r.travel.codec || l->r.travel.staleness;
}

/* Whether buffers are told, of those devices that are lowered. */
static inline bool ff_lowering_has_buffers(const struct ff_lowering *l)
{
	return !l->opt || l->opt->what != FF_LOWER_TASKS || ff_lowering_stays(l);
}

static inline bool ff_lowering_clips(const struct ff_lowering *l)
{
	return l->opt && l->opt->clip;
}

/* What is moved at an edge in a pass. */
static inline const struct ff_redistribution *ff_moves_at(
		const struct ff_lowering *l, enum ff_pass pass, uint32_t edge)
{
	return pass == FF_BACKWARD ? &l->edge[edge].backward : &l->edge[edge].forward;
}

/* The lane of its devices that a task holds; where two are one, the first of them. */
static inline enum ff_lane_class ff_task_lane(const struct ff_lowering *l, const struct ff_task *t)
{
	enum ff_lane_class lane;

	if (!l->m->overlap || !t->move)
		return FF_LANE_COMPUTE;
	lane = ff_move_lane(l->g, t->edge, t->move);
	return lane == FF_LANE_MESSAGE && !l->m->message_lane ? FF_LANE_COMM : lane;
}
#endif
