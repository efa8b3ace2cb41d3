/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

int64_t ff_least_memory_bytes(const struct ff_graph *g, const struct ff_optimizer *o)
{
	return ff_graph_parameters(g) * FF_F32_BYTES * (1 + (int64_t)o->states);
}
