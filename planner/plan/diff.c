/* ffplan diff: what two plans have different.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "ask.h"
#include "columns.h"
#include "explain/text.h"
#include "ff/name_fold.h"
#include "pricing.h"
#include "sheet.h"

#define COLUMNS 3

/* Two plans, and the table that is made of them. */
struct diff {
	const struct ff_ask *ask;
	struct ff_sheet of[2];
	struct ff_priced at[2];
	bool priced;
	const char **cell;
	uint32_t rows;
};

static void add(struct diff *x, const char *name, const char *a, const char *b)
{
	const char **cell = &x->cell[COLUMNS * x->rows++];

	cell[0] = name;
	cell[1] = a;
	cell[2] = b;
}

/* ---- the plans as a whole ---- */

static const char *memory_of(struct ff_arena *a, int64_t least, int64_t most, bool fits)
{
	char low[FF_TEXT], high[FF_TEXT];
	const char *without = fits ? "" : ", does not fit";

	ff_bytes_text(least, low);
	ff_bytes_text(most, high);
	return strcmp(low, high) ? ff_arena_printf(a, "%s to %s%s", low, high, without)
				 : ff_arena_printf(a, "%s%s", low, without);
}

static const char *time_of(struct ff_arena *a, double us)
{
	char text[FF_TEXT] = "-";

	if (us > 0)
		ff_time_text(us, text);
	return ff_arena_strdup(a, text);
}

static const char *moved_of(struct ff_arena *a, int64_t bytes)
{
	char text[FF_TEXT];

	ff_bytes_text(bytes, text);
	return ff_arena_strdup(a, text);
}

static const char *phases_of(struct ff_arena *a, const struct ff_sheet *s)
{
	return ff_arena_printf(a, "%u, %u", s->stages, s->micro_batches);
}

static const char *updates_of(struct ff_arena *a, const struct ff_sheet *s)
{
	const char *how = s->scatter ? ", scattered" : "";

	if (s->shards)
		return ff_arena_printf(a, "%u, %u%s, over %u devices each", s->flat, s->dropped,
				how, s->shards);
	return ff_arena_printf(a, "%u, %u%s", s->flat, s->dropped, how);
}

static int print_whole(struct diff *x, struct ff_error *err)
{
	struct ff_arena *a = x->ask->a;
	const struct ff_sheet *p = &x->of[0], *q = &x->of[1];
	const struct ff_priced *at = x->at;

	x->cell = ff_arena_array(a, COLUMNS * 10, sizeof(*x->cell));
	if (!x->cell)
		return ff_fail_memory(err);
	x->rows = 0;
	add(x, "", p->path, q->path);
	add(x, "devices", ff_arena_printf(a, "%u", p->devices),
			ff_arena_printf(a, "%u", q->devices));
	add(x, "stages, micro-batches", phases_of(a, p), phases_of(a, q));
	add(x, "updated in shares, ZeRO-3", updates_of(a, p), updates_of(a, q));
	add(x, "operators recomputed", ff_arena_printf(a, "%u", p->recomputed),
			ff_arena_printf(a, "%u", q->recomputed));
	add(x, "step time", time_of(a, x->priced ? at[0].step_us : p->predicted_us),
			time_of(a, x->priced ? at[1].step_us : q->predicted_us));
	if (x->priced)
		add(x, "memory per device",
				memory_of(a, at[0].least_bytes, at[0].most_bytes, at[0].fits),
				memory_of(a, at[1].least_bytes, at[1].most_bytes, at[1].fits));
	else if (p->most_bytes && q->most_bytes)
		add(x, "memory per device", memory_of(a, p->least_bytes, p->most_bytes, true),
				memory_of(a, q->least_bytes, q->most_bytes, true));
	if (x->priced)
		add(x, "moved per step", moved_of(a, at[0].sent_bytes),
				moved_of(a, at[1].sent_bytes));
	for (uint32_t i = 0; i < COLUMNS * x->rows; i++)
		if (!x->cell[i])
			return ff_fail_memory(err);
	ff_columns_print(x->cell, x->rows, COLUMNS, x->ask->to);
	return FF_OK;
}

/* ---- operators ---- */

static const char *says(struct ff_arena *a, const struct ff_sheet_row *r)
{
	if (!r)
		return "-";
	return *r->devices ? ff_arena_printf(a, "%s on %s", r->split, r->devices) : r->split;
}

/* Rows of names in one of both plans where they are not alike. */
static int collect(struct diff *x, struct ff_fold_row *row, uint32_t *alike, struct ff_error *err)
{
	struct ff_arena *a = x->ask->a;

	for (uint32_t k = 0; k < 2; k++)
		for (uint32_t i = 0; i < x->of[k].n; i++) {
			const struct ff_sheet_row *own = &x->of[k].row[i];
			const struct ff_sheet_row *other = ff_sheet_find(&x->of[!k], own->name);
			const char *p, *q;

			if (k && other)
				continue; /* it had its turn */
			p = says(a, k ? other : own);
			q = says(a, k ? own : other);
			if (!p || !q)
				return ff_fail_memory(err);
			if (!strcmp(p, q)) {
				(*alike)++;
				continue;
			}
			row[x->rows].name = own->name;
			row[x->rows].says = ff_arena_printf(a, "%s\n%s", p, q);
			if (!row[x->rows].says)
				return ff_fail_memory(err);
			add(x, own->name, p, q);
		}
	return FF_OK;
}

static int print_folded(struct diff *x, const struct ff_fold_row *row, struct ff_error *err)
{
	struct ff_arena *a = x->ask->a;
	const char **all = x->cell;
	struct ff_folded *fold;
	uint32_t n;
	int code = ff_fold(row, x->rows, a, &fold, &n, err);

	if (code < 0)
		return code;
	x->cell = ff_arena_array(a, COLUMNS * ((size_t)n + 1), sizeof(*x->cell));
	if (!x->cell)
		return ff_fail_memory(err);
	x->rows = 0;
	add(x, "operator", x->of[0].path, x->of[1].path);
	for (uint32_t i = 0; i < n; i++) {
		const char **cell = &all[COLUMNS * fold[i].first];
		const char *name = fold[i].n == 1 ? fold[i].name
						  : ff_arena_printf(a, "%s (x%u)", fold[i].name,
								    fold[i].n);

		if (!name)
			return ff_fail_memory(err);
		add(x, name, cell[1], cell[2]);
	}
	ff_columns_print(x->cell, x->rows, COLUMNS, x->ask->to);
	return FF_OK;
}

static int print_operators(struct diff *x, struct ff_error *err)
{
	size_t most = (size_t)x->of[0].n + x->of[1].n;
	struct ff_fold_row *row = ff_arena_array(x->ask->a, most, sizeof(*row));
	uint32_t alike = 0;
	int code;

	x->cell = ff_arena_array(x->ask->a, COLUMNS * most, sizeof(*x->cell));
	x->rows = 0;
	if (!row || !x->cell)
		return ff_fail_memory(err);
	code = collect(x, row, &alike, err);
	if (code < 0)
		return code;
	fprintf(x->ask->to, "\n%u operators and parameters are alike", alike);
	if (!x->rows) {
		fprintf(x->ask->to, ", and none is not\n");
		return FF_OK;
	}
	fprintf(x->ask->to, ", %u are not:\n", x->rows);
	return print_folded(x, row, err);
}

/* ---- prices ---- */

static int price(struct diff *x, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t k = 0; k < 2 && code == FF_OK; k++) {
		struct ff_pricing p = {.graph_path = x->ask->graph,
				.machine_name = x->ask->machine,
				.costs_path = x->ask->costs,
				.a = x->ask->a};

		code = ff_pricing_load_graph(&p, err);
		if (code == FF_OK)
			code = ff_pricing_load_machine(&p, x->of[k].devices, err);
		if (code == FF_OK)
			code = ff_pricing_file(&p, x->of[k].path, &x->at[k], err);
		ff_pricing_finish(&p);
	}
	x->priced = true;
	return code;
}

int ff_ask_diff(const struct ff_ask *ask, struct ff_error *err)
{
	struct diff x = {.ask = ask};
	int code = FF_OK;

	for (uint32_t k = 0; k < 2 && code == FF_OK; k++)
		code = ff_sheet_load(ask->operand[k], ask->a, &x.of[k], err);
	if (code == FF_OK && ask->machine)
		code = price(&x, err);
	if (code == FF_OK)
		code = print_whole(&x, err);
	return code == FF_OK ? print_operators(&x, err) : code;
}
