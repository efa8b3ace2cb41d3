/* Sweeps of a chain.  SPDX-License-Identifier: Apache-2.0 */
#include "sweeps.h"

#include <math.h>
#include <string.h>

#include "best.h"
#include "propose/degrees.h"
#include "propose/propose.h"

#define FASTER 1e-6               /* of a step, by which a change has to help */
#define SWEEP_PER_NODE 32         /* proposals of a sweep before a round, for each operator, */
#define SWEEP_SHARE 0.125         /* of those that are left, at most */
#define PHASES_SHARE (1.0 / 64)   /* of the budget that is left, for a sweep of phases */
#define PATIENCE 256              /* proposals in a row that help nothing */
#define PATIENCE_SHARE (1.0 / 64) /* likewise, of those that are left */
#define MOST_SHARES 64            /* that are looked at, */
#define MOST_SWEPT 6              /* that are swept from */
#define SHARES_SHARE 0.125        /* of the budget that is left, for sweeps from other shares, */
#define SHARES_BEHIND 0.5         /* of the best step, by which these may be longer */

/* Proposals of one sweep. */
static uint64_t most_swept(const struct ff_chain *c)
{
	uint64_t most = (uint64_t)SWEEP_PER_NODE * c->frame->proposer.n_all;
	uint64_t share = (uint64_t)(SWEEP_SHARE * (double)(c->clock.limit - c->proposals));

	return c->clock.limit && share < most ? share : most;
}

/* A sweep ends after so many proposals in a row that help nothing, one for each operator at least:
 * of the changes of a large network most are in vain, and a round does more. */
static uint64_t patience(const struct ff_chain *c)
{
	double done = ff_chain_budget_done(c), most = fmax(PATIENCE, c->frame->proposer.n_all);

	if (done > 0) /* as fast as so far */
		most = fmax(most, PATIENCE_SHARE * (double)c->proposals * (1 - done) / done);
	return (uint64_t)most;
}

/* One change of a sweep; *found: there was one. */
static int sweep_once(struct ff_chain *c, struct ff_sweep *sweep, bool *found, bool *kept,
		struct ff_error *err)
{
	int code;

	*kept = false;
	*found = ff_proposer_sweep(&c->frame->proposer, sweep, &c->current, &c->proposed);
	if (!*found)
		return FF_OK;
	code = ff_chain_try(c, -FASTER, kept, err);
	if (*kept)
		ff_sweep_again(sweep);
	return code;
}

/* Everything may be put on the fastest node. */
static void choose_node(struct ff_chain *c)
{
	c->frame->proposer.alone = &c->machine->nodes[c->notes.node];
}

/* Goes on with a sweep from the current strategy. */
static int sweep_from(struct ff_chain *c, struct ff_sweep *sweep, struct ff_error *err)
{
	uint64_t end = c->proposals + most_swept(c), most = patience(c), helped = c->proposals;
	bool found = true, kept;
	int code = FF_OK;

	choose_node(c);
	while (code == FF_OK && found && c->proposals < end && c->proposals - helped < most &&
			!ff_chain_out_of_budget(c)) {
		code = sweep_once(c, sweep, &found, &kept, err);
		helped = kept ? c->proposals : helped;
	}
	return code;
}

int ff_chain_sweep(struct ff_chain *c, struct ff_sweeps *s, struct ff_error *err)
{
	int code;

	if (ff_how_much_worse(s->at, c->at) != 0)
		ff_sweep_again(&s->sweep);
	code = sweep_from(c, &s->sweep, err);
	s->at = c->at;
	return code;
}

/* Change number `i` of all operators at once, *kept unless it is too slow; not *found: there are
 * not so many. */
static int take_share(struct ff_chain *c, uint32_t i, bool *found, bool *kept, struct ff_error *err)
{
	*kept = false;
	*found = ff_proposer_shares(&c->frame->proposer, i, &c->current, &c->proposed);
	if (!*found || c->proposed.n == 0)
		return FF_OK;
	return ff_chain_try(c, SHARES_BEHIND, kept, err);
}

/* Changes of all operators at once: on how many devices most operators are then and on how many
 * what has most parameters, and what they take. */
struct shares {
	uint32_t n, parts[MOST_SHARES], heavy[MOST_SHARES];
	double us[MOST_SHARES]; /* INFINITY: it is too slow, or was swept from */
	bool swept[MOST_SHARES];
};

static uint32_t heavy_parts(const struct ff_chain *c)
{
	const struct ff_proposer *p = &c->frame->proposer;
	uint32_t most = 0;

	for (uint32_t i = 1; i < p->n_readers; i++)
		most = p->reader_bytes[i] > p->reader_bytes[most] ? i : most;
	return p->n_readers ? c->current.config[p->reader[most]].n_parts : 0;
}

static int look_at_shares(struct ff_chain *c, struct shares *ret, struct ff_error *err)
{
	bool found = true, kept;
	int code = FF_OK;

	memset(ret, 0, sizeof(*ret));
	for (uint32_t i = 0; i < MOST_SHARES && found && !ff_chain_out_of_budget(c); i++) {
		code = ff_chain_return(c, err);
		choose_node(c);
		if (code == FF_OK)
			code = take_share(c, i, &found, &kept, err);
		if (code < 0)
			return code;
		ret->us[i] = kept ? c->at.step_us : INFINITY;
		ret->parts[i] = ff_proposer_usual_parts(&c->frame->proposer, &c->current);
		ret->heavy[i] = heavy_parts(c);
		ret->n = i + 1;
	}
	return code;
}

/* How many sweeps there were from such devices. */
static uint32_t count_swept(const struct shares *s, uint32_t i)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < s->n; k++)
		n += s->swept[k] && s->parts[k] == s->parts[i] && s->heavy[k] == s->heavy[i];
	return n;
}

/* The fastest, on devices from which there were the fewest sweeps; `s->n`: there is none left. */
static uint32_t next_share(const struct shares *s)
{
	uint32_t best = s->n, least = UINT32_MAX;

	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t swept = count_swept(s, i);

		if (isfinite(s->us[i]) &&
				(swept < least || (swept == least && s->us[i] < s->us[best]))) {
			best = i;
			least = swept;
		}
	}
	return best;
}

/* Sweeps from what is not too far behind the best and has other shares of samples: between the two
 * lie strategies that move data to and fro. */
static int sweep_shares(struct ff_chain *c, struct ff_error *err)
{
	double end = ff_chain_budget_done(c) + SHARES_SHARE * (1 - ff_chain_budget_done(c));
	struct shares shares;
	bool found, kept;
	int code = look_at_shares(c, &shares, err);

	for (uint32_t n = 0; code == FF_OK && n < MOST_SWEPT && ff_chain_budget_done(c) < end;
			n++) {
		uint32_t i = next_share(&shares);
		struct ff_sweep sweep = {.number = 1};

		if (i == shares.n)
			break;
		shares.swept[i] = true;
		shares.us[i] = INFINITY;
		code = ff_chain_return(c, err);
		if (code == FF_OK)
			code = take_share(c, i, &found, &kept, err);
		if (code == FF_OK && found && kept)
			code = sweep_from(c, &sweep, err);
	}
	return code == FF_OK ? ff_chain_return(c, err) : code;
}

int ff_chain_sweep_all(struct ff_chain *c, struct ff_sweeps *s, struct ff_error *err)
{
	int code = ff_chain_return(c, err);

	if (code == FF_OK)
		code = ff_chain_sweep(c, s, err);
	return code == FF_OK && c->at.fits ? sweep_shares(c, err) : code;
}

int ff_chain_sweep_phases(struct ff_chain *c, struct ff_error *err)
{
	double done = ff_chain_budget_done(c), end = done + PHASES_SHARE * (1 - done);
	uint32_t number = 0, in_vain = 0, n = ff_phases_changes(&c->phases);
	int code = FF_OK;

	if (!ff_phases_matter(&c->phases, &c->current, c->at))
		return FF_OK;
	while (code == FF_OK && in_vain < n && !ff_chain_out_of_budget(c) &&
			ff_chain_budget_done(c) < end) {
		bool helped, kept = false;

		code = c->best.unsaved ? ff_chain_save_on_the_way(c, err) : FF_OK;
		if (code == FF_OK && ff_phases_change(&c->phases, &c->current, number, &c->leap))
			code = ff_chain_try_leap(c, -FASTER, &helped, &kept, err);
		in_vain = kept ? 0 : in_vain + 1;
		number = kept ? number : (number + 1) % n;
	}
	return code;
}
