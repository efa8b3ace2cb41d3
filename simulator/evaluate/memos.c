/* The memos of an evaluator: how much they hold, and when they forget.
 * SPDX-License-Identifier: Apache-2.0 */
#include "memos.h"

size_t ff_evaluator_held(const struct ff_evaluator *h)
{
	size_t sum = 0;

	for (const struct ff_micro *i = h->micro; i; i = i->next)
		sum += ff_arena_used(&i->memo.arena);
	return sum;
}

/* All but `memo`. */
static void clear_others(struct ff_evaluator *h, const struct ff_memo *memo)
{
	for (struct ff_micro *i = h->micro; i; i = i->next)
		if (&i->memo != memo)
			ff_memo_clear(&i->memo);
}

void ff_evaluator_empty(struct ff_evaluator *h, const struct ff_trial *asks)
{
	if (ff_evaluator_held(h) > h->memo_limit)
		clear_others(h, asks == h->now ? NULL : h->now->memo);
}

void ff_evaluator_needs(struct ff_evaluator *h, size_t needed_bytes)
{
	if (h->memo_limit < 4 * needed_bytes)
		h->memo_limit = 4 * needed_bytes;
}

bool ff_evaluator_trim(struct ff_evaluator *h)
{
	if (ff_evaluator_held(h) <= h->memo_limit)
		return false;
	clear_others(h, h->now->memo);
	return ff_evaluator_held(h) > h->memo_limit / 2;
}
