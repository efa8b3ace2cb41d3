/* ffplan show: a plan on one screen.  SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "columns.h"
#include "explain/text.h"
#include "ff/name_fold.h"
#include "pricing.h"
#include "sheet.h"

#define MOST_DEGREES 64 /* told apart: dims and how many times each is cut */
#define TOLD_DEGREES 6

/* ---- the plan in some lines ---- */

static void print_memory(int64_t least, int64_t most, FILE *to)
{
	char a[FF_TEXT], b[FF_TEXT];

	ff_bytes_text(least, a);
	ff_bytes_text(most, b);
	fprintf(to, strcmp(a, b) ? ", %s to %s a device" : ", %s a device", a, b);
}

static void print_head(const struct ff_sheet *s, FILE *to)
{
	char us[FF_TEXT];

	fprintf(to, "%s: graph %s on %u device%s of machine %s", s->path, s->graph, s->devices,
			s->devices == 1 ? "" : "s", s->machine);
	if (s->optimizer)
		fprintf(to, ", optimizer %s", s->optimizer);
	fprintf(to, "\n");
	if (!(s->predicted_us > 0))
		return;
	ff_time_text(s->predicted_us, us);
	fprintf(to, "predicted %s a step", us);
	if (s->costs)
		fprintf(to, " (costs %s)", s->costs);
	if (s->most_bytes)
		print_memory(s->least_bytes, s->most_bytes, to);
	fprintf(to, "\n");
}

static void print_phases(const struct ff_sheet *s, FILE *to)
{
	fprintf(to, "%u stage%s", s->stages, s->stages == 1 ? "" : "s");
	if (s->micro_batches > 1)
		fprintf(to, ", %u micro-batches (%s)", s->micro_batches, s->order);
	else
		fprintf(to, ", 1 micro-batch");
	if (s->chunks > 1)
		fprintf(to, ", %u stages a device", s->chunks);
	if (s->recomputed)
		fprintf(to, ", %u operator%s recomputed", s->recomputed,
				s->recomputed == 1 ? "" : "s");
	if (s->flat)
		fprintf(to, ", %u parameter%s updated in shares (%s%s)", s->flat,
				s->flat == 1 ? "" : "s",
				s->dropped   ? "ZeRO-3"
				: s->scatter ? "ZeRO-2"
					     : "ZeRO-1",
				s->shards ? ", hybrid" : "");
	if (s->flat && s->shards)
		fprintf(to, ", shares over %u devices each", s->shards);
	fprintf(to, "\n");
}

/* A dim, how many times it is cut, and by how many operators. */
struct degree {
	const char *dim;
	uint32_t degree, operators;
};

static int by_operators(const void *a, const void *b)
{
	const struct degree *x = a, *y = b;

	if (x->operators != y->operators)
		return x->operators < y->operators ? 1 : -1;
	return strcmp(x->dim, y->dim) ? strcmp(x->dim, y->dim)
				      : (x->degree > y->degree) - (x->degree < y->degree);
}

static void count_degree(struct degree *d, uint32_t *n, const struct ff_json *v)
{
	uint32_t i = 0;

	while (i < *n && (strcmp(d[i].dim, v->key) != 0 || d[i].degree != (uint32_t)v->number))
		i++;
	if (i == MOST_DEGREES)
		return;
	if (i == *n)
		d[(*n)++] = (struct degree){v->key, (uint32_t)v->number, 0};
	d[i].operators++;
}

static void print_degrees(const struct ff_sheet *s, FILE *to)
{
	struct degree d[MOST_DEGREES];
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		const struct ff_json *degrees = ff_json_get(s->row[i].at, "degrees");

		for (uint32_t k = 0; degrees && k < degrees->n; k++)
			if (degrees->child[k].number > 1)
				count_degree(d, &n, &degrees->child[k]);
	}
	qsort(d, n, sizeof(*d), by_operators);
	fprintf(to, n ? "cut: " : "nothing is cut");
	for (uint32_t i = 0; i < n && i < TOLD_DEGREES; i++)
		fprintf(to, "%s%s %u (%u operator%s)", i ? ", " : "", d[i].dim, d[i].degree,
				d[i].operators, d[i].operators == 1 ? "" : "s");
	fprintf(to, n > TOLD_DEGREES ? ", ...\n" : "\n");
}

static int print_priced(const struct ff_ask *ask, const struct ff_sheet *s, struct ff_error *err)
{
	struct ff_pricing p = {.graph_path = ask->graph,
			.machine_name = ask->machine,
			.costs_path = ask->costs,
			.a = ask->a};
	struct ff_priced at;
	char us[FF_TEXT];
	int code = ff_pricing_load_graph(&p, err);

	if (code == FF_OK)
		code = ff_pricing_load_machine(&p, s->devices, err);
	if (code == FF_OK)
		code = ff_pricing_file(&p, s->path, &at, err);
	if (code == FF_OK) {
		ff_time_text(at.step_us, us);
		fprintf(ask->to, "on %s by %s costs: %s a step", p.machine.name, ask->costs, us);
		print_memory(at.least_bytes, at.most_bytes, ask->to);
		fprintf(ask->to, "%s\n", at.fits ? "" : ", which does not fit");
	}
	ff_pricing_finish(&p);
	return code;
}

/* Without a machine the graph says only whether the plan is for it. */
static int check_graph(const struct ff_ask *ask, const struct ff_sheet *s, struct ff_error *err)
{
	struct ff_pricing p = {.graph_path = ask->graph, .a = ask->a};
	struct ff_strategy plan;
	int code = ff_pricing_load_graph(&p, err);

	if (code == FF_OK)
		code = ff_strategy_load_rewritten(
				s->path, &p.graph, s->devices, ask->a, &plan, NULL, err);
	return code;
}

/* ---- its operators ---- */

static int print_folded(
		const struct ff_sheet *s, struct ff_arena *a, FILE *to, struct ff_error *err)
{
	struct ff_fold_row *row = ff_arena_array(a, s->n, sizeof(*row));
	const char **cell = ff_arena_array(a, 3 * ((size_t)s->n + 1), sizeof(*cell));
	struct ff_folded *fold;
	uint32_t n;
	int code = FF_OK;

	if (!row || !cell)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < s->n && code == FF_OK; i++) {
		row[i].name = s->row[i].name;
		row[i].says = ff_arena_printf(a, "%s on %s", s->row[i].split, s->row[i].devices);
		code = row[i].says ? FF_OK : ff_fail_memory(err);
	}
	if (code == FF_OK)
		code = ff_fold(row, s->n, a, &fold, &n, err);
	if (code < 0)
		return code;
	cell[0] = "operator";
	cell[1] = "split";
	cell[2] = "devices";
	for (uint32_t i = 0; i < n; i++) {
		const struct ff_folded *f = &fold[i];

		cell[3 * i + 3] =
				f->n == 1 ? f->name : ff_arena_printf(a, "%s (x%u)", f->name, f->n);
		cell[3 * i + 4] = s->row[f->first].split;
		cell[3 * i + 5] = s->row[f->first].devices;
		if (!cell[3 * i + 3])
			return ff_fail_memory(err);
	}
	ff_columns_print(cell, n + 1, 3, to);
	return FF_OK;
}

static int print_list(const struct ff_ask *ask, const struct ff_sheet *s, struct ff_error *err)
{
	const char **cell = ff_arena_array(ask->a, 3 * (size_t)s->n, sizeof(*cell));
	uint32_t n = 0;

	if (!cell)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < s->n; i++) {
		const char **to = &cell[3 * (size_t)n];

		if (fnmatch(ask->list, s->row[i].name, 0) != 0)
			continue;
		to[0] = s->row[i].name;
		to[1] = s->row[i].split;
		to[2] = s->row[i].devices;
		n++;
	}
	if (!n)
		return ff_fail(err, FF_E_INPUT,
				"option --list: %s has no operator called %.100s (* and ? stand "
				"for letters)",
				s->path, ask->list);
	ff_columns_print(cell, n, 3, ask->to);
	return FF_OK;
}

int ff_ask_show(const struct ff_ask *ask, struct ff_error *err)
{
	struct ff_sheet s;
	int code = ff_sheet_load(ask->operand[0], ask->a, &s, err);

	if (code == FF_OK && ask->graph && !ask->machine)
		code = check_graph(ask, &s, err);
	if (code < 0)
		return code;
	if (ask->list)
		return print_list(ask, &s, err);
	print_head(&s, ask->to);
	if (ask->machine)
		code = print_priced(ask, &s, err);
	if (code < 0)
		return code;
	print_phases(&s, ask->to);
	print_degrees(&s, ask->to);
	fprintf(ask->to, "\n");
	return print_folded(&s, ask->a, ask->to, err);
}
