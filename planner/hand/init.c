/* Starting points of a search, which are also its baselines.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "megatron.h"
#include "space/limits.h"
#include "stage_cuts.h"
#include "tables.h"

enum start {
	DATA_PARALLEL,
	EXPERT,
	SINGLE,
	RANDOM,
	ELIMINATION,
	PIPELINE,
	ZERO_1,
	ZERO_2,
	ZERO_3,
	ZERO_1_HYBRID,
	ZERO_2_HYBRID,
	ZERO_3_HYBRID,
	FRUGAL,
	MEGATRON,
	TABLES,
	STARTS
};

const char *const ff_starts[] = {
		[DATA_PARALLEL] = "data-parallel",
		[EXPERT] = "expert",
		[SINGLE] = "single",
		[RANDOM] = "random",
		[ELIMINATION] = "elimination",
		[PIPELINE] = "pipeline",
		[ZERO_1] = "zero-1",
		[ZERO_2] = "zero-2",
		[ZERO_3] = "zero-3",
		[ZERO_1_HYBRID] = "zero-1-hybrid",
		[ZERO_2_HYBRID] = "zero-2-hybrid",
		[ZERO_3_HYBRID] = "zero-3-hybrid",
		[FRUGAL] = "frugal",
		[MEGATRON] = "megatron",
		[TABLES] = "tables",
		[STARTS] = NULL,
};

/* A fully connected layer whose weights outweigh the activations around it:
 * moving those is then cheaper than synchronising the weights (Krizhevsky,
 * "One weird trick for parallelizing convolutional neural networks", 2014).
 * What has attribute dims (a convolution) is left to the sample split. */
static bool is_heavy(const struct ff_graph *g, const struct ff_node *n)
{
	const struct ff_value *out = &g->values[n->out];
	int64_t weights = 0, activations = ff_shape_volume(out->rank, out->shape);

	if (ff_node_dim(n, FF_DIM_PARAMETER) == FF_NONE ||
			ff_node_dim(n, FF_DIM_ATTRIBUTE) != FF_NONE)
		return false;
	for (uint32_t i = n->n_data; i < n->n_in; i++)
		weights += ff_shape_volume(n->in_map[i].rank, n->in_map[i].shape);
	for (uint32_t i = 0; i < n->n_data; i++)
		activations += ff_shape_volume(n->in_map[i].rank, n->in_map[i].shape);
	return weights > activations;
}

/* `split` is, by node, the dim that is split by parameter.  What has no weights
 * and reads such a tensor keeps its split: returns the dim that does so. */
static uint32_t following_dim(
		const struct ff_graph *g, const struct ff_node *n, const uint32_t *split)
{
	const struct ff_operand *out;
	uint32_t source;

	if (n->n_in > n->n_data || n->n_data == 0)
		return FF_NONE;
	source = ff_edge_source(g, n->in);
	out = &g->nodes[source].out_map[g->values[g->edges[n->in].value].port];
	for (uint32_t i = 0; split[source] != FF_NONE && i < out->rank; i++)
		if (out->axis[i].n_terms > 0 && n->in_map[0].axis[i].n_terms > 0 &&
				(uint32_t)out->axis[i].term[0].dim == split[source])
			return (uint32_t)n->in_map[0].axis[i].term[0].dim;
	return FF_NONE;
}

/* `dim` of `node` (FF_NONE: nothing) split over the first devices. */
static void split_first(
		const struct ff_node *n, uint32_t dim, uint32_t n_devices, struct ff_config *ret)
{
	uint16_t degree[FF_MAX_DIMS] = {0};
	struct ff_view view = {0};

	for (uint32_t i = 0; i < n->n_dims; i++)
		degree[i] = 1;
	if (dim != FF_NONE) {
		degree[dim] = (uint16_t)(n->dim[dim].extent < (int32_t)n_devices
							 ? n->dim[dim].extent
							 : (int32_t)n_devices);
		view.stride[dim] = 1;
	}
	ff_view_config(n->n_dims, degree, &view, ret);
}

static int fill_expert(const struct ff_graph *g, uint32_t n_devices, struct ff_arena *a,
		struct ff_strategy *s, struct ff_error *err)
{
	uint32_t *split = ff_arena_array(a, g->n_nodes, sizeof(*split));

	if (!split)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];
		uint32_t dim;

		split[i] = FF_NONE;
		if (!ff_node_needs_config(g, i))
			continue;
		split[i] = is_heavy(g, n) ? ff_node_dim(n, FF_DIM_PARAMETER)
					  : following_dim(g, n, split);
		dim = split[i] != FF_NONE ? split[i] : ff_node_dim(n, FF_DIM_SAMPLE);
		split_first(n, dim, n_devices, &s->config[i]);
	}
	return FF_OK;
}

static void fill_random(const struct ff_space *s, const struct ff_graph *g, uint64_t seed,
		struct ff_strategy *ret)
{
	struct ff_random random = {.seed = seed, .stream = ff_philox_stream(0, 'i')};

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_needs_config(g, i))
			ff_space_draw(s, i, &random, &ret->config[i]);
}

/* `prefix` and a number of devices; what follows them, or NULL. */
static const char *parse_numbered(const char *prefix, const char *name, uint32_t *ret)
{
	const size_t length = strlen(prefix);
	char *end;
	long n;

	if (strncmp(name, prefix, length) != 0)
		return NULL;
	name += length;
	n = strtol(name, &end, 10);
	if (*name < '0' || *name > '9' || n < 1 || n > FF_MAX_DEVICES)
		return NULL;
	*ret = (uint32_t)n;
	return end;
}

bool ff_is_pipeline(const char *name, uint32_t *stages)
{
	const char *rest = parse_numbered("pipeline-", name, stages);

	return rest && !*rest;
}

bool ff_is_tables(const char *name, struct ff_tables *ret)
{
	static const char *const words[] = {",replicas", ",apart"};
	const char *rest = parse_numbered("tables-", name, &ret->columns);
	bool *const said[] = {&ret->replicas, &ret->apart};

	for (uint32_t i = 0; i < 2 && rest; i++) {
		const size_t length = strlen(words[i]);

		*said[i] = !strncmp(rest, words[i], length);
		rest += *said[i] ? length : 0;
	}
	ret->devices = ret->others = 0;
	if (rest && !strncmp(rest, ",devices=", strlen(",devices=")))
		rest = parse_numbered(",devices=", rest, &ret->devices);
	if (rest && *rest)
		rest = parse_numbered(",others=", rest, &ret->others);
	return rest && !*rest;
}

/* What a start is made of, whatever the limits of the space. */
struct making {
	const struct ff_space *s;
	const struct ff_graph *g;
	const struct ff_machine *m;
	uint64_t seed;
	struct ff_arena *a;
};

static int make_pipeline(const struct making *x, const char *name, uint32_t stages,
		struct ff_strategy *ret, struct ff_error *err)
{
	if (stages > x->m->n_devices)
		return ff_fail(err, FF_E_INPUT, "%s needs %u devices, there are %u", name, stages,
				x->m->n_devices);
	return ff_start_pipeline(x->s, x->g, x->m, stages, x->a, ret, err);
}

static int make_tables(const struct making *x, const char *name, struct ff_tables *tables,
		struct ff_strategy *ret, struct ff_error *err)
{
	if (tables->replicas && !(x->s->what & FF_SPACE_REPLICAS))
		return ff_fail(err, FF_E_INPUT, "%s: the space has no replicas", name);
	tables->stages = x->s->what & FF_SPACE_MICRO && !x->s->limits.no_pipeline &&
			 !x->s->limits.mesh;
	return ff_start_tables(x->g, x->m, tables, x->a, ret, err);
}

static int make_megatron(const struct making *x, const char *name, struct ff_strategy *ret,
		struct ff_error *err)
{
	struct ff_megatron hand;
	int code = ff_megatron_parse(name, &hand, err);

	return code == FF_OK ? ff_start_megatron(&hand, x->g, x->m, x->a, ret, err) : code;
}

static int make_expert(const struct making *x, struct ff_strategy *ret, struct ff_error *err)
{
	struct ff_strategy made;
	int code = ff_strategy_create(x->g, x->a, &made, err);

	if (code == FF_OK)
		code = fill_expert(x->g, x->m->n_devices, x->a, &made, err);
	if (code == FF_OK)
		*ret = made;
	return code;
}

static int make_random(const struct making *x, struct ff_strategy *ret, struct ff_error *err)
{
	struct ff_strategy made;
	int code = ff_strategy_create(x->g, x->a, &made, err);

	if (code < 0)
		return code;
	fill_random(x->s, x->g, x->seed, &made);
	*ret = made;
	return FF_OK;
}

/* One of those whose names have no numbers. */
static int make_named(const struct making *x, const char *name, struct ff_strategy *ret,
		struct ff_error *err)
{
	uint32_t which = 0;

	while (which < STARTS && strcmp(name, ff_starts[which]) != 0)
		which++;
	switch (which) {
	case DATA_PARALLEL:
		return ff_strategy_data_parallel(x->g, x->m->n_devices, x->a, ret, err);
	case SINGLE:
		return ff_strategy_single(x->g, 0, x->a, ret, err);
	case ZERO_1:
	case ZERO_2:
	case ZERO_3:
		return ff_start_zero(x->s, x->g, x->m, 1 + which - ZERO_1, false, x->a, ret, err);
	case ZERO_1_HYBRID:
	case ZERO_2_HYBRID:
	case ZERO_3_HYBRID:
		return ff_start_zero(
				x->s, x->g, x->m, 1 + which - ZERO_1_HYBRID, true, x->a, ret, err);
	case FRUGAL:
		return ff_start_frugal(x->s, x->g, x->m, x->a, ret, err);
	case EXPERT:
		return make_expert(x, ret, err);
	case RANDOM:
		return make_random(x, ret, err);
	default:
		return ff_fail(err, FF_E_INPUT,
				"unknown starting strategy '%s': expected data-parallel, single, "
				"expert, random, zero-1, zero-2, zero-3, the same with "
				"-hybrid, frugal, pipeline-N, tables-N or "
				"megatron:T,D,P,M",
				name);
	}
}

static int make(const struct making *x, const char *name, struct ff_strategy *ret,
		struct ff_error *err)
{
	struct ff_tables tables;
	uint32_t stages;

	if (ff_is_pipeline(name, &stages))
		return make_pipeline(x, name, stages, ret, err);
	if (ff_is_tables(name, &tables))
		return make_tables(x, name, &tables, ret, err);
	if (ff_is_megatron(name))
		return make_megatron(x, name, ret, err);
	return make_named(x, name, ret, err);
}

int ff_init_strategy(const char *name, const struct ff_space *s, const struct ff_graph *g,
		const struct ff_machine *m, uint64_t seed, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err)
{
	const struct making x = {s, g, m, seed, a};
	struct ff_strategy made;
	int code = make(&x, name, &made, err);

	if (code == FF_OK)
		code = ff_space_fit_strategy(s, &made, ff_is_megatron(name), name, err);
	if (code == FF_OK)
		*ret = made;
	return code;
}
