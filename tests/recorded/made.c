/* Strategies made as a line of words says.  What ffsearch makes by name comes from the planner;
 * what this file makes (parameters that are cut, served or copied, stages, recomputation) stays as
 * it is whatever the planner does.  SPDX-License-Identifier: Apache-2.0 */
#include "made.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ff/cli.h"
#include "ff/codec.h"
#include "ff/micro.h"
#include "ff/starts.h"
#include "ff/zoo.h"
#include "random_graph.h"

#define MOST_WORDS 64

/* What the line says. */
struct words {
	const char *network, *machine, *start, *update, *order, *optimizer, *codec;
	struct ff_texts sets;
	uint64_t batch, devices, seed, micro_batches, stages, recompute, average_every, staleness;
	bool no_overlap, recomputed, clip;
};

static int parse(int argc, char **argv, struct words *w, struct ff_error *err)
{
	const struct ff_option options[] = {
			/* as ffzoo and ffsearch have them */
			{"--batch", FF_OPTION_COUNT, &w->batch, "N", ""},
			{"--set", FF_OPTION_TEXTS, &w->sets, "KEY=VALUE", ""},
			{"--machine", FF_OPTION_TEXT, &w->machine, "M", ""},
			{"--devices", FF_OPTION_COUNT, &w->devices, "N", ""},
			{"--optimizer", FF_OPTION_TEXT, &w->optimizer, "NAME", ""},
			{"--clip", FF_OPTION_FLAG, &w->clip, NULL, ""},
			{"--compress", FF_OPTION_TEXT, &w->codec, "CODEC", ""},
			{"--average-every", FF_OPTION_COUNT, &w->average_every, "K", ""},
			{"--staleness", FF_OPTION_COUNT, &w->staleness, "S", ""},
			{"--seed", FF_OPTION_COUNT, &w->seed, "N", ""},
			/* a start by name; "drawn": by tests/random_strategy.c */
			{"--simulate", FF_OPTION_TEXT, &w->start, "NAME", ""},
			/* a machine whose communication waits for its compute */
			{"--no-overlap", FF_OPTION_FLAG, &w->no_overlap, NULL, ""},
			/* parameters are updated: cut, served, copied, mixed, flat or in pairs;
			 * else where they are read first */
			{"--update", FF_OPTION_TEXT, &w->update, "HOW", ""},
			/* and gathered again for backward */
			{"--again", FF_OPTION_FLAG, &w->recomputed, NULL, ""},
			{"--micro-batches", FF_OPTION_COUNT, &w->micro_batches, "N", ""},
			{"--order", FF_OPTION_TEXT, &w->order, "RULE", ""},
			/* operators in so many stages */
			{"--stages", FF_OPTION_COUNT, &w->stages, "N", ""},
			/* what every Kth operator makes is recomputed */
			{"--recompute", FF_OPTION_COUNT, &w->recompute, "K", ""},
	};
	const struct ff_command command = {.name = "made",
			.usage = "",
			.summary = "",
			.options = options,
			.n_options = sizeof(options) / sizeof(*options),
			.min_args = 1,
			.max_args = 1};
	uint32_t n_args;
	bool done;

	return ff_cli_parse(&command, argc, argv, &w->network, &n_args, &done, err);
}

static int read_words(const char *line, struct ff_arena *a, struct words *w, struct ff_error *err)
{
	char *text = ff_arena_strdup(a, line), *argv[MOST_WORDS + 1] = {(char *)"made"}, *rest;
	int argc = 1;

	if (!text)
		return ff_fail_memory(err);
	for (char *at = strtok_r(text, " ", &rest); at; at = strtok_r(NULL, " ", &rest)) {
		if (argc == MOST_WORDS)
			return ff_fail(err, FF_E_INPUT, "more than %d words", MOST_WORDS);
		argv[argc++] = at;
	}
	*w = (struct words){.micro_batches = 1};
	if (parse(argc, argv, w, err) < 0)
		return err->code;
	if (!w->machine || !w->start || !w->micro_batches)
		return ff_fail(err, FF_E_INPUT,
				"expected --machine, --simulate, and micro-batches if any");
	return FF_OK;
}

/* ---- the machine ---- */

/* Of this folder, where what those of graphs/machines/ learn of wires changes nothing, or of that.
 */
static int load_machine(const struct words *w, struct made *m, struct ff_error *err)
{
	const char *path = ff_arena_printf(&m->arena, "%s/%s.json", FF_RECORDED, w->machine);
	struct ff_machine whole;
	int code;

	if (!path)
		return ff_fail_memory(err);
	if (access(path, F_OK))
		path = w->machine;
	code = ff_machine_load(path, &m->arena, &whole, err);
	if (code == FF_OK)
		code = ff_machine_subset(&whole,
				w->devices ? (uint32_t)w->devices : whole.n_devices, &m->arena,
				&m->machine, err);
	if (code == FF_OK && w->no_overlap) {
		m->machine.overlap = m->machine.message_lane = false;
		ff_machine_number_cards(&m->machine);
	}
	return code;
}

static int open_pricer(const struct words *w, struct made *m, struct ff_error *err)
{
	struct ff_lower_options *o = &m->options;
	int code = FF_OK;

	*o = (struct ff_lower_options){.optimizer = ff_optimizer_preset(),
			.clip = w->clip,
			.travel = {.average_every = (uint32_t)w->average_every,
					.staleness = (uint32_t)w->staleness},
			.workspace = ff_price_workspace};
	if (w->optimizer)
		code = ff_optimizer_find(w->optimizer, &o->optimizer, err);
	if (code == FF_OK && w->codec)
		code = ff_codec_find(w->codec, &o->travel.codec, err);
	if (code == FF_OK)
		code = ff_pricer_create(&m->graph, &m->machine, FF_ESTIMATE_PEAK, NULL, NULL,
				w->network, &m->pricer, err);
	if (code < 0)
		return code;
	o->ctx = m->pricer;
	ff_pricer_set_clip(m->pricer, w->clip);
	ff_pricer_set_travel(m->pricer, &o->travel);
	return ff_pricer_set_optimizer(m->pricer, o->optimizer, err);
}

/* ---- the strategy ---- */

/* One of ffsearch's starts, for the graph of one micro-batch. */
static int start(const struct words *w, const struct ff_graph *g, struct made *m,
		struct ff_error *err)
{
	struct ff_space *space;
	int code = ff_space_create(g, &m->machine, &space, err);

	if (code < 0)
		return code;
	ff_space_allow(space,
			FF_SPACE_UPDATES | FF_SPACE_REPLICAS | FF_SPACE_MICRO | FF_SPACE_RECOMPUTE);
	code = ff_init_strategy(
			w->start, space, g, &m->machine, w->seed, &m->arena, &m->strategy, err);
	ff_space_destroy(space);
	return code;
}

enum update {
	UPDATE_CUT,
	UPDATE_SERVED,
	UPDATE_COPIED,
	UPDATE_FOLLOWS,
	UPDATE_MIXED, /* any of those before */
	UPDATE_FLAT,
	UPDATE_SCATTERED,
	UPDATE_PAIRS, /* cut, each part on two devices */
	UPDATES
};

static int find_update(const char *name, enum update *ret, struct ff_error *err)
{
	static const char *const names[UPDATES] = {"cut", "served", "copied", "follows", "mixed",
			"flat", "scattered", "pairs"};
	int i = 0;

	while (i < UPDATES && name && strcmp(name, names[i]) != 0)
		i++;
	*ret = name ? (enum update)i : UPDATE_FOLLOWS;
	return !name || i < UPDATES ? FF_OK : ff_fail(err, FF_E_INPUT, "--update: no \"%s\"", name);
}

/* Of parameter number `i`: cut along its longest axis over all devices, on one device in turn, on
 * all. */
static void set_update(const struct ff_node *n, enum update how, uint32_t i, uint32_t n_devices,
		struct ff_config *c)
{
	uint32_t longest = 0;

	*c = (struct ff_config){.n_parts = 1, .replicas = 1};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		c->degree[d] = 1;
	for (uint32_t d = 1; d < n->n_dims; d++)
		if (n->dim[d].extent > n->dim[longest].extent)
			longest = d;
	switch (how) {
	case UPDATE_CUT:
	case UPDATE_PAIRS:
		c->replicas = how == UPDATE_PAIRS && n_devices > 1 ? 2 : 1;
		c->replica_stride = c->replicas > 1;
		c->n_parts = n_devices / c->replicas;
		if (n->dim[longest].extent < (int32_t)c->n_parts)
			c->n_parts = (uint32_t)n->dim[longest].extent;
		c->degree[longest] = (uint16_t)c->n_parts;
		c->stride[longest] = (uint16_t)(c->n_parts > 1 ? c->replicas : 0);
		c->n_parts *= c->replicas;
		break;
	case UPDATE_SERVED:
		c->start = (uint16_t)(i % n_devices);
		break;
	case UPDATE_COPIED:
		c->n_parts = n_devices;
		c->replicas = (uint16_t)n_devices;
		c->replica_stride = n_devices > 1;
		break;
	default:
		c->n_parts = 0;
		c->flat = how == UPDATE_FLAT || how == UPDATE_SCATTERED;
	}
}

static int set_updates(const struct words *w, struct made *m, struct ff_error *err)
{
	struct ff_random r = {.seed = w->seed, .stream = 'u'};
	const struct ff_graph *g = &m->graph;
	enum update how, own;
	uint32_t n = 0;
	int code = find_update(w->update, &how, err);

	m->strategy.scatter = code == FF_OK && how == UPDATE_SCATTERED;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK && w->update; i++) {
		if (!ff_node_is_parameter(g, i))
			continue;
		own = how == UPDATE_MIXED ? (enum update)ff_random_below(&r, UPDATE_MIXED) : how;
		set_update(&g->nodes[i], own, n++, m->machine.n_devices, &m->strategy.config[i]);
		m->strategy.recompute[i] =
				w->recomputed &&
				(m->strategy.config[i].n_parts || m->strategy.config[i].flat);
	}
	return code;
}

/* Operators in their order, as many in each stage; every Kth is recomputed. */
static void set_stages(const struct words *w, struct made *m)
{
	const struct ff_graph *g = &m->graph;
	uint64_t n = 0, k = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		n += ff_node_needs_config(g, i);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		if (!ff_node_needs_config(g, i))
			continue;
		if (w->stages)
			m->strategy.stage[i] = (uint16_t)(k * w->stages / n);
		k++;
		if (w->recompute && k % w->recompute == 0 && !ff_node_is_loss(g, i))
			m->strategy.recompute[i] = true;
	}
}

/* A pipeline and what is drawn say themselves how many micro-batches they have. */
static int make_whole(const struct words *w, struct made *m, struct ff_error *err)
{
	struct ff_random r = {.seed = w->seed};

	return strcmp(w->start, "drawn") ? start(w, &m->graph, m, err)
					 : random_strategy(&r, &m->graph, m->machine.n_devices,
							   &m->arena, &m->strategy, &m->micro, err);
}

static int make_strategy(const struct words *w, struct made *m, struct ff_error *err)
{
	uint32_t stages;
	bool whole = !strcmp(w->start, "drawn") || ff_is_pipeline(w->start, &stages);
	int code = ff_graph_micro(&m->graph, (uint32_t)w->micro_batches, &m->arena, &m->micro, err);

	if (code == FF_OK)
		code = whole ? make_whole(w, m, err) : start(w, &m->micro, m, err);
	if (code < 0)
		return code;
	if (whole)
		return ff_graph_micro(
				&m->graph, m->strategy.micro_batches, &m->arena, &m->micro, err);
	m->strategy.micro_batches = (uint32_t)w->micro_batches;
	if (w->order)
		ff_order_find(w->order, &m->strategy.rule);
	m->strategy.chunks = m->strategy.rule == FF_ORDER_INTERLEAVED ? 2 : 1;
	return FF_OK;
}

int made_open(const char *line, struct made *ret, struct ff_error *err)
{
	struct words w;
	int code;

	memset(ret, 0, sizeof(*ret));
	ff_arena_init(&ret->arena);
	code = read_words(line, &ret->arena, &w, err);
	if (code == FF_OK)
		code = ff_zoo_build(w.network, w.batch, w.sets.text, w.sets.n, &ret->arena,
				&ret->graph, err);
	if (code == FF_OK)
		code = load_machine(&w, ret, err);
	if (code == FF_OK)
		code = open_pricer(&w, ret, err);
	if (code == FF_OK)
		code = make_strategy(&w, ret, err);
	if (code == FF_OK)
		code = set_updates(&w, ret, err);
	if (code < 0)
		return code;
	set_stages(&w, ret);
	return ff_strategy_check(&ret->micro, &ret->strategy, ret->machine.n_devices, err);
}

void made_close(struct made *m)
{
	ff_pricer_destroy(m->pricer);
	ff_arena_finish(&m->arena);
}
