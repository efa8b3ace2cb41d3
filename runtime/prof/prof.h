/* The state of ffprof, shared by its files.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROF_H
#define FF_PROF_H

#include "command_line.h"
#include "ff/backend.h"
#include "ff/comm.h"
#include "ff/costs.h"
#include "ff/dataset.h"
#include "ff/lock.h"
#include "ff/micro.h"
#include "ff/reuse.h"
#include "ff/schedule.h"
#include "layout.h"
#include "steady.h"
#include "topology/topology.h"
#include "watch.h"

/* Detects other work on the machine during a sample. */
struct ff_reference {
	struct ff_baseline compute, memory;
	uint32_t n_threads;
	int *schedstat;  /* a file a thread */
	double *wait_us; /* by thread: its wait time when the sample began */
	uint32_t n, cap;
	double *all_us; /* times of `compute` so far */
	double sink;
	void *array[4]; /* on a device that is not the host: weights, gradients, states */
	uint32_t repeats;
};

/* A kernel to measure: a part of one split of an operator, in one pass. */
struct ff_prof_item {
	const struct ff_graph *graph; /* of one micro-batch */
	uint32_t node, part;
	enum ff_pass pass;
	struct ff_config config; /* degrees only */
	const char *key;
	int64_t reuse_bytes; /* as in ff_cost */
	bool alone;          /* also measured while other devices idle */
};

/* Reuse distances with which rates are measured: of a step, and of a micro-batch for each number of
 * micro-batches.  Some may be equal. */
#define FF_PROF_STATES 16
struct ff_prof_states {
	int64_t reuse_bytes[FF_PROF_STATES]; /* of a step first */
	uint32_t n;
};

/* The device's caches, and the arrays that flush them. */
struct ff_prof_caches {
	int64_t bytes;       /* 0: unknown */
	void *sweep[2];      /* device memory */
	int64_t sweep_bytes; /* of each */
	int64_t swept_bytes; /* by the last sweep */
	double decay;        /* decay.c: loss over time; 0: none */
	double us_per_byte;  /* time of a step for each byte that it touches; 0: unknown */
};

/* Progress so far. */
struct ff_prof_tally {
	uint32_t kernels;
	uint64_t taken, met; /* samples; disturbed ones */
	double *rank_us;     /* by rank: sum of undisturbed samples of work that all ranks do */
};

struct ff_prof {
	const struct ff_prof_options *opt;
	struct ff_arena arena;
	struct ff_graph graph;
	struct ff_strategy *planned; /* by --strategy option */
	struct ff_reuse reuse;       /* of the graph on the machine */
	struct ff_machine machine;
	struct ff_layout layout; /* while measuring: ranks on nodes */
	struct ff_topology topology;
	const char *kind; /* of the device, as in cost files */
	const struct ff_backend *backend;
	struct ff_prof_caches caches;
	struct ff_dataset *data;
	struct ff_costs *costs;
	uint32_t n_items;
	struct ff_prof_item *item;
	struct ff_prof_states states;
	/* while measuring */
	struct ff_comm *comm;
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_watch watch;
	struct ff_reference reference;
	uint32_t rounds; /* in which kernels are measured */
	struct ff_prof_tally tally;
	bool (*stopped)(void); /* the user asked to stop */
	struct ff_lock lock;   /* on the cost file, held by the first rank */
	bool end;              /* all ranks agreed to stop */
	double start_us, saved_us;
	struct ff_progress progress;
};

/* origin.c */
int ff_prof_origin(struct ff_prof *p, struct ff_origin *ret, struct ff_error *err);
/* same.c: FF_E_INPUT, with a sentence, where ranks were started with unequal options. */
int ff_prof_same(const struct ff_prof *p, struct ff_error *err);
/* seats.c: p->topology, of all ranks, once the device is open. */
int ff_prof_seats(struct ff_prof *p, struct ff_error *err);
/* Warns on standard error of a doubtful placement of ranks. */
void ff_prof_seats_warn(const struct ff_prof *p);
/* --show: the first rank prints the topology as a tree; nothing is measured. */
int ff_prof_show(struct ff_prof *p, struct ff_error *err);
/* works.c: loads the strategies, and the graph, rewritten by the first --strategy or by --rewrite.
 */
int ff_prof_load_graph(struct ff_prof *p, struct ff_error *err);
/* Lists the kernels that p->costs lacks, and the reuse distances to measure with. */
int ff_prof_list(struct ff_prof *p, struct ff_error *err);
/* kernels.c: measures p->caches.us_per_byte with some of the missing kernels. */
int ff_prof_pace(struct ff_prof *p, struct ff_error *err);
int ff_prof_kernels(struct ff_prof *p, struct ff_error *err);
/* rates.c */
int ff_prof_rates(struct ff_prof *p, struct ff_error *err);
/* network.c */
int ff_prof_network(struct ff_prof *p, struct ff_error *err);
/* beside.c: costs of overlapping communication with compute. */
int ff_prof_beside(struct ff_prof *p, struct ff_error *err);
/* The measured link between two nodes, one way: the time of the shortest message, and the slope up
 * to the longest. bytes_per_us 0: not measured. */
struct ff_rate ff_prof_network_line(const struct ff_prof *p);

/* Whether a size is above --largest; the first size, with none `before`, never is. */
static inline bool ff_prof_is_beyond(const struct ff_prof *p, int64_t bytes, uint32_t before)
{
	return p->opt->largest && before && bytes > p->opt->largest;
}

#endif
