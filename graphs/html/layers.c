/* The strategy for the page, folded.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/name_fold.h"
#include "parts.h"

#define TEXT 320

/* Labels of dims, as the page tells them apart. */
static const char labels[] = "SAPR";
#define LABELS (sizeof(labels) - 1)

/* One operator: how it is cut, how often along dims of each label, and where it is. */
struct row {
	const char *split, *devices;
	uint32_t degree[LABELS]; /* products, by label */
	uint32_t stage, parts;
	bool recomputed;
};

static void describe(
		const struct ff_node *n, const struct ff_config *c, struct row *r, char buf[TEXT])
{
	size_t used = 0;

	snprintf(buf, TEXT, "whole");
	for (uint32_t d = 0; d < n->n_dims && used < TEXT; d++) {
		if (c->degree[d] < 2)
			continue;
		r->degree[strchr(labels, (int)n->dim[d].label) - labels] *= c->degree[d];
		used += (size_t)snprintf(buf + used, TEXT - used, "%s%s %u", used ? ", " : "",
				n->dim[d].name, c->degree[d]);
	}
	if (c->replicas > 1 && used < TEXT)
		snprintf(buf + used, TEXT - used, "%s%u times", used ? ", " : "", c->replicas);
}

static int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void list_devices(const struct ff_node *n, const struct ff_config *c, char buf[TEXT])
{
	uint16_t device[FF_MAX_DEVICES];
	uint32_t sorted[FF_MAX_DEVICES];

	ff_config_devices(n, c, device);
	for (uint32_t i = 0; i < c->n_parts; i++)
		sorted[i] = device[i];
	qsort(sorted, c->n_parts, sizeof(*sorted), by_number);
	ff_fold_numbers(sorted, c->n_parts, buf, TEXT);
}

static int fill(const struct ff_html *h, uint32_t node, struct ff_arena *a, struct row *r,
		struct ff_fold_row *fold, struct ff_error *err)
{
	const struct ff_schedule *s = h->schedule;
	const struct ff_node *n = &s->graph->nodes[node];
	char split[TEXT], devices[TEXT];

	for (uint32_t k = 0; k < LABELS; k++)
		r->degree[k] = 1;
	describe(n, &s->config[node], r, split);
	list_devices(n, &s->config[node], devices);
	r->split = ff_arena_strdup(a, split);
	r->devices = ff_arena_strdup(a, devices);
	r->stage = s->strategy->stage[node];
	r->parts = s->config[node].n_parts;
	r->recomputed = s->recomputed[node];
	fold->name = n->name;
	fold->says = ff_arena_printf(a, "%s on %s, %u %d", split, devices, r->stage, r->recomputed);
	return r->split && r->devices && fold->says ? FF_OK : ff_fail_memory(err);
}

static void write_row(const struct ff_folded *f, const struct row *r, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "name", f->name);
	ff_out_int(o, "n", f->n);
	ff_out_string(o, "split", r->split);
	ff_out_string(o, "devices", r->devices);
	ff_out_int(o, "parts", r->parts);
	ff_out_int(o, "stage", r->stage);
	ff_out_bool(o, "again", r->recomputed);
	ff_out_object(o, "degrees");
	for (uint32_t k = 0; k < LABELS; k++)
		if (r->degree[k] > 1)
			ff_out_int(o, (const char[]){labels[k], '\0'}, r->degree[k]);
	ff_out_close(o);
	ff_out_close(o);
}

int ff_html_write_layers(
		const struct ff_html *h, struct ff_arena *a, struct ff_out *o, struct ff_error *err)
{
	const struct ff_graph *g = h->schedule->graph;
	struct row *row = ff_arena_array(a, g->n_nodes, sizeof(*row));
	struct ff_fold_row *rows = ff_arena_array(a, g->n_nodes, sizeof(*rows));
	struct ff_folded *fold;
	uint32_t n = 0, folds = 0;
	int code = row && rows ? FF_OK : ff_fail_memory(err);

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_needs_config(g, i)) {
			code = fill(h, i, a, &row[n], &rows[n], err);
			n++;
		}
	if (code == FF_OK)
		code = ff_fold(rows, n, a, &fold, &folds, err);
	ff_out_array(o, "layers");
	for (uint32_t i = 0; i < folds && code == FF_OK; i++)
		write_row(&fold[i], &row[fold[i].first], o);
	ff_out_close(o);
	return code;
}
