/* Substitutions: parts of a graph by others that compute the same (Jia, Padon, Thomas,
 * Warszawski, Zaharia, Aiken, "TASO", SOSP 2019).  Parameters stay those of the graph before:
 * under their names and with their initial values, as ranges of what took their place.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_REWRITE_H
#define FF_REWRITE_H

#include "ff/graph.h"

#define FF_MAX_MERGED 16 /* nodes that become one */

/* A parameter of the graph before: rows `first` .. first + n - 1 of axis 0 of one that there is
 * now. */
struct ff_parameter_piece {
	const char *name;
	uint32_t stream; /* by which its initial values are drawn: its node in the graph before */
	int32_t first, n;
};

/* What a rewritten graph knows of the one before. */
struct ff_rewritten {
	uint32_t n;
	const char *const *text; /* "merge_products:NODE+NODE...", one a rewrite */
	/* By node: by what its random numbers are drawn, its number in the graph before; and of a
	 * parameter that holds several its pieces, of others n_pieces is 0. */
	const uint32_t *stream, *n_pieces;
	const struct ff_parameter_piece *const *piece;
};

/* The number by which random numbers of `node` are drawn. */
static inline uint32_t ff_node_stream(const struct ff_graph *g, uint32_t node)
{
	return g->rewritten ? g->rewritten->stream[node] : node;
}
/* Of how many parameters of the graph before a parameter is made, one where it is one of them;
 * and the k-th. */
uint32_t ff_parameter_pieces(const struct ff_graph *g, uint32_t node);
struct ff_parameter_piece ff_parameter_piece(const struct ff_graph *g, uint32_t node, uint32_t k);

/* A rewrite that can be done. */
struct ff_rewrite {
	const char *text;
	const char *first; /* its first node */
	uint32_t class;    /* equal rewrites (of equal layers) have the same: 0, 1, ... */
};

/* All that `g` has room for at once, in the order of its nodes. */
int ff_rewrites_find(const struct ff_graph *g, struct ff_arena *a, struct ff_rewrite **ret,
		uint32_t *n, uint32_t *n_classes, struct ff_error *err);
/* Rewrites `g`, which is as in its file.  FF_E_INPUT, with the rewrite's text: it cannot be. */
int ff_graph_rewrite(const struct ff_graph *g, const char *const *text, uint32_t n,
		struct ff_arena *a, struct ff_graph *ret, struct ff_error *err);
/* Applies the rewrites whose first node fits one of the patterns (fnmatch; "all": all, "none":
 * none). FF_E_INPUT: one fits nothing. */
int ff_graph_rewrite_matching(const struct ff_graph *g, const char *const *pattern, uint32_t n,
		struct ff_arena *a, struct ff_graph *ret, struct ff_error *err);

#endif
