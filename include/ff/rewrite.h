/* Graph substitutions: subgraphs are replaced by equivalent ones (Jia, Padon, Thomas, Warszawski,
 * Zaharia, Aiken, "TASO", SOSP 2019).  Parameters keep their names and initial values, as row
 * ranges of merged parameters. SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_REWRITE_H
#define FF_REWRITE_H

#include "ff/graph.h"

#define FF_MAX_MERGED 16 /* nodes that become one */

/* A parameter of the original graph: rows `first` .. first + n - 1 along axis 0 of a parameter of
 * the rewritten one. */
struct ff_parameter_piece {
	const char *name;
	uint32_t stream; /* random stream of its initial values: its node in the original graph */
	int32_t first, n;
};

/* What a rewritten graph keeps of the original one. */
struct ff_rewritten {
	uint32_t n;
	const char *const *text; /* "merge_products:NODE+NODE...", one a rewrite */
	/* By node: its random stream, which is its number in the original graph; the pieces of a
	 * merged parameter, none (0) of other nodes. */
	const uint32_t *stream, *n_pieces;
	const struct ff_parameter_piece *const *piece;
};

/* The random stream of `node`. */
static inline uint32_t ff_node_stream(const struct ff_graph *g, uint32_t node)
{
	return g->rewritten ? g->rewritten->stream[node] : node;
}
/* How many original parameters a parameter holds, at least one; and number `k` of them. */
uint32_t ff_parameter_pieces(const struct ff_graph *g, uint32_t node);
struct ff_parameter_piece ff_parameter_piece(const struct ff_graph *g, uint32_t node, uint32_t k);

/* A possible rewrite. */
struct ff_rewrite {
	const char *text;
	const char *first; /* its first node */
	uint32_t class;    /* equal rewrites (of equal layers) have the same: 0, 1, ... */
};

/* All possible rewrites of `g` that exclude no other, in the order of its nodes. */
int ff_rewrites_find(const struct ff_graph *g, struct ff_arena *a, struct ff_rewrite **ret,
		uint32_t *n, uint32_t *n_classes, struct ff_error *err);
/* Rewrites `g`, which must not be rewritten yet.  FF_E_INPUT names a rewrite that is not possible.
 */
int ff_graph_rewrite(const struct ff_graph *g, const char *const *text, uint32_t n,
		struct ff_arena *a, struct ff_graph *ret, struct ff_error *err);
/* Applies the rewrites whose first node fits one of the patterns (fnmatch; "all": all, "none":
 * none). FF_E_INPUT: one fits nothing. */
int ff_graph_rewrite_matching(const struct ff_graph *g, const char *const *pattern, uint32_t n,
		struct ff_arena *a, struct ff_graph *ret, struct ff_error *err);

#endif
