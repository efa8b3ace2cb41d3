/* Builds and checks operator graphs.  Nodes are only noted down as they come;
 * finish() derives them all, into arrays of the exact size.
 * SPDX-License-Identifier: Apache-2.0 */
#include "builder.h"

#include <string.h>

#include "attrs.h"
#include "base/names.h"
#include "derive.h"
#include "ff/backward.h"
#include "ff/graph_file.h"

#define NAME_LENGTH 200

struct pending {
	enum ff_op op;
	const char *name;
	union ff_attrs attrs;
	const uint32_t *in; /* data and parameters: FF_PORT */
	uint32_t n_in, n_data, n_prelude;
	struct ff_op_counts count;
	const struct ff_json *place;
};

#define NODE_OF(port) ((port)&0xfffffu)
#define OUTPUT_OF(port) ((port) >> 20)

struct ff_builder {
	const char *name;
	enum ff_dtype dtype;
	struct ff_arena *arena;
	struct pending *nodes;
	uint32_t n, cap;
	uint32_t n_edges, n_values;
	struct ff_names *names;
	const struct ff_json *root;
	struct ff_error err; /* the first one */
};

static bool legal_name(const char *name)
{
	size_t n = name ? strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				       "0123456789_.:/-")
			: 0;
	return n >= 1 && n <= NAME_LENGTH && !name[n];
}

#define NAME_RULE "a name is 1 to 200 characters out of A-Z a-z 0-9 _ . : / -"

int ff_builder_create(
		const char *name, struct ff_arena *a, struct ff_builder **ret, struct ff_error *err)
{
	if (!legal_name(name))
		return ff_fail(err, FF_E_INPUT, "graph name: " NAME_RULE);
	struct ff_builder *b = ff_arena_alloc(a, sizeof(*b));
	if (!b)
		return ff_fail_memory(err);
	b->arena = a;
	b->name = ff_arena_strdup(a, name);
	b->names = ff_arena_alloc(a, sizeof(*b->names));
	if (!b->name || !b->names)
		return ff_fail_memory(err);
	ff_names_init(b->names, a);
	*ret = b;
	return FF_OK;
}

void ff_builder_set_dtype(struct ff_builder *b, enum ff_dtype dtype)
{
	b->dtype = dtype;
}

void ff_builder_set_place(struct ff_builder *b, const struct ff_json *root)
{
	b->root = root;
}

/* Keeps the first error; `node` is the pending node it is about, or NULL. */
#define FAIL(b, node, fmt, ...)                                                                    \
	((node)->place ? ff_json_fail((node)->place, &(b)->err, fmt, ##__VA_ARGS__)                \
		       : ff_fail(&(b)->err, FF_E_INPUT, "graph \"%s\": " fmt, (b)->name,           \
					 ##__VA_ARGS__))

static int check_inputs(struct ff_builder *b, const struct pending *p)
{
	const char *op = ff_op_row(p->op)->name;

	for (uint32_t i = 0; i < p->n_in; i++) {
		const struct pending *source;

		if (NODE_OF(p->in[i]) >= b->n)
			return FAIL(b, p, "%s \"%s\": input %u is not an earlier node", op, p->name,
					i);
		source = &b->nodes[NODE_OF(p->in[i])];
		if (ff_op_row(source->op)->flags & FF_OP_LOSS)
			return FAIL(b, p, "%s \"%s\": input %u, the loss \"%s\", ends the graph",
					op, p->name, i, source->name);
		if (OUTPUT_OF(p->in[i]) >= source->count.out)
			return FAIL(b, p, "%s \"%s\": input %u: \"%s\" has no output %u", op,
					p->name, i, source->name, OUTPUT_OF(p->in[i]));
	}
	return FF_OK;
}

static int check_node(struct ff_builder *b, const struct pending *p)
{
	const struct ff_op_row *row;
	const struct ff_attr_row *bad;

	if (b->n >= FF_MAX_NODES)
		return FAIL(b, p, "a graph has at most %d nodes", FF_MAX_NODES);
	if (!legal_name(p->name))
		return FAIL(b, p, "node %u: " NAME_RULE, b->n);
	if ((uint32_t)p->op >= FF_OP_COUNT)
		return FAIL(b, p, "node \"%s\": there is no operator number %u", p->name,
				(unsigned)p->op);
	row = ff_op_row(p->op);
	if (ff_names_find(b->names, p->name) != FF_NONE)
		return FAIL(b, p, "node name \"%s\" is taken", p->name);
	if (p->n_in < row->min_in || p->n_in > row->max_in)
		return FAIL(b, p, "%s \"%s\": expected %u%s%.0u input%s, not %u", row->name,
				p->name, row->min_in, row->max_in > row->min_in ? " to " : "",
				row->max_in > row->min_in ? row->max_in : 0,
				row->max_in == 1 ? "" : "s", p->n_in);
	bad = ff_attrs_check(row, &p->attrs);
	if (bad)
		return FAIL(b, p, "%s \"%s\": \"%s\" is out of range", row->name, p->name,
				bad->name);
	return check_inputs(b, p);
}

/* Makes room and copies what the caller may free. */
static int keep_node(struct ff_builder *b, struct pending *p)
{
	if (b->n == b->cap) {
		uint32_t cap = b->cap ? b->cap * 2 : 32;
		struct pending *bigger = ff_arena_array(b->arena, cap, sizeof(*bigger));

		if (!bigger)
			return ff_fail_memory(&b->err);
		if (b->n)
			memcpy(bigger, b->nodes, b->n * sizeof(*bigger));
		b->nodes = bigger;
		b->cap = cap;
	}
	p->name = ff_arena_strdup(b->arena, p->name);
	if (!p->name || ff_names_put(b->names, p->name, b->n) < 0)
		return ff_fail_memory(&b->err);
	if (ff_attrs_keep(ff_op_row(p->op), &p->attrs, b->arena, &b->err) < 0)
		return b->err.code;
	ff_op_count(p->op, &p->attrs, &p->count);
	b->nodes[b->n++] = *p;
	b->n_edges += p->n_in;
	b->n_values += p->count.out + p->count.carried + p->count.saved;
	return FF_OK;
}

/* Makes the prelude of `p`, which reads its outputs behind the data. */
static int keep_prelude(struct ff_builder *b, struct pending *p)
{
	const struct ff_op_row *row = ff_op_row(p->op);
	struct pending made = {.op = row->prelude,
			.attrs = p->attrs,
			.n_in = p->n_in,
			.n_data = p->n_in,
			.place = p->place};
	uint32_t *in, prelude = b->n, n;
	int code;

	if (!row->prelude_name)
		return FF_OK;
	made.name = ff_arena_printf(b->arena, "%s.%s", p->name, row->prelude_name);
	made.in = in = ff_arena_array(b->arena, p->n_in + FF_MAX_OUTPUTS, sizeof(*in));
	if (!made.name || !in)
		return ff_fail_memory(&b->err);
	memcpy(in, p->in, p->n_in * sizeof(*in));
	code = check_node(b, &made);
	if (code == FF_OK)
		code = keep_node(b, &made);
	if (code < 0)
		return code;
	n = b->nodes[prelude].count.out;
	for (uint32_t k = 0; k < n; k++)
		in[p->n_in + k] = FF_PORT(prelude, k);
	p->in = in;
	p->n_in += n;
	p->n_prelude = n;
	return FF_OK;
}

/* The node of parameter `name` of `p`: made, or there already. */
static int keep_param(
		struct ff_builder *b, const struct pending *p, const char *name, uint32_t *ret)
{
	struct pending made = {.op = FF_OP_PARAMETER, .name = name, .place = p->place};
	uint32_t i = ff_names_find(b->names, name);

	*ret = i == FF_NONE ? b->n : i;
	if (i == FF_NONE)
		return check_node(b, &made) < 0 ? b->err.code : keep_node(b, &made);
	if (b->nodes[i].op != FF_OP_PARAMETER)
		return FAIL(b, p, "%s \"%s\": its parameter \"%s\" has the name of a node",
				ff_op_row(p->op)->name, p->name, name);
	return FF_OK;
}

/* Adds what `p` reads beside its data: what it carries from part to part, and its parameters. */
static int keep_params(struct ff_builder *b, struct pending *p, const char *const *params)
{
	const struct ff_op_row *row = ff_op_row(p->op);
	struct ff_op_counts count;
	uint32_t *in;

	ff_op_count(p->op, &p->attrs, &count);
	in = ff_arena_array(b->arena, p->n_in + count.carried + count.params, sizeof(*in));
	if (!in)
		return ff_fail_memory(&b->err);
	if (p->n_in)
		memcpy(in, p->in, p->n_in * sizeof(*in));
	p->n_data = p->n_in += count.carried;
	for (uint32_t i = 0; i < count.params; i++) {
		const char *name = params && params[i] ? params[i]
						       : ff_arena_printf(b->arena, "%s.%s", p->name,
									 row->param[i]);
		int code = name ? keep_param(b, p, name, &in[p->n_in++]) : ff_fail_memory(&b->err);

		if (code < 0)
			return code;
	}
	/* it is the next node */
	for (uint32_t i = 0; i < count.carried; i++)
		in[p->n_data - count.carried + i] = FF_PORT(b->n, count.out + i);
	p->in = in;
	return FF_OK;
}

uint32_t ff_builder_add_at(struct ff_builder *b, enum ff_op op, const char *name,
		const union ff_attrs *attrs, const uint32_t *in, uint32_t n_in,
		const char *const *params, const struct ff_json *place)
{
	struct pending p = {.op = op, .name = name, .in = in, .n_in = n_in, .place = place};

	memset(&p.attrs, 0, sizeof(p.attrs));
	if (attrs)
		p.attrs = *attrs;
	else if ((uint32_t)op < FF_OP_COUNT)
		p.attrs = ff_attrs_preset(op);
	if (b->err.code < 0 || check_node(b, &p) < 0 || keep_prelude(b, &p) < 0 ||
			keep_params(b, &p, params) < 0 || keep_node(b, &p) < 0)
		return FF_NONE;
	return b->n - 1;
}

uint32_t ff_builder_add_tied(struct ff_builder *b, enum ff_op op, const char *name,
		const union ff_attrs *attrs, const uint32_t *in, uint32_t n_in,
		const char *const *params)
{
	return ff_builder_add_at(b, op, name, attrs, in, n_in, params, NULL);
}

uint32_t ff_builder_add(struct ff_builder *b, enum ff_op op, const char *name,
		const union ff_attrs *attrs, const uint32_t *in, uint32_t n_in)
{
	return ff_builder_add_at(b, op, name, attrs, in, n_in, NULL, NULL);
}

/* Edges and values of one node. */
static void link_node(struct ff_builder *b, struct ff_graph *g, uint32_t i)
{
	const struct pending *p = &b->nodes[i];
	struct ff_node *n = &g->nodes[i];
	uint32_t flags = ff_op_row(p->op)->flags, moved = p->count.out + p->count.carried;

	*n = (struct ff_node){.op = p->op,
			.name = p->name,
			.attrs = p->attrs,
			.in = g->n_edges,
			.n_in = p->n_in,
			.n_data = p->n_data,
			.n_prelude = p->n_prelude,
			.out = g->n_values,
			.n_out = moved + p->count.saved,
			.n_saved = p->count.saved,
			.n_carried = p->count.carried,
			.n_kept = p->count.kept,
			.in_map = n->in_map + g->n_edges,
			.out_map = n->out_map + g->n_values};
	for (uint32_t k = 0; k < n->n_out; k++)
		g->values[g->n_values++] = (struct ff_value){.producer = i,
				.port = k,
				.kind = k >= moved             ? FF_VALUE_SAVED
					: flags & FF_OP_SOURCE ? FF_VALUE_INPUT
					: flags & FF_OP_UPDATE ? FF_VALUE_PARAMETER
							       : FF_VALUE_ACTIVATION};
	for (uint32_t slot = 0; slot < p->n_in; slot++) {
		uint32_t value = g->nodes[NODE_OF(p->in[slot])].out + OUTPUT_OF(p->in[slot]);

		g->edges[g->n_edges++] = (struct ff_edge){value, i, slot, FF_NONE};
	}
	for (uint32_t slot = 0; n->n_prelude && slot < n->n_data - n->n_prelude; slot++)
		g->edges[n->in + slot].shared = g->nodes[ff_node_prelude(g, i)].in + slot;
}

static int allocate(struct ff_builder *b, struct ff_graph *g)
{
	struct ff_arena *a = b->arena;
	struct ff_operand *in_maps = ff_arena_array(a, b->n_edges, sizeof(*in_maps));
	struct ff_operand *out_maps = ff_arena_array(a, b->n_values, sizeof(*out_maps));

	g->name = b->name;
	g->names = b->names;
	g->n_nodes = b->n;
	g->nodes = ff_arena_array(a, b->n, sizeof(*g->nodes));
	g->values = ff_arena_array(a, b->n_values, sizeof(*g->values));
	g->edges = ff_arena_array(a, b->n_edges, sizeof(*g->edges));
	g->uses = ff_arena_array(a, b->n_edges, sizeof(*g->uses));
	if (!g->nodes || !g->values || !g->edges || !g->uses || !in_maps || !out_maps)
		return ff_fail_memory(&b->err);
	for (uint32_t i = 0; i < b->n; i++) {
		g->nodes[i].in_map = in_maps;
		g->nodes[i].out_map = out_maps;
		link_node(b, g, i);
	}
	return FF_OK;
}

static void link_uses(struct ff_graph *g)
{
	uint32_t at = 0;

	for (uint32_t e = 0; e < g->n_edges; e++)
		g->values[g->edges[e].value].n_uses++;
	for (uint32_t t = 0; t < g->n_values; t++) {
		g->values[t].first_use = at;
		at += g->values[t].n_uses;
		g->values[t].n_uses = 0;
	}
	for (uint32_t e = 0; e < g->n_edges; e++) {
		struct ff_value *t = &g->values[g->edges[e].value];

		g->uses[t->first_use + t->n_uses++] = e;
	}
}

/* All inputs have as many samples as the first, and so has what reads none. */
static int check_batch(struct ff_builder *b, struct ff_graph *g, uint32_t i)
{
	int32_t samples = g->values[g->nodes[i].out].shape[0];

	if (!ff_node_is_source(g, i) && (g->nodes[i].n_data || ff_node_is_parameter(g, i)))
		return FF_OK;
	if (g->batch && samples != g->batch)
		return FAIL(b, &b->nodes[i], "\"%s\" has %d samples, the inputs before it have %d",
				g->nodes[i].name, samples, g->batch);
	g->batch = samples;
	return FF_OK;
}

struct totals {
	int64_t elements, parameters, flops;
};

static int check_totals(const struct totals *total, const struct ff_derive *d, struct ff_error *err)
{
	if (total->parameters > FF_MAX_PARAMETER_ELEMENTS)
		return ff_derive_fail(d, err,
				"with this node the graph's parameters exceed 2^46 elements");
	if (total->elements > FF_MAX_GRAPH_ELEMENTS)
		return ff_derive_fail(
				d, err, "with this node the graph's tensors exceed 2^50 elements");
	if (total->flops > FF_MAX_GRAPH_FLOPS)
		return ff_derive_fail(
				d, err, "with this node a step of the graph exceeds 2^62 FLOPs");
	return FF_OK;
}

static int derive_node(struct ff_builder *b, struct ff_graph *g, uint32_t i, struct totals *total)
{
	struct ff_node *n = &g->nodes[i];
	struct ff_derive d = {.graph = g, .node = n, .place = b->nodes[i].place};
	int code = ff_op_row(n->op)->derive(&d, &b->err);
	bool grad = ff_node_is_parameter(g, i), constant = ff_op_flags_of(g, i) & FF_OP_CONSTANT;
	int64_t elements = 0;

	if (code < 0)
		return code;
	for (uint32_t slot = 0; slot < n->n_in; slot++) {
		const struct ff_value *t = ff_derive_in(&d, slot);

		int64_t volume = ff_value_volume(t);

		elements = ff_sat_add(elements, volume);
		if (ff_node_is_parameter(g, t->producer))
			total->parameters = ff_sat_add(total->parameters, volume);
		grad = grad || t->needs_grad;
	}
	for (uint32_t k = 0; k < n->n_out && !ff_node_is_parameter(g, i); k++) {
		struct ff_value *v = ff_derive_value(&d, k);

		elements = ff_sat_add(elements, ff_value_volume(v));
		v->needs_grad = grad && k + n->n_saved < n->n_out && !constant &&
				!ff_dtype_is_whole(v->dtype);
	}
	if (ff_node_is_parameter(g, i))
		ff_derive_value(&d, 0)->needs_grad = true;
	total->elements = ff_sat_add(total->elements, elements);
	total->flops = ff_sat_add(total->flops, ff_sat_add(n->flops_forward, n->flops_backward));
	return check_totals(total, &d, &b->err);
}

/* Every value but the loss and what nodes keep to themselves is read. */
static int check_uses(struct ff_builder *b, struct ff_graph *g)
{
	for (uint32_t k = 0; k < g->n_values; k++) {
		const struct ff_value *v = &g->values[k];
		const struct ff_node *n = &g->nodes[v->producer];

		if (v->n_uses || ff_node_is_loss(g, v->producer) || v->kind == FF_VALUE_SAVED)
			continue;
		if (ff_node_outputs(n) == 1)
			return FAIL(b, &b->nodes[v->producer], "the output of \"%s\" is not used",
					n->name);
		return FAIL(b, &b->nodes[v->producer], "output %u of \"%s\" is not used", v->port,
				n->name);
	}
	return FF_OK;
}

/* Where one is wanted, somebody brings it. */
static int check_gradients(struct ff_builder *b, struct ff_graph *g)
{
	for (uint32_t k = 0; k < g->n_values; k++) {
		const struct ff_value *v = &g->values[k];
		bool comes = !v->needs_grad || !v->n_uses;

		for (uint32_t i = 0; i < v->n_uses; i++)
			comes = comes || ff_edge_needs_grad(g, ff_value_use(g, v, i));
		if (!comes)
			return FAIL(b, &b->nodes[v->producer],
					"nothing that reads \"%s\" gives it a gradient",
					g->nodes[v->producer].name);
	}
	return FF_OK;
}

/* Losses, everything else is used, and there is something to train. */
static int check_ends(struct ff_builder *b, struct ff_graph *g)
{
	const struct pending *whole = &(struct pending){.place = b->root};

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		if (!ff_node_is_loss(g, i))
			continue;
		if (g->n_losses == FF_MAX_LOSSES)
			return FAIL(b, &b->nodes[i], "\"%s\" is one loss more than %d",
					g->nodes[i].name, FF_MAX_LOSSES);
		g->loss[g->n_losses++] = i;
	}
	if (!g->n_losses)
		return FAIL(b, whole,
				"there is no loss, expected a softmax_cross_entropy, mse, l1, "
				"smooth_l1, bce_with_logits or mean");
	if (check_uses(b, g) < 0 || check_gradients(b, g) < 0)
		return b->err.code;
	if (!ff_graph_parameters(g))
		return FAIL(b, whole, "there is nothing to train, expected a node with weights");
	return FF_OK;
}

static int hash_graph(struct ff_builder *b, struct ff_graph *g)
{
	struct ff_out o;
	bool failed;

	ff_out_init(&o);
	ff_graph_write(g, &o);
	failed = o.failed;
	if (!failed)
		g->hash = ff_fnv1a(o.text, o.len);
	ff_out_finish(&o);
	return failed ? ff_fail_memory(&b->err) : FF_OK;
}

/* Edges, values and all that rows derive; of a `whole` graph inputs have one batch. */
static int derive_all(struct ff_builder *b, bool whole, struct ff_graph *g)
{
	struct totals total = {0};
	int code = allocate(b, g);

	if (code == FF_OK)
		link_uses(g);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		code = derive_node(b, g, i, &total);
		if (code == FF_OK && whole)
			code = check_batch(b, g, i);
	}
	return code;
}

static int finish(struct ff_builder *b, struct ff_graph *g)
{
	const struct pending *whole = &(struct pending){.place = b->root};
	int code;

	if (!b->n)
		return FAIL(b, whole, "there are no nodes");
	code = derive_all(b, true, g);
	if (code < 0)
		return code;
	ff_graph_limit_sparse(g);
	code = check_ends(b, g);
	return code < 0 ? code : hash_graph(b, g);
}

/* The first error, or what was built. */
static int end(struct ff_builder *b, int code, const struct ff_graph *g, struct ff_graph *ret,
		struct ff_error *err)
{
	if (code == FF_OK)
		*ret = *g;
	else if (err)
		*err = b->err;
	return code;
}

int ff_builder_draft(struct ff_builder *b, struct ff_graph *ret, struct ff_error *err)
{
	struct ff_graph g = {.dtype = b->dtype};

	return end(b, b->err.code < 0 ? b->err.code : derive_all(b, false, &g), &g, ret, err);
}

int ff_builder_finish(struct ff_builder *b, struct ff_graph *ret, struct ff_error *err)
{
	struct ff_graph g = {.dtype = b->dtype};

	return end(b, b->err.code < 0 ? b->err.code : finish(b, &g), &g, ret, err);
}
