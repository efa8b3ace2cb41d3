/* What most operators of a plan have alike, and who has not.  SPDX-License-Identifier: Apache-2.0
 */
#include "shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

#define NAMED 3 /* layers of a row, beyond which they are counted */

struct degrees {
	uint32_t data, spatial, tensor, replicas;
};

static struct degrees degrees_of(const struct ff_node *n, const struct ff_config *c)
{
	struct degrees d = {1, 1, 1, c->replicas ? c->replicas : 1};

	for (uint32_t i = 0; i < n->n_dims; i++)
		if (n->dim[i].label == FF_DIM_SAMPLE)
			d.data *= c->degree[i];
		else if (n->dim[i].label == FF_DIM_ATTRIBUTE)
			d.spatial *= c->degree[i];
		else
			d.tensor *= c->degree[i];
	return d;
}

static bool equal(struct degrees a, struct degrees b)
{
	return a.data == b.data && a.spatial == b.spatial && a.tensor == b.tensor &&
	       a.replicas == b.replicas;
}

/* Of all degrees that are there those with most time; and how many operators have others. */
static void find_degrees(const struct ff_graph *g, const struct ff_plan *p,
		const struct ff_times *t, struct ff_shape *ret)
{
	enum { MOST_KINDS = 64 };
	struct degrees kind[MOST_KINDS];
	uint32_t count[MOST_KINDS] = {0}, n = 0, best = 0;
	double us[MOST_KINDS] = {0};

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct degrees d;
		uint32_t k = 0;

		if (!ff_node_needs_config(g, i))
			continue;
		ret->n_operators++;
		d = degrees_of(&g->nodes[i], &p->strategy.config[i]);
		while (k < n && !equal(kind[k], d))
			k++;
		if (k == MOST_KINDS)
			continue;
		if (k == n)
			kind[n++] = d;
		count[k]++;
		us[k] += t->node_us[i];
	}
	for (uint32_t k = 1; k < n; k++)
		best = us[k] > us[best] ? k : best;
	ret->data = n ? kind[best].data : 1;
	ret->spatial = n ? kind[best].spatial : 1;
	ret->tensor = n ? kind[best].tensor : 1;
	ret->replicas = n ? kind[best].replicas : 1;
	ret->n_others = ret->n_operators - count[best];
}

void ff_shape_find(const struct ff_graph *g, const struct ff_plan *p, const struct ff_times *t,
		int64_t bucket_bytes, struct ff_shape *ret)
{
	const struct ff_strategy *s = &p->strategy;
	uint32_t chunks = ff_strategy_chunks(s);
	struct ff_shape shape = {.pipeline = 1,
			.chunks = 1,
			.micro_batches = s->micro_batches,
			.rule = s->rule,
			.scatters = s->scatter,
			.shards = s->shards,
			.bucket_bytes = bucket_bytes};

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		if (s->stage[i] >= shape.pipeline)
			shape.pipeline = s->stage[i] + 1u;
		shape.n_again += ff_node_needs_config(g, i) && s->recompute[i];
		if (!ff_node_is_parameter(g, i))
			continue;
		shape.n_parameters++;
		shape.n_flat += s->config[i].flat;
		shape.n_cut += ff_config_is_cut(&s->config[i]);
		shape.n_dropped += s->config[i].flat && s->recompute[i];
	}
	if (shape.pipeline >= chunks) {
		shape.chunks = chunks;
		shape.pipeline = (shape.pipeline + chunks - 1) / chunks;
	}
	find_degrees(g, p, t, &shape);
	*ret = shape;
}

/* ---- rows ---- */

static int by_count(const void *a, const void *b)
{
	const struct ff_split_row *x = a, *y = b;

	if (x->n != y->n)
		return x->n > y->n ? -1 : 1;
	return strcmp(x->split, y->split);
}

/* How many operators of each layer are in the row of which `row` tells by node. */
static void count_layers(const struct ff_graph *g, const struct ff_layers *l, const uint32_t *row,
		uint32_t which, uint32_t *count)
{
	memset(count, 0, l->n * sizeof(*count));
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_needs_config(g, i) && row[i] == which)
			count[l->of[i]]++;
}

/* Whether a row has all of every block. */
static bool has_blocks(const struct ff_layers *l, const uint32_t *count)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (l->block[i] && count[i] != l->layer[i].n)
			return false;
	return l->n_blocks > 0;
}

static const char *names_of(const struct ff_layers *l, const uint32_t *count, struct ff_arena *a)
{
	bool blocks = has_blocks(l, count);
	const char *text = "";
	uint32_t told = 0, more = 0;

	if (blocks) {
		text = ff_arena_printf(a, "%s (x%u)", l->blocks, l->n_blocks);
		told++;
	}
	for (uint32_t i = 0; i < l->n && text; i++) {
		if (!count[i] || (blocks && l->block[i]))
			continue;
		if (told == NAMED) {
			more += count[i];
			continue;
		}
		text = ff_arena_printf(a, "%s%s%s", text, told ? ", " : "", l->layer[i].name);
		if (text && count[i] != l->layer[i].n)
			text = ff_arena_printf(a, "%s (%u of %u)", text, count[i], l->layer[i].n);
		else if (text && count[i] > 1)
			text = ff_arena_printf(a, "%s (x%u)", text, count[i]);
		told++;
	}
	return more && text ? ff_arena_printf(a, "%s and %u more", text, more) : text;
}

int ff_splits_find(const struct ff_graph *g, const struct ff_plan *p, const struct ff_layers *l,
		const struct ff_times *t, struct ff_arena *a, struct ff_splits *ret,
		struct ff_error *err)
{
	struct ff_splits r = {.row = ff_arena_array(a, g->n_nodes, sizeof(*r.row))};
	uint32_t *row = ff_arena_array(a, g->n_nodes, sizeof(*row));
	uint32_t *count = ff_arena_array(a, g->n_nodes, sizeof(*count));
	char text[FF_TEXT];

	if (!r.row || !row || !count)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		uint32_t k = 0;

		if (!ff_node_needs_config(g, i))
			continue;
		ff_split_text(&g->nodes[i], &p->strategy.config[i], text);
		while (k < r.n && strcmp(r.row[k].split, text) != 0)
			k++;
		if (k == r.n) {
			r.row[k].split = ff_arena_strdup(a, text);
			r.row[k].gain_us = NAN;
			if (!r.row[k].split)
				return ff_fail_memory(err);
			r.n++;
		}
		row[i] = k;
		r.row[k].n++;
		r.row[k].us += t->node_us[i];
	}
	for (uint32_t k = 0; k < r.n; k++) {
		count_layers(g, l, row, k, count);
		r.row[k].names = names_of(l, count, a);
		if (!r.row[k].names)
			return ff_fail_memory(err);
	}
	qsort(r.row, r.n, sizeof(*r.row), by_count);
	*ret = r;
	return FF_OK;
}

/* ---- words ---- */

void ff_shape_words(const struct ff_shape *s, char *buf, size_t size)
{
	int n = snprintf(buf, size, "data %u", s->data);

	if (s->spatial > 1)
		n += snprintf(buf + n, size - (size_t)n, ", spatial %u", s->spatial);
	n += snprintf(buf + n, size - (size_t)n, ", tensor %u, pipeline %u", s->tensor,
			s->pipeline);
	if (s->pipeline > 1 && s->micro_batches > 1)
		n += snprintf(buf + n, size - (size_t)n, " (%s", ff_order_name(s->rule));
	if (s->pipeline > 1 && s->micro_batches > 1)
		n += s->chunks > 1 ? snprintf(buf + n, size - (size_t)n, ", %u stages each)",
						     s->chunks)
				   : snprintf(buf + n, size - (size_t)n, ")");
	if (s->replicas > 1)
		n += snprintf(buf + n, size - (size_t)n, ", %u replicas", s->replicas);
	snprintf(buf + n, size - (size_t)n, ", %u micro-batch%s", s->micro_batches,
			s->micro_batches == 1 ? "" : "es");
}

void ff_shape_savings(const struct ff_shape *s, char *buf, size_t size)
{
	int n = 0;

	*buf = 0;
	if (s->n_flat)
		n = snprintf(buf, size, "%u of %u parameters updated in shares (%s%s)", s->n_flat,
				s->n_parameters,
				s->n_dropped  ? "ZeRO-3"
				: s->scatters ? "ZeRO-2"
					      : "ZeRO-1",
				s->shards ? ", hybrid" : "");
	if (s->n_cut)
		n += snprintf(buf + n, size - (size_t)n,
				"%s%u of %u parameters updated in parts, by their axes",
				n ? ", " : "", s->n_cut, s->n_parameters);
	if (s->n_again)
		snprintf(buf + n, size - (size_t)n, "%s%u operators recomputed", n ? ", " : "",
				s->n_again);
}

void ff_shape_print(const struct ff_shape *s, const char *label, FILE *to)
{
	char words[256], saved[256], text[sizeof(words) + sizeof(saved) + 2];

	ff_shape_words(s, words, sizeof(words));
	ff_shape_savings(s, saved, sizeof(saved));
	snprintf(text, sizeof(text), "%s%s%s", words, *saved ? "; " : "", saved);
	ff_text_wrap(label, text, to);
}
