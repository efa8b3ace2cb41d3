/* The loss split by class behind a layer split by output feature: what moves, in closed
 * form.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "check_main.h"
#include "ff/block.h"
#include "ff/zoo.h"

enum { BATCH = 12, VOCABULARY = 3001, HIDDEN = 40 };

static struct ff_config *config_of(
		const struct ff_graph *g, struct ff_strategy *s, const char *name)
{
	uint32_t i = ff_graph_find(g, name);

	ck_assert_msg(i != FF_NONE, "%s", name);
	return &s->config[i];
}

/* Degrees of `node`, which has `p` parts on devices in a row. */
static void cut(const struct ff_graph *g, struct ff_strategy *s, const char *name, const char *dim,
		uint32_t p)
{
	const struct ff_node *n = &g->nodes[ff_graph_find(g, name)];
	struct ff_config *c = config_of(g, s, name);
	uint32_t d = 0;

	while (strcmp(n->dim[d].name, dim) != 0)
		ck_assert_uint_lt(++d, n->n_dims);
	c->degree[d] = (uint16_t)p;
	c->stride[d] = (uint16_t)c->n_parts;
	c->n_parts *= p;
}

static void build(
		struct ff_arena *a, struct ff_graph *g, struct ff_machine *m, struct ff_strategy *s)
{
	static const char *const sets[] = {"vocabulary=3001", "hidden=40", "features=6"};
	struct ff_error err = {0};

	ff_arena_init(a);
	ck_assert_int_eq(ff_zoo_build("lm", BATCH, sets, 3, a, g, &err), FF_OK);
	ck_assert_int_eq(ff_machine_load("cpu8", a, m, &err), FF_OK);
	ck_assert_int_eq(ff_strategy_single(g, 0, a, s, &err), FF_OK);
}

static void lower(const struct ff_graph *g, const struct ff_machine *m, const struct ff_strategy *s,
		struct ff_arena *a, struct ff_schedule *ret)
{
	struct ff_error err = {0};

	ck_assert_msg(ff_lower(g, m, s, NULL, a, ret, &err) == FF_OK, "%s", err.text);
}

static uint32_t value_of(const struct ff_graph *g, const char *name, uint32_t port)
{
	return g->nodes[ff_graph_find(g, name)].out + port;
}

/* Bytes that moves of a value and of its gradient send; how many there are in *moves. */
static int64_t sent_of(const struct ff_schedule *s, uint32_t value, uint32_t *moves)
{
	int64_t bytes = 0;

	*moves = 0;
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];

		if (!ff_task_moves_edge(t) || s->graph->edges[t->edge].value != value)
			continue;
		bytes += t->move->network_bytes;
		++*moves;
	}
	return bytes;
}

static void check_statistics(const struct ff_schedule *s, uint32_t port, enum ff_reduce reduce,
		uint32_t groups, uint32_t p)
{
	uint32_t value = value_of(s->graph, "loss.statistics", port), moves;

	ck_assert_int_eq(sent_of(s, value, &moves), (int64_t)2 * (p - 1) * BATCH * 2 * 4);
	ck_assert_uint_eq(moves, groups);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];

		if (!ff_task_moves_edge(t) || s->graph->edges[t->edge].value != value)
			continue;
		ck_assert_int_eq(t->move->kind, FF_MOVE_ALL_REDUCE);
		ck_assert_int_eq(t->move->reduce, reduce);
	}
}

/* All before the logits on one device; logits and loss in `groups` by sample and `p` by
 * class.  What goes over the network does not depend on the vocabulary: the hidden layer
 * and its gradient, to and from all but one device, and the statistics. */
START_TEST(logits_stay)
{
	for (uint32_t p = 2; p <= 8; p++)
		for (uint32_t groups = 1; groups * p <= 8; groups++) {
			uint32_t n = groups * p, moves;
			int64_t hidden, rows = (BATCH + groups - 1) / groups;
			struct ff_schedule plan;
			struct ff_strategy s;
			struct ff_machine m;
			struct ff_graph g;
			struct ff_arena a;

			build(&a, &g, &m, &s);
			cut(&g, &s, "logits", "out_feature", p);
			cut(&g, &s, "logits", "sample", groups);
			cut(&g, &s, "loss", "class", p);
			cut(&g, &s, "loss", "sample", groups);
			lower(&g, &m, &s, &a, &plan);
			ck_assert_int_eq(sent_of(&plan, value_of(&g, "logits", 0), &moves), 0);
			ck_assert_uint_eq(moves, 0);
			check_statistics(&plan, 0, FF_REDUCE_LOG_SUM_EXP, groups, p);
			check_statistics(&plan, 1, FF_REDUCE_MAX, groups, p);
			/* device 0 has its own rows */
			hidden = (int64_t)(p * BATCH - rows) * HIDDEN * 4;
			ck_assert_int_eq(
					sent_of(&plan, value_of(&g, "act", 0), &moves), 2 * hidden);
			for (uint32_t i = 0; i < plan.n_buffers && groups == 1; i++) {
				const struct ff_buffer *b = &plan.buffers[i];
				int64_t shard = (int64_t)BATCH * ((VOCABULARY + n - 1) / n) * 4;

				ck_assert(b->bucket != FF_NONE || b->bytes <= ff_align64(shard));
			}
			ff_arena_finish(&a);
		}
}
END_TEST

/* Whoever splits the loss by sample behind such a layer moves nearly all logits, once,
 * though both the statistics and the loss read them, and as many gradients. */
START_TEST(logits_move_once)
{
	for (uint32_t p = 2; p <= 6; p++) {
		uint32_t labels = 0, moves;
		struct ff_schedule plan;
		struct ff_strategy s;
		struct ff_machine m;
		struct ff_graph g;
		struct ff_arena a;
		int64_t own = 0;

		build(&a, &g, &m, &s);
		cut(&g, &s, "logits", "out_feature", p);
		cut(&g, &s, "loss", "sample", p);
		lower(&g, &m, &s, &a, &plan);
		for (uint32_t i = 0; i < p; i++)
			own += (int64_t)(ff_part_start(BATCH, p, i + 1) -
					       ff_part_start(BATCH, p, i)) *
			       (ff_part_start(VOCABULARY, p, i + 1) -
					       ff_part_start(VOCABULARY, p, i));
		ck_assert_int_eq(sent_of(&plan, value_of(&g, "logits", 0), &moves),
				2 * ((int64_t)BATCH * VOCABULARY - own) * 4);
		ck_assert_uint_eq(moves, 2);
		for (uint32_t i = 0; i < 2; i++)
			ck_assert_int_eq(sent_of(&plan, value_of(&g, "loss.statistics", i), &moves),
					0);
		/* labels too are loaded once */
		for (uint32_t i = 0; i < plan.n_tasks; i++)
			labels += plan.tasks[i].move && plan.tasks[i].move->kind == FF_MOVE_LOAD &&
				  g.edges[plan.tasks[i].edge].value ==
						  g.edges[g.nodes[g.loss[0]].in + 1].value;
		ck_assert_uint_eq(labels, p);
		ff_arena_finish(&a);
	}
}
END_TEST

/* A prelude has the config of the node it goes before, and none of its own. */
START_TEST(no_config_of_its_own)
{
	struct ff_error err = {0};
	struct ff_strategy s;
	struct ff_machine m;
	struct ff_graph g;
	struct ff_arena a;

	build(&a, &g, &m, &s);
	ck_assert_uint_eq(config_of(&g, &s, "loss.statistics")->n_parts, 0);
	ck_assert_int_eq(ff_strategy_check(&g, &s, 8, &err), FF_OK);
	*config_of(&g, &s, "loss.statistics") = *config_of(&g, &s, "loss");
	ck_assert_int_eq(ff_strategy_check(&g, &s, 8, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "operator loss.statistics has the config of loss, not its own");
	ff_arena_finish(&a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("classes");
	TCase *c = tcase_create("classes");

	tcase_add_test(c, logits_stay);
	tcase_add_test(c, logits_move_once);
	tcase_add_test(c, no_config_of_its_own);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
