/* Parts in turn: layers of recurrences that are cut by steps run as a wave, each layer one part
 * behind the one before it, in closed form.  SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"
#include "ff/builder.h"
#include "ff/evaluate.h"
#include "ff/simulate.h"
#include "simulator/hand.h"

#define SAMPLES 2
#define STEPS 12
#define HIDDEN 3
#define FORWARD_US 3
#define BACKWARD_US 5
#define CLASSES 4

struct stack {
	struct ff_arena a;
	struct hand_machine h;
	struct ff_graph g;
	struct ff_strategy s;
	struct ff_costs *costs;
	struct ff_pricer *p;
	struct ff_error err;
};

/* x -> lstm0 -> fc0 -> lstm1 ... -> flat -> logits -> loss. */
static void build(struct stack *c, uint32_t layers, bool reverse)
{
	union ff_attrs x = {.input = {.rank = 3, .shape = {SAMPLES, STEPS, 4 * HIDDEN}}};
	union ff_attrs y = {.input = {.rank = 1,
					    .shape = {SAMPLES},
					    .dtype = FF_I32,
					    .classes = CLASSES}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR), cell = ff_attrs_preset(FF_OP_LSTM);
	union ff_attrs flat = {.reshape = {2, {0, -1}}};
	struct ff_builder *b;
	uint32_t in[2];

	cell.recurrent.reverse = reverse;
	fc.linear.out_features = 4 * HIDDEN;
	ck_assert_int_eq(ff_builder_create("stack", &c->a, &b, &c->err), FF_OK);
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	for (uint32_t i = 0; i < layers; i++) {
		if (i)
			in[0] = ff_builder_add(b, FF_OP_LINEAR, ff_arena_printf(&c->a, "fc%u", i),
					&fc, in, 1);
		in[0] = ff_builder_add(
				b, FF_OP_LSTM, ff_arena_printf(&c->a, "lstm%u", i), &cell, in, 1);
	}
	in[0] = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, in, 1);
	fc.linear.out_features = CLASSES;
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "logits", &fc, in, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	ck_assert_msg(ff_builder_finish(b, &c->g, &c->err) == FF_OK, "%s", c->err.text);
}

/* Parts of recurrences take FORWARD_US and BACKWARD_US, everything else as little as can be. */
static void put_costs(struct stack *c)
{
	static const struct ff_rate at_once = {0, 1e30};

	c->costs = hand_costs("fast");
	for (int k = 0; k < FF_RATE_COUNT; k++)
		ff_costs_set_rate(c->costs, (enum ff_rate_kind)k, at_once, NULL);
	for (uint32_t i = 0; i < c->g.n_nodes; i++)
		for (uint32_t k = 0; ff_node_is_computed(&c->g, i) && k < 2 * c->h.m.n_devices;
				k++) {
			const struct ff_config *own = &c->s.config[ff_node_leader(&c->g, i)];
			bool back = k % 2;
			double us = c->g.nodes[i].op != FF_OP_LSTM ? FF_PRICE_STEP_US
				    : back                         ? BACKWARD_US
								   : FORWARD_US;
			char key[FF_KEY_BYTES];
			struct ff_cost cost = {key, us, us, us, 1};
			struct ff_region box;
			struct ff_work w;

			if (k / 2 >= own->n_parts)
				continue;
			ff_config_box(&c->g.nodes[i], own, k / 2, &box);
			ff_work_fill(&c->g, i, &box, back ? FF_BACKWARD : FF_FORWARD, &w);
			ff_work_key(&w, key);
			ck_assert_int_eq(ff_costs_put(c->costs, &cost, &c->err), FF_OK);
		}
}

/* All that has steps is cut by them. */
static void cut(struct stack *c, uint32_t parts)
{
	ck_assert_int_eq(ff_strategy_single(&c->g, 0, &c->a, &c->s, &c->err), FF_OK);
	for (uint32_t i = 0; i < c->g.n_nodes; i++) {
		const struct ff_node *n = &c->g.nodes[i];

		if ((n->op != FF_OP_LSTM && n->op != FF_OP_LINEAR) || n->out_map[0].rank != 3)
			continue;
		c->s.config[i].n_parts = parts;
		c->s.config[i].degree[1] = (uint16_t)parts;
		c->s.config[i].stride[1] = 1;
	}
}

static void open(struct stack *c, uint32_t layers, uint32_t parts, bool overlap, bool reverse)
{
	memset(c, 0, sizeof(*c));
	ff_arena_init(&c->a);
	hand_machine_init(&c->h, 1, parts, overlap);
	c->h.node[0].inside = (struct ff_link){0, 1e30, false};
	build(c, layers, reverse);
	cut(c, parts);
	put_costs(c);
	ck_assert_msg(ff_pricer_create(&c->g, &c->h.m, FF_ESTIMATE_PEAK, c->costs, "c", "g", &c->p,
				      &c->err) == FF_OK,
			"%s", c->err.text);
}

static void close_stack(struct stack *c)
{
	ff_pricer_destroy(c->p);
	ff_costs_destroy(c->costs);
	ff_arena_finish(&c->a);
}

/* As a pipeline of as many stages as there are parts takes a micro-batch a layer. */
START_TEST(layers_run_as_a_wave)
{
	for (uint32_t parts = 1; parts <= 4; parts++)
		for (uint32_t layers = 1; layers <= 4; layers++)
			for (int how = 0; how < 4; how++) {
				double want = (parts + layers - 1) * (FORWARD_US + BACKWARD_US);
				struct ff_schedule plan;
				struct ff_simulation sim;
				struct stack c;

				open(&c, layers, parts, how & 1, how & 2);
				ck_assert_int_eq(ff_lower(&c.g, &c.h.m, &c.s, NULL, &c.a, &plan,
								 &c.err),
						FF_OK);
				ck_assert_int_eq(
						ff_simulate(&plan, c.p, &c.a, &sim, &c.err), FF_OK);
				ck_assert_double_eq_tol(sim.step_us, want, 1e-3 * want);
				close_stack(&c);
			}
}
END_TEST

/* What is sent is the state and the cell at every cut, forward and backward. */
START_TEST(states_are_carried)
{
	for (uint32_t parts = 1; parts <= 4; parts++) {
		int64_t states = 0, each = SAMPLES * HIDDEN * (int64_t)sizeof(float);
		struct ff_schedule plan;
		struct stack c;

		open(&c, 2, parts, true, parts % 2);
		ck_assert_int_eq(ff_lower(&c.g, &c.h.m, &c.s, NULL, &c.a, &plan, &c.err), FF_OK);
		for (uint32_t i = 0; i < plan.n_tasks; i++) {
			const struct ff_task *t = &plan.tasks[i];

			if (!ff_task_moves_edge(t) || !ff_edge_is_carried(&c.g, t->edge))
				continue;
			ck_assert_uint_eq(t->move->n_devices, 2);
			ck_assert_uint_eq(t->move->n_pieces, 1);
			states += ff_region_volume(&t->move->piece[0].region) *
				  (int64_t)sizeof(float);
		}
		ck_assert_int_eq(states, 2 * (parts - 1) * 2 * 2 * each);
		close_stack(&c);
	}
}
END_TEST

/* The evaluator says the same, and follows proposals that cut one layer by steps or not. */
START_TEST(proposals_cut_steps)
{
	static const uint32_t degrees[] = {4, 1, 2, 3, 4};
	struct ff_evaluation have;
	struct ff_evaluator *e;
	struct stack c;

	open(&c, 3, 4, true, false);
	ff_pricer_destroy(c.p);
	ck_assert_int_eq(ff_pricer_create(&c.g, &c.h.m, FF_ESTIMATE_PEAK, NULL, "c", "g", &c.p,
					 &c.err),
			FF_OK);
	ck_assert_int_eq(ff_evaluator_create(&c.g, &c.h.m, c.p, 0, 0, &e, &c.err), FF_OK);
	ck_assert_int_eq(ff_evaluator_set(e, &c.s, &have, &c.err), FF_OK);
	for (uint32_t k = 0; k < 5 * 3; k++) {
		uint32_t node = ff_graph_find(&c.g, ff_arena_printf(&c.a, "lstm%u", k % 3));
		struct ff_config *own = &c.s.config[node];
		struct ff_simulation sim;
		struct ff_schedule plan;
		struct ff_change change;

		own->n_parts = degrees[k / 3];
		own->degree[1] = (uint16_t)own->n_parts;
		change = (struct ff_change){.node = node, .config = *own};
		ck_assert_int_eq(ff_evaluator_propose(e, &change, 1, &have, &c.err), FF_OK);
		ff_evaluator_keep(e);
		ck_assert_int_eq(ff_lower(&c.g, &c.h.m, &c.s, NULL, &c.a, &plan, &c.err), FF_OK);
		ck_assert_int_eq(ff_simulate(&plan, c.p, &c.a, &sim, &c.err), FF_OK);
		ck_assert(have.step_us == sim.step_us);
	}
	ff_evaluator_destroy(e);
	close_stack(&c);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("turns");
	TCase *c = tcase_create("turns");

	tcase_add_test(c, layers_run_as_a_wave);
	tcase_add_test(c, states_are_carried);
	tcase_add_test(c, proposals_cut_steps);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
