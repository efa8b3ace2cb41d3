/* Starts on the first devices alone.  SPDX-License-Identifier: Apache-2.0 */
#include "fewer.h"

#include <math.h>
#include <string.h>

#include "best.h"
#include "ff/starts.h"
#include "hand/branches.h"
#include "sought.h"
#include "space/limits.h"

#define MOST_GROUPS 4 /* of devices, for branches */

/* The first `n` devices from the fastest node on, as a machine. */
static int take(const struct ff_chain *c, uint32_t n, struct ff_arena *a, struct ff_machine *ret,
		struct ff_error *err)
{
	struct ff_machine rest = *c->machine;
	uint32_t node = c->notes.node, first = rest.nodes[node].first;

	if (!node)
		return ff_machine_subset(c->machine, n, a, ret, err);
	rest.n_nodes -= node;
	rest.n_devices -= first;
	rest.nodes = ff_arena_copy(a, rest.nodes + node, rest.n_nodes, sizeof(*rest.nodes));
	rest.node_of = ff_arena_array(a, rest.n_devices, sizeof(*rest.node_of));
	if (!rest.nodes || !rest.node_of)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < rest.n_nodes; i++)
		rest.nodes[i].first -= first;
	for (uint32_t i = 0; i < rest.n_devices; i++)
		rest.node_of[i] = c->machine->node_of[first + i] - node;
	return ff_machine_subset(&rest, n, a, ret, err);
}

/* What was made for what take() made is put on that node's devices, unless it is pinned elsewhere.
 */
static int put_back(const struct ff_chain *c, uint32_t n, struct ff_strategy *s, struct ff_arena *a,
		struct ff_error *err)
{
	uint32_t first = c->machine->nodes[c->notes.node].first;

	for (uint32_t i = 0; first && i < c->graph->n_nodes; i++) {
		struct ff_config *config = &s->config[i];
		uint16_t *list;

		for (uint32_t k = 0; k < config->n_parts; k++)
			if (ff_config_device(&c->graph->nodes[i], config, k) >= n)
				return ff_fail(err, FF_E_INPUT, "pinned elsewhere");
		config->start = (uint16_t)(config->start + first);
		if (!config->list)
			continue;
		list = ff_arena_copy(a, config->list, config->n_parts, sizeof(*list));
		for (uint32_t k = 0; list && k < config->n_parts; k++)
			list[k] = (uint16_t)(list[k] + first);
		if (!list)
			return ff_fail_memory(err);
		config->list = list;
	}
	return FF_OK;
}

int ff_chain_make_on(struct ff_chain *c, const char *name, uint32_t n, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err)
{
	struct ff_machine first;
	struct ff_strategy s;
	int code = take(c, n, a, &first, err);

	if (code == FF_OK)
		code = ff_init_strategy(name, c->space, c->graph, &first, c->opt->seed, a, &s, err);
	if (code == FF_OK)
		code = put_back(c, n, &s, a, err);
	if (code == FF_OK)
		*ret = s;
	return code;
}

/* A start of that name for the first `n` devices becomes the current strategy; *us: its step,
 * INFINITY where there is none that fits. */
static int look_at(struct ff_chain *c, const char *name, uint32_t n, struct ff_arena *a, double *us,
		struct ff_error *err)
{
	struct ff_strategy s;
	struct ff_error why;
	int code = c->best.unsaved ? ff_chain_save(c, err) : FF_OK;
	bool made;

	*us = INFINITY;
	if (code < 0)
		return code;
	code = ff_chain_make_on(c, name, n, a, &s, &why);
	made = code == FF_OK;
	code = ff_chain_go_to_made(c, code, &s, &why, err);
	if (made && code == FF_OK && c->at.fits)
		*us = c->at.step_us;
	return code;
}

int ff_chain_look_at_node(struct ff_chain *c, struct ff_arena *a, struct ff_error *err)
{
	const struct ff_machine *m = c->machine;
	uint32_t fastest = 0;
	double least = INFINITY;
	int code = FF_OK;

	for (uint32_t i = 0; i < m->n_nodes && code == FF_OK; i++) {
		bool first = !i || !ff_chain_in_hurry(c);
		double us = INFINITY;

		for (uint32_t k = 0; first && k < i; k++)
			first = m->nodes[k].kind != m->nodes[i].kind;
		c->notes.node = i;
		if (first)
			code = look_at(c, ff_starts[0], m->nodes[i].count, a, &us, err);
		if (us < least) {
			least = us;
			fastest = i;
		}
	}
	c->notes.node = fastest;
	c->notes.node_us = least;
	return code;
}

/* A look at what elimination finds in `space`. */
static int look_at_elimination(struct ff_chain *c, const struct ff_space *space, struct ff_arena *a,
		struct ff_error *err)
{
	struct ff_strategy s;
	struct ff_error why;
	bool found;
	int code = ff_chain_eliminate(c, space, a, &s, &found, err);

	if (code < 0 || !found)
		return code;
	code = put_back(c, c->machine->n_devices, &s, a, &why);
	if (code == FF_OK)
		code = ff_space_fit_strategy(c->space, &s, false, "elimination", &why);
	return ff_chain_go_to_made(c, code, &s, &why, err);
}

/* A look at the best of the grid by hand on `m`. */
static int look_at_grid(struct ff_chain *c, const struct ff_space *space,
		const struct ff_machine *m, struct ff_arena *a, struct ff_error *err)
{
	char name[FF_GRID_NAME];
	struct ff_strategy s;
	struct ff_error why;
	bool found;
	int code = ff_chain_find_by_hand(c, space, m, a, &s, name, &found, err);

	if (code < 0 || !found)
		return code;
	code = put_back(c, m->n_devices, &s, a, &why);
	if (code == FF_OK)
		code = ff_space_fit_strategy(c->space, &s, true, name, &why);
	return ff_chain_go_to_made(c, code, &s, &why, err);
}

/* A look at both on the first `n` devices, as far as `eliminates` and the space allow. */
static int seek(struct ff_chain *c, uint32_t n, bool eliminates, struct ff_arena *a,
		struct ff_error *err)
{
	struct ff_space *space = NULL;
	struct ff_machine first;
	int code = take(c, n, a, &first, err);

	if (code == FF_OK)
		code = ff_space_create(c->graph, &first, &space, err);
	if (code < 0)
		return code;
	ff_space_allow(space, c->space->what);
	if (eliminates)
		code = look_at_elimination(c, space, a, err);
	if (code == FF_OK && c->space->what == FF_SPACE_ALL)
		code = look_at_grid(c, space, &first, a, err);
	ff_space_destroy(space);
	return code;
}

/* Data parallelism on `n`, if that was not looked at yet. */
static int look_at_data_parallel(struct ff_chain *c, uint32_t n, struct ff_arena *a, double *us,
		struct ff_error *err)
{
	*us = c->notes.node_us;
	return n == c->machine->nodes[c->notes.node].count
			       ? FF_OK
			       : look_at(c, ff_starts[0], n, a, us, err);
}

/* The devices of `nodes` nodes from the fastest on. */
static uint32_t devices_of(const struct ff_chain *c, uint32_t nodes)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < nodes; i++)
		n += c->machine->nodes[c->notes.node + i].count;
	return n;
}

uint32_t ff_chain_fewer(const struct ff_chain *c, uint32_t n)
{
	uint32_t node = c->machine->nodes[c->notes.node].count;

	for (uint32_t k = c->machine->n_nodes - c->notes.node; k > 1; k = (k + 1) / 2)
		if (devices_of(c, k) < n)
			return devices_of(c, k);
	if (node < n)
		return node;
	return n % 2 ? 1 : n / 2;
}

/* Everything on the first `n` devices but data parallelism, which is fast there. */
static int look_at_others(struct ff_chain *c, uint32_t n, bool eliminates, struct ff_arena *a,
		struct ff_error *err)
{
	double us;
	int code = look_at(c, "expert", n, a, &us, err);

	return code == FF_OK ? seek(c, n, eliminates, a, err) : code;
}

/* On half of the nodes, a quarter and so on, down to two (all from the fastest on, where that is
 * not the first): those few on which data parallelism is fastest, if it is faster there than
 * *least, which it then is.  All are looked at: on two nodes a sum costs a network half of what it
 * costs on many. */
static int look_at_fewer_nodes(
		struct ff_chain *c, struct ff_arena *a, double *least, struct ff_error *err)
{
	uint32_t nodes = c->machine->n_nodes - c->notes.node, few = 0;
	int code = FF_OK;

	for (uint32_t k = c->notes.node ? nodes : (nodes + 1) / 2;
			k > 1 && code == FF_OK && !ff_chain_in_hurry(c); k = (k + 1) / 2) {
		double us;

		code = look_at(c, ff_starts[0], devices_of(c, k), a, &us, err);
		if (code == FF_OK && us < *least) {
			*least = us;
			few = devices_of(c, k);
		}
	}
	return code == FF_OK && few ? look_at_others(c, few, true, a, err) : code;
}

int ff_chain_look_at_fewer(struct ff_chain *c, struct ff_arena *a, struct ff_error *err)
{
	uint32_t all = c->machine->n_devices;
	uint32_t first = c->machine->n_nodes > 1 ? c->machine->nodes[c->notes.node].count : all / 2;
	double least = c->notes.all_us, us;
	int code = look_at_fewer_nodes(c, a, &least, err);

	for (uint32_t n = first; n > 1 && code == FF_OK && !ff_chain_in_hurry(c); n /= 2) {
		code = look_at_data_parallel(c, n, a, &us, err);
		if (code < 0 || !(us < least))
			return code;
		least = us;
		code = look_at_others(c, n, n == first, a, err);
	}
	return code;
}

/* A look at branches in groups of devices, if by the prices of operators and moves that is better
 * than *most_us, what all of them in a row take (INFINITY: it becomes that). */
static int look_at_groups(struct ff_chain *c, const struct ff_branches *on, double *most_us,
		struct ff_arena *a, struct ff_error *err)
{
	struct ff_strategy s;
	struct ff_error why;
	double us;
	int code = ff_start_branches(c->graph, c->machine, c->opt->pricer, on, a, &s, &us, &why);

	if (code == FF_E_INPUT)
		return FF_OK; /* nobody has measured it */
	if (code == FF_OK && isinf(*most_us))
		*most_us = us;
	if (code == FF_OK && us >= *most_us)
		return FF_OK;
	if (code == FF_OK && c->best.unsaved)
		code = ff_chain_save(c, &why);
	if (code == FF_OK)
		code = ff_space_fit_strategy(c->space, &s, false, "branches", &why);
	return ff_chain_go_to_made(c, code, &s, &why, err);
}

/* A group has as many devices of a node as any other. */
static int look_at_branches_on(struct ff_chain *c, uint32_t first, uint32_t n, uint32_t node,
		struct ff_arena *a, struct ff_error *err)
{
	double most_us = INFINITY;
	int code = FF_OK;

	for (uint32_t i = 0; i < 2 * MOST_GROUPS && code == FF_OK && !ff_chain_in_hurry(c); i++) {
		struct ff_branches on = {first, n, 1 + i / 2, i % 2};

		if (n % on.groups == 0 && node % on.groups == 0 && i != 1)
			code = look_at_groups(c, &on, &most_us, a, err);
	}
	return code;
}

int ff_chain_look_at_branches(struct ff_chain *c, struct ff_arena *a, struct ff_error *err)
{
	const struct ff_machine_node *node = &c->machine->nodes[c->notes.node];
	uint32_t all = c->machine->n_devices;
	int code = FF_OK;

	if (!c->opt->pricer)
		return FF_OK;
	code = look_at_branches_on(c, 0, all, c->machine->nodes[0].count, a, err);
	if (code == FF_OK && node->count < all && c->notes.node_us < c->notes.all_us)
		code = look_at_branches_on(c, node->first, node->count, node->count, a, err);
	return code;
}
