/* Instances: the buffers that a task of a schedule reads and writes.  A value has one a
 * micro-batch. SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_INSTANCE_H
#define FF_INSTANCE_H

#include "ff/schedule.h"

/* The instance of `node`'s value that micro-batch `micro` uses.  A value that is dropped and
 * recomputed has a second one a micro-batch, which recomputation and backward use (`later`).  A
 * parameter that is gathered at most once has a single instance. */
static inline uint32_t ff_schedule_instance(
		const struct ff_schedule *s, uint32_t node, uint32_t micro, bool later)
{
	if (ff_node_is_parameter(s->graph, node) && !s->recomputed[node])
		return 0;
	return 2 * micro + (later && s->recomputed[node]);
}
/* The instance of the gradient of `node`'s value.  A parameter has one accumulator for all
 * micro-batches, unless its bucket is scattered: each micro-batch's gradient is then reduced and
 * freed by itself. */
static inline uint32_t ff_schedule_gradient(
		const struct ff_schedule *s, uint32_t node, uint32_t micro)
{
	return ff_node_is_parameter(s->graph, node) && !s->scattered[node] ? 0 : 2 * micro;
}
/* By part: the shards that a compute task reads at input `slot`. */
static inline const uint32_t *ff_task_in(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t slot)
{
	uint32_t edge = s->graph->nodes[t->node].in + slot;
	bool later = t->phase != FF_PHASE_FORWARD;

	return s->in[(size_t)edge * s->n_instances +
			ff_schedule_instance(s, ff_edge_source(s->graph, edge), t->micro, later)];
}
/* By part: the shards of its output `port`. */
static inline const uint32_t *ff_task_out(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t port)
{
	uint32_t value = s->graph->nodes[t->node].out + port;
	bool later = t->phase != FF_PHASE_FORWARD;

	return s->out[(size_t)value * s->n_instances +
			ff_schedule_instance(s, t->node, t->micro, later)];
}
/* By part: the shards of the gradient that a backward task writes at input `slot`. */
static inline const uint32_t *ff_task_din(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t slot)
{
	uint32_t edge = s->graph->nodes[t->node].in + slot;

	return s->din[(size_t)edge * s->n_instances +
			ff_schedule_gradient(s, ff_edge_source(s->graph, edge), t->micro)];
}
/* By part: the shards of the gradient that it reads at output `port`. */
static inline const uint32_t *ff_task_dout(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t port)
{
	uint32_t value = s->graph->nodes[t->node].out + port;

	return s->dout[(size_t)value * s->n_instances + 2 * (size_t)t->micro];
}
/* Delayed gradients (staleness > 0): a parameter's gradient has two instances.
 *   over an edge (`din`): 0 is computed in this step; this one is due, from an earlier step
 *   at the parameter (`dout`): 0 collects what is due; this one is computed in this step */
static inline uint32_t ff_schedule_due(const struct ff_schedule *s)
{
	return s->travel.staleness ? 1 : 0;
}
/* By part: the shards at the two ends of a move. */
static inline void ff_task_ends(const struct ff_schedule *s, const struct ff_task *t,
		const uint32_t **source, const uint32_t **sink)
{
	size_t value = s->graph->edges[t->edge].value, n = s->n_instances;
	uint32_t from = ff_edge_source(s->graph, t->edge);
	bool param = ff_node_is_parameter(s->graph, from);

	if (ff_task_pass(t) == FF_BACKWARD) {
		uint32_t edge = s->added[t->edge] == FF_NONE ? t->edge : s->added[t->edge];

		*source = s->din[edge * n + (param ? ff_schedule_due(s) : 2 * (size_t)t->micro)];
		*sink = s->dout[value * n + (param ? 0 : 2 * (size_t)t->micro)];
	} else {
		*source = s->out[value * n +
				 (param ? 0
					: ff_schedule_instance(s, from, t->micro,
							  t->phase == FF_PHASE_RECOMPUTE))];
		*sink = s->in[t->edge * n + ff_schedule_instance(s, from, t->micro,
							    t->phase == FF_PHASE_RECOMPUTE)];
	}
}
/* Whether a backward task computes the gradient of input `slot`. */
static inline bool ff_task_makes(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t slot)
{
	return ff_grads_make(t->grads, slot >= s->graph->nodes[t->node].n_data);
}
/* Whether it may read the value of input `slot`. */
static inline bool ff_task_reads(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t slot)
{
	return ff_grads_read(t->grads, slot >= s->graph->nodes[t->node].n_data);
}
/* Whether a backward task accumulates into the gradient of input `slot`: an earlier micro-batch
 * (unless its gradient was reduced and freed) or another use of the parameter has written it. */
static inline bool ff_task_adds(const struct ff_schedule *s, const struct ff_task *t, uint32_t slot)
{
	const struct ff_node *n = &s->graph->nodes[t->node];

	return ff_task_pass(t) == FF_BACKWARD && slot >= n->n_data && ff_task_makes(s, t, slot) &&
	       ((t->micro > 0 && !s->scattered[ff_edge_source(s->graph, n->in + slot)]) ||
			       s->accumulate[n->in + slot]);
}
/* Whether a backward task adds the gradient of input `slot`, once computed, to that of another
 * edge. */
static inline bool ff_task_sums(const struct ff_schedule *s, const struct ff_task *t, uint32_t slot)
{
	return ff_task_pass(t) == FF_BACKWARD && ff_task_makes(s, t, slot) &&
	       s->added[s->graph->nodes[t->node].in + slot] != FF_NONE;
}
/* By part: the shards that it is added to; NULL: none. */
static inline const uint32_t *ff_task_sum(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t slot)
{
	uint32_t sum = s->added[s->graph->nodes[t->node].in + slot];

	return ff_task_sums(s, t, slot)
			       ? s->din[(size_t)sum * s->n_instances + 2 * (size_t)t->micro]
			       : NULL;
}

#endif
