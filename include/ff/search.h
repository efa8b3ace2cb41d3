/* Search: annealed proposals from many starts, and a bound that no strategy is below.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SEARCH_H
#define FF_SEARCH_H

#include "ff/evaluate.h"
#include "ff/space.h"

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
