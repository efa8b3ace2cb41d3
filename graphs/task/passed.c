/* Bytes between two uses of the same data.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/passed.h"

#include "ff/optimizer.h"

static int64_t value_bytes(const struct ff_value *t)
{
	int64_t n = ff_dtype_bytes(t->dtype);

	for (uint32_t d = 0; d < t->rank; d++)
		n *= t->shape[d];
	return n;
}

/* All values, and as much for their gradients. */
static int64_t both_ways_bytes(const struct ff_graph *g)
{
	int64_t bytes = 0;

	for (uint32_t i = 0; i < g->n_values; i++)
		bytes += 2 * value_bytes(&g->values[i]);
	return bytes;
}

/* A step ends with the update: weights, gradients and an optimizer's states. */
static int64_t step_bytes(const struct ff_graph *g, uint32_t n_devices)
{
	return both_ways_bytes(g) / n_devices +
	       ff_optimizer_bytes(ff_optimizer_preset(), g->dtype,
			       ff_graph_parameters(g) * FF_F32_BYTES);
}

/* Parameters are whole in each micro-batch and read twice; their gradients are written, read
 * and added to others; there is no update.  As data parallelism has it, near enough for any
 * split. */
static int64_t micro_bytes(const struct ff_graph *g, uint32_t n_devices, uint32_t micro_batches)
{
	int64_t n = ff_graph_parameters(g), weights = n * ff_dtype_bytes(g->dtype);

	return (both_ways_bytes(g) - 2 * weights) / n_devices / micro_batches + 2 * weights +
	       3 * n * FF_F32_BYTES;
}

int64_t ff_passed_bytes(const struct ff_graph *g, uint32_t n_devices, uint32_t micro_batches)
{
	int64_t bytes = micro_batches > 1 ? micro_bytes(g, n_devices, micro_batches)
					  : step_bytes(g, n_devices);
	double at = 4096, root = 1.4142135623730951, middle = 1.189207115002721;

	while ((double)bytes > at * middle)
		at *= root;
	return (int64_t)at;
}
