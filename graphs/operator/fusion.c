/* Fused kernels, as the CUDA backend has them.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/fusion.h"

#define ACCESS 16 /* bytes that rows must be a multiple of, for a library to read them fast */
#define MULTIPLE                                                                                   \
	8 /* of features, where cuBLASLt keeps what lies between (CUBLASLT_EPILOGUE_GELU_AUX) */

static const struct {
	enum ff_op op, next;
	int32_t form; /* of `next` */
	uint32_t ways;
} rows[] = {
		{FF_OP_LINEAR, FF_OP_RELU, 0, FF_FUSION_FORWARD},
		{FF_OP_CONV2D, FF_OP_RELU, 0, FF_FUSION_FORWARD},
		/* the approximation by tanh, which is all that cuBLASLt has */
		{FF_OP_LINEAR, FF_OP_GELU, 1,
				FF_FUSION_FORWARD | FF_FUSION_KEEPS | FF_FUSION_AHEAD},
		{FF_OP_BATCH_NORM, FF_OP_RELU, 0, FF_FUSION_FORWARD | FF_FUSION_BEHIND},
		{FF_OP_BATCH_NORM, FF_OP_CLIP, 0,
				FF_FUSION_FORWARD | FF_FUSION_KEEPS | FF_FUSION_BEHIND},
		{FF_OP_BATCH_NORM, FF_OP_ADD, 0, FF_FUSION_FORWARD | FF_FUSION_BEHIND},
		{FF_OP_ADD, FF_OP_RELU, 0, FF_FUSION_FORWARD | FF_FUSION_BEHIND},
		{FF_OP_LINEAR, FF_OP_TRANSPOSE, 0, FF_FUSION_FORWARD | FF_FUSION_BEHIND},
};

static bool is_row_major(const struct ff_operand *o)
{
	uint32_t i = 0;

	while (i < o->rank && o->order[i] == i)
		i++;
	return i == o->rank;
}

/* Whether a transposition puts the last axis behind the samples, and leaves the others as they
 * are: each sample is a matrix that is transposed. */
static bool swaps_matrices(const struct ff_node *n)
{
	const struct ff_transpose_attrs *a = &n->attrs.transpose;
	int32_t i = 2;

	while (i < a->rank && a->perm[i] == i - 1)
		i++;
	return a->rank > 2 && i == a->rank && is_row_major(&n->in_map[0]) &&
	       is_row_major(&n->out_map[0]);
}

/* Whether an operand lies as the output does, element by element. */
static bool lies_as(const struct ff_operand *a, const struct ff_operand *b)
{
	bool same = a->rank == b->rank && a->dtype == b->dtype && a->gradient == b->dtype;

	for (uint32_t i = 0; i < a->rank && same; i++)
		same = a->shape[i] == b->shape[i] && a->order[i] == b->order[i];
	return same;
}

/* Sums are of two that lie alike, transpositions of matrices. */
static bool is_plain(const struct ff_node *n)
{
	if (n->op == FF_OP_TRANSPOSE)
		return swaps_matrices(n);
	return n->op != FF_OP_ADD || (n->n_in == 2 && lies_as(&n->in_map[0], &n->out_map[0]) &&
						     lies_as(&n->in_map[1], &n->out_map[0]));
}

uint32_t ff_fusions(const struct ff_node *n, const struct ff_node *next)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].op == n->op && rows[i].next == next->op &&
				(next->op == FF_OP_TRANSPOSE ||
						rows[i].form == next->attrs.unary.form) &&
				is_plain(n) && is_plain(next))
			return rows[i].ways;
	return 0;
}

/* Whether what it reads can be kept. */
static bool is_kept(const struct ff_work *w)
{
	return w->node->op != FF_OP_GELU ||
	       ff_region_size(&w->in[0], w->in[0].rank - 1) % MULTIPLE == 0;
}

/* The last node that makes what `n` reads, which the others have been before, if it makes it for
 * that alone; or NULL. */
static const struct ff_node *maker_of(const struct ff_graph *g, const struct ff_node *n)
{
	uint32_t last = n->in;

	for (uint32_t edge = n->in; edge < n->in + n->n_in; edge++)
		if (ff_edge_source(g, edge) >= ff_edge_source(g, last))
			last = edge;
	return g->values[g->edges[last].value].n_uses == 1 &&
					       ff_node_is_computed(g, ff_edge_source(g, last))
			       ? &g->nodes[ff_edge_source(g, last)]
			       : NULL;
}

/* Its only reader, if it reads that first; or NULL. */
static const struct ff_node *reader_of(const struct ff_graph *g, const struct ff_node *n)
{
	const struct ff_value *v = &g->values[n->out];
	const struct ff_node *reader;
	uint32_t edge;

	if (v->n_uses != 1)
		return NULL;
	edge = ff_value_use(g, v, 0);
	reader = &g->nodes[g->edges[edge].node];
	return reader->in == edge ? reader : NULL;
}

/* Whether a library reads rows of what a transposition makes of `r` fast: otherwise it is not
 * asked. */
static bool has_fast_rows(const struct ff_region *r, enum ff_dtype type)
{
	int64_t bytes = ff_dtype_bytes(type);

	for (uint32_t i = 1; i + 1 < r->rank; i++)
		bytes *= ff_region_size(r, i);
	return bytes % ACCESS == 0;
}

bool ff_is_written_transposed(const struct ff_work *w)
{
	const struct ff_node *n = w->node, *reader;

	if (n->op != FF_OP_LINEAR)
		return false;
	reader = reader_of(w->graph, n);
	return reader && reader->op == FF_OP_TRANSPOSE && ff_fusions(n, reader) &&
	       has_fast_rows(&w->out[0], (enum ff_dtype)n->out_map[0].dtype);
}

/* How, and whether what lies between is kept, as it is read later. */
static bool is_fused(const struct ff_work *w, bool *keeps)
{
	const struct ff_graph *g = w->graph;
	const struct ff_node *n = w->node, *maker = maker_of(g, n), *reader = reader_of(g, n);
	uint32_t ways = maker ? ff_fusions(maker, n) : 0;

	if (w->pass == FF_FORWARD) {
		*keeps = maker && ((ff_op_row(maker->op)->flags & FF_OP_BACKWARD_OUT) ||
						  (ff_op_row(n->op)->flags & FF_OP_BACKWARD_IN));
		return ways & (*keeps ? FF_FUSION_KEEPS : FF_FUSION_FORWARD) &&
		       (!*keeps || is_kept(w)) &&
		       (n->op != FF_OP_TRANSPOSE ||
				       has_fast_rows(&w->in[0], (enum ff_dtype)n->in_map[0].dtype));
	}
	if (n->op == FF_OP_TRANSPOSE)
		return false; /* it is moved all the same */
	*keeps = ways & FF_FUSION_BEHIND && maker->n_prelude;
	return ways & FF_FUSION_BEHIND ||
	       (reader && ff_fusions(reader, n) & FF_FUSION_AHEAD && is_kept(w));
}

int64_t ff_fused_bytes(const struct ff_work *w)
{
	int64_t between = ff_region_volume(&w->in[0]) *
			  ff_dtype_bytes((enum ff_dtype)w->node->in_map[0].dtype);
	bool keeps;

	if (w->node->n_out != 1 || !is_fused(w, &keeps))
		return -1;
	return ff_work_bytes(w) - (keeps ? 1 : 2) * between; /* read, and written for that */
}
