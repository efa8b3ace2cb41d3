/* ONNX import, its inside: what its files share.  An ONNX value becomes a constant or an
 * output of a node of the graph that is built; nodes whose inputs are all constants are
 * computed here and leave nothing in the graph.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_IMPORT_H
#define FF_IMPORT_IMPORT_H

#include "base/names.h"
#include "ff/builder.h"
#include "ff/import.h"
#include "onnx.pb-c.h"

#define FF_IMPORT_RANK 8

/* Numbers that are known.  Whole ones are int64 whatever the file has; booleans too. */
struct ff_constant {
	bool whole;
	uint32_t rank;
	int64_t shape[FF_IMPORT_RANK];
	int64_t n;          /* elements */
	int64_t *i;         /* whole */
	float *f;           /* real */
	const char *weight; /* the initializer that these are the elements of, in its own order or
			     * with its two axes swapped; or NULL */
	bool swapped;
	bool trained; /* they come from initializers that are, wherever they were moved */
};

enum ff_onnx_kind { FF_ONNX_NOTHING, FF_ONNX_CONSTANT, FF_ONNX_NODE };
struct ff_onnx_value {
	enum ff_onnx_kind kind;
	const char *name;
	struct ff_constant constant; /* CONSTANT */
	uint32_t port;               /* NODE: of the builder */
	const char *node;            /* NODE: which it is an output of, where ff_emit made it */
	enum ff_dtype dtype;
	uint32_t rank;
	int32_t shape[FF_MAX_RANK];
	/* NODE whose samples are not axis 0 of the ONNX value, or share that axis with others: the
	 * node has them first, and behind them the rest as it stands (arrange.c). */
	bool arranged;
	uint8_t onnx_rank;
	uint8_t group[FF_MAX_RANK];    /* by axis of the node: of which ONNX axis it is a part */
	uint8_t batch_at;              /* so many axes of their group stand before the samples */
	int32_t pad[2];                /* zeros around the image that its only reader takes along */
	uint32_t uses;                 /* by nodes that are imported, and as an output */
	const Onnx__NodeProto *maker;  /* NULL: an input or an initializer */
	const Onnx__NodeProto *reader; /* one of those that use it */
};

/* A parameter of the graph and what it begins with. */
struct ff_claim {
	const char *name;
	struct ff_constant value;
};

struct ff_import {
	const struct ff_import_options *opt;
	struct ff_arena *arena, scratch;
	struct ff_builder *builder;
	const Onnx__ModelProto *model;
	const Onnx__GraphProto *graph;
	int64_t opset;
	struct ff_names *names; /* of values */
	struct ff_onnx_value *value;
	uint32_t n_values, cap_values;
	struct ff_names *taken; /* names of nodes and parameters */
	uint32_t n_claims, cap_claims;
	struct ff_claim *claim;
	struct ff_names *claims;
	struct ff_origins *origins;
	const struct ff_onnx_row *row; /* of the node at hand */
	bool *wanted;                  /* by node: something that is asked for depends on it */
	struct ff_error *err;
};

/* "model.onnx: node X (Conv): " and the sentence, as FF_E_INPUT. */
void ff_import_error(struct ff_import *im, const Onnx__NodeProto *n, const char *fmt, ...)
		__attribute__((format(printf, 3, 4)));
#define ff_import_fail(im, n, ...) (ff_import_error(im, n, __VA_ARGS__), ff_error_code(FF_E_INPUT))

/* model.c: the file and what it has. */
int ff_onnx_load(struct ff_import *im, Onnx__ModelProto **ret);
void ff_onnx_free(Onnx__ModelProto *m);
/* That nothing is written over files in which it keeps tensors. */
int ff_onnx_spare(struct ff_import *im);
/* Elements of a tensor of the file, which may lie in another one. */
int ff_onnx_tensor(struct ff_import *im, const Onnx__TensorProto *t, struct ff_constant *ret);

/* values.c */
/* The value called `name`, made when it is new; NULL without memory. */
struct ff_onnx_value *ff_onnx_value(struct ff_import *im, const char *name);
/* Input `i` of a node; NULL where it is left out. */
struct ff_onnx_value *ff_onnx_in(struct ff_import *im, const Onnx__NodeProto *n, size_t i);
/* The same as a value of the graph that is built, or a sentence that says which is not. */
int ff_onnx_in_node(struct ff_import *im, const Onnx__NodeProto *n, size_t i,
		struct ff_onnx_value **ret);
/* The same as numbers that are known. */
int ff_onnx_in_constant(struct ff_import *im, const Onnx__NodeProto *n, size_t i,
		const struct ff_constant **ret);
/* Attributes; what is absent is `preset`, or nothing. */
const Onnx__AttributeProto *ff_onnx_attr(const Onnx__NodeProto *n, const char *name);
int64_t ff_onnx_int(const Onnx__NodeProto *n, const char *name, int64_t preset);
float ff_onnx_real(const Onnx__NodeProto *n, const char *name, float preset);
/* Whether it is there and is `text`. */
bool ff_onnx_is(const Onnx__NodeProto *n, const char *name, const char *text);
/* Axes may count from the end: 0 <= *ret < rank. */
int ff_onnx_axis(struct ff_import *im, const Onnx__NodeProto *n, int64_t axis, uint32_t rank,
		uint32_t *ret);
/* Output `i` of `n` is this. */
int ff_onnx_set_constant(struct ff_import *im, const Onnx__NodeProto *n, size_t i,
		const struct ff_constant *c);
int ff_onnx_set_same(struct ff_import *im, const Onnx__NodeProto *n, size_t i,
		const struct ff_onnx_value *same);
/* Room for the elements of a constant. */
int ff_constant_alloc(struct ff_import *im, struct ff_constant *c);

/* arrange.c: values whose samples are somewhere else than at first.  The shape that the model
 * knows; its axes. */
uint32_t ff_onnx_shape(const struct ff_onnx_value *v, int64_t shape[FF_IMPORT_RANK]);
bool ff_onnx_same_arrangement(const struct ff_onnx_value *a, const struct ff_onnx_value *b);
/* The node's axis that is ONNX axis `axis` of `v`. */
int ff_onnx_axis_of(struct ff_import *im, const Onnx__NodeProto *n, int64_t axis,
		const struct ff_onnx_value *v, uint32_t *ret);
/* Axis i of the output is axis perm[i] of `v`; the same elements under another shape. */
int ff_onnx_turn(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		const uint32_t *perm, struct ff_onnx_value *ret);
int ff_onnx_regroup(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		uint32_t rank, const int64_t *shape, struct ff_onnx_value *ret);
/* The shape of a constant that broadcasts to `v`, by the node's axes, that of the samples 1. */
int ff_onnx_fit(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *c,
		const struct ff_onnx_value *v, struct ff_constant *ret);

/* emit.c: nodes of the graph that is built. */
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
/* What an operator keeps beside its parameters begins with `c`: NODE.`what`. */
int ff_emit_kept(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *node,
		const char *what, const struct ff_constant *c);
/* "layer1.0.conv1" of "layer1.0.conv1.weight"; NULL where the name does not end so. */
const char *ff_emit_owner(struct ff_import *im, const char *weight);

/* fold.c: a node whose inputs are known is computed.  *done says whether it was. */
int ff_fold(struct ff_import *im, const Onnx__NodeProto *n, bool *done);
/* Whether it could be, if they were. */
bool ff_fold_has(const char *op);

/* arrange.c: all inputs in one node. */
int ff_onnx_many(struct ff_import *im, const Onnx__NodeProto *n, enum ff_op op,
		const union ff_attrs *attrs);
/* values.c: axes are an attribute at first and an input since opset 13 (of some 18); none:
 * *any is false. */
int ff_onnx_axes(struct ff_import *im, const Onnx__NodeProto *n, uint32_t rank,
		bool marked[FF_MAX_RANK + 1], bool *any);

/* rows.c: what each ONNX operator becomes. */
struct ff_onnx_row {
	const char *op;
	int (*emit)(struct ff_import *im, const Onnx__NodeProto *n);
	bool arranged; /* takes values whose samples are somewhere else than at first */
};
const struct ff_onnx_row *ff_onnx_row(const char *op);

#endif
