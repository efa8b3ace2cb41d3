/* Steps that are captured once and launched from then on, without the host in between.  A pass
 * reads and writes pinned memory of its step's parity, so that the next one can be posted while
 * it runs.  SPDX-License-Identifier: Apache-2.0 */
#include "replay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/core/past.h"
#include "exec/messages/load.h"
#include "issue.h"
#include "process/agree.h"

/* The steps of one parity. */
struct parity {
	struct ff_pinned pinned;
	struct ff_captured *pass[2]; /* by training; NULL until the first */
	int64_t sent_bytes[2];       /* that each posts */
	/* the one that was posted last, unless what it left has been kept */
	bool pending, training;
	int64_t valid[FF_MAX_LOSSES];
	struct ff_event *since, *ended; /* its time */
};

/* Two passes may be under way, and what was before them is when the first began. */
#define MARKS 4

struct ff_replay {
	const struct ff_captures *c; /* NULL: nothing is captured */
	bool insist, agreed, warm[2];
	char obstacle[FF_ERROR_TEXT];
	struct parity parity[2];
	struct ff_event *mark[MARKS]; /* keep the time; in turns */
	uint32_t marked;
	uint32_t last; /* parity posted last */
};

/* ---- whether ---- */

static void obstruct(struct ff_replay *r, const char *why)
{
	r->c = NULL;
	snprintf(r->obstacle, sizeof(r->obstacle), "%.400s", why);
}

/* What this process knows. */
static void look_for_obstacles(struct ff_executor *x, bool refused)
{
	char why[160];

	if (!x->b->captures) {
		snprintf(why, sizeof(why), "the %s backend captures nothing", x->b->name);
		obstruct(x->launches.replay, why);
	} else if (refused) {
		obstruct(x->launches.replay, "FF_CUDA_GRAPH=0");
	} else if (x->n_hosts > 1) {
		obstruct(x->launches.replay, "one process has several devices");
	} else if (x->s->machine->n_devices > 1 && !x->comm->in_stream) {
		snprintf(why, sizeof(why), "communication over %s needs the host", x->comm->name);
		obstruct(x->launches.replay, why);
	} else if (x->s->travel.average_every) {
		obstruct(x->launches.replay, "parameters are averaged in some steps alone");
	} else if (x->n_hosts && !x->prefetched) {
		obstruct(x->launches.replay, "FF_PREFETCH=0: samples are made up in between");
	}
}

/* Pinned memory of one parity. */
static int open_parity(struct ff_executor *x, struct parity *p, struct ff_error *err)
{
	size_t figures = (sizeof(*p->pinned.figures) + 63) / 64 * 64;
	size_t bytes = figures + (size_t)x->losses.n_scores * FF_SCORES * sizeof(*p->pinned.score);
	struct ff_device *dev = x->host[0].dev;
	void *memory = NULL;
	int code = x->b->memory.pin(dev, bytes, &memory, err);

	if (code < 0)
		return code;
	memset(memory, 0, bytes);
	p->pinned.figures = memory;
	p->pinned.score = (float *)((char *)memory + figures);
	return FF_OK;
}

int ff_replay_open(struct ff_executor *x, struct ff_error *err)
{
	const char *word = getenv("FF_CUDA_GRAPH");
	struct ff_replay *r = calloc(1, sizeof(*r));

	if (!r)
		return ff_fail_memory(err);
	x->launches.replay = r;
	if (word && strcmp(word, "0") != 0 && strcmp(word, "1") != 0)
		return ff_fail(err, FF_E_INPUT, "FF_CUDA_GRAPH=%.100s: expected 0 or 1", word);
	r->insist = word && !strcmp(word, "1");
	r->c = x->b->captures;
	look_for_obstacles(x, word && !r->insist);
	if (!r->c && r->insist)
		return ff_fail(err, FF_E_INPUT, "FF_CUDA_GRAPH=1, but %.400s", r->obstacle);
	return FF_OK;
}

/* When something is captured for the first time. */
static int open_parities(struct ff_executor *x, struct ff_error *err)
{
	struct ff_replay *r = x->launches.replay;
	int code = r->c->figures(x->host[0].dev, &x->launches.figures, err);

	for (int i = 0; i < 2 && code == FF_OK; i++)
		code = open_parity(x, &r->parity[i], err);
	for (int i = 0; i < MARKS && code == FF_OK; i++)
		code = x->b->event.timer(x->host[0].dev, &r->mark[i], err);
	return code;
}

void ff_replay_close(struct ff_executor *x)
{
	struct ff_replay *r = x->launches.replay;
	struct ff_error told;

	if (!r)
		return;
	if (x->launches.figures) /* after a failure something may be under way */
		x->b->stream.drain(x->host[0].compute, &told);
	for (int i = 0; i < 2; i++) {
		struct parity *p = &r->parity[i];

		for (int k = 0; k < 2; k++)
			if (p->pass[k])
				x->b->captures->close(p->pass[k]);
		if (p->pinned.figures)
			x->b->memory.unpin(x->host[0].dev, p->pinned.figures);
	}
	for (int i = 0; i < MARKS; i++)
		if (r->mark[i])
			x->b->event.close(r->mark[i]);
	free(r);
}

/* What a rank tells the others. */
struct stand {
	bool insists;
	char obstacle[200]; /* "": there is none */
};

/* The first rank where something is in the way; FF_E_INPUT if any insists. */
static int find_obstructed(const struct stand *all, uint32_t n, uint32_t *ret, struct ff_error *err)
{
	bool insists = false;

	for (uint32_t i = 0; i < n; i++)
		insists |= all[i].insists;
	for (*ret = 0; *ret < n && !all[*ret].obstacle[0];)
		++*ret;
	if (*ret == n || !insists)
		return FF_OK;
	return ff_fail(err, FF_E_INPUT, "FF_CUDA_GRAPH=1, but rank %u captures nothing: %s", *ret,
			all[*ret].obstacle);
}

/* Whether a step is captured must be the same for all that communicate in it. */
static int agree(struct ff_executor *x, struct ff_error *err)
{
	struct ff_replay *r = x->launches.replay;
	uint32_t n = x->comm->n_ranks, obstructed = n;
	struct stand own = {.insists = r->insist}, *all;
	int code;

	r->agreed = true;
	if (n < 2)
		return FF_OK;
	snprintf(own.obstacle, sizeof(own.obstacle), "%.190s", r->c ? "" : r->obstacle);
	all = malloc(n * sizeof(*all));
	code = ff_agree_code(x->comm, all ? FF_OK : ff_fail_memory(err), err);
	if (code == FF_OK && all)
		code = ff_agree_gather(x->comm, &own, sizeof(own), all, err);
	if (code == FF_OK && all)
		code = find_obstructed(all, n, &obstructed, err);
	if (code == FF_OK && r->c && obstructed < n)
		obstruct(r, "another rank captures nothing");
	free(all);
	return code;
}

int ff_replay_warm(struct ff_executor *x, struct ff_error *err)
{
	/* the first steps may not update */
	x->launches.replay->warm[x->training] = !x->training || x->opt.keep_gradients ||
						x->step + 1 >= x->s->travel.staleness;
	return x->launches.replay->agreed ? FF_OK : agree(x, err);
}

bool ff_replay_serves(const struct ff_executor *x, bool training)
{
	const struct ff_replay *r = x->launches.replay;

	return r->c && r->warm[training] && !x->trace.on;
}

const char *ff_replay_obstacle(const struct ff_executor *x)
{
	return x->launches.replay->c ? NULL : x->launches.replay->obstacle;
}

/* ---- passes that were posted ---- */

static int collect(struct ff_executor *x, struct parity *p, struct ff_error *err)
{
	struct ff_replay *r = x->launches.replay;
	double us = NAN;
	int code = r->c->await(x->host[0].compute, p->ended, err);

	p->pending = false;
	if (code == FF_OK)
		code = x->b->event.elapsed(p->since, p->ended, &us, err);
	if (code < 0)
		return code;
	return ff_executor_keep(x, p->training, (uint32_t)(p - r->parity), p->pinned.score,
			p->valid, us, err);
}

/* In the order in which they were posted, until this parity's has been. */
static int collect_until(struct ff_executor *x, uint32_t parity, struct ff_error *err)
{
	struct ff_replay *r = x->launches.replay;
	uint32_t older = !r->last;
	int code = FF_OK;

	if (r->parity[older].pending && r->parity[parity].pending)
		code = collect(x, &r->parity[older], err);
	if (code == FF_OK && r->parity[parity].pending)
		code = collect(x, &r->parity[parity], err);
	return code;
}

int ff_replay_wait(struct ff_executor *x, struct ff_error *err)
{
	int code = collect_until(x, x->launches.replay->last, err);

	return code < 0 ? code : collect_until(x, !x->launches.replay->last, err);
}

/* ---- capturing ---- */

/* A stream of transfers begins and ends with the first: it waits for that, and that for it. */
static int fork_or_join(
		struct ff_executor *x, struct ff_stream *other, bool join, struct ff_error *err)
{
	struct ff_stream *compute = x->host[0].compute;
	struct ff_event *turn = join ? x->turn : x->host[0].turn;
	int code;

	if (other == compute)
		return FF_OK;
	code = x->b->event.record(join ? other : compute, turn, err);
	return code < 0 ? code : x->b->event.wait(join ? compute : other, turn, err);
}

static int fork_and_join(struct ff_executor *x, bool join, struct ff_error *err)
{
	int code = fork_or_join(x, x->transfers, join, err);

	return code == FF_OK && x->messages != x->transfers
			       ? fork_or_join(x, x->messages, join, err)
			       : code;
}

static int issue(struct ff_executor *x, struct parity *p, struct ff_error *err)
{
	int code = x->b->move.upload(x->host[0].compute, x->launches.figures, p->pinned.figures,
			sizeof(*x->launches.figures), err);

	if (code == FF_OK)
		code = fork_and_join(x, false, err);
	if (code == FF_OK)
		code = ff_executor_issue(x, err);
	return code < 0 ? code : fork_and_join(x, true, err);
}

static int capture(struct ff_executor *x, struct parity *p, struct ff_error *err)
{
	const struct ff_captures *c = x->launches.replay->c;
	struct ff_stream *compute = x->host[0].compute;
	int64_t sent = x->comm->sent_bytes;
	struct ff_error later;
	int code = x->launches.figures ? FF_OK : open_parities(x, err), last;

	if (code == FF_OK)
		code = c->begin(compute, err);
	if (code < 0)
		return code;
	x->launches.capturing = &p->pinned;
	code = issue(x, p, err);
	last = c->end(compute, code < 0 ? NULL : &p->pass[x->training], code < 0 ? &later : err);
	x->launches.capturing = NULL;
	/* it is counted when it is launched */
	p->sent_bytes[x->training] = x->comm->sent_bytes - sent;
	x->comm->sent_bytes = sent;
	return code < 0 ? code : last;
}

/* A process alone can go on without. */
static int capture_or_give_up(struct ff_executor *x, struct parity *p, struct ff_error *err)
{
	int code = ff_replay_wait(x, err);
	struct ff_error why;

	if (code < 0)
		return code;
	code = capture(x, p, &why);
	if (code == FF_OK)
		return FF_OK;
	if (x->launches.replay->insist || x->comm->n_ranks > 1)
		return ff_fail(err, code,
				"a step could not be captured: %.300s (FF_CUDA_GRAPH=0 "
				"does without)",
				why.text);
	obstruct(x->launches.replay, why.text);
	return FF_OK;
}

/* ---- posting ---- */

static int mark(struct ff_executor *x, struct ff_event **ret, struct ff_error *err)
{
	struct ff_replay *r = x->launches.replay;

	*ret = r->mark[r->marked++ % MARKS];
	return x->b->event.record(x->host[0].compute, *ret, err);
}

static int launch(struct ff_executor *x, struct parity *p, struct ff_error *err)
{
	struct ff_replay *r = x->launches.replay;
	struct parity *before = &r->parity[r->last];
	int code = FF_OK;

	if (before->pending)
		p->since = before->ended;
	else
		code = mark(x, &p->since, err);
	if (code == FF_OK)
		code = r->c->launch(x->host[0].compute, p->pass[x->training], err);
	if (code == FF_OK)
		code = mark(x, &p->ended, err);
	if (code < 0)
		return code;
	x->comm->sent_bytes += p->sent_bytes[x->training];
	p->pending = true;
	p->training = x->training;
	memcpy(p->valid, x->losses.valid, sizeof(p->valid));
	r->last = (uint32_t)(p - r->parity);
	return FF_OK;
}

/* What its kernels read and nobody has given them. */
static void set_figures(struct ff_executor *x, struct ff_figures *f)
{
	f->step = x->step;
	memcpy(f->valid, x->losses.valid, sizeof(f->valid));
	for (uint32_t i = 0; x->training && i < x->opt.groups.n; i++)
		x->s->optimizer->factors(
				x->opt.groups.setting[i], ff_executor_updates(x), &f->factors[i]);
}

/* When it is posted its samples are there, and those of the next are fetched when the one before
 * it has ended, which read the same memory; so at the end one runs, or has run, and the next is
 * on its way. */
int ff_replay_post(struct ff_executor *x, bool last, struct ff_error *err)
{
	struct ff_replay *r = x->launches.replay;
	uint32_t parity = (uint32_t)(x->step & 1);
	struct parity *p = &r->parity[parity];
	int code = collect_until(x, parity, err);

	if (code == FF_OK)
		code = ff_load_begin(x, true, err);
	if (code == FF_OK && !p->pass[x->training])
		code = capture_or_give_up(x, p, err);
	if (code < 0 || !r->c)
		return code;
	set_figures(x, p->pinned.figures);
	code = launch(x, p, err);
	if (code == FF_OK)
		code = collect_until(x, !parity, err);
	return code < 0 || last ? code : ff_load_begin(x, false, err);
}
