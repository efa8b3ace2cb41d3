/* The kernels that a search may ask for: every part of every split of every
 * operator, as far as their costs differ.  SPDX-License-Identifier: Apache-2.0 */
#include "prof.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ff/alone.h"
#include "ff/backward.h"
#include "ff/graph_file.h"
#include "ff/grow.h"
#include "ff/hash.h"
#include "ff/rewrite.h"
#include "ff/strategy_file.h"
#include "sweep.h"

/* Items and the hashes of their keys. */
struct list {
	struct ff_prof *p;
	const struct ff_graph *graph; /* of one of so many micro-batches, that is gone through */
	uint32_t micro_batches;
	bool *alone;          /* by node */
	struct ff_work *work; /* scratch */
	struct ff_table seen;
	uint32_t cap;
	struct ff_error *err;
};

/* Whether the work's key is new with so much gone by; it is not the next time. */
static int is_new(struct list *l, int64_t reuse_bytes, bool alone, bool *ret)
{
	uint64_t hash = ff_hash_mix(ff_work_hash(l->work), (uint64_t)reuse_bytes ^ alone);
	uint32_t at;

	*ret = ff_table_first(&l->seen, hash, &at) == FF_NONE;
	if (*ret && ff_table_put(&l->seen, hash, l->seen.n) < 0)
		return ff_fail_memory(l->err);
	return FF_OK;
}

static int add_item(struct list *l, const struct ff_prof_item *item)
{
	struct ff_prof *p = l->p;
	struct ff_prof_item *grown =
			ff_grow_in(&p->arena, p->item, p->n_items, &l->cap, sizeof(*grown));

	if (!grown)
		return ff_fail_memory(l->err);
	p->item = grown;
	p->item[p->n_items++] = *item;
	return FF_OK;
}

/* What goes by before the node; beyond the caches, the least that is. */
static int64_t find_passed(const struct list *l, uint32_t node, enum ff_pass pass)
{
	int64_t bytes = ff_reuse_node(&l->p->reuse, l->micro_batches, node, pass);

	while (bytes > 1 && ff_prof_is_same(l->p, bytes, bytes / 2))
		bytes /= 2;
	return bytes;
}

static int add_work(struct list *l, uint32_t node, const struct ff_config *c, uint32_t part,
		enum ff_pass pass)
{
	/* only whole batches are waited for; docs/simulator.md, "Alone" */
	bool alone = c->n_parts == 1 && l->alone[node] && l->graph->batch == l->p->graph.batch &&
		     l->p->machine.n_devices > 1;
	int64_t reuse_bytes = find_passed(l, node, pass);
	struct ff_prof_item item = {l->graph, node, part, pass, *c, NULL, reuse_bytes, alone};
	const struct ff_cost *known;
	char key[FF_KEY_BYTES];
	struct ff_region box;
	bool fresh;
	int code;

	ff_config_box(&l->graph->nodes[node], c, part, &box);
	ff_work_fill(l->graph, node, &box, pass, l->work);
	if ((code = is_new(l, reuse_bytes, alone, &fresh)) < 0 || !fresh)
		return code;
	ff_work_key(l->work, key);
	known = ff_costs_find(l->p->costs, key, reuse_bytes);
	if (known && ff_prof_is_same(l->p, known->reuse_bytes, reuse_bytes) &&
			!(known->disturbed && l->p->opt->again) && (!alone || known->alone_us > 0))
		return FF_OK;
	item.config.list = NULL;
	item.key = ff_arena_strdup(&l->p->arena, key);
	return item.key ? add_item(l, &item) : ff_fail_memory(l->err);
}

static int add_config(struct list *l, uint32_t node, const struct ff_config *c)
{
	const struct ff_graph *g = l->graph;
	bool backward = ff_node_needs_grad(g, node);
	int code = FF_OK;

	for (uint32_t part = 0; part < c->n_parts && code == FF_OK; part++) {
		code = add_work(l, node, c, part, FF_FORWARD);
		if (code == FF_OK && backward)
			code = add_work(l, node, c, part, FF_BACKWARD);
	}
	return code;
}

static int add_splits(struct list *l)
{
	const struct ff_graph *g = l->graph;
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		struct ff_config c = {.n_parts = 0};

		if (!ff_node_is_computed(g, i))
			continue;
		while (code == FF_OK &&
				ff_config_next_degrees(&g->nodes[i], l->p->machine.n_devices, &c))
			code = add_config(l, i, &c);
	}
	return code;
}

/* What goes by in one of so many micro-batches.  Those that differ from each other for the
 * caches are few: what there is no room for has the figures of what is nearest. */
static void add_state(struct list *l, uint32_t micro_batches)
{
	struct ff_prof_states *s = &l->p->states;
	int64_t bytes = ff_reuse_bytes(&l->p->reuse, micro_batches);

	for (uint32_t i = 0; i < s->n; i++)
		if (ff_prof_is_same(l->p, s->reuse_bytes[i], bytes))
			return;
	if (s->n < FF_PROF_STATES)
		s->reuse_bytes[s->n++] = bytes;
}

/* From here on works are those of one of so many micro-batches. */
static int take_micro(struct list *l, uint32_t micro_batches)
{
	struct ff_graph *g = ff_arena_alloc(&l->p->arena, sizeof(*g));

	l->graph = g;
	l->micro_batches = micro_batches;
	add_state(l, micro_batches);
	return g ? ff_graph_micro(&l->p->graph, micro_batches, &l->p->arena, g, l->err)
		 : ff_fail_memory(l->err);
}

/* All splits, of the batch and of its halves, quarters and so on as far as asked for. */
static int add_all(struct list *l)
{
	uint64_t most = l->p->opt->micro_batches;
	int code = FF_OK;

	for (uint32_t m = 1; (m == 1 || m <= most) && code == FF_OK; m *= 2) {
		if ((uint32_t)l->p->graph.batch % m)
			break;
		code = take_micro(l, m);
		if (code == FF_OK)
			code = add_splits(l);
	}
	return code;
}

static int add_configs(struct list *l, const struct ff_strategy *s)
{
	int code = take_micro(l, s->micro_batches);

	for (uint32_t i = 0; code == FF_OK && i < l->graph->n_nodes; i++)
		if (ff_node_is_computed(l->graph, i))
			code = add_config(l, i, &s->config[ff_node_leader(l->graph, i)]);
	return code;
}

/* What every prediction is compared with. */
static int add_data_parallel(struct list *l)
{
	struct ff_prof *p = l->p;
	struct ff_strategy s;
	int code = ff_strategy_data_parallel(
			&p->graph, p->machine.n_devices, &p->arena, &s, l->err);

	return code == FF_OK ? add_configs(l, &s) : code;
}

/* By what goes by before them: its time is a reference (sweep.c) while that is the same. */
static int by_passed(const void *x, const void *y)
{
	const struct ff_prof_item *a = x, *b = y;

	if (a->reuse_bytes != b->reuse_bytes)
		return a->reuse_bytes < b->reuse_bytes ? -1 : 1;
	return strcmp(a->key, b->key);
}

int ff_prof_load_graph(struct ff_prof *p, struct ff_error *err)
{
	const struct ff_texts *files = &p->opt->strategies, *words = &p->opt->rewrite;
	int code = ff_graph_load(p->opt->graph, &p->arena, &p->graph, err);
	struct ff_error inner;

	if (code == FF_OK && files->n && words->n)
		return ff_fail(err, FF_E_INPUT,
				"option --rewrite: strategies of --strategy say what is rewritten");
	if (code == FF_OK && ff_graph_rewrite_matching(&p->graph, words->text, words->n, &p->arena,
					     &p->graph, &inner) < 0)
		return ff_fail(err, inner.code, "option --rewrite: %s", inner.text);
	p->planned = ff_arena_array(&p->arena, files->n, sizeof(*p->planned));
	if (code == FF_OK && !p->planned)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < files->n && code == FF_OK; i++)
		code = (i ? ff_strategy_load(files->text[i], &p->graph, FF_MAX_DEVICES, &p->arena,
					    &p->planned[i], NULL, err)
			  : ff_strategy_load_rewritten(files->text[i], &p->graph, FF_MAX_DEVICES,
					    &p->arena, &p->planned[i], NULL, err));
	return code;
}

int ff_prof_list(struct ff_prof *p, struct ff_error *err)
{
	struct list l = {.p = p, .err = err};
	int code = FF_OK;

	l.work = malloc(sizeof(*l.work));
	if (!l.work)
		return ff_fail_memory(err);
	code = ff_alone_find(&p->graph, &p->arena, &l.alone, err);
	if (code == FF_OK)
		code = ff_reuse_find(&p->graph, p->machine.n_devices, &p->arena, &p->reuse, err);
	p->states.n = 0;
	if (code == FF_OK)
		add_state(&l, 1);
	for (uint32_t i = 0; i < p->opt->strategies.n && code == FF_OK; i++)
		code = add_configs(&l, &p->planned[i]);
	if (code == FF_OK)
		code = p->opt->strategies.n ? add_data_parallel(&l) : add_all(&l);
	if (code == FF_OK && p->n_items)
		qsort(p->item, p->n_items, sizeof(*p->item), by_passed);
	free(l.work);
	ff_table_finish(&l.seen);
	return code;
}
