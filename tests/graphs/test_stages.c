/* What goes between the stages of a pipeline, and when.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "check_main.h"
#include "ff/program.h"
#include "ff/schedule.h"
#include "ff/zoo.h"

#define WIDTH 4 /* devices of a stage: a node of the machine */

struct pipeline {
	struct ff_arena a;
	struct ff_graph g;
	struct ff_machine m;
	struct ff_strategy s;
	struct ff_error err;
};

/* An MLP whose operators behind the first hidden layer are stage 1, which has devices of its
 * own; every operator is cut into `data` parts, each computed WIDTH / data times. */
static void open_pipeline(struct pipeline *p, uint32_t data)
{
	const char *machine =
			"{\"format\":\"ffsoap-machine\",\"version\":1,\"name\":\"pair\","
			"\"overlap\":true,"
			"\"kinds\":[{\"name\":\"any\",\"backend\":\"cpu\",\"flops_per_s\":1e12,"
			"\"memory_bytes_per_s\":1e11,\"memory_bytes\":1e10}],\"nodes\":["
			"{\"count\":2,\"devices\":4,\"kind\":\"any\","
			"\"inside\":{\"latency_us\":1,\"bytes_per_s\":1e10,\"shared\":false},"
			"\"network\":{\"latency_us\":5,\"bytes_per_s\":1e9}}]}";
	bool behind = false;

	ff_arena_init(&p->a);
	ck_assert_int_eq(ff_zoo_build("mlp", 8, NULL, 0, &p->a, &p->g, &p->err), FF_OK);
	ck_assert_msg(ff_machine_parse("pair", machine, strlen(machine), &p->a, &p->m, &p->err) ==
					FF_OK,
			"%s", p->err.text);
	ck_assert_int_eq(ff_strategy_single(&p->g, 0, &p->a, &p->s, &p->err), FF_OK);
	for (uint32_t i = 0; i < p->g.n_nodes; i++) {
		struct ff_config *c = &p->s.config[i];

		p->s.stage[i] = behind;
		c->start = behind ? WIDTH : 0;
		behind = behind || p->g.nodes[i].op == FF_OP_RELU;
		if (!ff_node_needs_config(&p->g, i))
			continue;
		c->degree[0] = (uint16_t)data;
		c->stride[0] = (uint16_t)(WIDTH / data);
		c->replicas = (uint16_t)(WIDTH / data);
		c->replica_stride = 1;
		c->n_parts = WIDTH;
	}
	p->s.micro_batches = 2;
	p->s.rule = FF_ORDER_1F1B;
}

static bool crosses(const struct pipeline *p, uint32_t edge)
{
	uint32_t from = ff_edge_source(&p->g, edge), to = p->g.edges[edge].node;

	return ff_node_is_computed(&p->g, from) &&
	       ff_strategy_stage(&p->g, &p->s, from) != ff_strategy_stage(&p->g, &p->s, to);
}

/* Replicas hold the same, so any of them could serve all of the next stage: each sends as much, and
 * together they send all once, forward and back. */
START_TEST(replicas_share_the_work)
{
	for (uint32_t data = 1; data <= WIDTH; data *= 2) {
		struct pipeline p;
		struct ff_schedule plan;
		uint32_t sent[2 * WIDTH] = {0}, moves = 0, joined = 0;
		int64_t elements = 0, whole = 0;

		open_pipeline(&p, data);
		ck_assert_msg(ff_lower(&p.g, &p.m, &p.s, NULL, &p.a, &plan, &p.err) == FF_OK, "%s",
				p.err.text);
		for (uint32_t i = 0; i < plan.n_tasks; i++) {
			const struct ff_task *t = &plan.tasks[i];
			const struct ff_value *v;

			if (!ff_task_moves_edge(t) || !crosses(&p, t->edge))
				continue;
			joined += t->move->joins;
			if (t->move->joins)
				continue;
			moves++;
			v = &plan.graph->values[plan.graph->edges[t->edge].value];
			whole = (int64_t)v->shape[0] * v->shape[1];
			for (uint32_t k = 0; k < t->move->n_pieces; k++) {
				sent[t->move->piece[k].from]++;
				elements += ff_region_volume(&t->move->piece[k].region);
			}
		}
		ck_assert_uint_gt(moves, 0);
		ck_assert_uint_eq(joined > 0, data < WIDTH);
		ck_assert_int_eq(elements, 2 * p.s.micro_batches * whole);
		for (uint32_t d = 0; d < 2 * WIDTH; d++)
			ck_assert_msg(sent[d] == 2, "cut in %u, device %u sends %u pieces, not 2",
					data, d, sent[d]);
		ff_arena_finish(&p.a);
	}
}
END_TEST

/* Stage 0 waits for gradients of activations, nobody for those of stage 1's weights. */
START_TEST(gradients_of_activations_go_first)
{
	struct pipeline p;
	struct ff_program program;
	uint32_t *order, moved = FF_NONE, synced = FF_NONE;

	open_pipeline(&p, WIDTH);
	order = ff_arena_array(&p.a, p.g.n_nodes, sizeof(*order));
	ck_assert_int_eq(ff_strategy_order(&p.g, &p.s, &p.a, order, &p.err), FF_OK);
	ck_assert_int_eq(ff_program_build(&p.g, &p.s, order, &p.a, &program, &p.err), FF_OK);
	for (uint32_t i = 0; i < program.n; i++) {
		const struct ff_step *s = &program.step[i];

		if (s->kind == FF_STEP_MOVES && s->phase == FF_PHASE_BACKWARD && crosses(&p, s->id))
			moved = i;
		if (s->kind == FF_STEP_SYNC && synced == FF_NONE)
			synced = i;
	}
	ck_assert_uint_ne(moved, FF_NONE);
	ck_assert_uint_ne(synced, FF_NONE);
	ck_assert_uint_lt(moved, synced);
	ff_arena_finish(&p.a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("stages");
	TCase *c = tcase_create("between");

	tcase_add_test(c, replicas_share_the_work);
	tcase_add_test(c, gradients_of_activations_go_first);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
