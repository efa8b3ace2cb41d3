/* Search: annealed proposals from many starts, and a lower bound on every strategy's step.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SEARCH_H
#define FF_SEARCH_H

#include "ff/evaluate.h"
#include "ff/space.h"

struct ff_search_options {
	uint64_t seed;
	uint64_t proposals; /* 0: no limit */
	double seconds;     /* 0: no limit */
	/* A slower proposal is accepted with probability exp(-beta * (new - old) / old).  beta is
	 * annealed around this; 0: 64 times the number of operators. */
	double beta;
	int64_t bucket_bytes; /* of the starts; 0: the preset */
	/* NULL-terminated names for ff_init_strategy, "elimination", "pipeline" or "tables"
	 * (the best of 2, 4, ... stages or columns); NULL: all of ff_starts. */
	const char *const *starts;
	const struct ff_strategy *given; /* n_given more starts, searched first */
	uint32_t n_given;
	const struct ff_strategy *known; /* fits, where data parallelism does not; or NULL */
	double lower_s;                  /* seconds to lower data parallelism in one micro-batch */
	double layout_s;                 /* of these, to lay it out; 0: as long */
	double kept_s;      /* seconds after `seconds` that are kept to lower the plan found */
	bool may_find_none; /* the caller has a plan that fits: skip what takes long to lay out */
	struct ff_pricer *pricer; /* the evaluator's; NULL: no elimination */
	uint32_t top;             /* keep the best plans of at least so many shapes; 0: one */
	/* Number of restarts, with equal budgets; 0: as many of a good length as the budget allows.
	 * With more chains each chain is one run instead. */
	uint32_t seeds;
	/* Evaluators of further chains, each of which runs in a thread of its own.  Neither they
	 * nor their pricers may be shared. */
	struct ff_evaluator *const *more;
	uint32_t n_more;
	/* Called now and then; true stops the search (Ctrl-C).  NULL: never. */
	bool (*progress)(void *ctx, uint64_t proposals, double seconds, double best_us);
	void *ctx;
	/* Called with every strategy evaluated (tests), accepted or not, by one thread at a
	 * time; NULL: never. */
	void (*visit)(void *ctx, const struct ff_strategy *s, struct ff_evaluation e);
	void *visit_ctx;
};
/* The best plans of the independent runs that found one: how many, the fastest, the slowest. */
struct ff_seeds {
	uint32_t n;
	double least_us, most_us;
};

struct ff_search_result {
	struct ff_strategy best;
	struct ff_evaluation evaluation;
	struct ff_seeds seeds;
	/* The best plan of each shape, the fastest first.  Some may have no layout in memory. */
	struct ff_strategy *shape;
	uint32_t n_shapes;
	uint64_t proposals, accepted;
	double seconds;
	double first_s; /* until the first strategy that fits was kept; INFINITY: there is none */
	bool lacked_memory; /* the host ran out of memory; the evaluator cannot be used any more */
};

/* Annealed Metropolis-Hastings over ff_space.  A quarter of the budget goes to the starts, in equal
 * shares, the rest to reheating the best plan found.  Of equal plans the first found wins.  With a
 * budget in proposals the result depends only on the seed and the number of chains.
 *
 * FF_E_INPUT: neither a budget nor progress().  FF_E_NOFIT: no plan that fits was found; *ret is
 * the one that lacks least.  If the host runs out of memory the search ends with the best plan so
 * far; FF_E_NOMEM: there is none that fits. */
int ff_search_mcmc(const struct ff_space *s, struct ff_evaluator *e, const struct ff_graph *g,
		const struct ff_machine *m, const struct ff_search_options *opt, struct ff_arena *a,
		struct ff_search_result *ret, struct ff_error *err);

/* *us: a lower bound on the step of every strategy with `micro_batches` micro-batches
 * (docs/simulator.md).  `stop` is called now and then and may be NULL; if it returns true, *us is
 * NAN. */
int ff_lower_bound(const struct ff_graph *g, uint32_t micro_batches, const struct ff_machine *m,
		struct ff_pricer *p, bool (*stop)(void *ctx), void *ctx, double *us,
		struct ff_error *err);

#endif
