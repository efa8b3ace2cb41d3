/* What the chains of one search share.  SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <math.h>
#include <string.h>

double ff_how_much_worse(struct ff_evaluation old, struct ff_evaluation new)
{
	if (new.fits != old.fits)
		return new.fits ? -1 : INFINITY;
	if (!new.fits)
		return (double)(new.over_bytes - old.over_bytes) / (double)old.over_bytes;
	return (new.step_us - old.step_us) / old.step_us;
}

int ff_chain_pool_init(struct ff_chain_pool *c, const struct ff_graph *g, uint32_t n,
		struct ff_arena *a, struct ff_error *err)
{
	const struct ff_evaluation nothing = {.step_us = INFINITY, .over_bytes = INT64_MAX};

	*c = (struct ff_chain_pool){.n = n, .at_best = nothing, .owner = UINT32_MAX};
	if (pthread_mutex_init(&c->mutex, NULL) != 0 || pthread_cond_init(&c->changed, NULL) != 0)
		return ff_fail_memory(err);
	return ff_strategy_create(g, a, &c->best, err);
}

void ff_chain_pool_finish(struct ff_chain_pool *c)
{
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->mutex);
}

/* With the mutex held. */
static void wait_for_all(struct ff_chain_pool *c)
{
	uint64_t turn = c->turn;

	if (++c->waiting >= c->n) {
		c->waiting = 0;
		c->turn++;
		pthread_cond_broadcast(&c->changed);
	}
	while (c->turn == turn)
		pthread_cond_wait(&c->changed, &c->mutex);
}

bool ff_chain_pool_exchange(struct ff_chain_pool *c, uint32_t chain, const struct ff_strategy *s,
		struct ff_evaluation e, struct ff_strategy *ret)
{
	double worse;
	bool better;

	pthread_mutex_lock(&c->mutex);
	worse = c->owner == UINT32_MAX ? -1 : ff_how_much_worse(c->at_best, e);
	/* of equals the first chain's, whoever comes first */
	if (worse < 0 || (worse == 0 && chain < c->owner)) {
		ff_strategy_copy(&c->best, s);
		c->at_best = e;
		c->owner = chain;
	}
	wait_for_all(c);
	better = ff_how_much_worse(e, c->at_best) < 0;
	if (better)
		ff_strategy_copy(ret, &c->best);
	wait_for_all(c); /* none shows the next one while another still copies */
	pthread_mutex_unlock(&c->mutex);
	return better;
}

void ff_chain_pool_leave(struct ff_chain_pool *c)
{
	pthread_mutex_lock(&c->mutex);
	c->n--;
	if (c->n > 0 && c->waiting >= c->n) {
		c->waiting = 0;
		c->turn++;
		pthread_cond_broadcast(&c->changed);
	}
	pthread_mutex_unlock(&c->mutex);
}
