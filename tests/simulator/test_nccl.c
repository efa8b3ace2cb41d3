/* Collectives and messages as NCCL has them, on the machines that come along.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "../../simulator/price/links.h"
#include "check_main.h"
#include "ff/block.h"

#define MEBI (1 << 20)
#define GIBI ((int64_t)1 << 30)
#define MOST 512
#define NO_FASTER 0.999

struct world {
	struct ff_arena a;
	struct ff_machine m;
	struct ff_links l;
	uint16_t device[MOST];
};

static void setup(struct world *w, const char *name)
{
	struct ff_error err = {0};

	ff_arena_init(&w->a);
	ck_assert_msg(ff_machine_load(name, &w->a, &w->m, &err) == FF_OK, "%s", err.text);
	ck_assert_int_eq(ff_links_init(&w->l, &w->m, FF_ESTIMATE_MODEL, NULL, &err), FF_OK);
	ck_assert_ptr_nonnull(w->l.wired.machine);
}

static void teardown(struct world *w)
{
	ff_links_finish(&w->l);
	ff_arena_finish(&w->a);
}

/* Devices `first`, `first` + `stride` and so on. */
static double us(struct world *w, enum ff_move_kind kind, uint32_t n, uint32_t first,
		uint32_t stride, int64_t bytes)
{
	int64_t elements = bytes / 4;
	struct ff_shared x = {.kind = kind,
			.reduce = FF_REDUCE_SUM,
			.n = n,
			.device = w->device,
			.size = 4,
			.elements = elements,
			.chunk_bytes = (elements + n - 1) / n * 4,
			.regular = true};

	for (uint32_t i = 0; i < n; i++)
		w->device[i] = (uint16_t)(first + i * stride);
	return ff_links_shared_us(&w->l, &x);
}

static double reduce_us(struct world *w, uint32_t n, uint32_t first, uint32_t stride, int64_t bytes)
{
	return us(w, FF_MOVE_ALL_REDUCE, n, first, stride, bytes);
}

static const char *const machines[] = {"dgx1-p100", "dgx1-v100", "dgx1-v100-32", "dgx2-v100",
		"p3.16xlarge", "dgx-a100-40", "dgx-a100-80", "p4d.24xlarge", "p5.48xlarge",
		"dgx-h100", "dgx-h200", "dgx-b200"};

static const enum ff_move_kind kinds[] = {
		FF_MOVE_ALL_REDUCE, FF_MOVE_ALL_GATHER, FF_MOVE_REDUCE_SCATTER};

/* More bytes take longer, and a few more take hardly longer, whatever protocol is left for
 * another. */
static void check_line(struct world *w, enum ff_move_kind kind, uint32_t n, uint32_t stride)
{
	double last = 0;

	for (double b = 64; b < 4e9; b *= 1.07) {
		int64_t bytes = (int64_t)(b / (4 * n) + 1) * 4 * n;
		double t = us(w, kind, n, 0, stride, bytes);
		double next = us(w, kind, n, 0, stride, bytes + 4 * n);

		ck_assert_msg(isfinite(t) && t > 0 && t >= last && next >= t,
				"%s, kind %d, %u by %u, %.0f bytes: %g, then %g, after %g",
				w->m.name, kind, n, stride, (double)bytes, t, next, last);
		if (bytes > 64 * MEBI / 1024)
			ck_assert_double_lt(next, 1.02 * t);
		last = t;
	}
}

START_TEST(monotone)
{
	char name[64];

	for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++)
		for (int nodes = 1; nodes <= 4; nodes += 1 + nodes / 2) {
			struct world w;

			snprintf(name, sizeof(name), "%s:%d", machines[i], nodes);
			setup(&w, name);
			for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
				for (uint32_t n = 2; n <= w.m.n_devices; n++)
					for (uint32_t s = 1; n * s <= w.m.n_devices; s *= 2)
						if (n < 9 || n == w.m.n_devices / s)
							check_line(&w, kinds[k], n, s);
			teardown(&w);
		}
}
END_TEST

/* All devices of more nodes are no faster, however many bytes: latencies and what crosses a card
 * grow. */
START_TEST(more_nodes)
{
	char name[64];

	for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++)
		for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
			struct world w;
			uint32_t each;

			snprintf(name, sizeof(name), "%s:16", machines[i]);
			setup(&w, name);
			each = w.m.n_devices / 16;
			for (int64_t bytes = 16 * each * 64; bytes < 2 * GIBI; bytes *= 2)
				for (uint32_t n = 1; n < 16; n *= 2) {
					double few = us(&w, kinds[k], n * each, 0, 1, bytes);
					double more = us(&w, kinds[k], 2 * n * each, 0, 1, bytes);

					ck_assert_msg(more >= NO_FASTER * few,
							"%s, kind %d, %lld bytes: %g on %u nodes, "
							"%g on %u",
							machines[i], kinds[k], (long long)bytes,
							few, n, more, 2 * n);
				}
			teardown(&w);
		}
}
END_TEST

/* Of much, what passes the cards of two nodes counts: an array once where trees bring it, as
 * between nodes with a switch; by rings of V100's time nearly twice. */
START_TEST(two_nodes)
{
	const struct {
		const char *name;
		double passes;
	} of[] = {{"dgx1-v100:2", 1.875}, {"p3.16xlarge:2", 1.875}, {"p4d.24xlarge:2", 1}};

	for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
		struct world w;
		double least;

		setup(&w, of[i].name);
		least = of[i].passes * GIBI / w.m.nodes[0].network.bytes_per_us;
		ck_assert_double_gt(reduce_us(&w, 16, 0, 1, GIBI), least);
		ck_assert_double_lt(reduce_us(&w, 16, 0, 1, GIBI), 1.3 * least);
		teardown(&w);
	}
}
END_TEST

/* Rings of a DGX-1's links among its first devices: NVIDIA's WP-08437-002, figure 4.  With five
 * no ring closes; with P100, which has four links where V100 has six, half as many do. */
START_TEST(rings_of_a_mesh)
{
	static const uint8_t v100[] = {0, 0, 1, 1, 2, 0, 1, 2, 3},
			     p100[] = {0, 0, 1, 1, 1, 0, 1, 1, 2};
	struct world w;

	for (int new = 0; new < 2; new ++) {
		const struct ff_mesh_ways *ways;

		setup(&w, new ? "dgx1-v100" : "dgx1-p100");
		ways = w.l.wired.ways[0];
		for (uint32_t n = 2; n <= 8; n++) {
			ck_assert_uint_eq(ways->rings[(1u << n) - 1], (new ? v100 : p100)[n]);
			ck_assert_uint_eq(ways->chains[(1u << n) - 1], 1);
		}
		/* 0 and 5 have no link, 0 and 3 have one or two */
		ck_assert_uint_eq(ways->rings[1 | 1 << 5], 0);
		ck_assert_uint_eq(ways->chains[1 | 1 << 5], 0);
		ck_assert_uint_eq(ways->rings[1 | 1 << 3], new ? 2 : 1);
		/* without links PCI Express is left, a few times slower */
		ck_assert_double_gt(reduce_us(&w, 2, 0, 5, 64 * MEBI),
				2 * reduce_us(&w, 2, 0, 3, 64 * MEBI));
		teardown(&w);
	}
}
END_TEST

/* What a group that has a device a node gets is the card beside that. */
START_TEST(strided)
{
	const double bytes = 256 * MEBI, card = 25e3; /* a microsecond */
	uint32_t lane[3 * 4], other[3 * 4];
	const uint16_t group[] = {1, 9, 17, 25}, beside[] = {2, 10, 18, 26};
	struct world w;
	uint32_t n;

	setup(&w, "dgx-a100-40:4");
	ck_assert_double_gt(reduce_us(&w, 4, 0, 8, 256 * MEBI), 1.5 * bytes / card);
	ck_assert_double_lt(reduce_us(&w, 4, 0, 8, 256 * MEBI), 1.5 * 1.5 * bytes / card);
	/* two devices a node have two cards, all have eight */
	ck_assert_double_lt(reduce_us(&w, 8, 0, 4, 256 * MEBI),
			0.65 * reduce_us(&w, 4, 0, 8, 256 * MEBI));
	ck_assert_double_lt(reduce_us(&w, 32, 0, 1, 256 * MEBI),
			0.2 * reduce_us(&w, 4, 0, 8, 256 * MEBI));
	/* so do groups that share none go at once, and hold no lane of each other's */
	ck_assert_double_eq(reduce_us(&w, 4, 1, 8, MEBI), reduce_us(&w, 4, 2, 8, MEBI));
	n = ff_transfer_lanes(&w.m, 4, group, lane);
	ck_assert_uint_eq(n, 8); /* theirs, and their cards' */
	ck_assert_uint_eq(ff_transfer_lanes(&w.m, 4, beside, other), n);
	for (uint32_t i = 0; i < n * n; i++)
		ck_assert_uint_ne(lane[i / n], other[i % n]);
	teardown(&w);
	/* two devices share a card: their groups follow each other on its lane */
	setup(&w, "p4d.24xlarge:4");
	n = ff_transfer_lanes(&w.m, 4, group, lane);
	ff_transfer_lanes(&w.m, 4, (const uint16_t[]){0, 8, 16, 24}, other);
	ck_assert_uint_eq(lane[n - 1], other[n - 1]);
	ff_transfer_lanes(&w.m, 4, beside, other);
	ck_assert_uint_ne(lane[n - 1], other[n - 1]);
	teardown(&w);
}
END_TEST

/* Small sums climb trees: more nodes, hardly more time; gathers go round. */
START_TEST(latencies)
{
	struct world w;

	setup(&w, "dgx-a100-40:64");
	ck_assert_double_lt(reduce_us(&w, 512, 0, 1, 4096), 3 * reduce_us(&w, 16, 0, 1, 4096));
	ck_assert_double_gt(us(&w, FF_MOVE_ALL_GATHER, 512, 0, 1, 4096),
			10 * us(&w, FF_MOVE_ALL_GATHER, 16, 0, 1, 4096));
	/* as flat rings of 8 us it would take 1022 of those */
	ck_assert_double_lt(reduce_us(&w, 512, 0, 1, 50 * MEBI), 2000);
	ck_assert_double_eq(us(&w, FF_MOVE_ALL_REDUCE, 16, 0, 1, 0),
			us(&w, FF_MOVE_ALL_REDUCE, 16, 8, 1, 0));
	teardown(&w);
}
END_TEST

/* Switches that add: those of H100's nodes for eight, of networks where the file says so. */
START_TEST(sums_in_switches)
{
	struct world w, plain;
	double with;

	setup(&w, "dgx-h100");
	with = reduce_us(&w, 8, 0, 1, 1024 * MEBI);
	/* seven have none, but an eighth of the bytes less to carry */
	ck_assert_double_gt(reduce_us(&w, 7, 0, 1, 1024 * MEBI), 1.1 * with);
	teardown(&w);
	setup(&plain, "dgx-a100-40:16");
	setup(&w, "dgx-a100-40:16");
	for (uint32_t i = 0; i < w.m.n_nodes; i++)
		w.m.nodes[i].wiring.sums = true;
	ck_assert_double_lt(reduce_us(&w, 16, 0, 8, 1024 * MEBI),
			0.6 * reduce_us(&plain, 16, 0, 8, 1024 * MEBI));
	ck_assert_double_eq(us(&w, FF_MOVE_ALL_GATHER, 16, 0, 8, MEBI),
			us(&plain, FF_MOVE_ALL_GATHER, 16, 0, 8, MEBI));
	teardown(&w);
	teardown(&plain);
}
END_TEST

/* In stages by order, each as NCCL has it. */
START_TEST(by_nodes)
{
	struct world w;
	double flat, staged;

	setup(&w, "dgx-a100-40:4");
	flat = reduce_us(&w, 32, 0, 1, 64 * MEBI);
	w.l.by_nodes = true;
	staged = reduce_us(&w, 32, 0, 1, 64 * MEBI);
	ck_assert_double_ne(flat, staged);
	w.l.by_nodes = false;
	ck_assert_double_gt(staged, us(&w, FF_MOVE_REDUCE_SCATTER, 8, 0, 1, 64 * MEBI) +
						    us(&w, FF_MOVE_ALL_GATHER, 8, 0, 1, 64 * MEBI) +
						    reduce_us(&w, 4, 0, 8, 8 * MEBI) - 1e-6);
	w.l.by_nodes = true;
	ck_assert_double_eq(reduce_us(&w, 8, 0, 1, MEBI), reduce_us(&w, 8, 8, 1, MEBI));
	teardown(&w);
}
END_TEST

/* A message of `bytes` from each of the first half of `device` to one of the second. */
static double send_us(struct world *w, uint32_t n, const uint16_t *device, int64_t bytes)
{
	struct ff_traffic t[16] = {0};
	struct ff_move mv = {.kind = FF_MOVE_POINT_TO_POINT,
			.n_devices = n,
			.device = device,
			.traffic = t,
			.busiest_bytes = bytes};

	for (uint32_t i = 0; i < n / 2; i++) {
		struct ff_traffic *from = &t[i], *to = &t[i + n / 2];
		bool inside = w->m.node_of[device[i]] == w->m.node_of[device[i + n / 2]];

		*(inside ? &from->sent_inside : &from->sent_outside) = bytes;
		*(inside ? &to->received_inside : &to->received_outside) = bytes;
		from->n_sent = to->n_received = 1;
	}
	return ff_links_messages_us(&w->l, &mv);
}

START_TEST(messages)
{
	const uint16_t near[] = {0, 3}, apart[] = {0, 5}, far[] = {0, 8};
	const uint16_t eight[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	struct world w;
	double one;

	setup(&w, "dgx1-v100:2");
	/* two links, none, and two of four cards of 12.5 GB/s */
	ck_assert_double_gt(send_us(&w, 2, apart, 64 * MEBI), 5 * send_us(&w, 2, near, 64 * MEBI));
	ck_assert_double_gt(send_us(&w, 2, far, 64 * MEBI), 64 * MEBI / 12.5e3);
	one = send_us(&w, 2, far, 64 * MEBI);
	/* eight to eight: two on each card */
	ck_assert_double_gt(send_us(&w, 16, eight, 64 * MEBI), 1.9 * one);
	ck_assert_double_lt(send_us(&w, 16, eight, 64 * MEBI), 2.1 * one);
	for (int64_t bytes = 0; bytes < 64 * MEBI; bytes += 4 * MEBI)
		ck_assert_double_lt(send_us(&w, 2, far, bytes), send_us(&w, 2, far, bytes + 4));
	/* nothing is left of the last one's bytes */
	ck_assert_double_eq(send_us(&w, 2, far, 64 * MEBI), one);
	teardown(&w);
	setup(&w, "dgx-a100-40:2");
	one = send_us(&w, 2, far, 64 * MEBI);
	ck_assert_double_eq(send_us(&w, 16, eight, 64 * MEBI), one);
	ck_assert_double_gt(ff_links_all_to_all_us(&w.l, 16, eight, MEBI),
			ff_links_all_to_all_us(&w.l, 8, eight, MEBI));
	teardown(&w);
}
END_TEST

/* Devices of one node, and not of another; all prices are of the slowest. */
START_TEST(uneven)
{
	struct world w;
	const struct ff_shared x = {.kind = FF_MOVE_ALL_REDUCE,
			.reduce = FF_REDUCE_SUM,
			.n = 5,
			.device = (const uint16_t[]){0, 1, 2, 8, 16},
			.size = 4,
			.elements = 16 * MEBI};
	double t;

	setup(&w, "dgx-a100-40:3");
	t = ff_links_shared_us(&w.l, &x);
	ck_assert(isfinite(t));
	ck_assert_double_gt(t, reduce_us(&w, 3, 0, 8, 64 * MEBI) * 0.95);
	teardown(&w);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("nccl");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, monotone);
	tcase_add_test(t, more_nodes);
	tcase_add_test(t, two_nodes);
	tcase_add_test(t, rings_of_a_mesh);
	tcase_add_test(t, strided);
	tcase_add_test(t, latencies);
	tcase_add_test(t, sums_in_switches);
	tcase_add_test(t, by_nodes);
	tcase_add_test(t, messages);
	tcase_add_test(t, uneven);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
