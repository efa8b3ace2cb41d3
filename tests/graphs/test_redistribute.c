/* Redistribution against its definition: a sink element is the sum over all
 * partials of one replica each that covers it.  Random placements; the moves are
 * carried out here element by element.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "random_graph.h"
#include "world.h"

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
	const uint8_t *order;
	const double *from;
	const struct ff_region *from_region;
	double *to;
	const struct ff_region *to_region;
	bool add;
};

static void transfer_one(void *ctx, const int32_t *at)
{
	struct transfer *t = ctx;
	double v = t->from[ff_region_offset(t->order, t->from_region, at)];
	double *to = &t->to[ff_region_offset(t->order, t->to_region, at)];

	*to = t->add ? *to + v : v;
}

static void transfer(const struct world *w, const double *from, const struct ff_region *from_region,
		double *to, const struct ff_region *to_region, const struct ff_region *region,
		bool add)
{
	struct transfer t = {w->order, from, from_region, to, to_region, add};

	for_each(region, transfer_one, &t);
}

/* ---- the definition ---- */

/* A part before `i` that holds the same: a replica, or of sinks one with the same region; or `i`.
 */
static uint32_t like(const struct placing *p, bool sink, uint32_t i)
{
	for (uint32_t k = 0; k < i; k++)
		if (k % p->cells == i % p->cells ||
				(sink && ff_region_equal(&p->region[k], &p->region[i])))
			return k;
	return i;
}

static void fill_shards(struct world *w)
{
	for (int side = 0; side < 2; side++) {
		const struct placing *p = side ? &w->sink : &w->source;

		for (uint32_t i = 0; i < p->n_parts; i++) {
			int64_t n = ff_region_volume(&p->region[i]);
			uint32_t other = like(p, side, i);

			for (int64_t k = 0; k < n; k++)
				w->shard[side][i][k] = other == i ? ff_random_below(&w->r, 1000)
								  : w->shard[side][other][k];
		}
	}
}

static void expect_sinks(struct world *w, bool first)
{
	for (uint32_t k = 0; k < w->sink.n_parts; k++) {
		const struct ff_region *to = &w->sink.region[k];

		memset(w->want[k], 0, sizeof(w->want[k]));
		if (!first)
			memcpy(w->want[k], w->shard[1][k],
					(size_t)ff_region_volume(to) * sizeof(double));
		for (uint32_t i = 0; i < w->source.cells; i++) {
			struct ff_region both;

			if (ff_region_intersect(&w->source.region[i], to, &both))
				transfer(w, w->shard[0][i], &w->source.region[i], w->want[k], to,
						&both, true);
		}
	}
}

/* ---- carrying moves out ---- */

static void run_messages(struct world *w, const struct ff_move *mv)
{
	for (uint32_t i = 0; i < mv->n_sinks; i++)
		if (mv->fill[i])
			memset(w->shard[1][mv->sink[i]], 0, MOST * sizeof(double));
	for (int add = 0; add < 2; add++)
		for (uint32_t i = 0; i < mv->n_pieces; i++) {
			const struct ff_piece *p = &mv->piece[i];

			if (p->add == add)
				transfer(w, w->shard[0][p->source], &w->source.region[p->source],
						w->shard[1][p->sink], &w->sink.region[p->sink],
						&p->region, p->add);
		}
}

/* A collective is what its name says, whatever the regions are. */
static void run_collective(struct world *w, const struct ff_move *mv)
{
	static double whole[MOST];

	ck_assert_uint_eq(mv->n_sources, mv->joins ? 0 : mv->n_devices);
	ck_assert_uint_eq(mv->n_sinks, mv->n_devices);
	memset(whole, 0, sizeof(whole));
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		const struct ff_region *r;

		ck_assert(!mv->fill[i]);
		if (mv->joins) {
			r = &mv->piece[i].region;
			transfer(w, w->shard[1][mv->sink[i]], &mv->region, whole, &mv->region, r,
					false);
			continue;
		}
		r = &w->source.region[mv->source[i]];
		if (mv->kind == FF_MOVE_ALL_GATHER)
			ck_assert(ff_region_equal(r, &mv->piece[i].region));
		else
			ck_assert(ff_region_equal(r, &mv->region));
		transfer(w, w->shard[0][mv->source[i]], r, whole, &mv->region, r,
				mv->kind != FF_MOVE_ALL_GATHER);
	}
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		const struct ff_region *r = &w->sink.region[mv->sink[i]];

		if (mv->kind == FF_MOVE_REDUCE_SCATTER)
			ck_assert(ff_region_equal(r, &mv->piece[i].region));
		else
			ck_assert(ff_region_equal(r, &mv->region));
		transfer(w, whole, &mv->region, w->shard[1][mv->sink[i]], r, r, mv->accumulate);
	}
}

/* ---- a search asks for no pieces ---- */

static void check_same_move(const struct ff_move *x, const struct ff_move *y)
{
	bool messages = ff_move_is_messages(x->kind);

	ck_assert_int_eq(x->kind, y->kind);
	ck_assert_int_eq(x->type, y->type);
	ck_assert_int_eq(x->accumulate, y->accumulate);
	ck_assert_int_eq(x->sliced, y->sliced);
	ck_assert_int_eq(x->joins, y->joins);
	ck_assert_uint_eq(x->n_devices, y->n_devices);
	ck_assert_uint_eq(x->n_sources, y->n_sources);
	ck_assert_uint_eq(x->n_sinks, y->n_sinks);
	ck_assert_mem_eq(x->device, y->device, x->n_devices * sizeof(*x->device));
	ck_assert_int_eq(x->joins, !x->n_sources && x->kind == FF_MOVE_ALL_GATHER);
	if (x->n_sources)
		ck_assert_mem_eq(x->source, y->source, x->n_sources * sizeof(*x->source));
	ck_assert_mem_eq(x->sink, y->sink, x->n_sinks * sizeof(*x->sink));
	ck_assert_mem_eq(x->fill, y->fill, x->n_sinks * sizeof(*x->fill));
	ck_assert_mem_eq(x->stage_bytes, y->stage_bytes, x->n_devices * sizeof(*x->stage_bytes));
	ck_assert_int_eq(x->send_staged, y->send_staged);
	ck_assert_int_eq(x->recv_staged, y->recv_staged);
	ck_assert_int_eq(x->network_bytes, y->network_bytes);
	ck_assert_int_eq(x->chunk_bytes, y->chunk_bytes);
	ck_assert_int_eq(x->regular, y->regular);
	ck_assert_int_eq(x->busiest_bytes, y->busiest_bytes);
	ck_assert_int_eq(x->copied_bytes, y->copied_bytes);
	ck_assert_int_eq(x->added_bytes, y->added_bytes);
	ck_assert_int_eq(x->run_bytes, y->run_bytes);
	if (messages)
		ck_assert_mem_eq(x->traffic, y->traffic, x->n_devices * sizeof(*x->traffic));
	else
		ck_assert(ff_region_equal(&x->region, &y->region));
	ck_assert_ptr_null(y->piece);
	ck_assert_uint_eq(y->n_pieces, 0);
}

static void check_same(const struct world *w, const struct ff_redistribution *x,
		const struct ff_redistribution *y)
{
	ck_assert_uint_eq(x->n_moves, y->n_moves);
	ck_assert_mem_eq(x->alias, y->alias, w->sink.n_parts * sizeof(*x->alias));
	for (uint32_t i = 0; i < x->n_moves; i++)
		check_same_move(&x->move[i], &y->move[i]);
}

/* ---- cases ---- */

/* A sink that is a source's shard is it whole, on the same device, and does not
 * move. */
static void check_aliases(struct world *w, bool first, const uint32_t *alias, const uint32_t *sunk)
{
	for (uint32_t k = 0; k < w->sink.n_parts; k++) {
		const struct ff_region *to = &w->sink.region[k];
		uint32_t source = alias[k];

		if (source == FF_NONE || !ff_region_volume(to))
			continue;
		ck_assert(first);
		ck_assert_uint_eq(sunk[k], 0);
		ck_assert_uint_lt(source, w->source.n_parts);
		ck_assert_uint_eq(w->source.device[source], w->sink.device[k]);
		ck_assert(ff_region_equal(&w->source.region[source], to));
		memcpy(w->shard[1][k], w->shard[0][source],
				(size_t)ff_region_volume(to) * sizeof(double));
		w->aliases++;
	}
}

static void redistribute(const struct world *w, bool first, bool pieces, struct ff_arena *a,
		struct ff_arena *scratch, struct ff_redistribution *ret)
{
	struct ff_side source = {&w->source.place, w->source.device};
	struct ff_side sink = {&w->sink.place, w->sink.device};
	const struct ff_redistributor with = {&w->m, pieces, a, scratch};
	struct ff_error err = {0};

	ck_assert_int_eq(ff_redistribute(&with, &source, &sink, first, ret, &err), FF_OK);
}

/* What each sink is sent: its slice, where a gather joins them. */
static void list_slices(struct world *w, const struct ff_redistribution *r)
{
	for (uint32_t i = 0; i < r->n_moves; i++) {
		const struct ff_move *mv = &r->move[i];

		for (uint32_t k = 0; k < mv->n_devices && mv->joins; k++)
			w->sent[mv->sink[k]] = mv->piece[k].region;
		w->sliced += mv->joins;
	}
}

static void run_case(struct world *w, struct ff_arena *a)
{
	struct ff_arena scratch;
	struct ff_redistribution r, sums;
	bool first = ff_random_below(&w->r, 3) != 0;
	uint32_t sunk[DEVICES] = {0};

	ff_arena_init(&scratch);
	fill_shards(w);
	expect_sinks(w, first);
	redistribute(w, first, true, a, &scratch, &r);
	redistribute(w, first, false, a, &scratch, &sums);
	check_same(w, &r, &sums);
	list_slices(w, &r);
	for (uint32_t i = 0; i < r.n_moves; i++) {
		const struct ff_move *mv = &r.move[i];

		ck_assert_int_eq(mv->accumulate, !first && !mv->joins);
		ck_assert_int_eq(mv->type, w->source.operand.dtype);
		check_parts(w, mv, sunk);
		ck_assert(!mv->sliced || (i + 1 < r.n_moves && r.move[i + 1].joins));
		w->kinds[mv->kind]++;
		w->of_replicas[mv->kind] += w->source.config.replicas > 1;
		if (ff_move_is_messages(mv->kind)) {
			check_messages(w, mv);
			run_messages(w, mv);
		} else {
			check_collective(w, mv);
			run_collective(w, mv);
		}
	}
	check_aliases(w, first, r.alias, sunk);
	for (uint32_t k = 0; k < w->sink.n_parts; k++)
		for (int64_t i = 0; i < ff_region_volume(&w->sink.region[k]); i++)
			ck_assert_msg(w->shard[1][k][i] == w->want[k][i],
					"sink %u element %d: got %g, expected %g", k, (int)i,
					w->shard[1][k][i], w->want[k][i]);
	ff_arena_finish(&scratch);
}

static void count_seen(struct world *w)
{
	for (int side = 0; side < 2; side++) {
		const struct placing *p = side ? &w->sink : &w->source;

		for (uint32_t i = 0; i < p->n_parts; i++)
			w->idle += !ff_region_volume(&p->region[i]);
		w->replicas += p->config.replicas > 1;
		w->lead_only += p->operand.lead_only;
	}
}

/* Small enough, sources are on the first half of the devices, which may be a node, and sinks on the
 * second, as between pipeline stages. */
static void part_sides(struct world *w)
{
	for (int side = 0; side < 2; side++) {
		struct placing *p = side ? &w->sink : &w->source;

		for (uint32_t k = 0; k < DEVICES / 2; k++)
			p->device[k] = (uint16_t)(k + (side ? DEVICES / 2 : 0));
	}
}

/* Now and then the other side sees the elements as the one side does, as neighbours
 * in a chain do; half of the time it lies on the same devices. */
static void draw_case(struct world *w, uint8_t *order, struct ff_arena *a)
{
	uint32_t rank = 1 + ff_random_below(&w->r, 4);
	struct ff_error err = {0};
	int32_t shape[4];

	for (uint32_t k = 0; k < rank; k++) {
		uint32_t other = ff_random_below(&w->r, k + 1);

		shape[k] = placing_draw(&w->r, 1, 7);
		order[k] = order[other];
		order[other] = (uint8_t)k;
	}
	w->order = order;
	ck_assert_int_eq(random_machine(&w->r, DEVICES, a, &w->m, &err), FF_OK);
	placing_init(&w->source, &w->r, rank, shape, order, a);
	w->source.operand.dtype = w->source.place.type =
			(enum ff_dtype)ff_random_below(&w->r, FF_DTYPE_COUNT);
	if (ff_random_below(&w->r, 3)) {
		placing_init(&w->sink, &w->r, rank, shape, order, a);
		w->sink.operand.dtype = w->sink.place.type = w->source.place.type;
	} else
		placing_again(&w->sink, &w->source, &w->r, a);
	if (ff_random_below(&w->r, 2) && w->source.n_parts == w->sink.n_parts)
		memcpy(w->sink.device, w->source.device, sizeof(w->sink.device));
	else if (w->source.n_parts <= DEVICES / 2 && w->sink.n_parts <= DEVICES / 2)
		part_sides(w);
	count_seen(w);
}

static void open_world(struct world *w, uint64_t seed)
{
	*w = (struct world){.r = {.seed = ff_test_seed(seed)}};
	for (int side = 0; side < 2; side++)
		for (uint32_t i = 0; i < DEVICES; i++)
			w->shard[side][i] = malloc(MOST * sizeof(double));
}

static void close_world(struct world *w)
{
	for (int side = 0; side < 2; side++)
		for (uint32_t i = 0; i < DEVICES; i++)
			free(w->shard[side][i]);
}

/* The placement of an operand is its map, part by part. */
START_TEST(placements_are_regions)
{
	struct ff_random r = {.seed = ff_test_seed(2)};

	for (int round = 0; round < 3000; round++) {
		const int32_t shape[3] = {placing_draw(&r, 1, 9), placing_draw(&r, 1, 9), 2};
		struct placing p;
		struct ff_arena a;

		ff_arena_init(&a);
		placing_init(&p, &r, 1 + ff_random_below(&r, 3), shape, ff_order_plain, &a);
		ck_assert_uint_eq(p.place.n_parts, p.n_parts);
		for (uint32_t k = 0; k < p.n_parts; k++) {
			struct ff_region got;

			ff_placement_region(&p.place, k, &got);
			ck_assert_uint_eq(got.rank, p.region[k].rank);
			ck_assert_int_eq(ff_region_volume(&got), ff_region_volume(&p.region[k]));
			if (ff_region_volume(&got))
				ck_assert(ff_region_equal(&got, &p.region[k]));
			ck_assert_uint_eq(p.device[k], ff_config_device(&p.node, &p.config, k));
		}
		ff_arena_finish(&a);
	}
}
END_TEST

START_TEST(sinks_are_sums)
{
	static struct world w;

	open_world(&w, 1);
	for (int i = 0; i < 6000; i++) {
		uint8_t order[FF_MAX_RANK];
		struct ff_arena a;

		ff_arena_init(&a);
		draw_case(&w, order, &a);
		run_case(&w, &a);
		ff_arena_finish(&a);
	}
	for (int k = FF_MOVE_COPY; k <= FF_MOVE_ALL_REDUCE; k++) {
		printf("# %u %s\n", w.kinds[k], ff_move_name((enum ff_move_kind)k));
		ck_assert_msg(w.kinds[k], "no case was a %s", ff_move_name((enum ff_move_kind)k));
	}
	ck_assert_uint_gt(w.aliases, 0);
	ck_assert_uint_gt(w.idle, 0);
	ck_assert_uint_gt(w.replicas, 0);
	ck_assert_uint_gt(w.of_replicas[FF_MOVE_ALL_GATHER], 0);
	ck_assert_uint_gt(w.of_replicas[FF_MOVE_ALL_REDUCE], 0);
	ck_assert_uint_gt(w.lead_only, 0);
	ck_assert_uint_gt(w.sliced, 0);
	printf("# %u joined\n", w.sliced);
	close_world(&w);
}
END_TEST

/* A vector on `cells` times `replicas` devices: partial sums, or cut in `cells`. */
static void place_vector(struct placing *p, int32_t extent, bool partial, uint32_t cells,
		uint32_t replicas, const uint16_t *device, struct ff_arena *a)
{
	const uint8_t dim = partial;

	*p = (struct placing){.node = {.name = "node"}};
	p->operand.rank = 1;
	p->operand.shape[0] = extent;
	placing_dim(p, FF_DIM_PARAMETER, extent);
	placing_dim(p, FF_DIM_REDUCTION, 7);
	p->operand.axis[0] = (struct ff_axis_map){.n_terms = 1, .window = 1, .term = {{0, 1, 1}}};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		p->config.degree[d] = 1;
	p->config.degree[dim] = (uint16_t)cells;
	p->config.replicas = (uint16_t)replicas;
	p->config.n_parts = cells * replicas;
	p->config.list = device;
	placing_settle(p, a);
}

/* Partial sums that replicas have are scattered among the devices of each, unless its sinks are not
 * all there. */
START_TEST(replicas_scatter)
{
	static const uint16_t apart[] = {5, 3, 0, 1, 6, 2};
	static struct world w;

	open_world(&w, 3);
	for (uint32_t cells = 2; cells <= 3; cells++)
		for (int k = 0; k < 2; k++) {
			uint32_t replicas = 6 / cells;
			uint16_t across[] = {5, 3, 0, 1, 6, 2};
			struct ff_error err = {0};
			struct ff_arena a;

			/* the first two copies of the first cell beside one replica */
			across[1] = apart[cells];
			across[cells] = apart[1];
			ff_arena_init(&a);
			ck_assert_int_eq(random_machine(&w.r, DEVICES, &a, &w.m, &err), FF_OK);
			w.order = ff_order_plain;
			place_vector(&w.source, 7, true, cells, replicas, apart, &a);
			place_vector(&w.sink, 7, false, cells, replicas, k ? across : apart, &a);
			memset(w.kinds, 0, sizeof(w.kinds));
			run_case(&w, &a);
			ck_assert_uint_eq(w.kinds[FF_MOVE_REDUCE_SCATTER], k ? 0 : replicas);
			ff_arena_finish(&a);
		}
	close_world(&w);
}
END_TEST

/* Bytes between nodes; what is sliced needs no stage. */
static int64_t between_nodes(const struct ff_redistribution *r)
{
	int64_t bytes = 0;

	for (uint32_t i = 0; i < r->n_moves; i++)
		for (uint32_t d = 0; d < r->move[i].n_devices; d++) {
			const struct ff_move *mv = &r->move[i];

			bytes += ff_move_is_messages(mv->kind) ? mv->traffic[d].sent_outside : 0;
			if (mv->sliced || mv->joins)
				ck_assert_int_eq(mv->stage_bytes[d], 0);
		}
	return bytes;
}

/* From replicas on one node to replicas on another: once over the network where the links inside
 * are faster, the vector can be cut and no node has both sides, else once for each sink. */
START_TEST(slices_go_where_they_pay)
{
	static const struct {
		int32_t extent;
		uint32_t sources, sinks;
		double latency_us, inside, network;
		bool shared;    /* one link for all of a node */
		uint16_t first; /* device of a sink */
		bool sliced;
	} cases[] = {
			{4096, 4, 4, 1, 1e4, 1e3, false, 4, true},
			{4096, 1, 4, 1, 1e4, 1e3, false, 4, true},
			{4096, 2, 4, 1, 1e4, 1e3, true, 4, true},
			{4096, 4, 2, 1, 1e4, 1e3, false, 6, true},
			{4096, 4, 4, 1, 1e3, 1e3, false, 4, true},
			{4096, 4, 4, 1, 1e3, 1e3, true, 4, false},   /* slower by their latency */
			{4096, 4, 4, 20, 1e4, 1e3, false, 4, false}, /* likewise */
			{4096, 4, 4, 1, 2e2, 1e3, false, 4, false},
			{4094, 4, 4, 1, 1e4, 1e3, false, 4, false},
			{4096, 4, 3, 1, 1e4, 1e3, false, 4, false},
			{4096, 3, 3, 1, 1e4, 1e3, false, 3, false},
			{3, 3, 3, 0.001, 1e4, 1e3, false, 5, true},
	};
	static const uint16_t device[] = {0, 1, 2, 3, 4, 5, 6, 7};
	static struct world w;

	open_world(&w, 4);
	w.order = ff_order_plain;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int64_t bytes = cases[i].extent * FF_F32_BYTES;
		struct ff_arena a, scratch;
		struct ff_redistribution r;
		struct ff_error err = {0};

		ff_arena_init(&a);
		ff_arena_init(&scratch);
		do
			ck_assert_int_eq(random_machine(&w.r, DEVICES, &a, &w.m, &err), FF_OK);
		while (w.m.n_nodes < 2);
		for (int k = 0; k < 2; k++) {
			w.m.nodes[k].inside = (struct ff_link){
					cases[i].latency_us, cases[i].inside, cases[i].shared};
			w.m.nodes[k].network = (struct ff_link){5, cases[i].network, true};
		}
		place_vector(&w.source, cases[i].extent, false, 1, cases[i].sources, device, &a);
		place_vector(&w.sink, cases[i].extent, false, 1, cases[i].sinks,
				device + cases[i].first, &a);
		w.sliced = 0;
		run_case(&w, &a);
		ck_assert_msg((w.sliced > 0) == cases[i].sliced, "case %zu", i);
		if (cases[i].sliced) {
			redistribute(&w, true, true, &a, &scratch, &r);
			ck_assert_int_eq(between_nodes(&r), bytes);
		}
		ff_arena_finish(&scratch);
		ff_arena_finish(&a);
	}
	close_world(&w);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("redistribute");
	TCase *c = tcase_create("property");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, placements_are_regions);
	tcase_add_test(c, sinks_are_sums);
	tcase_add_test(c, replicas_scatter);
	tcase_add_test(c, slices_go_where_they_pay);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
