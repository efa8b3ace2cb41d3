/* Chains, and sections of them: no strategy is faster than they say.
 * SPDX-License-Identifier: Apache-2.0 */
#include "../simulator/hand.h"
#include "check/dims.h"
#include "check/section.h"
#include "check/weighted.h"
#include "ff/micro.h"
#include "ff/search.h"
#include "ff/simulate.h"
#include "simulator/drawn.h"
#include "space/raise.h"
#include "space/sections.h"

struct world {
	struct hand_machine h;
	struct ff_arena arena;
	struct ff_graph g;
	struct ff_pricer *p;
	struct ff_kinds *k;
	struct ff_weighted w;
	struct ff_weights by; /* of one chain alone */
};

struct net {
	struct ff_builder *b;
	uint32_t at;
};

static int32_t between(struct ff_random *r, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(r, (uint32_t)(hi - lo + 1));
}

static uint32_t conv_norm(struct net *n, const char *name, uint32_t in, int32_t channels,
		int32_t kernel, struct ff_arena *a)
{
	union ff_attrs conv = ff_attrs_preset(FF_OP_CONV2D);

	conv.conv.out_channels = channels;
	for (int i = 0; i < 2; i++) {
		conv.conv.kernel[i] = kernel;
		conv.conv.pad[0][i] = conv.conv.pad[1][i] = kernel / 2;
	}
	in = ff_builder_add(n->b, FF_OP_CONV2D, name, &conv, &in, 1);
	return ff_builder_add(
			n->b, FF_OP_BATCH_NORM, ff_arena_printf(a, "%s.norm", name), NULL, &in, 1);
}

static uint32_t conv_relu(struct net *n, const char *name, uint32_t in, int32_t channels,
		int32_t kernel, struct ff_arena *a)
{
	in = conv_norm(n, name, in, channels, kernel, a);
	return ff_builder_add(n->b, FF_OP_RELU, ff_arena_printf(a, "%s.relu", name), NULL, &in, 1);
}

/* A residual block with a convolution in its short cut. */
static uint32_t residual(struct ff_random *r, struct net *n, const char *name, uint32_t in,
		int32_t kernel, struct ff_arena *a)
{
	int32_t channels = between(r, 2, 6);
	uint32_t both[2];

	both[0] = conv_relu(n, ff_arena_printf(a, "%s.1", name), in, between(r, 2, 6), 1, a);
	both[0] = conv_norm(n, ff_arena_printf(a, "%s.2", name), both[0], channels, kernel, a);
	both[1] = conv_norm(n, ff_arena_printf(a, "%s.side", name), in, channels, 1, a);
	in = ff_builder_add(n->b, FF_OP_ADD, ff_arena_printf(a, "%s.add", name), NULL, both, 2);
	in = ff_builder_add(n->b, FF_OP_RELU, ff_arena_printf(a, "%s.relu", name), NULL, &in, 1);
	in = conv_relu(n, ff_arena_printf(a, "%s.then", name), in, between(r, 2, 6), 1, a);
	return conv_relu(n, ff_arena_printf(a, "%s.last", name), in, between(r, 2, 6), kernel, a);
}

/* What a block finds stands behind, or without a concatenation beside, what it adds. */
static uint32_t dense(struct ff_random *r, struct net *n, const char *name, uint32_t in,
		int32_t kernel, struct ff_arena *a)
{
	int32_t channels = between(r, 2, 6);
	union ff_attrs concat = {.concat = {.axis = 1}};
	uint32_t both[2] = {in, in};
	bool norms = ff_random_below(r, 2);

	both[1] = conv_relu(n, ff_arena_printf(a, "%s.1", name), in, channels, 1, a);
	if (norms)
		both[1] = conv_norm(
				n, ff_arena_printf(a, "%s.2", name), both[1], channels, kernel, a);
	return ff_builder_add(n->b, FF_OP_CONCAT, ff_arena_printf(a, "%s.concat", name), &concat,
			both, 2);
}

/* Elements between others: of a transposed convolution, whose windows meet or not, or of images
 * that are enlarged. */
static uint32_t enlarged(struct ff_random *r, struct net *n, const char *name, uint32_t in,
		int32_t kernel, struct ff_arena *a)
{
	union ff_attrs up = ff_attrs_preset(FF_OP_UPSAMPLE);
	bool between_pixels = ff_random_below(r, 2);

	if (between_pixels) {
		up.resize.axes = 2;
		up.resize.mode = ff_random_below(r, 2) ? FF_RESIZE_LINEAR : FF_RESIZE_NEAREST;
		for (int i = 0; i < 2; i++)
			up.resize.size[i] = between(r, 3, 9);
	} else {
		up = ff_attrs_preset(FF_OP_CONV_TRANSPOSE2D);
		up.conv.out_channels = between(r, 2, 6);
		for (int i = 0; i < 2; i++) {
			up.conv.kernel[i] = between(r, 1, 3);
			up.conv.stride[i] = between(r, 1, 2);
		}
	}
	in = ff_builder_add(n->b, between_pixels ? FF_OP_UPSAMPLE : FF_OP_CONV_TRANSPOSE2D,
			ff_arena_printf(a, "%s.up", name), &up, &in, 1);
	return conv_relu(n, ff_arena_printf(a, "%s.then", name), in, between(r, 2, 6), kernel, a);
}

/* What is read is added to what is found of it: so are their gradients. */
static uint32_t forked(struct ff_random *r, struct net *n, const char *name, uint32_t in,
		int32_t kernel, struct ff_arena *a)
{
	(void)r, (void)kernel;
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t both[2] = {in, in};

		both[1] = ff_builder_add(n->b, FF_OP_SIGMOID,
				ff_arena_printf(a, "%s.sigmoid%u", name, i), NULL, &in, 1);
		in = ff_builder_add(n->b, FF_OP_ADD, ff_arena_printf(a, "%s.add%u", name, i), NULL,
				both, 2);
	}
	return in;
}

typedef uint32_t (*block)(struct ff_random *r, struct net *n, const char *name, uint32_t in,
		int32_t kernel, struct ff_arena *a);

static void draw_net(struct ff_random *r, block add, struct ff_arena *a, struct ff_graph *ret)
{
	union ff_attrs x = {.input = {.rank = 4, .shape = {0, between(r, 1, 4), 0, 0}}};
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	struct net n;
	struct ff_error err = {0};
	uint32_t in, last[2], blocks = 1 + ff_random_below(r, 2);
	int32_t kernel = ff_random_below(r, 2) ? 3 : 1;

	x.input.shape[0] = ff_random_below(r, 4) ? 8 : between(r, 1, 7);
	x.input.shape[2] = x.input.shape[3] = between(r, 2, 7);
	ck_assert_int_eq(ff_builder_create("blocks", a, &n.b, &err), FF_OK);
	in = ff_builder_add(n.b, FF_OP_INPUT, "x", &x, NULL, 0);
	in = conv_relu(&n, "stem", in, between(r, 2, 6), kernel, a);
	for (uint32_t i = 0; i < blocks; i++)
		in = add(r, &n, ff_arena_printf(a, "b%u", i), in, kernel, a);
	last[0] = ff_builder_add(n.b, FF_OP_RESHAPE, "flat", &flat, &in, 1);
	x.input.rank = 1;
	x.input.dtype = FF_I32;
	x.input.classes = 2;
	last[1] = ff_builder_add(n.b, FF_OP_INPUT, "labels", &x, NULL, 0);
	flat.linear = ff_attrs_preset(FF_OP_LINEAR).linear;
	flat.linear.out_features = 2;
	last[0] = ff_builder_add(n.b, FF_OP_LINEAR, "fc", &flat, last, 1);
	ff_builder_add(n.b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, last, 2);
	ck_assert_msg(ff_builder_finish(n.b, ret, &err) == FF_OK, "%s", err.text);
}

/* Computing takes long beside moving, or not. */
static void draw_machine(struct ff_random *r, bool large, struct hand_machine *h)
{
	static const uint32_t shape[][2] = {{1, 2}, {1, 2}, {1, 4}, {2, 2}, {1, 3}, {1, 12}, {2, 6},
			{4, 3}, {4, 4}, {2, 8}};
	static const double faster[] = {1, 1e3, 1e5}, slower[] = {1e3, 1e6, 1e6};
	const uint32_t *s = shape[ff_random_below(r, 5) + 5 * large];
	double links = faster[ff_random_below(r, 3)], kernels = slower[ff_random_below(r, 3)];

	hand_machine_init(h, s[0], s[1], ff_random_below(r, 2));
	hand_message_lane(h, ff_random_below(r, 2));
	if (ff_random_below(r, 2))
		hand_wire(h, 1 + ff_random_below(r, s[1]));
	for (int k = 0; k < 2; k++) {
		h->kind[k].flops_per_s /= kernels;
		h->kind[k].memory_bytes_per_s /= kernels / 10;
	}
	for (uint32_t i = 0; i < s[0]; i++) {
		h->node[i].inside.bytes_per_us *= links;
		h->node[i].network.bytes_per_us *= links;
		h->node[i].inside.latency_us = h->node[i].network.latency_us = 1 / links;
	}
}

/* By name, through the blocks' longer sides; false: some of it does not wait for the rest. */
static bool find_chain(struct world *w)
{
	struct ff_graph *g = &w->g;
	struct ff_chain *c = &w->by.chain[0];
	struct ff_region *box = ff_arena_array(&w->arena, g->n_nodes, sizeof(*box));

	*c = (struct ff_chain){.weight = 1};
	c->node = ff_arena_array(&w->arena, g->n_nodes, sizeof(*c->node));
	c->edge = ff_arena_array(&w->arena, g->n_nodes, sizeof(*c->edge));
	c->named = ff_arena_array(&w->arena, g->n_nodes, sizeof(*c->named));
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_is_computed(g, i) && !strstr(g->nodes[i].name, "side") &&
				!strstr(g->nodes[i].name, "loss") &&
				(ff_node_is_prelude(g, i) || g->nodes[i].out_map[0].rank == 4))
			c->node[c->n++] = i;
	w->by.n_chains = 1;
	return ff_chain_trace(g, c, box);
}

/* False where the chain has no sections but should. */
static bool open_world(
		struct ff_random *r, struct world *w, block add, bool large, uint32_t most_every)
{
	struct ff_error err = {0};

	memset(w, 0, sizeof(*w));
	ff_arena_init(&w->arena);
	draw_net(r, add, &w->arena, &w->g);
	draw_machine(r, large, &w->h);
	ck_assert_msg(ff_pricer_create(&w->g, &w->h.m, hand_estimate(&w->h), NULL, NULL, NULL,
				      &w->p, &err) == FF_OK,
			"%s", err.text);
	if (ff_random_below(r, 2))
		ff_pricer_set_by_nodes(w->p, true);
	w->k = ff_arena_alloc(&w->arena, sizeof(*w->k));
	ck_assert_int_eq(ff_kinds_init(w->k, &w->g, &w->h.m, w->p, false, NULL, NULL, &w->arena,
					 NULL),
			FF_OK);
	w->k->kept.most_every = most_every;
	ck_assert_int_eq(ff_weighted_init(&w->w, w->k, 1, &w->arena, NULL), FF_OK);
	ck_assert(find_chain(w));
	if (add != residual)
		return true;
	ck_assert_int_eq(ff_sections_choose(&w->g, &w->by.chain[0], &w->arena, NULL), FF_OK);
	return w->by.chain[0].n_sections && w->w.received;
}

static void close_world(struct world *w)
{
	ff_kinds_finish(w->k);
	ff_pricer_destroy(w->p);
	ff_arena_finish(&w->arena);
}

/* Chooses the degrees that `s` has. */
static void choose_split(struct world *w, const struct ff_strategy *s)
{
	for (uint32_t i = 0; i < w->g.n_nodes; i++) {
		const struct ff_node *n = &w->g.nodes[i];
		const struct ff_config *have = &s->config[ff_node_leader(&w->g, i)];
		struct ff_config c = {.n_parts = 0};

		if (!ff_node_is_computed(&w->g, i))
			continue;
		for (w->w.chosen[i] = 0; ff_config_next_degrees(n, w->h.m.n_devices, &c);
				w->w.chosen[i]++)
			if (!memcmp(c.degree, have->degree, n->n_dims * sizeof(*c.degree)))
				break;
		ck_assert_uint_lt(w->w.chosen[i], w->w.n_split[i]);
	}
}

/* The least figures of all that are kept of a class, by its number. */
static void least_of_classes(struct world *w)
{
	uint32_t n = ff_class_count(w->h.m.n_devices);

	for (uint32_t i = 0; i < w->g.n_nodes; i++) {
		struct ff_split_us *least = ff_arena_array(&w->arena, n, sizeof(*least));

		ck_assert_ptr_nonnull(least);
		for (uint32_t k = 0; k < n; k++)
			least[k] = (struct ff_split_us){INFINITY, INFINITY, INFINITY, INFINITY,
					INFINITY, INFINITY, INFINITY, k};
		for (uint32_t k = 0; k < w->w.n_split[i]; k++) {
			const struct ff_split_us *s = &w->w.split[i][k];
			struct ff_split_us *to = &least[s->number];

			to->first_us = fmin(to->first_us, s->first_us);
			to->placed_us = fmin(to->placed_us, s->placed_us);
			to->least_us = fmin(to->least_us, s->least_us);
			to->all_us = fmin(to->all_us, s->all_us);
			to->wide_us = fmin(to->wide_us, s->wide_us);
			to->open_us = fmin(to->open_us, s->open_us);
			to->sum_us = fmin(to->sum_us, s->sum_us);
		}
		w->w.split[i] = least;
	}
}

/* Chooses the classes of degrees that `s` has. */
static void choose_class(struct world *w, const struct ff_strategy *s)
{
	for (uint32_t i = 0; i < w->g.n_nodes; i++)
		if (ff_node_is_computed(&w->g, i))
			w->w.chosen[i] = ff_class_of(&w->g.nodes[ff_degrees_of(&w->g, i)],
					&s->config[ff_node_leader(&w->g, i)]);
}

static double step_us(struct world *w, const struct ff_strategy *s, struct ff_arena *a)
{
	struct ff_schedule plan;
	struct ff_simulation sim;

	ck_assert_int_eq(ff_lower(&w->g, &w->h.m, s, NULL, a, &plan, NULL), FF_OK);
	ck_assert_int_eq(ff_simulate(&plan, w->p, a, &sim, NULL), FF_OK);
	return sim.step_us;
}

/* Data parallelism but for some configs, so that the chain is near. */
static void draw_near(
		struct ff_random *r, struct world *w, struct ff_arena *a, struct ff_strategy *s)
{
	uint32_t other = ff_random_below(r, 5);

	if (!other) {
		draw_strategy(r, &w->g, w->h.m.n_devices, a, s, NULL);
		return;
	}
	if (ff_strategy_data_parallel(&w->g, w->h.m.n_devices, a, s, NULL) < 0)
		draw_strategy(r, &w->g, w->h.m.n_devices, a, s, NULL);
	for (uint32_t k = 0; k + 1 < other; k++) {
		uint32_t i = ff_random_below(r, w->g.n_nodes);

		if (ff_node_needs_config(&w->g, i))
			draw_config(r, &w->g, i, w->h.m.n_devices, a, &s->config[i]);
	}
}

/* By the degrees that a strategy has, of any strategy; some take as long, but for a share. */
static void check_chains(uint64_t seed, block add, bool large, double share, uint32_t of)
{
	struct ff_random r = {.seed = seed};
	uint32_t near = 0, n = 0;

	for (uint32_t round = 0; ff_test_goes_on(round, of, n > round && near > n / 20); round++) {
		struct world w;
		bool ok = open_world(&r, &w, add, large, FF_RECEIVED_DEVICES);

		if (large)
			least_of_classes(&w);
		for (int k = 0; k < 40 && ok; k++) {
			struct ff_strategy s;
			struct ff_arena a;
			double us;

			ff_arena_init(&a);
			draw_near(&r, &w, &a, &s);
			us = step_us(&w, &s, &a);
			if (large)
				choose_class(&w, &s);
			else
				choose_split(&w, &s);
			ff_weighted_terms(&w.w, &w.by);
			ck_assert_msg(w.w.chain_us[0] <= us * (1 + 1e-9),
					"round %u: the chain takes %.17g us, the step %.17g us",
					round, w.w.chain_us[0], us);
			near += w.w.chain_us[0] > (1 - share) * us;
			n++;
			ff_arena_finish(&a);
		}
		close_world(&w);
	}
	printf("# %u strategies; of %u the chain is all but %g of the step\n", n, near, share);
	ck_assert_uint_gt(n, ff_test_rounds(of));
	ck_assert_uint_gt(near, n / 20);
}

START_TEST(chains_hold)
{
	check_chains(ff_test_seed(61), residual, false, 0.2, 100);
}
END_TEST

START_TEST(chains_through_concatenations_hold)
{
	check_chains(ff_test_seed(63), dense, false, 0.5, 60);
}
END_TEST

START_TEST(chains_through_enlarged_images_hold)
{
	check_chains(ff_test_seed(67), enlarged, false, 0.3, 60);
}
END_TEST

/* On more devices than all vectors of degrees are looked at. */
START_TEST(chains_by_classes_hold)
{
	check_chains(ff_test_seed(64), dense, true, 0.5, 30);
	check_chains(ff_test_seed(65), residual, true, 0.5, 30);
	check_chains(ff_test_seed(68), enlarged, true, 0.5, 30);
}
END_TEST

/* What searches find, as degrees are chosen, all of them or by classes. */
START_TEST(no_search_is_faster)
{
	struct ff_random r = {.seed = ff_test_seed(62)};
	uint32_t rounds = ff_test_rounds(60), n = 0;
	double most = 0;

	for (uint32_t round = 0; round < rounds; round++) {
		struct ff_search_options opt = {.seed = round, .proposals = 1500};
		struct ff_search_result found;
		struct ff_evaluator *e;
		struct ff_space *s;
		struct world w;
		double us;

		if (open_world(&r, &w, round % 3 ? residual : dense, false,
				    round % 2 ? 1 : FF_RECEIVED_DEVICES)) {
			us = ff_weighted_us(&w.w, &w.by);
			ck_assert_int_eq(ff_space_create(&w.g, &w.h.m, &s, NULL), FF_OK);
			ck_assert_int_eq(ff_evaluator_create(
							 &w.g, &w.h.m, w.p, INT64_MAX, 0, &e, NULL),
					FF_OK);
			ck_assert_int_eq(ff_search_mcmc(s, e, &w.g, &w.h.m, &opt, &w.arena, &found,
							 NULL),
					FF_OK);
			ck_assert_msg(found.evaluation.step_us >= us * (1 - 1e-9),
					"round %u: the bound is %.17g us, but a search found %.17g "
					"us",
					round, us, found.evaluation.step_us);
			most = fmax(most, us / found.evaluation.step_us);
			n++;
			ff_evaluator_destroy(e);
			ff_space_destroy(s);
		}
		close_world(&w);
	}
	printf("# %u searches; the bound is up to %.3f of what they find\n", n, most);
	ck_assert_uint_gt(n, rounds / 4);
}
END_TEST

/* Where nearly all is elementwise, data parallelism takes as long as the chain; with twice what it
 * takes to add the chain would take longer. */
START_TEST(what_is_added_counts)
{
	struct ff_random r = {.seed = ff_test_seed(66)};
	uint32_t n = 0;

	for (uint32_t round = 0; round < 40; round++) {
		struct ff_strategy s;
		struct world w;
		double us, waits = 0;

		open_world(&r, &w, forked, false, FF_RECEIVED_DEVICES);
		if (w.w.received && ff_strategy_data_parallel(&w.g, w.h.m.n_devices, &w.arena, &s,
						    NULL) == FF_OK) {
			us = step_us(&w, &s, &w.arena);
			choose_split(&w, &s);
			ff_weighted_terms(&w.w, &w.by);
			for (uint32_t i = 0; i < w.by.chain[0].n; i++)
				waits += ff_weighted_wait_us(&w.w, &w.by.chain[0], i);
			ck_assert_double_le(w.w.chain_us[0], us * (1 + 1e-9));
			n += w.w.chain_us[0] + waits > us;
		}
		close_world(&w);
	}
	printf("# %u of 40 would be wrong if adding took twice as long\n", n);
	ck_assert_uint_gt(n, 2);
}
END_TEST

static uint32_t product(const struct ff_config *c, uint32_t dims)
{
	uint32_t n = 1;

	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		n *= dims >> d & 1 ? c->degree[d] : 1;
	return n;
}

/* Some devices, ascending; how many. */
static uint32_t draw_devices(struct ff_random *r, uint32_t n_devices, uint16_t *device)
{
	uint32_t all = ff_random_below(r, 3), n = 0;

	while (n < 2) {
		n = 0;
		for (uint32_t d = 0; d < n_devices; d++)
			if (!all || ff_random_below(r, 2))
				device[n++] = (uint16_t)d;
	}
	return n;
}

/* In an all-reduce each device receives as many bytes as the array has, of what all others have;
 * some take not much more than that must. */
START_TEST(no_sum_takes_less)
{
	struct ff_random r = {.seed = ff_test_seed(70)};
	uint32_t n = 0, near = 0;

	for (uint32_t round = 0; round < ff_test_rounds(400); round++) {
		const struct ff_least_wait *least;
		struct world w;

		open_world(&r, &w, residual, ff_random_below(&r, 2), FF_RECEIVED_DEVICES);
		least = &w.k->moves.wait;
		for (int k = 0; k < 20 && least->n; k++) {
			uint16_t device[FF_MAX_DEVICES];
			uint32_t among = draw_devices(&r, w.h.m.n_devices, device);
			int64_t bytes = (int64_t)64 << ff_random_below(&r, 22);
			double us = ff_price_sync(w.p, among, device, bytes);
			double must = ff_least_wait_us(least, (double)bytes, among - 1);

			ck_assert_double_ge(us, must);
			ck_assert_double_ge(us, ff_price_sum_us(w.p, among, FF_REDUCE_SUM,
								bytes / FF_F32_BYTES));
			ck_assert_double_ge(must,
					(double)bytes * ff_price_received_us(w.p) * (1 - 1e-9));
			near += us < 2.5 * must;
			n++;
		}
		close_world(&w);
	}
	printf("# %u sums, %u of them less than 2.5 times what they must\n", n, near);
	ck_assert_uint_gt(near, n / 10);
}
END_TEST

static bool is_power(uint32_t n)
{
	return !(n & (n - 1));
}

/* Of each class, on any number of devices, either all vectors cut places into a power of two, and
 * into the same, or none does; likewise channels. */
START_TEST(classes_tell_powers_of_two_apart)
{
	struct ff_random r = {.seed = ff_test_seed(69)};
	const struct ff_node *n;
	struct world w;

	open_world(&r, &w, residual, false, FF_RECEIVED_DEVICES);
	n = &w.g.nodes[ff_graph_find(&w.g, "b0.relu")];
	for (uint32_t devices = 1; devices < 70; devices++) {
		uint32_t dims[2] = {ff_place_dims(n), ff_channel_dims(n)};

		ck_assert_uint_le(ff_class_count(devices), 200);
		for (int axis = 0; axis < 2; axis++) {
			struct ff_config c = {.n_parts = 0};
			uint32_t known[200] = {0};

			while (ff_config_next_degrees(n, devices, &c)) {
				uint32_t k = ff_class_of(n, &c), cut = product(&c, dims[axis]);

				ck_assert_uint_lt(k, ff_class_count(devices));
				if (known[k])
					ck_assert(cut == known[k] ||
							(!is_power(cut) && !is_power(known[k])));
				known[k] = cut;
			}
		}
	}
	close_world(&w);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("sections");
	TCase *t = tcase_create("sections");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, chains_hold);
	tcase_add_test(t, chains_through_concatenations_hold);
	tcase_add_test(t, chains_through_enlarged_images_hold);
	tcase_add_test(t, chains_by_classes_hold);
	tcase_add_test(t, no_sum_takes_less);
	tcase_add_test(t, classes_tell_powers_of_two_apart);
	tcase_add_test(t, what_is_added_counts);
	tcase_add_test(t, no_search_is_faster);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
