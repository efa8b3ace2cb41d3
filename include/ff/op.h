/* Operators are data: one row each.  A row's derive() writes a node's shapes,
 * iteration space and access maps; everything generic (legal splits, regions,
 * redistribution, gradients, costs, memory) reads those.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_OP_H
#define FF_OP_H

#include <stddef.h>
#include <stdint.h>

#include "ff/attrs.h"
#include "ff/error.h"
#include "ff/ops.h"
#include "ff/reduce.h"
#include "ff/region.h"

enum ff_op {
#define FF_OP_ENUM(e, row) e,
	FF_OPS(FF_OP_ENUM)
#undef FF_OP_ENUM
			FF_OP_COUNT
};

/* The dimension labels of SOAP, and the reduction. */
enum ff_label {
	FF_DIM_SAMPLE = 'S',
	FF_DIM_ATTRIBUTE = 'A',
	FF_DIM_PARAMETER = 'P',
	FF_DIM_REDUCTION = 'R'
};

/* One axis of an operator's iteration space. */
struct ff_dim {
	enum ff_label label;
	const char *name; /* unique in the node; the key of a strategy's "degrees" */
	int32_t extent;
	uint8_t placed; /* where a part lies along it changes its work: row->flops says how */
};

/* Which elements along one tensor axis the iteration box [lo, hi) touches:
 *   first = offset + sum_t floor(lo[dim_t] / div_t) * step_t
 *   end   = offset + sum_t floor((hi[dim_t] - 1) / div_t) * step_t + window
 * clamped to the axis.  Where `over` is not 0 those sums, and `from` for the first, `to` for the
 * last, are divided by it, rounded down: elements that lie between others.  A plain axis has one
 * term with div = step = window = 1; an axis that is always whole has no term, offset 0 and window
 * = its size.  `only`: of the box's own elements the first or the last stands for all. */
struct ff_term {
	int32_t dim, div, step;
};
enum ff_only { FF_ONLY_NONE, FF_ONLY_FIRST, FF_ONLY_LAST };
struct ff_axis_map {
	uint32_t n_terms;
	struct ff_term term[2];
	int32_t offset, window;
	int32_t from, to, over;
	int32_t only; /* enum ff_only */
};

/* One tensor as one node sees it. */
struct ff_operand {
	enum ff_dtype dtype;
	uint32_t rank;
	int32_t shape[FF_MAX_RANK];
	struct ff_axis_map axis[FF_MAX_RANK];
	uint8_t order[FF_MAX_RANK]; /* in memory */
	uint8_t gradient;      /* enum ff_dtype of its gradient: its own, of a parameter float32 */
	uint8_t lead_only;     /* used only by parts whose R coordinates are all 0 (a bias) */
	uint8_t backward_only; /* of an input: forward does not look at it */
	uint8_t reduce;        /* enum ff_reduce; of an output: what makes its elements of what
				* parts cut along R write */
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

/* A sum of the terms of a map that has `over`: the element that it stands for. */
static inline int64_t ff_axis_over(const struct ff_axis_map *m, int64_t sum)
{
	return m->offset + (sum >= 0 ? sum / m->over : -((m->over - 1 - sum) / m->over));
}
/* Positions of one axis that an iteration box [lo, hi) touches (clamped). */
void ff_axis_interval(const struct ff_axis_map *m, int32_t extent, const int32_t *lo,
		const int32_t *hi, int32_t *first, int32_t *end);

#endif
