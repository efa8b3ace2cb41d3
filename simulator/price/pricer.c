/* Pricers: what their prices rest on, and whether all that is needed was measured.
 * SPDX-License-Identifier: Apache-2.0 */
#include "pricer.h"

#include <stdlib.h>
#include <string.h>

#include "ff/alone.h"

static int check_rate(const struct ff_pricer *p, enum ff_rate_kind kind, struct ff_error *err)
{
	if (ff_costs_rate(p->costs, kind, 0))
		return FF_OK;
	return ff_fail(err, FF_E_INPUT, "%s has no \"%s\" rate: run ffprof %s --machine %s -o %s",
			p->costs_path, ff_rate_name(kind), p->graph_path, p->machine->name,
			p->costs_path);
}

/* Those of the graph's inputs; whole numbers may be loaded as others are. */
static int check_loads(const struct ff_pricer *p, struct ff_error *err)
{
	const struct ff_graph *g = p->graph;
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_is_source(g, i) &&
				(g->values[g->nodes[i].out].dtype != FF_I32 ||
						!ff_costs_rate(p->costs, FF_RATE_LOAD_IDS, 0)))
			code = check_rate(p, FF_RATE_LOAD, err);
	return code;
}

/* All that updates by `o` and everything else need. */
static int check_rates(
		const struct ff_pricer *p, const struct ff_optimizer *o, struct ff_error *err)
{
	const enum ff_rate_kind needed[] = {FF_RATE_COPY, FF_RATE_ADD, FF_RATE_ACCUMULATE,
			ff_optimizer_rate(o, p->graph->dtype)};
	int code = FF_OK;

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed) && code == FF_OK; i++)
		code = check_rate(p, needed[i], err);
	return code == FF_OK ? check_loads(p, err) : code;
}

static int check_costs(const struct ff_pricer *p, struct ff_error *err)
{
	const struct ff_machine *m = p->machine;
	const char *kind = ff_costs_device_kind(p->costs);

	for (uint32_t i = 0; i < m->n_nodes; i++) {
		const char *have = m->kinds[m->nodes[i].kind].name;

		if (strcmp(have, kind))
			return ff_fail(err, FF_E_INPUT,
					"%s prices devices of kind \"%s\", but node %u of machine "
					"%s "
					"has \"%s\": profile those, or use --costs analytic",
					p->costs_path, kind, i, m->name, have);
	}
	return check_rates(p, p->optimizer, err);
}

static uint8_t add_state(struct ff_pricer *p, int64_t reuse_bytes)
{
	struct ff_price_state *s = &p->state[p->n_states];

	for (uint32_t i = 0; i < p->n_states; i++)
		if (p->state[i].reuse_bytes == reuse_bytes)
			return (uint8_t)i;
	s->reuse_bytes = reuse_bytes;
	for (int k = 0; k < FF_RATE_COUNT; k++)
		s->rate[k] = ff_costs_rate(p->costs, (enum ff_rate_kind)k, reuse_bytes);
	return (uint8_t)p->n_states++;
}

static int fill_states(struct ff_pricer *p, struct ff_error *err)
{
	int code = ff_reuse_find(p->graph, p->machine->n_devices, &p->arena, &p->reuse, err);

	for (uint32_t m = 1; m <= FF_MAX_MICRO_BATCHES && code == FF_OK; m++)
		if (p->graph->batch % (int32_t)m == 0)
			p->state_of[m] = add_state(p, ff_reuse_bytes(&p->reuse, m));
	return code;
}

/* Where costs are to come from models, those of all kinds that have one. */
static int find_models(struct ff_pricer *p, struct ff_error *err)
{
	const struct ff_machine *m = p->machine;
	int code = FF_OK;

	p->model = ff_arena_array(&p->arena, m->n_kinds, sizeof(*p->model));
	if (!p->model)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < m->n_kinds && code == FF_OK; i++) {
		p->model[i] = NULL;
		if (!p->costs && p->estimate == FF_ESTIMATE_MODEL)
			code = ff_device_model_find(&m->kinds[i], &p->arena, &p->model[i], err);
	}
	return code;
}

int ff_pricer_create(const struct ff_graph *g, const struct ff_machine *m,
		enum ff_estimate estimate, const struct ff_costs *costs, const char *costs_path,
		const char *graph_path, struct ff_pricer **ret, struct ff_error *err)
{
	struct ff_pricer *p = calloc(1, sizeof(*p));
	int code;

	if (!p)
		return ff_fail_memory(err);
	p->graph = g;
	p->machine = m;
	p->estimate = estimate;
	p->costs = costs;
	p->costs_path = costs_path ? costs_path : "COSTS";
	p->graph_path = graph_path ? graph_path : "GRAPH";
	p->optimizer = ff_optimizer_preset();
	ff_arena_init(&p->arena);
	ff_scratch_init(m, &p->scratch);
	code = find_models(p, err);
	if (code == FF_OK)
		code = ff_links_init(&p->links, m, estimate, costs, err);
	if (code == FF_OK)
		ff_pricer_set_overlap(p, costs ? ff_costs_overlap(costs)
					       : (struct ff_overlap_cost){-1, -1, 0, 0});
	if (code == FF_OK)
		code = ff_alone_find(g, &p->arena, &p->alone, err);
	if (code == FF_OK && costs)
		code = check_costs(p, err);
	if (code == FF_OK && costs)
		code = fill_states(p, err);
	if (code < 0) {
		ff_pricer_destroy(p);
		return code;
	}
	*ret = p;
	return FF_OK;
}

void ff_pricer_destroy(struct ff_pricer *p)
{
	if (!p)
		return;
	ff_table_finish(&p->table);
	free(p->memo);
	ff_links_finish(&p->links);
	ff_arena_finish(&p->arena);
	free(p);
}

int ff_pricer_set_optimizer(struct ff_pricer *p, const struct ff_optimizer *o, struct ff_error *err)
{
	int code = p->costs ? check_rates(p, o, err) : FF_OK;

	if (code == FF_OK)
		p->optimizer = o;
	return code;
}

void ff_pricer_set_by_nodes(struct ff_pricer *p, bool by_nodes)
{
	p->links.by_nodes = by_nodes;
}

void ff_pricer_set_overlap(struct ff_pricer *p, struct ff_overlap_cost o)
{
	bool overlaps = p->machine->overlap;

	p->overlap = o;
	p->links.inside_times = overlaps ? 1 + o.inside_longer : 1;
	p->links.between_times = overlaps ? 1 + o.between_longer : 1;
}

const struct ff_optimizer *ff_price_optimizer(const struct ff_pricer *p)
{
	return p->optimizer;
}

void ff_pricer_set_clip(struct ff_pricer *p, bool clip)
{
	p->clip = clip;
}

bool ff_price_clips(const struct ff_pricer *p)
{
	return p->clip;
}

void ff_pricer_set_travel(struct ff_pricer *p, const struct ff_travel *t)
{
	p->codec = t->codec;
	p->averaged = t->average_every > 0;
}

void ff_pricer_set_framework(struct ff_pricer *p, const struct ff_framework *f)
{
	p->framework = f;
}

const struct ff_framework *ff_price_framework(const struct ff_pricer *p)
{
	return p->framework;
}

const struct ff_codec *ff_price_codec(const struct ff_pricer *p)
{
	return p->codec;
}
