/* What several operators read alike is moved once, and so are their gradients (ff/sharing.h):
 * closed forms. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "check_main.h"
#include "ff/graph_file.h"
#include "ff/instance.h"
#include "ff/json.h"
#include "ff/philox.h"
#include "ff/program.h"
#include "ff/sharing.h"

/* Three layers that read one value, as queries, keys and values do, and two that share a weight. */
static const char three_readers[] =
		"{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"three\",\"nodes\":["
		"{\"name\":\"x\",\"op\":\"input\",\"shape\":[4,8]},"
		"{\"name\":\"y\",\"op\":\"input\",\"shape\":[4],\"dtype\":\"int32\",\"classes\":8},"
		"{\"name\":\"from\",\"op\":\"linear\",\"in\":[\"x\"],\"out_features\":8},"
		"{\"name\":\"a\",\"op\":\"linear\",\"in\":[\"from\"],\"out_features\":8},"
		"{\"name\":\"b\",\"op\":\"linear\",\"in\":[\"from\"],\"out_features\":8},"
		"{\"name\":\"c\",\"op\":\"linear\",\"in\":[\"from\"],\"out_features\":8},"
		"{\"name\":\"ab\",\"op\":\"add\",\"in\":[\"a\",\"b\"]},"
		"{\"name\":\"abc\",\"op\":\"add\",\"in\":[\"ab\",\"c\"]},"
		"{\"name\":\"tied\",\"op\":\"linear\",\"in\":[\"abc\"],\"out_features\":8,"
		"\"params\":{\"weight\":\"a.weight\"}},"
		"{\"name\":\"loss\",\"op\":\"softmax_cross_entropy\",\"in\":[\"tied\",\"y\"]}]}";

/* A module of Inception: what three convolutions of all channels and a pooling of some read. */
static const char module[] =
		"{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"module\",\"nodes\":["
		"{\"name\":\"x\",\"op\":\"input\",\"shape\":[2,3,8,8]},"
		"{\"name\":\"y\",\"op\":\"input\",\"shape\":[2],\"dtype\":\"int32\",\"classes\":8},"
		"{\"name\":\"from\",\"op\":\"conv2d\",\"in\":[\"x\"],\"out_channels\":8,\"kernel\":"
		"[1,1]},"
		"{\"name\":\"a\",\"op\":\"conv2d\",\"in\":[\"from\"],\"out_channels\":8,\"kernel\":"
		"[1,1]},"
		"{\"name\":\"b\",\"op\":\"conv2d\",\"in\":[\"from\"],\"out_channels\":8,\"kernel\":"
		"[3,3],"
		"\"pad\":[1,1]},"
		"{\"name\":\"c\",\"op\":\"conv2d\",\"in\":[\"from\"],\"out_channels\":8,\"kernel\":"
		"[5,5],"
		"\"pad\":[2,2]},"
		"{\"name\":\"pool\",\"op\":\"pool2d\",\"in\":[\"from\"],\"mode\":\"avg\","
		"\"kernel\":[3,3],"
		"\"stride\":[1,1],\"pad\":[1,1]},"
		"{\"name\":\"all\",\"op\":\"concat\",\"in\":[\"a\",\"b\",\"c\",\"pool\"],\"axis\":"
		"1},"
		"{\"name\":\"flat\",\"op\":\"reshape\",\"in\":[\"all\"],\"shape\":[0,-1]},"
		"{\"name\":\"out\",\"op\":\"linear\",\"in\":[\"flat\"],\"out_features\":8},"
		"{\"name\":\"loss\",\"op\":\"softmax_cross_entropy\",\"in\":[\"out\",\"y\"]}]}";

struct scene {
	struct ff_arena a;
	struct ff_graph g;
	struct ff_machine m;
	struct ff_strategy s;
	struct ff_schedule plan;
};

/* Cuts `node` in two along `dim`; on devices 0 and 1, or the other way round. */
static void cut(struct scene *x, const char *node, const char *dim, bool reversed)
{
	static const uint16_t other_way[] = {1, 0};
	uint32_t i = ff_graph_find(&x->g, node), d = 0;
	struct ff_config *c = &x->s.config[i];

	ck_assert_uint_ne(i, FF_NONE);
	while (strcmp(x->g.nodes[i].dim[d].name, dim) != 0)
		d++;
	*c = (struct ff_config){.n_parts = 2, .replicas = 1};
	for (uint32_t k = 0; k < FF_MAX_DIMS; k++)
		c->degree[k] = 1;
	c->degree[d] = 2;
	c->stride[d] = 1;
	c->list = reversed ? other_way : NULL;
}

static void lower(struct scene *x)
{
	struct ff_error err = {0};

	ck_assert_msg(ff_lower(&x->g, &x->m, &x->s, NULL, &x->a, &x->plan, &err) == FF_OK, "%s",
			err.text);
}

static void open_graph(struct scene *x, const char *text)
{
	struct ff_error err = {0};

	ff_arena_init(&x->a);
	ck_assert_msg(ff_graph_parse("graph", text, strlen(text), &x->a, &x->g, &err) == FF_OK,
			"%s", err.text);
	ck_assert_int_eq(ff_machine_load("cpu2", &x->a, &x->m, &err), FF_OK);
	ck_assert_int_eq(ff_strategy_single(&x->g, 0, &x->a, &x->s, &err), FF_OK);
}

/* Samples everywhere, but features of the three. */
static void open(struct scene *x)
{
	static const char *const by_sample[] = {"from", "ab", "abc", "tied", "loss"};

	open_graph(x, three_readers);
	for (size_t i = 0; i < sizeof(by_sample) / sizeof(*by_sample); i++)
		cut(x, by_sample[i], "sample", false);
	cut(x, "a", "out_feature", false);
	cut(x, "b", "out_feature", false);
	cut(x, "c", "out_feature", false);
}

/* Moves of what `from` writes (or what lies in parameter `from`): how many, and their bytes. */
static uint32_t moves_in(const struct scene *x, const char *from, enum ff_pass pass,
		bool recomputed, int64_t *bytes)
{
	uint32_t n = 0;

	*bytes = 0;
	for (uint32_t i = 0; i < x->plan.n_tasks; i++) {
		const struct ff_task *t = &x->plan.tasks[i];

		if (!ff_task_moves_edge(t) || ff_task_pass(t) != pass ||
				(t->phase == FF_PHASE_RECOMPUTE) != recomputed ||
				ff_edge_source(&x->g, t->edge) != ff_graph_find(&x->g, from))
			continue;
		*bytes += t->move->network_bytes;
		n++;
	}
	return n;
}

static uint32_t moves_of(const struct scene *x, const char *from, bool recomputed, int64_t *bytes)
{
	return moves_in(x, from, FF_FORWARD, recomputed, bytes);
}

/* The same of gradients. */
static uint32_t back_of(const struct scene *x, const char *from, int64_t *bytes)
{
	return moves_in(x, from, FF_BACKWARD, false, bytes);
}

/* Uses of what `from` writes whose gradients are added to another's. */
static uint32_t added_of(const struct scene *x, const char *from)
{
	const struct ff_value *v = &x->g.values[x->g.nodes[ff_graph_find(&x->g, from)].out];
	uint32_t n = 0;

	for (uint32_t u = 0; u < v->n_uses; u++)
		n += x->plan.added[ff_value_use(&x->g, v, u)] != FF_NONE;
	return n;
}

/* One all-gather of 4 x 8 float32 between two devices sends 128 bytes. */
START_TEST(readers_alike_share)
{
	struct scene x;
	int64_t bytes;

	open(&x);
	lower(&x);
	ck_assert_uint_eq(moves_of(&x, "from", false, &bytes), 1);
	ck_assert_int_eq(bytes, 128);
	cut(&x, "b", "out_feature",
			true); /* the same elements on the same devices, but other parts */
	lower(&x);
	ck_assert_uint_eq(moves_of(&x, "from", false, &bytes), 2);
	ck_assert_int_eq(bytes, 256);
	cut(&x, "b", "in_feature", false); /* an all-to-all of half as much */
	lower(&x);
	ck_assert_uint_eq(moves_of(&x, "from", false, &bytes), 2);
	ck_assert_int_eq(bytes, 128 + 64);
	cut(&x, "b", "sample", false); /* nothing is moved to it */
	lower(&x);
	ck_assert_uint_eq(moves_of(&x, "from", false, &bytes), 1);
	ck_assert_int_eq(bytes, 128);
	ff_arena_finish(&x.a);
}
END_TEST

/* The readers' memory is one, and whoever is issued first brings it. */
START_TEST(one_shard_for_all)
{
	struct scene x;
	uint32_t edge[2], n;

	open(&x);
	x.s.priority[ff_graph_find(&x.g, "c")] = 1;
	lower(&x);
	n = x.plan.n_instances;
	edge[0] = x.g.nodes[ff_graph_find(&x.g, "a")].in;
	edge[1] = x.g.nodes[ff_graph_find(&x.g, "c")].in;
	for (uint32_t p = 0; p < 2; p++) {
		ck_assert_uint_ne(x.plan.in[edge[0] * n][p], FF_NONE);
		ck_assert_uint_eq(x.plan.in[edge[0] * n][p], x.plan.in[edge[1] * n][p]);
	}
	for (uint32_t i = 0; i < x.plan.n_tasks; i++)
		if (ff_task_moves_edge(&x.plan.tasks[i]) &&
				ff_task_pass(&x.plan.tasks[i]) == FF_FORWARD &&
				ff_edge_source(&x.g, x.plan.tasks[i].edge) ==
						ff_graph_find(&x.g, "from"))
			ck_assert_uint_eq(x.plan.tasks[i].edge, edge[1]);
	ff_arena_finish(&x.a);
}
END_TEST

/* What is recomputed is moved again once; and what backward does not read, not. */
START_TEST(made_again)
{
	struct scene x;
	int64_t bytes;

	open(&x);
	x.s.recompute[ff_graph_find(&x.g, "from")] = true;
	lower(&x);
	ck_assert_uint_eq(moves_of(&x, "from", false, &bytes), 1);
	ck_assert_uint_eq(moves_of(&x, "from", true, &bytes), 1);
	ck_assert_int_eq(bytes, 128);
	ff_arena_finish(&x.a);
}
END_TEST

/* A weight that lies in parts and has two readers who want all of it is gathered once, unless it
 * is marked to go between them. */
START_TEST(tied_weights)
{
	struct scene x;
	int64_t bytes, all = 8 * 8 * 4;
	uint32_t weight;

	open(&x);
	weight = ff_graph_find(&x.g, "a.weight");
	cut(&x, "a", "sample", false);
	cut(&x, "a.weight", x.g.nodes[weight].dim[0].name, false);
	x.s.config[weight].n_parts = x.s.config[weight].degree[0] = 1; /* updated on the first */
	lower(&x);
	ck_assert_uint_eq(moves_of(&x, "a.weight", false, &bytes), 1);
	ck_assert_int_eq(bytes, all);
	x.s.recompute[weight] = true;
	lower(&x);
	ck_assert_uint_eq(moves_of(&x, "a.weight", false, &bytes), 2);
	ck_assert_uint_eq(moves_of(&x, "a.weight", true, &bytes), 2);
	ff_arena_finish(&x.a);
}
END_TEST

/* Each of the three has a partial sum of all of the gradient on both devices: a reduce-scatter of
 * 4 x 8 float32 sends 128 bytes, and there is one. */
START_TEST(gradients_are_added_first)
{
	struct scene x;
	int64_t bytes;

	open(&x);
	lower(&x);
	ck_assert_uint_eq(back_of(&x, "from", &bytes), 1);
	ck_assert_int_eq(bytes, 128);
	ck_assert_uint_eq(added_of(&x, "from"), 2);
	cut(&x, "b", "out_feature", true); /* other parts: for itself */
	lower(&x);
	ck_assert_uint_eq(back_of(&x, "from", &bytes), 2);
	ck_assert_int_eq(bytes, 256);
	ck_assert_uint_eq(added_of(&x, "from"), 1);
	ff_arena_finish(&x.a);
}
END_TEST

/* By samples nothing leaves a device: the gradient that is made first is that of `from`, and copies
 * add the others to it.  So it is where nothing is cut at all. */
START_TEST(what_stays_is_left_alone)
{
	static const char *const three[] = {"a", "b", "c"};
	struct scene x;
	int64_t bytes;

	open(&x);
	for (int i = 0; i < 3; i++)
		cut(&x, three[i], "sample", false);
	lower(&x);
	ck_assert_uint_eq(back_of(&x, "from", &bytes), 4);
	ck_assert_int_eq(bytes, 0);
	ck_assert_uint_eq(added_of(&x, "from"), 0);
	ck_assert_int_eq(ff_strategy_single(&x.g, 0, &x.a, &x.s, NULL), FF_OK);
	lower(&x);
	ck_assert_uint_eq(back_of(&x, "from", &bytes), 2);
	ck_assert_int_eq(bytes, 0);
	ck_assert_uint_eq(added_of(&x, "from"), 0);
	ff_arena_finish(&x.a);
}
END_TEST

/* Where all devices compute `from` nothing moves forward, but backward an all-reduce of 4 x 8
 * float32 sends 2 x 128 bytes, as in Megatron's transformers, once.  What backward comes to first
 * has the sum, what it comes to last sends it. */
START_TEST(replicated_values)
{
	struct scene x;
	uint32_t a, b;
	int64_t bytes;

	open(&x);
	cut(&x, "from", "sample", false);
	x.s.config[ff_graph_find(&x.g, "from")].degree[0] = 1;
	x.s.config[ff_graph_find(&x.g, "from")].replicas = 2;
	x.s.config[ff_graph_find(&x.g, "from")].replica_stride = 1;
	x.s.priority[ff_graph_find(&x.g, "c")] = 1;
	lower(&x);
	ck_assert_uint_eq(moves_of(&x, "from", false, &bytes), 0);
	ck_assert_uint_eq(back_of(&x, "from", &bytes), 1);
	ck_assert_int_eq(bytes, 256);
	a = x.g.nodes[ff_graph_find(&x.g, "a")].in;
	b = x.g.nodes[ff_graph_find(&x.g, "b")].in;
	ck_assert_uint_eq(x.plan.added[b], FF_NONE);
	ck_assert_uint_eq(x.plan.added[a], b);
	for (uint32_t i = 0; i < x.plan.n_tasks; i++) {
		const struct ff_task *t = &x.plan.tasks[i];
		const uint32_t *source, *sink;

		if (!ff_task_moves_edge(t) || ff_task_pass(t) != FF_BACKWARD ||
				x.g.edges[t->edge].value != x.g.edges[a].value)
			continue;
		ck_assert_uint_eq(t->node, ff_graph_find(&x.g, "c"));
		ff_task_ends(&x.plan, t, &source, &sink);
		ck_assert_ptr_eq(source, x.plan.din[(size_t)b * x.plan.n_instances]);
	}
	ff_arena_finish(&x.a);
}
END_TEST

/* One all-gather of 2 x 8 x 8 x 8 float32 for three convolutions, and one reduce-scatter of their
 * gradients, which adds them to the pooling's: that is made first, and where it belongs. */
START_TEST(branches_of_a_module)
{
	static const char *const by_channel[] = {"from", "a", "b", "c"};
	static const char *const by_sample[] = {"all", "flat", "out", "loss"};
	struct scene x;
	int64_t bytes, all = 2 * 8 * 8 * 8 * 4;

	open_graph(&x, module);
	for (int i = 0; i < 4; i++) {
		cut(&x, by_channel[i], "out_channel", false);
		cut(&x, by_sample[i], "sample", false);
	}
	cut(&x, "pool", "channel", false);
	lower(&x);
	ck_assert_uint_eq(moves_of(&x, "from", false, &bytes), 1);
	ck_assert_int_eq(bytes, all);
	ck_assert_uint_eq(back_of(&x, "from", &bytes), 1);
	ck_assert_int_eq(bytes, all);
	ck_assert_uint_eq(added_of(&x, "from"), 2);
	ff_arena_finish(&x.a);
}
END_TEST

/* ---- many readers ---- */

enum { READERS = 60 };

/* Layers, functions, norms with a prelude and products with itself that read one value, and a
 * chain of sums. */
static void write_fan(struct ff_out *o)
{
	static const char *const kinds[] = {"\"linear\",\"in\":[\"from\"],\"out_features\":8",
			"\"relu\",\"in\":[\"from\"]", "\"softmax\",\"in\":[\"from\"],\"axis\":1",
			"\"mul\",\"in\":[\"from\",\"from\"]"};

	ff_out_printf(o,
			"{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"fan\",\"nodes\":["
			"{\"name\":\"x\",\"op\":\"input\",\"shape\":[4,8]},"
			"{\"name\":\"y\",\"op\":\"input\",\"shape\":[4],\"dtype\":\"int32\","
			"\"classes\":8},"
			"{\"name\":\"from\",\"op\":\"linear\",\"in\":[\"x\"],\"out_features\":8},");
	for (int i = 0; i < READERS; i++)
		ff_out_printf(o, "{\"name\":\"r%d\",\"op\":%s},", i, kinds[i % 4]);
	for (int i = 1; i < READERS; i++)
		ff_out_printf(o, "{\"name\":\"s%d\",\"op\":\"add\",\"in\":[\"%c%d\",\"r%d\"]},", i,
				i == 1 ? 'r' : 's', i - 1, i);
	ff_out_printf(o,
			"{\"name\":\"loss\",\"op\":\"softmax_cross_entropy\",\"in\":[\"s%d\","
			"\"y\"]}]}",
			READERS - 1);
}

/* Some readers are cut in two along some dim, on devices in either order; some are made again. */
static void draw_readers(struct scene *x, struct ff_random *r)
{
	for (int i = 0; i < READERS; i++) {
		char name[16];
		uint32_t node;

		snprintf(name, sizeof(name), "r%d", i);
		node = ff_graph_find(&x->g, name);
		x->s.recompute[node] = ff_random_below(r, 8) == 0;
		cut(x, name, x->g.nodes[node].dim[ff_random_below(r, x->g.nodes[node].n_dims)].name,
				ff_random_below(r, 2));
		x->s.priority[node] = (int32_t)ff_random_below(r, 5);
	}
	x->s.recompute[ff_graph_find(&x->g, "from")] = ff_random_below(r, 2);
}

/* What the rules need of a strategy. */
struct placed {
	struct ff_program p;
	uint32_t *position;
	const struct ff_node_block **block;
};

static void place(struct scene *x, struct placed *ret)
{
	uint32_t n = x->g.n_nodes, *order = ff_arena_array(&x->a, n, sizeof(*order));
	struct ff_error err = {0};

	ret->position = ff_arena_array(&x->a, n, sizeof(*ret->position));
	ret->block = ff_arena_array(&x->a, n, sizeof(*ret->block));
	ck_assert_int_eq(ff_strategy_order(&x->g, &x->s, &x->a, order, &err), FF_OK);
	for (uint32_t i = 0; i < n; i++) {
		struct ff_node_block *b = ff_arena_alloc(&x->a, sizeof(*b));
		const struct ff_config *c = &x->s.config[ff_node_leader(&x->g, i)];

		ret->position[order[i]] = i;
		ret->block[i] = NULL;
		if (!c->n_parts || ff_node_is_parameter(&x->g, i))
			continue;
		ck_assert_int_eq(ff_node_block_build(&x->g, i, c, &x->a, b, &err), FF_OK);
		ret->block[i] = b;
	}
	ck_assert_int_eq(ff_program_build(&x->g, &x->s, order, &x->a, &ret->p, &err), FF_OK);
}

static bool reads_alike(const struct scene *x, const struct placed *p, uint32_t a, uint32_t b)
{
	const struct ff_edge *e = &x->g.edges[a], *f = &x->g.edges[b];

	return p->block[e->node]->key[e->slot] == p->block[f->node]->key[f->slot];
}

/* Whether `a` is issued before `b`; of one node's uses the first is. */
static bool is_earlier(const struct scene *x, const struct placed *p, uint32_t a, uint32_t b)
{
	uint32_t m = x->g.edges[a].node, n = x->g.edges[b].node;

	return m == n ? a < b : p->position[m] < p->position[n];
}

/* Of uses that read as `edge` does the first that is issued, by the rule's words. */
static uint32_t expected_from(const struct scene *x, const struct placed *p, uint32_t edge)
{
	const struct ff_value *v = &x->g.values[x->g.edges[edge].value];
	uint32_t shared = x->g.edges[edge].shared, me = shared == FF_NONE ? edge : shared,
		 best = me;

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t other = ff_value_use(&x->g, v, u);

		if (x->g.edges[other].shared == FF_NONE && reads_alike(x, p, me, other) &&
				(!p->p.recomputed[v->producer] ||
						ff_edge_read_recomputed(&x->g, &p->p, other) ==
								ff_edge_read_recomputed(&x->g,
										&p->p, me)) &&
				is_earlier(x, p, other, best))
			best = other;
	}
	return best == edge ? FF_NONE : best;
}

/* Gradients of some layouts leave: which is for whoever asks to know. */
static bool some_leave(void *ctx, uint32_t edge)
{
	const struct scene *x = ctx;

	return x->g.nodes[x->g.edges[edge].node].n_dims % 2 || edge % 3;
}

/* Edge by edge where its gradient goes, by the rule's words: all uses that may be joined and read
 * alike are sent by the one that is issued first, and added where the one is that is issued last.
 */
static void check_sums(struct scene *x, const struct placed *p, const struct ff_value *v,
		const bool *may, const struct ff_sums *got)
{
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = ff_value_use(&x->g, v, u), first = edge, last = edge, n = 0;

		for (uint32_t k = 0; k < v->n_uses && may[edge]; k++) {
			uint32_t other = ff_value_use(&x->g, v, k);

			if (!may[other] || !reads_alike(x, p, edge, other))
				continue;
			n++;
			if (is_earlier(x, p, other, first))
				first = other;
			if (x->g.edges[other].node == x->g.edges[last].node
							? other < last
							: is_earlier(x, p, last, other))
				last = other;
		}
		if (n < 2 || !some_leave(x, first))
			first = last = edge;
		ck_assert_uint_eq(got->sent[edge], first == edge ? FF_NONE : first);
		ck_assert_uint_eq(got->added[edge], last == edge ? FF_NONE : last);
	}
}

/* Of many readers, drawn, each is found with those that it belongs to. */
START_TEST(many_readers)
{
	struct ff_random r = {.seed = 7, .stream = (uint64_t)_i};
	struct ff_block_graph blocks;
	const struct ff_value *v;
	struct ff_leaving known;
	struct ff_sums sums;
	struct placed p;
	struct ff_out o;
	struct scene x;
	uint32_t value, first, *from;
	bool *may;

	ff_out_init(&o);
	write_fan(&o);
	open_graph(&x, o.text);
	ff_out_finish(&o);
	x.s.priority = ff_arena_array(&x.a, x.g.n_nodes, sizeof(*x.s.priority));
	memset(x.s.priority, 0, x.g.n_nodes * sizeof(*x.s.priority));
	draw_readers(&x, &r);
	place(&x, &p);
	value = x.g.nodes[ff_graph_find(&x.g, "from")].out;
	v = &x.g.values[value];
	from = ff_arena_array(&x.a, x.g.n_edges, sizeof(*from));
	may = ff_arena_array(&x.a, x.g.n_edges, sizeof(*may));
	sums.sent = ff_arena_array(&x.a, x.g.n_edges, sizeof(*sums.sent));
	sums.added = ff_arena_array(&x.a, x.g.n_edges, sizeof(*sums.added));
	sums.first = ff_arena_array(&x.a, x.g.n_edges, sizeof(*sums.first));
	known = (struct ff_leaving){some_leave, &x};
	blocks = (struct ff_block_graph){&x.g, p.position, p.block};
	ff_sharing_find(&blocks, &p.p, value, from);
	ff_sums_find(&blocks, &known, value, &sums, &first);
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = ff_value_use(&x.g, v, u);

		ck_assert_uint_eq(from[edge], expected_from(&x, &p, edge));
		may[edge] = ff_edge_needs_grad(&x.g, edge) && !ff_edge_is_in_place(&x.g, edge);
	}
	check_sums(&x, &p, v, may, &sums);
	ff_arena_finish(&x.a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("sharing");
	TCase *c = tcase_create("closed forms");

	tcase_add_test(c, readers_alike_share);
	tcase_add_test(c, one_shard_for_all);
	tcase_add_test(c, made_again);
	tcase_add_test(c, tied_weights);
	tcase_add_test(c, gradients_are_added_first);
	tcase_add_test(c, what_stays_is_left_alone);
	tcase_add_test(c, replicated_values);
	tcase_add_test(c, branches_of_a_module);
	tcase_add_loop_test(c, many_readers, 0, 40);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
