/* Legs: a stage goes through the same operators for one micro-batch after another, and most
 * proposals change no operator of most stages.  So how a leg went is noted, and done at once where
 * one begins as that did (courses.c).  SPDX-License-Identifier: Apache-2.0 */
#include "legs.h"

#include <stdlib.h>
#include <string.h>

#include "courses.h"
#include "leg_list.h"

#define MOST_WAIT 32u /* legs of a kind that are not looked at, where others went otherwise */

int ff_legs_create(struct ff_trial *e, struct ff_error *err)
{
	struct ff_leg_pass *x = &e->legs;
	size_t lanes = ff_lane_count(e->m);

	x->at = x->open = FF_NONE;
	x->lane = ff_arena_array(&e->arena, lanes, sizeof(*x->lane));
	x->idle = ff_arena_array(&e->arena, lanes, sizeof(*x->idle));
	return x->lane && x->idle ? FF_OK : ff_fail_memory(err);
}

void ff_legs_finish(struct ff_trial *e)
{
	ff_legs_free(&e->order);
	if (e->other)
		ff_legs_free(e->other);
	free(e->legs.told);
}

/* Of the blocks in place. */
static struct ff_leg_courses *courses_of(const struct ff_trial *e, struct ff_leg_kind *k)
{
	bool other = e->legs.proposed && k->touched == e->legs.number;

	return &k->courses[other ? !k->now : k->now];
}

/* ---- the pass ---- */

void ff_legs_seek(struct ff_trial *e, uint32_t i)
{
	const struct ff_legs *p = &e->order.legs;
	struct ff_leg_pass *x = &e->legs;
	uint32_t low = 0, high = p->n;

	x->open = FF_NONE;
	while (low < high) {
		uint32_t k = (low + high) / 2;

		if (p->leg[k].end <= i)
			low = k + 1;
		else
			high = k;
	}
	x->next = low;
	/* weights that are gathered again, or summed often, wait for what is limited */
	x->at = low == p->n || e->layers.off || e->placed.n_dropped || e->placed.n_summed
				? FF_NONE
				: p->leg[low].first;
}

/* Copies what is there as the leg begins. */
static void open(struct ff_trial *e, uint32_t leg)
{
	struct ff_leg_pass *x = &e->legs;
	size_t lanes = ff_lane_count(e->m);

	memcpy(x->lane, e->times.lane, lanes * sizeof(*x->lane));
	memcpy(x->idle, e->times.idle, e->m->n_devices * sizeof(*x->idle));
	x->open = leg;
	x->at = e->order.legs.leg[leg].end;
}

/* The leg begins with step `i`; whether it is done. */
static bool look_at(struct ff_trial *e, uint32_t leg)
{
	struct ff_leg_kind *k = ff_leg_kind_of(e, leg);
	struct ff_leg_courses *c = courses_of(e, k);

	if (k->wait > 0) {
		k->wait--;
		return false;
	}
	if (c->n && ff_courses_follow(e, leg, c)) {
		k->fails = 0;
		return true;
	}
	if (c->n) {
		k->fails++;
		k->wait = k->fails < MOST_WAIT ? k->fails / 2 : MOST_WAIT;
	}
	if (ff_courses_tell(e, leg))
		open(e, leg);
	return false;
}

uint32_t ff_legs_reach(struct ff_trial *e, uint32_t i, uint32_t end)
{
	const struct ff_legs *p = &e->order.legs;
	struct ff_leg_pass *x = &e->legs;

	if (x->open != FF_NONE)
		ff_courses_note(e, x->open, courses_of(e, ff_leg_kind_of(e, x->open)));
	x->open = x->at = FF_NONE;
	for (; x->next < p->n; x->next++) {
		const struct ff_leg *leg = &p->leg[x->next];

		if (i < leg->first) {
			x->at = leg->first;
			return i;
		}
		if (leg->end > end || ff_active_from(&e->order, leg->first) < i || i >= leg->end)
			continue;
		if (look_at(e, x->next++)) {
			x->at = leg->end;
			return ff_active_from(&e->order, leg->end);
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
	const struct ff_legs *p = &e->order.legs;

	for (uint32_t i = p->begins[node]; i < p->begins[node + 1]; i++) {
		struct ff_leg_kind *k = &p->kind[p->kinds[i]];

		if (k->touched != e->legs.number)
			k->courses[!k->now].n = 0;
		k->touched = e->legs.number;
	}
}

void ff_legs_touch(struct ff_trial *e)
{
	if (!e->order.legs.n)
		return;
	e->legs.number++;
	e->legs.proposed = true;
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

void ff_legs_keep(struct ff_trial *e)
{
	const struct ff_legs *p = &e->order.legs;

	if (!e->legs.proposed)
		ff_legs_touch(e);
	for (uint32_t k = 0; k < p->n_kinds; k++)
		if (p->kind[k].touched == e->legs.number)
			p->kind[k].now = !p->kind[k].now;
	e->legs.proposed = false;
}

void ff_legs_drop(struct ff_trial *e)
{
	e->legs.proposed = false;
}

void ff_legs_forget(struct ff_trial *e)
{
	const struct ff_legs *p = &e->order.legs;

	for (uint32_t k = 0; k < p->n_kinds; k++)
		p->kind[k].courses[p->kind[k].now].n = 0;
}
