/* The stages of collectives by nodes.  SPDX-License-Identifier: Apache-2.0 */
#include "stages.h"

#include <stdlib.h>

#include "chunks.h"

bool ff_stages_find(const uint32_t *node_of, const struct ff_collective *x, struct ff_spread *ret)
{
	bool regular = x->kind == FF_MOVE_ALL_REDUCE || /* which has one count, for all */
		       (ff_chunks_are_even(x) && (x->kind != FF_MOVE_ALL_GATHER ||
								 ff_chunks_are_in_order(x)));

	return ff_spread_find(node_of, x->n_devices, x->device, ret) &&
	       ff_spread_has_stages(*ret, x->kind, x->reduce, x->count[0], regular);
}

/* ---- the plan ---- */

static void add(struct ff_stages *s, struct ff_stage stage)
{
	s->stage[s->n++] = stage;
}

/* The rest is less than one element a device of a node. */
static void plan_all_reduce(struct ff_stages *s)
{
	int64_t each = s->spread.each, part = s->x->count[0] / each, own = s->place * part;
	int64_t whole = each * part, rest = s->x->count[0] - whole;

	add(s, (struct ff_stage){FF_MOVE_REDUCE_SCATTER, FF_AMONG_NODE, FF_STAGE_SENT, FF_STAGE_GOT,
			       0, own, part, 0});
	add(s, (struct ff_stage){FF_MOVE_ALL_REDUCE, FF_AMONG_PLACES, FF_STAGE_GOT, FF_STAGE_GOT,
			       own, own, part, 0});
	add(s, (struct ff_stage){FF_MOVE_ALL_GATHER, FF_AMONG_NODE, FF_STAGE_GOT, FF_STAGE_GOT, own,
			       0, part, part});
	if (rest)
		add(s, (struct ff_stage){FF_MOVE_ALL_REDUCE, FF_AMONG_ALL, FF_STAGE_SENT,
				       FF_STAGE_GOT, whole, whole, rest, 0});
}

/* The chunks of equal place first, which lie a node's apart, then each node's. */
static void plan_all_gather(struct ff_stages *s)
{
	int64_t chunk = s->x->count[0], node = s->spread.each * chunk, own = s->place * chunk;

	add(s, (struct ff_stage){FF_MOVE_ALL_GATHER, FF_AMONG_PLACES, FF_STAGE_SENT, FF_STAGE_GOT,
			       0, own, chunk, node});
	for (uint32_t i = 0; i < s->spread.nodes; i++)
		add(s, (struct ff_stage){FF_MOVE_ALL_GATHER, FF_AMONG_NODE, FF_STAGE_GOT,
				       FF_STAGE_GOT, i * node + own, i * node, chunk, chunk});
}

/* Of every node's chunks that of this place, one behind the other. */
static void plan_reduce_scatter(struct ff_stages *s)
{
	int64_t chunk = s->x->count[0], node = s->spread.each * chunk;

	s->sums = s->spread.nodes * chunk;
	for (uint32_t i = 0; i < s->spread.nodes; i++)
		add(s, (struct ff_stage){FF_MOVE_REDUCE_SCATTER, FF_AMONG_NODE, FF_STAGE_SENT,
				       FF_STAGE_SUMS, i * node, i * chunk, chunk, 0});
	add(s, (struct ff_stage){FF_MOVE_REDUCE_SCATTER, FF_AMONG_PLACES, FF_STAGE_SUMS,
			       FF_STAGE_GOT, 0, 0, chunk, 0});
}

int ff_stages_init(struct ff_stages *s, const struct ff_collective *x, uint32_t me,
		struct ff_spread spread, struct ff_error *err)
{
	size_t n = x->n_devices;

	*s = (struct ff_stages){.x = x,
			.spread = spread,
			.node = me / spread.each,
			.place = me % spread.each,
			.me = me};
	/* at most four, or one a node and one more */
	s->stage = malloc((spread.nodes + 3) * sizeof(*s->stage));
	s->send = malloc(n * (2 * sizeof(void *) + 2 * sizeof(int64_t) + sizeof(uint16_t)));
	if (!s->stage || !s->send)
		return ff_fail_memory(err);
	s->recv = (void **)(s->send + n);
	s->count = (int64_t *)(s->recv + n);
	s->offset = s->count + n;
	s->device = (uint16_t *)(s->offset + n);
	if (x->kind == FF_MOVE_ALL_REDUCE)
		plan_all_reduce(s);
	else if (x->kind == FF_MOVE_ALL_GATHER)
		plan_all_gather(s);
	else
		plan_reduce_scatter(s);
	return FF_OK;
}

void ff_stages_finish(struct ff_stages *s)
{
	free(s->send);
	free(s->stage);
}

/* ---- a stage as a collective ---- */

/* Devices: so many, from the first on, a step apart. */
struct line {
	uint32_t n, first, step, me;
};

static struct line line_of(const struct ff_stages *s, enum ff_among among)
{
	uint32_t each = s->spread.each;
	const struct line node = {each, s->node * each, 1, s->place};
	const struct line places = {s->spread.nodes, s->place, each, s->node};
	const struct line all = {s->x->n_devices, 0, 1, s->me};

	return among == FF_AMONG_NODE ? node : among == FF_AMONG_PLACES ? places : all;
}

const struct ff_collective *ff_stages_tell(struct ff_stages *s, uint32_t i, char *sums)
{
	const struct ff_stage *t = &s->stage[i];
	const struct line line = line_of(s, t->among);
	const char *from[FF_STAGE_IN_COUNT] = {s->x->send[s->me], s->x->recv[s->me], sums};
	char *to[FF_STAGE_IN_COUNT] = {NULL, s->x->recv[s->me], sums};
	int64_t size = ff_dtype_bytes(s->x->type);

	for (uint32_t k = 0; k < line.n; k++) {
		s->device[k] = s->x->device[line.first + k * line.step];
		s->send[k] = NULL;
		s->recv[k] = NULL;
		s->count[k] = t->count;
		s->offset[k] = k * t->apart;
	}
	s->send[line.me] = from[t->send_in] + t->send_at * size;
	s->recv[line.me] = to[t->recv_in] + t->recv_at * size;
	s->sub = (struct ff_collective){t->kind, s->x->type, s->x->reduce, line.n, s->device,
			s->send, s->recv, s->count, s->offset};
	return &s->sub;
}
