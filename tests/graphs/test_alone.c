/* Nodes that nothing can run beside, against all paths.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "check_main.h"
#include "ff/alone.h"
#include "ff/zoo.h"

/* reach[i][k]: what node i computes is needed for node k. */
static bool *find_paths(const struct ff_graph *g)
{
	size_t n = g->n_nodes;
	bool *reach = calloc(n * n, sizeof(*reach));

	ck_assert_ptr_nonnull(reach);
	for (uint32_t k = 0; k < n; k++)
		for (uint32_t e = 0; e < g->nodes[k].n_in; e++) {
			uint32_t source = ff_edge_source(g, g->nodes[k].in + e);

			reach[source * n + k] = true;
			for (uint32_t i = 0; i < source; i++)
				reach[i * n + k] |= reach[i * n + source];
		}
	return reach;
}

static bool is_alone(const struct ff_graph *g, const bool *reach, uint32_t node)
{
	size_t n = g->n_nodes;

	for (uint32_t i = 0; i < n; i++)
		if (i != node && ff_node_is_computed(g, i) && !reach[i * n + node] &&
				!reach[node * n + i])
			return false;
	return ff_node_is_computed(g, node);
}

/* How many nodes of the network are alone, and computed. */
static uint32_t count(const char *name, uint32_t *computed)
{
	struct ff_arena a;
	struct ff_error err = {0};
	struct ff_graph g;
	uint32_t n = 0;
	bool *alone, *reach;

	ff_arena_init(&a);
	ck_assert_msg(ff_zoo_build(name, 0, NULL, 0, &a, &g, &err) == FF_OK, "%s", err.text);
	ck_assert_int_eq(ff_alone_find(&g, &a, &alone, &err), FF_OK);
	reach = find_paths(&g);
	*computed = 0;
	for (uint32_t i = 0; i < g.n_nodes; i++) {
		ck_assert_msg(alone[i] == is_alone(&g, reach, i), "%s of %s", g.nodes[i].name,
				name);
		n += alone[i];
		*computed += ff_node_is_computed(&g, i);
	}
	free(reach);
	ff_arena_finish(&a);
	return n;
}

START_TEST(every_path_goes_through_them)
{
	static const char *const nets[] = {"branchnet", "resnet50", "googlenet", "unet", "gpt2",
			"nmt", "dlrm", "densenet121", "rnn"};
	uint32_t computed;

	for (size_t i = 0; i < sizeof(nets) / sizeof(*nets); i++)
		count(nets[i], &computed);
}
END_TEST

START_TEST(a_chain_is_alone_and_branches_are_not)
{
	uint32_t computed, n = count("mlp", &computed);

	ck_assert_uint_eq(n, computed);
	n = count("branchnet", &computed);
	ck_assert_uint_gt(n, 0);
	ck_assert_uint_lt(n, computed / 2);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("alone");
	TCase *t = tcase_create("alone");

	tcase_add_test(t, every_path_goes_through_them);
	tcase_add_test(t, a_chain_is_alone_and_branches_are_not);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
