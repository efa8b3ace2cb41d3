/* What the moves at an edge take, device by device, and whether all its parts do alike.  It is
 * found once: the account of memory asks for it in every micro-batch, and of every edge that is
 * alike. SPDX-License-Identifier: Apache-2.0 */
#include "memo.h"

/* Bytes by device, and the devices that have any. */
struct by_device {
	int64_t *bytes;
	uint32_t first, end;
};

static void put(struct by_device *b, uint32_t device, int64_t bytes)
{
	if (b->first >= b->end) {
		b->first = device;
		b->end = device + 1;
	}
	b->first = device < b->first ? device : b->first;
	b->end = device >= b->end ? device + 1 : b->end;
	b->bytes[device] += bytes;
}

/* As differences; then there are none. */
static bool list(struct ff_memo *t, struct by_device *b, struct ff_memo_bytes *ret)
{
	uint32_t n = 0, end = b->end < t->m->n_devices ? b->end + 1 : b->end;
	struct ff_memo_more *more;
	int64_t before = 0;

	*ret = (struct ff_memo_bytes){.first = b->first, .end = b->end};
	if (b->first >= b->end)
		return true;
	more = ff_arena_array(&t->scratch, end - b->first, sizeof(*more));
	for (uint32_t d = b->first; d < end && more; d++) {
		if (b->bytes[d] != before)
			more[n++] = (struct ff_memo_more){d, b->bytes[d] - before};
		before = b->bytes[d];
		b->bytes[d] = 0;
	}
	b->first = b->end = 0;
	ret->n = n;
	ret->more = more ? ff_arena_copy(&t->arena, more, n, sizeof(*more)) : NULL;
	return ret->more;
}

static void put_arrived(struct by_device *b, const struct ff_redistribution *r, uint32_t slot,
		const struct ff_memo_node *to)
{
	for (uint32_t i = 0; i < r->n_moves; i++)
		for (uint32_t k = 0; k < r->move[i].n_sinks && !r->move[i].joins; k++) {
			uint32_t p = r->move[i].sink[k];

			put(b, to->device[p], to->rest->shape->in_bytes[slot][p]);
		}
}

static void put_stages(struct by_device *b, const struct ff_redistribution *r)
{
	for (uint32_t i = 0; i < r->n_moves; i++)
		for (uint32_t k = 0; k < r->move[i].n_devices; k++)
			put(b, r->move[i].device[k], r->move[i].stage_bytes[k]);
}

/* What is not sent of gradients that are compressed. */
static void put_unsent(struct by_device *b, const struct ff_redistribution *r)
{
	for (uint32_t i = 0; i < r->n_moves; i++)
		for (uint32_t k = 0; r->move[i].codec && k < r->move[i].n_devices; k++)
			put(b, r->move[i].device[k], r->move[i].traffic[k].encoded);
}

static enum ff_memo_share share(const bool *has, uint32_t n)
{
	uint32_t some = 0;

	for (uint32_t k = 0; k < n; k++)
		some += has[k];
	return some == 0 ? FF_NO_PART : some == n ? FF_ALL_PARTS : FF_SOME_PARTS;
}

/* `r` moves from so many parts to so many. */
static bool find_shares(struct ff_arena *scratch, const struct ff_redistribution *r,
		uint32_t n_from, uint32_t n_to, struct ff_memo_buffers *ret)
{
	bool *sent = ff_arena_array(scratch, n_from, sizeof(*sent));
	bool *lent = ff_arena_array(scratch, n_from, sizeof(*lent));
	bool *got = ff_arena_array(scratch, n_to, sizeof(*got));
	bool *same = ff_arena_array(scratch, n_to, sizeof(*same));

	if (!sent || !lent || !got || !same)
		return false;
	for (uint32_t i = 0; i < r->n_moves; i++) {
		for (uint32_t k = 0; k < r->move[i].n_sources && n_from; k++)
			sent[r->move[i].source[k]] = true;
		for (uint32_t k = 0; k < r->move[i].n_sinks; k++)
			got[r->move[i].sink[k]] = true;
	}
	for (uint32_t k = 0; k < n_to && r->alias; k++) {
		same[k] = r->alias[k] != FF_NONE;
		if (same[k])
			lent[r->alias[k]] = true;
	}
	ret->sent = share(sent, n_from);
	ret->lent = share(lent, n_from);
	ret->got = share(got, n_to);
	ret->same = share(same, n_to);
	return true;
}

static bool find(struct ff_memo *t, uint32_t edge, enum ff_pass pass,
		const struct ff_memo_node *from, const struct ff_memo_node *to,
		const struct ff_redistribution *r, struct ff_memo_buffers *b)
{
	uint32_t n[2] = {from ? from->n_parts : 0, to->n_parts};
	struct by_device all = {
			.bytes = ff_arena_array(&t->scratch, t->m->n_devices, sizeof(int64_t))};
	bool ok = all.bytes &&
		  find_shares(&t->scratch, r, n[pass != FF_FORWARD], n[pass == FF_FORWARD], b);

	if (!ok)
		return false;
	if (pass == FF_FORWARD)
		put_arrived(&all, r, t->g->edges[edge].slot, to);
	ok = list(t, &all, &b->arrived);
	put_stages(&all, r);
	ok = ok && list(t, &all, &b->stages);
	put_unsent(&all, r);
	return ok && list(t, &all, &b->unsent);
}

const struct ff_memo_buffers *ff_memo_buffers(struct ff_memo *t, uint32_t edge, enum ff_pass pass,
		const struct ff_memo_node *from, const struct ff_memo_node *to,
		struct ff_memo_edge *e)
{
	struct ff_memo_buffers *b = &e->moved[pass].buffers;
	struct ff_arena_mark mark = ff_arena_mark(&t->scratch);

	if (!b->known)
		b->known = find(t, edge, pass, from, to, &e->moved[pass].by, b);
	ff_arena_rewind(&t->scratch, mark);
	return b->known ? b : NULL;
}
