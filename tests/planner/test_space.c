/* The space of configs: legal, complete, without duplicates.  SPDX-License-Identifier: Apache-2.0
 */
#include "../check_main.h"

#include "ff/zoo.h"
#include "fixture.h"
#include "space/space.h"

#define MAX_DEVICES 8

/* A config as comparable bytes. */
struct entry {
	uint16_t degree[FF_MAX_DIMS];
	uint16_t n_parts, device[MAX_DEVICES];
};

static struct ff_arena arena;

static void setup(void)
{
	ff_arena_init(&arena);
}

static void teardown(void)
{
	ff_arena_finish(&arena);
}

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct entry));
}

static struct entry entry_of(const struct ff_node *n, const struct ff_config *c)
{
	struct entry e;

	memset(&e, 0, sizeof(e));
	memcpy(e.degree, c->degree, n->n_dims * sizeof(*e.degree));
	e.n_parts = (uint16_t)c->n_parts;
	ck_assert_uint_le(c->n_parts, MAX_DEVICES);
	ff_config_devices(n, c, e.device);
	return e;
}

/* ---- the other way to count: try everything ---- */

struct oracle {
	const struct ff_node *node;
	uint32_t devices;
	struct entry *entry;
	size_t n, room;
};

/* All lists start + t * (parts counted in some order of all dims), in range;
 * orders that differ only in unsplit dims give duplicates, removed later. */
static void try_views(struct oracle *o, const struct ff_config *c, const uint32_t *order)
{
	for (uint32_t start = 0; start < o->devices; start++) {
		for (uint32_t t = 1; t <= o->devices; t++) {
			struct entry e = {.n_parts = (uint16_t)c->n_parts};
			bool inside = true;

			memcpy(e.degree, c->degree, o->node->n_dims * sizeof(*e.degree));
			for (uint32_t p = 0; p < c->n_parts; p++) {
				uint32_t coord[FF_MAX_DIMS], j = 0;

				ff_config_coords(o->node, c, p, coord);
				for (uint32_t k = 0; k < o->node->n_dims; k++)
					j = j * c->degree[order[k]] + coord[order[k]];
				inside = inside && start + j * t < o->devices;
				e.device[p] = (uint16_t)(start + j * t);
			}
			if (!inside)
				continue;
			ck_assert_uint_lt(o->n, o->room);
			o->entry[o->n++] = e;
		}
	}
}

static void try_orders(struct oracle *o, const struct ff_config *c, uint32_t *order, uint32_t n)
{
	if (n == o->node->n_dims) {
		try_views(o, c, order);
		return;
	}
	for (uint32_t d = 0; d < o->node->n_dims; d++) {
		bool used = false;

		for (uint32_t k = 0; k < n; k++)
			used = used || order[k] == d;
		if (used)
			continue;
		order[n] = d;
		try_orders(o, c, order, n + 1);
	}
}

static void try_degrees(struct oracle *o, struct ff_config *c, uint32_t dim)
{
	uint32_t order[FF_MAX_DIMS] = {0};

	if (dim == o->node->n_dims) {
		c->n_parts = 1;
		for (uint32_t d = 0; d < dim; d++)
			c->n_parts *= c->degree[d];
		if (c->n_parts <= o->devices)
			try_orders(o, c, order, 0);
		return;
	}
	if (dim >= FF_MAX_DIMS)
		return;
	for (int32_t k = 1; k <= o->node->dim[dim].extent && k <= (int32_t)o->devices; k++) {
		c->degree[dim] = (uint16_t)k;
		try_degrees(o, c, dim + 1);
	}
}

static size_t sort_unique(struct entry *e, size_t n)
{
	size_t kept = 0;

	qsort(e, n, sizeof(*e), by_bytes);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || by_bytes(&e[i], &e[kept - 1]))
			e[kept++] = e[i];
	return kept;
}

static struct oracle all_configs(const struct ff_node *n, uint32_t devices)
{
	struct oracle o = {.node = n, .devices = devices, .room = 300000};
	struct ff_config c = {.replicas = 1};

	o.entry = calloc(o.room, sizeof(*o.entry));
	ck_assert_ptr_nonnull(o.entry);
	try_degrees(&o, &c, 0);
	o.n = sort_unique(o.entry, o.n);
	return o;
}

/* ---- tests ---- */

static void check_node(
		const struct ff_graph *g, const struct ff_space *s, uint32_t node, uint32_t devices)
{
	struct oracle o = all_configs(&g->nodes[node], devices);
	uint64_t n = ff_space_count(s, node);
	struct entry *e = calloc(n, sizeof(*e));
	struct ff_error err = {0};
	struct ff_config c;

	ck_assert_ptr_nonnull(e);
	ck_assert_uint_eq(n, o.n);
	for (uint64_t i = 0; i < n; i++) {
		ff_space_config(s, node, i, &c);
		CHECK_OK(ff_config_check(&g->nodes[node], &c, devices, &err));
		e[i] = entry_of(&g->nodes[node], &c);
	}
	ck_assert_uint_eq(sort_unique(e, n), n);
	ck_assert_int_eq(memcmp(e, o.entry, n * sizeof(*e)), 0);
	free(e);
	free(o.entry);
}

START_TEST(test_all_configs)
{
	struct ff_graph g[] = {
			fixture_mlp(3, 5, 4, 2, &arena),
			fixture_conv_net(4, 3, 4, 2, &arena),
	};
	struct ff_error err = {0};

	for (uint32_t devices = 1; devices <= 6; devices++) {
		struct ff_machine m = fixture_devices(devices, &arena);

		for (uint32_t k = 0; k < 2; k++) {
			struct ff_space *s;

			CHECK_OK(ff_space_create(&g[k], &m, &s, &err));
			for (uint32_t i = 0; i < g[k].n_nodes; i++)
				if (ff_node_needs_config(&g[k], i))
					check_node(&g[k], s, i, devices);
			ff_space_destroy(s);
		}
	}
}
END_TEST

/* Nothing to search: inputs have no config, parameters and preludes follow. */
START_TEST(test_sources_have_no_config)
{
	static const char *const names[] = {
			"data", "labels", "fc1.weight", "fc2.bias", "loss.statistics"};
	struct ff_graph g = fixture_mlp(3, 5, 4, 2, &arena);
	struct ff_machine m = fixture_devices(4, &arena);
	struct ff_random r = {.seed = 1};
	struct ff_error err = {0};
	struct ff_config c;
	struct ff_space *s;

	CHECK_OK(ff_space_create(&g, &m, &s, &err));
	for (int i = 0; i < 5; i++) {
		uint32_t node = ff_graph_find(&g, names[i]);

		ck_assert_uint_eq(ff_space_count(s, node), 1);
		ff_space_config(s, node, 0, &c);
		ck_assert_uint_eq(c.n_parts, 0);
		ff_space_draw(s, node, &r, &c);
		ck_assert_uint_eq(c.n_parts, 0);
	}
	ff_space_destroy(s);
}
END_TEST

/* The first config is one part on device 0, as ff_config_next_degrees starts. */
START_TEST(test_first_is_single)
{
	struct ff_graph g = fixture_mlp(3, 5, 4, 2, &arena);
	struct ff_machine m = fixture_devices(4, &arena);
	struct ff_error err = {0};
	struct ff_config c;
	struct ff_space *s;

	CHECK_OK(ff_space_create(&g, &m, &s, &err));
	ff_space_config(s, ff_graph_find(&g, "fc1"), 0, &c);
	ck_assert_uint_eq(c.n_parts, 1);
	ck_assert_uint_eq(ff_config_device(&g.nodes[ff_graph_find(&g, "fc1")], &c, 0), 0);
	ff_space_destroy(s);
}
END_TEST

/* Draws lie in the space, and in the long run nothing of it is left out. */
START_TEST(test_draws_cover_the_space)
{
	struct ff_graph g = fixture_mlp(8, 8, 8, 8, &arena);
	struct ff_random r = {.seed = ff_test_seed(7)};
	struct ff_error err = {0};
	struct ff_config c;

	for (uint32_t devices = 1; devices <= 6; devices++) {
		struct ff_machine m = fixture_devices(devices, &arena);
		uint32_t node = ff_graph_find(&g, "fc1");
		struct oracle o = all_configs(&g.nodes[node], devices);
		uint8_t *seen = calloc(o.n + 1, 1);
		size_t left = o.n;
		struct ff_space *s;

		ck_assert_ptr_nonnull(seen);
		CHECK_OK(ff_space_create(&g, &m, &s, &err));
		for (uint32_t k = 0; k < 20000; k++) {
			struct entry e, *at;

			ff_space_draw(s, node, &r, &c);
			e = entry_of(&g.nodes[node], &c);
			at = bsearch(&e, o.entry, o.n, sizeof(e), by_bytes);
			ck_assert_ptr_nonnull(at);
			left -= !seen[at - o.entry];
			seen[at - o.entry] = 1;
		}
		ck_assert_uint_eq(left, 0);
		ff_space_destroy(s);
		free(seen);
		free(o.entry);
	}
}
END_TEST

START_TEST(test_draws_repeat_by_seed)
{
	struct ff_graph g = fixture_conv_net(8, 8, 8, 8, &arena);
	struct ff_machine m = fixture_devices(8, &arena);
	uint32_t node = ff_graph_find(&g, "conv");
	struct ff_random a = {.seed = 3}, b = {.seed = 3}, other = {.seed = 4};
	struct ff_error err = {0};
	struct ff_config c[3];
	struct ff_space *s;
	uint32_t differ = 0;

	CHECK_OK(ff_space_create(&g, &m, &s, &err));
	for (uint32_t k = 0; k < 200; k++) {
		ff_space_draw(s, node, &a, &c[0]);
		ff_space_draw(s, node, &b, &c[1]);
		ff_space_draw(s, node, &other, &c[2]);
		ck_assert(ff_config_equal(&g.nodes[node], &c[0], &c[1]));
		differ += !ff_config_equal(&g.nodes[node], &c[0], &c[2]);
	}
	ck_assert_uint_gt(differ, 100);
	ff_space_destroy(s);
}
END_TEST

/* The largest machine there is: everything stays legal and in range. */
START_TEST(test_largest_machine)
{
	struct fixture_machine f = {512, 8, true, (int64_t)1 << 34, 1e4, 1e4};
	struct ff_graph g = fixture_conv_net(256, 64, 32, 128, &arena);
	struct ff_machine m = fixture_machine(&f, &arena);
	struct ff_random r = {.seed = ff_test_seed(11)};
	uint32_t node = ff_graph_find(&g, "conv");
	const struct ff_node *n = &g.nodes[node];
	struct ff_error err = {0};
	struct ff_config c;
	struct ff_space *s;
	uint64_t count;

	CHECK_OK(ff_space_create(&g, &m, &s, &err));
	count = ff_space_count(s, node);
	ck_assert_uint_gt(count, 1000000);
	for (uint64_t k = 0; k < 500; k++) {
		ff_space_config(s, node, k * (count - 1) / 499, &c);
		CHECK_OK(ff_config_check(n, &c, m.n_devices, &err));
		ff_space_draw(s, node, &r, &c);
		CHECK_OK(ff_config_check(n, &c, m.n_devices, &err));
	}
	ff_space_destroy(s);
}
END_TEST

/* Micro-batches have whole groups of samples that are normalised together, or there are none. */
START_TEST(test_micro_batches_of_groups)
{
	static const char *const group[] = {"norm_group=0", "norm_group=8", "norm_group=12"};
	static const uint32_t most[] = {1, 8, 1};

	for (int i = 0; i < 3; i++) {
		const char *const sets[] = {"image=32", group[i]};
		const uint32_t *micro;
		struct ff_space *space;
		struct ff_machine m;
		struct ff_error err;
		struct ff_arena a;
		struct ff_graph g;
		uint32_t n;

		ff_arena_init(&a);
		CHECK_OK(ff_zoo_build("resnet50", 64, sets, 2, &a, &g, &err));
		m = fixture_devices(4, &a);
		CHECK_OK(ff_space_create(&g, &m, &space, &err));
		ff_space_allow(space, FF_SPACE_MICRO);
		n = ff_space_micro(space, &micro);
		ck_assert_uint_eq(micro[n - 1], most[i]);
		ff_space_destroy(space);
		ff_arena_finish(&a);
	}
}
END_TEST

/* A batch that is no power of two has as many: 10 of 100, of which two devices have 50 samples. */
START_TEST(test_micro_batches_of_any_batch)
{
	static const uint32_t expected[] = {1, 2, 4, 10, 20, 50, 100};
	const uint32_t *micro;
	struct ff_strategy by_hand;
	struct ff_space *space;
	struct ff_machine m;
	struct ff_error err;
	struct ff_arena a;
	struct ff_graph g;

	ff_arena_init(&a);
	CHECK_OK(ff_zoo_build("gpt2", 100, NULL, 0, &a, &g, &err));
	m = fixture_devices(4, &a);
	CHECK_OK(ff_space_create(&g, &m, &space, &err));
	ff_space_allow(space, FF_SPACE_ALL);
	ck_assert_uint_eq(ff_space_micro(space, &micro), 7);
	ck_assert_mem_eq(micro, expected, sizeof(expected));
	CHECK_OK(ff_init_strategy("megatron:1,2,2,10", space, &g, &m, 0, &a, &by_hand, &err));
	ff_space_destroy(space);
	ff_arena_finish(&a);
}
END_TEST

/* What a strategy takes to evaluate grows with the parts that it has, not with the devices that
 * there are: a stage of a pipeline has few, so many micro-batches are tried. */
START_TEST(test_micro_batches_of_pipelines)
{
	const uint32_t *micro;
	struct ff_strategy pipeline, frugal;
	struct ff_space *space;
	struct ff_machine m;
	struct ff_error err;
	struct ff_arena a;
	struct ff_graph g;
	uint32_t n;

	ff_arena_init(&a);
	CHECK_OK(ff_zoo_build("gpt2_xl", 1024, NULL, 0, &a, &g, &err));
	m = fixture_devices(1024, &a);
	CHECK_OK(ff_space_create(&g, &m, &space, &err));
	ff_space_allow(space, FF_SPACE_ALL);
	n = ff_space_micro(space, &micro);
	ck_assert_uint_eq(micro[n - 1], 64);
	CHECK_OK(ff_init_strategy("megatron:1,64,16,16", space, &g, &m, 0, &a, &pipeline, &err));
	ck_assert(ff_space_has_time(16, ff_space_instances(space, &pipeline)));
	ck_assert(!ff_space_has_time(64, ff_space_instances_each(space, 64, 1024)));
	CHECK_OK(ff_init_strategy("frugal", space, &g, &m, 0, &a, &frugal, &err));
	ck_assert(ff_space_has_time(frugal.micro_batches, ff_space_instances(space, &frugal)));
	ff_space_destroy(space);
	ff_arena_finish(&a);
}
END_TEST

/* Devices that a file or a pin lists backwards suggest no view: part 1 would be before device 0. */
START_TEST(test_lists_that_descend)
{
	static const uint16_t backwards[] = {1, 0}, forwards[] = {1, 3};
	static const uint16_t degree[] = {2, 1};
	struct ff_config c = {.n_parts = 2, .replicas = 1, .degree = {2, 1}, .list = backwards};
	struct ff_view view;

	ff_view_of(2, &c, &view);
	ck_assert(!ff_view_check(2, degree, &view, 4));
	c.list = forwards;
	ff_view_of(2, &c, &view);
	ck_assert(ff_view_check(2, degree, &view, 4));
	ck_assert(!ff_view_check(2, degree, &view, 3));
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("space");
	TCase *c = tcase_create("space");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 0);
	tcase_add_test(c, test_all_configs);
	tcase_add_test(c, test_sources_have_no_config);
	tcase_add_test(c, test_first_is_single);
	tcase_add_test(c, test_draws_cover_the_space);
	tcase_add_test(c, test_draws_repeat_by_seed);
	tcase_add_test(c, test_largest_machine);
	tcase_add_test(c, test_micro_batches_of_groups);
	tcase_add_test(c, test_micro_batches_of_any_batch);
	tcase_add_test(c, test_micro_batches_of_pipelines);
	tcase_add_test(c, test_lists_that_descend);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
