/* Strategy files: what is read is what was written, and no more than that stays.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "check_main.h"
#include "ff/strategy.h"
#include "ff/zoo.h"

#define DEVICES 2048

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
	char path[] = "/tmp/ff-test-XXXXXX";
	struct ff_error err = {0};
	struct ff_strategy s, read;
	struct ff_graph g;
	struct ff_out out;
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
	ff_arena_init(&a);
	ff_arena_init(&kept);
	ff_out_init(&out);
	ck_assert_int_eq(ff_zoo_build("mlp", DEVICES, NULL, 0, &a, &g, &err), FF_OK);
	ck_assert_int_eq(ff_strategy_data_parallel(&g, DEVICES, &a, &s, &err), FF_OK);
	for (int i = 0; i < DEVICES; i++)
		memory[i] = i;
	ff_strategy_write(&g, &s, &info, &out);
	ck_assert_int_eq(ff_out_save(&out, path, &err), FF_OK);
	ck_assert_msg(ff_strategy_load(path, &g, DEVICES, &kept, &read, &seen, &err) == FF_OK, "%s",
			err.text);
	ck_assert_str_eq(seen.machine, "large");
	ck_assert_uint_eq(seen.devices, DEVICES);
	ck_assert_mem_eq(seen.memory_bytes, memory, sizeof(memory));
	for (uint32_t i = 0; i < g.n_nodes; i++)
		ck_assert(ff_config_equal(&g.nodes[i], &s.config[i], &read.config[i]));
	/* two bytes a device in memory, six in the file; chunks are not full */
	ck_assert_uint_lt(kept.bytes, 2 * out.len);
	ff_out_finish(&out);
	ff_arena_finish(&a);
	ff_arena_finish(&kept);
	unlink(path);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("strategy");
	TCase *c = tcase_create("files");

	tcase_add_test(c, only_the_strategy_stays);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
