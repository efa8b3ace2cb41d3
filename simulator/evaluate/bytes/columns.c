/* Bytes by device and step, as differences along both: a row says what comes with its step and goes
 * behind the step before, a column how far that is another change than on the device before.  So
 * buffers of equal bytes on neighbours take two entries, however many devices there are; and
 * where a column is empty its device holds what the one before it does, step by step, and is not
 * summed again.  In most strategies that is nearly all of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "columns.h"

#include <stdlib.h>
#include <string.h>

#include "ff/clones.h"

#define SIDE_BY_SIDE 4
#define WORTH_ROWS 8         /* for each of these */
#define MOST_NOTED (1 << 18) /* changes of a proposal that are noted: more are counted again */

int ff_columns_create(struct ff_trial *e, struct ff_error *err)
{
	struct ff_tally *t = &e->tally;

	t->bundle = ff_arena_array(&e->arena, e->m->n_devices, sizeof(*t->bundle));
	t->noted = ff_arena_array(&e->arena, MOST_NOTED, sizeof(*t->noted));
	t->first = FF_NONE;
	return t->bundle && t->noted ? FF_OK : ff_fail_memory(err);
}

int ff_columns_reset(struct ff_trial *e, struct ff_error *err)
{
	struct ff_account *a = &e->order.account;

	a->at = ff_arena_array(&a->arena, e->m->n_devices, sizeof(*a->at));
	a->n_set = ff_arena_array(&a->arena, e->m->n_devices, sizeof(*a->n_set));
	a->sum = ff_arena_array(&a->arena, a->n_rows, sizeof(*a->sum));
	a->peak = ff_arena_array(&a->arena, e->m->n_devices, sizeof(*a->peak));
	a->peak_was = ff_arena_array(&a->arena, e->m->n_devices, sizeof(*a->peak_was));
	a->unknown = (struct ff_unknown_peaks){0, e->m->n_devices};
	a->n_columns = 0;
	a->failed = false;
	return a->at && a->n_set && a->sum && a->peak && a->peak_was ? FF_OK : ff_fail_memory(err);
}

static int64_t *column(const struct ff_account *a, uint32_t device)
{
	return a->change_bytes + (size_t)(a->at[device] - 1) * a->n_rows;
}

/* Room for one column more, and a quarter of what there is. */
static bool make_room(struct ff_account *a)
{
	size_t need = ((size_t)a->n_columns + 1) * a->n_rows, more = need + need / 4;
	int64_t *grown = need > a->cap ? realloc(a->change_bytes, more * sizeof(*grown)) : NULL;

	if (need <= a->cap)
		return true;
	if (!grown)
		return false;
	a->change_bytes = grown;
	a->cap = more;
	return true;
}

/* Most columns are never written to, so there is room for others alone. */
static bool begin_column(struct ff_account *a, uint32_t device)
{
	a->failed = a->failed || !make_room(a);
	if (a->failed)
		return false;
	a->at[device] = ++a->n_columns;
	memset(column(a, device), 0, a->n_rows * sizeof(*a->change_bytes));
	return true;
}

static void change(struct ff_account *a, uint32_t device, uint32_t row, int64_t bytes)
{
	int64_t *at, was;

	if (!a->at[device] && !begin_column(a, device))
		return;
	at = column(a, device) + row;
	was = *at;
	*at += bytes;
	a->n_set[device] = a->n_set[device] + (was == 0) - (*at == 0);
}

static void add(struct ff_trial *e, uint32_t device, uint32_t row, int64_t bytes)
{
	if (row == FF_NONE)
		return;
	change(&e->order.account, device, row, bytes);
	if (e->tally.notes && e->tally.n_noted++ < MOST_NOTED)
		e->tally.noted[e->tally.n_noted - 1] = (struct ff_noted){device, row, bytes};
}

/* On so many neighbours other bytes live than before. */
static void forget_peaks(struct ff_account *a, uint32_t first, uint32_t n)
{
	struct ff_unknown_peaks *x = &a->unknown;

	if (x->first >= x->end)
		*x = (struct ff_unknown_peaks){first, first + n};
	x->first = first < x->first ? first : x->first;
	x->end = first + n > x->end ? first + n : x->end;
}

static void put(struct ff_tally *t, uint32_t device, int64_t bytes)
{
	if (t->first == FF_NONE || device < t->first)
		t->first = device;
	if (device > t->last)
		t->last = device;
	t->bundle[device] += bytes;
}

void ff_columns_put(struct ff_trial *e, uint32_t device, int64_t bytes)
{
	struct ff_tally *t = &e->tally;

	if (t->first == FF_NONE && !t->n_row) {
		t->row = device;
		t->row_bytes = bytes;
	}
	if (t->first == FF_NONE && device == t->row + t->n_row && bytes == t->row_bytes) {
		t->n_row++;
		return;
	}
	for (; t->n_row; t->n_row--) /* it is no row after all */
		put(t, t->row + t->n_row - 1, t->row_bytes);
	put(t, device, bytes);
}

void ff_columns_add(struct ff_trial *e, uint32_t first, uint32_t last)
{
	struct ff_tally *t = &e->tally;
	uint32_t comes, goes;
	int64_t before = 0;

	if (t->n_row)
		ff_columns_add_row(e, t->row, t->n_row, t->row_bytes, first, last);
	t->n_row = 0;
	if (t->first == FF_NONE)
		return; /* and there may be no such steps */
	comes = e->order.account.row[first];
	goes = e->order.account.row[last + 1];
	forget_peaks(&e->order.account, t->first, t->last + 1 - t->first);
	for (uint32_t d = t->first; d <= t->last + 1 && d < e->m->n_devices; d++) {
		int64_t more = t->bundle[d] - before;

		before = t->bundle[d];
		t->bundle[d] = 0;
		if (!more)
			continue;
		add(e, d, comes, more);
		add(e, d, goes, -more);
	}
	t->first = FF_NONE;
	t->last = 0;
}

void ff_columns_add_row(struct ff_trial *e, uint32_t device, uint32_t n, int64_t bytes,
		uint32_t first, uint32_t last)
{
	uint32_t comes = e->order.account.row[first], goes = e->order.account.row[last + 1];

	if (!bytes)
		return;
	forget_peaks(&e->order.account, device, n);
	add(e, device, comes, bytes);
	add(e, device, goes, -bytes);
	if (device + n == e->m->n_devices)
		return;
	add(e, device + n, comes, -bytes);
	add(e, device + n, goes, bytes);
}

void ff_columns_add_bytes(struct ff_trial *e, const struct ff_memo_bytes *b, int64_t sign,
		uint32_t first, uint32_t last)
{
	uint32_t comes, goes;

	if (!b->n)
		return; /* and there may be no such steps */
	comes = e->order.account.row[first];
	goes = e->order.account.row[last + 1];
	forget_peaks(&e->order.account, b->first, b->end - b->first);
	for (uint32_t i = 0; i < b->n; i++) {
		add(e, b->more[i].device, comes, sign * b->more[i].bytes);
		add(e, b->more[i].device, goes, -sign * b->more[i].bytes);
	}
}

void ff_columns_note(struct ff_trial *e, bool on)
{
	struct ff_account *a = &e->order.account;

	e->tally.notes = on;
	if (!on)
		return;
	e->tally.n_noted = 0;
	a->unknown_was = a->unknown;
	memcpy(a->peak_was, a->peak, e->m->n_devices * sizeof(*a->peak));
}

bool ff_columns_undo(struct ff_trial *e)
{
	struct ff_account *a = &e->order.account;

	if (e->tally.n_noted > MOST_NOTED)
		return false;
	for (uint32_t i = 0; i < e->tally.n_noted; i++) {
		const struct ff_noted *n = &e->tally.noted[i];

		change(a, n->device, n->row, -n->bytes);
	}
	a->unknown = a->unknown_was;
	memcpy(a->peak, a->peak_was, e->m->n_devices * sizeof(*a->peak));
	return true;
}

/* ---- the most that lives ---- */

/* A running sum and its largest. */
struct lives {
	int64_t live, peak;
};

/* One row after another. */
static struct lives sum_each(const int64_t *change_bytes, uint32_t n, struct lives x)
{
	for (uint32_t i = 0; i < n; i++) {
		x.live += change_bytes[i];
		x.peak = x.live > x.peak ? x.live : x.peak;
	}
	return x;
}

/* Each sum waits for the one before it, so four parts are summed side by side. */
static struct lives sum_rows(const int64_t *change_bytes, uint32_t n, struct lives x)
{
	uint32_t each = n / SIDE_BY_SIDE;
	const int64_t *at[SIDE_BY_SIDE];
	struct lives part[SIDE_BY_SIDE] = {{0}};

	if (each < WORTH_ROWS)
		return sum_each(change_bytes, n, x);
	for (uint32_t k = 0; k < SIDE_BY_SIDE; k++) {
		at[k] = change_bytes + k * each;
		part[k].peak = INT64_MIN;
	}
	for (uint32_t i = 0; i < each; i++)
		for (uint32_t k = 0; k < SIDE_BY_SIDE; k++)
			part[k] = sum_each(at[k] + i, 1, part[k]);
	for (uint32_t k = 0; k < SIDE_BY_SIDE; k++) {
		int64_t peak = x.live + part[k].peak;

		x.peak = peak > x.peak ? peak : x.peak;
		x.live += part[k].live;
	}
	return sum_each(change_bytes + SIDE_BY_SIDE * each, n - SIDE_BY_SIDE * each, x);
}

/* What lives grows or shrinks by the same each time: of those without rows the last has the
 * highest peak, if not the second of all. */
static struct lives sum_run(const int64_t *change_bytes, uint32_t second, const struct ff_run *r,
		struct lives x)
{
	int64_t before = x.live;

	x = sum_rows(change_bytes + second, r->period, x);
	if (r->n < 3)
		return x;
	x.live += (r->n - 3) * (x.live - before);
	return sum_rows(change_bytes + second, r->period, x);
}

static int64_t peak_of(const struct ff_order *f, const int64_t *change_bytes)
{
	struct lives x = {0, 0};
	uint32_t row = 0;

	for (uint32_t i = 0; i < f->n_runs; i++) {
		const struct ff_run *r = &f->run[i];
		uint32_t second = f->account.row[r->first + r->period];

		x = sum_rows(change_bytes + row, second - row, x);
		x = sum_run(change_bytes, second, r, x);
		row = second + r->period;
	}
	return sum_rows(change_bytes + row, f->account.n_rows - row, x).peak;
}

FF_CLONES static void add_rows(uint32_t n, const int64_t *more, int64_t *restrict sum)
{
	for (uint32_t i = 0; i < n; i++)
		sum[i] += more[i];
}

/* Adds up the columns up to that of `device`. */
static void sum_columns(struct ff_account *a, uint32_t device)
{
	if (!a->n_summed)
		memset(a->sum, 0, a->n_rows * sizeof(*a->sum));
	for (; a->n_summed <= device; a->n_summed++)
		if (a->n_set[a->n_summed])
			add_rows(a->n_rows, column(a, a->n_summed), a->sum);
}

int64_t ff_columns_peak(struct ff_trial *e, uint32_t device, int64_t before)
{
	struct ff_account *a = &e->order.account;

	if (!device)
		a->n_summed = 0;
	if (device < a->unknown.first || device >= a->unknown.end)
		return a->peak[device];
	a->unknown.first++; /* devices ascend */
	a->peak[device] = before;
	if (a->n_set[device]) {
		sum_columns(a, device);
		a->peak[device] = peak_of(&e->order, a->sum);
	}
	return a->peak[device];
}
