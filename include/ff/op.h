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
	FF_OP_LOSS = 2,         /* ends a chain; its output is each part's share of the mean, and of
				 * those who are right */
	FF_OP_BACKWARD_IN = 4,  /* backward reads the inputs */
	FF_OP_BACKWARD_OUT = 8, /* backward reads the first output */
	/* A parameter: forward it is there, backward it is updated; made by those that
	 * read it, never written in a file. */
	FF_OP_UPDATE = 16,
	/* Of its parameters it reads as much as it writes, and nothing backward. */
	FF_OP_LOOKUP = 32,
	/* A prelude: made by the node it goes before, never written in a file.  Its parts
	 * are that node's, on the same devices, and have no config of their own. */
	FF_OP_PRELUDE = 64,
	FF_OP_CONSTANT = 128, /* backward takes its outputs as given: no gradient goes through */
	/* Backward may be computed in two (enum ff_grads): of data, from the gradients of outputs
	 * and the parameters; of parameters, from those and the data. */
	FF_OP_HALVES = 256,
};

/* What a loss compares with targets, and so what can be right or wrong. */
enum ff_predicts {
	FF_PREDICTS_NUMBERS, /* nothing is */
	FF_PREDICTS_BITS,    /* 0 or 1 */
	FF_PREDICTS_CLASSES, /* one of several */
};

/* What a node has beside the inputs it names. */
struct ff_op_counts {
	uint32_t out, saved, params;
	uint32_t kept;    /* the last of what is saved: there from step to step */
	uint32_t carried; /* from part to part (ff_node.n_carried) */
};
#define FF_MAX_KEPT 2
#define FF_MAX_CARRIED 2
#define FF_MAX_PARAMS 2

struct ff_op_row {
	const char *name;    /* in JSON */
	const char *summary; /* one line for help and docs */
	uint32_t min_in, max_in;
	uint32_t flags;
	uint32_t axes; /* numbers of an FF_ATTR_AXES: along how many axes its windows go */
	const struct ff_attr_row *attrs;
	uint32_t n_attrs;
	const char *param[FF_MAX_PARAMS]; /* names of its parameters: "weight", "bias" */
	const char *kept[FF_MAX_KEPT];    /* of what it keeps: "running_mean", "running_var" */
	bool normalises;                  /* its parameters are those of a norm */
	uint8_t predicts;                 /* a loss: enum ff_predicts */
	/* NULL, or what comes behind the node's name in that of its prelude: a node that is
	 * made beside it, reads the same data and has the same dims and maps of them.  Its
	 * outputs are read behind the data: results that the parts of one split exchange
	 * before each can go on (docs/schedule.md). */
	const char *prelude_name;
	enum ff_op prelude;
	/* NULL: one output, nothing saved, every parameter that `param` names. */
	void (*count)(const union ff_attrs *attrs, struct ff_op_counts *ret);
	/* Fills the node's values, dims, operands and FLOPs from its attributes
	 * and input shapes. */
	int (*derive)(struct ff_derive *d, struct ff_error *err);
	/* NULL: a part's FLOPs are its share of the iteration space.  Else those of a part,
	 * which are in its cost key. */
	int64_t (*flops)(const struct ff_work *w);
	/* What models of devices price: NULL: one kernel of that class, with the bytes of
	 * ff_work_bytes. */
	uint8_t kernel_class; /* enum ff_kernel_class */
	uint32_t (*kernels)(const struct ff_work *w, struct ff_kernel_shape *ret);
	const char *example; /* operator/example.h; NULL: as many of [4, 8, 6, 6] as it needs */
};

extern const struct ff_op_row *const ff_op_rows[FF_OP_COUNT];
static inline const struct ff_op_row *ff_op_row(enum ff_op op)
{
	return ff_op_rows[op];
}
/* By JSON name; NULL when unknown. */
const struct ff_op_row *ff_op_find(const char *name, enum ff_op *ret);

/* How many int32 an attribute that may be in a key takes, a real number two; of a list none. */
uint32_t ff_attr_ints(const struct ff_attr_row *r);

/* Presets of the operator's row, to be changed by the caller. */
union ff_attrs ff_attrs_preset(enum ff_op op);

void ff_op_count(enum ff_op op, const union ff_attrs *attrs, struct ff_op_counts *ret);

#endif
