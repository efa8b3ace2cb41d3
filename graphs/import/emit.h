/* Nodes of the graph that is built.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_EMIT_H
#define FF_IMPORT_EMIT_H

#include "importing.h"

struct ff_emit {
	enum ff_op op;
	const char *name; /* NULL: after the ONNX node */
	const union ff_attrs *attrs;
	struct ff_onnx_value in[FF_MAX_INPUTS];
	uint32_t n_in;
	const char *params[FF_MAX_PARAMS];
};
/* An input of the data set, under a name like `name`. */
int ff_emit_input(
		struct ff_import *im, const char *name, const union ff_attrs *attrs, uint32_t *ret);
/* Adds it; its outputs as values of the graph.  `out` may be NULL. */
int ff_emit(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_emit *e,
		struct ff_onnx_value *out, uint32_t n_out);
/* The same; output 0 is output 0 of `n`. */
int ff_emit_as(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_emit *e);
/* `in` under another shape, if it is another one. */
int ff_emit_reshape(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		uint32_t rank, const int32_t *shape, struct ff_onnx_value *ret);
/* A parameter that begins with `c`, transposed if `swap`; its name. */
int ff_emit_param(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *c,
		bool swap, const char **ret);
/* The parameter that `c` (transposed if `swap`) is with rows for columns, where others read it so
 * and nobody as it is; else NULL. */
int ff_emit_find_swapped(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *c, bool swap, const char **ret);
/* What an operator keeps beside its parameters begins with `c`: NODE.`what`. */
int ff_emit_kept(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *node,
		const char *what, const struct ff_constant *c);
/* "layer1.0.conv1" of "layer1.0.conv1.weight"; NULL where the name does not end so. */
const char *ff_emit_owner(struct ff_import *im, const char *weight);

#endif
