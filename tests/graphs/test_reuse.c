/* What goes by between two uses, against a walk through a step.  SPDX-License-Identifier:
 * Apache-2.0 */
#include <stdlib.h>

#include "check_main.h"
#include "ff/backward.h"
#include "ff/reuse.h"
#include "ff/zoo.h"

struct world {
	struct ff_arena arena;
	struct ff_graph g;
	struct ff_reuse p;
	int64_t *touched; /* by value: the clock when a node last had it; -1: none did yet */
	int64_t clock;    /* bytes touched so far */
};

static void setup(struct world *w, const char *name, uint32_t n_devices)
{
	struct ff_error err = {0};

	ff_arena_init(&w->arena);
	ck_assert_msg(ff_zoo_build(name, 0, NULL, 0, &w->arena, &w->g, &err) == FF_OK, "%s",
			err.text);
	ck_assert_int_eq(ff_reuse_find(&w->g, n_devices, &w->arena, &w->p, NULL), FF_OK);
	w->touched = malloc(w->g.n_values * sizeof(*w->touched));
	ck_assert_ptr_nonnull(w->touched);
}

static void begin(struct world *w)
{
	w->clock = 0;
	for (uint32_t i = 0; i < w->g.n_values; i++)
		w->touched[i] = -1;
}

static void teardown(struct world *w)
{
	free(w->touched);
	ff_arena_finish(&w->arena);
}

/* On one device and in one micro-batch: values and gradients; weights twice, with gradients and
 * momentum. */
static int64_t node_bytes(const struct world *w, uint32_t node)
{
	const struct ff_graph *g = &w->g;
	const struct ff_node *n = &g->nodes[node];
	int64_t bytes = 0;

	for (uint32_t k = 0; k < n->n_out + n->n_in; k++) {
		uint32_t id = k < n->n_out ? n->out + k : g->edges[n->in + k - n->n_out].value;
		const struct ff_value *v = &g->values[id];
		int64_t size = ff_dtype_bytes(v->dtype);
		bool mine = v->kind == FF_VALUE_PARAMETER
					    ? k >= n->n_out &&
							      g->edges[g->uses[v->first_use]].node ==
									      node
					    : k < n->n_out;

		for (uint32_t d = 0; d < v->rank; d++)
			size *= v->shape[d];
		if (mine)
			bytes += (v->kind == FF_VALUE_PARAMETER ? 5 : 2) * size;
	}
	return bytes;
}

static void near_enough(int64_t rounded, int64_t bytes)
{
	if (bytes <= FF_REUSE_NEAR)
		ck_assert_int_eq(rounded, FF_REUSE_NEAR);
	else
		ck_assert_msg((double)rounded > 0.69 * (double)bytes &&
						(double)rounded < 1.45 * (double)bytes,
				"%lld for %lld", (long long)rounded, (long long)bytes);
}

static void check_value(const struct world *w, uint32_t node, enum ff_pass pass, uint32_t value)
{
	int64_t bytes = ff_reuse_value(&w->p, 1, node, pass, value);

	if (w->touched[value] < 0)
		ck_assert_int_eq(bytes, ff_reuse_node(&w->p, 1, node, pass));
	else
		ck_assert_int_le(llabs(bytes - (w->clock - w->touched[value])), 1);
}

/* Forward half of what a node touches is its own: the clock counts halves. */
static void walk_forward(struct world *w)
{
	int64_t bytes = 0;

	begin(w);
	for (uint32_t i = 0; i < w->g.n_nodes; i++) {
		const struct ff_node *n = &w->g.nodes[i];

		near_enough(ff_reuse_node(&w->p, 1, i, FF_FORWARD), bytes);
		for (uint32_t k = 0; k < n->n_data; k++)
			check_value(w, i, FF_FORWARD, w->g.edges[n->in + k].value);
		bytes += node_bytes(w, i);
		w->clock = bytes / 2;
		for (uint32_t k = 0; k < n->n_data; k++)
			w->touched[w->g.edges[n->in + k].value] = w->clock;
		for (uint32_t k = 0; k < n->n_out; k++)
			w->touched[n->out + k] = w->clock;
	}
}

static void walk_backward(struct world *w)
{
	begin(w);
	for (uint32_t i = w->g.n_nodes; i-- > 0;) {
		const struct ff_node *n = &w->g.nodes[i];
		bool reads = ff_node_needs_grad(&w->g, i) &&
			     ff_op_row(n->op)->flags & FF_OP_BACKWARD_IN;

		near_enough(ff_reuse_node(&w->p, 1, i, FF_BACKWARD), w->clock);
		for (uint32_t k = 0; k < n->n_data; k++)
			check_value(w, i, FF_BACKWARD, w->g.edges[n->in + k].value);
		if (ff_node_is_computed(&w->g, i))
			check_value(w, i, FF_BACKWARD, n->out);
		w->clock += node_bytes(w, i);
		for (uint32_t k = 0; k < n->n_data && reads; k++)
			w->touched[w->g.edges[n->in + k].value] = w->clock;
	}
	near_enough(ff_reuse_bytes(&w->p, 1), w->clock);
}

START_TEST(as_a_walk_has_it)
{
	static const char *const names[] = {"alexnet", "resnet50", "inception_v3", "gpt2", "rnnlm"};
	struct world w;

	setup(&w, names[_i], 1);
	walk_forward(&w);
	walk_backward(&w);
	teardown(&w);
}
END_TEST

/* More devices and more micro-batches leave less, first and last nodes the least. */
START_TEST(less_on_more_devices)
{
	struct world one, four;
	uint32_t last;

	setup(&one, "resnet50", 1);
	setup(&four, "resnet50", 4);
	last = one.g.n_nodes - 1;
	for (uint32_t i = 0; i <= last; i++)
		for (int pass = 0; pass < 2; pass++) {
			int64_t here = ff_reuse_node(&one.p, 1, i, (enum ff_pass)pass);

			ck_assert_int_ge(here, ff_reuse_node(&four.p, 1, i, (enum ff_pass)pass));
			ck_assert_int_ge(here, ff_reuse_node(&one.p, 4, i, (enum ff_pass)pass));
		}
	ck_assert_int_eq(ff_reuse_node(&one.p, 1, 0, FF_FORWARD), FF_REUSE_NEAR);
	ck_assert_int_eq(ff_reuse_node(&one.p, 1, last, FF_BACKWARD), FF_REUSE_NEAR);
	ck_assert_int_lt(ff_reuse_bytes(&four.p, 1), ff_reuse_bytes(&one.p, 1));
	ck_assert_int_lt(ff_reuse_bytes(&one.p, 4), ff_reuse_bytes(&one.p, 1));
	teardown(&one);
	teardown(&four);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("reuse");
	TCase *t = tcase_create("reuse");

	tcase_add_loop_test(t, as_a_walk_has_it, 0, 5);
	tcase_add_test(t, less_on_more_devices);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
