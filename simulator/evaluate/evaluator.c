/* The evaluator: step times of strategies that differ in a few operators.  It has a trial
 * (evaluate.c) for the current strategy, and one beside it for what is tried as a whole, so
 * that the current one stays as it is; both look up blocks in the same memos.
 * SPDX-License-Identifier: Apache-2.0 */
#include "home.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "ff/micro.h"
#include "ff/saturate.h"
#include "reorder.h"
#include "shortcuts/busy.h"

/* Blocks held before memos are emptied, so that long searches stay small; more where the
 * current strategy alone takes as much. */
#define MEMO_BYTES ((size_t)192 << 20)
#define KEPT_BYTES ((size_t)64 << 20) /* of what a layout took, for the next one */

int ff_evaluator_create(const struct ff_graph *g, const struct ff_machine *m, struct ff_pricer *p,
		int64_t memory_limit, int64_t bucket_bytes, struct ff_evaluator **ret,
		struct ff_error *err)
{
	struct ff_evaluator *h = calloc(1, sizeof(*h));
	int code = FF_OK;

	if (!h)
		return ff_fail_memory(err);
	h->g = g;
	h->m = m;
	h->p = p;
	h->bucket_bytes = bucket_bytes ? bucket_bytes : ff_bucket_bytes(g, m);
	h->memo_limit = MEMO_BYTES;
	ff_arena_init(&h->arena);
	ff_arena_init(&h->layout);
	ff_arena_init(&h->scratch);
	h->limit = ff_arena_array(&h->arena, m->n_devices, sizeof(*h->limit));
	code = h->limit ? ff_trial_create(h, &h->now, err) : ff_fail_memory(err);
	if (code < 0) {
		ff_evaluator_destroy(h);
		return code;
	}
	for (uint32_t d = 0; d < m->n_devices; d++)
		h->limit[d] = memory_limit > 0 ? memory_limit : ff_device_kind(m, d)->memory_bytes;
	*ret = h;
	return FF_OK;
}

void ff_evaluator_destroy(struct ff_evaluator *h)
{
	if (!h)
		return;
	ff_trial_destroy(h->now);
	ff_trial_destroy(h->other);
	for (struct ff_micro *i = h->micro; i; i = i->next)
		ff_memo_finish(&i->memo);
	ff_arena_finish(&h->arena);
	ff_arena_finish(&h->layout);
	ff_arena_finish(&h->scratch);
	free(h);
}

int64_t ff_evaluator_memory_bytes(const struct ff_evaluator *h, uint32_t device)
{
	return h->limit[device];
}

const struct ff_pricer *ff_evaluator_pricer(const struct ff_evaluator *h)
{
	return h->p;
}

void ff_evaluator_fold(struct ff_evaluator *h, bool on)
{
	h->now->fold.off = !on;
}

void ff_evaluator_reject_early(struct ff_evaluator *h, bool on)
{
	struct ff_early *f = &h->now->early;

	f->on = on;
	f->n = 0;
	memset(f->so_far, 0, sizeof(f->so_far));
}

/* ---- strategies ---- */

static int find_micro(struct ff_evaluator *h, uint32_t micro_batches, struct ff_micro **ret,
		struct ff_error *err)
{
	struct ff_micro *micro = h->micro;
	struct ff_graph *g;
	int code;

	while (micro && micro->micro_batches != micro_batches)
		micro = micro->next;
	*ret = micro;
	if (micro)
		return FF_OK;
	micro = ff_arena_alloc(&h->arena, sizeof(*micro));
	g = ff_arena_alloc(&h->arena, sizeof(*g));
	if (!micro || !g)
		return ff_fail_memory(err);
	code = ff_graph_micro(h->g, micro_batches, &h->arena, g, err);
	if (code < 0)
		return code;
	*micro = (struct ff_micro){.micro_batches = micro_batches, .g = g, .next = h->micro};
	code = ff_memo_init(&micro->memo, g, h->m, h->p, h->now->order.first_use, err);
	if (code < 0) {
		ff_memo_finish(&micro->memo);
		return code;
	}
	h->micro = *ret = micro;
	return FF_OK;
}

/* The memo that strategy `s` needs, if it is one for it. */
static int prepare(struct ff_evaluator *h, const struct ff_strategy *s, struct ff_micro **ret,
		struct ff_error *err)
{
	int code = find_micro(h, s->micro_batches, ret, err);

	return code < 0 ? code : ff_strategy_check((*ret)->g, s, h->m->n_devices, err);
}

int ff_evaluator_set(struct ff_evaluator *h, const struct ff_strategy *s, struct ff_evaluation *ret,
		struct ff_error *err)
{
	struct ff_micro *micro;
	bool slower;
	int code = prepare(h, s, &micro, err);

	return code < 0 ? code : ff_trial_set(h->now, micro, s, INFINITY, &slower, ret, err);
}

int ff_evaluator_try(struct ff_evaluator *h, const struct ff_strategy *s, double limit_us,
		bool *slower, struct ff_evaluation *ret, struct ff_error *err)
{
	struct ff_micro *micro;
	int code = prepare(h, s, &micro, err);

	if (code == FF_OK)
		code = ff_busy_check(h->now, micro, s, limit_us, slower, err);
	if (code < 0 || *slower)
		return code;
	if (!h->other)
		code = ff_trial_create(h, &h->other, err);
	if (code < 0)
		return code;
	h->other->fold.off = h->now->fold.off;
	code = ff_trial_set(h->other, micro, s, limit_us, slower, ret, err);
	h->now->memo->first_use = h->now->order.first_use;
	return code;
}

void ff_evaluator_take(struct ff_evaluator *h)
{
	struct ff_trial *was = h->now;
	struct ff_early *f = &h->other->early, *learnt = &was->early;

	h->now = h->other;
	h->other = was;
	h->now->memo->first_use = h->now->order.first_use;
	f->on = learnt->on;
	f->n = learnt->n;
	memcpy(f->so_far, learnt->so_far, sizeof(f->so_far));
	learnt->on = false;
}

const struct ff_strategy *ff_evaluator_strategy(const struct ff_evaluator *h)
{
	return &h->now->strategy;
}

int ff_evaluator_done(struct ff_evaluator *h, double *const us[2], struct ff_error *err)
{
	return ff_trial_done(h->now, us, err);
}

void ff_evaluator_taken(
		const struct ff_evaluator *h, double *const node_us[2], double *const edge_us[2])
{
	ff_busy_list(h->now, node_us, edge_us);
}

/* ---- proposals ---- */

int ff_evaluator_propose(struct ff_evaluator *h, const struct ff_change *change, uint32_t n,
		struct ff_evaluation *ret, struct ff_error *err)
{
	const struct ff_most any = {INFINITY, INT64_MAX};
	bool worse;

	return ff_trial_propose(h->now, change, n, any, &worse, ret, err);
}

int ff_evaluator_propose_within(struct ff_evaluator *h, const struct ff_change *change, uint32_t n,
		struct ff_most most, bool *worse, struct ff_evaluation *ret, struct ff_error *err)
{
	return ff_trial_propose(h->now, change, n, most, worse, ret, err);
}

int ff_evaluator_reorder(struct ff_evaluator *h, const int32_t *priority, double limit_us,
		bool *slower, struct ff_evaluation *ret, struct ff_error *err)
{
	return ff_trial_reorder(h->now, priority, limit_us, slower, ret, err);
}

void ff_evaluator_keep(struct ff_evaluator *h)
{
	ff_trial_keep(h->now);
}

void ff_evaluator_drop(struct ff_evaluator *h)
{
	ff_trial_drop(h->now);
}

/* ---- layouts ---- */

/* What devices lack; where the layout may end early, of some. */
static int lay_out(
		struct ff_evaluator *h, bool ends_early, int64_t *over_bytes, struct ff_error *err)
{
	int64_t bucket_bytes = h->now->strategy.bucket_bytes;
	struct ff_lower_options opt = {.bucket_bytes = bucket_bytes ? 0 : h->bucket_bytes,
			.optimizer = ff_price_optimizer(h->p),
			.clip = ff_price_clips(h->p),
			.travel.codec = ff_price_codec(h->p),
			.workspace = h->now->memo->has_workspace ? ff_price_workspace : NULL,
			.ctx = h->p,
			.what = FF_LOWER_SIZES,
			.limit = ends_early ? h->limit : NULL,
			.scratch = &h->scratch};
	struct ff_arena_mark mark = ff_arena_mark(&h->layout);
	struct ff_schedule plan;
	int64_t over = 0;
	int code = ff_lower(h->g, h->m, &h->now->strategy, &opt, &h->layout, &plan, err);

	for (uint32_t d = 0; d < h->m->n_devices && code == FF_OK; d++)
		if (plan.memory_bytes[d] > h->limit[d])
			over = ff_sat_add(over, plan.memory_bytes[d] - h->limit[d]);
	if (h->layout.bytes > KEPT_BYTES) /* which took seconds to fill */
		ff_arena_finish(&h->layout);
	else
		ff_arena_rewind(&h->layout, mark);
	if (code == FF_OK)
		*over_bytes = over;
	return code;
}

int ff_evaluator_layout(struct ff_evaluator *h, int64_t *over_bytes, struct ff_error *err)
{
	return lay_out(h, false, over_bytes, err);
}

int ff_evaluator_lays_out(struct ff_evaluator *h, bool *ret, struct ff_error *err)
{
	int64_t over;
	int code = lay_out(h, true, &over, err);

	if (code == FF_OK)
		*ret = over == 0;
	return code;
}
