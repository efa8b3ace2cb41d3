/* Runs over elements that arrays share.  Formulas are loops over neighbouring float32: what lies
 * otherwise, is shared or bfloat16 goes through buffers that stay in the first cache.
 * SPDX-License-Identifier: Apache-2.0 */
#include "loops.h"

#include <math.h>

#include "ff/clones.h"
#include "functions.h"
#include "kernel.h"
#include "real.h"

#define RUN 512    /* elements in a buffer */
#define SPAN 16384 /* elements that a thread takes at a time */
#define LANES 16
#define TERMS 256 /* runs that are added up before they go to the others */

struct place {
	int64_t at[FF_MAX_RANK], read[FF_LOOP_READ];
};

/* Where step `i` of the axes `first` to end - 1 is. */
static void find(const struct ff_loops *l, uint32_t first, uint32_t end, int64_t i, struct place *p)
{
	for (uint32_t axis = end; axis-- > first;) {
		p->at[axis] = i % l->n[axis];
		i /= l->n[axis];
		for (int k = 0; k < FF_LOOP_READ; k++)
			p->read[k] += p->at[axis] * l->stride[k][axis];
	}
}

static void next(const struct ff_loops *l, uint32_t first, uint32_t end, struct place *p)
{
	for (uint32_t axis = end; axis-- > first;) {
		bool more = ++p->at[axis] < l->n[axis];
		int64_t steps = more ? 1 : 1 - l->n[axis];

		for (int k = 0; k < FF_LOOP_READ; k++)
			p->read[k] += steps * l->stride[k][axis];
		if (more)
			return;
		p->at[axis] = 0;
	}
}

FF_REAL_LOOP void widen(enum ff_dtype type, const void *from, int64_t stride, float *to, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		to[i] = ff_real_get(type, from, i * stride);
}

FF_CLONES static void widen_run(const void *from, float *to, int64_t n)
{
	widen(FF_BF16, from, 1, to, n);
}

FF_CLONES static void round_run(const float *from, void *to, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		ff_real_put(FF_BF16, to, i, from[i]);
}

const float *ff_cpu_take(enum ff_dtype type, const void *array, int64_t at, int64_t stride,
		float *buffer, int64_t n)
{
	const void *from;

	if (!array)
		return NULL;
	from = ff_real_in(type, array, at);
	if (stride == 1 && type == FF_F32)
		return from;
	if (stride == 1)
		widen_run(from, buffer, n);
	else if (stride)
		FF_REAL_CALL(type, widen, from, stride, buffer, n);
	else
		for (int64_t i = 0; i < n; i++)
			buffer[i] = ff_real_get(type, from, 0);
	return buffer;
}

/* `n` steps along `axis`, from step `skip` on. */
static void run_along(const struct ff_cpu_loops *l, const void *const read[], const struct place *p,
		uint32_t axis, int64_t skip, float *out, int64_t n)
{
	float buffer[FF_LOOP_READ][RUN];
	const float *from[FF_LOOP_READ];

	for (int k = 0; k < FF_LOOP_READ; k++) {
		int64_t stride = l->loops.rank ? l->loops.stride[k][axis] : 0;

		from[k] = ff_cpu_take(
				l->type, read[k], p->read[k] + skip * stride, stride, buffer[k], n);
	}
	for (int k = 0; k < FF_LOOP_READ; k++) /* what is not read is anything */
		for (int other = 0; other < FF_LOOP_READ && !from[k]; other++)
			from[k] = from[other];
	l->run(from[FF_LOOP_X], from[FF_LOOP_Y], from[FF_LOOP_Z], out, n);
}

static void scale_run(const struct ff_cpu_loops *l, float *all, int64_t n)
{
	for (int64_t i = 0; i < n && l->scale != 1; i++)
		all[i] *= l->scale;
}

void ff_cpu_put(enum ff_dtype type, void *array, int64_t at, const float *x, int64_t n)
{
	if (type == FF_BF16)
		round_run(x, ff_real_out(FF_BF16, array, at), n);
	else
		memcpy((float *)array + at, x, (size_t)n * sizeof(*x));
}

/* ---- an element of the sink for each step ---- */

static void map_span(const struct ff_cpu_loops *l, const void *const read[], void *sink,
		int64_t first, int64_t end)
{
	uint32_t last = l->loops.rank - 1;
	int64_t length = l->loops.n[last], skip = first % length;
	struct place p = {0};

	find(&l->loops, 0, last, first / length, &p);
	for (int64_t at = first, n; at < end; at += n) {
		float out[RUN];

		n = length - skip < RUN ? length - skip : RUN;
		n = end - at < n ? end - at : n;
		if (l->sink == FF_F32) {
			run_along(l, read, &p, last, skip, (float *)sink + at, n);
			scale_run(l, (float *)sink + at, n);
		} else {
			run_along(l, read, &p, last, skip, out, n);
			scale_run(l, out, n);
			ff_cpu_put(l->sink, sink, at, out, n);
		}
		skip += n;
		if (skip == length) {
			skip = 0;
			next(&l->loops, 0, last, &p);
		}
	}
}

static void map(const struct ff_cpu_loops *l, const void *const read[], void *sink)
{
	int64_t volume = ff_loops_volume(&l->loops, 0, l->loops.rank);

#pragma omp parallel for if (volume >= FF_CPU_PARALLEL)
	for (int64_t at = 0; at < volume; at += SPAN)
		map_span(l, read, sink, at, at + SPAN < volume ? at + SPAN : volume);
}

/* ---- elements that several steps share ---- */

FF_CLONES static void join(const struct ff_cpu_loops *l, float *restrict all,
		const float *restrict x, int64_t n)
{
	if (l->largest)
		for (int64_t i = 0; i < n; i++)
			all[i] = ff_larger(x[i], all[i]);
	else
		for (int64_t i = 0; i < n; i++)
			all[i] += x[i];
}

static void start(const struct ff_cpu_loops *l, float *all, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		all[i] = l->largest ? -INFINITY : 0;
}

/* `n` neighbours of the sink: runs lie along the last axis that is kept. */
static void fold_across(const struct ff_cpu_loops *l, const void *const read[],
		const struct place *p, int64_t skip, float *all, int64_t n)
{
	const struct ff_loops *s = &l->loops;
	int64_t steps = ff_loops_volume(s, s->kept, s->rank);
	struct place q = *p;
	float part[RUN], x[RUN];

	start(l, all, n);
	for (int64_t i = 0; i < steps; i++) {
		if (i % TERMS == 0)
			start(l, part, n);
		run_along(l, read, &q, s->kept - 1, skip, x, n);
		join(l, part, x, n);
		if (i % TERMS == TERMS - 1 || i + 1 == steps)
			join(l, all, part, n);
		next(s, s->kept, s->rank, &q);
	}
}

/* One element of the sink: runs lie along the last axis. */
static float fold_along(
		const struct ff_cpu_loops *l, const void *const read[], const struct place *p)
{
	const struct ff_loops *s = &l->loops;
	uint32_t last = s->rank - 1;
	int64_t steps = ff_loops_volume(s, s->kept, last), length = s->n[last];
	struct place q = *p;
	float lanes[LANES], part[LANES], x[RUN];

	start(l, lanes, LANES);
	for (int64_t i = 0; i < steps; i++) {
		for (int64_t at = 0, n; at < length; at += n) {
			n = length - at < RUN ? length - at : RUN;
			run_along(l, read, &q, last, at, x, n);
			start(l, x + n, (RUN - n) < LANES ? RUN - n : LANES);
			start(l, part, LANES);
			for (int64_t k = 0; k < n; k += LANES)
				join(l, part, x + k, LANES);
			join(l, lanes, part, LANES);
		}
		next(s, s->kept, last, &q);
	}
	for (int64_t half = LANES / 2; half > 0; half /= 2)
		join(l, lanes, lanes + half, half);
	return lanes[0];
}

/* Whether neighbours in what is read are neighbours in the sink. */
static bool goes_across(const struct ff_loops *s)
{
	int64_t kept = 0, shared = 0;

	for (int k = 0; k < FF_LOOP_READ && s->kept; k++) {
		int64_t a = s->stride[k][s->kept - 1], b = s->stride[k][s->rank - 1];

		kept = a > kept ? a : kept;
		shared = b > shared ? b : shared;
	}
	return s->kept && kept < shared;
}

static void fold(const struct ff_cpu_loops *l, const void *const read[], void *sink)
{
	const struct ff_loops *s = &l->loops;
	bool across = goes_across(s);
	uint32_t outer = across ? s->kept - 1 : s->kept;
	int64_t length = across ? s->n[outer] : 1, runs = (length + RUN - 1) / RUN;
	int64_t rows = ff_loops_volume(s, 0, outer);
	int64_t volume = ff_loops_volume(s, 0, s->rank);

#pragma omp parallel for if (volume >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < rows * runs; i++) {
		int64_t skip = i % runs * RUN, n = length - skip < RUN ? length - skip : RUN;
		struct place p = {0};
		float all[RUN];

		find(s, 0, outer, i / runs, &p);
		if (across)
			fold_across(l, read, &p, skip, all, n);
		else
			all[0] = fold_along(l, read, &p);
		scale_run(l, all, n);
		ff_cpu_put(l->sink, sink, i / runs * length + skip, all, n);
	}
}

void ff_cpu_loops(const struct ff_cpu_loops *l, const void *const read[FF_LOOP_READ], void *sink)
{
	struct ff_cpu_loops one = *l;

	if (!l->loops.rank) { /* a single step */
		one.loops.rank = one.loops.kept = 1;
		one.loops.n[0] = 1;
		l = &one;
	}
	if (l->loops.kept == l->loops.rank)
		map(l, read, sink);
	else
		fold(l, read, sink);
}
