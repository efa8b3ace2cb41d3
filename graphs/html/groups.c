/* Which devices a page has room for.  SPDX-License-Identifier: Apache-2.0 */
#include "parts.h"

/* Spans that all groups of a page may have together: of about 25 bytes each. */
#define MOST_SPANS 120000

int ff_html_group(const struct ff_html *h, struct ff_arena *a, struct ff_html_groups *ret,
		struct ff_error *err)
{
	struct ff_html_groups g = {.told = 0};
	uint64_t spans = 0;
	int code = ff_trace_group(h->schedule, h->timeline, h->n_timelines, a, &g.same, err);

	if (code < 0)
		return code;
	for (uint32_t i = 0; i < g.same.n && g.told == i; i++) {
		spans += g.same.spans[i];
		g.told += spans <= MOST_SPANS || !i;
	}
	*ret = g;
	return FF_OK;
}
