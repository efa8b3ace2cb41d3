/* Tables of least sums.  Each is found by what it was made of: the arrays of its terms and how they
 * lie in its scope.  SPDX-License-Identifier: Apache-2.0 */
#include "least.h"

#include <math.h>
#include <string.h>

#include "ff/clones.h"
#include "ff/grow.h"

#define LANES 8 /* choices that are looked at side by side; rows are padded to so many */
#define ROW (FF_MAX_CHOICES + LANES)
#define MOST_BYTES ((size_t)256 << 20) /* of tables, before they are forgotten */

struct ff_least_known {
	uint64_t *word; /* what it was made of */
	uint32_t n_words;
	struct ff_least made;
};

enum { IS_LEAST, IS_SAME, IS_SLICE };

/* A term as it is walked: by the scope's choices a row of those of the variable that goes. */
struct walked {
	const double *cost;
	size_t stride[FF_MAX_SCOPE];
	uint32_t level; /* 1 + the last variable of the scope it has; 0: none */
};

void ff_leasts_init(struct ff_leasts *l)
{
	memset(l, 0, sizeof(*l));
	ff_arena_init(&l->arena);
	ff_arena_init(&l->scratch);
	l->table.arena = &l->arena;
}

void ff_leasts_finish(struct ff_leasts *l)
{
	ff_arena_finish(&l->arena);
	ff_arena_finish(&l->scratch);
}

void ff_leasts_trim(struct ff_leasts *l)
{
	if (ff_arena_used(&l->arena) <= MOST_BYTES)
		return;
	ff_arena_rewind(&l->arena, (struct ff_arena_mark){0});
	l->table = (struct ff_table){.arena = &l->arena};
	l->known = NULL;
	l->cap = 0;
}

/* ---- what is known ---- */

static const struct ff_least *recall(
		const struct ff_leasts *l, const uint64_t *word, uint32_t n, uint64_t hash)
{
	uint32_t at;

	for (uint32_t i = ff_table_first(&l->table, hash, &at); i != FF_NONE;
			i = ff_table_next(&l->table, hash, &at))
		if (l->known[i].n_words == n && !memcmp(l->known[i].word, word, n * sizeof(*word)))
			return &l->known[i].made;
	return NULL;
}

static int remember(struct ff_leasts *l, const uint64_t *word, uint32_t n, uint64_t hash,
		const struct ff_least *made)
{
	uint64_t *own = ff_arena_copy(&l->arena, word, n, sizeof(*own));

	l->known = ff_grow_in(&l->arena, l->known, l->table.n, &l->cap, sizeof(*l->known));
	if (!own || !l->known)
		return FF_E_NOMEM;
	l->known[l->table.n] = (struct ff_least_known){own, n, *made};
	return ff_table_put(&l->table, hash, l->table.n);
}

/* ---- one table ---- */

/* A term with the variable that goes last, in rows of `padded`. */
static int turn(struct ff_leasts *l, const struct ff_least_ask *ask, const struct ff_least_term *t,
		uint32_t padded, struct walked *ret)
{
	size_t inner = 1, outer = 1, n = ask->choices, step = padded;
	uint32_t i = 0;
	double *cost;

	for (; t->place[i] != FF_SCOPE_GOES; i++)
		outer *= ask->size[t->place[i]];
	for (i++; i < t->n; i++)
		inner *= ask->size[t->place[i]];
	cost = ff_arena_array(&l->scratch, outer * inner * padded, sizeof(*cost));
	if (!cost)
		return FF_E_NOMEM;
	for (size_t o = 0; o < outer; o++)
		for (size_t x = 0; x < n; x++)
			for (size_t k = 0; k < inner; k++)
				cost[(o * inner + k) * padded + x] =
						t->cost[(o * n + x) * inner + k];
	*ret = (struct walked){.cost = cost};
	for (i = t->n; i-- > 0;) {
		uint32_t place = t->place[i];

		if (place == FF_SCOPE_GOES)
			continue;
		ret->stride[place] = step;
		step *= ask->size[place];
		ret->level = place + 1 > ret->level ? place + 1 : ret->level;
	}
	return FF_OK;
}

/* Of `n` sums the least, and the first that is as small. */
static inline double least_of(uint32_t n, const double *restrict sum, uint8_t *best)
{
	double least[LANES], at[LANES];
	uint32_t k = 0;

	for (uint32_t i = 0; i < LANES; i++) {
		least[i] = sum[i];
		at[i] = i;
	}
	for (uint32_t x = LANES; x < n; x += LANES)
		for (uint32_t i = 0; i < LANES; i++) {
			bool less = sum[x + i] < least[i];

			at[i] = less ? x + i : at[i];
			least[i] = less ? sum[x + i] : least[i];
		}
	for (uint32_t i = 1; i < LANES; i++)
		if (least[i] < least[k] || (least[i] == least[k] && at[i] < at[k]))
			k = i;
	*best = (uint8_t)at[k];
	return least[k];
}

/* Rows that are added one behind the other. */
struct rows {
	const double *cost;
	size_t stride;
};

/* Least sums by the last variable of the scope: of `row` and what is added to it. */
FF_CLONES static void find_run(uint32_t n, uint32_t length, const double *restrict row,
		uint32_t n_added, const struct rows *added, double *restrict least, uint8_t *best)
{
	double sum[ROW];

	for (uint32_t s = 0; s < length; s++) {
		memcpy(sum, row, n * sizeof(*sum));
		for (uint32_t k = 0; k < n_added; k++) {
			const double *restrict from = added[k].cost + s * added[k].stride;

			for (uint32_t i = 0; i < n; i++)
				sum[i] += from[i];
		}
		least[s] = least_of(n, sum, &best[s]);
	}
}

/* All terms of one level, where the scope's choices are `digit`, to `row`. */
static void add_level(const struct walked *w, uint32_t n_walked, uint32_t level,
		const uint32_t *digit, uint32_t padded, double *restrict row)
{
	for (uint32_t k = 0; k < n_walked; k++) {
		const double *restrict from = w[k].cost;

		if (w[k].level != level)
			continue;
		for (uint32_t i = 0; i < level; i++)
			from += w[k].stride[i] * digit[i];
		for (uint32_t i = 0; i < padded; i++)
			row[i] += from[i];
	}
}

/* The next choices of all variables but the last; returns the first that is another, `n`: there are
 * no more. */
static uint32_t next_choices(const struct ff_least_ask *ask, uint32_t n, uint32_t *digit)
{
	for (uint32_t i = n; i-- > 0;) {
		if (++digit[i] < ask->size[i])
			return i;
		digit[i] = 0;
	}
	return n;
}

/* For all choices of the scope, the last one's fastest.  Terms are added as soon as all that they
 * have is chosen: what the last variable runs through is added to one sum of all others. */
static void fill(const struct ff_least_ask *ask, const struct walked *w, uint32_t padded,
		struct rows *added, double *least, uint8_t *best)
{
	uint32_t digit[FF_MAX_SCOPE] = {0}, n = ask->n ? ask->n - 1 : 0, from = 0;
	uint32_t length = ask->n ? ask->size[n] : 1;
	double row[FF_MAX_SCOPE][ROW];

	for (uint32_t i = 0; i < padded; i++)
		row[0][i] = i < ask->choices ? 0 : INFINITY;
	add_level(w, ask->n_terms, 0, digit, padded, row[0]);
	do {
		uint32_t n_added = 0;

		for (uint32_t level = from + 1; level <= n; level++) {
			memcpy(row[level], row[level - 1], padded * sizeof(**row));
			add_level(w, ask->n_terms, level, digit, padded, row[level]);
		}
		for (uint32_t k = 0; k < ask->n_terms; k++) {
			if (w[k].level != n + 1)
				continue;
			added[n_added] = (struct rows){w[k].cost, w[k].stride[n]};
			for (uint32_t i = 0; i < n; i++)
				added[n_added].cost += w[k].stride[i] * digit[i];
			n_added++;
		}
		find_run(padded, length, row[n], n_added, added, least, best);
		least += length;
		best += length;
		from = next_choices(ask, n, digit);
	} while (from < n);
}

static int make(struct ff_leasts *l, const struct ff_least_ask *ask, struct ff_least *ret)
{
	uint32_t padded = (ask->choices + LANES - 1) / LANES * LANES;
	struct walked *w = ff_arena_array(&l->scratch, ask->n_terms, sizeof(*w));
	struct rows *added = ff_arena_array(&l->scratch, ask->n_terms, sizeof(*added));
	size_t entries = 1;
	double *least;
	uint8_t *best;
	int code = w && added ? FF_OK : FF_E_NOMEM;

	for (uint32_t i = 0; i < ask->n; i++)
		entries *= ask->size[i];
	least = ff_arena_array(&l->arena, entries, sizeof(*least));
	best = ff_arena_array(&l->arena, entries, 1);
	if (!least || !best)
		code = FF_E_NOMEM;
	for (uint32_t k = 0; k < ask->n_terms && code == FF_OK; k++)
		code = turn(l, ask, &ask->term[k], padded, &w[k]);
	if (code < 0)
		return code;
	fill(ask, w, padded, added, least, best);
	*ret = (struct ff_least){least, best};
	return FF_OK;
}

/* ---- what is asked for ---- */

/* What a table is made of, in words. */
static uint64_t *describe(struct ff_leasts *l, const struct ff_least_ask *ask, uint32_t *n)
{
	uint64_t *word = ff_arena_array(
			&l->scratch, 4 + ask->n + 2 * (size_t)ask->n_terms, sizeof(*word));
	uint32_t at = 0;

	if (!word)
		return NULL;
	word[at++] = IS_LEAST;
	word[at++] = ask->choices;
	word[at++] = ask->n;
	word[at++] = ask->n_terms;
	for (uint32_t i = 0; i < ask->n; i++)
		word[at++] = ask->size[i];
	for (uint32_t k = 0; k < ask->n_terms; k++) {
		const struct ff_least_term *t = &ask->term[k];
		uint64_t places = t->n;

		for (uint32_t i = 0; i < t->n; i++)
			places = places << 4 | t->place[i];
		word[at++] = (uintptr_t)t->cost;
		word[at++] = places;
	}
	*n = at;
	return word;
}

int ff_least_find(struct ff_leasts *l, const struct ff_least_ask *ask, struct ff_least *ret)
{
	struct ff_arena_mark mark = ff_arena_mark(&l->scratch);
	uint32_t n;
	uint64_t *word = describe(l, ask, &n), hash;
	const struct ff_least *known;
	int code = FF_OK;

	if (!word)
		return FF_E_NOMEM;
	hash = ff_hash_words(word, n);
	known = recall(l, word, n, hash);
	if (known) {
		*ret = *known;
	} else {
		code = make(l, ask, ret);
		if (code == FF_OK)
			code = remember(l, word, n, hash, ret);
	}
	ff_arena_rewind(&l->scratch, mark);
	return code;
}

int ff_least_same(struct ff_leasts *l, const double *cost, uint32_t n, const double **ret)
{
	uint64_t word[FF_MAX_CHOICES + 1] = {IS_SAME}, hash;
	const struct ff_least *known;

	memcpy(word + 1, cost, n * sizeof(*cost));
	hash = ff_hash_words(word, n + 1);
	known = recall(l, word, n + 1, hash);
	*ret = known ? known->cost : cost;
	return known ? FF_OK : remember(l, word, n + 1, hash, &(struct ff_least){cost, NULL});
}

int ff_least_slice(struct ff_leasts *l, const double *cost, size_t outer, size_t choices,
		size_t inner, size_t choice, const double **ret)
{
	const uint64_t word[] = {IS_SLICE, (uintptr_t)cost, outer, choices, inner, choice};
	uint64_t hash = ff_hash_words(word, 6);
	const struct ff_least *known = recall(l, word, 6, hash);
	double *slice;

	if (known) {
		*ret = known->cost;
		return FF_OK;
	}
	slice = ff_arena_array(&l->arena, outer * inner, sizeof(*slice));
	if (!slice)
		return FF_E_NOMEM;
	for (size_t o = 0; o < outer; o++)
		memcpy(slice + o * inner, cost + (o * choices + choice) * inner,
				inner * sizeof(*slice));
	*ret = slice;
	return remember(l, word, 6, hash, &(struct ff_least){slice, NULL});
}
