/* The best strategies of several runs, sorted.  SPDX-License-Identifier: Apache-2.0 */
#include "elite.h"

int ff_elite_init(struct ff_elite *e, const struct ff_graph *g, struct ff_arena *a,
		struct ff_error *err)
{
	int code = FF_OK;

	*e = (struct ff_elite){.n = 0};
	for (uint32_t i = 0; i < FF_ELITE && code == FF_OK; i++)
		code = ff_strategy_create(g, a, &e->best[i], err);
	return code;
}

void ff_elite_add(struct ff_elite *e, const struct ff_strategy *s, struct ff_evaluation at)
{
	struct ff_strategy room;
	uint32_t i = e->n;

	if (e->n < FF_ELITE)
		e->n++;
	else if (ff_how_much_worse(e->at[--i], at) >= 0)
		return;
	room = e->best[i];
	for (; i > 0 && ff_how_much_worse(e->at[i - 1], at) < 0; i--) {
		e->best[i] = e->best[i - 1];
		e->at[i] = e->at[i - 1];
	}
	e->best[i] = room;
	e->at[i] = at;
	ff_strategy_copy(&e->best[i], s);
}
