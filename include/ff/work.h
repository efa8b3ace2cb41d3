/* Work: one part of one operator, in one direction: what a kernel computes and
 * what the cost database prices.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_WORK_H
#define FF_WORK_H

#include "ff/graph.h"

#define FF_KEY_BYTES 1024

enum ff_pass { FF_FORWARD, FF_BACKWARD };
/* Which gradients backward makes: where the row says FF_OP_HALVES those of parameters may be made
 * apart, later (Qi et al., ICLR 2024). */
enum ff_grads { FF_GRADS_ALL, FF_GRADS_DATA, FF_GRADS_PARAMS };
/* Whether such a backward makes the gradients of parameters, or of data; whether it reads them. */
static inline bool ff_grads_make(enum ff_grads grads, bool params)
{
	return grads == FF_GRADS_ALL || (grads == FF_GRADS_PARAMS) == params;
}
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
	struct ff_region out[FF_MAX_OUTPUTS]; /* of each output and of what is saved */
	struct ff_region in[FF_MAX_INPUTS];   /* of each input, data and parameters; may be empty */
	bool need_din[FF_MAX_INPUTS];         /* backward: the gradient of that input is wanted */
};

/* Describes the part `box` of `node`'s iteration space. */
void ff_work_fill(const struct ff_graph *g, uint32_t node, const struct ff_region *box,
		enum ff_pass pass, struct ff_work *ret);

/* Of all gradients that its backward makes those of `grads`. */
void ff_work_keep(struct ff_work *w, enum ff_grads grads);

/* What it computes in: bfloat16 where it reads that first, else its first output's type. */
enum ff_dtype ff_work_type(const struct ff_work *w);
/* The cost key: operator, direction, the attributes that change the kernel,
 * shard shapes, the type it computes in.  Equal keys mean equal kernels: positions do
 * not enter, only sizes do.  Writes at most FF_KEY_BYTES with the final NUL. */
void ff_work_key(const struct ff_work *w, char key[FF_KEY_BYTES]);
/* 64-bit hash of what the key says, without making the text. */
uint64_t ff_work_hash(const struct ff_work *w);

/* How many rows of its table, which has `rows`, a part looks up at most, where the gradient is
 * sparse; else 0.  It is where the part sees all samples, so that nobody else adds to it, and reads
 * fewer rows than there are. */
static inline int64_t ff_sparse_rows(const struct ff_node *n, bool all_samples, int64_t rows)
{
	return all_samples && n->sparse_rows < rows ? n->sparse_rows : 0;
}
int64_t ff_work_sparse_rows(const struct ff_work *w);
/* Bytes of the gradient of input `i` that backward reads or writes. */
int64_t ff_work_gradient_bytes(const struct ff_work *w, uint32_t i);

/* Share of the node's FLOPs, and bytes read and written by this part. */
int64_t ff_work_flops(const struct ff_work *w);
int64_t ff_work_bytes(const struct ff_work *w);

#endif
