/* The operators and what each can be cut along, from their rows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operators.h"

#include <string.h>

#include "ff/graph.h"
#include "operator/cuts.h"
#include "operator/example.h"

#define VERSION 1 /* of the JSON */

static const char labels[] = {FF_DIM_SAMPLE, FF_DIM_ATTRIBUTE, FF_DIM_PARAMETER, FF_DIM_REDUCTION};

/* "height (halo), width (halo)", or nothing. */
static void write_cell(const struct ff_cuts *c, char label, struct ff_out *o)
{
	const char *before = "";

	for (uint32_t d = 0; d < c->n; d++) {
		const struct ff_cut *cut = &c->cut[d];

		if (cut->label != (enum ff_label)label)
			continue;
		ff_out_printf(o, "%s%s%s%s%s", before, cut->name, cut->halo ? " (halo)" : "",
				cut->exchange ? " (exchange)" : "",
				cut->carries ? " (in turn)" : "");
		before = ", ";
	}
}

static bool are_alike(const struct ff_cuts *a, const struct ff_cuts *b)
{
	bool alike = a->n == b->n && a->whole == b->whole;

	for (uint32_t d = 0; alike && d < a->n; d++) {
		const struct ff_cut *x = &a->cut[d], *y = &b->cut[d];

		alike = x->label == y->label && !strcmp(x->name, y->name) && x->halo == y->halo &&
			x->exchange == y->exchange && x->carries == y->carries;
	}
	return alike;
}

/* One operator and those behind it that are cut as it is. */
static void write_row(uint32_t first, const struct ff_cuts *cuts, const bool *has, bool *written,
		struct ff_out *o)
{
	const char *before = "| ";

	for (uint32_t op = first; op < FF_OP_COUNT; op++) {
		if (!has[op] || written[op] || !are_alike(&cuts[op], &cuts[first]))
			continue;
		ff_out_printf(o, "%s`%s`", before, ff_op_row((enum ff_op)op)->name);
		before = " ";
		written[op] = true;
	}
	ff_out_printf(o, " |");
	for (uint32_t i = 0; i < sizeof(labels); i++) {
		ff_out_printf(o, " ");
		write_cell(&cuts[first], labels[i], o);
		ff_out_printf(o, " |");
	}
	before = "";
	ff_out_printf(o, " ");
	for (uint32_t i = 0; i < FF_MAX_RANK; i++)
		if (cuts[first].whole >> i & 1) {
			ff_out_printf(o, "%s%u", before, i);
			before = ", ";
		}
	ff_out_printf(o, " |\n");
}

static void write_object(const struct ff_op_row *row, const struct ff_cuts *c, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "op", row->name);
	ff_out_string(o, "summary", row->summary);
	ff_out_array(o, "dims");
	for (uint32_t d = 0; d < c->n; d++) {
		const char label[] = {(char)c->cut[d].label, '\0'};

		ff_out_object(o, NULL);
		ff_out_string(o, "name", c->cut[d].name);
		ff_out_string(o, "label", label);
		ff_out_bool(o, "halo", c->cut[d].halo);
		ff_out_bool(o, "exchange", c->cut[d].exchange);
		ff_out_bool(o, "carries", c->cut[d].carries);
		ff_out_close(o);
	}
	ff_out_close(o);
	ff_out_array(o, "whole");
	for (uint32_t i = 0; i < FF_MAX_RANK; i++)
		if (c->whole >> i & 1)
			ff_out_int(o, NULL, i);
	ff_out_close(o);
	ff_out_close(o);
}

static void write_table(const struct ff_cuts *cuts, const bool *has, struct ff_out *o)
{
	bool written[FF_OP_COUNT] = {false};

	ff_out_printf(o, "| operators | S | A | P | R | whole |\n|---|---|---|---|---|---|\n");
	for (uint32_t op = 0; op < FF_OP_COUNT; op++)
		if (has[op] && !written[op])
			write_row(op, cuts, has, written, o);
}

static void write_json(const struct ff_cuts *cuts, const bool *has, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "format", "ffsoap-operators");
	ff_out_int(o, "version", VERSION);
	ff_out_array(o, "operators");
	for (uint32_t op = 0; op < FF_OP_COUNT; op++)
		if (has[op])
			write_object(ff_op_row((enum ff_op)op), &cuts[op], o);
	ff_out_close(o);
	ff_out_close(o);
}

int ff_operators_write(bool json, struct ff_out *o, struct ff_error *err)
{
	struct ff_cuts cuts[FF_OP_COUNT];
	bool has[FF_OP_COUNT];
	struct ff_arena a;
	struct ff_graph g;
	uint32_t node;
	int code = FF_OK;

	ff_arena_init(&a);
	for (uint32_t op = 0; op < FF_OP_COUNT && code == FF_OK; op++) {
		/* only what has a config of its own and reads data or makes some */
		has[op] = !(ff_op_rows[op]->flags & (FF_OP_SOURCE | FF_OP_UPDATE | FF_OP_PRELUDE));
		if (has[op])
			code = ff_op_example((enum ff_op)op, &a, &g, &node, err);
		if (has[op] && code == FF_OK)
			ff_cuts_find(&g, node, &cuts[op]);
	}
	if (code == FF_OK && json)
		write_json(cuts, has, o);
	else if (code == FF_OK)
		write_table(cuts, has, o);
	ff_arena_finish(&a);
	return code;
}
