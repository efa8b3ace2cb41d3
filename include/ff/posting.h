/* Operands of the work that is posted on a device's streams (ff/backend.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_POSTING_H
#define FF_POSTING_H

#include "ff/capture.h"
#include "ff/work.h"

/* Pointers into device memory.  Shards are dense, in the axis order of their value; empty regions
 * have NULL. Forward reads `in` and writes `out`, saved values included.  Backward reads
 * parameters, saved values, `dout`, and inputs or outputs as the row's flags say; it writes the
 * `din` that are needed. Outputs are overwritten, never accumulated. */
struct ff_kernel_io {
	const void *in[FF_MAX_INPUTS]; /* data, then parameters */
	void *out[FF_MAX_OUTPUTS];
	const void *dout[FF_MAX_OUTPUTS];
	void *din[FF_MAX_INPUTS];
	/* A prelude that adds its gradient to din[0] (ff/kernel_slots.h) reads its node's share of
	 * it here; other preludes read it at din[0]. */
	const void *left;
	/* Sparse gradient of a table: NULL, or the list of its nonzero rows, of ff_sparse_room
	 * entries, all 0 before the first step.  Backward clears the old rows and makes the list
	 * and its rows anew.  Rows count from 1, each is listed once; 0 is an empty entry. */
	int32_t *rows;
	void *workspace;     /* aligned to FF_WORKSPACE_ALIGN */
	uint64_t seed, step; /* dropout: Philox(seed), stream of (node, step) */
	uint32_t micro;      /* number of the micro-batch in the step */
	bool training;       /* false: dropout passes its input */
	uint32_t loss;       /* losses: its number among the graph's */
	int64_t valid;       /* losses: labels of the global batch that are not ignored, or number
			      * of targets; the loss is the mean over them, whatever its part */
	const struct ff_figures *figures; /* captured: holds step and valid; else NULL */
	float *rank; /* losses of classes: NULL, or receives for each label of the part how many
		      * classes have a larger logit; for an ignored label the number of classes */
};

/* Copies `region` from a dense shard of `source_region` to a dense shard of `sink_region`, with
 * axes in `order`. A packed side is a dense shard of `region` itself. */
struct ff_copy {
	const void *source;
	void *sink;
	const uint8_t *order;
	struct ff_region source_region, sink_region, region;
	enum ff_dtype type;
	bool add; /* sink = sink `reduce` source, defined for the type; else sink = source */
	enum ff_reduce reduce;
};

/* A step's update of `n` elements (union ff_factors).  With `rows` only the listed rows (struct
 * ff_kernel_io) are updated, at most `n_rows` of `features` elements each. */
struct ff_update {
	const struct ff_optimizer *optimizer;
	union ff_factors factors;
	float *weight;
	const float *gradient;
	float *state[FF_MAX_STATES]; /* as many as the optimizer has */
	uint16_t *rounded;           /* NULL, or receives the weights rounded to bfloat16 */
	const int32_t *rows;         /* NULL: all elements */
	int64_t n_rows, features;
	size_t n;
	uint32_t group;                   /* of parameters */
	uint32_t times;                   /* factor of the gradients; 0: none */
	const struct ff_figures *figures; /* captured: holds the group's factors; else NULL */
	/* Clipping: NULL, or the sum of squares of all gradients, which are scaled to norm `clip`
	 * if their norm is larger. */
	const float *squares;
	float clip;
};

/* Adds the squares of `n` gradients to *sum; the `first` overwrites it. */
struct ff_squares {
	const float *gradient;
	size_t n;
	float *sum;
	void *scratch; /* FF_NORM_SCRATCH bytes, multiple of 64 */
	bool first;
};

/* `n` elements, a multiple of FF_CODEC_STEP.  Encoding: `message` becomes the closest code of
 * `values` (NULL: zeros) plus `residual`, and `residual` the error.  Decoding: `values` become
 * those of `message`, or with `add` these are added. */
struct ff_coding {
	const struct ff_codec *codec;
	float *values, *residual;
	void *message; /* multiple of 4 */
	int64_t n;
	bool add;
};

#endif
