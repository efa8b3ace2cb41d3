/* What a device's streams are given to do (ff/backend.h), and where its operands are.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_POSTING_H
#define FF_POSTING_H

#include "ff/capture.h"
#include "ff/work.h"

/* Pointers into device memory; shards are dense, in the order of their value.  A
 * forward pass reads in and writes out (what is saved too); a backward pass reads
 * what the row's flags say, parameters, what was saved and dout, and writes din
 * (where wanted).  Empty regions have NULL.  Outputs are overwritten, never
 * accumulated. */
struct ff_kernel_io {
	const void *in[FF_MAX_INPUTS]; /* data, then parameters */
	void *out[FF_MAX_OUTPUTS];
	const void *dout[FF_MAX_OUTPUTS];
	void *din[FF_MAX_INPUTS];
	/* Of a prelude that adds its gradient to din[0] (ff/kernel_slots.h): what its node has left
	 * of it, which otherwise is at din[0]. */
	const void *left;
	/* NULL, or room for the numbers of rows (ff_sparse_room), 0 before the first step, of the
	 * table whose gradient is sparse: that holds zeros but for the rows in the list, and
	 * backward makes both anew.  Rows are counted from 1, each is listed once; 0 is none. */
	int32_t *rows;
	void *workspace;     /* begins where memory of alloc's does, or as aligned */
	uint64_t seed, step; /* dropout: Philox(seed), stream of (node, step) */
	uint32_t micro;      /* micro-batch: how many batches of the graph's size lie before */
	bool training;       /* false: dropout passes its input */
	uint32_t loss;       /* a loss: its number among the graph's */
	int64_t valid;       /* a loss: labels of the global batch that are not ignored, or targets
			      * that are numbers: it is the mean over them, whatever part of them
			      * it sees */
	const struct ff_figures *figures; /* NULL, or where step and valid are, captured */
	float *rank; /* a loss of classes: NULL, or gets, by label of its part in their order, how
		      * many of its classes have a larger logit than the label; of one that is
		      * ignored, that of all classes */
};

/* `region` from a dense shard of `source_region` to one of `sink_region`
 * (axes in `order`).  A packed side is a dense shard of `region` itself. */
struct ff_copy {
	const void *source;
	void *sink;
	const uint8_t *order;
	struct ff_region source_region, sink_region, region;
	enum ff_dtype type;
	bool add; /* sink = sink `reduce` source, which takes the type; else sink = source */
	enum ff_reduce reduce;
};

/* A step's update of `n` elements, as union ff_factors has it.  With `rows`, of `features` elements
 * each, of those alone that are listed (struct ff_kernel_io), `n_rows` at most. */
struct ff_update {
	const struct ff_optimizer *optimizer;
	union ff_factors factors;
	float *weight;
	const float *gradient;
	float *state[FF_MAX_STATES]; /* as many as the optimizer has */
	uint16_t *rounded;           /* NULL, or gets the weights rounded to bfloat16 */
	const int32_t *rows;         /* NULL: of all */
	int64_t n_rows, features;
	size_t n;
	uint32_t group;                   /* of parameters */
	uint32_t times;                   /* what gradients are multiplied by; 0: nothing */
	const struct ff_figures *figures; /* NULL, or where the group's factors are, captured */
	/* NULL, or where the sum of the squares of all gradients is, which are multiplied by what
	 * makes its root `clip`, if it is larger. */
	const float *squares;
	float clip;
};

/* Adds the squares of `n` gradients to *sum, or, as the `first`, begins it with them. */
struct ff_squares {
	const float *gradient;
	size_t n;
	float *sum;
	void *scratch; /* FF_NORM_SCRATCH bytes, multiple of 64 */
	bool first;
};

/* Of `n` elements, a multiple of FF_CODEC_STEP.  Encoding: `message` gets what `values` (NULL:
 * zeros) and `residual` together are closest to, `residual` the rest.  Decoding: `values` become
 * what `message` says, or (`add`) it is added to them. */
struct ff_coding {
	const struct ff_codec *codec;
	float *values, *residual;
	void *message; /* multiple of 4 */
	int64_t n;
	bool add;
};

#endif
