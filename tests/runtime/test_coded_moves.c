/* Gradients that are moved compressed, against the definition: every sink, and what is not sent.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "chosen.h"
#include "coded.h"
#include "exec/messages/address.h"
#include "exec/messages/transfer.h"

#define SCENES 160

/* Kinds of messages that moves were found to have. */
struct found {
	uint32_t straight, added, whole, aside, home, accumulated;
};

/* A shard's elements on the host. */
struct shard {
	struct ff_region region;
	void *memory;
	float *at; /* what is expected of it */
};

static struct shard get_shard(const struct rig *rig, const struct ff_move *mv, uint32_t node,
		const struct ff_operand *map, const uint32_t *buffer, uint32_t part)
{
	const struct ff_node *n = &rig->schedule.graph->nodes[node];
	struct shard s = {.memory = ff_address_buffer(rig->x, buffer[part])};
	struct ff_region box;

	ff_config_box(n, &rig->schedule.config[node], part, &box);
	ff_operand_region(n, map, &box, &s.region);
	ck_assert_int_eq(mv->type, FF_F32);
	s.at = malloc((size_t)ff_region_volume(&s.region) * sizeof(float));
	return s;
}

/* Adds `from` to `to`, or copies it there, where both have `r`. */
static void combine(const uint8_t *order, const struct ff_region *r, const struct shard *from,
		const struct shard *to, bool add)
{
	int32_t at[FF_MAX_DIMS];
	uint32_t i = r->rank;

	memcpy(at, r->lo, sizeof(at));
	while (i) {
		float x = from->at[ff_region_offset(order, &from->region, at)];
		float *y = &to->at[ff_region_offset(order, &to->region, at)];

		*y = add ? *y + x : x;
		for (i = r->rank; i > 0 && ++at[i - 1] == r->hi[i - 1]; i--)
			at[i - 1] = r->lo[i - 1];
	}
}

/* What a compressed piece says, of the source's elements and what had not been sent of them,
 * `rest`, which becomes what is not. */
static void say_piece(struct coded_bench *t, const struct ff_codec *c, const uint8_t *order,
		const struct ff_piece *p, const struct shard *source, float *rest,
		struct shard *said)
{
	int64_t n = ff_coded_elements(p);
	float *values = calloc((size_t)n, sizeof(*values));
	struct shard dense = {.region = p->region, .at = values};

	combine(order, &p->region, source, &dense, false);
	*said = (struct shard){.region = p->region, .at = malloc((size_t)n * sizeof(float))};
	coded_say(t, c, n, values, rest, said->at);
	free(values);
}

/* One compressed move while it is checked. */
struct checked {
	struct coded_bench *t;
	struct rig *rig;
	const struct ff_task *task;
	const struct ff_move *mv;
	struct ff_ends ends;
	struct shard source[8], sink[8]; /* by part */
	float **rest;                    /* by piece */
};

static void draw_shard(const struct checked *m, struct ff_random *r, struct shard *s)
{
	size_t n = (size_t)ff_region_volume(&s->region);

	free(s->at);
	s->at = coded_numbers(r, (int64_t)n);
	chosen_set(m->rig->x->transfers, s->memory, s->at, n * sizeof(float));
}

/* Numbers for all that the move reads; what is not sent has zeros behind a piece. */
static void draw_move(struct checked *m, struct ff_random *r)
{
	const struct ff_move *mv = m->mv;

	for (uint32_t i = 0; i < mv->n_sources; i++) {
		uint32_t p = mv->source[i];

		m->source[p] = get_shard(m->rig, mv, m->ends.source_node, m->ends.source_map,
				m->ends.source, p);
		draw_shard(m, r, &m->source[p]);
	}
	for (uint32_t i = 0; i < mv->n_sinks; i++) {
		uint32_t p = mv->sink[i];

		m->sink[p] = get_shard(
				m->rig, mv, m->ends.sink_node, m->ends.sink_map, m->ends.sink, p);
		draw_shard(m, r, &m->sink[p]);
		if (mv->fill[i])
			memset(m->sink[p].at, 0,
					(size_t)ff_region_volume(&m->sink[p].region) *
							sizeof(float));
	}
	m->rest = calloc(mv->n_pieces, sizeof(*m->rest));
	for (uint32_t i = 0; i < mv->n_pieces; i++) {
		const struct ff_piece *p = &mv->piece[i];
		int64_t n = ff_coded_elements(p), real = ff_region_volume(&p->region);

		if (p->from == p->to)
			continue;
		m->rest[i] = coded_numbers(r, n);
		memset(m->rest[i] + real, 0, (size_t)(n - real) * sizeof(float));
		chosen_set(m->rig->x->transfers, ff_address_move_residual(m->rig->x, m->task, p),
				m->rest[i], (size_t)n * sizeof(float));
	}
}

static void note(const struct checked *m, const struct ff_piece *p, struct found *f)
{
	int64_t n = ff_region_volume(&p->region), start;
	bool run = ff_region_is_run(m->ends.source_map->order, &m->source[p->source].region,
			&p->region, &start);

	f->home += p->from == p->to;
	f->accumulated += m->mv->accumulate;
	if (p->from == p->to)
		return;
	++*(run && n % 16 == 0 ? &f->straight : &f->added);
	++*(ff_region_equal(&p->region, &m->sink[p->sink].region) ? &f->whole : &f->aside);
}

/* All that is expected of the sinks: what begins them, then what is added; whole shards that were
 * decoded behind what stays at home. */
static void define_move(struct checked *m, struct found *f)
{
	const struct ff_move *mv = m->mv;
	const uint8_t *order = m->ends.source_map->order;

	for (int turn = 0; turn < 4; turn++)
		for (uint32_t i = 0; i < mv->n_pieces; i++) {
			const struct ff_piece *p = &mv->piece[i];
			const struct shard *source = &m->source[p->source];
			const struct shard *sink = &m->sink[p->sink];
			bool home = p->from == p->to;
			bool behind = !home && ff_region_equal(&p->region, &sink->region);
			struct shard said = *source;

			if (turn != 2 * behind + p->add)
				continue;
			note(m, p, f);
			if (!home)
				say_piece(m->t, mv->codec, order, p, source, m->rest[i], &said);
			combine(order, &p->region, &said, sink, p->add);
			if (!home)
				free(said.at);
		}
}

static void compare_floats(
		const struct checked *m, const void *memory, const float *expected, int64_t n)
{
	size_t bytes = (size_t)n * sizeof(float);
	float *got = malloc(bytes);

	chosen_get(m->rig->x->transfers, got, memory, bytes);
	for (int64_t i = 0; i < n; i++)
		ck_assert_float_eq(got[i], expected[i]); /* zeros of either sign are equal */
	free(got);
}

/* To the bit, and gives back what was drawn. */
static void finish_move(struct checked *m)
{
	const struct ff_move *mv = m->mv;

	for (uint32_t i = 0; i < mv->n_sinks; i++) {
		const struct shard *s = &m->sink[mv->sink[i]];

		compare_floats(m, s->memory, s->at, ff_region_volume(&s->region));
		free(s->at);
	}
	for (uint32_t i = 0; i < mv->n_pieces; i++) {
		const struct ff_piece *p = &mv->piece[i];

		if (m->rest[i])
			compare_floats(m, ff_address_move_residual(m->rig->x, m->task, p),
					m->rest[i], ff_coded_elements(p));
		free(m->rest[i]);
	}
	for (uint32_t i = 0; i < mv->n_sources; i++)
		free(m->source[mv->source[i]].at);
	free(m->rest);
}

static void check_move(struct coded_bench *t, struct ff_random *r, struct rig *rig, uint32_t task,
		struct found *f)
{
	struct ff_transfer *transfer = rig->x->bound[task].transfer;
	struct checked m = {.t = t,
			.rig = rig,
			.task = &rig->schedule.tasks[task],
			.mv = rig->schedule.tasks[task].move};
	int64_t sent = rig->comm->sent_bytes;
	struct ff_error err;

	ff_address_ends(transfer, &m.ends);
	draw_move(&m, r);
	define_move(&m, f);
	RIG_OK(ff_transfer_issue(transfer, rig->x->transfers, &err));
	RIG_OK(rig->x->b->stream.drain(rig->x->transfers, &err));
	ck_assert_int_eq(rig->comm->sent_bytes - sent, m.mv->network_bytes);
	finish_move(&m);
}

START_TEST(moves_are_as_defined)
{
	struct ff_random r = {ff_test_seed(64), 0, 0};
	uint32_t rounds = ff_test_rounds(SCENES);
	struct found f = {0};
	struct coded_bench t;

	coded_bench_open(&t);
	for (uint32_t i = 0; i < rounds; i++) {
		struct scene s;
		struct rig rig;

		coded_scene(&s, i, 8, &r);
		coded_open(&rig, &s, coded_by(i), 1 << 20, &s.opt);
		for (uint32_t k = 0; k < rig.schedule.n_tasks; k++)
			if (rig.schedule.tasks[k].residual != FF_NONE)
				check_move(&t, &r, &rig, k, &f);
		rig_close(&rig);
		scene_close(&s);
	}
	coded_bench_close(&t);
	printf("# %u straight, %u added first, %u whole, %u aside, %u home, %u accumulated\n",
			f.straight, f.added, f.whole, f.aside, f.home, f.accumulated);
	if (rounds == SCENES)
		ck_assert(f.straight && f.added && f.whole && f.aside && f.home && f.accumulated);
}
END_TEST

/* Whether several devices make some of each element of a parameter's gradient. */
static bool is_shared(const struct rig *rig, uint32_t node)
{
	const struct ff_graph *g = rig->schedule.graph;
	const struct ff_value *v = &g->values[g->nodes[node].out];

	return rig->schedule.config[g->edges[g->uses[v->first_use]].node].n_parts > 1;
}

/* What is put is what is read back (`all`), or it is wherever some of the element is sent. */
static uint32_t check_put(struct ff_random *r, struct rig *rig, uint32_t node, bool all)
{
	const struct ff_graph *g = rig->schedule.graph;
	int64_t n = rig_volume(&g->values[g->nodes[node].out]);
	float *given = coded_numbers(r, n), *got = malloc((size_t)n * sizeof(*got));
	struct ff_error err;
	uint32_t kept = 0;

	RIG_OK(ff_executor_put_parameter(rig->x, node, FF_ARRAY_RESIDUALS, given, &err));
	RIG_OK(ff_executor_parameter(rig->x, node, FF_ARRAY_RESIDUALS, got, &err));
	for (int64_t i = 0; i < n; i++) {
		ck_assert(got[i] == given[i] || (!all && got[i] == 0));
		kept += got[i] != 0;
	}
	free(given);
	free(got);
	return kept;
}

/* A checkpoint is gone on with by whatever plan. */
START_TEST(every_plan_takes_what_was_not_sent)
{
	struct ff_random r = {ff_test_seed(65), 0, 0};
	uint32_t kept = 0;

	for (uint32_t i = 0; ff_test_goes_on(i, SCENES / 4, kept > 0); i++) {
		struct scene s;
		struct rig rig;

		coded_scene(&s, i, 4, &r);
		coded_open(&rig, &s, coded_by(i), 1 << 20, &s.opt);
		for (uint32_t k = 0; k < s.graph.n_nodes; k++)
			if (ff_node_is_parameter(&s.graph, k))
				kept += check_put(&r, &rig, k,
						i / FF_CODEC_COUNT % KINDS != RANDOM &&
								is_shared(&rig, k));
		rig_close(&rig);
		scene_close(&s);
	}
	ck_assert_uint_gt(kept, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("coded_moves");
	TCase *t = tcase_create("coded_moves");

	tcase_add_test(t, moves_are_as_defined);
	tcase_add_test(t, every_plan_takes_what_was_not_sent);
	tcase_set_timeout(t, 600);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
