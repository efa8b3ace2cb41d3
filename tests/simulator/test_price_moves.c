/* Prices of messages and collectives against hand numbers.  SPDX-License-Identifier: Apache-2.0 */
#include "priced.h"

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

static Suite *suite(void)
{
	Suite *s = suite_create("price_moves");
	TCase *t = tcase_create("price_moves");

	tcase_add_test(t, ring_all_reduce);
	tcase_add_test(t, shared_links_carry_all_hops);
	tcase_add_test(t, gather_and_scatter);
	tcase_add_test(t, messages);
	tcase_add_test(t, messages_on_a_shared_link_queue);
	tcase_add_test(t, measured_tables);
	tcase_add_test(t, measured_all_to_all);
	tcase_add_test(t, stages_by_nodes);
	tcase_add_test(t, measured_by_nodes);
	tcase_add_test(t, measured_across_nodes);
	tcase_add_test(t, measured_one_way);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
