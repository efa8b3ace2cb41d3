/* Instances: which buffers a task of a schedule reads and writes, where a value is there
 * once for every micro-batch.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_INSTANCE_H
#define FF_INSTANCE_H

#include "ff/schedule.h"

/* Which instance of a value of `node` a micro-batch means.  There is one for each micro-batch, and
 * a second one where the value is dropped and made again: `later`, for backward and recomputation.
 * Parameters that are not gathered again have one in all. */
static inline uint32_t ff_schedule_instance(
		const struct ff_schedule *s, uint32_t node, uint32_t micro, bool later)
{
	if (ff_node_is_parameter(s->graph, node) && !s->recomputed[node])
		return 0;
	return 2 * micro + (later && s->recomputed[node]);
}
/* Gradients have one a micro-batch, those of parameters one in all, unless their bucket is
 * scattered: then what a micro-batch has made is summed, and gone. */
static inline uint32_t ff_schedule_gradient(
		const struct ff_schedule *s, uint32_t node, uint32_t micro)
{
	return ff_node_is_parameter(s->graph, node) && !s->scattered[node] ? 0 : 2 * micro;
}
/* Shards that a compute task reads at input `slot`; those of its output `port`. */
static inline const uint32_t *ff_task_in(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t slot)
{
	uint32_t edge = s->graph->nodes[t->node].in + slot;
	bool later = t->phase != FF_PHASE_FORWARD;

	return s->in[(size_t)edge * s->n_instances +
			ff_schedule_instance(s, ff_edge_source(s->graph, edge), t->micro, later)];
}
static inline const uint32_t *ff_task_out(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t port)
{
	uint32_t value = s->graph->nodes[t->node].out + port;
	bool later = t->phase != FF_PHASE_FORWARD;

	return s->out[(size_t)value * s->n_instances +
			ff_schedule_instance(s, t->node, t->micro, later)];
}
/* Shards of the gradients that a backward task writes at input `slot`, and reads at output `port`.
 */
static inline const uint32_t *ff_task_din(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t slot)
{
	uint32_t edge = s->graph->nodes[t->node].in + slot;

	return s->din[(size_t)edge * s->n_instances +
			ff_schedule_gradient(s, ff_edge_source(s->graph, edge), t->micro)];
}
static inline const uint32_t *ff_task_dout(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t port)
{
	uint32_t value = s->graph->nodes[t->node].out + port;

	return s->dout[(size_t)value * s->n_instances + 2 * (size_t)t->micro];
}
/* Where gradients wait, those of parameters have two instances.  Over an edge (`din`) the first is
 * what backward makes in this step, and this one what is due, of an earlier step.  At the parameter
 * (`dout`) the first is where all that is due comes to, and this one where backward writes what it
 * makes there. */
static inline uint32_t ff_schedule_due(const struct ff_schedule *s)
{
	return s->travel.staleness ? 1 : 0;
}
/* Shards at the two ends of a move. */
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
/* Whether a backward task makes the gradient of input `slot`; whether it may read what is there. */
static inline bool ff_task_makes(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t slot)
{
	return ff_grads_make(t->grads, slot >= s->graph->nodes[t->node].n_data);
}
static inline bool ff_task_reads(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t slot)
{
	return ff_grads_read(t->grads, slot >= s->graph->nodes[t->node].n_data);
}
/* Whether a backward task adds to the gradient of input `slot`: an earlier micro-batch (unless its
 * gradients were summed and are gone), or another use of the parameter, has written it. */
static inline bool ff_task_adds(const struct ff_schedule *s, const struct ff_task *t, uint32_t slot)
{
	const struct ff_node *n = &s->graph->nodes[t->node];

	return ff_task_pass(t) == FF_BACKWARD && slot >= n->n_data && ff_task_makes(s, t, slot) &&
	       ((t->micro > 0 && !s->scattered[ff_edge_source(s->graph, n->in + slot)]) ||
			       s->accumulate[n->in + slot]);
}
/* Whether a backward task adds the gradient of input `slot`, which it has made, to another; to
 * which shards (NULL: to none). */
static inline bool ff_task_sums(const struct ff_schedule *s, const struct ff_task *t, uint32_t slot)
{
	return ff_task_pass(t) == FF_BACKWARD && ff_task_makes(s, t, slot) &&
	       s->added[s->graph->nodes[t->node].in + slot] != FF_NONE;
}
static inline const uint32_t *ff_task_sum(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t slot)
{
	uint32_t sum = s->added[s->graph->nodes[t->node].in + slot];

	return ff_task_sums(s, t, slot)
			       ? s->din[(size_t)sum * s->n_instances + 2 * (size_t)t->micro]
			       : NULL;
}

#endif
