/* Bytes between two uses of the same data.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/reuse.h"

#include "ff/backward.h"
#include "ff/optimizer.h"

/* A value that the node writes, and its gradient. */
static int64_t written_bytes(const struct ff_graph *g, const struct ff_node *n)
{
	int64_t bytes = 0;

	for (uint32_t k = 0; k < n->n_out; k++) {
		const struct ff_value *v = &g->values[n->out + k];

		if (v->kind != FF_VALUE_PARAMETER)
			bytes += 2 * ff_value_volume(v) * ff_dtype_bytes(v->dtype);
	}
	return bytes;
}

/* Elements of the parameters that nobody reads before it. */
static int64_t own_parameters(const struct ff_graph *g, uint32_t node)
{
	const struct ff_node *n = &g->nodes[node];
	int64_t elements = 0;

	for (uint32_t i = n->n_data; i < n->n_in; i++) {
		const struct ff_value *v = &g->values[g->edges[n->in + i].value];

		if (ff_value_use(g, v, 0) == n->in + i)
			elements += ff_value_volume(v);
	}
	return elements;
}

int ff_reuse_find(const struct ff_graph *g, uint32_t n_devices, struct ff_arena *a,
		struct ff_reuse *ret, struct ff_error *err)
{
	size_t n = (size_t)g->n_nodes + 1;
	int64_t *values = ff_arena_array(a, n, sizeof(*values));
	int64_t *parameters = ff_arena_array(a, n, sizeof(*parameters));

	if (!values || !parameters)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		values[i + 1] = values[i] + written_bytes(g, &g->nodes[i]);
		parameters[i + 1] = parameters[i] + own_parameters(g, i);
	}
	*ret = (struct ff_reuse){g, n_devices, values, parameters};
	return FF_OK;
}

/* A step ends with the update: weights, gradients and an optimizer's states.
 *
 * Parameters are whole in each micro-batch and read twice; their gradients are written, read
 * and added to others; there is no update.
 *
 * As data parallelism has it, near enough for any split. */
static int64_t touched_bytes(
		const struct ff_reuse *p, uint32_t micro_batches, int64_t values, int64_t n)
{
	int64_t weights = n * ff_dtype_bytes(p->graph->dtype), gradients = n * FF_F32_BYTES;

	if (micro_batches > 1)
		return values / p->n_devices / micro_batches + 2 * weights + 3 * gradients;
	return (values + 2 * weights) / p->n_devices +
	       ff_optimizer_bytes(ff_optimizer_preset(), p->graph->dtype, gradients);
}

int64_t ff_reuse_bytes(const struct ff_reuse *p, uint32_t micro_batches)
{
	uint32_t n = p->graph->n_nodes;
	int64_t bytes = touched_bytes(p, micro_batches, p->values_bytes[n], p->parameters[n]);
	double at = 4096, root = 1.4142135623730951, middle = 1.189207115002721;

	while ((double)bytes > at * middle)
		at *= root;
	return (int64_t)at;
}

/* By nodes from `from` up to `to`, both ways. */
static int64_t between_bytes(
		const struct ff_reuse *p, uint32_t micro_batches, uint32_t from, uint32_t to)
{
	return touched_bytes(p, micro_batches, p->values_bytes[to] - p->values_bytes[from],
			p->parameters[to] - p->parameters[from]);
}

int64_t ff_reuse_node(
		const struct ff_reuse *p, uint32_t micro_batches, uint32_t node, enum ff_pass pass)
{
	int64_t bytes = pass == FF_FORWARD ? between_bytes(p, micro_batches, 0, node)
					   : between_bytes(p, micro_batches, node + 1,
							     p->graph->n_nodes);
	int64_t at = FF_REUSE_NEAR;

	while (bytes / 7 > at / 5) /* nearer to the next one, in ratio */
		at *= 2;
	return at;
}

/* Of the nodes before it that write or read the value the last one; FF_NONE. */
static uint32_t find_before(const struct ff_graph *g, uint32_t node, const struct ff_value *v)
{
	uint32_t last = v->producer < node ? v->producer : FF_NONE;

	for (uint32_t i = 0; i < v->n_uses; i++) {
		uint32_t reader = ff_value_reader(g, v, i);

		if (reader < node && (last == FF_NONE || reader > last))
			last = reader;
	}
	return last;
}

/* Of the nodes behind it that read the value again in their backward the first one; FF_NONE. */
static uint32_t find_behind(const struct ff_graph *g, uint32_t node, const struct ff_value *v)
{
	uint32_t first = FF_NONE;

	for (uint32_t i = 0; i < v->n_uses; i++) {
		uint32_t reader = ff_value_reader(g, v, i);

		if (reader > node && ff_node_needs_grad(g, reader) &&
				ff_op_row(g->nodes[reader].op)->flags & FF_OP_BACKWARD_IN)
			first = reader < first ? reader : first;
	}
	return first;
}

int64_t ff_reuse_value(const struct ff_reuse *p, uint32_t micro_batches, uint32_t node,
		enum ff_pass pass, uint32_t value)
{
	const struct ff_value *v = &p->graph->values[value];
	bool forward = pass == FF_FORWARD;
	uint32_t other = forward ? find_before(p->graph, node, v) : find_behind(p->graph, node, v);

	if (other == FF_NONE)
		return ff_reuse_node(p, micro_batches, node, pass);
	return forward ? between_bytes(p, micro_batches, other + 1, node) / 2
		       : between_bytes(p, micro_batches, node + 1, other);
}
