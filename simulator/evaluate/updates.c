/* When parameters are updated: bucket by bucket, on each device in the order in which they were
 * opened (docs/schedule.md).  Those whose gradients are brought to one device each are many, and
 * no device knows another's; so they are not listed with their members, as others are, but
 * filled as the parameters come by.  SPDX-License-Identifier: Apache-2.0 */
#include "trial.h"

#include <string.h>

#include "ff/bucket_layout.h"
#include "ff/clones.h"
#include "ff/grow.h"

int ff_updates_create(struct ff_trial *e, struct ff_error *err)
{
	struct ff_updates *u = &e->times.updates;

	u->open = ff_arena_array(&e->arena, e->m->n_devices, sizeof(*u->open));
	u->device = ff_arena_array(&e->arena, e->m->n_devices, sizeof(*u->device));
	u->packed = ff_arena_array(&e->arena, e->m->n_devices, sizeof(*u->packed));
	return u->open && u->device && u->packed ? FF_OK : ff_fail_memory(err);
}

static double later(double a, double b)
{
	return a > b ? a : b;
}

/* The bucket of `device` that is being filled is full, or the last. */
static int close_single(struct ff_updates *u, uint32_t device, struct ff_error *err)
{
	struct ff_open_bucket *o = &u->open[device];
	int code = ff_grow(&u->single, u->n, &u->cap, sizeof(*u->single), err);

	if (code < 0)
		return code;
	u->single[u->n] = (struct ff_single_bucket){.device = device,
			.opened = o->opened,
			.next = FF_NONE,
			.bytes = o->bytes,
			.at = o->at};
	if (o->first == FF_NONE)
		o->first = u->n;
	else
		u->single[o->last].next = u->n;
	o->last = u->n++;
	o->opened = FF_NONE;
	return FF_OK;
}

/* One parameter's shards: `ready` is when their gradients were brought, by part, and they
 * themselves to who reads them. */
static int fill_singles(struct ff_updates *u, const struct ff_memo_rest *r, uint32_t number,
		int64_t bucket_bytes, const double *ready, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t k = 0; k < r->n_cells && code == FF_OK; k++) {
		const struct ff_memo_cell *c = &r->cell[k];
		struct ff_open_bucket *o = &u->open[c->device];

		if (o->opened == FF_NONE) {
			o->opened = number;
			o->bytes = 0;
			o->at = 0;
		}
		o->at = later(o->at, ready[c->part]);
		o->bytes += c->bytes;
		if (o->bytes >= bucket_bytes)
			code = close_single(u, c->device, err);
	}
	return code;
}

static int find_singles(struct ff_trial *e, int64_t bucket_bytes, struct ff_error *err)
{
	struct ff_updates *u = &e->times.updates;
	uint32_t micro = e->order.program.micro_batches - 1;
	int code = FF_OK;

	u->n = 0;
	for (uint32_t d = 0; d < e->m->n_devices; d++)
		u->open[d].opened = u->open[d].first = FF_NONE;
	for (uint32_t i = 0; i < e->order.n_completing && code == FF_OK; i++) {
		uint32_t param = e->order.completing[i].param;

		if (!e->placed.synced[param])
			code = fill_singles(u, e->placed.node[param]->rest, i, bucket_bytes,
					ff_timed_ready(&e->times.node[FF_PHASE_BACKWARD][param],
							micro),
					err);
	}
	for (uint32_t d = 0; d < e->m->n_devices && code == FF_OK; d++)
		if (u->open[d].opened != FF_NONE)
			code = close_single(u, d, err);
	return code;
}

/* When the gradients of a bucket's members were brought to its device number `d`, and
 * they themselves to who reads them. */
static double brought_us(const struct ff_trial *e, const struct ff_bucketing *all,
		const struct ff_bucket_build *b, uint32_t d)
{
	double at = 0;

	for (uint32_t i = b->first; i != FF_NONE; i = all->member[i].next) {
		const struct ff_bucket_member *m = &all->member[i];
		const double *ready = ff_timed_ready(&e->times.node[FF_PHASE_BACKWARD][m->param],
				e->order.program.micro_batches - 1);

		at = later(at, ready[m->group->part[d]]);
	}
	return at;
}

/* The number of the parameter that opened bucket `i`, or FF_NONE behind the last. */
static uint32_t opened_by(const struct ff_trial *e, const struct ff_bucketing *b, uint32_t i)
{
	return i < b->n_buckets ? e->order.completes_at[b->member[b->bucket[i].first].param]
				: FF_NONE;
}

/* An update, or a norm, while the walk tells it. */
struct timed_update {
	uint32_t device;
	double from, us;
};

/* A bucket: one of several devices, or what one device has alone. */
struct timed_update_bucket {
	const struct ff_bucketing *all; /* NULL: alone */
	uint32_t index;
	const struct ff_single_bucket *single;
	double us[2]; /* of its first device: an update, a norm */
};

#define FF_WALK struct ff_trial
#define FF_WALK_TASK struct timed_update
#define FF_WALK_DONE double
#define FF_WALK_START 0.0
#define FF_WALK_BUCKET struct timed_update_bucket
#include "ff/walk_updates.h"

static inline bool sink_clips(const struct ff_trial *e)
{
	return ff_price_clips(e->p);
}

/* What is averaged, or late, is simulated, not searched. */
static inline bool sink_is_late(const struct ff_trial *e)
{
	(void)e;
	return false;
}

static inline void sink_average(struct ff_trial *e)
{
	(void)e;
}

static bool is_synced(const struct timed_update_bucket *b)
{
	return b->all && b->all->bucket[b->index].way.synced;
}

static inline bool sink_is_summed(const struct ff_trial *e, const struct timed_update_bucket *b)
{
	(void)e;
	return is_synced(b) && b->all->bucket[b->index].n_devices > 1;
}

static inline double sink_summed(const struct ff_trial *e, const struct timed_update_bucket *b)
{
	return is_synced(b) ? ff_trial_gathered(e)->timed[b->index].done_us : 0;
}

/* Those of a synchronised bucket of one device stand before the update on its lane. */
static inline void sink_wait_gradients(struct ff_trial *e, struct timed_update *t,
		const struct timed_update_bucket *b, uint32_t position)
{
	if (!b->all)
		t->from = later(t->from, b->single->at);
	else if (!b->all->bucket[b->index].way.synced)
		t->from = later(t->from,
				brought_us(e, b->all, &b->all->bucket[b->index], position));
}

static double price(const struct ff_trial *e, const struct ff_bucket_build *k, uint32_t device,
		bool norm)
{
	return norm ? ff_price_copied(e->p, device, k->bytes / k->n_devices)
		    : ff_gathered_update_us(e, k, device);
}

static double price_single(const struct ff_trial *e, const struct ff_single_bucket *b, bool norm)
{
	return norm ? ff_price_copied(e->p, b->device, b->bytes)
		    : ff_price_update(e->p, b->device, b->bytes);
}

static inline struct timed_update sink_begin_update(struct ff_trial *e, const struct walk_round *r,
		const struct timed_update_bucket *b, uint32_t position)
{
	const struct ff_bucket_build *k = b->all ? &b->all->bucket[b->index] : NULL;
	struct timed_update t = {.device = k ? k->device[position] : b->single->device};

	if (!k)
		t.us = price_single(e, b->single, r->norm);
	else if (position && e->m->n_kinds == 1)
		t.us = b->us[r->norm];
	else
		t.us = price(e, k, t.device, r->norm);
	return t;
}

static inline void sink_wait(struct ff_trial *e, struct timed_update *t, double done)
{
	(void)e;
	t->from = later(t->from, done);
}

/* Compute lanes are numbered as devices are. */
static inline void sink_end_update(struct ff_trial *e, struct timed_update *t)
{
	e->times.lane[t->device] = later(e->times.lane[t->device], t->from) + t->us;
}

/* Those of one device alone that were opened before parameter number `until`. */
static void update_singles(
		struct ff_trial *e, const struct walk_round *r, uint32_t device, uint32_t until)
{
	struct ff_updates *u = &e->times.updates;
	uint32_t *next = &u->open[device].next;

	for (; *next != FF_NONE && u->single[*next].opened < until; *next = u->single[*next].next) {
		struct timed_update_bucket b = {.single = &u->single[*next]};

		walk_update(e, r, &b, 0);
	}
}

/* From `from` on, each for so long, on neighbours. */
FF_CLONES static void update_row(uint32_t n, double from, double us, double *lane)
{
	for (uint32_t i = 0; i < n; i++)
		lane[i] = (lane[i] > from ? lane[i] : from) + us;
}

/* Whether a bucket of neighbours that wait for its sum alone is updated at once. */
static bool update_alike(struct ff_trial *e, const struct walk_round *r,
		const struct timed_update_bucket *b, double us)
{
	const struct ff_bucket_build *k = &b->all->bucket[b->index];

	if (e->m->n_kinds > 1 || !sink_is_summed(e, b) ||
			k->device[k->n_devices - 1] - k->device[0] != (int)k->n_devices - 1)
		return false;
	update_row(k->n_devices, later(sink_summed(e, b), r->after), us,
			e->times.lane + k->device[0]);
	return true;
}

static void update_bucket(struct ff_trial *e, const struct walk_round *r,
		const struct ff_bucketing *all, uint32_t i)
{
	const struct ff_bucket_build *k = &all->bucket[i];
	const struct ff_gathered *g = ff_trial_gathered(e);
	struct timed_update_bucket b = {.all = all, .index = i};
	uint32_t opened = opened_by(e, all, i);

	b.us[r->norm] = !r->norm && all == &g->synced ? g->timed[i].update_us
						      : price(e, k, k->device[0], r->norm);
	for (uint32_t d = 0; d < k->n_devices && e->times.updates.n; d++)
		update_singles(e, r, k->device[d], opened);
	if (update_alike(e, r, &b, b.us[r->norm]))
		return;
	for (uint32_t d = 0; d < k->n_devices; d++)
		walk_update(e, r, &b, d);
}

static void sink_each_bucket(struct ff_trial *e, const struct walk_round *r)
{
	const struct ff_gathered *g = ff_trial_gathered(e);
	uint32_t i = 0, k = 0;

	for (uint32_t d = 0; d < e->m->n_devices; d++)
		e->times.updates.open[d].next = e->times.updates.open[d].first;
	while (i < g->synced.n_buckets || k < g->brought.n_buckets) {
		if (opened_by(e, &g->synced, i) < opened_by(e, &g->brought, k))
			update_bucket(e, r, &g->synced, i++);
		else
			update_bucket(e, r, &g->brought, k++);
	}
	for (uint32_t d = 0; d < e->m->n_devices; d++)
		update_singles(e, r, d, FF_NONE);
}

/* Devices that update something, ascending. */
static uint32_t find_devices(
		const struct ff_trial *e, const struct ff_gathered *g, uint16_t *device)
{
	const struct ff_bucketing *all[] = {&g->synced, &g->brought};
	bool updates[FF_MAX_DEVICES] = {false};
	uint32_t n = 0;

	for (uint32_t k = 0; k < 2; k++)
		for (uint32_t i = 0; i < all[k]->n_buckets; i++)
			for (uint32_t d = 0; d < all[k]->bucket[i].n_devices; d++)
				updates[all[k]->bucket[i].device[d]] = true;
	for (uint32_t d = 0; d < e->m->n_devices; d++)
		if (updates[d] || e->times.updates.open[d].first != FF_NONE)
			device[n++] = (uint16_t)d;
	return n;
}

/* The norm's bucket has one number. */
static double sink_sum_norms(struct ff_trial *e)
{
	const uint16_t *device = e->times.updates.device;
	uint32_t n = find_devices(e, ff_trial_gathered(e), e->times.updates.device), lanes;
	double at = 0, us;

	if (n < 2)
		return 0; /* the same lane as the updates */
	lanes = ff_transfer_lanes(e->m, n, device, e->times.sync_lane);
	for (uint32_t k = 0; k < lanes; k++)
		at = later(at, e->times.lane[e->times.sync_lane[k]]);
	for (uint32_t k = 0; k < n; k++)
		at = later(at, e->times.lane[device[k]]);
	us = ff_price_sync(e->p, n, device, ff_optimizer_align(e->g->dtype, 1));
	at += us;
	for (uint32_t k = 0; k < lanes; k++)
		e->times.lane[e->times.sync_lane[k]] = at;
	us = ff_price_beside(e->p, n, device, us);
	for (uint32_t k = 0; k < n; k++)
		e->times.lane[device[k]] += us;
	return at;
}

int ff_updates_find(struct ff_trial *e, struct ff_error *err)
{
	struct ff_gathered *g;
	int code = ff_trial_gather(e, true, &g, err);

	return code == FF_OK ? find_singles(e, g->brought.bucket_bytes, err) : code;
}

int ff_updates_time(struct ff_trial *e, struct ff_error *err)
{
	int code = ff_updates_find(e, err);

	if (code == FF_OK)
		walk_updates(e);
	return code;
}

/* Weights, gradients and states of some buckets. */
static void count_buckets(const struct ff_trial *e, const struct ff_bucketing *b, int64_t *bytes)
{
	const struct ff_optimizer *o = ff_price_optimizer(e->p);

	for (uint32_t i = 0; i < b->n_buckets; i++) {
		const struct ff_bucket_build *k = &b->bucket[i];
		struct ff_bucket_extent x = ff_bucket_extent(k->bytes, k->way.runs,
				k->way.scattered, k->way.dropped, &k->sparse);

		for (uint32_t d = 0; d < k->n_devices; d++)
			bytes[k->device[d]] += ff_bucket_layout(o, e->g->dtype, x).end;
	}
}

/* What compressing gradients takes: of every bucket what was not sent, of the largest what is. */
static void count_packed(const struct ff_trial *e, const struct ff_bucketing *b, int64_t *bytes)
{
	const struct ff_codec *c = ff_price_codec(e->p);
	int64_t *packed = e->times.updates.packed;

	if (!c)
		return;
	memset(packed, 0, e->m->n_devices * sizeof(*packed));
	for (uint32_t i = 0; i < b->n_buckets; i++) {
		const struct ff_bucket_build *k = &b->bucket[i];
		int64_t need;

		if (k->n_devices < 2)
			continue;
		need = ff_codec_stage_bytes(c, k->bytes / FF_F32_BYTES, k->n_devices);
		for (uint32_t d = 0; d < k->n_devices; d++) {
			bytes[k->device[d]] += k->bytes;
			if (packed[k->device[d]] < need)
				packed[k->device[d]] = need;
		}
	}
	for (uint32_t d = 0; d < e->m->n_devices; d++)
		bytes[d] += packed[d];
}

void ff_updates_count(const struct ff_trial *e, int64_t *bytes)
{
	const struct ff_gathered *g = ff_trial_gathered(e);
	const struct ff_optimizer *o = ff_price_optimizer(e->p);

	count_buckets(e, &g->synced, bytes);
	count_buckets(e, &g->brought, bytes);
	count_packed(e, &g->synced, bytes);
	for (uint32_t i = 0; i < e->times.updates.n; i++)
		bytes[e->times.updates.single[i].device] += ff_optimizer_bytes(
				o, e->g->dtype, e->times.updates.single[i].bytes);
	if (!ff_price_clips(e->p))
		return;
	for (uint32_t n = find_devices(e, g, e->times.updates.device); n-- > 0;)
		bytes[e->times.updates.device[n]] += ff_optimizer_bytes(
				o, e->g->dtype, ff_optimizer_align(e->g->dtype, 1));
}

void ff_updates_scratch(const struct ff_trial *e, int64_t *bytes)
{
	const struct ff_gathered *g = ff_trial_gathered(e);
	uint32_t n = ff_price_clips(e->p) ? find_devices(e, g, e->times.updates.device) : 0;

	while (n-- > 0)
		if (bytes[e->times.updates.device[n]] < FF_NORM_SCRATCH)
			bytes[e->times.updates.device[n]] = FF_NORM_SCRATCH;
}
