/* Programs.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/program.h"

struct writer {
	const struct ff_graph *g;
	struct ff_step *step;
	uint32_t n;
};

static void put(struct writer *w, enum ff_step_kind kind, enum ff_pass pass, uint32_t id)
{
	w->step[w->n++] = (struct ff_step){kind, pass, id};
}

/* Inputs and parameters are brought just before they are used, everything else
 * moves as soon as it is there. */
static void put_forward(struct writer *w, uint32_t node)
{
	const struct ff_graph *g = w->g;
	const struct ff_node *n = &g->nodes[node];

	for (uint32_t k = n->in; k < n->in + n->n_in; k++)
		if (ff_edge_is_brought(g, k))
			put(w, FF_STEP_MOVES, FF_FORWARD, k);
	put(w, FF_STEP_COMPUTE, FF_FORWARD, node);
	for (uint32_t k = n->out; k < n->out + n->n_out; k++)
		for (uint32_t u = 0; u < g->values[k].n_uses; u++)
			put(w, FF_STEP_MOVES, FF_FORWARD, g->uses[g->values[k].first_use + u]);
}

static void put_backward(struct writer *w, uint32_t node)
{
	const struct ff_graph *g = w->g;
	const struct ff_node *n = &g->nodes[node];

	put(w, FF_STEP_COMPUTE, FF_BACKWARD, node);
	for (uint32_t k = n->in; k < n->in + n->n_in; k++)
		if (g->values[g->edges[k].value].needs_grad)
			put(w, FF_STEP_MOVES, FF_BACKWARD, k);
	if (n->n_in > n->n_data)
		put(w, FF_STEP_SYNC, FF_BACKWARD, node);
}

uint32_t ff_program_bound(const struct ff_graph *g)
{
	return 3 * g->n_nodes + 2 * g->n_edges + 1;
}

int ff_program_build(const struct ff_graph *g, const uint32_t *order, struct ff_arena *a,
		struct ff_program *ret, struct ff_error *err)
{
	struct writer w = {.g = g};

	w.step = ff_arena_array(a, ff_program_bound(g), sizeof(*w.step));
	if (!w.step)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_is_computed(g, order[i]))
			put_forward(&w, order[i]);
	for (uint32_t i = g->n_nodes; i-- > 0;)
		if (ff_node_is_computed(g, order[i]) && ff_node_needs_grad(g, order[i]))
			put_backward(&w, order[i]);
	put(&w, FF_STEP_UPDATE, FF_BACKWARD, FF_NONE);
	*ret = (struct ff_program){w.n, w.step};
	return FF_OK;
}
