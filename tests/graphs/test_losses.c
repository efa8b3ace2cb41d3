/* Losses against brute force: shapes, statistics, and what of every tensor random boxes of
 * iterations touch.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/backward.h"
#include "ff/work.h"
#include "probe.h"

/* ---- softmax_cross_entropy ---- */

/* One logit, its label, and what is known of all logits of that. */
static void touch_logit(const struct probe *p, const int32_t *at, struct hulls *h, bool loss)
{
	uint32_t rank = in_of(p, 1)->rank;
	int64_t logit[FF_MAX_RANK] = {0}, label[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < rank; i++)
		label[i] = logit[i ? i + 1 : 0] = at[i];
	logit[1] = at[rank];
	touch(&h->in[0], rank + 1, logit);
	touch(&h->in[1], rank, label);
	for (label[rank] = 0; label[rank] < 2; label[rank]++) {
		touch(loss ? &h->in[2] : &h->out, rank + 1, label);
		touch(&h->in[3], rank + 1, label);
	}
}

static void touch_loss(const struct probe *p, const int32_t *at, struct hulls *h)
{
	touch_logit(p, at, h, true);
	TOUCH(&h->out, 0);
	TOUCH(&h->out, 1);
}

static void touch_statistics(const struct probe *p, const int32_t *at, struct hulls *h)
{
	touch_logit(p, at, h, false);
}

/* Made beside the loss, split as it is, read by nobody else. */
static void check_statistics(struct ff_random *r, struct probe *p)
{
	const struct ff_graph *g = &p->graph;
	const struct ff_node *loss = &g->nodes[g->loss[0]];
	uint32_t prelude = ff_node_prelude(g, g->loss[0]);

	ck_assert_uint_ne(prelude, FF_NONE);
	p->node = &g->nodes[prelude];
	check_node(p);
	check_regions(r, p, touch_statistics);
	ck_assert_str_eq(p->node->name, "loss.statistics");
	ck_assert_uint_eq(ff_node_leader(g, prelude), g->loss[0]);
	ck_assert(!ff_node_needs_config(g, prelude) && !ff_node_needs_grad(g, prelude));
	ck_assert_uint_eq(p->node->n_dims, loss->n_dims);
	for (uint32_t d = 0; d < loss->n_dims; d++) {
		ck_assert_str_eq(p->node->dim[d].name, loss->dim[d].name);
		ck_assert_int_eq(p->node->dim[d].extent, loss->dim[d].extent);
	}
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_uint_eq(g->edges[loss->in + i].shared, p->node->in + i);
		ck_assert_uint_eq(g->edges[loss->in + i].value, g->edges[p->node->in + i].value);
		ck_assert_mem_eq(loss->in_map[i].axis, p->node->in_map[i].axis,
				sizeof(loss->in_map[i].axis));
		ck_assert_uint_eq(g->edges[loss->in + 2 + i].shared, FF_NONE);
	}
	ck_assert(!ff_edge_needs_grad(g, p->node->in) && ff_edge_needs_grad(g, loss->in));
	ck_assert_int_eq(p->node->out_map[0].reduce, FF_REDUCE_LOG_SUM_EXP);
	ck_assert_int_eq(p->node->out_map[1].reduce, FF_REDUCE_MAX);
}

START_TEST(softmax_cross_entropy)
{
	struct ff_random r = {.seed = ff_test_seed(7), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		struct probe p = {0};
		struct ff_builder *b;
		union ff_attrs x = ff_attrs_preset(FF_OP_INPUT), y = x;
		union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
		uint32_t in, logits, labels;

		x.input.rank = draw(&r, 2, 5);
		y.input = (struct ff_input_attrs){
				.rank = x.input.rank - 1, .dtype = FF_I32, .classes = 1};
		fc.linear.out_features = draw(&r, 1, 4);
		for (int i = 0; i < x.input.rank; i++) {
			x.input.shape[i] = draw(&r, 1, 4);
			if (i != 1)
				y.input.shape[i ? i - 1 : 0] = x.input.shape[i];
		}
		if (x.input.rank > 2)
			y.input.shape[x.input.rank - 2] = fc.linear.out_features;
		ff_arena_init(&p.arena);
		ck_assert_int_eq(ff_builder_create("loss", &p.arena, &b, &p.err), FF_OK);
		in = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
		logits = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, &in, 1);
		labels = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
		ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL,
				(uint32_t[]){logits, labels}, 2);
		p.code = ff_builder_finish(b, &p.graph, &p.err);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		p.node = &p.graph.nodes[p.graph.loss[0]];
		check_node(&p);
		ck_assert_uint_eq(out_of(&p)->rank, 1);
		ck_assert_int_eq(out_of(&p)->shape[0], 2);
		ck_assert_int_gt(p.node->flops_backward, 0);
		check_regions(&r, &p, touch_loss);
		check_statistics(&r, &p);
		probe_close(&p);
	}
}
END_TEST

/* ---- losses by element ---- */

static void touch_points(const struct probe *p, const int32_t *at, struct hulls *h)
{
	int64_t x[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < in_of(p, 0)->rank; i++)
		x[i] = at[i];
	touch(&h->in[0], in_of(p, 0)->rank, x);
	touch(&h->in[1], in_of(p, 0)->rank, x);
	TOUCH(&h->out, 0);
	TOUCH(&h->out, 1);
}

START_TEST(point_losses)
{
	struct ff_random r = {.seed = ff_test_seed(8), .stream = 1};
	static const enum ff_op ops[] = {
#define POINT_LOSS(e, row) e,
			FF_POINT_LOSS_OPS(POINT_LOSS)
#undef POINT_LOSS
	};
	enum ff_op op = ops[_i];

	for (int round = 0; round < ROUNDS; round++) {
		struct probe p = {0};
		struct ff_builder *b;
		union ff_attrs x = ff_attrs_preset(FF_OP_INPUT), loss = ff_attrs_preset(op);
		union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
		bool computed = draw(&r, 0, 9) == 0, narrow = !computed && draw(&r, 0, 9) == 0;
		uint32_t in, of[2];

		x.input.rank = draw(&r, 2, 5);
		for (int i = 0; i < x.input.rank; i++)
			x.input.shape[i] = draw(&r, 1, 4);
		fc.linear.out_features = x.input.shape[x.input.rank - 1];
		loss.loss.weight = draw(&r, 0, 3);
		ff_arena_init(&p.arena);
		ck_assert_int_eq(ff_builder_create("loss", &p.arena, &b, &p.err), FF_OK);
		in = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
		of[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, &in, 1);
		x.input.shape[x.input.rank - 1] += narrow;
		of[1] = computed ? ff_builder_add(b, FF_OP_LINEAR, "fc2", &fc, &in, 1)
				 : ff_builder_add(b, FF_OP_INPUT, "t", &x, NULL, 0);
		ff_builder_add(b, op, "loss", &loss, of, 2);
		p.code = ff_builder_finish(b, &p.graph, &p.err);
		if (computed || narrow) {
			ck_assert_int_eq(p.code, FF_E_INPUT);
			ck_assert_ptr_nonnull(strstr(p.err.text,
					computed ? "\"fc2\" is computed" : "do not fit"));
			ff_arena_finish(&p.arena);
			continue;
		}
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		ck_assert_uint_eq(p.graph.n_losses, 1);
		p.node = &p.graph.nodes[p.graph.loss[0]];
		check_node(&p);
		ck_assert_uint_eq(ff_node_prelude(&p.graph, p.graph.loss[0]), FF_NONE);
		ck_assert_int_gt(p.node->flops_backward, 0);
		check_regions(&r, &p, touch_points);
		probe_close(&p);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("losses");
	TCase *c = tcase_create("losses");

	tcase_add_test(c, softmax_cross_entropy);
	tcase_add_loop_test(c, point_losses, 0, 5);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
