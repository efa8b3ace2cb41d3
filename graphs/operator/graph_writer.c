/* How a graph is written.  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "attrs.h"
#include "ff/graph_file.h"

static void write_inputs(const struct ff_graph *g, const struct ff_node *n, struct ff_out *o)
{
	ff_out_array(o, "in");
	for (uint32_t k = 0; k < ff_node_inputs(n); k++) {
		const struct ff_value *v = &g->values[g->edges[n->in + k].value];
		const char *name = g->nodes[v->producer].name;
		char port[256];

		snprintf(port, sizeof(port), "%s#%u", name, v->port);
		ff_out_string(o, NULL, v->port ? port : name);
	}
	ff_out_close(o);
}

/* Parameters, where they are not called as they would be without: NODE.PARAMETER. */
static void write_params(const struct ff_graph *g, const struct ff_node *n, struct ff_out *o)
{
	const struct ff_op_row *row = ff_op_row(n->op);
	bool open = false;

	for (uint32_t k = n->n_data; k < n->n_in; k++) {
		const char *name = g->nodes[ff_edge_source(g, n->in + k)].name;
		const char *which = row->param[k - n->n_data];
		size_t len = strlen(n->name);

		if (!strncmp(name, n->name, len) && name[len] == '.' &&
				!strcmp(name + len + 1, which))
			continue;
		if (!open)
			ff_out_object(o, "params");
		open = true;
		ff_out_string(o, which, name);
	}
	if (open)
		ff_out_close(o);
}

void ff_graph_write(const struct ff_graph *g, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "format", "ffsoap-graph");
	ff_out_int(o, "version", FF_GRAPH_VERSION);
	ff_out_string(o, "name", g->name);
	if (g->dtype != FF_F32) /* so that hashes of older files stay what they were */
		ff_out_string(o, "dtype", ff_dtype_name(g->dtype));
	ff_out_array(o, "nodes");
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];
		const struct ff_op_row *row = ff_op_row(n->op);

		if (row->flags & (FF_OP_UPDATE | FF_OP_PRELUDE))
			continue; /* those that read it make it */
		ff_out_object(o, NULL);
		ff_out_string(o, "name", n->name);
		ff_out_string(o, "op", row->name);
		if (row->max_in)
			write_inputs(g, n, o);
		write_params(g, n, o);
		ff_attrs_write(row, &n->attrs, o);
		ff_out_close(o);
	}
	ff_out_close(o);
	ff_out_close(o);
}

void ff_graph_write_reference(const struct ff_graph *g, struct ff_out *o)
{
	char hash[FF_GRAPH_HASH_TEXT];

	snprintf(hash, sizeof(hash), "%016" PRIx64, g->hash);
	ff_out_string(o, "graph", g->name);
	ff_out_string(o, "graph_hash", hash);
}
