/* The state of lowering, shared by its files: lower.c builds the blocks, tasks.c emits tasks in
 * order, memory/ lays out buffers.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_LOWERING_H
#define FF_LOWER_LOWERING_H

#include "ff/bucketing.h"
#include "ff/machine_lanes.h"
#include "ff/program.h"
#include "ff/sharing.h"

/* Vector clock of a device: by lane, how many of its tasks are known to be done. */
struct ff_clock {
	uint32_t done[FF_DEVICE_LANES];
};

/* clocks.c: the clocks of all tasks. */
struct ff_clocks {
	uint32_t *first;                        /* by task: its first clock; it has one a device */
	struct ff_clock *done;                  /* when the task is done */
	struct ff_clock *born;                  /* before it starts */
	struct ff_clock *lane[FF_DEVICE_LANES]; /* by device: the latest of each lane */
	uint32_t n;
};

/* The lifetime of a buffer, for the layout of memory. */
struct ff_life {
	struct ff_clock born; /* known to be done before its first task starts */
	struct ff_clock last; /* its last use on each lane */
};

struct ff_list {
	uint32_t *v, n, cap;
};

/* arrivals.c: lists of emitted tasks that compute tasks, not yet emitted, must wait for. */
struct ff_arrivals {
	/* By phase, by micro-batch and node, by part and lane: the newest entry of the list, or
	 * FF_NONE. */
	uint32_t **first[FF_PHASE_COUNT];
	struct ff_arrival {
		uint32_t task, next; /* next: FF_NONE ends the list */
	} * at;
	uint32_t n, cap;
};

/* Emitted tasks that later tasks wait for. */
struct ff_told {
	uint32_t *sync;    /* by bucket: the collective of its gradients, or FF_NONE */
	uint32_t *delay;   /* by bucket: its delay on its first device; the others' follow */
	uint32_t *limited; /* by device: the last FF_PREFETCH_DISTANCE limited computes, the latest
			    * first */
	uint32_t round;    /* the first task of the round of norms, or of updates */
};

/* Scratch of kernels, memoised: equal nodes with equal degrees need the same, part by part. */
struct ff_scratches {
	const uint32_t *class; /* by node: the first node equal to it */
	struct ff_scratch {
		uint16_t degree[FF_MAX_DIMS], replicas;
		int64_t *bytes[2]; /* by pass, by part; < 0: not yet known; NULL: no entry */
	} * of;                    /* by class */
};

/* computes.c: the node whose parts are being emitted. */
struct ff_computing {
	uint32_t *alias[FF_MAX_INPUTS]; /* by slot: the producer's part whose gradient buffer it
					   shares */
	struct ff_arena_mark mark;
	struct ff_scratches scratches;
};

/* How a parameter is updated (ff_param_is_synced). */
struct ff_param_state {
	bool synced;
	enum ff_flat flat;
};

struct ff_lowering {
	const struct ff_graph *g; /* of one micro-batch */
	const struct ff_machine *m;
	const struct ff_strategy *s;
	const struct ff_lower_options *opt;
	struct ff_arena *a;       /* owns the schedule */
	struct ff_arena *scratch; /* rewound after each step of the walk */
	struct ff_arena lasting;  /* scratch of the whole lowering */
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
	/* By pass and node, by part: its task is number compute[...] + place, or FF_NONE.  NULL:
	 * place is the part's number; otherwise parts run in turns, or not all of them are lowered.
	 */
	uint32_t **place[2];

	struct ff_told told;
	struct ff_arrivals arrivals;
	struct ff_computing computing;
	struct ff_clocks clocks;
	struct ff_life *life; /* by buffer */
	bool failed;          /* out of memory somewhere */
	/* equal_devices.c: by device, the first device that does the same; only that one is
	 * lowered. NULL: all devices are lowered. */
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

/* Whether gradients outlive their step: as error feedback, or because they are delayed. */
static inline bool ff_lowering_stays(const struct ff_lowering *l)
{
	return l->r.travel.codec || l->r.travel.staleness;
}

/* Whether the schedule gets buffers. */
static inline bool ff_lowering_has_buffers(const struct ff_lowering *l)
{
	return !l->opt || l->opt->what != FF_LOWER_TASKS || ff_lowering_stays(l);
}

static inline bool ff_lowering_clips(const struct ff_lowering *l)
{
	return l->opt && l->opt->clip;
}

/* The redistribution at an edge in a pass. */
static inline const struct ff_redistribution *ff_moves_at(
		const struct ff_lowering *l, enum ff_pass pass, uint32_t edge)
{
	return pass == FF_BACKWARD ? &l->edge[edge].backward : &l->edge[edge].forward;
}

/* The class of lane that a task occupies on its devices; of classes that share a lane, the first.
 */
static inline enum ff_lane_class ff_task_lane(const struct ff_lowering *l, const struct ff_task *t)
{
	enum ff_lane_class lane;

	if (!l->m->overlap || !t->move)
		return FF_LANE_COMPUTE;
	lane = ff_move_lane(l->g, t->edge, t->move);
	return lane == FF_LANE_MESSAGE && !l->m->message_lane ? FF_LANE_COMM : lane;
}
#endif
