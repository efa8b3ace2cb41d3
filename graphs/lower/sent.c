/* What a step sends: a sink of the walk that adds up bytes and keeps no task.  Where equal devices
 * are lowered once, moves of the others have none.  SPDX-License-Identifier: Apache-2.0 */
#include "sent.h"

#include "ff/saturate.h"
#include "updates.h"

struct count {
	struct ff_lowering *l;
	bool waits[FF_PREFETCH_DISTANCE]; /* of any device: nobody reads them */
};

/* Whether a task is done: nobody asks. */
#define FF_WALK struct count
#define FF_WALK_MOVE struct ff_move
#define FF_WALK_TASK bool
#define FF_WALK_DONE bool
#define FF_WALK_START false
#include "ff/walk.h"

/* ---- what the walk reads ---- */

#define SINK_LOWERING(w) ((w)->l)
#include "lower/state/sink_reads.inc"

static inline bool sink_overlaps(const struct count *c)
{
	(void)c;
	return false; /* who waits for what sends nothing */
}

static inline bool sink_passes(const struct count *c)
{
	(void)c;
	return false;
}

static inline bool sink_is_shared(const struct count *c, uint32_t edge)
{
	(void)c, (void)edge;
	return false;
}

static inline bool sink_shares(const struct count *c, uint32_t edge, uint32_t other)
{
	(void)c, (void)edge, (void)other;
	return false;
}

static inline bool *sink_limited(struct count *c, uint32_t device)
{
	(void)device;
	return c->waits;
}

static inline bool sink_computed(const struct count *c, const struct ff_step *s, uint32_t part)
{
	(void)c, (void)s, (void)part;
	return true;
}

/* ---- what is sent ---- */

static inline bool sink_begin_move(
		struct count *c, const struct ff_step *s, const struct ff_move *mv)
{
	(void)s;
	c->l->r.network_bytes = ff_sat_add(c->l->r.network_bytes, mv->network_bytes);
	return true;
}

static void add_bucket(
		struct count *c, const struct ff_step *s, const struct ff_bucket *b, bool across)
{
	struct ff_move mv = ff_updates_move(c->l, b, ff_phase_pass(s->phase), across);
	int64_t *sum = b->averaged ? &c->l->r.averaged_bytes : &c->l->r.network_bytes;

	*sum = ff_sat_add(*sum, mv.network_bytes);
}

static inline bool sink_begin_sync(struct count *c, const struct ff_step *s, uint32_t bucket)
{
	struct ff_bucket b = ff_updates_bucket(c->l, bucket);

	add_bucket(c, s, &b, false);
	return true;
}

static inline bool sink_begin_across(struct count *c, const struct ff_step *s, uint32_t bucket)
{
	struct ff_bucket b = ff_updates_bucket(c->l, bucket);

	add_bucket(c, s, &b, true);
	return true;
}

static inline bool sink_begin_gather(struct count *c, const struct ff_step *s, uint32_t bucket)
{
	return sink_begin_sync(c, s, bucket);
}

/* The norm is summed among all devices that update something. */
static void add_norm(struct count *c, const struct ff_step *s)
{
	const struct ff_bucketing *all = &c->l->buckets;
	struct ff_bucket norm = ff_updates_norm(c->l);
	bool updates[FF_MAX_DEVICES] = {false};

	for (uint32_t i = 0; i < all->n_buckets; i++)
		for (uint32_t d = 0; d < all->bucket[i].n_devices; d++)
			updates[all->bucket[i].device[d]] = true;
	for (uint32_t d = 0; d < c->l->m->n_devices; d++)
		norm.n_devices += updates[d];
	if (norm.n_devices > 1)
		add_bucket(c, s, &norm, false);
}

static inline int sink_update(struct count *c, const struct ff_step *s, struct ff_error *err)
{
	(void)err;
	if (ff_lowering_clips(c->l) && c->l->buckets.n_buckets)
		add_norm(c, s);
	for (uint32_t i = 0; i < c->l->buckets.n_buckets; i++) {
		struct ff_bucket b = ff_updates_bucket(c->l, i);

		if (b.averaged)
			add_bucket(c, s, &b, false);
	}
	return FF_OK;
}

/* ---- nobody waits ---- */

static inline int sink_begin_step(struct count *c, const struct ff_step *s, struct ff_error *err)
{
	(void)c, (void)s, (void)err;
	return FF_OK;
}

static inline void sink_wait(struct count *c, bool *t, bool done)
{
	(void)c, (void)t, (void)done;
}

static inline void sink_wait_sources(struct count *c, bool *t, enum ff_phase phase, uint32_t micro,
		uint32_t node, const struct ff_move *mv)
{
	(void)c, (void)t, (void)phase, (void)micro, (void)node, (void)mv;
}

static inline void sink_wait_late(struct count *c, bool *t, const struct ff_step *s)
{
	(void)c, (void)t, (void)s;
}

static inline void sink_wait_written(
		struct count *c, bool *t, uint32_t value, uint32_t micro, const struct ff_move *mv)
{
	(void)c, (void)t, (void)value, (void)micro, (void)mv;
}

static inline void sink_wait_members(
		struct count *c, bool *t, const struct ff_step *s, uint32_t bucket)
{
	(void)c, (void)t, (void)s, (void)bucket;
}

static inline bool sink_end_move(struct count *c, bool *t)
{
	(void)c;
	return *t;
}

static inline bool sink_end_bucket(struct count *c, bool *t)
{
	(void)c;
	return *t;
}

static inline int sink_begin_compute(struct count *c, const struct ff_step *s, struct ff_error *err)
{
	(void)c, (void)s, (void)err;
	return FF_OK;
}

static inline void sink_compute_all(struct count *c, const struct ff_step *s)
{
	(void)c, (void)s;
}

static inline void sink_compute_part(struct count *c, const struct ff_step *s, uint32_t part)
{
	(void)c, (void)s, (void)part;
}

static inline void sink_end_compute(struct count *c, const struct ff_step *s)
{
	(void)c, (void)s;
}

static inline void sink_arrive(struct count *c, bool done, enum ff_phase phase, uint32_t micro,
		uint32_t node, const struct ff_move *mv)
{
	(void)c, (void)done, (void)phase, (void)micro, (void)node, (void)mv;
}

static inline void sink_leave(struct count *c, bool done, uint32_t param, const struct ff_move *mv)
{
	(void)c, (void)done, (void)param, (void)mv;
}

static inline void sink_replace(struct count *c, bool done, const struct ff_step *s,
		uint32_t prelude, const struct ff_move *mv)
{
	(void)c, (void)done, (void)s, (void)prelude, (void)mv;
}

static inline void sink_arrive_weights(struct count *c, bool done, enum ff_phase phase,
		uint32_t micro, uint32_t edge, const struct ff_bucket_member *m)
{
	(void)c, (void)done, (void)phase, (void)micro, (void)edge, (void)m;
}

static inline void sink_synced(struct count *c, uint32_t bucket, bool done)
{
	(void)c, (void)bucket, (void)done;
}

void ff_sent_find(struct ff_lowering *l)
{
	struct count c = {.l = l};

	for (uint32_t i = 0; i < l->program.n; i++)
		walk_step(&c, &l->program.step[i], NULL);
}
