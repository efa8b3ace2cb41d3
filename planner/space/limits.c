/* Limits of a space.  SPDX-License-Identifier: Apache-2.0 */
#include "limits.h"

#include <string.h>

#include "ff/micro.h"
#include "gcd.h"
#include "prime_mesh.h"

bool ff_space_is_limited(const struct ff_space *s)
{
	const struct ff_limits *l = &s->limits;

	return l->pin || l->no_pipeline || l->tensor_inside_node || l->max_micro || l->mesh;
}

/* ---- whether ---- */

static bool is_pinned_so(
		const struct ff_node *n, const struct ff_pin *pin, const struct ff_config *c)
{
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (pin->degree[d] && c->degree[d] != pin->degree[d])
			return false;
	return !pin->fixed.n_parts || ff_config_equal(n, c, &pin->fixed);
}

/* Number of the samples that `part` has, among those of its replica. */
static uint32_t samples_of(const struct ff_node *n, const struct ff_config *c, uint32_t part)
{
	uint32_t coord[FF_MAX_DIMS], at = 0;

	ff_config_coords(n, c, part, coord);
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (n->dim[d].label == FF_DIM_SAMPLE)
			at = at * c->degree[d] + coord[d];
	return at;
}

/* Whether, of each replica, the parts that have the same samples are in one node. */
static bool is_inside(
		const struct ff_machine *m, const struct ff_node *n, const struct ff_config *c)
{
	uint32_t cells = ff_config_cells(c), samples = 1;
	uint16_t device[FF_MAX_DEVICES];
	uint32_t of[FF_MAX_DEVICES]; /* by replica and samples: the node, where one is known */

	for (uint32_t d = 0; d < n->n_dims; d++)
		samples *= n->dim[d].label == FF_DIM_SAMPLE ? c->degree[d] : 1u;
	if (samples == cells)
		return true;
	ff_config_devices(n, c, device);
	for (uint32_t i = 0; i < samples * c->replicas; i++)
		of[i] = FF_NONE;
	for (uint32_t p = 0; p < c->n_parts; p++) {
		uint32_t *known = &of[p / cells * samples + samples_of(n, c, p)];
		uint32_t node = m->node_of[device[p]];

		if (*known != FF_NONE && *known != node)
			return false;
		*known = node;
	}
	return true;
}

/* `f`: where there is a mesh. */
static bool admits(const struct ff_space *s, uint32_t node, const struct ff_prime_mesh_frame *f,
		const struct ff_config *c)
{
	const struct ff_node *n = &s->graph->nodes[node];
	const struct ff_pin *pin = ff_space_pin(s, node);

	if (s->limits.mesh && !ff_prime_mesh_admits(s, node, f, c))
		return false;
	if (!c->n_parts || !ff_node_needs_config(s->graph, node))
		return true;
	if (pin && !is_pinned_so(n, pin, c))
		return false;
	return !s->limits.tensor_inside_node || is_inside(s->machine, n, c);
}

static struct ff_prime_mesh_frame whole(const struct ff_space *s)
{
	return s->limits.mesh ? ff_prime_mesh_whole(s) : (struct ff_prime_mesh_frame){0};
}

bool ff_space_admits(const struct ff_space *s, uint32_t node, const struct ff_config *c)
{
	struct ff_prime_mesh_frame f = whole(s);

	return admits(s, node, &f, c);
}

bool ff_space_admits_in(const struct ff_space *s, const struct ff_strategy *plan, uint32_t node,
		const struct ff_config *c)
{
	struct ff_prime_mesh_frame f = {0};

	if (s->limits.mesh)
		f = ff_prime_mesh_kept(s, plan, node);
	return admits(s, node, &f, c);
}

static struct ff_prime_mesh_frame frame_of(const struct ff_space *s, const struct ff_strategy *plan,
		uint32_t node, uint32_t n_stages)
{
	return s->limits.mesh ? ff_prime_mesh_stage(s, plan, plan->stage[node], n_stages)
			      : whole(s);
}

/* What is one operator on the mesh is in one stage. */
static bool is_apart(const struct ff_space *s, const struct ff_strategy *plan, uint32_t node)
{
	const struct ff_prime_mesh *m = s->limits.mesh;

	return m && m->joint[node] != FF_NONE && plan->stage[node] != plan->stage[m->joint[node]];
}

uint32_t ff_space_first_outside(const struct ff_space *s, const struct ff_strategy *plan)
{
	uint32_t n_stages = ff_strategy_stages(s->graph, plan);

	for (uint32_t i = 0; i < s->graph->n_nodes; i++) {
		struct ff_prime_mesh_frame f = frame_of(s, plan, i, n_stages);

		if (!admits(s, i, &f, &plan->config[i]) || is_apart(s, plan, i))
			return i;
	}
	return FF_NONE;
}

bool ff_space_admits_strategy(const struct ff_space *s, const struct ff_strategy *plan)
{
	const struct ff_limits *l = &s->limits;

	if (!ff_space_is_limited(s))
		return true;
	return !(l->max_micro && plan->micro_batches > l->max_micro) &&
	       !(l->no_pipeline && ff_strategy_stages(s->graph, plan) > 1) &&
	       ff_space_first_outside(s, plan) == FF_NONE;
}

/* ---- made to ---- */

/* Pinned degrees on neighbours, and samples as far as `devices` from `start` on go. */
static void lay_out(const struct ff_node *n, const struct ff_pin *pin, uint32_t start,
		uint32_t devices, struct ff_config *ret)
{
	uint16_t degree[FF_MAX_DIMS] = {0};
	struct ff_view view = {.start = start};
	uint32_t sample = FF_NONE, stride = 1;

	for (uint32_t d = n->n_dims; d-- > 0; stride *= degree[d]) {
		degree[d] = pin && pin->degree[d] ? pin->degree[d] : 1;
		view.stride[d] = stride;
		if (n->dim[d].label == FF_DIM_SAMPLE && !(pin && pin->degree[d]))
			sample = d;
	}
	if (sample != FF_NONE && devices / stride > 1) {
		uint32_t extent = (uint32_t)n->dim[sample].extent, share = devices / stride;

		degree[sample] = (uint16_t)(share <= extent ? share : ff_gcd(share, extent));
		view.stride[sample] = stride;
	}
	ff_view_config(n->n_dims, degree, &view, ret);
}

static uint32_t pinned_parts(const struct ff_node *n, const struct ff_pin *pin)
{
	uint32_t parts = 1;

	for (uint32_t d = 0; pin && d < n->n_dims; d++)
		parts *= pin->degree[d] ? pin->degree[d] : 1u;
	return parts;
}

/* The first device of the largest node. */
static uint32_t largest_node(const struct ff_machine *m)
{
	uint32_t most = 0;

	for (uint32_t i = 1; i < m->n_nodes; i++)
		most = m->nodes[i].count > m->nodes[most].count ? i : most;
	return m->nodes[most].first;
}

void ff_space_fit(const struct ff_space *s, uint32_t node, struct ff_config *c)
{
	const struct ff_node *n = &s->graph->nodes[node];
	const struct ff_pin *pin = ff_space_pin(s, node);
	uint32_t start = c->list ? c->list[0] : c->start, parts = pinned_parts(n, pin);
	uint32_t least = s->limits.mesh ? s->n_devices : c->n_parts;
	uint32_t devices = least > parts ? least : parts;

	if (ff_space_admits(s, node, c))
		return;
	if (pin && pin->fixed.n_parts) {
		*c = pin->fixed;
		return;
	}
	start -= start % parts;
	if (start + devices > s->n_devices)
		start = 0;
	lay_out(n, pin, start, devices, c);
	if (!ff_space_admits(s, node, c))
		lay_out(n, pin, largest_node(s->machine), parts, c);
	if (s->limits.mesh && !ff_space_admits(s, node, c)) {
		struct ff_prime_mesh_frame f = ff_prime_mesh_whole(s);

		ff_prime_mesh_fit(s, node, &f, c);
	}
}

/* Where the graph of a micro-batch has fewer samples than parts are pinned. */
static int check_micro(const struct ff_space *s, const struct ff_strategy *plan, const char *name,
		struct ff_error *err)
{
	struct ff_error why = {0};
	struct ff_arena scratch;
	struct ff_graph micro;
	int code;

	ff_arena_init(&scratch);
	code = ff_graph_micro(s->graph, plan->micro_batches, &scratch, &micro, &why);
	if (code == FF_OK)
		code = ff_strategy_check(&micro, plan, s->n_devices, &why);
	ff_arena_finish(&scratch);
	return code < 0 ? ff_fail(err, FF_E_INPUT, "strategy %.100s: %.200s", name, why.text)
			: FF_OK;
}

/* What a mesh does not have becomes a split by samples in its stage; parameters are updated where
 * they are read. */
static void fit_on_mesh(const struct ff_space *s, struct ff_strategy *plan)
{
	uint32_t n_stages = ff_strategy_stages(s->graph, plan);

	for (uint32_t i = 0; i < s->graph->n_nodes; i++) {
		struct ff_prime_mesh_frame f = frame_of(s, plan, i, n_stages);

		if (admits(s, i, &f, &plan->config[i]))
			continue;
		if (n_stages == 1 && plan->micro_batches == 1 && ff_node_needs_config(s->graph, i))
			ff_space_fit(s, i, &plan->config[i]);
		else
			ff_prime_mesh_fit(s, i, &f, &plan->config[i]);
	}
}

int ff_space_fit_strategy(const struct ff_space *s, struct ff_strategy *plan, bool exact,
		const char *name, struct ff_error *err)
{
	const struct ff_limits *l = &s->limits;
	uint32_t outside;

	if (!ff_space_is_limited(s))
		return FF_OK;
	if (l->max_micro && plan->micro_batches > l->max_micro)
		return ff_fail(err, FF_E_INPUT,
				"strategy %.100s: %u micro-batches are more than %u%s%.300s", name,
				plan->micro_batches, l->max_micro, l->why_one ? ": " : "",
				l->why_one ? l->why_one : "");
	if (l->no_pipeline && ff_strategy_stages(s->graph, plan) > 1)
		return ff_fail(err, FF_E_INPUT,
				"strategy %.100s has stages, and there are to be none", name);
	if (l->mesh)
		fit_on_mesh(s, plan);
	outside = l->mesh ? ff_space_first_outside(s, plan) : FF_NONE;
	if (outside != FF_NONE)
		return ff_fail(err, FF_E_INPUT,
				"strategy %.100s: operator %s cannot be so in PyTorch", name,
				s->graph->nodes[outside].name);
	for (uint32_t i = 0; i < s->graph->n_nodes && !l->mesh; i++) {
		if (ff_space_admits(s, i, &plan->config[i]))
			continue;
		if (exact && !ff_space_pin(s, i))
			return ff_fail(err, FF_E_INPUT,
					"strategy %.100s: operator %s is not split as it may be",
					name, s->graph->nodes[i].name);
		ff_space_fit(s, i, &plan->config[i]);
		if (!ff_space_admits(s, i, &plan->config[i]))
			return ff_fail(err, FF_E_INPUT,
					"strategy %.100s: operator %s cannot be split as it has to "
					"be",
					name, s->graph->nodes[i].name);
	}
	return check_micro(s, plan, name, err);
}

/* ---- classes ---- */

static bool are_alike(const struct ff_node *n, const struct ff_pin *a, const struct ff_pin *b)
{
	if (!a || !b || a == b)
		return a == b;
	return !memcmp(a->degree, b->degree, sizeof(a->degree)) &&
	       !a->fixed.n_parts == !b->fixed.n_parts &&
	       (!a->fixed.n_parts || ff_config_equal(n, &a->fixed, &b->fixed));
}

void ff_space_part_classes(const struct ff_space *s, uint32_t *class)
{
	/* from behind, so that what is before is as it was */
	for (uint32_t i = s->graph->n_nodes; s->limits.pin && i-- > 0;) {
		uint32_t old = class[i], first = old;

		while (first < i && !(class[first] == old && are_alike(&s->graph->nodes[i],
									     ff_space_pin(s, first),
									     ff_space_pin(s, i))))
			first++;
		class[i] = first;
	}
}
