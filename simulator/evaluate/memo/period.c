/* Layers, by the classes of nodes.  SPDX-License-Identifier: Apache-2.0 */
#include "period.h"

#define LEAST_LAYERS 4
#define MOST_NODES 1024    /* of a layer */
#define MOST_PAIRS 4000000 /* that are looked at */

uint32_t ff_layer_period(const uint32_t *class, uint32_t n, uint32_t *at)
{
	uint32_t most = n / LEAST_LAYERS, found = 0, length = 0;

	if (!most)
		return 0;
	most = most > MOST_NODES ? MOST_NODES : most;
	most = most > MOST_PAIRS / n ? MOST_PAIRS / n : most;
	for (uint32_t period = 1; period <= most; period++) {
		uint32_t row = 0, longest = 0, first = 0;

		for (uint32_t i = 0; i + period < n; i++) {
			row = class[i] == class[i + period] ? row + 1 : 0;
			if (row > longest) {
				longest = row;
				first = i + 1 - row;
			}
		}
		if (longest >= (LEAST_LAYERS - 1) * period && longest > length) {
			length = longest;
			found = period;
			*at = first;
		}
	}
	return 2 * (length + found) >= n ? found : 0; /* else there is not much to leave out */
}
