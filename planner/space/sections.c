/* The first place behind the last section up to which more is computed than the chain has, and the
 * last from which on.  SPDX-License-Identifier: Apache-2.0 */
#include "sections.h"

#define MOST_BACK 8 /* sums in front of a join, at which a section may begin */

struct chooser {
	const struct ff_graph *g;
	struct ff_chain *c;
	uint8_t *member; /* scratch */
};

/* Whether what is in front of a place sums up what it finds. */
static bool sums(const struct chooser *x, uint32_t place)
{
	return place && x->c->node[place - 1] == ff_node_prelude(x->g, x->c->node[place]);
}

/* A section that ends with place `last` and begins behind `after`, about more than the chain has.
 * It goes on up to where something is summed up again. */
static bool find_start(struct chooser *x, uint32_t after, uint32_t last, struct ff_section *ret)
{
	const struct ff_chain *c = x->c;
	uint32_t end = last, tried = 0;

	while (end < c->n && !sums(x, end))
		end++;
	for (uint32_t first = last; first-- > after && tried < MOST_BACK;) {
		if (!sums(x, first) || !++tried ||
				ff_section_members(x->g, c, first, last, x->member) <=
						last - first + 1)
			continue;
		*ret = (struct ff_section){.first = first, .last = end - 1};
		return end < c->n;
	}
	return false;
}

/* Where two or more of what a place reads are computed. */
static bool joins(const struct chooser *x, uint32_t place)
{
	const struct ff_node *n = &x->g->nodes[x->c->node[place]];
	uint32_t computed = 0;

	for (uint32_t k = 0; k < n->n_data; k++)
		computed += ff_node_is_computed(x->g, ff_edge_source(x->g, n->in + k));
	return computed > 1 && ff_node_prelude(x->g, x->c->node[place]) == FF_NONE;
}

int ff_sections_choose(const struct ff_graph *g, struct ff_chain *c, struct ff_arena *a,
		struct ff_error *err)
{
	struct chooser x = {.g = g, .c = c};
	uint32_t after = 0;
	bool ok;
	int code = FF_OK;

	x.member = ff_arena_array(a, g->n_nodes, sizeof(*x.member));
	c->section = ff_arena_array(a, c->n, sizeof(*c->section));
	if (!x.member || !c->section)
		return ff_fail_memory(err);
	for (uint32_t i = 1; i < c->n && code == FF_OK; i++) {
		if (i < after || !joins(&x, i) ||
				!find_start(&x, after, i, &c->section[c->n_sections]))
			continue;
		c->n_sections++;
		code = ff_sections_find(g, c, a, &ok, err);
		if (ok)
			after = c->section[c->n_sections - 1].last + 1;
		else
			c->n_sections--;
	}
	if (code == FF_OK)
		code = ff_sections_find(g, c, a, &ok, err);
	return code;
}
