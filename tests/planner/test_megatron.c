/* Strategies as people write them by hand.  SPDX-License-Identifier: Apache-2.0 */
#include "../../planner/hand/megatron.h"

#include <math.h>
#include <stdio.h>

#include "../check_main.h"
#include "ff/machine_lanes.h"
#include "ff/micro.h"
#include "ff/zoo.h"
#include "fixture.h"

static struct ff_arena arena;

static void setup(void)
{
	ff_arena_init(&arena);
}

static void teardown(void)
{
	ff_arena_finish(&arena);
}

static const char *const small[] = {"layers=3", "width=64", "heads=4", "sequence=16",
		"vocabulary=101", "key_heads=4", "hidden=96", "experts=4"};

/* The small size of a transformer: its first `n_sets` settings. */
static struct ff_graph zoo(const char *name, uint32_t n_sets)
{
	struct ff_error err = {0};
	struct ff_graph g;

	CHECK_OK(ff_zoo_build(name, 24, small, n_sets, &arena, &g, &err));
	return g;
}

static struct ff_strategy start(const char *name, const struct ff_graph *g, uint32_t devices)
{
	struct ff_machine m = fixture_devices(devices, &arena);
	struct ff_error err = {0};
	struct ff_megatron h;
	struct ff_strategy s;

	CHECK_OK(ff_megatron_parse(name, &h, &err));
	CHECK_OK(ff_start_megatron(&h, g, &m, &arena, &s, &err));
	return s;
}

/* Checks the degree of `dim` of an operator, of which all else is whole or split by sample. */
static void check_split(const struct ff_graph *g, const struct ff_strategy *s, const char *node,
		const char *dim, uint32_t degree, uint32_t samples, uint32_t replicas)
{
	uint32_t i = ff_graph_find(g, node);
	const struct ff_node *n = &g->nodes[i];

	for (uint32_t d = 0; d < n->n_dims; d++) {
		uint32_t want = n->dim[d].label == FF_DIM_SAMPLE ? samples : 1;

		if (!strcmp(n->dim[d].name, dim))
			want = degree;
		ck_assert_msg(s->config[i].degree[d] == want, "%s: %s in %u parts, not %u", node,
				n->dim[d].name, s->config[i].degree[d], want);
	}
	ck_assert_msg(s->config[i].replicas == replicas, "%s: %u times", node,
			s->config[i].replicas);
}

START_TEST(test_products)
{
	struct ff_graph g = zoo("gpt2", 5);
	struct ff_strategy s = start("megatron:4,2,1,1", &g, 8);
	uint32_t query = ff_graph_find(&g, "block1.attention.query");

	check_split(&g, &s, "embed", "vocabulary", 4, 2, 1);
	check_split(&g, &s, "position", "", 1, 2, 4);
	check_split(&g, &s, "block0.norm1", "", 1, 2, 4);
	check_split(&g, &s, "block1.attention.query", "out_feature", 4, 2, 1);
	check_split(&g, &s, "block1.attention.key", "out_feature", 4, 2, 1);
	check_split(&g, &s, "block1.attention.heads", "head", 4, 2, 1);
	check_split(&g, &s, "block1.attention.out", "in_feature", 4, 2, 1);
	check_split(&g, &s, "block2.mlp.up", "out_feature", 4, 2, 1);
	check_split(&g, &s, "block2.mlp.gelu", "axis2", 4, 2, 1);
	check_split(&g, &s, "block2.mlp.down", "in_feature", 4, 2, 1);
	check_split(&g, &s, "logits", "out_feature", 4, 2, 1);
	check_split(&g, &s, "loss", "class", 4, 2, 1);
	/* neighbours share a product */
	for (uint32_t p = 0; p < 8; p++)
		ck_assert_uint_eq(ff_config_device(&g.nodes[query], &s.config[query], p), p);
}
END_TEST

/* Five have two or three of 12 samples each; two have six. */
START_TEST(test_uneven_batch)
{
	struct ff_graph g = zoo("gpt2", 5);
	struct ff_strategy s = start("megatron:2,5,1,2,uneven-batch", &g, 10);

	check_split(&g, &s, "block0.norm1", "", 1, 5, 2);
	check_split(&g, &s, "block1.attention.query", "out_feature", 2, 5, 1);
	check_split(&g, &s, "block1.attention.heads", "head", 2, 5, 1);
	check_split(&g, &s, "loss", "class", 2, 5, 1);
	s = start("megatron:2,2,1,2,uneven-batch", &g, 4);
	check_split(&g, &s, "block1.attention.query", "out_feature", 2, 2, 1);
}
END_TEST

/* What is gated has two products before it; places are split between chains. */
START_TEST(test_sequence)
{
	struct ff_graph g = zoo("llama", 7);
	struct ff_strategy s = start("megatron:2,3,1,1,sequence", &g, 6);

	check_split(&g, &s, "block0.norm1", "axis1", 2, 3, 1);
	check_split(&g, &s, "block0.attention.query.rope", "head", 2, 3, 1);
	check_split(&g, &s, "block0.add1", "axis1", 2, 3, 1);
	check_split(&g, &s, "block0.mlp.gate", "out_feature", 2, 3, 1);
	check_split(&g, &s, "block0.mlp.gated", "axis2", 2, 3, 1);
	check_split(&g, &s, "block0.mlp.down", "in_feature", 2, 3, 1);
}
END_TEST

/* Sequences are split in all layers alike, in products too: devices that share one are neighbours,
 * then those that share its places. */
START_TEST(test_context)
{
	struct ff_graph g = zoo("gpt2", 5), nmt;
	struct ff_strategy s = start("megatron:2,3,1,1,cp=4,sequence", &g, 24);
	uint32_t query = ff_graph_find(&g, "block1.attention.query");
	struct ff_error err = {0};
	struct ff_config c;

	for (uint32_t d = 0; d < g.nodes[query].n_dims; d++) {
		const struct ff_dim *dim = &g.nodes[query].dim[d];
		uint32_t want = dim->label == FF_DIM_SAMPLE      ? 3
				: dim->label == FF_DIM_ATTRIBUTE ? 4
				: dim->label == FF_DIM_PARAMETER ? 2
								 : 1;
		uint32_t apart = want == 3 ? 8 : want == 4 ? 2 : 1;

		c = s.config[query];
		ck_assert_msg(c.degree[d] == want && (want == 1 || c.stride[d] == apart), "%s",
				dim->name);
	}
	check_split(&g, &s, "block1.norm1", "axis1", 8, 3, 1);
	check_split(&g, &s, "block1.add1", "axis1", 8, 3, 1);
	s = start("megatron:1,3,1,1,cp=8", &g, 24);
	check_split(&g, &s, "embed", "axis1", 8, 3, 1);
	check_split(&g, &s, "block0.attention.heads", "query", 8, 3, 1);
	check_split(&g, &s, "loss", "axis2", 8, 3, 1);
	/* a recurrence is split by its steps; what reads its end alone is not */
	CHECK_OK(ff_zoo_build("nmt", 24, NULL, 0, &arena, &nmt, &err));
	s = start("megatron:1,3,2,2,cp=4", &nmt, 24);
	check_split(&nmt, &s, "embed", "axis1", 4, 3, 1);
	check_split(&nmt, &s, "encoder1.t0.in", "axis1", 4, 3, 1);
	check_split(&nmt, &s, "encoder1.t0.state", "step", 4, 3, 1);
	check_split(&nmt, &s, "encoder1.t0.last", "", 1, 3, 4);
	check_split(&nmt, &s, "decoder2.t0.state", "step", 4, 3, 1);
	check_split(&nmt, &s, "attention.tanh", "axis1", 4, 3, 1);
}
END_TEST

START_TEST(test_experts)
{
	struct ff_graph g = zoo("moe", 8);
	struct ff_strategy s = start("megatron:1,4,1,1,experts", &g, 4);

	check_split(&g, &s, "block0.mlp.router", "", 1, 4, 1);
	check_split(&g, &s, "block0.mlp.gate", "out_channel", 4, 1, 1);
	check_split(&g, &s, "block0.mlp.gated", "channel", 4, 1, 1);
	check_split(&g, &s, "block0.mlp.down", "out_channel", 4, 1, 1);
	check_split(&g, &s, "block0.mlp.dispatch", "", 1, 4, 1);
	check_split(&g, &s, "block0.mlp.combine", "", 1, 4, 1);
}
END_TEST

START_TEST(test_zero_3)
{
	struct ff_graph g = zoo("gpt2", 5);
	struct ff_strategy s = start("megatron:2,3,1,1,zero-3", &g, 6);
	uint32_t weight = ff_graph_find(&g, "block0.mlp.up.weight");

	ck_assert(s.config[weight].flat);
	ck_assert(s.recompute[weight]);
	ck_assert(!s.recompute[ff_graph_find(&g, "block0.mlp.up")]);
}
END_TEST

START_TEST(test_stages)
{
	struct ff_graph g = zoo("gpt2", 5);
	struct ff_strategy s = start("megatron:1,2,3,4,recompute,zero-1", &g, 6);

	ck_assert_uint_eq(s.micro_batches, 4);
	ck_assert_int_eq(s.rule, FF_ORDER_1F1B);
	for (uint32_t b = 0; b < 3; b++) {
		char name[32];
		uint32_t i;

		snprintf(name, sizeof(name), "block%u.mlp.up", b);
		i = ff_graph_find(&g, name);
		ck_assert_uint_eq(s.stage[i], b);
		ck_assert_uint_eq(s.config[i].start, 2 * b);
		ck_assert(s.recompute[i]);
		snprintf(name, sizeof(name), "block%u.add2", b);
		ck_assert(!s.recompute[ff_graph_find(&g, name)]); /* what the next one reads */
	}
	ck_assert(!s.recompute[ff_graph_find(&g, "logits")]);
	ck_assert(s.config[ff_graph_find(&g, "norm.weight")].flat);
}
END_TEST

START_TEST(test_interleaved)
{
	struct ff_graph g = zoo("gpt2", 5);
	struct ff_strategy s = start("megatron:1,2,2,4,interleave=2", &g, 4);
	uint16_t stages = 0;

	ck_assert_int_eq(s.rule, FF_ORDER_INTERLEAVED);
	ck_assert_uint_eq(s.chunks, 2);
	for (uint32_t i = 0; i < g.n_nodes; i++) {
		if (!ff_node_needs_config(&g, i))
			continue;
		stages = s.stage[i] > stages ? s.stage[i] : stages;
		ck_assert_uint_eq(s.config[i].start, s.stage[i] % 2 * 2);
	}
	ck_assert_uint_eq(stages, 3);
}
END_TEST

START_TEST(test_zb_h1)
{
	struct ff_graph g = zoo("gpt2", 5);
	struct ff_strategy with = start("megatron:1,2,2,4,zb-h1", &g, 4);
	struct ff_strategy without = start("megatron:1,2,2,4", &g, 4);

	ck_assert_int_eq(with.rule, FF_ORDER_ZB_H1);
	ck_assert_int_eq(without.rule, FF_ORDER_1F1B);
	ck_assert_uint_eq(with.ticks[FF_STAGE_FORWARD], 0);
	for (uint32_t i = 0; i < g.n_nodes; i++)
		ck_assert_uint_eq(with.stage[i], without.stage[i]);
}
END_TEST

/* Whether a task waits for gradients of parameters that are made apart. */
static bool waits_for_weights(const struct ff_schedule *s, const struct ff_task *t)
{
	bool waits = false;

	for (uint32_t k = 0; k < t->n_deps; k++)
		waits = waits || s->tasks[s->deps[t->first_dep + k]].phase == FF_PHASE_WEIGHTS;
	return waits;
}

/* Gradients are scattered in every micro-batch: behind their halves of backward those that are made
 * apart, which have buckets of their own. */
START_TEST(test_zb_h1_scatters)
{
	struct ff_graph g = zoo("gpt2", 5);
	struct ff_strategy s = start("megatron:1,2,2,4,zb-h1,zero-2", &g, 4);
	struct ff_machine m = fixture_devices(4, &arena);
	uint32_t syncs = 0, apart = 0, scattered = 0;
	struct ff_schedule r;
	struct ff_error err = {0};

	CHECK_OK(ff_lower(&g, &m, &s, NULL, &arena, &r, &err));
	for (uint32_t i = 0; i < r.n_buckets; i++)
		scattered += r.buckets[i].scattered;
	for (uint32_t i = 0; i < r.n_tasks; i++) {
		const struct ff_task *t = &r.tasks[i];

		if (!ff_task_moves_bucket(t) || ff_task_pass(t) != FF_BACKWARD ||
				!r.buckets[t->bucket].scattered)
			continue;
		syncs++;
		apart += waits_for_weights(&r, t);
	}
	ck_assert_uint_ge(scattered, 4);
	ck_assert_uint_eq(syncs, 4 * scattered);
	ck_assert_uint_ge(apart, 8);
	ck_assert_uint_lt(apart, syncs);
}
END_TEST

/* Shares of the devices hold stages down and up again. */
START_TEST(test_zb_v)
{
	struct ff_graph g = zoo("gpt2", 5);
	struct ff_strategy s = start("megatron:1,2,2,4,zb-v", &g, 4);
	struct ff_strategy other = start("megatron:1,2,2,4,interleave=2", &g, 4);
	uint32_t there = 0;

	ck_assert_int_eq(s.rule, FF_ORDER_ZB_V);
	for (uint32_t i = 0; i < g.n_nodes; i++) {
		static const uint16_t start[] = {0, 2, 2, 0};

		ck_assert_uint_eq(s.stage[i], other.stage[i]);
		if (!ff_node_needs_config(&g, i))
			continue;
		there |= 1u << s.stage[i];
		ck_assert_uint_eq(s.config[i].start, start[s.stage[i]]);
	}
	ck_assert_uint_eq(there, 15);
}
END_TEST

/* What first and last stage read is updated as all else is, and none of it is moved but in its
 * bucket. */
START_TEST(test_tied)
{
	static const char *const names[] = {"megatron:1,4,2,2", "megatron:2,2,2,2,zero-1"};
	struct ff_graph g = zoo("gpt2", 5);
	uint32_t tied = ff_graph_find(&g, "embed.weight");
	struct ff_machine m = fixture_devices(8, &arena);
	struct ff_error err = {0};

	for (uint32_t i = 0; i < 2; i++) {
		struct ff_strategy s = start(names[i], &g, 8);
		struct ff_schedule whole;

		ck_assert_uint_eq(s.config[tied].n_parts, 0);
		ck_assert_int_eq(s.config[tied].flat, i == 1);
		CHECK_OK(ff_lower(&g, &m, &s, NULL, &arena, &whole, &err));
		for (uint32_t t = 0; t < whole.n_tasks; t++)
			ck_assert(!ff_task_moves_edge(&whole.tasks[t]) ||
					ff_edge_source(&g, whole.tasks[t].edge) != tied);
	}
}
END_TEST

/* A large vocabulary draws blocks away from the stage that has it, unless stages are even. */
START_TEST(test_even)
{
	static const char *const sets[] = {
			"layers=4", "width=64", "heads=4", "sequence=16", "vocabulary=4096"};
	static const char *const names[] = {"megatron:1,1,2,4", "megatron:1,1,2,4,even"};
	struct ff_error err = {0};
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("gpt2", 24, sets, 5, &arena, &g, &err));
	for (uint32_t even = 0; even < 2; even++) {
		struct ff_strategy s = start(names[even], &g, 2);

		ck_assert_uint_eq(s.stage[ff_graph_find(&g, "block1.mlp.up")], 0);
		ck_assert_uint_eq(s.stage[ff_graph_find(&g, "block2.mlp.up")], even);
		ck_assert_uint_eq(s.stage[ff_graph_find(&g, "logits")], 1);
	}
}
END_TEST

START_TEST(test_light)
{
	struct ff_graph g = zoo("gpt2", 5);
	struct ff_strategy s = start("megatron:1,1,1,1,recompute=light", &g, 1);

	ck_assert(s.recompute[ff_graph_find(&g, "block0.norm1")]);
	ck_assert(s.recompute[ff_graph_find(&g, "block0.attention.heads")]);
	ck_assert(s.recompute[ff_graph_find(&g, "block0.mlp.gelu")]);
	ck_assert(!s.recompute[ff_graph_find(&g, "block0.mlp.up")]);
	ck_assert(!s.recompute[ff_graph_find(&g, "block0.attention.out")]);
	ck_assert(!s.recompute[ff_graph_find(&g, "block0.add1")]);
}
END_TEST

/* Whether an operator inside block `b` is recomputed, whatever the block. */
static bool is_again(
		const struct ff_graph *g, const struct ff_strategy *s, uint32_t b, const char *node)
{
	char name[100];

	snprintf(name, sizeof(name), "block%u.%s", b, node);
	return s->recompute[ff_graph_find(g, name)];
}

/* Of a stage the first blocks are recomputed whole, the others as is said besides. */
START_TEST(test_some_blocks)
{
	struct ff_error err = {0};
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("gpt2", 24,
			(const char *const[]){"layers=6", "width=64", "heads=4", "sequence=16",
					"vocabulary=101"},
			5, &arena, &g, &err));
	for (uint32_t stages = 1; stages <= 2; stages++)
		for (uint32_t light = 0; light < 2; light++) {
			char name[120];
			struct ff_strategy s;

			snprintf(name, sizeof(name), "megatron:1,1,%u,2,even,recompute=2%s", stages,
					light ? ",recompute=light" : "");
			s = start(name, &g, stages);
			for (uint32_t b = 0; b < 6; b++) {
				bool whole = b % (6 / stages) < 2;

				ck_assert(is_again(&g, &s, b, "mlp.up") == whole);
				ck_assert(is_again(&g, &s, b, "norm2") == (whole || light));
				ck_assert(!is_again(&g, &s, b, "add2"));
			}
		}
}
END_TEST

static void refuse(const char *name, const struct ff_graph *g, uint32_t devices, const char *word)
{
	struct ff_machine m = fixture_devices(devices, &arena);
	struct ff_strategy s = {.n_nodes = 77};
	struct ff_error err = {0};
	struct ff_megatron h;
	int code = ff_megatron_parse(name, &h, &err);

	if (code == FF_OK)
		code = ff_start_megatron(&h, g, &m, &arena, &s, &err);
	ck_assert_msg(code == FF_E_INPUT, "%s", name);
	ck_assert_msg(strstr(err.text, word) != NULL, "%s: %s", name, err.text);
	ck_assert_uint_eq(s.n_nodes, 77);
}

START_TEST(test_refused)
{
	struct ff_graph g = zoo("gpt2", 5), mlp = fixture_mlp(8, 8, 8, 4, &arena), two;
	struct ff_error err = {0};

	CHECK_OK(ff_zoo_build("rnnlm", 8, NULL, 0, &arena, &two, &err));
	refuse("megatron:2,2,1", &g, 4, "expected megatron:T,D,P,M");
	refuse("megatron:2,2,0,1", &g, 4, "expected megatron:T,D,P,M");
	refuse("megatron:2,2,1,1,", &g, 4, "expected megatron:T,D,P,M");
	refuse("megatron:2,2,1,1,zero-1,zero-3", &g, 4,
			"; zero-3 repeats or contradicts a word before it");
	refuse("megatron:2,2,1,1,everywhere", &g, 4, "; \"everywhere\" is none of these");
	refuse("megatron:2,2,1,1,sequenc", &g, 4, "did you mean sequence?");
	refuse("megatron:2,2,2,1", &g, 4, "are 8 devices, there are 4");
	refuse("megatron:3,1,1,1", &g, 3, "expected a divisor of 4");
	refuse("megatron:1,5,1,1", &g, 5, "a batch of 25");
	refuse("megatron:1,4,1,4", &g, 4, "such as 2");
	refuse("megatron:1,5,1,1", &g, 5, "or uneven-batch");
	refuse("megatron:1,5,1,5,uneven-batch", &g, 5, "expected a divisor of at most 4");
	refuse("megatron:1,5,1,6,uneven-batch", &g, 5, "expected a divisor of at most 4");
	refuse("megatron:1,1,64,1", &g, 64, "more than the");
	refuse("megatron:1,2,1,1,sequence", &g, 2, "expected T above 1");
	refuse("megatron:2,1,1,1,sequence", &mlp, 2, "a network of sequences");
	refuse("megatron:1,2,1,1,experts", &g, 2, "expected no experts");
	refuse("megatron:1,2,1,1,cp=2", &g, 2, "times cp 2 are 4 devices, there are 2");
	refuse("megatron:1,1,1,1,cp=2", &mlp, 2, "expected no cp");
	refuse("megatron:1,1,1,1,cp=3", &g, 3, "cp 3 does not divide the 16 places");
	refuse("megatron:2,1,1,1,cp=12,sequence", &g, 24, "such as 8");
	refuse("megatron:1,2,1,1,cp=1", &g, 2, "; cp= goes from 2 to");
	refuse("megatron:1,1,1,1,cp=2,cp=2", &g, 2, "; cp=2 repeats or");
	refuse("megatron:1,2,1,1,recompute", &mlp, 2, "expected no recompute");
	refuse("megatron:1,2,1,1,recompute=1", &mlp, 2, "expected no recompute");
	refuse("megatron:1,2,1,1,recompute=0", &g, 2, "; recompute= goes from 1 to");
	refuse("megatron:1,2,1,1,recompute,recompute=1", &g, 2,
			"; recompute already takes all blocks");
	refuse("megatron:1,2,1,1,recompute=1,recompute=1", &g, 2, "; recompute=1 repeats");
	refuse("megatron:2,1,1,1", &two, 2, "expected T 1");
	refuse("megatron:1,2,1,2,interleave=2", &g, 2, "expected P above 1");
	refuse("megatron:1,1,4,2,interleave=2", &g, 4, "a multiple, such as 4");
	refuse("megatron:1,1,2,2,interleave=2,zb-h1", &g, 2, "; interleave goes with neither");
	refuse("megatron:1,1,2,2,zb-v,zb-h1", &g, 2, "; zb-h1 repeats or contradicts");
	refuse("megatron:1,1,2,2,interleave=2,zb-v", &g, 2, "; interleave goes with neither");
	refuse("megatron:1,2,1,2,zb-v", &g, 2, "expected P above 1");
	refuse("megatron:1,1,2,2,interleave=1", &g, 2, "; interleave= goes from 2 to");
	refuse("megatron:1,1,2,2,interleave=2,interleave=2", &g, 2, "; interleave=2 repeats");
}
END_TEST

/* A random name for `n` devices. */
static void draw(struct ff_random *r, uint32_t n, char name[120])
{
	static const char *const words[][3] = {{"", ",zero-1", ",zero-3"},
			{"", ",recompute", ",recompute=light,recompute=1"}, {"", "", ",sequence"},
			{"", ",even", ",experts"}, {"", "", ",interleave=2"},
			{"", "", ",uneven-batch"}};
	uint32_t t, p, c;
	char shares[24] = "";

	do
		t = 1 + ff_random_below(r, n);
	while (n % t);
	do
		p = 1 + ff_random_below(r, n / t);
	while (n / t % p);
	do
		c = 1 + ff_random_below(r, n / t / p);
	while (n / t / p % c);
	if (c > 1 && ff_random_below(r, 2))
		snprintf(shares, sizeof(shares), ",cp=%u", c);
	else
		c = 1;
	snprintf(name, 120, "megatron:%u,%u,%u,%u%s%s%s%s%s%s%s", t, n / t / p / c, p,
			1u << ff_random_below(r, 4), shares, words[0][ff_random_below(r, 3)],
			words[1][ff_random_below(r, 3)], words[2][ff_random_below(r, 3)],
			words[3][ff_random_below(r, 3)], words[4][ff_random_below(r, 3)],
			words[5][ff_random_below(r, 3)]);
}

/* Whatever is not refused can be lowered; enough is not. */
START_TEST(test_all_are_legal)
{
	static const struct {
		const char *name;
		uint32_t n_sets;
	} nets[] = {{"gpt2", 5}, {"llama", 7}, {"bert", 5}, {"moe", 8}, {"mlp", 0}, {"vgg16", 0},
			{"nmt", 0}};
	static const uint32_t devices[] = {1, 2, 4, 6, 8, 12};
	struct ff_random r = {.seed = 5, .stream = ff_philox_stream(0, 'm')};
	struct ff_arena scratch;
	uint32_t n_made = 0, n_drawn = 0;

	for (uint32_t i = 0; i < sizeof(nets) / sizeof(*nets); i++) {
		struct ff_graph g = zoo(nets[i].name, nets[i].n_sets);

		for (uint32_t k = 0; k < 120; k++, n_drawn++) {
			uint32_t n = devices[ff_random_below(&r, 6)];
			struct ff_machine m = fixture_devices(n, &arena);
			struct ff_lower_options opt = {0};
			struct ff_error err = {0};
			struct ff_schedule lowered;
			struct ff_strategy s;
			struct ff_megatron h;
			char name[120];
			int code;

			draw(&r, n, name);
			ff_arena_init(&scratch);
			code = ff_megatron_parse(name, &h, &err);
			ck_assert_msg(code == FF_OK, "%s: %s", name, err.text);
			code = ff_start_megatron(&h, &g, &m, &scratch, &s, &err);
			if (code == FF_OK) {
				code = ff_lower(&g, &m, &s, &opt, &scratch, &lowered, &err);
				ck_assert_msg(code == FF_OK, "%s: %s", name, err.text);
				n_made++;
			} else {
				ck_assert_int_eq(code, FF_E_INPUT);
				ck_assert_msg(strstr(err.text, "expected ") ||
								strstr(err.text, "micro-batches"),
						"%s: %s", name, err.text);
			}
			ff_arena_finish(&scratch);
		}
	}
	ck_assert_msg(n_made > n_drawn / 5, "%u of %u", n_made, n_drawn);
}
END_TEST

static double step_of(
		const struct ff_graph *g, const struct ff_machine *m, const struct ff_strategy *s)
{
	struct ff_evaluator *evaluator;
	struct ff_error err = {0};
	struct ff_pricer *pricer;
	struct ff_evaluation at;

	CHECK_OK(ff_pricer_create(g, m, FF_ESTIMATE_PEAK, NULL, NULL, "graph", &pricer, &err));
	CHECK_OK(ff_evaluator_create(g, m, pricer, 0, 0, &evaluator, &err));
	CHECK_OK(ff_evaluator_set(evaluator, s, &at, &err));
	ff_evaluator_destroy(evaluator);
	ff_pricer_destroy(pricer);
	return at.step_us;
}

/* Where eight devices share products, halves of backward are far from equal: with turns as if they
 * were, sums inside a stage wait in their lane for what another one sends. */
START_TEST(test_shared_products_take_longer)
{
	static const char *const sets[] = {
			"layers=8", "width=1024", "heads=8", "sequence=256", "vocabulary=101"};
	static const char *const names[] = {"megatron:8,1,2,8,zb-h1", "megatron:8,1,2,8,zb-v"};
	struct ff_machine m = fixture_machine(
			&(struct fixture_machine){2, 8, true, (int64_t)1 << 36, 1e5, 1e5}, &arena);
	struct ff_error err = {0};
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("gpt2", 16, sets, 5, &arena, &g, &err));
	for (uint32_t i = 0; i < 2; i++) {
		struct ff_strategy s = start(names[i], &g, 16);
		double shared = step_of(&g, &m, &s), equal;

		ck_assert_uint_eq(s.ticks[FF_STAGE_FORWARD], 2);
		memset(s.ticks, 0, sizeof(s.ticks));
		equal = step_of(&g, &m, &s);
		ck_assert_msg(shared < 0.97 * equal, "%s takes %g us, in equal turns %g", names[i],
				shared, equal);
		printf("# %s takes %g us, in equal turns %g\n", names[i], shared, equal);
	}
}
END_TEST

/* Lanes of class `c` that a task holds. */
static uint32_t held(const struct ff_schedule *s, const struct ff_task *t, enum ff_lane_class c,
		uint32_t n)
{
	uint32_t first = ff_lane(s->machine, c, 0), sum = 0;

	for (uint32_t k = 0; k < t->n_lanes; k++)
		sum += s->lanes[t->first_lane + k] - first < n;
	return sum;
}

/* What goes from stage to stage does not wait for the sums of products, on another lane; but one
 * that goes over a card has that for itself, as sums between nodes have. */
START_TEST(test_messages)
{
	static const char *const sets[] = {
			"layers=4", "width=256", "heads=8", "sequence=256", "vocabulary=101"};
	struct ff_machine m = fixture_machine(
			&(struct fixture_machine){2, 4, true, (int64_t)1 << 36, 1e5, 1e5}, &arena);
	struct ff_error err = {0};
	uint32_t messages = 0, sums = 0, joined = 0;
	struct ff_strategy s;
	struct ff_schedule r;
	struct ff_graph g;
	double before;

	CHECK_OK(ff_zoo_build("gpt2", 16, sets, 5, &arena, &g, &err));
	s = start("megatron:4,1,2,8,interleave=2", &g, 8);
	for (uint32_t i = 0; i < m.n_nodes; i++)
		m.nodes[i].wiring = (struct ff_wiring){.cards = 4, .devices = 4};
	ff_machine_number_cards(&m);
	before = step_of(&g, &m, &s);
	m.message_lane = true;
	ff_machine_number_cards(&m);
	ck_assert_double_lt(step_of(&g, &m, &s), before);
	CHECK_OK(ff_lower(&g, &m, &s, NULL, &arena, &r, &err));
	for (uint32_t i = 0; i < r.n_tasks; i++) {
		const struct ff_task *t = &r.tasks[i];
		uint32_t on = held(&r, t, FF_LANE_MESSAGE, 8), comm = held(&r, t, FF_LANE_COMM, 8);
		uint32_t cards = held(&r, t, FF_LANE_NETWORK, 8);

		if (!t->move || t->move->n_devices < 2)
			continue;
		if (t->move->joins) {
			ck_assert_uint_eq(on, t->move->n_devices);
			ck_assert_uint_eq(comm + cards, 0);
			joined++;
		} else if (t->move->kind == FF_MOVE_POINT_TO_POINT &&
				g.values[g.edges[t->edge].value].kind == FF_VALUE_ACTIVATION) {
			ck_assert_uint_eq(on, t->move->n_devices);
			ck_assert_uint_eq(comm, 0);
			ck_assert_uint_eq(cards, on);
			messages++;
		} else {
			ck_assert_uint_eq(on, 0);
			ck_assert_uint_eq(comm, t->move->n_devices);
			sums++;
		}
	}
	ck_assert_uint_gt(messages, 0);
	ck_assert_uint_gt(joined, 0);
	ck_assert_uint_gt(sums, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("megatron");
	TCase *c = tcase_create("megatron");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 0);
	tcase_add_test(c, test_products);
	tcase_add_test(c, test_uneven_batch);
	tcase_add_test(c, test_sequence);
	tcase_add_test(c, test_context);
	tcase_add_test(c, test_experts);
	tcase_add_test(c, test_zero_3);
	tcase_add_test(c, test_stages);
	tcase_add_test(c, test_tied);
	tcase_add_test(c, test_even);
	tcase_add_test(c, test_light);
	tcase_add_test(c, test_some_blocks);
	tcase_add_test(c, test_interleaved);
	tcase_add_test(c, test_zb_h1);
	tcase_add_test(c, test_zb_h1_scatters);
	tcase_add_test(c, test_zb_v);
	tcase_add_test(c, test_shared_products_take_longer);
	tcase_add_test(c, test_messages);
	tcase_add_test(c, test_refused);
	tcase_add_test(c, test_all_are_legal);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
