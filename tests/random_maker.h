/* Random graphs, their inside: what is there to work on, and how it grows.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_RANDOM_MAKER_H
#define FF_TEST_RANDOM_MAKER_H

#include "ff/builder.h"
#include "ff/philox.h"

#define MAX_VALUES 64

/* A tensor that can be used further. */
struct value {
	uint32_t node;
	uint32_t rank;
	int32_t shape[FF_MAX_RANK];
	bool used;
};

/* An operator with parameters, whose like may share them. */
struct layer {
	enum ff_op op;
	const char *name, *param[FF_MAX_PARAMS];
	union ff_attrs attrs;
	struct value in;
};

struct maker {
	struct ff_random *r;
	struct ff_builder *b;
	struct ff_arena *a;
	uint32_t n, n_layers, names;
	bool batch_norms;   /* which no micro-batches go with, */
	int32_t norm_group; /* but those of so many samples at a time, if it is not 0 */
	struct value value[MAX_VALUES];
	struct layer layer[MAX_VALUES];
};

/* An operator whose output has `shape`; what it reads counts as used. */
struct value *random_add(struct maker *m, enum ff_op op, const union ff_attrs *attrs,
		const struct value *const *in, uint32_t n_in, const struct value *shape);
/* Something to work on, preferably what nobody reads yet. */
struct value *random_pick(struct maker *m);
/* Likewise; NULL where nothing has that rank. */
struct value *random_pick_rank(struct maker *m, uint32_t rank);

/* Some operator, of those below too; now and then none fits. */
void random_any(struct maker *m);

/* random_windows.c: convolutions and their like, on one to three axes. */
void random_conv(struct maker *m);
void random_conv_transpose(struct maker *m);
void random_pool(struct maker *m);
void random_resize(struct maker *m);
void random_response(struct maker *m);
/* How many windows fit, `pad` in all. */
int32_t random_window(int32_t size, int32_t kernel, int32_t stride, int32_t pad, int32_t dilation);

/* random_moves.c: operators that pad, broadcast and pick elements. */
void random_move(struct maker *m);
/* random_attention.c: attention over rows, if some are picked. */
void random_attention(struct maker *m);

/* random_sequences.c: recurrences. */
void random_sequence(struct maker *m);
/* What experts get of scores. */
void random_route(struct maker *m);

#endif
