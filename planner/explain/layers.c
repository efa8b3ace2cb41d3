/* Which operators of a network are one layer, many times.  SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#include <ctype.h>
#include <string.h>

#include "space/repeats.h"

/* "block0.fc1" to "block47.fc1" is "block0-47.fc1": digits that differ are told whole. */
static const char *name_range(const char *first, const char *last, struct ff_arena *a)
{
	size_t n = strlen(first), m = strlen(last), head = 0, tail = 0;

	while (head < n && head < m && first[head] == last[head])
		head++;
	while (head > 0 && isdigit((unsigned char)first[head - 1]))
		head--;
	while (tail < n - head && tail < m - head && first[n - 1 - tail] == last[m - 1 - tail])
		tail++;
	while (tail > 0 && isdigit((unsigned char)first[n - tail]))
		tail--;
	return ff_arena_printf(a, "%.*s-%.*s%s", (int)(n - tail), first, (int)(m - tail - head),
			last + head, first + n - tail);
}

/* Places in a block, counted in the graph's order. */
struct place {
	uint32_t block, n;
};

static uint32_t count_places(const struct ff_graph *g, const struct ff_repeats *r)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		n += ff_node_needs_config(g, i) && r->block[i] == 0;
	return n;
}

static void place_nodes(const struct ff_graph *g, const struct ff_repeats *r, struct ff_layers *l,
		uint32_t *first, uint32_t *last)
{
	struct place at = {FF_NONE, 0};
	uint32_t in_block = FF_NONE; /* layer of a block's first operator */

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		uint32_t layer = l->n;

		l->of[i] = FF_NONE;
		if (!ff_node_needs_config(g, i))
			continue;
		if (l->n_blocks && r->block[i] != FF_NONE) {
			if (r->block[i] != at.block)
				at = (struct place){r->block[i], 0};
			in_block = in_block == FF_NONE ? l->n : in_block;
			layer = in_block + at.n++;
			l->block[layer] = 1;
		}
		l->of[i] = layer;
		if (layer == l->n) {
			first[layer] = i;
			l->n++;
		}
		last[layer] = i;
		l->layer[layer].n++;
	}
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_is_computed(g, i) && !ff_node_needs_config(g, i))
			l->of[i] = l->of[ff_node_leader(g, i)];
}

/* What all names of a block begin with, up to a full stop or an underscore: "block0". */
static const char *block_name(const struct ff_graph *g, const struct ff_repeats *r, uint32_t block,
		struct ff_arena *a)
{
	const char *name = NULL;
	size_t n = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		size_t k = 0;

		if (!ff_node_needs_config(g, i) || r->block[i] != block)
			continue;
		if (!name) {
			name = g->nodes[i].name;
			n = strlen(name);
		}
		while (k < n && name[k] == g->nodes[i].name[k])
			k++;
		n = k;
	}
	while (n > 0 && name[n] != '.' && name[n] != '_')
		n--;
	return ff_arena_printf(a, "%.*s", (int)n, name ? name : "");
}

/* "block0-47"; where names tell nothing, "blocks". */
static const char *block_range(
		const struct ff_graph *g, const struct ff_repeats *r, struct ff_arena *a)
{
	const char *first = block_name(g, r, 0, a), *last = block_name(g, r, r->n_blocks - 1, a);

	if (!first || !last)
		return NULL;
	return *first && *last && strcmp(first, last) != 0 ? name_range(first, last, a) : "blocks";
}

int ff_layers_find(const struct ff_graph *g, struct ff_arena *a, struct ff_layers *ret,
		struct ff_error *err)
{
	struct ff_layers l = {
			.layer = ff_arena_array(a, g->n_nodes, sizeof(*l.layer)),
			.of = ff_arena_array(a, g->n_nodes, sizeof(*l.of)),
			.block = ff_arena_array(a, g->n_nodes, sizeof(*l.block)),
	};
	uint32_t *first = ff_arena_array(a, g->n_nodes, sizeof(*first));
	uint32_t *last = ff_arena_array(a, g->n_nodes, sizeof(*last));
	struct ff_repeats r;
	int code = ff_repeats_find(g, NULL, 1, a, &r, err);

	if (code < 0)
		return code;
	if (!l.layer || !l.of || !l.block || !first || !last)
		return ff_fail_memory(err);
	l.n_blocks = r.n_blocks;
	l.n_of_blocks = l.n_blocks ? count_places(g, &r) : 0;
	place_nodes(g, &r, &l, first, last);
	for (uint32_t i = 0; i < l.n; i++) {
		const char *one = g->nodes[first[i]].name;

		l.layer[i].name = l.layer[i].n == 1 ? one
						    : name_range(one, g->nodes[last[i]].name, a);
		if (!l.layer[i].name)
			return ff_fail_memory(err);
	}
	if (l.n_blocks && !(l.blocks = block_range(g, &r, a)))
		return ff_fail_memory(err);
	*ret = l;
	return FF_OK;
}
