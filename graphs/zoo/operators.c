/* The operators and what each can be cut along, from their rows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operators.h"

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

static void write_row(const struct ff_op_row *row, const struct ff_cuts *c, struct ff_out *o)
{
	const char *before = "";

	ff_out_printf(o, "| `%s` |", row->name);
	for (uint32_t i = 0; i < sizeof(labels); i++) {
		ff_out_printf(o, " ");
		write_cell(c, labels[i], o);
		ff_out_printf(o, " |");
	}
	ff_out_printf(o, " ");
	for (uint32_t i = 0; i < FF_MAX_RANK; i++)
		if (c->whole >> i & 1) {
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

static int write_operator(enum ff_op op, bool json, struct ff_out *o, struct ff_error *err)
{
	struct ff_arena a;
	struct ff_graph g;
	struct ff_cuts cuts;
	uint32_t node;
	int code;

	ff_arena_init(&a);
	code = ff_op_example(op, &a, &g, &node, err);
	if (code == FF_OK) {
		ff_cuts_find(&g, node, &cuts);
		if (json)
			write_object(ff_op_row(op), &cuts, o);
		else
			write_row(ff_op_row(op), &cuts, o);
	}
	ff_arena_finish(&a);
	return code;
}

int ff_operators_write(bool json, struct ff_out *o, struct ff_error *err)
{
	int code = FF_OK;

	if (json) {
		ff_out_object(o, NULL);
		ff_out_string(o, "format", "ffsoap-operators");
		ff_out_int(o, "version", VERSION);
		ff_out_array(o, "operators");
	} else {
		ff_out_printf(o, "| operator | S | A | P | R | whole "
				 "|\n|---|---|---|---|---|---|\n");
	}
	for (uint32_t op = 0; op < FF_OP_COUNT && code == FF_OK; op++)
		/* only what has a config of its own and reads data or makes some */
		if (!(ff_op_rows[op]->flags & (FF_OP_SOURCE | FF_OP_UPDATE | FF_OP_PRELUDE)))
			code = write_operator((enum ff_op)op, json, o, err);
	if (json) {
		ff_out_close(o);
		ff_out_close(o);
	}
	return code;
}
