/* Redistribution against its definition: every sink element is the sum of the
 * source elements that cover it.  Random sides; the moves are carried out here
 * element by element.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "check_main.h"
#include "ff/block.h"
#include "ff/philox.h"

#define DEVICES 6
#define MOST 4096

struct world {
	struct ff_random r;
	struct ff_side source, sink;
	struct ff_region region[2][DEVICES];
	uint16_t device[2][DEVICES];
	double *shard[2][DEVICES]; /* by part, dense */
	double want[DEVICES][MOST];
};

static void shuffle_devices(struct ff_random *r, uint16_t *device)
{
	for (uint16_t i = 0; i < DEVICES; i++)
		device[i] = i;
	for (uint32_t i = DEVICES; i > 1; i--) {
		uint32_t k = ff_random_below(r, i);
		uint16_t was = device[i - 1];

		device[i - 1] = device[k];
		device[k] = was;
	}
}

/* A grid over the first axes, with halos, or the same box several times. */
static uint32_t draw_side(struct ff_random *r, const int32_t *shape, uint32_t rank,
		struct ff_region *region, bool *disjoint)
{
	uint32_t degree[3] = {1, 1, 1}, n, most = 1 + ff_random_below(r, DEVICES);
	int32_t halo = ff_random_below(r, 3) ? 0 : 1;

	for (int tries = 0; tries < 6; tries++) {
		uint32_t d = ff_random_below(r, 3);
		bool fits = d == 2 || (d < rank && (int32_t)degree[d] < shape[d]);

		if (fits && degree[0] * degree[1] * degree[2] / degree[d] * (degree[d] + 1) <= most)
			degree[d]++;
	}
	n = degree[0] * degree[1] * degree[2];
	*disjoint = degree[2] == 1 && !halo;
	for (uint32_t p = 0; p < n; p++) {
		uint32_t at[2] = {p / (degree[1] * degree[2]), p / degree[2] % degree[1]};

		region[p].rank = rank;
		for (uint32_t i = 0; i < rank; i++) {
			region[p].lo[i] = i < 2 ? ff_part_start(shape[i], degree[i], at[i]) : 0;
			region[p].hi[i] = i < 2 ? ff_part_start(shape[i], degree[i], at[i] + 1)
						: shape[i];
			if (halo && region[p].lo[i] > 0)
				region[p].lo[i]--;
			if (halo && region[p].hi[i] < shape[i])
				region[p].hi[i]++;
		}
		if (!ff_random_below(r, 12))
			region[p].hi[0] = region[p].lo[0]; /* a part that takes none */
	}
	return n;
}

static void for_each(const struct ff_region *r, void (*fn)(void *, const int32_t *), void *ctx)
{
	int32_t at[FF_MAX_RANK];

	if (!ff_region_volume(r))
		return;
	memcpy(at, r->lo, sizeof(at));
	for (;;) {
		uint32_t i = r->rank;

		fn(ctx, at);
		while (i && ++at[i - 1] == r->hi[i - 1]) {
			at[i - 1] = r->lo[i - 1];
			i--;
		}
		if (!i)
			return;
	}
}

struct transfer {
	const double *from;
	const struct ff_region *from_region;
	double *to;
	const struct ff_region *to_region;
	bool add;
};

static void transfer_one(void *ctx, const int32_t *at)
{
	struct transfer *t = ctx;
	double v = t->from[ff_region_offset(t->from_region, at)];
	double *to = &t->to[ff_region_offset(t->to_region, at)];

	*to = t->add ? *to + v : v;
}

static void transfer(const double *from, const struct ff_region *from_region, double *to,
		const struct ff_region *to_region, const struct ff_region *region, bool add)
{
	struct transfer t = {from, from_region, to, to_region, add};

	for_each(region, transfer_one, &t);
}

static void expect_sinks(struct world *w, bool first)
{
	for (uint32_t k = 0; k < w->sink.n; k++) {
		const struct ff_region *to = &w->region[1][k];

		memset(w->want[k], 0, sizeof(w->want[k]));
		if (!first)
			memcpy(w->want[k], w->shard[1][k], MOST * sizeof(double));
		for (uint32_t i = 0; i < w->source.n; i++) {
			struct ff_region both;

			if (ff_region_intersect(&w->region[0][i], to, &both))
				transfer(w->shard[0][i], &w->region[0][i], w->want[k], to, &both,
						true);
		}
	}
}

static void run_messages(struct world *w, const struct ff_move *mv)
{
	for (uint32_t i = 0; i < mv->n_sinks; i++)
		if (mv->fill[i])
			memset(w->shard[1][mv->sink[i]], 0, MOST * sizeof(double));
	for (int add = 0; add < 2; add++)
		for (uint32_t i = 0; i < mv->n_pieces; i++) {
			const struct ff_piece *p = &mv->piece[i];

			ck_assert_uint_eq(p->from, w->device[0][p->source]);
			ck_assert_uint_eq(p->to, w->device[1][p->sink]);
			if (p->add == add)
				transfer(w->shard[0][p->source], &w->region[0][p->source],
						w->shard[1][p->sink], &w->region[1][p->sink],
						&p->region, p->add);
		}
}

/* A collective is what its name says, whatever the regions are. */
static void run_collective(struct world *w, const struct ff_move *mv)
{
	static double whole[MOST];

	ck_assert_uint_eq(mv->n_sources, mv->n_devices);
	ck_assert_uint_eq(mv->n_sinks, mv->n_devices);
	memset(whole, 0, sizeof(whole));
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		const struct ff_region *r = &w->region[0][mv->source[i]];

		ck_assert_uint_eq(w->device[0][mv->source[i]], mv->device[i]);
		ck_assert_uint_eq(w->device[1][mv->sink[i]], mv->device[i]);
		if (mv->kind == FF_MOVE_ALL_GATHER)
			ck_assert(ff_region_equal(r, &mv->piece[i].region));
		else
			ck_assert(ff_region_equal(r, &mv->region));
		transfer(w->shard[0][mv->source[i]], r, whole, &mv->region, r,
				mv->kind != FF_MOVE_ALL_GATHER);
	}
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		const struct ff_region *r = &w->region[1][mv->sink[i]];

		if (mv->kind == FF_MOVE_REDUCE_SCATTER)
			ck_assert(ff_region_equal(r, &mv->piece[i].region));
		else
			ck_assert(ff_region_equal(r, &mv->region));
		transfer(whole, &mv->region, w->shard[1][mv->sink[i]], r, r, mv->accumulate);
	}
}

static void check_stages(const struct world *w, const struct ff_move *mv)
{
	for (uint32_t d = 0; d < mv->n_devices; d++) {
		int64_t used = 0, start;

		for (uint32_t i = 0; i < mv->n_pieces && ff_move_is_messages(mv->kind); i++) {
			const struct ff_piece *p = &mv->piece[i];
			int64_t bytes = ff_region_volume(&p->region) * FF_ELEMENT_BYTES;
			bool sends = p->from == mv->device[d] && p->from != p->to;
			bool gets = p->to == mv->device[d] && p->from != p->to;

			if (sends && p->send_stage < 0)
				ck_assert(ff_region_is_run(
						&w->region[0][p->source], &p->region, &start));
			if (gets && p->recv_stage < 0) {
				ck_assert(ff_region_is_run(
						&w->region[1][p->sink], &p->region, &start));
				ck_assert(!p->add);
			}
			if (sends && p->send_stage >= 0) {
				ck_assert_int_le(p->send_stage + bytes, mv->stage_bytes[d]);
				used += ff_align64(bytes);
			}
			if (gets && p->recv_stage >= 0) {
				ck_assert_int_le(p->recv_stage + bytes, mv->stage_bytes[d]);
				used += ff_align64(bytes);
			}
		}
		if (ff_move_is_messages(mv->kind))
			ck_assert_int_eq(used, mv->stage_bytes[d]);
	}
}

static void run_case(struct world *w, uint32_t *seen)
{
	struct ff_arena a, scratch;
	struct ff_redistribution r;
	struct ff_error err;
	bool first = ff_random_below(&w->r, 3) != 0;
	int64_t moved = 0;

	ff_arena_init(&a);
	ff_arena_init(&scratch);
	for (int side = 0; side < 2; side++)
		for (uint32_t i = 0; i < DEVICES; i++)
			for (uint32_t k = 0; k < MOST; k++)
				w->shard[side][i][k] = ff_random_below(&w->r, 1000);
	expect_sinks(w, first);
	ck_assert_int_eq(ff_redistribute(&w->source, &w->sink, first, &a, &scratch, &r, &err),
			FF_OK);
	for (uint32_t i = 0; i < r.n_moves; i++) {
		const struct ff_move *mv = &r.move[i];

		ck_assert_int_eq(mv->accumulate, !first);
		for (uint32_t d = 1; d < mv->n_devices; d++)
			ck_assert_uint_lt(mv->device[d - 1], mv->device[d]);
		seen[mv->kind]++;
		check_stages(w, mv);
		if (ff_move_is_messages(mv->kind))
			run_messages(w, mv);
		else
			run_collective(w, mv);
		moved += mv->network_bytes;
	}
	for (uint32_t k = 0; k < w->sink.n; k++) {
		const struct ff_region *to = &w->region[1][k];
		uint32_t alias = r.alias[k];

		if (alias != FF_NONE && ff_region_volume(to)) {
			ck_assert(first);
			ck_assert_uint_eq(w->device[0][alias], w->device[1][k]);
			ck_assert(ff_region_equal(&w->region[0][alias], to));
			memcpy(w->shard[1][k], w->shard[0][alias], MOST * sizeof(double));
		}
		for (int64_t i = 0; i < ff_region_volume(to); i++)
			ck_assert_msg(w->shard[1][k][i] == w->want[k][i], "sink %u element %d", k,
					(int)i);
	}
	ck_assert_int_ge(moved, 0);
	ff_arena_finish(&a);
	ff_arena_finish(&scratch);
}

START_TEST(sinks_are_sums)
{
	static struct world w;
	uint32_t seen[8] = {0};

	w.r = (struct ff_random){.seed = ff_test_seed(1)};
	for (int side = 0; side < 2; side++)
		for (uint32_t i = 0; i < DEVICES; i++)
			w.shard[side][i] = malloc(MOST * sizeof(double));
	for (int i = 0; i < 1500; i++) {
		uint32_t rank = 1 + ff_random_below(&w.r, 4);
		int32_t shape[4];

		for (uint32_t k = 0; k < rank; k++)
			shape[k] = 1 + (int32_t)ff_random_below(&w.r, 7);
		w.source = (struct ff_side){.region = w.region[0], .device = w.device[0]};
		w.sink = (struct ff_side){.region = w.region[1], .device = w.device[1]};
		w.source.n = draw_side(&w.r, shape, rank, w.region[0], &w.source.disjoint);
		w.sink.n = draw_side(&w.r, shape, rank, w.region[1], &w.sink.disjoint);
		shuffle_devices(&w.r, w.device[0]);
		/* half of the time in place, as chains of operators are */
		if (ff_random_below(&w.r, 2))
			memcpy(w.device[1], w.device[0], sizeof(w.device[1]));
		else
			shuffle_devices(&w.r, w.device[1]);
		run_case(&w, seen);
	}
	for (int k = FF_MOVE_COPY; k <= FF_MOVE_ALL_REDUCE; k++)
		ck_assert_msg(seen[k], "no case was a %s", ff_move_name((enum ff_move_kind)k));
	for (int side = 0; side < 2; side++)
		for (uint32_t i = 0; i < DEVICES; i++)
			free(w.shard[side][i]);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("redistribute");
	TCase *c = tcase_create("property");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, sinks_are_sums);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
