/* What a captured pass is to ask about once it has run.  SPDX-License-Identifier: Apache-2.0 */
#include "captured.h"

#include <stdlib.h>

int ff_captured_suspect(struct ff_captured *c, struct ff_kernel *k, struct ff_error *err)
{
	for (uint32_t i = 0; i < c->n_suspects; i++)
		if (c->suspect[i] == k)
			return FF_OK;
	if (c->n_suspects == c->cap_suspects) {
		uint32_t cap = c->cap_suspects ? 2 * c->cap_suspects : 16;
		struct ff_kernel **grown = realloc(c->suspect, cap * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		c->suspect = grown;
		c->cap_suspects = cap;
	}
	c->suspect[c->n_suspects++] = k;
	return FF_OK;
}

void ff_captured_watch(struct ff_captured *c, const struct ff_watcher *w)
{
	c->watcher = w;
}
