/* ffplan rebase: a plan carried to another batch, another network or other devices, by the names
 * of operators.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "explain/text.h"
#include "ff/micro.h"
#include "ff/name_fold.h"
#include "ff/optimizer.h"
#include "pricing.h"
#include "sheet.h"
#include "space/carry_config.h"

/* What an operator's config comes from; the last of them are told of. */
enum source {
	AS_IT_WAS,
	FROM_LAYER, /* of another number, for the plan has none of this */
	LESS,       /* cut less often, or on fewer devices */
	SHARES,     /* a parameter whose parts would be so: flat */
	BY_SAMPLE,  /* the plan has none that would do */
	SOURCES
};
static const char *const told[] = {[AS_IT_WAS] = "carried",
		[FROM_LAYER] = "as a layer of another number, which the plan has",
		[LESS] = "cut less often, or on fewer devices, than before",
		[SHARES] = "updated in shares, where parts would be on fewer devices",
		[BY_SAMPLE] = "split by sample, where the plan says nothing that would do"};

struct rebase {
	const struct ff_ask *ask;
	struct ff_sheet sheet;
	struct ff_pricing p;
	struct ff_graph micro;
	uint32_t to; /* devices */
	struct ff_strategy s;
	struct ff_strategy_info info;
	uint8_t *source; /* by node: enum source */
};

/* ---- what the plan says as a whole ---- */

static int read_optimizer(struct rebase *x, struct ff_error *err)
{
	const struct ff_json *root = x->sheet.root, *clip = ff_json_get(root, "clip");
	struct ff_error why;
	int code = FF_OK;

	x->info.optimizer = ff_optimizer_preset();
	if (x->sheet.optimizer &&
			ff_optimizer_find(x->sheet.optimizer, &x->info.optimizer, &why) < 0)
		code = ff_json_fail(ff_json_get(root, "optimizer"), err, "%s", why.text);
	if (code == FF_OK)
		code = ff_travel_read(root, &x->info.travel, err);
	x->info.clip = clip && clip->type == FF_JSON_BOOL && clip->number > 0;
	return code;
}

static int read_bucket(struct rebase *x, struct ff_error *err)
{
	int code = ff_strategy_read_scatter(x->sheet.root, &x->s, err);

	if (code == FF_OK)
		code = ff_strategy_read_shards(x->sheet.root, &x->s, err);
	if (code == FF_OK)
		code = ff_strategy_read_ticks(x->sheet.root, &x->s, err);
	if (code < 0)
		return code;
	return ff_json_get(x->sheet.root, "bucket_bytes")
			       ? ff_json_int(x->sheet.root, "bucket_bytes", 1, FF_MOST_BUCKET_BYTES,
						 &x->s.bucket_bytes, err)
			       : FF_OK;
}

/* As many micro-batches as it had, or as many of them as the network takes. */
static int choose_micro(struct rebase *x, struct ff_error *err)
{
	uint32_t m = x->sheet.micro_batches;
	struct ff_error why;
	int code = ff_graph_micro(&x->p.graph, m, x->p.a, &x->micro, &why);

	while (code == FF_E_INPUT && m > 1) {
		m--;
		if (x->sheet.micro_batches % m == 0)
			code = ff_graph_micro(&x->p.graph, m, x->p.a, &x->micro, &why);
	}
	if (code < 0) {
		*err = why;
		return code;
	}
	if (m != x->sheet.micro_batches)
		fprintf(x->ask->to, "%u micro-batches for %u, which are not for a batch of %d\n", m,
				x->sheet.micro_batches, x->p.graph.batch);
	x->s.micro_batches = m;
	ff_order_find(x->sheet.order, &x->s.rule);
	x->s.chunks = x->sheet.chunks;
	return FF_OK;
}

/* ---- operators ---- */

/* The plan's row of that name, or that of the layer before, as far back as it takes: numbers are
 * what stands before a dot. */
static int find_row(const struct rebase *x, const char *name, const struct ff_sheet_row **ret)
{
	const char *at = name, *digits = NULL;
	size_t n = 0;

	*ret = ff_sheet_find(&x->sheet, name);
	if (*ret)
		return AS_IT_WAS;
	while (*at && !digits) {
		n = strspn(at, "0123456789");
		if (n && n < 6 && at[n] == '.')
			digits = at;
		at += n ? n : 1;
	}
	for (long k = digits ? strtol(digits, NULL, 10) : 0; k-- > 0 && !*ret;) {
		char other[256];

		snprintf(other, sizeof(other), "%.*s%ld%s", (int)(digits - name), name, k,
				digits + n);
		*ret = ff_sheet_find(&x->sheet, other);
	}
	return *ret ? FROM_LAYER : BY_SAMPLE;
}

static void read_phases(struct rebase *x, uint32_t node, const struct ff_sheet_row *row)
{
	const struct ff_json *stage = ff_json_get(row->at, "stage");
	const struct ff_json *recomputed = ff_json_get(row->at, "recompute");
	const struct ff_json *priority = ff_json_get(row->at, "priority");

	if (stage && stage->type == FF_JSON_NUMBER && stage->number < x->sheet.stages)
		x->s.stage[node] = (uint16_t)stage->number;
	if (priority && priority->type == FF_JSON_NUMBER)
		x->s.priority[node] = (int32_t)priority->number;
	x->s.recompute[node] =
			recomputed && recomputed->type == FF_JSON_BOOL && recomputed->number > 0;
}

/* The first operator that makes what `node` reads; FF_NONE: it reads inputs alone. */
static uint32_t operator_before(const struct ff_graph *g, uint32_t node)
{
	const struct ff_node *n = &g->nodes[node];

	for (uint32_t k = 0; k < ff_node_inputs(n); k++)
		if (ff_node_needs_config(g, ff_edge_source(g, n->in + k)))
			return ff_edge_source(g, n->in + k);
	return FF_NONE;
}

/* Samples over the devices of the operator before, or over all. */
static void split_samples(struct rebase *x, uint32_t node)
{
	const struct ff_node *n = &x->micro.nodes[node];
	uint32_t before = operator_before(&x->micro, node), first = 0, end = x->to;
	struct ff_config *c = &x->s.config[node];

	if (before != FF_NONE && x->sheet.stages > 1) {
		uint16_t device[FF_MAX_DEVICES];

		ff_config_devices(&x->micro.nodes[before], &x->s.config[before], device);
		first = end = device[0];
		for (uint32_t i = 0; i < x->s.config[before].n_parts; i++) {
			first = device[i] < first ? device[i] : first;
			end = device[i] >= end ? device[i] + 1u : end;
		}
		x->s.stage[node] = x->s.stage[before];
	}
	*c = (struct ff_config){.n_parts = 1, .replicas = 1, .start = (uint16_t)first};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		c->degree[d] = 1;
	for (uint32_t d = 0; d < n->n_dims; d++) {
		uint32_t parts = end - first;

		if (n->dim[d].label != FF_DIM_SAMPLE)
			continue;
		while (parts > 1 && (uint32_t)n->dim[d].extent % parts)
			parts--;
		c->degree[d] = (uint16_t)parts;
		c->stride[d] = parts > 1;
		c->n_parts = parts;
		break;
	}
}

/* The config that a row says, for `node` and the devices that there are. */
static enum ff_carried carry_row(struct rebase *x, const struct ff_sheet_row *row, uint32_t node)
{
	const struct ff_node *n = &x->micro.nodes[node];
	struct ff_config there;

	if (!ff_carry_read(row->at, n, x->p.a, &there))
		return FF_CARRIED_NOT;
	return ff_carry_config(&there, n, x->sheet.devices, x->to, &x->s.config[node]);
}

static void carry_operator(struct rebase *x, uint32_t node)
{
	const struct ff_sheet_row *row;
	int source = find_row(x, x->micro.nodes[node].name, &row);
	enum ff_carried carried = FF_CARRIED_NOT;

	if (row) {
		read_phases(x, node, row);
		carried = carry_row(x, row, node);
	}
	if (carried == FF_CARRIED_NOT)
		split_samples(x, node);
	x->source[node] = (uint8_t)(carried == FF_CARRIED_NOT    ? BY_SAMPLE
				    : carried == FF_CARRIED_LESS ? LESS
								 : source);
}

/* The operator that reads a parameter first. */
static uint32_t reader_of(const struct ff_graph *g, uint32_t node)
{
	const struct ff_value *v = &g->values[g->nodes[node].out];

	return ff_node_leader(g, g->edges[g->uses[v->first_use]].node);
}

/* A parameter of which the plan says nothing, though it knows who reads it, lies where its readers
 * are, and is updated there. */
static void carry_parameter(struct rebase *x, uint32_t node)
{
	const struct ff_graph *g = &x->micro;
	const struct ff_node *n = &g->nodes[node];
	const struct ff_sheet_row *row;
	int source = find_row(x, n->name, &row);
	struct ff_config there;

	if (!row || (source == FROM_LAYER &&
				    ff_sheet_find(&x->sheet, g->nodes[reader_of(g, node)].name)))
		return;
	read_phases(x, node, row);
	x->s.config[node].flat = ff_json_get(row->at, "update") != NULL;
	if (!x->s.config[node].flat && ff_carry_read(row->at, n, x->p.a, &there)) {
		ff_carry_parameter(&there, n, x->sheet.devices, x->to, &x->s.config[node]);
		source = x->s.config[node].flat ? SHARES : source;
	} else if (!x->s.config[node].flat) {
		source = BY_SAMPLE;
	}
	x->source[node] = (uint8_t)source;
}

static int carry(struct rebase *x, struct ff_error *err)
{
	struct ff_error inner;

	x->source = ff_arena_array(x->p.a, x->micro.n_nodes, sizeof(*x->source));
	if (!x->source)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < x->micro.n_nodes; i++) {
		if (ff_node_needs_config(&x->micro, i))
			carry_operator(x, i);
		else if (ff_node_is_parameter(&x->micro, i))
			carry_parameter(x, i);
	}
	if (ff_strategy_check(&x->micro, &x->s, x->to, &inner) < 0)
		return ff_fail(err, FF_E_INPUT, "%s cannot be carried to graph %s: %s",
				x->sheet.path, x->p.graph.name, inner.text);
	return FF_OK;
}

/* ---- what was not ---- */

/* Folded names, one a line. */
static int print_names(const struct rebase *x, const struct ff_fold_row *row, uint32_t n,
		struct ff_error *err)
{
	struct ff_folded *fold;
	uint32_t folds;
	int code = ff_fold(row, n, x->p.a, &fold, &folds, err);

	for (uint32_t i = 0; i < folds && code == FF_OK; i++) {
		fprintf(x->ask->to, "  %s", fold[i].name);
		fprintf(x->ask->to, fold[i].n > 1 ? " (x%u)\n" : "\n", fold[i].n);
	}
	return code;
}

static bool is_told(const struct rebase *x, uint32_t node)
{
	return x->s.config[node].n_parts || x->s.config[node].flat || x->source[node];
}

static int print_sources(const struct rebase *x, struct ff_error *err)
{
	struct ff_fold_row *row = ff_arena_array(x->p.a, x->micro.n_nodes, sizeof(*row));
	int code = row ? FF_OK : ff_fail_memory(err);

	for (uint8_t k = 0; k < SOURCES && code == FF_OK; k++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < x->micro.n_nodes; i++)
			if (is_told(x, i) && x->source[i] == k)
				row[n++] = (struct ff_fold_row){x->micro.nodes[i].name, ""};
		if (!n && k != AS_IT_WAS)
			continue;
		fprintf(x->ask->to, "%u operators and parameters: %s%s\n", n, told[k],
				k ? ":" : "");
		if (k != AS_IT_WAS)
			code = print_names(x, row, n, err);
	}
	return code;
}

/* What the plan has and the network has not. */
static int print_left(const struct rebase *x, struct ff_error *err)
{
	struct ff_fold_row *row = ff_arena_array(x->p.a, x->sheet.n, sizeof(*row));
	uint32_t n = 0;

	if (!row)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < x->sheet.n; i++)
		if (ff_graph_find(&x->p.graph, x->sheet.row[i].name) == FF_NONE)
			row[n++] = (struct ff_fold_row){x->sheet.row[i].name, ""};
	if (!n)
		return FF_OK;
	fprintf(x->ask->to, "%u of the plan are not in graph %s:\n", n, x->p.graph.name);
	return print_names(x, row, n, err);
}

/* ---- the new plan ---- */

/* Where a machine was named the plan says what it takes there. */
static int price(struct rebase *x, struct ff_error *err)
{
	char us[FF_TEXT], bytes[FF_TEXT];
	struct ff_priced at;
	int code = ff_pricing_do(&x->p, &x->s, &x->info, &at, err);

	if (code < 0)
		return code;
	x->info.predicted_us = at.step_us;
	x->info.memory_bytes = at.memory_bytes;
	x->info.costs = x->p.costs ? NULL : x->ask->costs;
	ff_time_text(at.step_us, us);
	ff_bytes_text(at.most_bytes, bytes);
	fprintf(x->ask->to, "%s a step, %s a device at most%s\n", us, bytes,
			at.fits ? "" : ", which does not fit");
	return FF_OK;
}

static int save(struct rebase *x, struct ff_error *err)
{
	struct ff_out o;
	int code;

	ff_out_init(&o);
	ff_strategy_write(&x->p.graph, &x->s, &x->info, &o);
	code = ff_out_save(&o, x->ask->output, err);
	ff_out_finish(&o);
	return code;
}

static int load(struct rebase *x, struct ff_error *err)
{
	int code = ff_sheet_load(x->ask->operand[0], x->p.a, &x->sheet, err);

	if (code == FF_OK)
		code = ff_pricing_load_graph(&x->p, err);
	if (code == FF_OK)
		code = ff_strategy_rewrite(x->sheet.root, x->p.a, &x->p.graph, err);
	if (code == FF_OK && x->ask->machine)
		code = ff_pricing_load_machine(&x->p, 0, err);
	if (code < 0)
		return code;
	x->to = x->ask->machine ? x->p.machine.n_devices : x->sheet.devices;
	x->info.machine = x->ask->machine ? x->p.machine.name : x->sheet.machine;
	x->info.devices = x->to;
	code = ff_strategy_create(&x->p.graph, x->p.a, &x->s, err);
	if (code == FF_OK)
		code = read_optimizer(x, err);
	return code == FF_OK ? read_bucket(x, err) : code;
}

int ff_ask_rebase(const struct ff_ask *ask, struct ff_error *err)
{
	struct rebase x = {.ask = ask,
			.p = {.graph_path = ask->graph,
					.machine_name = ask->machine,
					.costs_path = ask->costs,
					.a = ask->a}};
	int code = load(&x, err);

	if (code == FF_OK)
		code = choose_micro(&x, err);
	if (code == FF_OK)
		code = carry(&x, err);
	if (code == FF_OK)
		code = print_sources(&x, err);
	if (code == FF_OK)
		code = print_left(&x, err);
	if (code == FF_OK && ask->machine)
		code = price(&x, err);
	if (code == FF_OK)
		code = save(&x, err);
	ff_pricing_finish(&x.p);
	return code;
}
