/* Prices against hand numbers.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/micro.h"
#include "ff/price.h"
#include "ff/reuse.h"

#include "hand.h"

struct world {
	struct hand_machine h;
	struct ff_arena arena;
	struct ff_graph g;
	struct ff_pricer *p;
};

/* Batch 8, 16 features, 12 outputs. */
static void setup(struct world *w, uint32_t n_nodes, uint32_t per_node, const struct ff_costs *c)
{
	struct ff_error err;

	hand_machine_init(&w->h, n_nodes, per_node, true);
	ff_arena_init(&w->arena);
	hand_graph(&w->arena, 8, 16, 12, &w->g);
	ck_assert_msg(ff_pricer_create(&w->g, &w->h.m, FF_ESTIMATE_PEAK, c, "costs.json",
				      "graph.json", &w->p, &err) == FF_OK,
			"%s", err.text);
}

static void teardown(struct world *w)
{
	ff_pricer_destroy(w->p);
	ff_arena_finish(&w->arena);
}

static const uint16_t devices[] = {0, 1, 2, 3, 4, 5, 6, 7};

static struct ff_work part_of(const struct ff_graph *g, const char *name, uint16_t sample,
		uint32_t part, enum ff_pass pass)
{
	struct ff_config c = {.degree = {sample, 1, 1, 1, 1, 1, 1, 1},
			.replicas = 1,
			.n_parts = sample,
			.stride = {1}};
	uint32_t node = ff_graph_find(g, name);
	struct ff_region box;
	struct ff_work w;

	ff_config_box(&g->nodes[node], &c, part, &box);
	ff_work_fill(g, node, &box, pass, &w);
	return w;
}

START_TEST(ring_all_reduce)
{
	struct world w;
	const uint16_t two[] = {3, 4};

	setup(&w, 2, 4, NULL);
	ck_assert_double_eq(ff_price_sync(w.p, 1, devices, 4000), 0);
	/* 2 (p-1) steps of latency 2 and n/p bytes at 1000 bytes/us */
	ck_assert_double_eq_tol(
			ff_price_sync(w.p, 2, devices, 4000), 2 * (2 + 2.0), FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(
			ff_price_sync(w.p, 4, devices, 4000), 6 * (2 + 1.0), FF_PRICE_STEP_US);
	/* uneven: 1000 elements among 3 have a chunk of 334 */
	ck_assert_double_eq_tol(
			ff_price_sync(w.p, 3, devices, 4000), 4 * (2 + 1.336), FF_PRICE_STEP_US);
	/* across nodes the network is the slowest link: 14 (10 + 500 / 100) */
	ck_assert_double_eq_tol(
			ff_price_sync(w.p, 8, devices, 4000), 14 * (10 + 5.0), FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(
			ff_price_sync(w.p, 2, two, 4000), 2 * (10 + 20.0), FF_PRICE_STEP_US);
	teardown(&w);
}
END_TEST

START_TEST(shared_links_carry_all_hops)
{
	struct world w;

	hand_machine_init(&w.h, 2, 4, true);
	w.h.node[0].inside.shared = w.h.node[1].inside.shared = true;
	w.h.node[0].network = w.h.node[1].network = (struct ff_link){1, 1e9, true};
	ff_arena_init(&w.arena);
	hand_graph(&w.arena, 8, 16, 12, &w.g);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, NULL, NULL, NULL, &w.p,
					 NULL),
			FF_OK);
	/* four hops in one node, three in each of two */
	ck_assert_double_eq_tol(
			ff_price_sync(w.p, 4, devices, 4000), 6 * (2 + 4.0), FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(
			ff_price_sync(w.p, 8, devices, 4000), 14 * (2 + 1.5), FF_PRICE_STEP_US);
	teardown(&w);
}
END_TEST

static struct ff_region box(int32_t lo, int32_t hi)
{
	return (struct ff_region){.rank = 1, .lo = {lo}, .hi = {hi}};
}

static struct ff_piece piece(uint16_t from, uint16_t to, int32_t elements)
{
	return (struct ff_piece){.from = from, .to = to, .region = box(0, elements)};
}

START_TEST(gather_and_scatter)
{
	struct world w;
	struct ff_piece chunk[] = {piece(0, 0, 300), piece(1, 1, 300), piece(2, 2, 400)};
	struct ff_move mv = {.kind = FF_MOVE_ALL_GATHER,
			.n_devices = 3,
			.device = devices,
			.region = box(0, 1000),
			.chunk_bytes = 1600,
			.n_pieces = 3,
			.piece = chunk};

	setup(&w, 1, 4, NULL);
	/* two steps of the largest chunk, 1600 bytes */
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 2 * (2 + 1.6), FF_PRICE_STEP_US);
	mv.kind = FF_MOVE_REDUCE_SCATTER;
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 2 * (2 + 1.6), FF_PRICE_STEP_US);
	mv.kind = FF_MOVE_ALL_REDUCE;
	mv.chunk_bytes = 1336; /* 334 of the 1000 elements */
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 4 * (2 + 1.336), FF_PRICE_STEP_US);
	/* staging: a launch of 5 us and two passes over 1e4 bytes at 1e4 bytes/us */
	mv.copied_bytes = 10000;
	ck_assert_double_eq_tol(
			ff_price_move(w.p, &w.g, &mv), 4 * (2 + 1.336) + 5 + 2, FF_PRICE_STEP_US);
	teardown(&w);
}
END_TEST

START_TEST(messages)
{
	struct world w;
	struct ff_piece p[] = {piece(0, 0, 9999), piece(0, 1, 1000), piece(1, 0, 500)};
	struct ff_move mv = {.kind = FF_MOVE_HALO,
			.n_devices = 2,
			.device = devices,
			.n_pieces = 3,
			.piece = p};
	struct ff_piece fan[] = {piece(0, 1, 1000), piece(0, 2, 1000), piece(0, 3, 500)};
	struct ff_piece swap[] = {piece(0, 2, 1000), piece(2, 0, 1000)};
	struct ff_piece share[] = {piece(0, 2, 1000), piece(1, 3, 1000)};
	struct ff_traffic traffic[4];

	setup(&w, 2, 2, NULL);
	hand_traffic(&w.h.m, &mv, traffic);
	/* both directions at once; what stays at home is copied_bytes' affair */
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 2 + 4.0, FF_PRICE_STEP_US);
	mv.n_devices = 4;
	mv.piece = fan;
	hand_traffic(&w.h.m, &mv, traffic);
	/* 6000 bytes leave node 0's card; three messages at its latency */
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 3 * 10 + 60.0, FF_PRICE_STEP_US);
	/* the tally was left clean */
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 3 * 10 + 60.0, FF_PRICE_STEP_US);
	/* full duplex: in and out of a card at once */
	mv.n_pieces = 2;
	mv.piece = swap;
	hand_traffic(&w.h.m, &mv, traffic);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 10 + 40.0, FF_PRICE_STEP_US);
	/* two devices of a node share its card */
	mv.piece = share;
	hand_traffic(&w.h.m, &mv, traffic);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 10 + 80.0, FF_PRICE_STEP_US);
	teardown(&w);
}
END_TEST

START_TEST(messages_on_a_shared_link_queue)
{
	struct world w;
	struct ff_piece p[] = {piece(0, 1, 1000), piece(1, 0, 500)};
	struct ff_move mv = {.kind = FF_MOVE_ALL_TO_ALL,
			.n_devices = 2,
			.device = devices,
			.n_pieces = 2,
			.piece = p};
	struct ff_traffic traffic[2];

	hand_machine_init(&w.h, 1, 2, true);
	hand_traffic(&w.h.m, &mv, traffic);
	w.h.node[0].inside.shared = true;
	ff_arena_init(&w.arena);
	hand_graph(&w.arena, 8, 16, 12, &w.g);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, NULL, NULL, NULL, &w.p,
					 NULL),
			FF_OK);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 2 + 6.0, FF_PRICE_STEP_US);
	teardown(&w);
}
END_TEST

START_TEST(measured_rates)
{
	struct world w;
	struct ff_costs *c = hand_costs("fast");
	struct ff_move load = {.kind = FF_MOVE_LOAD,
			.n_devices = 1,
			.device = devices,
			.region = box(10, 20)};
	struct ff_traffic none = {0};
	struct ff_move copy = {.kind = FF_MOVE_COPY,
			.n_devices = 1,
			.device = devices,
			.traffic = &none,
			.copied_bytes = 500};

	setup(&w, 1, 4, c);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &load), 4 + 40 / 10.0, FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &copy), 1 + 500 / 100.0, FF_PRICE_STEP_US);
	copy.accumulate = true; /* says how, not how much */
	copy.copied_bytes = 300;
	copy.added_bytes = 200;
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &copy), 1 + 300 / 100.0 + 2 + 200 / 50.0,
			FF_PRICE_STEP_US);
	copy.added_bytes = 0;
	copy.copied_bytes = 0;
	ck_assert_double_eq(ff_price_move(w.p, &w.g, &copy), FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(ff_price_update(w.p, 0, 100), 3 + 100 / 20.0, FF_PRICE_STEP_US);
	ck_assert_int_eq(ff_pricer_set_optimizer(w.p, ff_optimizer(FF_OPTIMIZER_ADAMW), NULL),
			FF_OK);
	ck_assert_double_eq_tol(ff_price_update(w.p, 0, 100), 5 + 100 / 8.0, FF_PRICE_STEP_US);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

START_TEST(measured_tables)
{
	struct world w;
	double bytes[] = {100, 200, 400}, us[] = {10, 20, 80};
	struct ff_costs *c = hand_costs("fast");
	struct ff_comm_cost reduce = {{FF_MOVE_ALL_REDUCE, 2, 1, false}, 3, bytes, us};
	struct ff_comm_cost send = {{FF_MOVE_POINT_TO_POINT, 2, 1, false}, 2, bytes, us};
	struct ff_comm_cost lone = {{FF_MOVE_ALL_REDUCE, 3, 1, false}, 1, bytes, us};
	const struct {
		int64_t bytes;
		double us;
	} expect[] = {{4, 10}, {100, 10}, {152, 15.2}, {200, 20}, {300, 50}, {400, 80}, {600, 140}};
	const uint16_t apart[] = {0, 4};
	struct ff_piece p[] = {piece(0, 1, 50), piece(1, 0, 25)};
	struct ff_move mv = {.kind = FF_MOVE_POINT_TO_POINT,
			.n_devices = 2,
			.device = devices,
			.n_pieces = 2,
			.piece = p,
			.busiest_bytes = 200};
	struct ff_traffic traffic[2];

	ck_assert_int_eq(ff_costs_put_comm(c, &reduce, NULL), FF_OK);
	ck_assert_int_eq(ff_costs_put_comm(c, &send, NULL), FF_OK);
	ck_assert_int_eq(ff_costs_put_comm(c, &lone, NULL), FF_OK);
	ff_costs_set_link(c, (struct ff_rate){1, 500});
	setup(&w, 2, 4, c);
	hand_traffic(&w.h.m, &mv, traffic);
	for (size_t i = 0; i < sizeof(expect) / sizeof(*expect); i++)
		ck_assert_double_eq_tol(ff_price_sync(w.p, 2, devices, expect[i].bytes),
				expect[i].us, FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(ff_price_sync(w.p, 3, devices, 200), 20, FF_PRICE_STEP_US);
	/* not measured among four: a ring on the calibrated link */
	ck_assert_double_eq_tol(
			ff_price_sync(w.p, 4, devices, 4000), 6 * (1 + 2.0), FF_PRICE_STEP_US);
	/* measured inside a node, this pair is not */
	ck_assert_double_eq_tol(
			ff_price_sync(w.p, 2, apart, 4000), 2 * (10 + 20.0), FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 20, FF_PRICE_STEP_US);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* Each of three to both others was measured as that; each to one of them as messages. */
START_TEST(measured_all_to_all)
{
	struct world w;
	double bytes[] = {100, 200}, us[] = {10, 30}, all_us[] = {17, 37};
	struct ff_costs *c = hand_costs("fast");
	struct ff_comm_cost send = {{FF_MOVE_POINT_TO_POINT, 3, 1, false}, 2, bytes, us};
	struct ff_comm_cost all = {{FF_MOVE_ALL_TO_ALL, 3, 1, false}, 2, bytes, all_us};
	struct ff_piece p[] = {piece(0, 1, 25), piece(0, 2, 25), piece(1, 0, 25), piece(1, 2, 25),
			piece(2, 0, 25), piece(2, 1, 25)};
	struct ff_piece ring[] = {piece(0, 1, 50), piece(1, 2, 50), piece(2, 0, 50)};
	struct ff_move mv = {.kind = FF_MOVE_ALL_TO_ALL,
			.n_devices = 3,
			.device = devices,
			.n_pieces = 6,
			.piece = p,
			.busiest_bytes = 200};
	struct ff_traffic traffic[3];

	ck_assert_int_eq(ff_costs_put_comm(c, &send, NULL), FF_OK);
	ff_costs_set_link(c, (struct ff_rate){1, 500});
	setup(&w, 2, 4, c);
	hand_traffic(&w.h.m, &mv, traffic);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 31, 1e-9);
	ck_assert_int_eq(ff_costs_put_comm(c, &all, NULL), FF_OK);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 37, 1e-9);
	mv.n_pieces = 3;
	mv.piece = ring;
	hand_traffic(&w.h.m, &mv, traffic);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 30, 1e-9);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

static double sync_us(const struct world *w, uint32_t n, const uint16_t *device, int64_t bytes)
{
	return ff_price_sync(w->p, n, device, bytes);
}

/* Two nodes of four: reduced and gathered at 2 + n / 1000 us a step within them, between them
 * at 10 + n / 100, where a node's card carries four rings at once. */
START_TEST(stages_by_nodes)
{
	const uint16_t uneven[] = {0, 1, 4}, lone[] = {0, 4}, pairs[] = {1, 3, 4, 7};
	struct ff_move mv = {.kind = FF_MOVE_ALL_GATHER,
			.n_devices = 8,
			.device = devices,
			.region = box(0, 1000),
			.chunk_bytes = 500,
			.regular = true};
	struct world w;

	setup(&w, 2, 4, NULL);
	ff_pricer_set_by_nodes(w.p, true);
	/* 250 elements a device of a node, 125 a ring's step: 3 * 3 + 2 * 30 + 3 * 3 */
	ck_assert_double_eq_tol(sync_us(&w, 8, devices, 4000), 78, FF_PRICE_STEP_US);
	/* one element more, which a ring of all reduces */
	ck_assert_double_eq_tol(sync_us(&w, 8, devices, 4004), 78 + 14 * 10.04, FF_PRICE_STEP_US);
	/* two of each: 500 elements each, 2 rings of 250: 4 + 2 * 30 + 4 */
	ck_assert_double_eq_tol(sync_us(&w, 4, pairs, 4000), 68, FF_PRICE_STEP_US);
	/* rings as ever: one node, one device a node, not as many, too little */
	ck_assert_double_eq_tol(sync_us(&w, 4, devices, 4000), 6 * 3, FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(sync_us(&w, 2, lone, 4000), 2 * 30, FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(sync_us(&w, 3, uneven, 4000), 4 * (10 + 13.36), FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(sync_us(&w, 8, devices, 12), 14 * 10.04, FF_PRICE_STEP_US);
	/* chunks of 500 bytes: 10 + 4 * 5 between nodes, 3 (2 + 2 * 0.5) within */
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 39, FF_PRICE_STEP_US);
	mv.kind = FF_MOVE_REDUCE_SCATTER;
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 39, FF_PRICE_STEP_US);
	mv.reduce = FF_REDUCE_LOG_SUM_EXP;
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 7 * 15, FF_PRICE_STEP_US);
	mv.kind = FF_MOVE_ALL_GATHER;
	mv.regular = false;
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 7 * 15, FF_PRICE_STEP_US);
	teardown(&w);
}
END_TEST

/* Costs that were measured in stages are priced so; a table of all is taken for all, one of a
 * node for what happens within it, and between nodes one of peers that send at once, or of two. */
START_TEST(measured_by_nodes)
{
	double bytes[] = {4, 4000}, us[] = {100, 100}, fast[] = {1, 1};
	double pair_us[] = {4, 4000}, peers_us[] = {17, 17};
	struct ff_costs *c = hand_costs("fast");
	struct ff_origin origin = *ff_costs_origin(c);
	struct ff_comm_cost inside = {{FF_MOVE_REDUCE_SCATTER, 4, 1, false}, 2, bytes, fast};
	struct ff_comm_cost four = {{FF_MOVE_ALL_REDUCE, 4, 1, false}, 2, bytes, fast};
	struct ff_comm_cost whole = {{FF_MOVE_ALL_REDUCE, 8, 2, false}, 2, bytes, us};
	struct ff_comm_cost odd = {{FF_MOVE_ALL_REDUCE, 8, 3, false}, 2, bytes, us};
	const uint16_t pairs[] = {0, 1, 4, 5};
	struct ff_piece p[] = {piece(0, 2, 50), piece(1, 3, 50)};
	struct ff_move mv = {.kind = FF_MOVE_POINT_TO_POINT,
			.n_devices = 4,
			.device = pairs,
			.n_pieces = 2,
			.piece = p,
			.busiest_bytes = 200};
	struct ff_comm_cost pair = {{FF_MOVE_POINT_TO_POINT, 2, 2, false}, 2, bytes, pair_us};
	struct ff_comm_cost peers = {{FF_MOVE_POINT_TO_POINT, 4, 2, false}, 2, bytes, peers_us};
	struct ff_traffic traffic[4];
	struct world w;

	p[0].from = 0, p[0].to = 4, p[1].from = 1, p[1].to = 5;
	origin.communication = "nccl 2.28.9 by nodes";
	ck_assert_int_eq(ff_costs_set_origin(c, &origin, NULL), FF_OK);
	ck_assert_int_eq(ff_costs_put_comm(c, &inside, NULL), FF_OK);
	ck_assert_int_eq(ff_costs_put_comm(c, &four, NULL), FF_OK);
	ck_assert_int_eq(ff_costs_put_comm(c, &odd, NULL), FF_E_INPUT);
	setup(&w, 2, 4, c);
	hand_traffic(&w.h.m, &mv, traffic);
	ck_assert_double_eq_tol(sync_us(&w, 8, devices, 4000), 1 + 60 + 9, FF_PRICE_STEP_US);
	/* four of one node, not of two */
	ck_assert_double_eq_tol(sync_us(&w, 4, devices, 4000), 1, FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(sync_us(&w, 4, pairs, 4000), 68, FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 10 + 4.0, FF_PRICE_STEP_US);
	teardown(&w);
	/* the bytes of two rings between two nodes: 4 + 2 * (2 * 1000) + 4 */
	ck_assert_int_eq(ff_costs_put_comm(c, &pair, NULL), FF_OK);
	setup(&w, 2, 4, c);
	ck_assert_double_eq_tol(sync_us(&w, 4, pairs, 4000), 4008, FF_PRICE_STEP_US);
	teardown(&w);
	ck_assert_int_eq(ff_costs_put_comm(c, &peers, NULL), FF_OK);
	setup(&w, 2, 4, c);
	ck_assert_double_eq_tol(sync_us(&w, 4, pairs, 4000), 4 + 2 * 17 + 4, FF_PRICE_STEP_US);
	ck_assert_int_eq(ff_costs_put_comm(c, &whole, NULL), FF_OK);
	ck_assert_double_eq_tol(sync_us(&w, 8, devices, 4000), 100, FF_PRICE_STEP_US);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* Two nodes of two devices; 0 and 1, 4 and 5 of nodes of four.  Hand-written tables, 10 us and more
 * slopes, so that each figure says which table it is from. */
START_TEST(measured_across_nodes)
{
	struct world w;
	double bytes[] = {100, 1000};
	double pair_us[] = {100, 1000}, one_us[] = {50, 410}, four_us[] = {200, 2000};
	double ring_us[] = {300, 3000}, all_us[] = {400, 4000};
	struct ff_costs *c = hand_costs("fast");
	struct ff_comm_cost tables[] = {
			{{FF_MOVE_POINT_TO_POINT, 2, 2, false}, 2, bytes, pair_us},
			{{FF_MOVE_POINT_TO_POINT, 2, 2, true}, 2, bytes, one_us},
			{{FF_MOVE_POINT_TO_POINT, 4, 2, false}, 2, bytes, four_us},
			{{FF_MOVE_ALL_REDUCE, 4, 2, false}, 2, bytes, ring_us},
			{{FF_MOVE_ALL_TO_ALL, 4, 2, false}, 2, bytes, all_us},
	};
	const uint16_t four[] = {0, 1, 4, 5}, two[] = {0, 4}, three[] = {0, 1, 4};
	struct ff_piece both[] = {piece(0, 4, 100), piece(4, 0, 50)}, one[] = {piece(4, 0, 100)};
	struct ff_piece pairs[] = {piece(0, 4, 100), piece(1, 5, 25), piece(5, 1, 75)};
	struct ff_piece uneven[] = {piece(0, 4, 50), piece(1, 4, 50), piece(4, 1, 10)};
	struct ff_move mv = {.kind = FF_MOVE_POINT_TO_POINT,
			.n_devices = 2,
			.device = two,
			.n_pieces = 2,
			.piece = both,
			.busiest_bytes = 400};
	struct ff_traffic traffic[4];

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		ck_assert_int_eq(ff_costs_put_comm(c, &tables[i], NULL), FF_OK);
	ff_costs_set_link(c, (struct ff_rate){1, 500});
	setup(&w, 2, 4, c);
	hand_traffic(&w.h.m, &mv, traffic);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 400, 1e-9);
	mv.n_pieces = 1;
	mv.piece = one;
	hand_traffic(&w.h.m, &mv, traffic);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 50 + 300 * 0.4, 1e-9);
	/* two pairs share the cards: 500 bytes leave node 0, as many of each device */
	mv.n_devices = 4;
	mv.device = four;
	mv.n_pieces = 3;
	mv.piece = pairs;
	hand_traffic(&w.h.m, &mv, traffic);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 500, 1e-9);
	/* three were not measured: two have the cards' 400 bytes, and another latency */
	mv.n_devices = 3;
	mv.device = three;
	mv.piece = uneven;
	hand_traffic(&w.h.m, &mv, traffic);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 400 + 10, 1e-9);
	/* collectives: as measured; a ring whose slowest step is from node to node */
	ck_assert_double_eq_tol(ff_price_sync(w.p, 4, four, 500), 1500, 1e-9);
	ck_assert_double_eq_tol(ff_price_sync(w.p, 3, three, 1200), 4 * 400.0, 1e-9);
	ck_assert_double_eq_tol(ff_price_sync(w.p, 2, two, 1200), 2 * 600.0, 1e-9);
	/* inside a node nothing of this holds */
	ck_assert_double_eq_tol(
			ff_price_sync(w.p, 2, devices, 1000), 2 * (1 + 1.0), FF_PRICE_STEP_US);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* One that sends and one that does not, in one node. */
START_TEST(measured_one_way)
{
	struct world w;
	double bytes[] = {100, 200}, us[] = {10, 30}, one_us[] = {7, 17};
	struct ff_costs *c = hand_costs("fast");
	struct ff_comm_cost both = {{FF_MOVE_POINT_TO_POINT, 2, 1, false}, 2, bytes, us};
	struct ff_comm_cost one = {{FF_MOVE_POINT_TO_POINT, 2, 1, true}, 2, bytes, one_us};
	struct ff_piece p[] = {piece(1, 0, 50), piece(0, 1, 50)};
	struct ff_move mv = {.kind = FF_MOVE_POINT_TO_POINT,
			.n_devices = 2,
			.device = devices,
			.n_pieces = 1,
			.piece = p,
			.busiest_bytes = 200};
	struct ff_traffic traffic[2];

	ck_assert_int_eq(ff_costs_put_comm(c, &both, NULL), FF_OK);
	ck_assert_int_eq(ff_costs_put_comm(c, &one, NULL), FF_OK);
	setup(&w, 1, 2, c);
	hand_traffic(&w.h.m, &mv, traffic);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 17, 1e-9);
	mv.n_pieces = 2;
	hand_traffic(&w.h.m, &mv, traffic);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv), 30, 1e-9);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

START_TEST(measured_work)
{
	struct world w;
	struct ff_costs *c = hand_costs("fast");
	struct ff_error err = {0};
	struct ff_work half, other, back;
	char key[FF_KEY_BYTES], expect[FF_ERROR_TEXT];
	double us = -1;
	struct ff_cost cost = {key, 7, 6, 8, 5, 4096};

	setup(&w, 1, 4, c);
	half = part_of(&w.g, "fc", 2, 0, FF_FORWARD);
	ff_work_key(&half, key);
	ck_assert_int_eq(ff_price_workspace(w.p, &half), 0);
	ck_assert_int_eq(ff_price_work(w.p, &half, 0, &us, &err), FF_E_INPUT);
	ck_assert_double_eq(us, -1);
	snprintf(expect, sizeof(expect),
			"costs.json has no cost for \"%.200s\": run ffprof graph.json --machine "
			"hand "
			"-o costs.json",
			key);
	ck_assert_str_eq(err.text, expect);
	/* measured later: found, and the other part of the same size with it */
	ck_assert_int_eq(ff_costs_put(c, &cost, NULL), FF_OK);
	ck_assert_int_eq(ff_price_workspace(w.p, &half), 4096);
	ck_assert_int_eq(ff_price_work(w.p, &half, 0, &us, &err), FF_OK);
	ck_assert_double_eq(us, 7);
	other = part_of(&w.g, "fc", 2, 1, FF_FORWARD);
	ck_assert_int_eq(ff_price_work(w.p, &other, 3, &us, &err), FF_OK);
	ck_assert_double_eq(us, 7);
	back = part_of(&w.g, "fc", 2, 1, FF_BACKWARD);
	ck_assert_int_eq(ff_price_work(w.p, &back, 0, &us, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "backward"));
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* Labels and other whole numbers have a rate of their own where it was measured. */
START_TEST(ids_are_loaded_at_their_own_rate)
{
	struct ff_costs *c = hand_costs("fast");
	struct ff_move load = {.kind = FF_MOVE_LOAD,
			.type = FF_I32,
			.n_devices = 1,
			.device = devices,
			.region = {.rank = 1, .hi = {25}}};
	const struct ff_rate ids = {7, 2};
	struct world w;

	setup(&w, 1, 1, c);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &load), 4 + 100 / 10.0, FF_PRICE_STEP_US);
	ck_assert_int_eq(ff_costs_set_rate(c, FF_RATE_LOAD_IDS, ids, NULL), FF_OK);
	ff_pricer_destroy(w.p);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c", "g", &w.p, NULL),
			FF_OK);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &load), 7 + 100 / 2.0, FF_PRICE_STEP_US);
	load.type = FF_F32;
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &load), 4 + 100 / 10.0, FF_PRICE_STEP_US);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* Few large samples are loaded faster than as many bytes of small ones: each has to be found. */
START_TEST(loads_are_priced_by_the_size_of_samples)
{
	struct ff_costs *c = hand_costs("fast");
	struct ff_move load = {.kind = FF_MOVE_LOAD,
			.n_devices = 1,
			.device = devices,
			.region = {.rank = 2, .hi = {2, 1000}}};
	struct world w;

	ck_assert_int_eq(ff_costs_set_rate(c, FF_RATE_LOAD,
					 (struct ff_rate){.latency_us = 5,
							 .bytes_per_us = 0.5,
							 .sample_bytes = 4},
					 NULL),
			FF_OK);
	ck_assert_int_eq(ff_costs_set_rate(c, FF_RATE_LOAD,
					 (struct ff_rate){.latency_us = 6,
							 .bytes_per_us = 800,
							 .sample_bytes = 4000},
					 NULL),
			FF_OK);
	setup(&w, 1, 1, c);
	ck_assert_double_eq_tol(
			ff_price_move(w.p, &w.g, &load), 6 + 8000 / 800.0, FF_PRICE_STEP_US);
	load.region = (struct ff_region){.rank = 2, .hi = {2000, 1}};
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &load), 5 + 8000 / 0.5, FF_PRICE_STEP_US);
	load.region.hi[0] = 0;
	ck_assert_double_le(ff_price_move(w.p, &w.g, &load), FF_PRICE_STEP_US);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* Of 1,024 elements on two devices, ternary: each encodes all of them and its chunk of 512 and
 * decodes two chunks and then both once more, 6,144 and 8,192 bytes of float32 in two and four
 * kernels. */
START_TEST(codecs_are_priced_as_measured)
{
	const struct ff_codec *ternary = ff_codec(FF_CODEC_TERNARY);
	const double estimated =
			2 + ternary->encode_cost * 6144 / 50 + 2 + ternary->decode_cost * 8192 / 50;
	const double measured = 2 * 7.0 + 6144 / 30.0 + 4 * 11.0 + 8192 / 40.0;
	struct ff_costs *c = hand_costs("fast");
	struct world w;
	double us;

	setup(&w, 1, 2, c);
	ff_pricer_set_codec(w.p, ternary);
	us = ff_price_bucket(w.p, 2, devices, 4096);
	ck_assert_int_eq(ff_costs_set_rate(c, FF_RATE_ENCODE + FF_CODEC_TERNARY,
					 (struct ff_rate){7, 30}, NULL),
			FF_OK);
	ck_assert_int_eq(ff_costs_set_rate(c, FF_RATE_DECODE + FF_CODEC_TERNARY,
					 (struct ff_rate){11, 40}, NULL),
			FF_OK);
	ff_pricer_destroy(w.p);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c", "g", &w.p, NULL),
			FF_OK);
	ff_pricer_set_codec(w.p, ternary);
	ck_assert_double_eq_tol(ff_price_bucket(w.p, 2, devices, 4096) - us, measured - estimated,
			2 * FF_PRICE_STEP_US);
	us = ff_price_sync(w.p, 2, devices, 4096);
	ff_pricer_set_codec(w.p, NULL);
	ck_assert_double_eq(ff_price_bucket(w.p, 2, devices, 4096), us);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* Device 0 encodes three messages, of 6,144 bytes of float32 in all, device 1 encodes one of 512
 * and decodes two of 4,096. */
START_TEST(compressed_moves_are_priced_as_measured)
{
	const struct ff_codec *ternary = ff_codec(FF_CODEC_TERNARY);
	struct ff_traffic traffic[] = {{.sent_inside = 408,
						       .n_sent = 3,
						       .received_inside = 36,
						       .n_received = 1,
						       .encoded = 6144,
						       .decoded = 512},
			{.sent_inside = 36,
					.n_sent = 1,
					.received_inside = 272,
					.n_received = 2,
					.encoded = 512,
					.decoded = 4096}};
	struct ff_move mv = {.kind = FF_MOVE_POINT_TO_POINT,
			.n_devices = 2,
			.device = devices,
			.traffic = traffic,
			.added_bytes = 1000};
	const double each[] = {3 * 7 + 6144 / 30.0 + 11 + 512 / 40.0,
			7 + 512 / 30.0 + 2 * 11 + 4096 / 40.0};
	struct ff_costs *c = hand_costs("fast");
	struct world w;
	double us;

	ck_assert_int_eq(ff_costs_set_rate(c, FF_RATE_ENCODE + FF_CODEC_TERNARY,
					 (struct ff_rate){7, 30}, NULL),
			FF_OK);
	ck_assert_int_eq(ff_costs_set_rate(c, FF_RATE_DECODE + FF_CODEC_TERNARY,
					 (struct ff_rate){11, 40}, NULL),
			FF_OK);
	setup(&w, 1, 2, c);
	us = ff_price_move(w.p, &w.g, &mv);
	mv.codec = ternary;
	/* whatever the pricer's is: the move has its own */
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv) - us, each[0], 2 * FF_PRICE_STEP_US);
	traffic[0].encoded = 600;
	traffic[0].n_sent = 1;
	traffic[1].n_received = 3;
	ck_assert_double_gt(each[1], 7 + 600 / 30.0 + 11 + 512 / 40.0);
	mv.codec = NULL;
	us = ff_price_move(w.p, &w.g, &mv);
	mv.codec = ternary;
	ck_assert_double_eq_tol(
			ff_price_move(w.p, &w.g, &mv) - us, each[1] + 11, 2 * FF_PRICE_STEP_US);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* 128 bytes a run take 1/100 us a byte, 16 bytes 1/30: so each run takes 0.427 us of its own, and
 * of 128 bytes' time a third is that. */
START_TEST(short_runs_take_longer)
{
	struct ff_costs *c = hand_costs("fast");
	struct ff_rate rate = {1, 100, .short_bytes_per_us = 30};
	struct ff_traffic none = {0};
	struct ff_move copy = {.kind = FF_MOVE_COPY,
			.n_devices = 1,
			.device = devices,
			.traffic = &none,
			.copied_bytes = 1280};
	double each_us = (1 / 30.0 - 1 / 100.0) / (1 / 16.0 - 1 / 128.0), start;
	const int64_t runs[] = {4, 16, 128, 512};
	struct world w;

	setup(&w, 1, 1, c);
	ck_assert_int_eq(ff_costs_set_rate(c, FF_RATE_COPY, rate, NULL), FF_OK);
	ff_pricer_destroy(w.p);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c", "g", &w.p, NULL),
			FF_OK);
	start = 1 + 1280 * (1 / 100.0 - each_us / 128);
	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
		copy.run_bytes = runs[i];
		ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &copy),
				start + each_us * 1280 / (double)runs[i], FF_PRICE_STEP_US);
	}
	copy.run_bytes = 0; /* nothing is known of it */
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &copy), 1 + 12.8, FF_PRICE_STEP_US);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* The only part of an operator that nothing runs beside has the time that it takes while others
 * wait, unless other micro-batches are under way; the memo keeps both. */
START_TEST(what_runs_alone_has_a_time_of_its_own)
{
	struct ff_costs *c = hand_costs("fast");
	char key[FF_KEY_BYTES];
	struct ff_cost cost = {key, 9, 9, 9, 1, .alone_us = 4};
	struct ff_work work;
	struct ff_graph micro;
	struct world w;
	double us;

	setup(&w, 1, 2, c);
	for (int turn = 0; turn < 2; turn++) {
		uint32_t fc = ff_graph_find(&w.g, "fc");

		work = part_of(&w.g, "fc", 1, 0, FF_FORWARD);
		ff_work_key(&work, key);
		ck_assert_int_eq(ff_costs_put(c, &cost, NULL), FF_OK);
		ck_assert_int_eq(ff_price_part(w.p, &work, fc, 1, 0, &us, NULL), FF_OK);
		ck_assert_double_eq(us, 4);
		ck_assert_int_eq(ff_price_part(w.p, &work, fc, 2, 0, &us, NULL), FF_OK);
		ck_assert_double_eq(us, 9);
		ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
		ck_assert_double_eq(us, 9);
		ck_assert_int_eq(ff_price_least(w.p, &work, 0, &us, NULL), FF_OK);
		ck_assert_double_eq(us, 4);
	}
	ck_assert_int_eq(ff_graph_micro(&w.g, 2, &w.arena, &micro, NULL), FF_OK);
	work = part_of(&micro, "fc", 1, 0, FF_FORWARD);
	ff_work_key(&work, key);
	ck_assert_int_eq(ff_costs_put(c, &cost, NULL), FF_OK);
	ck_assert_int_eq(ff_price_part(w.p, &work, ff_graph_find(&w.g, "fc"), 1, 0, &us, NULL),
			FF_OK);
	ck_assert_double_eq(us, 9);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* A micro-batch is priced with the caches that it leaves, or the most alike that were
 * measured; so are copies and additions. */
START_TEST(micro_batches_have_caches_of_their_own)
{
	static const uint32_t micro_batches[] = {1, 2, 16};
	struct ff_costs *c = hand_costs("fast");
	struct ff_graph g, micro[2];
	struct ff_cost cost = {.samples = 1};
	char key[FF_KEY_BYTES];
	struct ff_reuse passed;
	struct ff_work work;
	struct world w;
	int64_t bytes[3];
	double us;

	setup(&w, 1, 1, c);
	ff_pricer_destroy(w.p);
	hand_graph(&w.arena, 512, 1024, 12, &g);
	ck_assert_int_eq(ff_reuse_find(&g, 1, &w.arena, &passed, NULL), FF_OK);
	for (uint32_t i = 0; i < 3; i++) {
		bytes[i] = ff_reuse_node(
				&passed, micro_batches[i], ff_graph_find(&g, "fc"), FF_FORWARD);
		ck_assert(i == 0 || bytes[i] < bytes[i - 1]);
	}
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(
				ff_graph_micro(&g, micro_batches[i + 1], &w.arena, &micro[i], NULL),
				FF_OK);
	/* the same part: a sixteenth of the batch, an eighth of a half of it */
	work = part_of(&g, "fc", 16, 0, FF_FORWARD);
	ff_work_key(&work, key);
	cost.key = key;
	for (uint32_t i = 0; i < 3; i += 2) {
		int64_t of_rate = ff_reuse_bytes(&passed, micro_batches[i]);

		cost.reuse_bytes = bytes[i];
		cost.median_us = cost.p90_us = 7 + i;
		ck_assert_int_eq(ff_costs_put(c, &cost, NULL), FF_OK);
		ck_assert_int_eq(ff_costs_set_rate(c, FF_RATE_ACCUMULATE,
						 (struct ff_rate){i + 1, 10, 0, of_rate}, NULL),
				FF_OK);
	}
	ck_assert_int_eq(ff_pricer_create(&g, &w.h.m, FF_ESTIMATE_PEAK, c, "c", "g", &w.p, NULL),
			FF_OK);
	ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
	ck_assert_double_eq(us, 7);
	ck_assert_double_eq_tol(ff_price_add(w.p, &g, 0, 100), 1 + 100 / 10.0, FF_PRICE_STEP_US);
	work = part_of(&micro[1], "fc", 1, 0, FF_FORWARD);
	ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
	ck_assert_double_eq(us, 9);
	ck_assert_double_eq_tol(
			ff_price_add(w.p, &micro[1], 0, 100), 3 + 100 / 10.0, FF_PRICE_STEP_US);
	work = part_of(&micro[0], "fc", 8, 0, FF_FORWARD);
	ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
	ck_assert_double_eq(us, 7);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* Equal layers in a row: the first finds its data near forward, the last one backward. */
START_TEST(equal_nodes_find_their_data_nearer_or_further)
{
	enum { LAYERS = 6 };
	union ff_attrs x = {.input = {.rank = 2, .shape = {64, 256}, .dtype = FF_F32}};
	union ff_attrs y = {.input = {.rank = 1, .shape = {64}, .dtype = FF_I32, .classes = 256}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	static const char *const names[LAYERS] = {"a", "b", "c", "d", "e", "f"};
	struct ff_costs *c = hand_costs("fast");
	struct ff_builder *build;
	struct ff_reuse passed;
	struct ff_graph g;
	struct world w;
	uint32_t in[2];

	setup(&w, 1, 1, c);
	ff_pricer_destroy(w.p);
	ck_assert_int_eq(ff_builder_create("chain", &w.arena, &build, NULL), FF_OK);
	fc.linear.out_features = 256;
	in[0] = ff_builder_add(build, FF_OP_INPUT, "x", &x, NULL, 0);
	for (uint32_t i = 0; i < LAYERS; i++)
		in[0] = ff_builder_add(build, FF_OP_LINEAR, names[i], &fc, in, 1);
	in[1] = ff_builder_add(build, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(build, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	ck_assert_int_eq(ff_builder_finish(build, &g, NULL), FF_OK);
	ck_assert_int_eq(ff_reuse_find(&g, 1, &w.arena, &passed, NULL), FF_OK);
	ck_assert_int_eq(ff_pricer_create(&g, &w.h.m, FF_ESTIMATE_PEAK, c, "c", "g", &w.p, NULL),
			FF_OK);
	for (uint32_t i = 0; i < 2 * LAYERS; i++) {
		enum ff_pass pass = i % 2 ? FF_BACKWARD : FF_FORWARD;
		uint32_t node = ff_graph_find(&g, names[i / 2]);
		struct ff_work work = part_of(&g, names[i / 2], 1, 0, pass);
		struct ff_cost cost = {.samples = 1};
		char key[FF_KEY_BYTES];

		ff_work_key(&work, key);
		cost.key = key;
		cost.reuse_bytes = ff_reuse_node(&passed, 1, node, pass);
		cost.median_us = cost.p90_us = (double)(cost.reuse_bytes >> 10);
		ck_assert_int_eq(ff_costs_put(c, &cost, NULL), FF_OK);
	}
	for (uint32_t i = 0; i < LAYERS; i++) {
		uint32_t node = ff_graph_find(&g, names[i]);
		struct ff_work work = part_of(&g, names[i], 1, 0, FF_FORWARD);
		/* those before it: 64 KiB out and as much of gradients; weights both ways, the
		 * update's weights, gradients and momentum */
		double before = (i + 1) * 128 * 1024 + i * 257.0 * 256 * 4 * 5, us;

		ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
		ck_assert_double_le(fabs(log2(us * 1024 / before)), 0.52);
		work = part_of(&g, names[LAYERS - 1 - i], 1, 0, FF_BACKWARD);
		ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
		/* those behind it, the labels and the loss */
		before = i * (128 * 1024 + 257.0 * 256 * 4 * 5) + 64 * 8 + 8 + 128 * 1024;
		ck_assert_double_le(us * 1024 / before, 1.5);
		ck_assert(i == 0 || ff_price_place(w.p, node) !=
						    ff_price_place(w.p, ff_graph_find(&g, "a")));
	}
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

START_TEST(long_names_leave_room_for_the_command)
{
	struct world w;
	struct ff_costs *c = hand_costs("fast");
	struct ff_error err = {0};
	char path[300];
	struct ff_work work;
	double us;

	memset(path, 'p', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	hand_machine_init(&w.h, 1, 1, true);
	ff_arena_init(&w.arena);
	hand_graph(&w.arena, 8, 16, 12, &w.g);
	ck_assert_int_eq(
			ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, path, path, &w.p, NULL),
			FF_OK);
	work = part_of(&w.g, "fc", 1, 0, FF_FORWARD);
	ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "linear.forward"));
	ck_assert_ptr_nonnull(strstr(err.text, "run ffprof"));
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

START_TEST(costs_must_fit_the_machine)
{
	struct world w;
	struct ff_error err = {0};
	struct ff_pricer *p = NULL;
	struct ff_costs *c;

	setup(&w, 2, 2, NULL);
	c = hand_costs("cpu");
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c.json", "g.json", &p,
					 &err),
			FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "c.json prices devices of kind \"cpu\""));
	ck_assert_ptr_nonnull(strstr(err.text, "\"fast\""));
	ff_costs_destroy(c);
	/* two kinds: one cost file cannot serve both */
	c = hand_costs("fast");
	w.h.node[1].kind = 1;
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c.json", "g.json", &p,
					 &err),
			FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "node 1"));
	ck_assert_ptr_nonnull(strstr(err.text, "\"slow\""));
	ff_costs_destroy(c);
	w.h.node[1].kind = 0;
	ck_assert_int_eq(ff_costs_create("fast", &c, NULL), FF_OK);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c.json", "g.json", &p,
					 &err),
			FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "no \"copy\" rate: run ffprof g.json"));
	ck_assert_ptr_null(p);
	ff_costs_destroy(c);
	ff_pricer_destroy(NULL);
	teardown(&w);
}
END_TEST

static void set_plain_rates(struct ff_costs *c, enum ff_rate_kind update)
{
	ff_costs_set_rate(c, FF_RATE_COPY, (struct ff_rate){1, 100}, NULL);
	ff_costs_set_rate(c, FF_RATE_ADD, (struct ff_rate){2, 50}, NULL);
	ff_costs_set_rate(c, FF_RATE_ACCUMULATE, (struct ff_rate){2, 50}, NULL);
	ff_costs_set_rate(c, FF_RATE_LOAD, (struct ff_rate){4, 10}, NULL);
	ff_costs_set_rate(c, update, (struct ff_rate){3, 20}, NULL);
}

/* Files from before there was a choice have the preset optimizer's rate alone. */
START_TEST(optimizers_need_their_rates)
{
	const struct ff_optimizer *adamw = ff_optimizer(FF_OPTIMIZER_ADAMW);
	struct ff_pricer *p = NULL;
	struct ff_error err = {0};
	struct ff_costs *c;
	struct world w;

	setup(&w, 1, 1, NULL);
	ck_assert_int_eq(ff_costs_create("fast", &c, NULL), FF_OK);
	set_plain_rates(c, FF_RATE_UPDATE);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c.json", "g.json", &p,
					 &err),
			FF_OK);
	ck_assert_int_eq(ff_pricer_set_optimizer(p, adamw, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text,
			"c.json has no \"update_adamw\" rate: run ffprof g.json --machine hand"));
	/* and nothing has changed */
	ck_assert_ptr_eq(ff_price_optimizer(p), ff_optimizer_preset());
	ck_assert_double_eq_tol(ff_price_update(p, 0, 100), 3 + 100 / 20.0, FF_PRICE_STEP_US);
	ff_pricer_destroy(p);
	ff_costs_destroy(c);
	p = NULL;
	ck_assert_int_eq(ff_costs_create("fast", &c, NULL), FF_OK);
	set_plain_rates(c, FF_RATE_UPDATE_ADAMW);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c.json", "g.json", &p,
					 &err),
			FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "no \"update\" rate"));
	ff_costs_destroy(c);
	teardown(&w);
}
END_TEST

/* Weight and gradient are read and the weight written; each state both. */
START_TEST(peak_updates)
{
	static const double passes[FF_OPTIMIZER_COUNT] = {3, 5, 5, 7, 7};
	struct world w;

	setup(&w, 1, 1, NULL);
	ck_assert_double_eq_tol(
			ff_price_update(w.p, 0, 1000), 5 + 5 * 1000 / 1e4, FF_PRICE_STEP_US);
	for (int i = 0; i < FF_OPTIMIZER_COUNT; i++) {
		ck_assert_int_eq(ff_pricer_set_optimizer(
						 w.p, ff_optimizer((enum ff_optimizer_id)i), NULL),
				FF_OK);
		ck_assert_double_eq_tol(ff_price_update(w.p, 0, 1000), 5 + passes[i] * 1000 / 1e4,
				FF_PRICE_STEP_US);
	}
	teardown(&w);
}
END_TEST

/* Where the weights are read in bfloat16, they are written once more, half as long. */
START_TEST(peak_updates_rounded)
{
	struct world w;

	setup(&w, 1, 1, NULL);
	w.g.dtype = FF_BF16;
	ck_assert_double_eq_tol(
			ff_price_update(w.p, 0, 1000), 5 + 5.5 * 1000 / 1e4, FF_PRICE_STEP_US);
	teardown(&w);
}
END_TEST

START_TEST(peak_roofline)
{
	struct world w;
	struct ff_work fc;
	double us, slow_us;

	setup(&w, 1, 8, NULL);
	fc = part_of(&w.g, "fc", 1, 0, FF_FORWARD);
	ck_assert_int_eq(ff_price_work(w.p, &fc, 0, &us, NULL), FF_OK);
	/* 8x16 and 12x16 and 12 read, 8x12 written: bound by memory at 1e4 bytes/us */
	ck_assert_double_eq_tol(us, 5 + 4 * (128 + 192 + 12 + 96) / 1e4, FF_PRICE_STEP_US);
	/* a small product's packed blocks, in a thread or more */
	ck_assert_int_gt(ff_price_workspace(w.p, &fc), 0);
	/* memory 1000 times as fast: bound by arithmetic at 1e6 FLOP/us */
	teardown(&w);
	setup(&w, 2, 4, NULL);
	w.h.kind[0].memory_bytes_per_s = w.h.kind[1].memory_bytes_per_s = 1e16;
	w.h.node[1].kind = 1;
	fc = part_of(&w.g, "fc", 1, 0, FF_FORWARD);
	ck_assert_int_eq(ff_price_work(w.p, &fc, 0, &us, NULL), FF_OK);
	ck_assert_int_eq(ff_price_work(w.p, &fc, 4, &slow_us, NULL), FF_OK);
	ck_assert_double_eq_tol(us, 5 + (double)ff_work_flops(&fc) / 1e6, FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(slow_us, 5 + (double)ff_work_flops(&fc) / 1e5, FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(ff_price_update(w.p, 0, 1000), 5, 1e-3);
	teardown(&w);
}
END_TEST

/* Of devices that have a model, and of others beside them, which cost what their peaks say. */
START_TEST(by_models)
{
	struct ff_pricer *models, *peaks;
	struct ff_device_model m;
	struct ff_inferred inferred;
	struct ff_error err;
	struct ff_work fc;
	struct world w;
	double us, again, expect, peak;

	setup(&w, 2, 4, NULL);
	w.h.node[1].kind = 1;
	w.h.kind[0].model = "K80";
	fc = part_of(&w.g, "fc", 1, 0, FF_FORWARD);
	ck_assert_int_eq(ff_device_model_load(
					 FF_SOURCE_MACHINES "/models/K80.json", &w.arena, &m, &err),
			FF_OK);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_MODEL, NULL, NULL, NULL,
					 &models, &err),
			FF_OK);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, NULL, NULL, NULL, &peaks,
					 &err),
			FF_OK);
	expect = ff_device_model_work_us(&m, &fc, &inferred);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ff_price_work(models, &fc, 0, &us, NULL), FF_OK);
		ck_assert_double_eq_tol(us, expect, FF_PRICE_STEP_US);
		ck_assert_double_eq(us, round(us / FF_PRICE_STEP_US) * FF_PRICE_STEP_US);
		ck_assert_int_eq(ff_price_work(models, &fc, 4, &again, NULL), FF_OK);
		ck_assert_int_eq(ff_price_work(peaks, &fc, 4, &peak, NULL), FF_OK);
		ck_assert_double_eq(again, peak);
		ck_assert_double_ne(us, peak);
	}
	ck_assert_int_eq(ff_price_inferred(models, &fc, 0, &inferred, NULL), FF_OK);
	ck_assert_uint_eq(inferred.classes, 1u << FF_KERNEL_PRODUCT);
	ck_assert_double_eq_tol(inferred.us, us, FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(ff_price_update(models, 0, 1 << 20),
			ff_device_model_stream_us(&m, 5.0 * (1 << 20)), FF_PRICE_STEP_US);
	ck_assert_str_eq(ff_price_unmodelled(models)->name, w.h.kind[1].name);
	ck_assert_ptr_null(ff_price_unmodelled(peaks));
	ff_pricer_destroy(models);
	ff_pricer_destroy(peaks);
	/* one that is named has to be there */
	w.h.kind[0].model = "K81";
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_MODEL, NULL, NULL, NULL,
					 &models, &err),
			FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "there is no model \"K81\""));
	teardown(&w);
}
END_TEST

/* More samples never take less time, whatever was priced before. */
START_TEST(peak_is_monotonic)
{
	struct world w;

	setup(&w, 1, 8, NULL);
	for (int pass = FF_FORWARD; pass <= FF_BACKWARD; pass++) {
		double last = 1e300;

		for (uint16_t n = 1; n <= 8; n++) {
			struct ff_work work = part_of(&w.g, "fc", n, 0, (enum ff_pass)pass);
			double us, again;

			ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
			ck_assert_int_eq(ff_price_work(w.p, &work, 1, &again, NULL), FF_OK);
			ck_assert_double_eq(us, again);
			ck_assert_double_le(us, last);
			last = us;
		}
	}
	teardown(&w);
}
END_TEST

/* The memo grows past its first size and still tells works apart. */
START_TEST(memo_grows)
{
	struct world w;
	double first[3000];

	setup(&w, 1, 1, NULL);
	for (int round = 0; round < 2; round++) {
		for (int32_t i = 0; i < 3000; i++) {
			struct ff_work work = part_of(&w.g, "fc", 1, 0, FF_FORWARD);
			double us;

			work.in[0].hi[0] = 1000 + i; /* another shape, another work */
			ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
			if (round)
				ck_assert_double_eq(us, first[i]);
			else if (i)
				ck_assert_double_gt(us, first[i - 1]);
			first[i] = us;
		}
	}
	teardown(&w);
}
END_TEST

/* Whole steps, the nearest, so that sums of them are exact whatever their order. */
START_TEST(prices_are_whole_steps)
{
	const double steps = 1 / FF_PRICE_STEP_US;
	struct world w;
	double up = 0, down = 0;

	setup(&w, 2, 4, NULL);
	for (int64_t bytes = 8; bytes < 80000; bytes += 24) {
		double us = ff_price_sync(w.p, 2, devices, bytes);

		ck_assert_double_eq(us * steps, floor(us * steps));
		ck_assert_double_eq_tol(
				us, 2 * (2 + (double)bytes / 2 / 1000), FF_PRICE_STEP_US / 2);
		up += us;
	}
	for (int64_t bytes = 8 + 24 * 3333; bytes >= 8; bytes -= 24)
		down += bytes < 80000 ? ff_price_sync(w.p, 2, devices, bytes) : 0;
	ck_assert_double_eq(up, down);
	ck_assert_double_gt(up, 100000);
	teardown(&w);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("price");
	TCase *t = tcase_create("price");

	tcase_add_test(t, ring_all_reduce);
	tcase_add_test(t, shared_links_carry_all_hops);
	tcase_add_test(t, gather_and_scatter);
	tcase_add_test(t, messages);
	tcase_add_test(t, messages_on_a_shared_link_queue);
	tcase_add_test(t, measured_rates);
	tcase_add_test(t, measured_tables);
	tcase_add_test(t, measured_all_to_all);
	tcase_add_test(t, stages_by_nodes);
	tcase_add_test(t, measured_by_nodes);
	tcase_add_test(t, measured_across_nodes);
	tcase_add_test(t, measured_one_way);
	tcase_add_test(t, measured_work);
	tcase_add_test(t, ids_are_loaded_at_their_own_rate);
	tcase_add_test(t, loads_are_priced_by_the_size_of_samples);
	tcase_add_test(t, codecs_are_priced_as_measured);
	tcase_add_test(t, compressed_moves_are_priced_as_measured);
	tcase_add_test(t, short_runs_take_longer);
	tcase_add_test(t, what_runs_alone_has_a_time_of_its_own);
	tcase_add_test(t, micro_batches_have_caches_of_their_own);
	tcase_add_test(t, equal_nodes_find_their_data_nearer_or_further);
	tcase_add_test(t, long_names_leave_room_for_the_command);
	tcase_add_test(t, costs_must_fit_the_machine);
	tcase_add_test(t, optimizers_need_their_rates);
	tcase_add_test(t, peak_updates);
	tcase_add_test(t, peak_updates_rounded);
	tcase_add_test(t, peak_roofline);
	tcase_add_test(t, by_models);
	tcase_add_test(t, peak_is_monotonic);
	tcase_add_test(t, memo_grows);
	tcase_add_test(t, prices_are_whole_steps);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
