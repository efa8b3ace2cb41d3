/* Memo: blocks with their prices, built once.  What an operator's degrees alone
 * decide (intervals, times, bytes) is kept by class of equal operators, what the
 * devices add, by class and config; redistributions by the classes and configs at
 * their ends.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_MEMO_H
#define FF_SIMULATOR_MEMO_H

#include "records.h"

int ff_memo_init(struct ff_memo *t, const struct ff_graph *g, const struct ff_machine *m,
		struct ff_pricer *p, const bool *first_use, struct ff_error *err);
void ff_memo_finish(struct ff_memo *t);
/* Forgets everything; pointers handed out die. */
void ff_memo_clear(struct ff_memo *t);

/* Blocks of many nodes are looked up in three turns, so that the host's memory is waited for
 * once and not each time: what each will be known by, where that may be, and at last it. */
struct ff_memo_wish {
	struct ff_memo_key key;
	uint64_t hash;
};
/* `c` has parts. */
void ff_memo_wish(const struct ff_memo *t, uint32_t node, const struct ff_config *c,
		struct ff_memo_wish *ret);
void ff_memo_fetch(const struct ff_memo *t, const struct ff_memo_wish *w);
/* `w` says the same as `node` and `c`. */
int ff_memo_find(struct ff_memo *t, uint32_t node, const struct ff_config *c,
		const struct ff_memo_wish *w, struct ff_memo_node **ret, struct ff_error *err);
/* All three. */
int ff_memo_node(struct ff_memo *t, uint32_t node, const struct ff_config *c,
		struct ff_memo_node **ret, struct ff_error *err);
/* `half_us` of `e`. */
int ff_memo_halves(struct ff_memo *t, uint32_t node, struct ff_memo_node *e, struct ff_error *err);
/* How long parts of backward take that makes `grads` and adds those of the inputs `added`; of
 * halves these must be known.  NULL: there is no memory. */
const struct ff_memo_adding *ff_memo_adding(struct ff_memo *t, const struct ff_memo_node *e,
		enum ff_grads grads, const struct ff_memo_inputs *added);

static inline uint64_t ff_memo_ends(const struct ff_memo_node *from, const struct ff_memo_node *to)
{
	return (uint64_t)(from ? from->id : FF_NONE) << 32 | to->id;
}
/* Of many edges: the first turns, as of nodes. */
void ff_memo_edge_wish(const struct ff_memo *t, uint32_t edge, uint64_t ends);
void ff_memo_edge_fetch(const struct ff_memo *t, uint32_t edge, uint64_t ends);
/* `from` is NULL for edges from the data set. */
int ff_memo_edge(struct ff_memo *t, uint32_t edge, const struct ff_memo_node *from,
		const struct ff_memo_node *to, struct ff_memo_edge **ret, struct ff_error *err);
/* What is moved in pass `pass` at `edge`, whose record is `e`, between those nodes. */
int ff_memo_build(struct ff_memo *t, uint32_t edge, enum ff_pass pass,
		const struct ff_memo_node *from, const struct ff_memo_node *to,
		struct ff_memo_edge *e, struct ff_error *err);
/* bytes.c: what that takes; it was built.  NULL: there is no memory. */
const struct ff_memo_buffers *ff_memo_buffers(struct ff_memo *t, uint32_t edge, enum ff_pass pass,
		const struct ff_memo_node *from, const struct ff_memo_node *to,
		struct ff_memo_edge *e);

/* ff_gradient_leaves at `edge`, between those nodes. */
bool ff_memo_leaves(struct ff_memo *t, uint32_t edge, const struct ff_memo_node *from,
		const struct ff_memo_node *to);

struct ff_bucket_build;
int ff_memo_bucket(struct ff_memo *t, const struct ff_bucket_build *k,
		const struct ff_memo_bucket **ret, struct ff_error *err);
/* Lanes, which are put in order, as runs of neighbours: `run` has room for as many; how many there
 * are. */
uint32_t ff_memo_join_lanes(uint32_t n, uint32_t *lane, struct ff_lanes *run);

#endif
