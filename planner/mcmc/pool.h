/* Chain pool: the chains of one search, each in a thread of its own, and what they share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_POOL_H
#define FF_PLANNER_POOL_H

#include <pthread.h>
#include <stdatomic.h>

#include "ff/evaluate.h"

struct ff_chain_pool {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	uint32_t n, waiting; /* chains that walk; that wait for the others */
	uint64_t turn;
	struct ff_strategy best; /* of all chains, as of the last exchange */
	struct ff_evaluation at_best;
	uint32_t owner;
	atomic_bool stop;
	_Atomic uint64_t proposals;
};

/* How much worse `new` is than `old`, relatively; <= 0: it is no worse.  What fits
 * beats what does not; until something fits, less too much is better. */
double ff_how_much_worse(struct ff_evaluation old, struct ff_evaluation new);

int ff_chain_pool_init(struct ff_chain_pool *c, const struct ff_graph *g, uint32_t n,
		struct ff_arena *a, struct ff_error *err);
void ff_chain_pool_finish(struct ff_chain_pool *c);
/* Every chain shows its best and gets the best of all; all wait for each other, so
 * that with budgets in proposals each gets the same every time.  True when it is
 * another's and better: `ret` (room for all nodes) has it. */
bool ff_chain_pool_exchange(struct ff_chain_pool *c, uint32_t chain, const struct ff_strategy *s,
		struct ff_evaluation e, struct ff_strategy *ret);
/* The others need not wait for this chain any more. */
void ff_chain_pool_leave(struct ff_chain_pool *c);

#endif
