/* A step as a framework executes it.  SPDX-License-Identifier: Apache-2.0 */
#include "execution.h"

#include <math.h>

#include "ff/block.h"

int ff_execution_init(struct ff_execution *x, const struct ff_schedule *s, struct ff_pricer *p,
		struct ff_arena *a, struct ff_error *err)
{
	struct ff_execution new = {.framework = ff_price_framework(p), .schedule = s, .pricer = p};

	if (new.framework) {
		new.host_us = ff_arena_array(a, s->machine->n_devices, sizeof(double));
		new.moved_us = ff_arena_array(a, s->graph->n_edges, sizeof(double));
		new.product_us[0] = ff_arena_array(a, s->graph->n_edges, sizeof(double));
		new.product_us[1] = ff_arena_array(a, s->graph->n_edges, sizeof(double));
		new.done_us = ff_arena_array(a, s->machine->n_devices, sizeof(double));
		new.turn = ff_arena_array(a, s->machine->n_devices, sizeof(uint64_t));
		if (!new.host_us || !new.moved_us || !new.product_us[0] || !new.product_us[1] ||
				!new.done_us || !new.turn)
			return ff_fail_memory(err);
		for (uint32_t i = 0; i < s->graph->n_edges; i++)
			new.product_us[0][i] = new.product_us[1][i] = -1;
	}
	*x = new;
	return FF_OK;
}

/* To be computed again, by the strategy; but as nobody reads it, our runtime does not. */
static bool is_again(const struct ff_execution *x, const struct ff_task *t)
{
	return x->framework && x->framework->whole && ff_task_computes_in(t, FF_BACKWARD) &&
	       t->grads != FF_GRADS_PARAMS && x->schedule->strategy->recompute[t->node] &&
	       !x->schedule->recomputed[t->node];
}

int ff_execution_again_us(
		struct ff_execution *x, const struct ff_task *t, double *us, struct ff_error *err)
{
	const struct ff_schedule *s = x->schedule;
	const struct ff_node *n = &s->graph->nodes[t->node];
	double forward = 0, moved = 0;
	struct ff_region box;
	struct ff_work work;
	int code;

	*us = 0;
	if (!is_again(x, t))
		return FF_OK;
	ff_config_box(n, &s->config[t->node], t->part, &box);
	ff_work_fill(s->graph, t->node, &box, FF_FORWARD, &work);
	code = ff_price_work(x->pricer, &work, t->device, &forward, err);
	for (uint32_t i = 0; i < n->n_out; i++) {
		const struct ff_value *v = &s->graph->values[n->out + i];

		for (uint32_t k = 0; k < v->n_uses; k++)
			moved = fmax(moved, x->moved_us[ff_value_use(s->graph, v, k)]);
	}
	*us = forward + moved;
	return code;
}

/* Adds what a pass of the node takes, if it is a product. */
static int add_product(struct ff_execution *x, uint32_t node, const struct ff_task *t, double *us,
		struct ff_error *err)
{
	const struct ff_schedule *s = x->schedule;
	struct ff_kernel_shape kernel[FF_MOST_KERNELS];
	struct ff_region box;
	struct ff_work work;
	double own = 0;
	int code;

	ff_config_box(&s->graph->nodes[node], &s->config[node], 0, &box);
	ff_work_fill(s->graph, node, &box, ff_task_pass(t), &work);
	if (!ff_node_is_computed(s->graph, node) || ff_work_kernels(&work, kernel) == 0 ||
			kernel[0].class != FF_KERNEL_PRODUCT)
		return FF_OK;
	code = ff_price_work(x->pricer, &work, t->move->device[0], &own, err);
	*us += own;
	return code;
}

/* The products at both ends of what a move moves. */
static int find_products(
		struct ff_execution *x, const struct ff_task *t, double *us, struct ff_error *err)
{
	const struct ff_graph *g = x->schedule->graph;
	const struct ff_value *v = &g->values[g->edges[t->edge].value];
	double *known = &x->product_us[ff_task_pass(t) == FF_BACKWARD][t->edge];
	double sum = 0;
	int code = FF_OK;

	if (*known < 0) {
		code = add_product(x, ff_edge_source(g, t->edge), t, &sum, err);
		for (uint32_t i = 0; i < v->n_uses && code == FF_OK; i++)
			code = add_product(x, ff_value_reader(g, v, i), t, &sum, err);
		if (code < 0)
			return code;
		*known = sum;
	}
	*us = *known;
	return FF_OK;
}

/* Whether it gathers or scatters activations among devices of one node. */
static bool is_chunked(const struct ff_schedule *s, const struct ff_task *t)
{
	const uint32_t *node_of = s->machine->node_of;
	const struct ff_move *mv = t->move;

	return ff_task_moves_edge(t) &&
	       (mv->kind == FF_MOVE_ALL_GATHER || mv->kind == FF_MOVE_REDUCE_SCATTER) &&
	       node_of[mv->device[0]] == node_of[mv->device[mv->n_devices - 1]] &&
	       s->graph->values[s->graph->edges[t->edge].value].kind == FF_VALUE_ACTIVATION;
}

int ff_execution_hidden_us(struct ff_execution *x, const struct ff_task *t, double us, double *ret,
		struct ff_error *err)
{
	double products = 0;
	int code;

	*ret = 0;
	if (!x->framework || !x->framework->beside || !is_chunked(x->schedule, t))
		return FF_OK;
	if ((code = find_products(x, t, &products, err)) < 0)
		return code;
	*ret = fmin(us, products) * (1 - 1.0 / t->move->n_devices);
	return FF_OK;
}

/* A host that times each pass of a micro-batch waits for its device between two of them.
 * Recomputation is part of backward. */
static void take_turns(struct ff_execution *x, const struct ff_task *t)
{
	uint64_t turn = 2 * (uint64_t)t->micro + (t->phase != FF_PHASE_FORWARD);
	double *host = &x->host_us[t->device];

	if (!x->framework->hosts.times_passes || !ff_task_computes_part(t) ||
			turn == x->turn[t->device])
		return;
	x->turn[t->device] = turn;
	*host = fmax(*host, x->done_us[t->device]);
}

double ff_execution_issue(struct ff_execution *x, const struct ff_task *t)
{
	const uint16_t *device;
	double us, at = 0;
	uint16_t own;
	uint32_t n;

	if (!x->framework)
		return 0;
	n = ff_task_devices(t, &device, &own);
	take_turns(x, t);
	us = ff_framework_issue_us(x->framework, x->schedule, t);
	if (is_again(x, t))
		us *= 3;
	for (uint32_t i = 0; i < n; i++) {
		double *host = &x->host_us[device[i]];

		*host += us;
		at = fmax(at, *host);
	}
	return at;
}

void ff_execution_done(struct ff_execution *x, const struct ff_task *t, double us, double finish)
{
	const uint16_t *device;
	uint16_t own;
	uint32_t n;

	if (!x->framework)
		return;
	if (ff_task_moves_edge(t) && ff_task_pass(t) == FF_FORWARD && t->move->network_bytes > 0)
		x->moved_us[t->edge] = us;
	if (!t->move)
		x->done_us[t->device] = fmax(x->done_us[t->device], finish);
	if (!ff_framework_awaits(x->framework, x->schedule, t))
		return;
	n = ff_task_devices(t, &device, &own);
	for (uint32_t i = 0; i < n; i++)
		x->host_us[device[i]] = fmax(x->host_us[device[i]], finish);
}
