/* Folding rows whose names differ in numbers alone.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/name_fold.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/hash.h"

#define MOST_NUMBERS 4 /* of a name */
#define MOST_DIGITS 6  /* of a number */
#define RANGES 96      /* bytes of a list of numbers */
#define NAME_TEXT 512  /* of a folded name */

/* A name and the numbers in it; `pattern` has a star for each. */
struct cut {
	char *pattern;
	uint32_t n, number[MOST_NUMBERS];
};

struct fold {
	const struct ff_fold_row *row;
	struct ff_arena *a;
	struct cut *cut; /* by row */
	uint32_t *next;  /* by row: the next of the same fold, FF_NONE */
	uint32_t *last;  /* by fold: its last row */
	struct ff_folded *fold;
	uint32_t n;
	struct ff_table table;
};

/* ---- numbers ---- */

void ff_fold_numbers(const uint32_t *number, uint32_t n, char *buf, size_t size)
{
	uint32_t step = n > 1 ? number[1] - number[0] : 1, i = 1;
	size_t used = 0;

	while (i < n && number[i] - number[i - 1] == step)
		i++;
	if (i >= n && n > 2 && step > 1) {
		snprintf(buf, size, "%u-%u step %u", number[0], number[n - 1], step);
		return;
	}
	*buf = '\0';
	for (uint32_t first = 0; first < n; first = i) {
		for (i = first + 1; i < n && number[i] == number[i - 1] + 1; i++)
			;
		if (used + 28 > size) {
			snprintf(buf + used, size - used, ",...");
			return;
		}
		used += (size_t)snprintf(buf + used, size - used,
				i - first > 1 ? "%s%u-%u" : "%s%u", used ? "," : "", number[first],
				number[i - 1]);
	}
}

/* ---- names ---- */

/* Digits at `at` that a dot ends; 0: there are none. */
static size_t digits(const char *at)
{
	size_t n = strspn(at, "0123456789");

	return n && n <= MOST_DIGITS && at[n] == '.' ? n : 0;
}

static int cut_name(const char *name, struct ff_arena *a, struct cut *ret)
{
	char *to = ff_arena_alloc(a, strlen(name) + 1);
	bool inside = false; /* a number that is longer */

	if (!to)
		return FF_E_NOMEM;
	ret->pattern = to;
	while (*name) {
		size_t n = ret->n < MOST_NUMBERS && !inside ? digits(name) : 0;

		inside = *name >= '0' && *name <= '9' && !n;
		if (n)
			ret->number[ret->n++] = (uint32_t)strtoul(name, NULL, 10);
		*to++ = n ? '*' : *name;
		name += n ? n : 1;
	}
	return FF_OK;
}

/* ---- folds ---- */

static uint64_t hash_row(const struct fold *x, uint32_t i)
{
	const char *says = x->row[i].says;

	return ff_hash_mix(ff_fnv1a(x->cut[i].pattern, strlen(x->cut[i].pattern)),
			ff_fnv1a(says, strlen(says)));
}

static int add_row(struct fold *x, uint32_t i)
{
	uint64_t hash = hash_row(x, i);
	uint32_t at, f = ff_table_first(&x->table, hash, &at);

	while (f != FF_NONE &&
			(strcmp(x->cut[x->fold[f].first].pattern, x->cut[i].pattern) != 0 ||
					strcmp(x->row[x->fold[f].first].says, x->row[i].says) != 0))
		f = ff_table_next(&x->table, hash, &at);
	x->next[i] = FF_NONE;
	if (f == FF_NONE) {
		f = x->n++;
		x->fold[f] = (struct ff_folded){.first = i};
		if (ff_table_put(&x->table, hash, f) < 0)
			return FF_E_NOMEM;
	} else {
		x->next[x->last[f]] = i;
	}
	x->last[f] = i;
	x->fold[f].n++;
	return FF_OK;
}

static int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The numbers at place `k` of the names in `f`, each once. */
static void list_numbers(const struct fold *x, const struct ff_folded *f, uint32_t k,
		uint32_t *number, char buf[RANGES])
{
	uint32_t n = 0, kept = 0;

	for (uint32_t i = f->first; i != FF_NONE; i = x->next[i])
		number[n++] = x->cut[i].number[k];
	qsort(number, n, sizeof(*number), by_number);
	for (uint32_t i = 0; i < n; i++)
		if (!kept || number[i] != number[kept - 1])
			number[kept++] = number[i];
	ff_fold_numbers(number, kept, buf, RANGES);
}

static int name_fold(struct fold *x, struct ff_folded *f, uint32_t *number)
{
	char text[NAME_TEXT] = "", ranges[RANGES];
	size_t used = 0;
	uint32_t k = 0;

	if (f->n == 1) {
		f->name = x->row[f->first].name;
		return FF_OK;
	}
	for (const char *c = x->cut[f->first].pattern; *c && used + RANGES < NAME_TEXT; c++) {
		if (*c != '*' || k == x->cut[f->first].n) {
			text[used++] = *c;
			continue;
		}
		list_numbers(x, f, k++, number, ranges);
		used += (size_t)snprintf(text + used, NAME_TEXT - used, "%s", ranges);
	}
	f->name = ff_arena_strdup(x->a, text);
	return f->name ? FF_OK : FF_E_NOMEM;
}

int ff_fold(const struct ff_fold_row *row, uint32_t n, struct ff_arena *a, struct ff_folded **ret,
		uint32_t *n_ret, struct ff_error *err)
{
	struct fold x = {.row = row, .a = a, .table = {.arena = a}};
	uint32_t *number = ff_arena_array(a, n, sizeof(*number));
	int code = FF_OK;

	x.cut = ff_arena_array(a, n, sizeof(*x.cut));
	x.next = ff_arena_array(a, n, sizeof(*x.next));
	x.last = ff_arena_array(a, n, sizeof(*x.last));
	x.fold = ff_arena_array(a, n, sizeof(*x.fold));
	if (!number || !x.cut || !x.next || !x.last || !x.fold)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		code = cut_name(row[i].name, a, &x.cut[i]);
	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		code = add_row(&x, i);
	for (uint32_t f = 0; f < x.n && code == FF_OK; f++)
		code = name_fold(&x, &x.fold[f], number);
	if (code < 0)
		return ff_fail_memory(err);
	*ret = x.fold;
	*n_ret = x.n;
	return FF_OK;
}
