/* Networks split in one way.  SPDX-License-Identifier: Apache-2.0 */
#include "pure.h"

#include "stage_cuts.h"

enum kind { BY_LABELS, PIPELINE, ZERO };

/* Dims of `inner` among the devices of a node, or where `alone` among all, else samples of the
 * rest. */
static const struct row {
	struct ff_pure pure;
	enum kind kind;
	bool alone;
	enum ff_label inner, otherwise; /* of operators that have no dim of the first */
} rows[] = {
		{{"data", "samples"}, BY_LABELS, true, FF_DIM_SAMPLE, FF_DIM_SAMPLE},
		{{"spatial", "height, width, depth, or places"}, BY_LABELS, true, FF_DIM_ATTRIBUTE,
				FF_DIM_ATTRIBUTE},
		{{"output channel", "output channels and features"}, BY_LABELS, true,
				FF_DIM_PARAMETER, FF_DIM_PARAMETER},
		{{"input channel", "what products and convolutions sum over"}, BY_LABELS, true,
				FF_DIM_REDUCTION, FF_DIM_PARAMETER},
		{{"pipeline", "operators, in stages"}, PIPELINE, true, 0, 0},
		{{"data + filter", "output channels in a node, samples between nodes"}, BY_LABELS,
				false, FF_DIM_PARAMETER, FF_DIM_PARAMETER},
		{{"data + spatial", "attributes in a node, samples between nodes"}, BY_LABELS,
				false, FF_DIM_ATTRIBUTE, FF_DIM_ATTRIBUTE},
		{{"zero-3", "samples, and weights, gradients and states"}, ZERO, true, 0, 0},
};
#define N_ROWS (sizeof(rows) / sizeof(*rows))

const struct ff_pure *ff_pure_row(uint32_t i)
{
	return i < N_ROWS ? &rows[i].pure : NULL;
}

/* ---- channels and places ---- */

/* An operator of one element at a time calls all its axes attributes.  Those along which what it
 * reads is made by parameter, or whole, are channels.  A bit for each dim. */
struct channels {
	uint32_t here;
	uint32_t moved; /* of these: elements change their places, as in a concat */
};

static bool is_of(const struct ff_node *n, struct channels c, uint32_t dim, enum ff_label label)
{
	if (!(c.here >> dim & 1))
		return n->dim[dim].label == label;
	return label == FF_DIM_PARAMETER && !(c.moved >> dim & 1);
}

static bool is_channel(const struct ff_node *n, struct channels c, const struct ff_axis_map *axis)
{
	for (uint32_t t = 0; t < axis->n_terms; t++) {
		uint32_t d = (uint32_t)axis->term[t].dim;

		if (n->dim[d].label == FF_DIM_PARAMETER || c.here >> d & 1)
			return true;
	}
	return axis->n_terms == 0;
}

static bool has_label(const struct ff_node *n, struct channels channels, enum ff_label label)
{
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (is_of(n, channels, d, label))
			return true;
	return false;
}

/* What of the axes of an input are channels. */
static void mark_axes(const struct ff_graph *g, uint32_t node, uint32_t input, struct channels *c)
{
	const struct ff_node *n = &g->nodes[node];
	const struct ff_value *v = &g->values[g->edges[n->in + input].value];
	const struct ff_operand *in = &n->in_map[input];
	const struct ff_operand *out = &g->nodes[v->producer].out_map[v->port];

	for (uint32_t a = 0; a < in->rank; a++) {
		if (!is_channel(&g->nodes[v->producer], c[v->producer], &out->axis[a]))
			continue;
		for (uint32_t t = 0; t < in->axis[a].n_terms; t++) {
			uint32_t d = (uint32_t)in->axis[a].term[t].dim;

			if (n->dim[d].label != FF_DIM_ATTRIBUTE)
				continue;
			c[node].here |= 1u << d;
			if (in->axis[a].n_terms == 1 && in->shape[a] != n->dim[d].extent)
				c[node].moved |= 1u << d;
		}
	}
}

static void mark_channels(const struct ff_graph *g, uint32_t node, struct channels *c)
{
	const struct ff_node *n = &g->nodes[node];

	if (has_label(n, c[node], FF_DIM_PARAMETER)) /* which says what its attributes are */
		return;
	for (uint32_t k = 0; k < ff_node_inputs(n); k++)
		if (ff_node_needs_config(g, g->values[g->edges[n->in + k].value].producer))
			mark_axes(g, node, k, c);
}

/* ---- splits ---- */

static uint32_t smallest_factor(uint32_t n)
{
	for (uint32_t f = 2; f * f <= n; f++)
		if (n % f == 0)
			return f;
	return n;
}

/* Cuts dims of `label` into up to `want` parts, factor by factor the one whose parts are largest.
 */
static uint32_t cut(const struct ff_node *n, struct channels channels, enum ff_label label,
		uint32_t want, struct ff_config *c)
{
	uint32_t parts = 1;

	while (want > 1) {
		uint32_t factor = smallest_factor(want), best = FF_NONE;

		for (uint32_t d = 0; d < n->n_dims; d++)
			if (is_of(n, channels, d, label) &&
					c->degree[d] * factor <= (uint32_t)n->dim[d].extent &&
					(best == FF_NONE ||
							n->dim[d].extent / c->degree[d] >
									n->dim[best].extent /
											c->degree[best]))
				best = d;
		want /= factor;
		if (best == FF_NONE)
			continue;
		c->degree[best] = (uint16_t)(c->degree[best] * factor);
		parts *= factor;
	}
	return parts;
}

/* The dims of `label` stride over neighbours, from `stride` on; what they reach. */
static uint32_t lay(const struct ff_node *n, struct channels channels, enum ff_label label,
		uint32_t stride, struct ff_config *c)
{
	for (uint32_t d = n->n_dims; d-- > 0;)
		if (is_of(n, channels, d, label) && c->degree[d] > 1) {
			c->stride[d] = (uint16_t)stride;
			stride *= c->degree[d];
		}
	return stride;
}

static void split(const struct row *r, const struct ff_node *n, struct channels channels,
		uint32_t devices, uint32_t in_node, struct ff_config *c)
{
	enum ff_label label = has_label(n, channels, r->inner) ? r->inner : r->otherwise;
	uint32_t inner, outer = 1, reach;

	*c = (struct ff_config){.replicas = 1};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		c->degree[d] = 1;
	inner = cut(n, channels, label, r->alone ? devices : in_node, c);
	if (!r->alone) /* what has too few parts for a node shares its samples there, too */
		outer = cut(n, channels, FF_DIM_SAMPLE, devices / inner, c);
	reach = lay(n, channels, label, 1, c);
	c->replicas = (uint16_t)(devices / inner / outer);
	c->replica_stride = c->replicas > 1 ? (uint16_t)reach : 0;
	lay(n, channels, FF_DIM_SAMPLE, label == FF_DIM_SAMPLE ? 1 : reach * c->replicas, c);
	c->n_parts = devices;
}

static int split_all(const struct row *r, const struct ff_graph *g, const struct ff_machine *m,
		struct ff_arena *a, struct ff_strategy *ret, struct ff_error *err)
{
	uint32_t in_node = m->nodes[0].count;
	struct channels *channels = ff_arena_array(a, g->n_nodes, sizeof(*channels));
	int code = channels ? ff_strategy_create(g, a, ret, err) : ff_fail_memory(err);

	if (code == FF_OK && !r->alone && (m->n_devices <= in_node || m->n_devices % in_node))
		return ff_fail(err, FF_E_INPUT, "%s: expected several nodes of %u devices",
				r->pure.name, in_node);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_needs_config(g, i)) {
			mark_channels(g, i, channels);
			split(r, &g->nodes[i], channels[i], m->n_devices, in_node, &ret->config[i]);
		}
	return code;
}

/* Into how many parts the operator is split that has most. */
static uint32_t most_parts(const struct ff_strategy *s, bool stages)
{
	uint32_t most = 1;

	for (uint32_t i = 0; i < s->n_nodes; i++)
		if (stages && s->stage[i] >= most)
			most = s->stage[i] + 1u;
		else if (!stages && s->config[i].n_parts && ff_config_cells(&s->config[i]) > most)
			most = ff_config_cells(&s->config[i]);
	return most;
}

int ff_pure_strategy(uint32_t i, const struct ff_space *space, const struct ff_graph *g,
		const struct ff_machine *m, struct ff_arena *a, struct ff_strategy *ret,
		struct ff_error *err)
{
	const struct row *r = &rows[i];
	struct ff_strategy s;
	uint32_t most;
	int code;

	if (r->kind == PIPELINE)
		code = ff_start_pipeline(space, g, m, m->n_devices, a, &s, err);
	else if (r->kind == ZERO)
		code = ff_start_zero(space, g, m, 3, false, a, &s, err);
	else
		code = split_all(r, g, m, a, &s, err);
	if (code < 0)
		return code;
	most = most_parts(&s, r->kind == PIPELINE);
	if (most < m->n_devices)
		return ff_fail(err, FF_E_INPUT,
				r->kind == PIPELINE ? "operators make no more than %u stage%s of "
						      "equal times"
						    : "operators are cut so into no more than %u "
						      "part%s",
				most, most == 1 ? "" : "s");
	*ret = s;
	return FF_OK;
}
