/* Measures the costs of overlap: how much longer compute and communication take at the same time
 * than each alone. SPDX-License-Identifier: Apache-2.0 */
#include "prof.h"

#include <stdlib.h>

#include "ff/beside.h"
#include "process/agree.h"

#define ROUNDS 21
#define LEAST_BYTES ((int64_t)256 << 10)
#define MOST_BYTES ((int64_t)8 << 20)
#define LONG_US 20000 /* the least communication, so that several tasks run beside it */
#define TASK_US 1000  /* the least time of a task, between two calls of go_on */
#define LONGER 1.3    /* compute over communication, so that all of the latter is overlapped */
#define ELEMENTS (1 << 16)

struct trial {
	struct ff_prof *p;
	enum ff_beside by;
	struct ff_stream *stream;
	uint32_t n, me; /* devices of the group, and this one's place */
	uint16_t *device;
	const void **send;
	void **recv;
	void *memory;
	float *array;
	int64_t elements;
	int turns, tasks; /* loops a task; tasks beside one communication */
	double done_us;   /* when the last communication was done, on the slowest rank */
};

/* A task: bound by caches, as kernels are. */
static void compute(const struct trial *t)
{
	for (int k = 0; k < t->turns; k++) {
		float factor = 0.5F + 0.001F * (float)k;

		for (int i = 0; i < ELEMENTS; i++)
			t->array[i] = t->array[i] * factor + 1;
	}
}

static int post(const struct trial *t, struct ff_error *err)
{
	const struct ff_channel on = {t->p->backend, t->stream};
	const struct ff_collective x = {.kind = FF_MOVE_ALL_REDUCE,
			.type = FF_F32,
			.reduce = FF_REDUCE_SUM,
			.n_devices = t->n,
			.device = t->device,
			.send = t->send,
			.recv = t->recv,
			.count = &t->elements};

	return t->p->comm->collective(t->p->comm, &on, &x, err);
}

static int note_clock(void *arg, struct ff_error *err)
{
	(void)err;
	*(double *)arg = ff_clock_us();
	return FF_OK;
}

/* Time from a common start until the slowest rank is done. */
static int time_once(
		struct trial *t, bool communicates, bool computes, double *us, struct ff_error *err)
{
	const struct ff_backend *b = t->p->backend;
	int code = t->p->comm->barrier(t->p->comm, err);
	double start = ff_clock_us();

	if (code == FF_OK && communicates)
		code = post(t, err);
	if (code == FF_OK && communicates)
		code = b->stream.call(t->stream, note_clock, &t->done_us, err);
	for (int i = 0; i < t->tasks && computes && code == FF_OK; i++) {
		compute(t);
		b->stream.go_on(t->stream);
	}
	if (code == FF_OK)
		code = b->stream.drain(t->stream, err);
	*us = ff_clock_us() - start;
	t->done_us -= start;
	if (code == FF_OK)
		code = ff_agree_max(t->p->comm, us, 1, err);
	return code < 0 ? code : ff_agree_max(t->p->comm, &t->done_us, 1, err);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *sample)
{
	qsort(sample, ROUNDS, sizeof(*sample), by_size);
	return sample[ROUNDS / 2];
}

/* Costs of overlap, as shares of the communication's time alone. */
struct slowed {
	double share;  /* added to compute */
	double longer; /* added to the communication */
};

/* Times communication, compute and both at once, in turns, so that a slow moment of the machine
 * affects all three. Results are medians over the turns. */
static int time_turns(struct trial *t, struct slowed *ret, struct ff_error *err)
{
	double share[ROUNDS], longer[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		double comm = 0, work = 0, both = 0;
		int code = time_once(t, true, false, &comm, err);

		if (code == FF_OK)
			code = time_once(t, false, true, &work, err);
		if (code == FF_OK)
			code = time_once(t, true, true, &both, err);
		if (code < 0)
			return code;
		share[i] = both > work ? (both - work) / comm : 0;
		longer[i] = t->done_us > comm ? t->done_us / comm - 1 : 0;
	}
	*ret = (struct slowed){median(share), median(longer)};
	return FF_OK;
}

/* Chooses the size of the communication, and the number and length of tasks.  All ranks choose
 * alike, since they agree on all times. */
static int choose(struct trial *t, struct ff_error *err)
{
	double us = 0;
	int code = FF_OK;

	for (int64_t bytes = LEAST_BYTES; code == FF_OK && us < LONG_US && bytes <= MOST_BYTES;
			bytes *= 2) {
		t->elements = bytes / FF_F32_BYTES;
		code = time_once(t, true, false, &us, err); /* makes what a first one needs */
		if (code == FF_OK)
			code = time_once(t, true, false, &us, err);
	}
	t->turns = 1;
	t->tasks = (int)(LONGER * us / TASK_US) + 2;
	while (code == FF_OK && t->turns < 1 << 20) {
		code = time_once(t, false, true, &us, err);
		if (us >= (double)t->tasks * TASK_US)
			break;
		t->turns *= 2;
	}
	return code;
}

/* The group that communicates: all devices, or those of this node. */
static void set_group(struct trial *t, bool inside)
{
	const struct ff_layout *l = &t->p->layout;
	uint32_t rank = t->p->comm->rank, node = 0, first, end;

	while (inside && node + 1 < l->n_nodes && l->first[node + 1] <= rank)
		node++;
	first = inside ? l->first[node] : 0;
	end = inside ? l->first[node + 1] : l->first[l->n_nodes];
	t->n = end - first;
	t->me = rank - first;
	for (uint32_t i = 0; i < t->n; i++) {
		t->device[i] = (uint16_t)(first + i);
		t->send[i] = t->recv[i] = i == t->me ? t->memory : NULL;
	}
}

static int measure(
		struct trial *t, bool inside, double *share, double *longer, struct ff_error *err)
{
	struct slowed slowed;
	int code;

	set_group(t, inside);
	code = choose(t, err);
	if (code == FF_OK)
		code = time_turns(t, &slowed, err);
	if (code < 0)
		return code;
	*share = slowed.share;
	*longer = slowed.longer;
	return FF_OK;
}

static int open_trial(struct trial *t, struct ff_error *err)
{
	uint32_t n = t->p->comm->n_ranks;
	int code;

	t->device = calloc(n, sizeof(*t->device));
	t->send = calloc(n, sizeof(*t->send));
	t->recv = calloc(n, sizeof(*t->recv));
	t->array = calloc(ELEMENTS, sizeof(*t->array));
	if (!t->device || !t->send || !t->recv || !t->array)
		return ff_fail_memory(err);
	code = t->p->backend->memory.alloc(t->p->dev, (size_t)MOST_BYTES, &t->memory, err);
	return code < 0 ? code
			: t->p->backend->stream.beside(t->p->dev, t->by, NULL, &t->stream, err);
}

static void close_trial(struct trial *t)
{
	if (t->stream)
		t->p->backend->stream.close(t->stream);
	if (t->memory)
		t->p->backend->memory.free(t->p->dev, t->memory);
	free(t->device);
	free(t->send);
	free(t->recv);
	free(t->array);
}

/* Whether every node has two ranks, so that overlap inside nodes can be measured. */
static bool has_pairs(const struct ff_layout *l)
{
	bool all = true;

	for (uint32_t i = 0; i < l->n_nodes; i++)
		all = all && l->first[i + 1] - l->first[i] > 1;
	return all;
}

int ff_prof_beside(struct ff_prof *p, struct ff_error *err)
{
	struct ff_overlap_cost known = ff_costs_overlap(p->costs), cost = known;
	bool inside = has_pairs(&p->layout) && known.inside < 0;
	bool between = p->layout.n_nodes > 1 && known.between < 0;
	struct trial t = {.p = p};
	int code;

	if (!p->backend->stream.beside || p->comm->n_ranks != p->layout.first[p->layout.n_nodes] ||
			(!inside && !between))
		return FF_OK;
	code = ff_beside_choose(p->backend, p->comm, &t.by, err);
	if (code == FF_OK)
		code = ff_agree_code(p->comm, open_trial(&t, err), err);
	if (code == FF_OK && inside)
		code = measure(&t, true, &cost.inside, &cost.inside_longer, err);
	if (code == FF_OK && between)
		code = measure(&t, false, &cost.between, &cost.between_longer, err);
	if (code == FF_OK)
		ff_costs_set_overlap(p->costs, cost);
	close_trial(&t);
	return code;
}
