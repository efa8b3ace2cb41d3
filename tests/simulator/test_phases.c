/* Micro-batches, stages and recomputation in closed form: times of a pipeline of equal
 * stages, how many micro-batches live at once, what recomputation costs and saves.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"
#include "ff/block.h"
#include "ff/builder.h"
#include "ff/micro.h"
#include "ff/simulate.h"
#include "simulator/hand.h"

#define WIDTH 32
#define SAMPLES 4 /* of a micro-batch */
#define FORWARD_US 3
#define BACKWARD_US 6 /* two halves, each as long as forward */

struct chain {
	struct ff_arena a;
	struct hand_machine h;
	struct ff_graph g;
	struct ff_strategy s;
	struct ff_costs *costs;
	struct ff_pricer *p;
	struct ff_error err;
};

/* x -> fc0 -> fc1 ... -> loss, all square. */
static void build(struct chain *c, uint32_t layers, uint32_t micro_batches)
{
	int32_t batch = (int32_t)micro_batches * SAMPLES;
	union ff_attrs x = {.input = {.rank = 2, .shape = {batch, WIDTH}}};
	union ff_attrs y = {
			.input = {.rank = 1, .shape = {batch}, .dtype = FF_I32, .classes = WIDTH}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_builder *b;
	uint32_t in[2];

	fc.linear.out_features = WIDTH;
	ck_assert_int_eq(ff_builder_create("chain", &c->a, &b, &c->err), FF_OK);
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	for (uint32_t i = 0; i < layers; i++)
		in[0] = ff_builder_add(
				b, FF_OP_LINEAR, ff_arena_printf(&c->a, "fc%u", i), &fc, in, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	ck_assert_msg(ff_builder_finish(b, &c->g, &c->err) == FF_OK, "%s", c->err.text);
}

static uint32_t layer(const struct chain *c, uint32_t i)
{
	return ff_graph_find(&c->g, ff_arena_printf((struct ff_arena *)&c->a, "fc%u", i));
}

/* Layers take FORWARD_US and BACKWARD_US a micro-batch, everything else as little as can be. */
static void put_costs(struct chain *c)
{
	static const struct ff_rate at_once = {0, 1e30};
	struct ff_graph micro;

	c->costs = hand_costs("fast");
	for (int k = 0; k < FF_RATE_COUNT; k++)
		ff_costs_set_rate(c->costs, (enum ff_rate_kind)k, at_once, NULL);
	ck_assert_int_eq(ff_graph_micro(&c->g, c->s.micro_batches, &c->a, &micro, &c->err), FF_OK);
	for (uint32_t i = 0; i < c->g.n_nodes; i++)
		for (int pass = 0; pass < 2 && ff_node_is_computed(&c->g, i); pass++) {
			double us = micro.nodes[i].op != FF_OP_LINEAR ? FF_PRICE_STEP_US
				    : pass                            ? BACKWARD_US
								      : FORWARD_US;
			char key[FF_KEY_BYTES];
			struct ff_cost cost = {key, us, us, us, 1};
			struct ff_region box;
			struct ff_work w;

			ff_config_box(&micro.nodes[i], &c->s.config[i], 0, &box);
			ff_work_fill(&micro, i, &box, (enum ff_pass)pass, &w);
			ff_work_key(&w, key);
			ck_assert_int_eq(ff_costs_put(c->costs, &cost, &c->err), FF_OK);
		}
}

static void open(struct chain *c, uint32_t layers, uint32_t micro_batches, uint32_t devices)
{
	memset(c, 0, sizeof(*c));
	ff_arena_init(&c->a);
	hand_machine_init(&c->h, 1, devices, true);
	c->h.node[0].inside = (struct ff_link){0, 1e30, false};
	build(c, layers, micro_batches);
	ck_assert_int_eq(ff_strategy_single(&c->g, 0, &c->a, &c->s, &c->err), FF_OK);
	c->s.micro_batches = micro_batches;
}

static void close_chain(struct chain *c)
{
	ff_pricer_destroy(c->p);
	ff_costs_destroy(c->costs);
	ff_arena_finish(&c->a);
}

static double simulate(struct chain *c, struct ff_schedule *ret)
{
	struct ff_simulation sim;

	put_costs(c);
	ck_assert_msg(ff_pricer_create(&c->g, &c->h.m, FF_ESTIMATE_PEAK, c->costs, "c", "g", &c->p,
				      &c->err) == FF_OK,
			"%s", c->err.text);
	ck_assert_msg(ff_lower(&c->g, &c->h.m, &c->s, NULL, &c->a, ret, &c->err) == FF_OK, "%s",
			c->err.text);
	ck_assert_msg(ff_simulate(ret, c->p, &c->a, &sim, &c->err) == FF_OK, "%s", c->err.text);
	return sim.step_us;
}

/* Whose stage `i` is: those of a V go down and up again. */
static uint32_t device_of(enum ff_order_rule rule, uint32_t i, uint32_t devices)
{
	return rule == FF_ORDER_ZB_V && i >= devices ? 2 * devices - 1 - i : i % devices;
}

/* One layer a stage, `chunks` stages a device. */
static double pipeline(struct chain *c, uint32_t devices, uint32_t micro_batches,
		enum ff_order_rule rule, uint32_t chunks, struct ff_schedule *ret)
{
	uint32_t stages = devices * chunks;

	open(c, stages, micro_batches, devices);
	c->s.rule = rule;
	c->s.chunks = chunks;
	for (uint32_t i = 0; i < stages; i++) {
		c->s.stage[layer(c, i)] = (uint16_t)i;
		c->s.config[layer(c, i)].start = (uint16_t)device_of(rule, i, devices);
	}
	c->s.stage[c->g.loss[0]] = (uint16_t)(stages - 1);
	c->s.config[c->g.loss[0]].start = (uint16_t)device_of(rule, stages - 1, devices);
	return simulate(c, ret);
}

/* Qi et al. 2024, section 2: while the last stage fills, and while it empties, a device waits for
 * forward and for the gradients of data of those behind it, and fills as much with those of
 * parameters; backward is two equal halves. */
static double bubble(enum ff_order_rule rule, uint32_t p, uint32_t m)
{
	if (rule == FF_ORDER_ZB_H1 && m > 1)
		return (p - 1) * FORWARD_US; /* and of backward one half less the other */
	return (p - 1) * (FORWARD_US + BACKWARD_US);
}

/* GPipe, section 2.3: m micro-batches through p equal stages take m + p - 1 turns, where
 * a stage's own work is m; 1F1B, which has as many bubbles, too. */
START_TEST(pipelines_take_m_plus_p_minus_1)
{
	for (uint32_t p = 1; p <= 6; p++)
		for (uint32_t m = 1; m <= 9; m++)
			for (int rule = 0; rule < FF_ORDER_ZB_V; rule++) {
				struct ff_schedule s;
				struct chain c;
				double us = pipeline(&c, p, m, (enum ff_order_rule)rule, 1, &s);

				if (rule != FF_ORDER_ZB_H1 || m == 1 || m >= p)
					ck_assert_double_eq_tol(us,
							m * (FORWARD_US + BACKWARD_US) +
									bubble(rule, p, m),
							1e-2);
				else
					ck_assert_double_lt(us,
							(m + p - 1) * (FORWARD_US + BACKWARD_US));
				close_chain(&c);
			}
}
END_TEST

/* Narayanan et al. 2021, section 2.2.2: with v stages a device, each with a share of its work, the
 * bubble is (p - 1) / (v m) of that: v m + p - 1 turns. */
START_TEST(interleaved_take_v_m_plus_p_minus_1)
{
	for (uint32_t p = 1; p <= 4; p++)
		for (uint32_t v = 2; v <= 4; v++)
			for (uint32_t m = p; m <= 4 * p; m += p) {
				struct ff_schedule s;
				struct chain c;
				double us = pipeline(&c, p, m, FF_ORDER_INTERLEAVED, v, &s);

				ck_assert_double_eq_tol(us,
						(v * m + p - 1) * (FORWARD_US + BACKWARD_US), 1e-2);
				close_chain(&c);
			}
}
END_TEST

/* The most shards of what layer `node` reads that live at once: from its forward to the end of its
 * backward. */
static uint32_t most_alive(const struct ff_schedule *s, uint32_t node)
{
	uint32_t alive = 0, most = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];

		if (t->node != node || ff_task_moves_edge(t))
			continue;
		alive += ff_task_computes_in(t, FF_FORWARD);
		most = alive > most ? alive : most;
		alive -= ff_task_computes_in(t, FF_BACKWARD) && t->grads != FF_GRADS_DATA;
	}
	return most;
}

/* Of stage k of p: GPipe holds all m, 1F1B min(m, p - k), ZB-H1 min(m, p) until gradients of
 * parameters are made; and so says the memory. */
START_TEST(stages_hold_what_their_order_says)
{
	int64_t shard = SAMPLES * WIDTH * FF_F32_BYTES;

	for (uint32_t p = 2; p <= 5; p++)
		for (int rule = 0; rule < FF_ORDER_ZB_V; rule++) {
			struct ff_schedule few, many;
			struct chain a, b;
			int64_t grown;

			pipeline(&a, p, rule == FF_ORDER_ZB_H1 ? 2 * p : p,
					(enum ff_order_rule)rule, 1, &few);
			pipeline(&b, p, 3 * p, (enum ff_order_rule)rule, 1, &many);
			for (uint32_t k = 0; k < p; k++) {
				uint32_t least = rule == FF_ORDER_GPIPE   ? 3 * p
						 : rule == FF_ORDER_ZB_H1 ? p
									  : p - k;

				ck_assert_uint_eq(most_alive(&many, layer(&b, k)), least);
				grown = many.live_bytes[k] - few.live_bytes[k];
				if (rule != FF_ORDER_GPIPE)
					ck_assert_int_le(grown, 2 * p * 64); /* losses */
				else
					ck_assert_int_ge(grown, 2 * p * shard);
			}
			close_chain(&a);
			close_chain(&b);
		}
}
END_TEST

/* Forward less backward passes of layers on each device, and the most that it ever was. */
static void count_alive(
		const struct chain *c, const struct ff_schedule *s, uint32_t *alive, uint32_t *most)
{
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];

		if (!ff_task_computes_part(t) || c->g.nodes[t->node].op != FF_OP_LINEAR)
			continue;
		alive[t->device] += ff_task_computes_in(t, FF_FORWARD);
		if (alive[t->device] > most[t->device])
			most[t->device] = alive[t->device];
		alive[t->device] -=
				ff_task_computes_in(t, FF_BACKWARD) && t->grads != FF_GRADS_DATA;
	}
}

/* Device k of p with v stages holds (v - 1) p + 2 (p - k) - 1 of them at once, or all v m.  Other
 * numbers of micro-batches than multiples of p, and of stages than of v, go through as well. */
START_TEST(interleaved_hold_what_they_say)
{
	for (uint32_t p = 2; p <= 5; p++)
		for (uint32_t m = 1; m <= 3 * p; m++)
			for (uint32_t v = 2; v <= 4; v++) {
				uint32_t alive[5] = {0}, most[5] = {0};
				struct ff_schedule s;
				struct chain c;

				pipeline(&c, p, m, FF_ORDER_INTERLEAVED, v == 4 ? 3 : v, &s);
				if (v == 4) { /* 3 p stages for 4 a device */
					c.s.chunks = 4;
					ff_pricer_destroy(c.p);
					ff_costs_destroy(c.costs);
					simulate(&c, &s);
				}
				count_alive(&c, &s, alive, most);
				for (uint32_t k = 0; k < p; k++) {
					uint32_t least = (v - 1) * p + 2 * (p - k) - 1;

					ck_assert_uint_eq(alive[k], 0);
					if (m % p == 0 && v < 4)
						ck_assert_uint_eq(most[k],
								least < v * m ? least : v * m);
				}
				close_chain(&c);
			}
}
END_TEST

/* Qi et al. 2024, section 6: with two stages a device in a V no device waits between its first pass
 * and its last, if forward and both halves of backward are equally long and micro-batches are
 * enough to fill it; the last begins p - 1 passes behind the first. */
START_TEST(a_v_has_no_bubble)
{
	for (uint32_t p = 1; p <= 6; p++)
		for (uint32_t m = 2 * p - 1; m <= 4 * p; m++) {
			struct ff_schedule s;
			struct chain c;
			double us = pipeline(&c, p, m, FF_ORDER_ZB_V, 2, &s);

			ck_assert_double_eq_tol(us,
					2 * m * (FORWARD_US + BACKWARD_US) + (p - 1) * FORWARD_US,
					1e-2);
			close_chain(&c);
		}
}
END_TEST

/* Stage k of 2 p keeps min(m, 2 p - k) micro-batches, one less on the way down, so a device 2 p in
 * both: as 1F1B's first does.  Any number of micro-batches, and of stages one less, goes through.
 */
START_TEST(a_v_keeps_what_1f1b_does)
{
	for (uint32_t p = 1; p <= 5; p++)
		for (uint32_t m = 1; m <= 4 * p; m++)
			for (uint32_t less = 0; less < 2; less++) {
				uint32_t alive[5] = {0}, most[5] = {0};
				struct ff_schedule s;
				struct chain c;

				pipeline(&c, p, m, FF_ORDER_ZB_V, 2, &s);
				if (less) { /* the last two in one */
					c.s.stage[layer(&c, 2 * p - 1)] = (uint16_t)(2 * p - 2);
					c.s.stage[c.g.loss[0]] = (uint16_t)(2 * p - 2);
					ff_pricer_destroy(c.p);
					ff_costs_destroy(c.costs);
					simulate(&c, &s);
				}
				count_alive(&c, &s, alive, most);
				for (uint32_t k = 0; k < 2 * p && !less && m > 1; k++) {
					uint32_t least = 2 * p - k - (k < p);

					ck_assert_uint_eq(most_alive(&s, layer(&c, k)),
							least < m ? least : m);
				}
				for (uint32_t d = 0; d < p; d++) {
					ck_assert_uint_eq(alive[d], 0);
					ck_assert_uint_le(most[d], 2 * p + less);
					ck_assert(less || m < 2 * p || m == 1 || most[d] == 2 * p);
				}
				close_chain(&c);
			}
}
END_TEST

/* Every second layer's output is recomputed: as many more forward passes, and so many
 * shards fewer between forward and backward. */
START_TEST(computing_again_costs_and_saves)
{
	int64_t shard = ff_align64(SAMPLES * WIDTH * FF_F32_BYTES);

	for (uint32_t n = 3; n <= 9; n++) {
		struct ff_schedule kept, dropped;
		uint32_t recomputed = 0;
		struct chain a, b;
		double us;

		open(&a, n, 1, 1);
		ck_assert_double_eq_tol(simulate(&a, &kept), n * (FORWARD_US + BACKWARD_US), 1e-2);
		open(&b, n, 1, 1);
		for (uint32_t i = 0; i + 1 < n; i += 2, recomputed++)
			b.s.recompute[layer(&b, i)] = true;
		us = simulate(&b, &dropped);
		ck_assert_double_eq_tol(
				us, n * (FORWARD_US + BACKWARD_US) + recomputed * FORWARD_US, 1e-2);
		/* one of them is back while its reader's backward runs */
		ck_assert_int_le(dropped.live_bytes[0],
				kept.live_bytes[0] - ((int64_t)recomputed - 2) * shard);
		close_chain(&a);
		close_chain(&b);
	}
}
END_TEST

/* In a segment whose inside is dropped everything inside is made once, in order. */
START_TEST(segments_are_made_again_once)
{
	struct ff_schedule s;
	struct chain c;
	uint32_t made[8] = {0}, last = 0;

	open(&c, 8, 2, 1);
	for (uint32_t i = 2; i < 6; i++)
		c.s.recompute[layer(&c, i)] = true;
	simulate(&c, &s);
	for (uint32_t i = 0; i < s.n_tasks; i++) {
		uint32_t k = 0;

		if (!ff_task_computes_in(&s.tasks[i], FF_FORWARD) ||
				s.tasks[i].phase != FF_PHASE_RECOMPUTE)
			continue;
		while (layer(&c, k) != s.tasks[i].node)
			k++;
		ck_assert(k == 2 || last == k - 1);
		made[last = k]++;
	}
	for (uint32_t k = 0; k < 8; k++)
		ck_assert_uint_eq(made[k], k >= 2 && k < 6 ? 2 : 0);
	close_chain(&c);
}
END_TEST

/* What cannot be is told in a sentence. */
START_TEST(illegal_phases)
{
	struct ff_graph micro;
	struct chain c;

	open(&c, 3, 4, 2);
	c.s.stage[layer(&c, 0)] = 1;
	ck_assert_int_eq(ff_strategy_check(&c.g, &c.s, 2, &c.err), FF_E_INPUT);
	ck_assert_str_eq(c.err.text, "operator fc0 is in stage 1, but fc1, which reads what it "
				     "makes, in stage 0");
	c.s.stage[layer(&c, 0)] = 0;
	c.s.recompute[c.g.loss[0]] = true;
	ck_assert_int_eq(ff_strategy_check(&c.g, &c.s, 2, &c.err), FF_E_INPUT);
	ck_assert_str_eq(c.err.text, "loss cannot be computed again");
	ck_assert_int_eq(ff_graph_micro(&c.g, 5, &c.a, &micro, &c.err), FF_E_INPUT);
	ck_assert_str_eq(c.err.text, "graph chain: its batch of 16 cannot be cut into 5 "
				     "micro-batches of one size");
	ff_arena_finish(&c.a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("phases");
	TCase *c = tcase_create("phases");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, pipelines_take_m_plus_p_minus_1);
	tcase_add_test(c, interleaved_take_v_m_plus_p_minus_1);
	tcase_add_test(c, stages_hold_what_their_order_says);
	tcase_add_test(c, interleaved_hold_what_they_say);
	tcase_add_test(c, a_v_has_no_bubble);
	tcase_add_test(c, a_v_keeps_what_1f1b_does);
	tcase_add_test(c, computing_again_costs_and_saves);
	tcase_add_test(c, segments_are_made_again_once);
	tcase_add_test(c, illegal_phases);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
