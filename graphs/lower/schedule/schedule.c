/* What schedules say of their tasks, and the hash by which ranks find out that they agree on
 * the schedule.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/schedule.h"

#include "ff/hash.h"

void ff_task_work(const struct ff_schedule *s, const struct ff_task *t, struct ff_work *ret)
{
	struct ff_region box;

	ff_config_box(&s->graph->nodes[t->node], &s->config[t->node], t->part, &box);
	ff_work_fill(s->graph, t->node, &box, ff_task_pass(t), ret);
	ff_work_keep(ret, t->grads);
}

struct hash {
	uint64_t h;
};

static void mix(struct hash *h, uint64_t v)
{
	h->h = ff_hash_mix(h->h, v);
}

static void mix_region(struct hash *h, const struct ff_region *r)
{
	mix(h, r->rank);
	for (uint32_t i = 0; i < r->rank; i++) {
		mix(h, (uint32_t)r->lo[i]);
		mix(h, (uint32_t)r->hi[i]);
	}
}

static void mix_move(struct hash *h, const struct ff_move *mv)
{
	mix(h, (uint64_t)mv->type << 16 | (uint64_t)mv->kind << 8 | (uint64_t)mv->reduce << 1 |
					mv->accumulate);
	mix(h, (uint64_t)mv->n_devices << 32 | mv->n_pieces);
	mix(h, (uint64_t)mv->n_sources << 32 | mv->n_sinks);
	mix(h, (uint64_t)mv->network_bytes);
	mix(h, (uint64_t)mv->send_staged << 1 | mv->recv_staged);
	if (mv->codec)
		mix(h, mv->codec->id);
	mix_region(h, &mv->region);
	for (uint32_t i = 0; i < mv->n_devices; i++)
		mix(h, mv->device[i]);
	for (uint32_t i = 0; i < mv->n_sources; i++)
		mix(h, mv->source[i]);
	for (uint32_t i = 0; i < mv->n_sinks; i++)
		mix(h, (uint64_t)mv->sink[i] << 1 | mv->fill[i]);
	for (uint32_t i = 0; i < mv->n_pieces; i++) {
		const struct ff_piece *p = &mv->piece[i];

		mix(h, (uint64_t)p->from << 32 | p->to);
		mix(h, (uint64_t)p->source << 32 | (uint64_t)p->sink << 1 | p->add);
		mix(h, (uint64_t)p->send_stage);
		mix(h, (uint64_t)p->recv_stage);
		mix_region(h, &p->region);
	}
}

/* What a task does: a part forward or backward, a move of an edge or of a bucket, or else what it
 * computes. */
static uint32_t number_of(const struct ff_task *t)
{
	if (t->move)
		return 2 + ff_task_moves_bucket(t);
	return t->compute == FF_COMPUTE_PART ? ff_task_pass(t) : 3 + t->compute;
}

static void mix_task(struct hash *h, const struct ff_schedule *s, const struct ff_task *t)
{
	mix(h, (uint64_t)t->micro << 8 | (t->phase == FF_PHASE_RECOMPUTE ? 128u : 0) |
					number_of(t) << 1 | ff_task_pass(t));
	if (t->grads)
		mix(h, t->grads);
	mix(h, (uint64_t)t->node << 32 | t->part);
	mix(h, (uint64_t)t->device << 32 | t->edge);
	mix(h, (uint64_t)t->bucket << 32 | t->stage);
	for (uint32_t k = 0; k < t->n_lanes; k++)
		mix(h, s->lanes[t->first_lane + k]);
	for (uint32_t k = 0; k < t->n_deps; k++)
		mix(h, s->deps[t->first_dep + k]);
	if (ff_task_moves_edge(t)) /* others have what their bucket says */
		mix_move(h, t->move);
}

/* How gradients are summed, where not by plain all-reduces of each bucket. */
static void mix_buckets(struct hash *h, const struct ff_schedule *s)
{
	for (uint32_t i = 0; i < s->n_buckets; i++) {
		const struct ff_bucket *b = &s->buckets[i];
		uint32_t kind = b->dropped + 2u * (b->scattered && !b->dropped);

		if (b->codec)
			mix(h, (uint64_t)i << 32 | b->codec->id);
		else if (b->flat)
			mix(h, (uint64_t)i << 32 | (FF_NONE - kind));
	}
	for (uint32_t i = 0; i < s->n_buckets; i++)
		if (s->buckets[i].flat && ff_bucket_groups(&s->buckets[i]) > 1)
			mix(h, (uint64_t)i << 32 | s->buckets[i].runs);
}

static void mix_shard(struct hash *h, const struct ff_shard *s)
{
	mix(h, (uint64_t)s->bucket << 32 | s->node);
	mix(h, (uint64_t)s->offset);
	mix(h, s->group);
	if (s->sparse_rows)
		mix(h, (uint64_t)s->sparse_rows);
	mix_region(h, &s->region);
}

uint64_t ff_schedule_hash(const struct ff_schedule *s)
{
	struct hash h = {0};

	mix(&h, s->graph->hash);
	mix(&h, (uint64_t)s->optimizer->id << 32 | s->optimizer->states);
	if (s->clip != FF_NONE)
		mix(&h, s->clip);
	for (uint32_t i = 0; i < s->n_tasks; i++)
		mix_task(&h, s, &s->tasks[i]);
	for (uint32_t i = 0; i < s->n_buffers; i++) {
		mix(&h, s->buffers[i].device);
		mix(&h, (uint64_t)s->buffers[i].offset);
		mix(&h, (uint64_t)s->buffers[i].bytes);
	}
	if (s->travel.average_every)
		mix(&h, s->travel.average_every);
	if (s->travel.staleness)
		mix(&h, s->travel.staleness);
	mix_buckets(&h, s);
	for (uint32_t i = 0; i < s->graph->n_edges; i++)
		mix(&h, (uint64_t)s->added[i] << 1 | s->accumulate[i]);
	for (uint32_t i = 0; i < s->n_shards; i++)
		mix_shard(&h, &s->shards[i]);
	for (uint32_t d = 0; d < s->machine->n_devices; d++)
		mix(&h, (uint64_t)s->memory_bytes[d]);
	return h.h;
}
