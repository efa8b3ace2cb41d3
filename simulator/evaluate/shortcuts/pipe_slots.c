/* Slots of pipelines: a stage goes through the same operators for one micro-batch after another,
 * and most proposals change no operator of most stages.  So a memo of each slot is kept, of what it
 * began with and what it left, and a slot that begins as one of them is done at once
 * (slot_memos.c). SPDX-License-Identifier: Apache-2.0 */
#include "pipe_slots.h"

#include <stdlib.h>
#include <string.h>

#include "pipe_slot_list.h"
#include "slot_memos.h"

#define MOST_WAIT 32u /* slots of a kind that are not looked at, where others went otherwise */

int ff_pipe_slots_create(struct ff_trial *e, struct ff_error *err)
{
	struct ff_pipe_slot_pass *x = &e->slots;
	size_t lanes = ff_lane_count(e->m);

	x->at = x->open = FF_NONE;
	x->lane = ff_arena_array(&e->arena, lanes, sizeof(*x->lane));
	x->idle = ff_arena_array(&e->arena, lanes, sizeof(*x->idle));
	return x->lane && x->idle ? FF_OK : ff_fail_memory(err);
}

void ff_pipe_slots_finish(struct ff_trial *e)
{
	ff_pipe_slots_free(&e->order);
	if (e->other)
		ff_pipe_slots_free(e->other);
	free(e->slots.captured);
}

/* Of the blocks in place. */
static struct ff_slot_memos *memos_of(const struct ff_trial *e, struct ff_pipe_slot_kind *k)
{
	bool other = e->slots.proposed && k->touched == e->slots.number;

	return &k->memos[other ? !k->now : k->now];
}

/* ---- the pass ---- */

void ff_pipe_slots_seek(struct ff_trial *e, uint32_t i)
{
	const struct ff_pipe_slots *p = &e->order.slots;
	struct ff_pipe_slot_pass *x = &e->slots;
	uint32_t low = 0, high = p->n;

	x->open = FF_NONE;
	while (low < high) {
		uint32_t k = (low + high) / 2;

		if (p->slot[k].end <= i)
			low = k + 1;
		else
			high = k;
	}
	x->next = low;
	/* weights that are gathered again, or summed often, wait for what is limited */
	x->at = low == p->n || e->layers.off || e->placed.n_dropped || e->placed.n_summed
				? FF_NONE
				: p->slot[low].first;
}

/* Copies what is there as the slot begins. */
static void open(struct ff_trial *e, uint32_t slot)
{
	struct ff_pipe_slot_pass *x = &e->slots;
	size_t lanes = ff_lane_count(e->m);

	memcpy(x->lane, e->times.lane, lanes * sizeof(*x->lane));
	memcpy(x->idle, e->times.idle, e->m->n_devices * sizeof(*x->idle));
	x->open = slot;
	x->at = e->order.slots.slot[slot].end;
}

/* The slot begins with step `i`; whether it is done. */
static bool look_at(struct ff_trial *e, uint32_t slot)
{
	struct ff_pipe_slot_kind *k = ff_pipe_slot_kind_of(e, slot);
	struct ff_slot_memos *c = memos_of(e, k);

	if (k->wait > 0) {
		k->wait--;
		return false;
	}
	if (c->n && ff_slot_memos_replay(e, slot, c)) {
		k->fails = 0;
		return true;
	}
	if (c->n) {
		k->fails++;
		k->wait = k->fails < MOST_WAIT ? k->fails / 2 : MOST_WAIT;
	}
	if (ff_slot_memos_capture(e, slot))
		open(e, slot);
	return false;
}

uint32_t ff_pipe_slots_reach(struct ff_trial *e, uint32_t i, uint32_t end)
{
	const struct ff_pipe_slots *p = &e->order.slots;
	struct ff_pipe_slot_pass *x = &e->slots;

	if (x->open != FF_NONE)
		ff_slot_memos_record(e, x->open, memos_of(e, ff_pipe_slot_kind_of(e, x->open)));
	x->open = x->at = FF_NONE;
	for (; x->next < p->n; x->next++) {
		const struct ff_pipe_slot *slot = &p->slot[x->next];

		if (i < slot->first) {
			x->at = slot->first;
			return i;
		}
		if (slot->end > end || ff_active_from(&e->order, slot->first) < i || i >= slot->end)
			continue;
		if (look_at(e, x->next++)) {
			x->at = slot->end;
			return ff_active_from(&e->order, slot->end);
		}
		if (x->open != FF_NONE)
			return i;
		x->next--;
	}
	return i;
}

/* ---- proposals ---- */

static void touch(struct ff_trial *e, uint32_t node)
{
	const struct ff_pipe_slots *p = &e->order.slots;

	for (uint32_t i = p->begins[node]; i < p->begins[node + 1]; i++) {
		struct ff_pipe_slot_kind *k = &p->kind[p->kinds[i]];

		if (k->touched != e->slots.number)
			k->memos[!k->now].n = 0;
		k->touched = e->slots.number;
	}
}

void ff_pipe_slots_touch(struct ff_trial *e)
{
	if (!e->order.slots.n)
		return;
	e->slots.number++;
	e->slots.proposed = true;
	for (uint32_t i = 0; i < e->proposal.n_swaps; i++) {
		const struct ff_swap *s = &e->proposal.swap[i];

		touch(e, s->is_edge ? e->ends[s->id].from : s->id);
		touch(e, s->is_edge ? e->ends[s->id].to : s->id);
	}
	for (uint32_t i = 0; i < e->proposal.n_near; i++) {
		touch(e, e->ends[e->proposal.near[i]].from);
		touch(e, e->ends[e->proposal.near[i]].to);
	}
}

void ff_pipe_slots_keep(struct ff_trial *e)
{
	const struct ff_pipe_slots *p = &e->order.slots;

	if (!e->slots.proposed)
		ff_pipe_slots_touch(e);
	for (uint32_t k = 0; k < p->n_kinds; k++)
		if (p->kind[k].touched == e->slots.number)
			p->kind[k].now = !p->kind[k].now;
	e->slots.proposed = false;
}

void ff_pipe_slots_drop(struct ff_trial *e)
{
	e->slots.proposed = false;
}

void ff_pipe_slots_forget(struct ff_trial *e)
{
	const struct ff_pipe_slots *p = &e->order.slots;

	for (uint32_t k = 0; k < p->n_kinds; k++)
		p->kind[k].memos[p->kind[k].now].n = 0;
}
