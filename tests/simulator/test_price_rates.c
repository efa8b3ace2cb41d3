/* Prices by measured rates, of copies, loads and codecs, against hand numbers; and of rows that
 * libraries read fast or not.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/framework.h"
#include "ff/graph_file.h"
#include "ff/zoo.h"

#include "priced.h"

static void set_rate(struct ff_costs *c, uint32_t kind, struct ff_rate rate)
{
	ck_assert_int_eq(ff_costs_set_rate(c, (enum ff_rate_kind)kind, rate, NULL), FF_OK);
}

static struct ff_move load_of(enum ff_dtype type, struct ff_region region)
{
	return (struct ff_move){.kind = FF_MOVE_LOAD,
			.type = type,
			.n_devices = 1,
			.device = devices,
			.region = region};
}

START_TEST(measured_rates)
{
	struct world w;
	struct ff_costs *c = hand_costs("fast");
	struct ff_move load = load_of(FF_F32, box(10, 20));
	struct ff_traffic none = {0};
	struct ff_move copy = {.kind = FF_MOVE_COPY,
			.n_devices = 1,
			.device = devices,
			.traffic = &none,
			.copied_bytes = 500};

	setup(&w, 1, 4, c);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &load), 4 + 40 / 10.0, FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &copy), 1 + 500 / 100.0, FF_PRICE_STEP_US);
	copy.accumulate = true; /* says how, not how much */
	copy.copied_bytes = 300;
	copy.added_bytes = 200;
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &copy), 1 + 300 / 100.0 + 2 + 200 / 50.0,
			FF_PRICE_STEP_US);
	copy.added_bytes = 0;
	copy.copied_bytes = 0;
	ck_assert_double_eq(ff_price_move(w.p, &w.g, &copy), FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(ff_price_update(w.p, 0, 100), 3 + 100 / 20.0, FF_PRICE_STEP_US);
	ck_assert_int_eq(ff_pricer_set_optimizer(w.p, ff_optimizer(FF_OPTIMIZER_ADAMW), NULL),
			FF_OK);
	ck_assert_double_eq_tol(ff_price_update(w.p, 0, 100), 5 + 100 / 8.0, FF_PRICE_STEP_US);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* Labels and other whole numbers have a rate of their own where it was measured. */
START_TEST(ids_are_loaded_at_their_own_rate)
{
	struct ff_costs *c = hand_costs("fast");
	struct ff_move load = load_of(FF_I32, box(0, 25));
	const struct ff_rate ids = {7, 2};
	struct world w;

	setup(&w, 1, 1, c);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &load), 4 + 100 / 10.0, FF_PRICE_STEP_US);
	set_rate(c, FF_RATE_LOAD_IDS, ids);
	price_anew(&w, c);
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &load), 7 + 100 / 2.0, FF_PRICE_STEP_US);
	load.type = FF_F32;
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &load), 4 + 100 / 10.0, FF_PRICE_STEP_US);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* Few large samples are loaded faster than as many bytes of small ones: each has to be found. */
START_TEST(loads_are_priced_by_the_size_of_samples)
{
	struct ff_costs *c = hand_costs("fast");
	struct ff_move load = load_of(FF_F32, (struct ff_region){.rank = 2, .hi = {2, 1000}});
	struct world w;

	set_rate(c, FF_RATE_LOAD, (struct ff_rate){5, 0.5, .sample_bytes = 4});
	set_rate(c, FF_RATE_LOAD, (struct ff_rate){6, 800, .sample_bytes = 4000});
	setup(&w, 1, 1, c);
	ck_assert_double_eq_tol(
			ff_price_move(w.p, &w.g, &load), 6 + 8000 / 800.0, FF_PRICE_STEP_US);
	load.region = (struct ff_region){.rank = 2, .hi = {2000, 1}};
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &load), 5 + 8000 / 0.5, FF_PRICE_STEP_US);
	load.region.hi[0] = 0;
	ck_assert_double_le(ff_price_move(w.p, &w.g, &load), FF_PRICE_STEP_US);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* Of 1,024 elements on two devices, ternary: each encodes all of them and its chunk of 512 and
 * decodes two chunks and then both once more, 6,144 and 8,192 bytes of float32 in two and four
 * kernels. */
START_TEST(codecs_are_priced_as_measured)
{
	const struct ff_codec *ternary = ff_codec(FF_CODEC_TERNARY);
	const double estimated =
			2 + ternary->encode_cost * 6144 / 50 + 2 + ternary->decode_cost * 8192 / 50;
	const double measured = 2 * 7.0 + 6144 / 30.0 + 4 * 11.0 + 8192 / 40.0;
	struct ff_costs *c = hand_costs("fast");
	struct world w;
	double us;

	setup(&w, 1, 2, c);
	ff_pricer_set_travel(w.p, &(struct ff_travel){.codec = ternary});
	us = ff_price_bucket(w.p, 2, devices, 4096);
	set_rate(c, FF_RATE_ENCODE + FF_CODEC_TERNARY, (struct ff_rate){7, 30});
	set_rate(c, FF_RATE_DECODE + FF_CODEC_TERNARY, (struct ff_rate){11, 40});
	price_anew(&w, c);
	ff_pricer_set_travel(w.p, &(struct ff_travel){.codec = ternary});
	ck_assert_double_eq_tol(ff_price_bucket(w.p, 2, devices, 4096) - us, measured - estimated,
			2 * FF_PRICE_STEP_US);
	us = ff_price_sync(w.p, 2, devices, 4096);
	ff_pricer_set_travel(w.p, &(struct ff_travel){.codec = NULL});
	ck_assert_double_eq(ff_price_bucket(w.p, 2, devices, 4096), us);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* Device 0 encodes three messages, of 6,144 bytes of float32 in all, device 1 encodes one of 512
 * and decodes two of 4,096. */
START_TEST(compressed_moves_are_priced_as_measured)
{
	const struct ff_codec *ternary = ff_codec(FF_CODEC_TERNARY);
	struct ff_traffic traffic[] = {{.sent_inside = 408,
						       .n_sent = 3,
						       .received_inside = 36,
						       .n_received = 1,
						       .encoded = 6144,
						       .decoded = 512},
			{.sent_inside = 36,
					.n_sent = 1,
					.received_inside = 272,
					.n_received = 2,
					.encoded = 512,
					.decoded = 4096}};
	struct ff_move mv = {.kind = FF_MOVE_POINT_TO_POINT,
			.n_devices = 2,
			.device = devices,
			.traffic = traffic,
			.added_bytes = 1000};
	const double each[] = {3 * 7 + 6144 / 30.0 + 11 + 512 / 40.0,
			7 + 512 / 30.0 + 2 * 11 + 4096 / 40.0};
	struct ff_costs *c = hand_costs("fast");
	struct world w;
	double us;

	set_rate(c, FF_RATE_ENCODE + FF_CODEC_TERNARY, (struct ff_rate){7, 30});
	set_rate(c, FF_RATE_DECODE + FF_CODEC_TERNARY, (struct ff_rate){11, 40});
	setup(&w, 1, 2, c);
	us = ff_price_move(w.p, &w.g, &mv);
	mv.codec = ternary;
	/* whatever the pricer's is: the move has its own */
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &mv) - us, each[0], 2 * FF_PRICE_STEP_US);
	traffic[0].encoded = 600;
	traffic[0].n_sent = 1;
	traffic[1].n_received = 3;
	ck_assert_double_gt(each[1], 7 + 600 / 30.0 + 11 + 512 / 40.0);
	mv.codec = NULL;
	us = ff_price_move(w.p, &w.g, &mv);
	mv.codec = ternary;
	ck_assert_double_eq_tol(
			ff_price_move(w.p, &w.g, &mv) - us, each[1] + 11, 2 * FF_PRICE_STEP_US);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* 128 bytes a run take 1/100 us a byte, 16 bytes 1/30: so each run takes 0.427 us of its own, and
 * of 128 bytes' time a third is that. */
START_TEST(short_runs_take_longer)
{
	struct ff_costs *c = hand_costs("fast");
	struct ff_rate rate = {1, 100, .short_bytes_per_us = 30};
	struct ff_traffic none = {0};
	struct ff_move copy = {.kind = FF_MOVE_COPY,
			.n_devices = 1,
			.device = devices,
			.traffic = &none,
			.copied_bytes = 1280};
	double each_us = (1 / 30.0 - 1 / 100.0) / (1 / 16.0 - 1 / 128.0), start;
	const int64_t runs[] = {4, 16, 128, 512};
	struct world w;

	setup(&w, 1, 1, c);
	set_rate(c, FF_RATE_COPY, rate);
	price_anew(&w, c);
	start = 1 + 1280 * (1 / 100.0 - each_us / 128);
	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
		copy.run_bytes = runs[i];
		ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &copy),
				start + each_us * 1280 / (double)runs[i], FF_PRICE_STEP_US);
	}
	copy.run_bytes = 0; /* nothing is known of it */
	ck_assert_double_eq_tol(ff_price_move(w.p, &w.g, &copy), 1 + 12.8, FF_PRICE_STEP_US);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* Of both passes of the logits, on the first of so many devices. */
static double logits_us(int32_t words, int32_t places, const char *framework, uint32_t n_devices)
{
	char sets[2][40];
	const char *set[] = {sets[0], sets[1], "layers=1", "dtype=bfloat16"};
	double us[2] = {0, 0};
	struct ff_framework f;
	struct ff_error err;
	struct ff_graph g;
	struct ff_pricer *p;
	struct world w;

	snprintf(sets[0], sizeof(sets[0]), "vocabulary=%d", words);
	snprintf(sets[1], sizeof(sets[1]), "sequence=%d", places);
	setup(&w, 1, n_devices, NULL);
	w.h.kind[0].model = "H100-80GB";
	ck_assert_msg(ff_zoo_build("gpt2", 4, set, 4, &w.arena, &g, &err) == FF_OK, "%s", err.text);
	ck_assert_int_eq(
			ff_pricer_create(&g, &w.h.m, FF_ESTIMATE_MODEL, NULL, NULL, NULL, &p, &err),
			FF_OK);
	if (framework) {
		ck_assert_int_eq(ff_framework_find(framework, &f, &err), FF_OK);
		ff_pricer_set_framework(p, &f);
	}
	for (int pass = 0; pass < 2; pass++) {
		struct ff_work work = part_of(&g, "logits", 1, 0, (enum ff_pass)pass);

		ck_assert_int_eq(ff_price_work(p, &work, 0, &us[pass], NULL), FF_OK);
	}
	ff_pricer_destroy(p);
	teardown(&w);
	return us[0] + us[1];
}

/* As our backend writes logits, with places in a row, words may be as many as they like, but no
 * number of places; frameworks have words in a row. */
START_TEST(uneven_words_are_slow_where_they_are_rows)
{
	double even = logits_us(50264, 1024, NULL, 1);

	ck_assert_double_eq_tol(logits_us(50257, 1024, NULL, 1), even, 0.01 * even);
	ck_assert_double_gt(logits_us(50257, 1021, NULL, 1), 4 * even);
	ck_assert_double_gt(logits_us(50257, 1024, "pytorch", 1), 4 * even);
	ck_assert_double_eq_tol(logits_us(50264, 1024, "pytorch", 1), even, 0.01 * even);
	/* of half a vector less so */
	ck_assert_double_lt(logits_us(50260, 1024, "pytorch", 1), 4 * even);
	ck_assert_double_gt(logits_us(50260, 1024, "pytorch", 1), 2 * even);
}
END_TEST

/* Of 13 features NVIDIA's examples make 16, those of PyTorch stay as they are; both passes. */
START_TEST(examples_pad_what_layers_read)
{
	static const char *const names[] = {"pytorch", "examples"};
	struct ff_graph g;
	struct world w;

	setup(&w, 1, 1, NULL);
	hand_graph(&w.arena, 8, 13, 12, &g);
	for (int i = 0; i < 4; i++) {
		struct ff_work work = part_of(&g, "fc", 1, 0, (enum ff_pass)(i % 2));
		struct ff_kernel_shape s[FF_FRAMEWORK_KERNELS];
		struct ff_framework f;
		struct ff_error err;

		ck_assert_int_eq(ff_framework_find(names[i / 2], &f, &err), FF_OK);
		ck_assert_uint_ge(ff_framework_kernels(&f, &work, s), 1);
		ck_assert_double_eq(i % 2 ? s[0].n : s[0].k, i / 2 ? 16 : 13);
	}
	teardown(&w);
}
END_TEST

/* The kernels of a pass of a convolution of 3 x 3 taps, eight images of 16 channels, in float32. */
static uint32_t convolution(const char *framework, int size, int groups, enum ff_pass pass,
		struct ff_kernel_shape s[FF_FRAMEWORK_KERNELS])
{
	struct ff_framework f;
	struct ff_error err;
	struct ff_arena a;
	struct ff_graph g;
	struct ff_work work;
	char text[600];
	uint32_t n;

	snprintf(text, sizeof(text),
			"{\"format\": \"ffsoap-graph\", \"version\": 2, \"name\": \"g\", "
			"\"nodes\": "
			"[{\"name\": \"x\", \"op\": \"input\", \"shape\": [8, 16, %d, %d]}, "
			"{\"name\": \"t\", \"op\": \"input\", \"shape\": [8, 16, %d, %d]}, "
			"{\"name\": \"y\", \"op\": \"conv2d\", \"in\": [\"x\"], \"kernel\": 3, "
			"\"pad\": 1, "
			"\"out_channels\": 16, \"groups\": %d}, "
			"{\"name\": \"loss\", \"op\": \"mse\", \"in\": [\"y\", \"t\"]}]}",
			size, size, size, size, groups);
	ff_arena_init(&a);
	ck_assert_msg(ff_graph_parse("g.json", text, strlen(text), &a, &g, &err) == FF_OK, "%s",
			err.text);
	ck_assert_int_eq(ff_framework_find(framework, &f, &err), FF_OK);
	work = part_of(&g, "y", 1, 0, pass);
	n = ff_framework_kernels(&f, &work, s);
	ff_arena_finish(&a);
	return n;
}

/* Bytes of its kernels beside the first `but`. */
static double bytes_beside(const char *framework, int groups, enum ff_pass pass, uint32_t but)
{
	struct ff_kernel_shape s[FF_FRAMEWORK_KERNELS];
	double bytes = 0;

	for (uint32_t i = but, n = convolution(framework, 10, groups, pass, s); i < n; i++)
		bytes += s[i].bytes;
	return bytes;
}

/* Winograd's tiles of two places each way compute places that images of odd sides have not. */
START_TEST(tiles_of_convolutions)
{
	struct ff_kernel_shape s[FF_FRAMEWORK_KERNELS];

	for (int size = 1; size < 16; size++) {
		double side = size % 2 ? size + 1 : size;

		convolution("pytorch", size, 1, FF_FORWARD, s);
		ck_assert_double_eq_tol(s[0].winograd, side * side / (size * size), 1e-12);
		convolution("pytorch", size, 16, FF_FORWARD, s);
		ck_assert_double_eq(s[0].winograd, 0);
	}
}
END_TEST

/* Nobody asks for the gradient of an input. */
START_TEST(convolutions_of_frameworks)
{
	const double image = 4. * 8 * 16 * 10 * 10, filter = 4. * 16 * 9;

	ck_assert_double_eq(bytes_beside("pytorch", 1, FF_FORWARD, 1), 2 * image);
	ck_assert_double_eq(bytes_beside("examples-xla", 1, FF_FORWARD, 1), 0);
	ck_assert_double_eq(bytes_beside("pytorch", 1, FF_BACKWARD, 0) -
					    bytes_beside("pytorch", 1, FF_BACKWARD, 1),
			2 * image + filter * 16);
	ck_assert_double_eq(bytes_beside("pytorch", 16, FF_BACKWARD, 0) -
					    bytes_beside("pytorch", 16, FF_BACKWARD, 1),
			9 * (2 * image + filter));
	ck_assert_double_eq(bytes_beside("oneflow", 16, FF_BACKWARD, 0) -
					    bytes_beside("oneflow", 16, FF_BACKWARD, 1),
			2 * image + filter);
}
END_TEST

/* The largest of n numbers that are normal, as tables of order statistics have it (Harter, 1961).
 */
START_TEST(steps_wait_for_the_slowest_device)
{
	static const struct {
		uint32_t n;
		double largest;
	} known[] = {{2, 0.5642}, {4, 1.0294}, {8, 1.4236}, {16, 1.7660}, {100, 2.5076}};
	struct ff_framework f;
	struct ff_error err;

	ck_assert_int_eq(ff_framework_find("fsdp", &f, &err), FF_OK);
	ck_assert_double_eq(ff_framework_slowest(&f, 1), 1);
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		ck_assert_double_eq_tol(ff_framework_slowest(&f, known[i].n) - 1,
				known[i].largest * 0.08 / 5.4,
				0.05 * known[i].largest * 0.08 / 5.4);
	f.alike = true;
	ck_assert_double_eq(ff_framework_slowest(&f, 1024), 1);
}
END_TEST

/* Our runtime's prices are those of one device. */
START_TEST(kernels_of_frameworks_wait_for_the_slowest_device)
{
	struct ff_framework f;
	struct ff_error err;
	double us[2];

	for (int i = 0; i < 2; i++)
		us[i] = logits_us(50264, 1024, i ? "fsdp" : NULL, 1);
	ck_assert_int_eq(ff_framework_find("fsdp", &f, &err), FF_OK);
	ck_assert_double_eq(logits_us(50264, 1024, NULL, 8), us[0]);
	ck_assert_double_eq_tol(logits_us(50264, 1024, "fsdp", 8),
			us[1] * ff_framework_slowest(&f, 8), 4 * FF_PRICE_STEP_US);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("price_rates");
	TCase *t = tcase_create("price_rates");

	tcase_add_test(t, measured_rates);
	tcase_add_test(t, ids_are_loaded_at_their_own_rate);
	tcase_add_test(t, loads_are_priced_by_the_size_of_samples);
	tcase_add_test(t, codecs_are_priced_as_measured);
	tcase_add_test(t, compressed_moves_are_priced_as_measured);
	tcase_add_test(t, short_runs_take_longer);
	tcase_add_test(t, uneven_words_are_slow_where_they_are_rows);
	tcase_add_test(t, examples_pad_what_layers_read);
	tcase_add_test(t, tiles_of_convolutions);
	tcase_add_test(t, convolutions_of_frameworks);
	tcase_add_test(t, steps_wait_for_the_slowest_device);
	tcase_add_test(t, kernels_of_frameworks_wait_for_the_slowest_device);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
