/* Clocks of several ranks.  SPDX-License-Identifier: Apache-2.0 */
#include "clocks.h"

#include <math.h>

/* There and back so often: the shortest of them met nobody on its way.  More where ranks share a
 * core and take turns on it would not help. */
#define PINGS 64

struct ff_clock_reading ff_clock_reading_of(const struct ff_ping *p)
{
	return (struct ff_clock_reading){
			.at_us = p->received + (p->answered - p->received) / 2,
			.offset_us = ((p->sent - p->received) + (p->returned - p->answered)) / 2,
			.bound_us = fabs((p->returned - p->sent) - (p->answered - p->received)) / 2,
	};
}

struct ff_clock_reading ff_clock_reading_best(const struct ff_ping *p, uint32_t n)
{
	struct ff_clock_reading best = ff_clock_reading_of(&p[0]);

	for (uint32_t i = 1; i < n; i++) {
		struct ff_clock_reading r = ff_clock_reading_of(&p[i]);

		if (r.bound_us < best.bound_us)
			best = r;
	}
	return best;
}

/* One ping between rank 0 and `rank`, which both call.  Rank 0 tells when it had the answer to the
 * last one with the next, so that nothing but the clock is read between a message and its answer.
 */
static int ping(struct ff_comm *c, uint16_t rank, ff_clock_read clock, void *ctx,
		double *last_returned, struct ff_ping *p, struct ff_error *err)
{
	const uint16_t there[] = {0, rank}, back[] = {rank, 0};
	double word[] = {0, *last_returned};
	bool lead = c->rank == 0;
	int code;

	word[0] = clock(ctx);
	code = c->share(c, 2, there, word, sizeof(word), err);
	if (code < 0)
		return code;
	if (lead) {
		code = c->share(c, 2, back, word, sizeof(word), err);
		*last_returned = clock(ctx);
		return code;
	}
	p->received = clock(ctx);
	*last_returned = word[1];
	p->sent = word[0];
	word[0] = p->answered = clock(ctx);
	return c->share(c, 2, back, word, sizeof(word), err);
}

/* The last one only brings what came of the one before. */
static int meet(struct ff_comm *c, uint16_t rank, ff_clock_read clock, void *ctx,
		struct ff_clock_reading *ret, struct ff_error *err)
{
	struct ff_ping p[PINGS + 1] = {0};
	double returned = 0;
	int code = FF_OK;

	for (uint32_t i = 0; i <= PINGS && code == FF_OK; i++) {
		code = ping(c, rank, clock, ctx, &returned, &p[i], err);
		if (i)
			p[i - 1].returned = returned;
	}
	if (code == FF_OK && c->rank == rank)
		*ret = ff_clock_reading_best(p, PINGS);
	return code;
}

int ff_clocks_meet(struct ff_comm *c, ff_clock_read clock, void *ctx, struct ff_clock_reading *ret,
		struct ff_error *err)
{
	struct ff_clock_reading reading = {.at_us = clock(ctx)};
	int code = FF_OK;

	for (uint32_t r = 1; r < c->n_ranks && code == FF_OK; r++)
		if (c->rank == 0 || c->rank == r)
			code = meet(c, (uint16_t)r, clock, ctx, &reading, err);
	if (code == FF_OK)
		*ret = reading;
	return code;
}

double ff_clock_drift(const struct ff_clock_line *l)
{
	double us = l->last.at_us - l->first.at_us;

	return us > 0 ? (l->last.offset_us - l->first.offset_us) / us : 0;
}

double ff_clock_common(const struct ff_clock_line *l, double us)
{
	return us + l->first.offset_us + ff_clock_drift(l) * (us - l->first.at_us);
}

double ff_clock_bound(const struct ff_clock_line *l)
{
	return fmax(l->first.bound_us, l->last.bound_us);
}
