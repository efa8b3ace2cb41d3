/* Embedding: rows of a table.  A part has a range of the rows and of the features;
 * of ids whose row it does not have it writes zeros and gathers no gradient.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/core/kernel.h"
#include "cpu/core/real.h"
#include "ff/sparse.h"

#define SHARES 16 /* of the rows, for threads */

struct embedding {
	enum ff_dtype type;        /* gradients of rows are float32 */
	int32_t vocabulary, first; /* rows in all; the part's first */
	int64_t rows, features;    /* of the part */
	int64_t positions;         /* ids, counted as they lie in memory */
	int64_t room;              /* of the list of a sparse gradient's rows */
	/* axes of the ids as they lie, outermost first, and where the output has them */
	uint32_t rank;
	int64_t n[FF_MAX_RANK], stride[FF_MAX_RANK];
	int64_t step; /* from one feature of the output to the next */
};

/* Where the features of position `i` begin. */
static int64_t locate(const struct embedding *e, int64_t i)
{
	int64_t at = 0;

	for (uint32_t axis = e->rank; axis-- > 0;) {
		at += i % e->n[axis] * e->stride[axis];
		i /= e->n[axis];
	}
	return at;
}

FF_REAL_LOOP void write_row(
		enum ff_dtype type, const struct embedding *e, const void *row, void *out)
{
	if (!row)
		for (int64_t i = 0; i < e->features; i++)
			ff_real_put(type, out, i * e->step, 0);
	else if (e->step == 1)
		memcpy(out, row, (size_t)(e->features * ff_dtype_bytes(type)));
	else
		for (int64_t i = 0; i < e->features; i++)
			ff_real_put(type, out, i * e->step, ff_real_get(type, row, i));
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct embedding *e = k->state;
	const int32_t *ids = io->in[0];
	enum ff_dtype type = e->type;

	for (int64_t i = 0; i < e->positions; i++)
		if (ids[i] < -1 || ids[i] >= e->vocabulary)
			return ff_fail(err, FF_E_INPUT, "%s: id %d is not in -1..%d", k->name,
					ids[i], e->vocabulary - 1);
#pragma omp parallel for if (e->positions * e->features >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < e->positions; i++) {
		int64_t row = (int64_t)ids[i] - e->first;
		bool here = ids[i] >= 0 && row >= 0 && row < e->rows;

		FF_REAL_CALL(type, write_row, e,
				here ? ff_real_in(type, io->in[1], row * e->features) : NULL,
				ff_real_out(type, io->out[0], locate(e, i)));
	}
	return FF_OK;
}

/* Rows [lo, hi) of a gradient become zero: those that are listed, or all. */
static void clear(const struct embedding *e, const struct ff_kernel_io *io, int64_t lo, int64_t hi)
{
	size_t bytes = (size_t)e->features * sizeof(float);
	float *dweight = io->din[1];

	if (!io->rows)
		memset(dweight + lo * e->features, 0, (size_t)(hi - lo) * bytes);
	for (int64_t i = 0; i < e->room && io->rows; i++) {
		int64_t row = (int64_t)io->rows[i] - 1;

		if (row >= lo && row < hi)
			memset(dweight + row * e->features, 0, bytes);
	}
}

/* Gradients of rows [lo, hi), in the order of the positions. */
FF_REAL_LOOP void gather(enum ff_dtype type, const struct embedding *e,
		const struct ff_kernel_io *io, int64_t lo, int64_t hi)
{
	const int32_t *ids = io->in[0];
	float *dweight = io->din[1];

	clear(e, io, lo, hi);
	for (int64_t i = 0; i < e->positions; i++) {
		int64_t row = (int64_t)ids[i] - e->first;
		const void *restrict from;
		float *restrict to;

		if (ids[i] < 0 || row < lo || row >= hi)
			continue;
		from = ff_real_in(type, io->dout[0], locate(e, i));
		to = dweight + row * e->features;
		for (int64_t c = 0; c < e->features; c++)
			to[c] += ff_real_get(type, from, c * e->step);
	}
}

/* What clear() reads in the next step, and the update in this one: each row once, so the list is a
 * hash table, at most half full. */
static void list_rows(const struct embedding *e, const int32_t *ids, int32_t *rows)
{
	memset(rows, 0, (size_t)e->room * sizeof(*rows));
	for (int64_t i = 0; i < e->positions; i++) {
		int64_t row = (int64_t)ids[i] - e->first;
		uint64_t at = (uint64_t)row * 0x9e3779b97f4a7c15u >> 32; /* Fibonacci hashing */

		if (ids[i] < 0 || row < 0 || row >= e->rows)
			continue;
		for (at &= (uint64_t)e->room - 1; rows[at] && rows[at] != row + 1;)
			at = (at + 1) & ((uint64_t)e->room - 1);
		rows[at] = (int32_t)row + 1;
	}
}

/* Every row belongs to one thread, so that sums do not depend on their number. */
static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct embedding *e = k->state;

	(void)err;
#pragma omp parallel for if ((e->positions + e->rows) * e->features >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < SHARES; i++)
		FF_REAL_CALL(e->type, gather, e, io, e->rows * i / SHARES,
				e->rows * (i + 1) / SHARES);
	if (io->rows)
		list_rows(e, io->in[0], io->rows);
	return FF_OK;
}

int ff_cpu_embedding_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_operand *ids = &w->node->in_map[0];
	struct embedding *e = ff_kernel_state(k, sizeof(*e), err);
	int64_t stride[FF_MAX_RANK];

	if (!e)
		return FF_E_NOMEM;
	ff_region_strides(w->node->out_map[0].order, &w->out[0], stride);
	e->type = ff_work_type(w);
	e->vocabulary = w->node->attrs.embedding.vocabulary;
	e->first = w->in[1].lo[0];
	e->rows = ff_region_size(&w->in[1], 0);
	e->features = ff_region_size(&w->in[1], 1);
	e->positions = ff_region_volume(&w->in[0]);
	e->room = ff_sparse_room(e->positions);
	e->rank = ids->rank;
	for (uint32_t i = 0; i < e->rank; i++) {
		e->n[i] = ff_region_size(&w->in[0], ids->order[i]);
		e->stride[i] = stride[ids->order[i]];
	}
	e->step = stride[e->rank];
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[1] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	return FF_OK;
}
