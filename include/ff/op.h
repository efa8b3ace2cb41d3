/* Operators are data: one row each.  A row's derive() writes a node's shapes,
 * iteration space and access maps; everything generic (legal splits, regions,
 * redistribution, gradients, costs, memory) reads those.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_OP_H
#define FF_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/attr_row.h"
#include "ff/attrs.h"
#include "ff/error.h"
#include "ff/operand.h"
#include "ff/ops.h"

enum ff_op {
#define FF_OP_ENUM(e, row) e,
	FF_OPS(FF_OP_ENUM)
#undef FF_OP_ENUM
			FF_OP_COUNT
};

struct ff_graph;
struct ff_node;
struct ff_derive;       /* graphs/operator/derive.h */
struct ff_work;         /* ff/work.h */
struct ff_kernel_shape; /* ff/kernel_shape.h */

enum ff_op_flags {
	FF_OP_SOURCE = 1,       /* reads the data set; has no config */
	FF_OP_LOSS = 2,         /* has no reader; each part writes its share of the mean loss and of
				 * the correct predictions */
	FF_OP_BACKWARD_IN = 4,  /* backward reads the inputs */
	FF_OP_BACKWARD_OUT = 8, /* backward reads the first output */
	/* A parameter: backward updates it.  Its readers create the node; no file names it. */
	FF_OP_UPDATE = 16,
	/* Reads as many elements of its parameters as it writes, and none in backward. */
	FF_OP_LOOKUP = 32,
	/* A prelude: runs before the node that creates it; no file names it.  Its parts are that
	 * node's, on the same devices; it has no config of its own. */
	FF_OP_PRELUDE = 64,
	FF_OP_CONSTANT = 128, /* no gradient passes through it */
	/* Backward can be split in two (enum ff_grads): data gradients need output gradients and
	 * parameters; parameter gradients need output gradients and data. */
	FF_OP_HALVES = 256,
};

/* What a loss predicts; it decides what accuracy means. */
enum ff_predicts {
	FF_PREDICTS_NUMBERS, /* there is no accuracy */
	FF_PREDICTS_BITS,    /* 0 or 1 */
	FF_PREDICTS_CLASSES, /* one of several */
};

/* How many values and parameters a node has, besides the inputs that it names. */
struct ff_op_counts {
	uint32_t out, saved, params;
	uint32_t kept;    /* ff_node.n_kept */
	uint32_t carried; /* ff_node.n_carried */
};
#define FF_MAX_KEPT 2
#define FF_MAX_CARRIED 2
#define FF_MAX_PARAMS 2

struct ff_op_row {
	const char *name;    /* in JSON */
	const char *summary; /* one line for help and docs */
	uint32_t min_in, max_in;
	uint32_t flags;
	uint32_t axes; /* spatial axes of its windows: the numbers of an FF_ATTR_AXES */
	const struct ff_attr_row *attrs;
	uint32_t n_attrs;
	const char *param[FF_MAX_PARAMS]; /* names of its parameters: "weight", "bias" */
	const char *kept[FF_MAX_KEPT];    /* and of its state: "running_mean", "running_var" */
	bool normalises;                  /* its parameters are a norm's scale and shift */
	uint8_t predicts;                 /* a loss: enum ff_predicts */
	/* The suffix of its prelude's name; NULL: it has none.  A prelude reads the same data with
	 * the same dims and maps.  It computes what the parts of a split must exchange before each
	 * can go on, such as statistics of a batch; the node reads that in its last data slots
	 * (docs/schedule.md). */
	const char *prelude_name;
	enum ff_op prelude;
	/* NULL: one output, nothing saved, every parameter that `param` names. */
	void (*count)(const union ff_attrs *attrs, struct ff_op_counts *ret);
	/* Fills the node's values, dims, operands and FLOPs from its attributes
	 * and input shapes. */
	int (*derive)(struct ff_derive *d, struct ff_error *err);
	/* A part's FLOPs, which then are in its cost key; NULL: its share of the iteration space.
	 */
	int64_t (*flops)(const struct ff_work *w);
	/* What device models price: the kernels of a part; NULL: one of kernel_class, with the
	 * bytes of ff_work_bytes. */
	uint8_t kernel_class; /* enum ff_kernel_class */
	uint32_t (*kernels)(const struct ff_work *w, struct ff_kernel_shape *ret);
	const char *example; /* operator/example.h; NULL: inputs of shape [4, 8, 6, 6] */
};

extern const struct ff_op_row *const ff_op_rows[FF_OP_COUNT];
static inline const struct ff_op_row *ff_op_row(enum ff_op op)
{
	return ff_op_rows[op];
}
/* By JSON name; NULL when unknown. */
const struct ff_op_row *ff_op_find(const char *name, enum ff_op *ret);

/* How many int32 an attribute takes in a cost key: two for a real number, none for a list. */
uint32_t ff_attr_ints(const struct ff_attr_row *r);

/* The presets of the operator's row, which the caller may change. */
union ff_attrs ff_attrs_preset(enum ff_op op);

void ff_op_count(enum ff_op op, const union ff_attrs *attrs, struct ff_op_counts *ret);

#endif
