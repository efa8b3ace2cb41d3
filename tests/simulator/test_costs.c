/* Cost database: lookup, files, bad files.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "hand.h"

static struct ff_cost cost(const char *key, double us)
{
	return (struct ff_cost){.key = key,
			.median_us = us,
			.p10_us = us / 2,
			.p90_us = us * 2,
			.samples = 7,
			.disturbed = 2,
			.workspace_bytes = 64};
}

static struct ff_costs *full(void)
{
	double bytes[] = {0, 1024, 65536}, us[] = {1.25, 3, 40.1};
	struct ff_costs *c = hand_costs("cpu");
	const char *const keys[] = {"relu.forward b", "conv2d.forward a", "linear.backward c"};
	struct ff_comm_cost reduce = {{FF_MOVE_ALL_REDUCE, 2, 1, false}, 3, bytes, us, 1};
	struct ff_comm_cost send = {{FF_MOVE_POINT_TO_POINT, 2, 1, false}, 2, bytes, us};
	struct ff_comm_cost across = {{FF_MOVE_ALL_REDUCE, 2, 2, false}, 2, bytes, us};
	struct ff_comm_cost one_way = {{FF_MOVE_POINT_TO_POINT, 2, 2, true}, 1, bytes, us};

	for (int i = 0; i < 3; i++) {
		struct ff_cost x = cost(keys[i], 1.0 / 3 + i);

		x.alone_us = i * 0.7;
		ck_assert_int_eq(ff_costs_put(c, &x, NULL), FF_OK);
	}
	ck_assert_int_eq(ff_costs_put_comm(c, &reduce, NULL), FF_OK);
	ck_assert_int_eq(ff_costs_put_comm(c, &one_way, NULL), FF_OK);
	ck_assert_int_eq(ff_costs_put_comm(c, &across, NULL), FF_OK);
	ck_assert_int_eq(ff_costs_put_comm(c, &send, NULL), FF_OK);
	ff_costs_set_link(c, (struct ff_rate){0.7, 12345.6789012, 5});
	ff_costs_set_steadiness(c, &(struct ff_steadiness){100, 10, 1.25});
	return c;
}

START_TEST(finds_replaces_and_grows)
{
	struct ff_costs *c = hand_costs("cpu");
	char key[16];
	const struct ff_cost *first;
	struct ff_cost again = cost("k0", 99);

	ck_assert_ptr_null(ff_costs_find(c, "k1", 0));
	for (int i = 0; i < 3000; i++) {
		struct ff_cost x;

		snprintf(key, sizeof(key), "k%d", i);
		x = cost(key, i + 1);
		ck_assert_int_eq(ff_costs_put(c, &x, NULL), FF_OK);
	}
	first = ff_costs_find(c, "k0", 0);
	for (int i = 0; i < 3000; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		ck_assert_double_eq(ff_costs_find(c, key, 0)->median_us, i + 1);
	}
	ck_assert_uint_eq(ff_costs_count(c), 3000);
	ck_assert_int_eq(ff_costs_put(c, &again, NULL), FF_OK);
	ck_assert_uint_eq(ff_costs_count(c), 3000);
	ck_assert_ptr_eq(ff_costs_find(c, "k0", 0), first);
	ck_assert_double_eq(first->median_us, 99);
	ck_assert_ptr_null(ff_costs_find(c, "k3000", 0));
	ff_costs_destroy(c);
}
END_TEST

START_TEST(refuses_nonsense)
{
	struct ff_costs *c = hand_costs("cpu");
	struct ff_error err;
	struct ff_cost bad[] = {cost("", 1), cost("k", 0), cost("k", -1), cost("k", NAN),
			cost("k", INFINITY), cost("k", 1), cost("k", 1), cost("k", 1), cost("k", 1),
			cost("k", 1)};
	double bytes[] = {4, 4}, us[] = {1, 2};
	struct ff_comm_cost flat = {{FF_MOVE_ALL_REDUCE, 2, 1, false}, 2, bytes, us};
	struct ff_comm_cost load = {{FF_MOVE_LOAD, 2, 1, false}, 1, bytes, us};
	struct ff_comm_cost uneven = {{FF_MOVE_ALL_REDUCE, 3, 2, false}, 1, bytes, us};
	struct ff_comm_cost nowhere = {{FF_MOVE_ALL_REDUCE, 2, 0, false}, 1, bytes, us};
	struct ff_comm_cost turned = {{FF_MOVE_ALL_REDUCE, 2, 1, true}, 1, bytes, us};

	bad[5].p10_us = 2;
	bad[6].p90_us = 0.5;
	bad[7].samples = 0;
	bad[8].workspace_bytes = -1;
	bad[9].p10_us = NAN;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_int_eq(ff_costs_put(c, &bad[i], &err), FF_E_INPUT);
	ck_assert_uint_eq(ff_costs_count(c), 0);
	ck_assert_int_eq(ff_costs_put_comm(c, &flat, &err), FF_E_INPUT);
	ck_assert_int_eq(ff_costs_put_comm(c, &load, &err), FF_E_INPUT);
	ck_assert_int_eq(ff_costs_put_comm(c, &uneven, &err), FF_E_INPUT);
	ck_assert_int_eq(ff_costs_put_comm(c, &nowhere, &err), FF_E_INPUT);
	ck_assert_int_eq(ff_costs_put_comm(c, &turned, &err), FF_E_INPUT);
	ck_assert_ptr_null(
			ff_costs_comm(c, (struct ff_comm_shape){FF_MOVE_ALL_REDUCE, 2, 1, false}));
	ff_costs_destroy(c);
}
END_TEST

static void check_same(const struct ff_costs *c, uint32_t n)
{
	static const struct ff_origin origin = {"abacus", "beads 1.2.3", "none", 1, 2, 2, 1};
	const struct ff_cost *x;
	const struct ff_comm_cost *t;

	ck_assert_str_eq(ff_costs_device_kind(c), "cpu");
	ck_assert_int_eq(ff_origin_check("file", ff_costs_origin(c), &origin, NULL), FF_OK);
	ck_assert_uint_eq(ff_costs_count(c), n);
	x = ff_costs_find(c, "conv2d.forward a", 0);
	ck_assert_ptr_nonnull(x);
	ck_assert_double_eq(x->median_us, 1.0 / 3 + 1);
	ck_assert_double_eq(x->p90_us, 2 * (1.0 / 3 + 1));
	ck_assert_double_eq(x->alone_us, 0.7);
	ck_assert_uint_eq(x->samples, 7);
	ck_assert_uint_eq(x->disturbed, 2);
	ck_assert_int_eq(x->workspace_bytes, 64);
	ck_assert_double_eq(ff_costs_rate(c, FF_RATE_UPDATE, 0)->latency_us, 3);
	ck_assert_double_eq(ff_costs_rate(c, FF_RATE_UPDATE, 0)->bytes_per_us, 20);
	ck_assert_double_eq(ff_costs_rate(c, FF_RATE_UPDATE_SGD, 0)->bytes_per_us, 25);
	ck_assert_double_eq(ff_costs_rate(c, FF_RATE_UPDATE_ADAMW, 0)->latency_us, 5);
	ck_assert_double_eq(ff_costs_link(c).bytes_per_us, 12345678901 / 1e6);
	t = ff_costs_comm(c, (struct ff_comm_shape){FF_MOVE_ALL_REDUCE, 2, 1, false});
	ck_assert_ptr_nonnull(t);
	ck_assert_uint_eq(t->n, 3);
	ck_assert_uint_eq(t->disturbed, 1);
	ck_assert_uint_eq(ff_costs_link(c).disturbed, 5);
	ck_assert_uint_eq(ff_costs_steadiness(c)->disturbed, 10);
	ck_assert_double_eq(ff_costs_steadiness(c)->reference_spread, 1.25);
	ck_assert_double_eq(t->bytes[2], 65536);
	ck_assert_double_eq(t->us[2], 40.1);
	ck_assert_uint_eq(ff_costs_comm(c, (struct ff_comm_shape){FF_MOVE_ALL_REDUCE, 2, 2, false})
					  ->n,
			2);
	ck_assert_uint_eq(
			ff_costs_comm(c, (struct ff_comm_shape){FF_MOVE_POINT_TO_POINT, 2, 2, true})
					->n,
			1);
	ck_assert_ptr_null(
			ff_costs_comm(c, (struct ff_comm_shape){FF_MOVE_ALL_REDUCE, 3, 1, false}));
	ck_assert_ptr_null(
			ff_costs_comm(c, (struct ff_comm_shape){FF_MOVE_ALL_GATHER, 2, 1, false}));
}

/* Figures measured after as much had gone by as nearly as there are: in ratio, and of two as
 * near the one after less. */
START_TEST(finds_what_was_measured_most_alike)
{
	static const struct {
		int64_t asked, found;
	} cases[] = {{0, 0}, {10, 0}, {11, 100}, {100, 100}, {400, 100}, {401, 1600},
			{1 << 30, 1600}};
	static const int64_t passed[] = {1600, 0, 100};
	struct ff_costs *c = full();

	for (int i = 0; i < 3; i++) {
		struct ff_cost x = cost("relu.forward b", (double)passed[i] + 1);
		struct ff_rate r = {(double)passed[i], 1, 0, passed[i]};

		x.reuse_bytes = passed[i];
		ck_assert_int_eq(ff_costs_put(c, &x, NULL), FF_OK);
		ck_assert_int_eq(ff_costs_set_rate(c, FF_RATE_COPY, r, NULL), FF_OK);
	}
	ck_assert_uint_eq(ff_costs_count(c), 5); /* at 0 it was there */
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int64_t asked = cases[i].asked, found = cases[i].found;

		ck_assert_int_eq(ff_costs_find(c, "relu.forward b", asked)->reuse_bytes, found);
		ck_assert_double_eq(ff_costs_find(c, "relu.forward b", asked)->median_us,
				(double)found + 1);
		ck_assert_double_eq(
				ff_costs_rate(c, FF_RATE_COPY, asked)->latency_us, (double)found);
	}
	ck_assert_double_eq(ff_costs_rate(c, FF_RATE_ADD, 1600)->latency_us, 2);
	ff_costs_destroy(c);
}
END_TEST

/* Of loads the size of samples counts before what went by. */
START_TEST(loads_go_by_the_size_of_samples)
{
	static const struct {
		int64_t sample, passed;
		double found;
	} cases[] = {{64, 0, 1}, {64, 1 << 30, 2}, {1000, 1 << 30, 2}, {1 << 20, 0, 3},
			{40000, 0, 3}};
	struct ff_costs *c = full();

	ff_costs_set_rate(c, FF_RATE_LOAD, (struct ff_rate){3, 1, 0, 4096, 0, 1 << 18}, NULL);
	ff_costs_set_rate(c, FF_RATE_LOAD, (struct ff_rate){2, 1, 0, 4096, 0, 16}, NULL);
	ff_costs_set_rate(c, FF_RATE_LOAD, (struct ff_rate){1, 1, 0, 64, 0, 16}, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		ck_assert_double_eq(ff_costs_load_rate(c, FF_RATE_LOAD, cases[i].sample,
						    cases[i].passed)
						    ->latency_us,
				cases[i].found);
	ff_costs_destroy(c);
}
END_TEST

START_TEST(round_trip_is_exact_and_sorted)
{
	struct ff_costs *c = full(), *d = NULL;
	struct ff_out once, twice;
	struct ff_error err;
	char path[64];
	const char *conv, *linear;
	struct ff_cost after = cost("linear.backward c", 5);

	after.reuse_bytes = 4096;
	ck_assert_int_eq(ff_costs_put(c, &after, NULL), FF_OK);
	ff_costs_set_rate(c, FF_RATE_ADD, (struct ff_rate){1, 60, 0, 4096, 7}, NULL);
	ff_costs_set_rate(c, FF_RATE_LOAD, (struct ff_rate){1, 60, 0, 4096, 0, 9}, NULL);
	ff_costs_set_rate(c, FF_RATE_LOAD, (struct ff_rate){2, 60, 0, 4096, 0, 8}, NULL);
	ff_out_init(&once);
	ff_out_init(&twice);
	ff_costs_write(c, &once);
	conv = strstr(once.text, "conv2d");
	linear = strstr(once.text, "linear");
	ck_assert(conv < linear && linear < strstr(once.text, "relu"));
	hand_file("", 0, path);
	ck_assert_int_eq(ff_out_save(&once, path, &err), FF_OK);
	ck_assert_msg(ff_costs_load(path, &d, &err) == FF_OK, "%s", err.text);
	check_same(d, 4);
	ck_assert_double_eq(ff_costs_find(d, "linear.backward c", 4096)->median_us, 5);
	ck_assert_double_eq(ff_costs_rate(d, FF_RATE_ADD, 4096)->bytes_per_us, 60);
	ck_assert_double_eq(ff_costs_rate(d, FF_RATE_ADD, 4096)->short_bytes_per_us, 7);
	for (int64_t bytes = 8; bytes < 10; bytes++) {
		const struct ff_rate *load = ff_costs_load_rate(d, FF_RATE_LOAD, bytes, 4096);

		ck_assert_int_eq(load->sample_bytes, bytes);
		ck_assert_double_eq(load->latency_us, (double)(10 - bytes));
	}
	ff_costs_write(d, &twice);
	ck_assert_uint_eq(once.len, twice.len);
	ck_assert_mem_eq(once.text, twice.text, once.len);
	ck_assert_int_eq(unlink(path), 0);
	ff_out_finish(&once);
	ff_out_finish(&twice);
	ff_costs_destroy(c);
	ff_costs_destroy(d);
}
END_TEST

#define NAMES "\"processor\":\"p\",\"kernels\":\"k\",\"mpi\":\"m\""
#define COUNTS "\"cores\":1,\"threads\":1,\"ranks\":2,\"hosts\":1"
#define KIND "{\"format\":\"ffsoap-costs\",\"version\":5,\"device_kind\":\"cpu\","
#define HEAD KIND "\"machine\":{" NAMES "," COUNTS "},"
#define ENTRY(key, median, p10, p90, samples, space)                                               \
	"{\"key\":" key ",\"reuse_bytes\":0,\"median_us\":" median ",\"p10_us\":" p10              \
	",\"p90_us\":" p90 ",\"samples\":" samples ",\"workspace_bytes\":" space "}"
#define ENTRIES(e) HEAD "\"entries\":[" e "]}"
#define COMM(c) HEAD "\"comm\":[" c "],\"entries\":[]}"
#define RATE(r) HEAD "\"rates\":{\"copy\":[" r "]},\"entries\":[]}"

/* Text of a file, and what the sentence must say about it. */
static const struct {
	const char *text, *place, *reason;
} bad_files[] = {
		{"[]", "", "expected an object"},
		{"{\"format\":\"ffsoap-graph\",\"version\":1}", "format", "ffsoap-costs"},
		{"{\"format\":\"ffsoap-costs\",\"version\":6}", "version", "5"},
		{"{\"format\":\"ffsoap-costs\",\"version\":1}", "version",
				"what they were measured on"},
		{"{\"format\":\"ffsoap-costs\",\"version\":2}", "version",
				"do not say what caches held: remove the file and measure again"},
		{"{\"format\":\"ffsoap-costs\",\"version\":3}", "version",
				"what a device takes while its node's others wait"},
		{"{\"format\":\"ffsoap-costs\",\"version\":4}", "version",
				"do not say reuse_bytes, which they called otherwise"},
		{"{\"format\":\"ffsoap-costs\",\"version\":5,\"entries\":[]}", "", "device_kind"},
		{"{\"format\":\"ffsoap-costs\",\"version\":5,\"device_kind\":\"\",\"entries\":[]}",
				"device_kind", "name of a device kind"},
		{KIND "\"entries\":[]}", "", "machine"},
		{KIND "\"machine\":{" NAMES "},\"entries\":[]}", "machine", "cores"},
		{KIND "\"machine\":{" COUNTS "},\"entries\":[]}", "machine", "processor"},
		{KIND "\"machine\":{" NAMES "," COUNTS ",\"gpus\":1},\"entries\":[]}", "machine",
				"gpus"},
		{KIND "\"machine\":{" NAMES "," COUNTS ",\"clock_mhz\":0},\"entries\":[]}",
				"machine.clock_mhz", "1"},
		{HEAD "\"launch\":{\"host_us\":1,\"stream_us\":1},\"entries\":[]}", "launch",
				"alone_us"},
		{HEAD "\"overlap\":{\"between\":-1},\"entries\":[]}", "overlap.between", "0"},
		{HEAD "\"launch\":{\"host_us\":-1,\"stream_us\":1,\"alone_us\":1},\"entries\":[]}",
				"launch.host_us", "0"},
		{HEAD "\"entrys\":[]}", "", "entrys"},
		{HEAD "\"rates\":{}}", "", "entries"},
		{HEAD "\"entries\":{}}", "entries", "expected an array"},
		{HEAD "\"rates\":[],\"entries\":[]}", "rates", "expected an object"},
		{HEAD "\"rates\":{\"cpoy\":{}},\"entries\":[]}", "rates", "cpoy"},
		{HEAD "\"rates\":{\"copy\":{}},\"entries\":[]}", "rates.copy", "expected an array"},
		{RATE("{\"latency_us\":1,\"bytes_per_s\":5}"), "rates.copy[0]", "reuse_bytes"},
		{RATE("{\"latency_us\":1,\"bytes_per_s\":5,\"reuse_bytes\":8},"
		      "{\"latency_us\":2,\"bytes_per_s\":5,\"reuse_bytes\":8}"),
				"rates.copy[1]", "8 stands here again"},
		{RATE("3"), "rates.copy[0]", "expected an object"},
		{RATE("{\"latency_us\":1}"), "rates.copy[0]", "bytes_per_s"},
		{RATE("{\"latency_us\":-1,\"bytes_per_s\":5}"), "rates.copy[0].latency_us", "-1"},
		{RATE("{\"latency_us\":1,\"bytes_per_s\":0}"), "rates.copy[0].bytes_per_s", "0"},
		{RATE("{\"latency_us\":1,\"bytes_per_s\":1e999}"), "rates.copy[0]", "expected"},
		{RATE("{\"latency_us\":1,\"bytes_per_s\":\"fast\"}"), "rates.copy[0].bytes_per_s",
				"expected a number"},
		{HEAD "\"link\":{\"latency_us\":1},\"entries\":[]}", "link", "bytes_per_s"},
		{HEAD "\"link\":3,\"entries\":[]}", "link", "expected an object"},
		{COMM("3"), "comm[0]", "expected an object"},
		{COMM("{\"kind\":\"shout\",\"ranks\":2,\"bytes\":[1],\"us\":[1]}"), "comm[0].kind",
				"shout"},
		{COMM("{\"kind\":\"load\",\"ranks\":2,\"bytes\":[1],\"us\":[1]}"), "comm[0].kind",
				"load"},
		{COMM("{\"kind\":\"halo\",\"ranks\":2,\"one_way\":true,\"bytes\":[1],\"us\":[1]}"),
				"comm[0]", "only point-to-point of 2 ranks goes one way"},
		{COMM("{\"kind\":\"halo\",\"ranks\":1,\"bytes\":[1],\"us\":[1]}"), "comm[0].ranks",
				"1"},
		{COMM("{\"kind\":\"halo\",\"ranks\":2,\"bytes\":[],\"us\":[]}"), "comm[0]",
				"at least one size"},
		{COMM("{\"kind\":\"halo\",\"ranks\":2,\"bytes\":[1,2],\"us\":[1]}"), "comm[0].us",
				"expected 2 numbers"},
		{COMM("{\"kind\":\"halo\",\"ranks\":2,\"bytes\":[2,1],\"us\":[1,2]}"), "comm[0]",
				"ascend"},
		{COMM("{\"kind\":\"halo\",\"ranks\":2,\"bytes\":[-1],\"us\":[1]}"), "comm[0]",
				"bytes[0]"},
		{COMM("{\"kind\":\"halo\",\"ranks\":2,\"bytes\":[1],\"us\":[-1]}"), "comm[0]",
				"us[0]"},
		{COMM("{\"kind\":\"halo\",\"ranks\":2,\"bytes\":[null],\"us\":[1]}"),
				"comm[0].bytes[0]", "expected a number"},
		{COMM("{\"kind\":\"halo\",\"ranks\":2,\"bytes\":[1],\"us\":[1]},"
		      "{\"kind\":\"halo\",\"ranks\":2,\"bytes\":[1],\"us\":[1]}"),
				"comm[1]", "one table of halo among 2 ranks"},
		{COMM("{\"kind\":\"point-to-point\",\"ranks\":2,\"one_way\":true,\"bytes\":[1],"
		      "\"us\":[1]},{\"kind\":\"point-to-point\",\"ranks\":2,\"one_way\":true,"
		      "\"bytes\":[1],\"us\":[1]}"),
				"comm[1]", "as many nodes, one way, but"},
		{COMM("{\"kind\":\"halo\",\"ranks\":3,\"nodes\":2,\"bytes\":[1],\"us\":[1]}"),
				"comm[0]", "3 ranks on 2 nodes: every node must have as many"},
		{COMM("{\"kind\":\"halo\",\"ranks\":2,\"nodes\":1,\"bytes\":[1],\"us\":[1]}"),
				"comm[0].nodes", "1"},
		{ENTRIES("7"), "entries[0]", "expected an object"},
		{ENTRIES("{\"key\":\"a\"}"), "entries[0]", "reuse_bytes"},
		{ENTRIES("{\"key\":\"a\",\"reuse_bytes\":-1}"), "entries[0].reuse_bytes", "-1"},
		{ENTRIES("{\"key\":\"a\",\"reuse_bytes\":0}"), "entries[0]", "median_us"},
		{ENTRIES(ENTRY("\"\"", "1", "1", "1", "1", "0")), "entries[0]", "key"},
		{ENTRIES(ENTRY("3", "1", "1", "1", "1", "0")), "entries[0].key",
				"expected a string"},
		{ENTRIES(ENTRY("\"a\"", "0", "0", "1", "1", "0")), "entries[0]", "above 0"},
		{ENTRIES(ENTRY("\"a\"", "-1", "0", "1", "1", "0")), "entries[0].median_us", "-1"},
		{ENTRIES(ENTRY("\"a\"", "1", "2", "3", "1", "0")), "entries[0]", "p10_us"},
		{ENTRIES(ENTRY("\"a\"", "3", "2", "1", "1", "0")), "entries[0]", "p90_us"},
		{ENTRIES(ENTRY("\"a\"", "1", "1", "1", "0", "0")), "entries[0].samples", "0"},
		{ENTRIES(ENTRY("\"a\"", "1", "1", "1", "1.5", "0")), "entries[0].samples", "1.5"},
		{HEAD "\"steadiness\":{\"samples\":1,\"disturbed\":2,\"reference_spread\":1},"
		      "\"entries\":[]}",
				"steadiness.disturbed", "2"},
		{HEAD "\"steadiness\":{\"samples\":1},\"entries\":[]}", "steadiness", "disturbed"},
		{RATE("{\"latency_us\":1,\"bytes_per_s\":5,\"disturbed\":-1}"),
				"rates.copy[0].disturbed", "-1"},
		{ENTRIES(ENTRY("\"a\"", "1", "1", "1", "1", "-8")), "entries[0].workspace_bytes",
				"-8"},
		{ENTRIES(ENTRY("\"a\"", "1", "1", "1", "1", "0") "," ENTRY(
				 "\"a\"", "2", "2", "2", "1", "0")),
				"entries[1].key", "again"},
};

static void check_bad(const char *text, size_t len, const char *place, const char *reason)
{
	struct ff_costs *c = (struct ff_costs *)text; /* must stay as it is */
	struct ff_error err = {0};
	char path[64];
	int code;

	hand_file(text, len, path);
	code = ff_costs_load(path, &c, &err);
	unlink(path);
	ck_assert_msg(code == FF_E_INPUT, "%.*s gave %d", (int)len, text, code);
	ck_assert_ptr_eq(c, text);
	ck_assert_int_eq(err.code, FF_E_INPUT);
	ck_assert_msg(strstr(err.text, path) && strstr(err.text, place) && strstr(err.text, reason),
			"\"%s\" names not the file, %s and %s", err.text, place, reason);
}

START_TEST(names_what_is_wrong)
{
	check_bad(bad_files[_i].text, strlen(bad_files[_i].text), bad_files[_i].place,
			bad_files[_i].reason);
}
END_TEST

START_TEST(refuses_long_keys)
{
	static char text[4096];
	size_t n = (size_t)snprintf(text, sizeof(text), HEAD "\"entries\":[{\"key\":\"");

	memset(text + n, 'k', FF_COST_KEY_BYTES);
	n += FF_COST_KEY_BYTES;
	n += (size_t)snprintf(text + n, sizeof(text) - n,
			"\",\"reuse_bytes\":0,\"median_us\":1,\"p10_us\":1,\"p90_us\":1,"
			"\"samples\":1,"
			"\"workspace_bytes\":0}]}");
	check_bad(text, n, "entries[0]", "key");
}
END_TEST

START_TEST(refuses_every_truncation)
{
	struct ff_costs *c = full();
	struct ff_out o;
	size_t whole;

	ff_out_init(&o);
	ff_costs_write(c, &o);
	whole = o.len;
	while (whole && o.text[whole - 1] != '}')
		whole--;
	for (size_t n = 0; n < whole; n++)
		check_bad(o.text, n, "", "");
	ff_out_finish(&o);
	ff_costs_destroy(c);
}
END_TEST

START_TEST(names_a_file_that_is_not_there)
{
	struct ff_costs *c = NULL;
	struct ff_error err = {0};

	ck_assert_int_eq(ff_costs_load("/no/such/costs.json", &c, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "/no/such/costs.json"));
	ck_assert_ptr_null(c);
	ff_costs_destroy(NULL);
}
END_TEST

/* Of the kernels' time, or of the lines and tables. */
START_TEST(steady_share_counts_what_matters)
{
	double bytes[] = {1, 2}, us[] = {1, 2};
	struct ff_comm_cost reduce = {{FF_MOVE_ALL_REDUCE, 2, 1, false}, 2, bytes, us, 0};
	struct ff_cost large = cost("large", 90), small = cost("small", 10);
	struct ff_costs *c = hand_costs("cpu");
	/* but those of uploads, downloads, ids and codecs */
	const double rates = FF_RATE_COUNT - 3 - 2 * FF_CODEC_COUNT;

	ck_assert_double_eq(ff_costs_steady_share(c), 1);
	large.disturbed = small.disturbed = 0;
	ck_assert_int_eq(ff_costs_put(c, &large, NULL), FF_OK);
	ck_assert_int_eq(ff_costs_put(c, &small, NULL), FF_OK);
	ck_assert_double_eq(ff_costs_steady_share(c), 1);
	small.disturbed = 1;
	ck_assert_int_eq(ff_costs_put(c, &small, NULL), FF_OK);
	ck_assert_double_eq_tol(ff_costs_steady_share(c), 0.9, 1e-12);
	large.disturbed = 7;
	ck_assert_int_eq(ff_costs_put(c, &large, NULL), FF_OK);
	ck_assert_double_eq(ff_costs_steady_share(c), 0);
	large.disturbed = small.disturbed = 0;
	ck_assert_int_eq(ff_costs_put(c, &large, NULL), FF_OK);
	ck_assert_int_eq(ff_costs_put(c, &small, NULL), FF_OK);
	reduce.disturbed = 1;
	ck_assert_int_eq(ff_costs_put_comm(c, &reduce, NULL), FF_OK);
	/* the rates of hand.h and half of the table */
	ck_assert_double_eq_tol(ff_costs_steady_share(c), (rates + 0.5) / (rates + 1), 1e-12);
	ff_costs_set_link(c, (struct ff_rate){1, 1, 3});
	ck_assert_double_eq_tol(ff_costs_steady_share(c), (rates + 0.5) / (rates + 2), 1e-12);
	ff_costs_destroy(c);
}
END_TEST

/* What only costs of GPUs say. */
START_TEST(a_device_of_its_own)
{
	const struct ff_origin origin = {"abacus", "beads 1.2.3", "none", 1, 2, 2, 1,
			"580.1, CUDA 13.0", 1980, 3201, "nccl 2.28.9"};
	const struct ff_launches launch = {2.5, 1.25, 4};
	struct ff_costs *c = full(), *read;
	struct ff_out first, second;
	char path[64];

	ck_assert_double_eq(ff_costs_launch(c)->alone_us, 0);
	ck_assert_double_eq(ff_costs_overlap(c).inside, -1);
	ck_assert_int_eq(ff_costs_set_origin(c, &origin, NULL), FF_OK);
	ff_costs_set_launch(c, &launch);
	/* what was measured beside other programs is to be read again */
	ff_costs_set_overlap(c, (struct ff_overlap_cost){28.6, -1});
	ck_assert_double_eq(ff_costs_overlap(c).inside, 16);
	ff_costs_set_overlap(c, (struct ff_overlap_cost){-1, 0.25, 0, 0.5});
	ck_assert_int_eq(ff_costs_set_rate(c, FF_RATE_UPLOAD, (struct ff_rate){5, 50000}, NULL),
			FF_OK);
	hand_file("", 0, path);
	ff_out_init(&first);
	ff_out_init(&second);
	ff_costs_write(c, &first);
	ck_assert_int_eq(ff_out_save(&first, path, NULL), FF_OK);
	ck_assert_int_eq(ff_costs_load(path, &read, NULL), FF_OK);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(ff_origin_check("f", ff_costs_origin(read), &origin, NULL), FF_OK);
	ck_assert_str_eq(ff_costs_origin(read)->communication, "nccl 2.28.9");
	ck_assert_double_eq(ff_costs_overlap(read).inside, -1);
	ck_assert_double_eq(ff_costs_overlap(read).between, 0.25);
	ck_assert_double_eq(ff_costs_overlap(read).inside_longer, 0);
	ck_assert_double_eq(ff_costs_overlap(read).between_longer, 0.5);
	ck_assert_double_eq(ff_costs_launch(read)->host_us, 2.5);
	ck_assert_double_eq(ff_costs_launch(read)->stream_us, 1.25);
	ck_assert_double_eq(ff_costs_launch(read)->alone_us, 4);
	ck_assert_double_eq(ff_costs_rate(read, FF_RATE_UPLOAD, 0)->bytes_per_us, 50000);
	ck_assert_ptr_null(ff_costs_rate(read, FF_RATE_DOWNLOAD, 0));
	ff_costs_write(read, &second);
	ck_assert_uint_eq(first.len, second.len);
	ck_assert_mem_eq(first.text, second.text, first.len);
	ff_out_finish(&first);
	ff_out_finish(&second);
	ff_costs_destroy(c);
	ff_costs_destroy(read);
}
END_TEST

START_TEST(another_origin_is_another)
{
	const struct ff_origin was = {"abacus", "beads 1", "none", 1, 2, 3, 4};
	struct ff_origin is[] = {was, was, was, was, was, was, was, was, was, was};
	static const char *const what[] = {"processor: \"abacus\", here \"quipu\"",
			"kernels: \"beads 1\", here \"beads 2\"", "mpi: \"none\", here \"drums\"",
			"cores a rank: 1, here 9", "threads a rank: 2, here 9", "ranks: 3, here 9",
			"hosts: 4, here 9", "driver: \"\", here \"1.2\"",
			"(clock in MHz: 0, here 9)", "memory clock in MHz: 0, here 9"};

	is[0].processor = "quipu";
	is[1].kernels = "beads 2";
	is[2].mpi = "drums";
	is[7].driver = "1.2";
	is[8].clock_mhz = is[9].memory_clock_mhz = 9;
	is[3].cores = is[4].threads = is[5].ranks = is[6].hosts = 9;
	for (int i = 0; i < 10; i++) {
		struct ff_error err = {0};

		ck_assert_int_eq(ff_origin_check("c.json", &was, &is[i], &err), FF_E_INPUT);
		ck_assert_ptr_nonnull(strstr(err.text, "c.json: was measured elsewhere"));
		ck_assert_msg(strstr(err.text, what[i]) != NULL, "%s", err.text);
		ck_assert_ptr_nonnull(strstr(err.text, "--replace"));
	}
	ck_assert_int_eq(ff_origin_check("c.json", &was, &was, NULL), FF_OK);
}
END_TEST

/* Files from before it was told may be of any. */
START_TEST(another_communication_is_another)
{
	const struct ff_origin untold = {"abacus", "beads 1", "none", 1, 2, 3, 4};
	struct ff_origin was = untold, is = untold;
	struct ff_error err = {0};

	is.communication = "mpi";
	ck_assert_int_eq(ff_origin_check("c.json", &untold, &is, &err), FF_OK);
	was.communication = "nccl 2.28.9";
	ck_assert_int_eq(ff_origin_check("c.json", &was, &is, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "communication: \"nccl 2.28.9\", here \"mpi\""));
	is.communication = "nccl 2.28.9";
	ck_assert_int_eq(ff_origin_check("c.json", &was, &is, &err), FF_OK);
	was.topology = "1h1p1n2c2t-00000000";
	ck_assert_int_eq(ff_origin_check("c.json", &was, &is, &err), FF_OK);
	is.topology = "1h1p1n2c2t-00000001";
	ck_assert_int_eq(ff_origin_check("c.json", &was, &is, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "topology: \"1h1p1n2c2t-00000000\", here \"1h1"));
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("costs");
	TCase *t = tcase_create("costs");

	tcase_add_test(t, finds_replaces_and_grows);
	tcase_add_test(t, finds_what_was_measured_most_alike);
	tcase_add_test(t, loads_go_by_the_size_of_samples);
	tcase_add_test(t, refuses_nonsense);
	tcase_add_test(t, round_trip_is_exact_and_sorted);
	tcase_add_loop_test(t, names_what_is_wrong, 0, sizeof(bad_files) / sizeof(*bad_files));
	tcase_add_test(t, refuses_long_keys);
	tcase_add_test(t, refuses_every_truncation);
	tcase_add_test(t, names_a_file_that_is_not_there);
	tcase_add_test(t, a_device_of_its_own);
	tcase_add_test(t, another_origin_is_another);
	tcase_add_test(t, another_communication_is_another);
	tcase_add_test(t, steady_share_counts_what_matters);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
