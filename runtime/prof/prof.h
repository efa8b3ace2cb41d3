/* ffprof's inside: what its files share.  SPDX-License-Identifier: Apache-2.0 */
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

/* What shows that something else ran while something was timed. */
struct ff_reference {
	struct ff_baseline compute, memory;
	uint32_t n_threads;
	int *schedstat;  /* a file a thread */
	double *wait_us; /* of each when the sample began */
	uint32_t n, cap;
	double *all_us; /* compute's times so far */
	double sink;
	void *array[4]; /* of a device that is not the host: weights, gradients, states */
	uint32_t repeats;
};

/* A kernel to measure: one part of one split of one operator, one way. */
struct ff_prof_item {
	const struct ff_graph *graph; /* of one micro-batch */
	uint32_t node, part;
	enum ff_pass pass;
	struct ff_config config; /* degrees only */
	const char *key;
	int64_t reuse_bytes; /* as costs have it */
	bool alone;          /* also while other devices wait */
};

/* What goes by in a step or in one of so many micro-batches, which rates are measured with; some
 * are alike. */
#define FF_PROF_STATES 16
struct ff_prof_states {
	int64_t reuse_bytes[FF_PROF_STATES]; /* of a step first */
	uint32_t n;
};

/* The device's caches, and what passes through them. */
struct ff_prof_caches {
	int64_t bytes;       /* 0: not told */
	void *sweep[2];      /* device memory */
	int64_t sweep_bytes; /* of each */
	int64_t swept_bytes; /* the last time */
	double decay;        /* decay.c; 0: they lose nothing by themselves */
	double us_per_byte;  /* of what a step touches; 0: not known */
};

/* What was measured so far. */
struct ff_prof_tally {
	uint32_t kernels;
	uint64_t taken, met; /* samples, and disturbed ones among them */
	double *rank_us;     /* by rank: all undisturbed samples of what all did alike */
};

struct ff_prof {
	const struct ff_prof_options *opt;
	struct ff_arena arena;
	struct ff_graph graph;
	struct ff_strategy *planned; /* of each of --strategy */
	struct ff_reuse reuse;       /* on it */
	struct ff_machine machine;
	struct ff_layout layout; /* while measuring: of the ranks */
	struct ff_topology topology;
	const char *kind; /* of device, as cost files name it */
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
	uint32_t rounds; /* that kernels are measured in */
	struct ff_prof_tally tally;
	bool (*stopped)(void); /* the user wants an end */
	struct ff_lock lock;   /* of the cost file, on the first rank */
	bool end;              /* all ranks know of it */
	double start_us, saved_us;
	struct ff_progress progress;
};

/* origin.c */
int ff_prof_origin(struct ff_prof *p, struct ff_origin *ret, struct ff_error *err);
/* same.c: FF_E_INPUT, with a sentence, where ranks were started with unequal options. */
int ff_prof_same(const struct ff_prof *p, struct ff_error *err);
/* seats.c: p->topology, of all ranks, once the device is open. */
int ff_prof_seats(struct ff_prof *p, struct ff_error *err);
/* What is doubtful about it, on standard error. */
void ff_prof_seats_warn(const struct ff_prof *p);
/* Instead of measuring: the topology as a tree, by the first rank. */
int ff_prof_show(struct ff_prof *p, struct ff_error *err);
/* works.c: the graph, as the first of --strategy or --rewrite has it, and the strategies. */
int ff_prof_load_graph(struct ff_prof *p, struct ff_error *err);
/* Everything that is missing in prof->costs, and the states to measure in. */
int ff_prof_list(struct ff_prof *p, struct ff_error *err);
/* kernels.c: p->caches.us_per_byte, by some kernels; nothing where none is missing. */
int ff_prof_pace(struct ff_prof *p, struct ff_error *err);
int ff_prof_kernels(struct ff_prof *p, struct ff_error *err);
/* rates.c */
int ff_prof_rates(struct ff_prof *p, struct ff_error *err);
/* network.c */
int ff_prof_network(struct ff_prof *p, struct ff_error *err);
/* beside.c: what overlapping takes from compute, among ranks that communicate. */
int ff_prof_beside(struct ff_prof *p, struct ff_error *err);
/* One way between two nodes, as measured: the shortest message's time, and what the longest one
 * takes beyond it.  bytes_per_us is 0 when that was not. */
struct ff_rate ff_prof_network_line(const struct ff_prof *p);

/* Whether a size is beyond what is to be measured; the first one, with none before it, never is. */
static inline bool ff_prof_is_beyond(const struct ff_prof *p, int64_t bytes, uint32_t before)
{
	return p->opt->largest && before && bytes > p->opt->largest;
}

#endif
