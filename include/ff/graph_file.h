/* Operator graphs in files (docs/formats.md).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_GRAPH_FILE_H
#define FF_GRAPH_FILE_H

#include "ff/graph.h"
#include "ff/json.h"

#define FF_GRAPH_VERSION 2    /* of the file format */
#define FF_GRAPH_HASH_TEXT 17 /* a hash as text, and its end */

/* Parses and checks a graph.  Nodes may stand in any order in the file; they
 * are sorted (stable) so that inputs come first.  All memory comes from `a`,
 * which must outlive the graph.  On failure returns FF_E_INPUT or FF_E_NOMEM,
 * fills `err` and leaves `ret` untouched. */
int ff_graph_parse(const char *file, const char *text, size_t len, struct ff_arena *a,
		struct ff_graph *ret, struct ff_error *err);
int ff_graph_load(const char *path, struct ff_arena *a, struct ff_graph *ret, struct ff_error *err);

/* Files that are about a graph name it: its name and its hash. */
void ff_graph_write_reference(const struct ff_graph *g, struct ff_out *o);
/* `what` the file is, such as "strategy".  FF_E_INPUT: it is about another graph. */
int ff_graph_check_reference(const struct ff_json *root, const char *what, const struct ff_graph *g,
		struct ff_error *err);

/* Canonical JSON: what ff_graph_parse reads gives the same graph and hash. */
void ff_graph_write(const struct ff_graph *g, struct ff_out *o);

#endif
