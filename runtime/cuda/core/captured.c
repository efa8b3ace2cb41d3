/* What a captured pass is to ask about once it has run.  SPDX-License-Identifier: Apache-2.0 */
#include "captured.h"

#include <stdlib.h>

int ff_captured_check_later(struct ff_captured *c, struct ff_kernel *k, struct ff_error *err)
{
	for (uint32_t i = 0; i < c->n_unchecked; i++)
		if (c->unchecked[i] == k)
			return FF_OK;
	if (c->n_unchecked == c->cap_unchecked) {
		uint32_t cap = c->cap_unchecked ? 2 * c->cap_unchecked : 16;
		struct ff_kernel **grown = realloc(c->unchecked, cap * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		c->unchecked = grown;
		c->cap_unchecked = cap;
	}
	c->unchecked[c->n_unchecked++] = k;
	return FF_OK;
}

void ff_captured_watch(struct ff_captured *c, const struct ff_watcher *w)
{
	c->watcher = w;
}
