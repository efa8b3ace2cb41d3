/* Strategy files: what is read is what was written, and no more than that stays.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "check_main.h"
#include "ff/optimizer.h"
#include "ff/philox.h"
#include "ff/strategy_file.h"
#include "ff/zoo.h"

#define DEVICES 2048

/* Writes `s` to a file and reads it again; returns the length of the file. */
static size_t through_file(const struct ff_graph *g, const struct ff_strategy *s,
		const struct ff_strategy_info *info, struct ff_arena *a, struct ff_strategy *ret,
		struct ff_strategy_info *seen)
{
	char path[] = "/tmp/ff-test-XXXXXX";
	struct ff_error err = {0};
	struct ff_out out;
	size_t len;
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
	ff_out_init(&out);
	ff_strategy_write(g, s, info, &out);
	ck_assert_int_eq(ff_out_save(&out, path, &err), FF_OK);
	ck_assert_msg(ff_strategy_load(path, g, info->devices, a, ret, seen, &err) == FF_OK, "%s",
			err.text);
	len = out.len;
	ff_out_finish(&out);
	unlink(path);
	return len;
}

static void use_lists(const struct ff_graph *g, struct ff_arena *a, struct ff_strategy *s)
{
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct ff_config *c = &s->config[i];
		uint16_t *list = ff_arena_array(a, c->n_parts, sizeof(*list));

		if (c->n_parts)
			ff_config_devices(&g->nodes[i], c, list);
		c->list = c->n_parts ? list : NULL;
	}
}

/* The tree of a large file is many times the strategy in it. */
START_TEST(only_the_strategy_stays)
{
	static int64_t memory[DEVICES];
	struct ff_strategy_info info = {.machine = "large",
			.devices = DEVICES,
			.predicted_us = 5,
			.memory_bytes = memory};
	struct ff_strategy_info seen;
	struct ff_arena a, kept;
	struct ff_error err = {0};
	struct ff_strategy s, read;
	struct ff_graph g;
	size_t len;

	ff_arena_init(&a);
	ff_arena_init(&kept);
	ck_assert_int_eq(ff_zoo_build("mlp", DEVICES, NULL, 0, &a, &g, &err), FF_OK);
	ck_assert_int_eq(ff_strategy_data_parallel(&g, DEVICES, &a, &s, &err), FF_OK);
	use_lists(&g, &a, &s);
	for (int i = 0; i < DEVICES; i++)
		memory[i] = i;
	len = through_file(&g, &s, &info, &kept, &read, &seen);
	ck_assert_str_eq(seen.machine, "large");
	ck_assert_uint_eq(seen.devices, DEVICES);
	ck_assert_mem_eq(seen.memory_bytes, memory, sizeof(memory));
	for (uint32_t i = 0; i < g.n_nodes; i++)
		ck_assert(ff_config_equal(&g.nodes[i], &s.config[i], &read.config[i]));
	/* two bytes a device in memory, six in the file; chunks are not full */
	ck_assert_uint_lt(kept.bytes, 2 * len);
	ff_arena_finish(&a);
	ff_arena_finish(&kept);
}
END_TEST

/* A view says as much as a list of its devices, in a file that does not grow with
 * them. */
START_TEST(views_are_short)
{
	struct ff_strategy_info info = {.machine = "large", .devices = DEVICES}, seen;
	struct ff_strategy s, lists, read;
	struct ff_error err = {0};
	struct ff_graph g;
	struct ff_arena a;
	size_t len;

	ff_arena_init(&a);
	ck_assert_int_eq(ff_zoo_build("mlp", DEVICES, NULL, 0, &a, &g, &err), FF_OK);
	ck_assert_int_eq(ff_strategy_data_parallel(&g, DEVICES, &a, &s, &err), FF_OK);
	ck_assert_int_eq(ff_strategy_data_parallel(&g, DEVICES, &a, &lists, &err), FF_OK);
	use_lists(&g, &a, &lists);
	len = through_file(&g, &s, &info, &a, &read, &seen);
	ck_assert_uint_lt(len, 200 * g.n_nodes);
	ck_assert_uint_lt(len, through_file(&g, &lists, &info, &a, &read, &seen) / 10);
	for (uint32_t i = 0; i < g.n_nodes; i++)
		ck_assert(ff_config_equal(&g.nodes[i], &s.config[i], &read.config[i]));
	ff_arena_finish(&a);
}
END_TEST

/* Degrees and replicas that 64 devices can hold, their view dense in some order of
 * the axes, or a list. */
static void draw_config(struct ff_random *r, const struct ff_node *n, struct ff_arena *a,
		struct ff_config *c)
{
	uint32_t have = 1, axis[FF_MAX_DIMS + 1];
	uint16_t *list;

	for (uint32_t d = 0; d < n->n_dims; d++) {
		uint32_t most = (uint32_t)n->dim[d].extent < 5 ? (uint32_t)n->dim[d].extent : 5;

		c->degree[d] = (uint16_t)(1 + ff_random_below(r, most));
		if (have * c->degree[d] > 20)
			c->degree[d] = 1;
		have *= c->degree[d];
	}
	c->replicas = (uint16_t)(1 + ff_random_below(r, 3));
	c->n_parts = have * c->replicas;
	for (uint32_t d = 0; d <= n->n_dims; d++) {
		uint32_t k = ff_random_below(r, d + 1);

		axis[d] = axis[k];
		axis[k] = d;
	}
	have = 1;
	for (uint32_t i = 0; i <= n->n_dims; i++) {
		bool last = axis[i] == n->n_dims;

		*(last ? &c->replica_stride : &c->stride[axis[i]]) = (uint16_t)have;
		have *= last ? c->replicas : c->degree[axis[i]];
	}
	c->start = (uint16_t)ff_random_below(r, 64 - have + 1);
	if (ff_random_below(r, 2))
		return;
	list = ff_arena_array(a, c->n_parts, sizeof(*list));
	ff_config_devices(n, c, list);
	c->list = list;
}

/* All kinds of configs, parameters' among them, come back as they were. */
START_TEST(round_trip)
{
	struct ff_class_time classes[] = {
			{"conv2d forward", 1.25, 0}, {"update", 0, 0}, {"halo forward", 2, 3.5}};
	struct ff_strategy_info info = {.machine = "64",
						.devices = 64,
						.predicted_us = 2.5,
						.classes = classes,
						.n_classes = 3},
				seen;
	struct ff_random r = {.seed = ff_test_seed(41)};
	uint32_t views = 0, replicas = 0, params = 0, flat = 0;

	for (int round = 0; round < 60; round++) {
		struct ff_strategy s, read;
		struct ff_error err = {0};
		struct ff_graph g;
		struct ff_arena a;

		ff_arena_init(&a);
		ck_assert_int_eq(ff_zoo_build("lenet", 30, NULL, 0, &a, &g, &err), FF_OK);
		ck_assert_int_eq(ff_strategy_create(&g, &a, &s, &err), FF_OK);
		for (uint32_t i = 0; i < g.n_nodes; i++) {
			struct ff_config *c = &s.config[i];

			if (!ff_node_needs_config(&g, i) &&
					(!ff_node_is_parameter(&g, i) || ff_random_below(&r, 2)))
				continue;
			c->flat = ff_node_is_parameter(&g, i) && ff_random_below(&r, 3) == 0;
			if (!c->flat)
				draw_config(&r, &g.nodes[i], &a, c);
			s.priority[i] = (int32_t)ff_random_below(&r, 3) - 1;
			flat += c->flat;
			views += !c->list && c->n_parts > 16;
			replicas += c->replicas > 1;
			params += ff_node_is_parameter(&g, i);
		}
		ck_assert_msg(ff_strategy_check(&g, &s, 64, &err) == FF_OK, "%s", err.text);
		for (uint32_t i = 0; i < 3; i++) /* files from before there were waits have none */
			classes[i].waited_us = round % 2 ? NAN : 1.75 * i;
		s.bucket_bytes = round % 3 ? 0 : 1 + ff_random_below(&r, 1u << 30);
		s.scatter = round % 4 == 1;
		info.data_parallel_bucket_bytes = round % 2 ? 0 : FF_MOST_BUCKET_BYTES - round;
		info.optimizer = round % 4 ? ff_optimizer((enum ff_optimizer_id)(round % 4 - 1))
					   : NULL;
		through_file(&g, &s, &info, &a, &read, &seen);
		ck_assert_ptr_eq(seen.optimizer,
				info.optimizer ? info.optimizer : ff_optimizer_preset());
		ck_assert_int_eq(read.bucket_bytes, s.bucket_bytes);
		ck_assert(read.scatter == s.scatter);
		ck_assert_int_eq(seen.data_parallel_bucket_bytes, info.data_parallel_bucket_bytes);
		ck_assert_double_eq(seen.predicted_us, 2.5);
		ck_assert_uint_eq(seen.n_classes, 3);
		for (uint32_t i = 0; i < 3; i++) {
			ck_assert_str_eq(seen.classes[i].name, classes[i].name);
			ck_assert_double_eq(seen.classes[i].us, classes[i].us);
			ck_assert(isnan(classes[i].waited_us)
							? isnan(seen.classes[i].waited_us)
							: seen.classes[i].waited_us ==
									  classes[i].waited_us);
		}
		ck_assert_ptr_null(seen.memory_bytes);
		for (uint32_t i = 0; i < g.n_nodes; i++) {
			ck_assert(ff_config_equal(&g.nodes[i], &s.config[i], &read.config[i]));
			ck_assert_int_eq(s.priority[i], read.priority[i]);
		}
		ff_arena_finish(&a);
	}
	ck_assert_uint_gt(views, 0);
	ck_assert_uint_gt(replicas, 0);
	ck_assert_uint_gt(params, 0);
	ck_assert_uint_gt(flat, 0);
}
END_TEST

/* The whole strategy of an mlp without hidden layers, but for what is tested. */
static void load_text(const char *version, const char *fc, uint32_t n_devices,
		struct ff_strategy *ret, struct ff_arena *a, struct ff_graph *g,
		struct ff_error *err, int expected)
{
	static const char *const sets[] = {"layers=0", "image=4"};
	char path[] = "/tmp/ff-test-XXXXXX";
	struct ff_strategy_info seen;
	struct ff_out o;
	int code, fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_int_eq(ff_zoo_build("mlp", 12, sets, 2, a, g, err), FF_OK);
	ff_out_init(&o);
	ff_out_printf(&o,
			"{\"format\":\"ffsoap-strategy\",\"version\":%s,\"graph\":\"mlp\","
			"\"graph_hash\":\"%016llx\",\"machine\":\"m\",\"devices\":8,\"operators\":"
			"[",
			version, (unsigned long long)g->hash);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_needs_config(g, i))
			ff_out_printf(&o, "{\"name\":\"%s\",%s}%s", g->nodes[i].name,
					g->nodes[i].op == FF_OP_LINEAR
							? fc
							: "\"degrees\":{},\"devices\":[0]",
					i == g->loss[0] ? "" : ",");
	ff_out_printf(&o, "]}");
	ck_assert_int_eq(ff_out_save(&o, path, err), FF_OK);
	ff_out_finish(&o);
	code = ff_strategy_load(path, g, n_devices, a, ret, &seen, err);
	ck_assert_msg(code == expected, "%s: %s", fc, code < 0 ? err->text : "accepted");
	unlink(path);
}

START_TEST(devices_of_a_view)
{
	static const struct {
		const char *fc;
		uint32_t n;
		uint16_t device[8];
	} cases[] = {
			{"\"degrees\":{},\"devices\":[5]", 1, {5}},
			{"\"degrees\":{},\"devices\":{\"start\":5}", 1, {5}},
			{"\"degrees\":{\"sample\":3},\"devices\":{\"start\":1,\"strides\":{"
			 "\"sample\":2}}",
					3, {1, 3, 5}},
			/* the last dim is fastest, replicas slowest */
			{"\"degrees\":{\"sample\":2,\"out_feature\":2},\"replicas\":2,\"devices\":"
			 "{\"start\":0,\"strides\":{\"sample\":1,\"out_feature\":4},"
			 "\"replica_stride\":2}",
					8, {0, 4, 1, 5, 2, 6, 3, 7}},
			{"\"degrees\":{\"sample\":2},\"replicas\":2,\"devices\":[7,0,3,2]", 4,
					{7, 0, 3, 2}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ff_error err = {0};
		struct ff_strategy s;
		struct ff_graph g;
		struct ff_arena a;
		uint32_t fc = 0;

		ff_arena_init(&a);
		load_text("2", cases[i].fc, 8, &s, &a, &g, &err, FF_OK);
		while (g.nodes[fc].op != FF_OP_LINEAR)
			fc++;
		ck_assert_uint_eq(s.config[fc].n_parts, cases[i].n);
		for (uint32_t p = 0; p < cases[i].n; p++)
			ck_assert_uint_eq(ff_config_device(&g.nodes[fc], &s.config[fc], p),
					cases[i].device[p]);
		ff_arena_finish(&a);
	}
}
END_TEST

START_TEST(bad)
{
	static const struct {
		const char *version, *fc, *sentence;
	} cases[] = {
			{"1", "\"degrees\":{},\"devices\":[0]", "version"},
			{"2", "\"degrees\":{}", "expected \"devices\""},
			{"2", "\"degrees\":{},\"devices\":3", "expected \"devices\""},
			{"2", "\"degrees\":{},\"devices\":[0,1]", "has 1 parts but 2 devices"},
			{"2", "\"degrees\":{},\"devices\":[8]", "device 8 does not exist"},
			{"2", "\"degrees\":{},\"devices\":{\"start\":8}",
					"device 8 does not exist"},
			{"2", "\"degrees\":{},\"devices\":{\"strides\":{}}", "\"start\""},
			{"2", "\"degrees\":{},\"devices\":{\"start\":0,\"stride\":1}", "stride"},
			{"2", "\"degrees\":{},\"devices\":{\"start\":0,\"strides\":[1]}",
					"expected an object"},
			{"2", "\"degrees\":{},\"devices\":{\"start\":0,\"strides\":{\"x\":1}}",
					"no dim called x"},
			{"2", "\"degrees\":{\"sample\":2},\"devices\":{\"start\":0}",
					"named twice"},
			{"2",
					"\"degrees\":{\"sample\":2},\"devices\":{\"start\":6,"
					"\"strides\":{"
					"\"sample\":2}}",
					"device 8 does not exist"},
			{"2", "\"degrees\":{},\"replicas\":2,\"devices\":{\"start\":0}",
					"named twice"},
			{"2", "\"degrees\":{},\"replicas\":2,\"devices\":[0]",
					"has 2 parts but 1 devices"},
			{"2", "\"degrees\":{},\"replicas\":0,\"devices\":[0]", "replicas"},
			{"2", "\"degrees\":{},\"replicas\":9,\"devices\":[0,1,2,3,4,5,6,7,8]", "8"},
			{"2", "\"degrees\":{\"sample\":13},\"devices\":[0]", "sample"},
			{"2", "\"degrees\":{\"height\":2},\"devices\":[0,1]",
					"no dim called height"},
			{"2,\"optimizer\":\"ada\"", "\"degrees\":{},\"devices\":[0]",
					"optimizer: expected sgd, momentum, nesterov, adam or "
					"adamw, "
					"not \"ada\""},
			{"2,\"predicted_tasks\":3", "\"degrees\":{},\"devices\":[0]",
					"predicted_tasks: expected an object"},
			{"2,\"predicted_tasks\":{\"update\":-1}", "\"degrees\":{},\"devices\":[0]",
					"predicted_tasks.update"},
			{"2,\"predicted_tasks\":{\"update\":1},\"predicted_waits\":{\"update\":-1}",
					"\"degrees\":{},\"devices\":[0]", "predicted_waits.update"},
			{"2,\"predicted_tasks\":{\"update\":1},\"predicted_waits\":{\"date\":1}",
					"\"degrees\":{},\"devices\":[0]",
					"expected a class of \"predicted_tasks\""},
			{"2,\"predicted_waits\":[]", "\"degrees\":{},\"devices\":[0]",
					"predicted_waits: expected an object"},
			{"2,\"optimizer\":2", "\"degrees\":{},\"devices\":[0]", "optimizer"},
			{"2,\"bucket_bytes\":0", "\"degrees\":{},\"devices\":[0]", "bucket_bytes"},
			{"2,\"gradients\":\"whole\"", "\"degrees\":{},\"devices\":[0]",
					"gradients: expected \"scattered\""},
			{"2", "\"update\":\"flat\"", "is no parameter"},
			{"2", "\"update\":\"round\"", "update: expected \"flat\""},
			{"2", "\"update\":\"flat\",\"degrees\":{}", "degrees"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ff_error err = {0};
		struct ff_strategy s;
		struct ff_graph g;
		struct ff_arena a;

		ff_arena_init(&a);
		load_text(cases[i].version, cases[i].fc, 8, &s, &a, &g, &err, FF_E_INPUT);
		ck_assert_msg(strstr(err.text, cases[i].sentence), "got \"%s\", expected \"%s\"",
				err.text, cases[i].sentence);
		ff_arena_finish(&a);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("strategy");
	TCase *c = tcase_create("files");

	tcase_add_test(c, only_the_strategy_stays);
	tcase_add_test(c, views_are_short);
	tcase_add_test(c, round_trip);
	tcase_add_test(c, devices_of_a_view);
	tcase_add_test(c, bad);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
