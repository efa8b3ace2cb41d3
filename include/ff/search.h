/* Search: the space of strategies and the ways through it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SEARCH_H
#define FF_SEARCH_H

#include "ff/evaluate.h"
#include "ff/philox.h"

/* The legal configs of every operator of one graph on one machine: degree
 * vectors whose product is at most the devices, each on a view of the devices
 * (start + sum over dims of coordinate * stride: contiguous, strided and
 * permuted; one device and subsets included). */
struct ff_space;
int ff_space_create(const struct ff_graph *g, const struct ff_machine *m, struct ff_space **ret,
		struct ff_error *err);
void ff_space_destroy(struct ff_space *s);
/* What the search may change beside splits and devices of operators; nothing, until
 * it is said.  None changes the computed function. */
#define FF_SPACE_UPDATES 1u   /* where parameters are updated: sharded, on one device */
#define FF_SPACE_REPLICAS 2u  /* parts computed on several devices */
#define FF_SPACE_MICRO 4u     /* micro-batches, in stages or not */
#define FF_SPACE_RECOMPUTE 8u /* values dropped after forward and made again */
#define FF_SPACE_ALL 15u
void ff_space_allow(struct ff_space *s, uint32_t what);
/* Numbers of micro-batches that the search may use, ascending from 1: after each the least divisor
 * of the batch that is twice as many or more, where operators keep samples apart; fewer on large
 * machines, where each would have millions of parts. */
#define FF_MOST_MICRO 7
uint32_t ff_space_micro(const struct ff_space *s, const uint32_t **ret);
/* Takes one out (say because its kernels were not measured). */
void ff_space_forbid_micro(struct ff_space *s, uint32_t micro_batches);
/* How many configs `node` has; 1 means nothing to search.  Saturates. */
uint64_t ff_space_count(const struct ff_space *s, uint32_t node);
/* Config number `i` of `node`. */
void ff_space_config(const struct ff_space *s, uint32_t node, uint64_t i, struct ff_config *ret);
/* A random one, whatever the current strategy is: degrees first, then a view of
 * them.  A quarter of the draws is uniform over degree vectors and over the
 * views of the one drawn; the rest prefers what is often good on big machines:
 * numbers of parts that divide the devices, on aligned blocks of them. */
void ff_space_draw(const struct ff_space *s, uint32_t node, struct ff_random *r,
		struct ff_config *ret);

/* Names of all starts, in the order in which a search takes them; NULL-terminated. */
extern const char *const ff_starts[];
/* Starting points by name: "data-parallel", "single", "expert", "random"; "pipeline-N",
 * N stages of about equal work, each data-parallel on its share of the devices, with as
 * many micro-batches as the space allows up to 4 N, 1F1B; "frugal", data-parallel with
 * whatever saves memory; "tables-N", tables cut by column over N neighbours, by row or by sample
 * over such groups of devices, and all else by sample. */
/* Whether `name` is pipeline-N; or tables-N, perhaps with ",replicas" behind it, what would be cut
 * by row is the same in all groups, and ",apart", tables are on the second half of the devices and
 * what waits for none on the first, and ",devices=N", which are the first N, and ",others=N", all
 * but tables, and what joins their vectors, is on N devices behind these, or, if there are not so
 * many, on the first. */
struct ff_tables {
	uint32_t columns, devices, others; /* 0: all; where tables are */
	bool replicas, apart;
	bool stages; /* what waits for tables is a stage of its own: its gradients are sent first */
};
bool ff_is_pipeline(const char *name, uint32_t *stages);
bool ff_is_tables(const char *name, struct ff_tables *ret);
int ff_init_strategy(const char *name, const struct ff_space *s, const struct ff_graph *g,
		const struct ff_machine *m, uint64_t seed, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err);

/* What is searched by prices of operators and edges one by one; `stop` is asked now and then, NULL
 * never says so. */
struct ff_elimination {
	const struct ff_space *space;
	const struct ff_graph *graph;
	const struct ff_machine *machine;
	struct ff_pricer *pricer;
	bool (*stop)(void *ctx);
	void *ctx;
};
/* The strategy that is best when those are added up, found by elimination (docs/search.md), with
 * what of its weights `e` finds the fastest to fit; e's current strategy is another afterwards.
 * Where it is stopped *found may be false.  All memory from `a`. */
int ff_search_eliminate(const struct ff_elimination *of, struct ff_evaluator *e, struct ff_arena *a,
		struct ff_strategy *ret, bool *found, struct ff_error *err);

struct ff_search_options {
	uint64_t seed;
	uint64_t proposals; /* 0: no limit */
	double seconds;     /* 0: no limit */
	/* Acceptance: exp(-beta * (new - old) / old), annealed around this; 0: 64 for
	 * each operator. */
	double beta;
	int64_t bucket_bytes; /* of the starts, and so of all; 0: the preset */
	/* NULL-terminated names for ff_init_strategy, "elimination", "pipeline" or "tables"
	 * (the best of 2, 4, ... stages or columns); NULL: all of ff_starts. */
	const char *const *starts;
	const struct ff_strategy *given; /* n_given more, that are walked before those */
	uint32_t n_given;
	const struct ff_strategy *known; /* that fits where data parallelism does not; or NULL */
	double lower_s;     /* what lowering data parallelism takes, in one micro-batch */
	bool may_find_none; /* one that fits is known: what takes too long to lay out is left */
	struct ff_pricer *pricer; /* of the evaluator; NULL: no elimination */
	uint32_t top;             /* plans of so many shapes are kept, at least; 0: one */
	/* Runs from one restart to the next, equally long; 0: as many of a good length as the
	 * budget allows.  More chains have a run each instead. */
	uint32_t seeds;
	/* More chains, each in a thread of its own, with these evaluators; neither they
	 * nor their pricers may be shared. */
	struct ff_evaluator *const *more;
	uint32_t n_more;
	/* Called now and then; true stops the search (Ctrl-C). NULL: never. */
	bool (*progress)(void *ctx, uint64_t proposals, double seconds, double best_us);
	void *ctx;
	/* Called with every strategy evaluated (tests), accepted or not, by one thread at a
	 * time; NULL: never. */
	void (*visit)(void *ctx, const struct ff_strategy *s, struct ff_evaluation e);
	void *visit_ctx;
};
/* The best plans of runs that know nothing of each other, where they found one. */
struct ff_seeds {
	uint32_t n;
	double least_us, most_us;
};

struct ff_search_result {
	struct ff_strategy best;
	struct ff_evaluation evaluation;
	struct ff_seeds seeds;
	/* The best of other shapes, too, the better ones first; not all of them need have a layout
	 * in memory. */
	struct ff_strategy *shape;
	uint32_t n_shapes;
	uint64_t proposals, accepted;
	double seconds;
	double first_s; /* until the first strategy that fits was kept; INFINITY: there is none */
	bool lacked_memory; /* the host's: that ended the search, and the evaluator is spent */
};

/* Annealed Metropolis-Hastings over ff_space: a quarter of the budget goes to the
 * starts, in equal shares, the rest to reheating the best found.  Ties go
 * to what was found first.  With a budget in proposals the result depends on
 * the seed and the number of chains alone.  FF_E_INPUT without any budget and progress(),
 * FF_E_NOFIT when nothing that fits was found: *ret is then what lacks least.  Where the host has
 * no memory left a search ends with what it has found; FF_E_NOMEM: that is nothing that fits. */
int ff_search_mcmc(const struct ff_space *s, struct ff_evaluator *e, const struct ff_graph *g,
		const struct ff_machine *m, const struct ff_search_options *opt, struct ff_arena *a,
		struct ff_search_result *ret, struct ff_error *err);

/* No strategy with so many micro-batches can be faster than this: docs/simulator.md.
 * `stop` is asked now and then and may be NULL; when it is true *us is NAN. */
int ff_lower_bound(const struct ff_graph *g, uint32_t micro_batches, const struct ff_machine *m,
		struct ff_pricer *p, bool (*stop)(void *ctx), void *ctx, double *us,
		struct ff_error *err);

#endif
