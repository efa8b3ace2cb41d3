/* Work: one part of one operator in one direction.  A kernel computes it; the cost database prices
 * it. SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_WORK_H
#define FF_WORK_H

#include "ff/graph.h"

#define FF_KEY_BYTES 1024

enum ff_pass { FF_FORWARD, FF_BACKWARD };
/* The gradients that a backward computes.  Operators with FF_OP_HALVES can compute those of
 * parameters later (Qi et al., ICLR 2024). */
enum ff_grads { FF_GRADS_ALL, FF_GRADS_DATA, FF_GRADS_PARAMS };
/* Whether it computes the gradients of parameters (`params`) or of data. */
static inline bool ff_grads_make(enum ff_grads grads, bool params)
{
	return grads == FF_GRADS_ALL || (grads == FF_GRADS_PARAMS) == params;
}
/* Whether it reads the values of parameters (`params`) or of data. */
static inline bool ff_grads_read(enum ff_grads grads, bool params)
{
	return grads == FF_GRADS_ALL || (grads == FF_GRADS_PARAMS) != params;
}

struct ff_work {
	const struct ff_graph *graph;
	const struct ff_node *node;
	enum ff_pass pass;
	enum ff_grads grads;                  /* backward */
	struct ff_region box;                 /* in iteration space */
	struct ff_region out[FF_MAX_OUTPUTS]; /* of each output, carried and saved ones included */
	struct ff_region in[FF_MAX_INPUTS];   /* of each input, data and parameters; may be empty */
	bool need_din[FF_MAX_INPUTS];         /* backward: it computes the gradient of that input */
};

/* The work of the part `box` of `node`'s iteration space. */
void ff_work_fill(const struct ff_graph *g, uint32_t node, const struct ff_region *box,
		enum ff_pass pass, struct ff_work *ret);

/* Restricts a backward to the gradients `grads`. */
void ff_work_keep(struct ff_work *w, enum ff_grads grads);

/* The type that it computes in: bfloat16 if its first input is, else its first output's. */
enum ff_dtype ff_work_type(const struct ff_work *w);
/* The cost key: operator, direction, attributes that change the kernel, shard shapes, type.  Works
 * with equal keys take equally long: sizes enter, positions do not.  Writes at most FF_KEY_BYTES,
 * the final NUL included. */
void ff_work_key(const struct ff_work *w, char key[FF_KEY_BYTES]);
/* A 64-bit hash of the key's facts, without making the text. */
uint64_t ff_work_hash(const struct ff_work *w);

/* The most rows that a part looks up in its table of `rows` rows, if its gradient is sparse; else
 * 0.  It is sparse if the part sees all samples, so that no other part adds to it, and looks up
 * fewer rows than there are. */
static inline int64_t ff_sparse_rows(const struct ff_node *n, bool all_samples, int64_t rows)
{
	return all_samples && n->sparse_rows < rows ? n->sparse_rows : 0;
}
int64_t ff_work_sparse_rows(const struct ff_work *w);
/* Bytes of the gradient of input `i` that backward reads or writes. */
int64_t ff_work_gradient_bytes(const struct ff_work *w, uint32_t i);

/* This part's FLOPs, and the bytes that it reads and writes. */
int64_t ff_work_flops(const struct ff_work *w);
int64_t ff_work_bytes(const struct ff_work *w);

#endif
