/* ONNX import, its inside: what its files share.  An ONNX value becomes a constant or an
 * output of a node of the graph that is built; nodes whose inputs are all constants are
 * computed here and leave nothing in the graph.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_IMPORTING_H
#define FF_IMPORT_IMPORTING_H

#include "base/names.h"
#include "ff/builder.h"
#include "ff/import_options.h"
#include "onnx.pb-c.h"

#define FF_IMPORT_RANK 8
#define FF_ONNX_NO_AXIS 255
#define FF_CONSTANT_MOST (INT64_C(1) << 40) /* elements */

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
	/* An initializer that they are, moved (NULL: not known of one), and by element which of it:
	 * NULL where `weight` says it. */
	const struct ff_constant *root;
	const int64_t *places;
};

/* APART: no value of the graph, but known to the few operators that take it: parts of a sequence, a
 * condition that is computed, what is drawn at random. */
enum ff_onnx_kind { FF_ONNX_NOTHING, FF_ONNX_CONSTANT, FF_ONNX_NODE, FF_ONNX_APART };
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
	uint8_t group[FF_MAX_RANK]; /* by axis of the node: of which ONNX axis it is a part; of
				     * samples that share it FF_ONNX_NO_AXIS */
	uint8_t batch_at;           /* so many axes of their group stand before the samples */
	int32_t pad[2];             /* zeros around the image that its only reader takes along */
	double keep, by; /* APART, drawn: the share of ones, and what they were divided by; their
			  * shape is the constant's */
	bool flat;       /* it goes to what nothing is trained through */
	uint32_t uses;   /* by nodes that are imported, and as an output */
	const Onnx__NodeProto *maker;  /* NULL: an input or an initializer */
	const Onnx__NodeProto *reader; /* one of those that use it */
};

struct ff_import;

/* A parameter of the graph and what it begins with. */
struct ff_claim {
	const char *name;
	const char *node; /* that keeps it beside its parameters; NULL: it is one */
	struct ff_constant value;
};

/* What each ONNX operator becomes. */
struct ff_onnx_row {
	const char *op;
	int (*emit)(struct ff_import *im, const Onnx__NodeProto *n);
	bool arranged; /* takes values whose samples are somewhere else than at first */
};

struct ff_import {
	const struct ff_import_options *opt;
	struct ff_arena *arena, scratch;
	struct ff_builder *builder;
	struct ff_draft_node *draft; /* nodes, before they are the builder's */
	uint32_t n_drafts, cap_drafts;
	const Onnx__ModelProto *model;
	const Onnx__GraphProto *graph;
	int64_t opset;
	int64_t folded;         /* elements that were computed */
	int32_t samples;        /* of the first input; 0: there is none yet */
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

#endif
