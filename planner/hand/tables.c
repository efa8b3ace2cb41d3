/* Tables of vectors are most of a recommendation model, and too large for one device.  People cut
 * them by column, so that every device has the same share of bytes and of look-ups, and by row
 * where that is not enough (Mudigere et al., "Software-Hardware Co-design for Fast and Scalable
 * Training of Deep Learning Recommendation Models", ISCA 2022).  Where there is memory, groups of
 * devices may have the same columns instead: each looks up all ids and has the whole gradient, so
 * that no partial vectors are added.  What joins the vectors is cut alike, so that one message
 * moves them all to where the samples are.  What waits for no table may be computed meanwhile, on
 * devices of its own: a lookup takes so little that many of them are mostly launches.  All but
 * tables may be on few devices: it has few parameters, whose sums over a network take longer than a
 * small batch.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tables.h"

#include "space/carry_config.h"
#include "space/space.h"

static bool is_table(const struct ff_graph *g, uint32_t node)
{
	return ff_node_needs_config(g, node) && ff_op_flags_of(g, node) & FF_OP_LOOKUP &&
	       g->nodes[node].n_in > g->nodes[node].n_data;
}

/* Of the table that `node` looks up. */
static int64_t table_elements(const struct ff_graph *g, uint32_t node)
{
	const struct ff_operand *table = &g->nodes[node].in_map[g->nodes[node].n_data];

	return ff_shape_volume(table->rank, table->shape);
}

/* Whether nobody reads the table that is at `edge` but to look up: a product of all its words would
 * have a say in how it is cut. */
static bool is_looked_up_alone(const struct ff_graph *g, uint32_t edge)
{
	const struct ff_value *v = &g->values[g->edges[edge].value];

	for (uint32_t u = 0; u < v->n_uses; u++)
		if (!is_table(g, ff_value_reader(g, v, u)))
			return false;
	return g->uses[v->first_use] == edge; /* counted once */
}

bool ff_tables_matter(const struct ff_graph *g)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (is_table(g, i) && is_looked_up_alone(g, g->nodes[i].in + g->nodes[i].n_data))
			sum += table_elements(g, i);
	return sum > ff_graph_parameters(g) / 2;
}

/* Devices in a row. */
struct row {
	uint32_t start, n;
};

/* Dim `column` of a node in up to `columns` parts, which divide them, on neighbours; `other` in as
 * many as there are devices for, or, FF_NONE, replicas if that is asked for. */
static void cut(const struct ff_node *n, uint32_t column, const struct ff_tables *t, uint32_t other,
		struct row on, struct ff_config *ret)
{
	uint16_t degree[FF_MAX_DIMS] = {0};
	struct ff_view view = {.start = on.start};
	uint32_t by = 1, rest;

	for (uint32_t i = 0; i < n->n_dims; i++)
		degree[i] = 1;
	for (uint32_t i = 2; column != FF_NONE && i <= t->columns; i++)
		by = t->columns % i == 0 && (uint32_t)n->dim[column].extent >= i ? i : by;
	if (by > 1) {
		degree[column] = (uint16_t)by;
		view.stride[column] = 1;
	}
	rest = on.n / by;
	if (other != FF_NONE && rest > (uint32_t)n->dim[other].extent)
		rest = (uint32_t)n->dim[other].extent;
	if (other != FF_NONE && rest > 1) {
		degree[other] = (uint16_t)rest;
		view.stride[other] = by;
	}
	ff_view_config(n->n_dims, degree, &view, ret);
	if (other == FF_NONE && t->replicas && rest > 1) {
		ret->replicas = (uint16_t)rest;
		ret->n_parts *= rest;
		ret->replica_stride = (uint16_t)by;
	}
}

/* Rows are cut where a table has more elements than what is looked up in it: partial vectors are
 * less to move then than the gradients of a table that several devices have.  FF_NONE: replicas
 * instead. */
static uint32_t other_dim(const struct ff_graph *g, uint32_t node, bool replicas)
{
	const struct ff_node *n = &g->nodes[node];
	const struct ff_value *out = &g->values[n->out];

	if (!is_table(g, node) || table_elements(g, node) <= ff_shape_volume(out->rank, out->shape))
		return ff_node_sample_dim(n);
	return replicas ? FF_NONE : ff_node_dim(n, FF_DIM_REDUCTION);
}

/* `column` is, by node, the dim of columns.  The one of a node without parameters that has, of some
 * input, the columns as they are; FF_NONE: there is none. */
static uint32_t follow(const struct ff_graph *g, uint32_t node, const uint32_t *column)
{
	const struct ff_node *n = &g->nodes[node];

	if (n->n_in > n->n_data || ff_node_is_loss(g, node))
		return FF_NONE;
	for (uint32_t k = 0; k < ff_node_inputs(n); k++) {
		const struct ff_value *v = &g->values[g->edges[n->in + k].value];
		const struct ff_node *from = &g->nodes[v->producer];
		const struct ff_operand *in = &n->in_map[k], *out = &from->out_map[v->port];

		for (uint32_t i = 0; column[v->producer] != FF_NONE && i < out->rank; i++) {
			uint32_t d = in->axis[i].n_terms == 1 ? (uint32_t)in->axis[i].term[0].dim
							      : FF_NONE;

			if (out->axis[i].n_terms != 1 || d == FF_NONE ||
					(uint32_t)out->axis[i].term[0].dim != column[v->producer])
				continue;
			if (n->dim[d].label != FF_DIM_REDUCTION &&
					n->dim[d].extent == from->dim[column[v->producer]].extent)
				return d;
		}
	}
	return FF_NONE;
}

/* By node, the dim of columns of tables and of what follows them; the most columns of a table. */
static int32_t find_columns(const struct ff_graph *g, uint32_t *column)
{
	int32_t most = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];

		column[i] = FF_NONE;
		if (is_table(g, i))
			column[i] = ff_node_dim(n, FF_DIM_PARAMETER);
		else if (ff_node_needs_config(g, i))
			column[i] = follow(g, i, column);
		if (is_table(g, i) && column[i] != FF_NONE && n->dim[column[i]].extent > most)
			most = n->dim[column[i]].extent;
	}
	return most;
}

/* By node, whether it waits for a table. */
static void find_waiting(const struct ff_graph *g, bool *waits)
{
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];

		waits[i] = false;
		for (uint32_t k = n->in; k < n->in + ff_node_inputs(n) && !waits[i]; k++) {
			uint32_t from = ff_edge_source(g, k);

			waits[i] = waits[from] || is_table(g, from);
		}
	}
}

/* Devices for tables, and what is cut by column as they are; for what waits for none; for all else.
 */
struct rows {
	struct row tables, before, behind;
};

static struct rows rows_of(
		const struct ff_tables *t, uint32_t n_devices, const struct ff_machine *m)
{
	struct row all = {0, n_devices}, first = {0, n_devices / 2},
		   last = {n_devices / 2, n_devices / 2}, others = {0, t->others};

	if (n_devices + t->others <= m->n_devices)
		others.start = n_devices;
	if (t->others)
		return (struct rows){all, others, t->apart ? all : others};
	return t->apart ? (struct rows){last, first, all} : (struct rows){all, all, all};
}

static uint32_t devices_of(const struct ff_tables *t, const struct ff_machine *m)
{
	return t->devices ? t->devices : m->n_devices;
}

/* Whether `t` can be, `most` being the columns of the widest table. */
static int check(const struct ff_graph *g, const struct ff_machine *m, const struct ff_tables *t,
		int32_t most, struct ff_error *err)
{
	uint32_t all = devices_of(t, m), n = rows_of(t, all, m).tables.n;

	if (all > m->n_devices)
		return ff_fail(err, FF_E_INPUT, "tables-%u,devices=%u: there are %u devices",
				t->columns, all, m->n_devices);
	if (t->others > m->n_devices)
		return ff_fail(err, FF_E_INPUT, "tables-%u,others=%u: there are %u devices",
				t->columns, t->others, m->n_devices);
	if (!most)
		return ff_fail(err, FF_E_INPUT,
				"tables-%u: graph %s looks up no tables: expected one that does",
				t->columns, g->name);
	if (t->apart && !t->others && all % 2)
		return ff_fail(err, FF_E_INPUT,
				"tables-%u,apart: expected an even number of devices, there are %u",
				t->columns, all);
	if (n % t->columns || t->columns > (uint32_t)most)
		return ff_fail(err, FF_E_INPUT,
				"tables-%u: expected a divisor of the %u devices, and at most the "
				"%d columns of a table",
				t->columns, n, most);
	if (t->replicas && t->columns == n)
		return ff_fail(err, FF_E_INPUT,
				"tables-%u,replicas: all %u devices have columns of their own: "
				"expected fewer columns",
				t->columns, n);
	return FF_OK;
}

int ff_start_tables(const struct ff_graph *g, const struct ff_machine *m, const struct ff_tables *t,
		struct ff_arena *a, struct ff_strategy *ret, struct ff_error *err)
{
	uint32_t *column = ff_arena_array(a, g->n_nodes, sizeof(*column));
	bool *waits = ff_arena_array(a, g->n_nodes, sizeof(*waits));
	struct rows on = rows_of(t, devices_of(t, m), m);
	struct ff_strategy s;
	int code = column && waits ? ff_strategy_create(g, a, &s, err) : ff_fail_memory(err);

	if (code == FF_OK)
		code = check(g, m, t, find_columns(g, column), err);
	if (code < 0)
		return code;
	find_waiting(g, waits);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct row row = column[i] != FF_NONE ? on.tables
				 : waits[i]           ? on.behind
						      : on.before;

		if (!ff_node_needs_config(g, i))
			continue;
		cut(&g->nodes[i], column[i], t, other_dim(g, i, t->replicas), row, &s.config[i]);
		s.stage[i] = t->stages && waits[i];
	}
	*ret = s;
	return FF_OK;
}
