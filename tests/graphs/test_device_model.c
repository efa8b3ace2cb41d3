/* Models of devices: files, which one a kind has, and times of whatever shape.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "check_main.h"
#include "ff/device_model.h"
#include "ff/graph_file.h"
#include "ff/philox.h"
#include "ff/zoo.h"
#include "operator/example.h"

static const char *const kinds[] = {"K80", "P100-16GB", "V100-16GB", "V100-32GB", "V100-SXM3-32GB",
		"T4", "L4", "A10-24GB", "A40-48GB", "RTX-A6000-48GB", "RTX-3090-24GB",
		"RTX-4090-24GB", "L40S-48GB", "A100-PCIE-40GB", "A100-40GB", "A100-80GB",
		"H100-PCIE-80GB", "H100-80GB", "H200-141GB", "B200-180GB"};
#define N_KINDS (sizeof(kinds) / sizeof(*kinds))

static const struct ff_device_model *model_of(const char *kind, struct ff_arena *a)
{
	const struct ff_device_kind k = {.name = kind};
	const struct ff_device_model *m;
	struct ff_error err;

	ck_assert_msg(ff_device_model_find(&k, a, &m, &err) == FF_OK, "%s", err.text);
	return m;
}

static void check_pass(const struct ff_device_model *m, const struct ff_graph *g, uint32_t node,
		enum ff_pass pass)
{
	const struct ff_node *n = &g->nodes[node];
	struct ff_kernel_shape s[FF_MOST_KERNELS];
	struct ff_region box = {.rank = n->n_dims};
	struct ff_inferred inferred;
	struct ff_work w;
	uint32_t kernels;
	double us;

	for (uint32_t i = 0; i < n->n_dims; i++)
		box.hi[i] = n->dim[i].extent;
	ff_work_fill(g, node, &box, pass, &w);
	kernels = ff_work_kernels(&w, s);
	us = ff_device_model_work_us(m, &w, &inferred);
	ck_assert_uint_le(kernels, FF_MOST_KERNELS);
	ck_assert_msg(isfinite(us) && (kernels ? us > 0 : us == 0), "%s on %s: %g us",
			ff_op_row(n->op)->name, m->name, us);
	ck_assert(inferred.us >= 0 && inferred.us <= us * (1 + 1e-9));
	ck_assert_int_eq(inferred.us > 0, inferred.classes > 0);
}

START_TEST(every_row)
{
	struct ff_arena a;
	uint32_t rows = 0;

	ff_arena_init(&a);
	for (size_t k = 0; k < N_KINDS; k++)
		for (int op = 0; op < FF_OP_COUNT; op++) {
			uint32_t flags = ff_op_row((enum ff_op)op)->flags, node;
			struct ff_error err;
			struct ff_graph g;

			if (flags & (FF_OP_SOURCE | FF_OP_UPDATE | FF_OP_PRELUDE))
				continue;
			ck_assert_msg(ff_op_example((enum ff_op)op, &a, &g, &node, &err) == FF_OK,
					"%s", err.text);
			for (uint32_t i = 0; i < g.n_nodes; i++)
				for (int pass = 0; pass < 2 && ff_node_is_computed(&g, i); pass++)
					check_pass(model_of(kinds[k], &a), &g, i,
							(enum ff_pass)pass);
			rows++;
		}
	ck_assert_uint_gt(rows, N_KINDS * 50);
	ff_arena_finish(&a);
}
END_TEST

/* From nothing to more than any device has. */
static double drawn(struct ff_random *r)
{
	return floor(exp2(ff_random_below(r, 31)) * (1 + ff_random_below(r, 8) / 8.0));
}

/* Of a kernel of Ampere's instructions: floor, share, startup, waves, backward, block, narrow. */
static const double portable[FF_MODEL_PARAMETERS] = {5, 0.5, 200, 0.5, 4, 0, 0};

static struct ff_kernel_shape drawn_shape(struct ff_random *r)
{
	struct ff_kernel_shape s = {
			.class = (enum ff_kernel_class)ff_random_below(r, FF_KERNEL_CLASS_COUNT),
			.type = ff_random_below(r, 2) ? FF_BF16 : FF_F32,
			.tf32 = ff_random_below(r, 2),
			.channels_first = ff_random_below(r, 2),
			.m = drawn(r),
			.n = drawn(r),
			.k = drawn(r),
			.count = floor(sqrt(drawn(r))),
			.share = ff_random_below(r, 5) / 4.0,
			.back = ff_random_below(r, 2),
			.pass = (enum ff_conv_pass)ff_random_below(r, FF_CONV_PASSES),
			.taps = ff_random_below(r, 2) ? 9 : 1,
			.stride = ff_random_below(r, 2) ? 4 : 1,
			.steps = (enum ff_steps)ff_random_below(r, FF_STEPS_WHOLE + 1)};

	if (ff_random_below(r, 2))
		s.attention = portable;
	s.winograd = s.taps > 1 && s.stride == 1 && s.count <= 1;
	s.bytes = s.count * (s.m * s.k + s.n * s.k + s.m * s.n) * 4;
	return s;
}

/* What arithmetic and memory take; Winograd's F(2x2, 3x3) multiplies 16 times for 36. */
static double least_us(const struct ff_device_model *m, const struct ff_kernel_shape *s)
{
	double times = s->class == FF_KERNEL_CONVOLUTION && s->winograd ? 16.0 / 36 : 1;
	double flops = 2 * s->m * s->n * s->k * s->count * times;
	double rate = m->flops_per_s[s->type == FF_BF16];
	double us = flops * 1e6 / (s->tf32 ? fmax(rate, m->tf32_flops_per_s) : rate);

	if (s->class < FF_KERNEL_PRODUCT)
		us = 0;
	if (s->class == FF_KERNEL_ATTENTION)
		us *= 2 * s->share;
	if (s->class != FF_KERNEL_RECURRENT)
		us = fmax(us, s->bytes * 1e6 / m->memory_bytes_per_s);
	return us * (1 - 1e-9);
}

START_TEST(any_shape)
{
	struct ff_random r = {.seed = ff_test_seed(31), .stream = 1};
	uint32_t met[FF_KERNEL_CLASS_COUNT] = {0};
	struct ff_arena a;

	ff_arena_init(&a);
	for (size_t k = 0; k < N_KINDS; k++) {
		const struct ff_device_model *m = model_of(kinds[k], &a);

		for (uint32_t i = 0; i < ff_test_rounds(3000); i++) {
			struct ff_kernel_shape s = drawn_shape(&r);
			double us = ff_device_model_us(m, &s, NULL);

			ck_assert_msg(isfinite(us) && us > 0, "%s on %s: %g us",
					ff_kernel_class_name(s.class), kinds[k], us);
			ck_assert_msg(us >= least_us(m, &s), "%s on %s: %g us",
					ff_kernel_class_name(s.class), kinds[k], us);
			met[s.class]++;
		}
	}
	ck_assert_uint_eq(ff_test_unmet(met, FF_KERNEL_CLASS_COUNT), FF_KERNEL_CLASS_COUNT);
	ff_arena_finish(&a);
}
END_TEST

/* Twice the batch never takes less. */
static struct ff_kernel_shape of_twice(struct ff_kernel_shape s)
{
	s.bytes *= 2;
	if (s.class == FF_KERNEL_ATTENTION)
		s.count *= 2;
	else if (s.class == FF_KERNEL_CONVOLUTION && s.pass == FF_CONV_FILTER)
		s.k *= 2;
	else
		s.m *= 2;
	return s;
}

START_TEST(monotone_in_batch)
{
	struct ff_random r = {.seed = ff_test_seed(32), .stream = 1};
	struct ff_arena a;

	ff_arena_init(&a);
	for (size_t k = 0; k < N_KINDS; k++) {
		const struct ff_device_model *m = model_of(kinds[k], &a);

		for (uint32_t i = 0; i < ff_test_rounds(3000); i++) {
			struct ff_kernel_shape s = drawn_shape(&r), twice;
			double us, more;

			s.k = 4 * ceil(s.k / 4); /* as aligned as twice of it */
			if (s.class == FF_KERNEL_CONVOLUTION && s.pass == FF_CONV_FILTER)
				s.k *= 2;
			twice = of_twice(s);
			us = ff_device_model_us(m, &s, NULL);
			more = ff_device_model_us(m, &twice, NULL);
			ck_assert_msg(more >= us * (1 - 1e-9), "%s on %s: %g us, of twice %g",
					ff_kernel_class_name(s.class), kinds[k], us, more);
		}
	}
	ff_arena_finish(&a);
}
END_TEST

static double us_of(const struct ff_device_model *m, struct ff_kernel_shape s, enum ff_dtype type,
		bool tf32, bool first)
{
	s.type = type;
	s.bytes *= (double)ff_dtype_bytes(type);
	s.tf32 = tf32;
	s.channels_first = first;
	return ff_device_model_us(m, &s, NULL);
}

/* TF32 lies between float32 and bfloat16 where tensor cores know it, and is float32 elsewhere; to
 * bring channels in order takes time where there are tensor cores, no longer than not to use them.
 */
START_TEST(tensor_cores)
{
	const struct ff_kernel_shape shape[] = {{.class = FF_KERNEL_PRODUCT,
								.m = 4096,
								.n = 4096,
								.k = 4096,
								.count = 1,
								.bytes = 3 * 4096 * 4096},
			{.class = FF_KERNEL_CONVOLUTION,
					.m = 50176,
					.n = 256,
					.k = 2304,
					.taps = 9,
					.count = 1,
					.stride = 1,
					.bytes = 2 * 50176 * 256}};
	struct ff_arena a;

	ff_arena_init(&a);
	for (size_t k = 0; k < 2 * N_KINDS; k++) {
		const struct ff_device_model *m = model_of(kinds[k / 2], &a);
		const struct ff_kernel_shape *s = &shape[k % 2];
		double plain = us_of(m, *s, FF_F32, false, false);
		double tf32 = us_of(m, *s, FF_F32, true, false);
		double first = us_of(m, *s, FF_F32, true, true);
		double narrow = us_of(m, *s, FF_BF16, false, false);
		bool convolution = s->class == FF_KERNEL_CONVOLUTION;

		if (m->tf32_flops_per_s > 0) {
			if (m->tf32_flops_per_s > m->flops_per_s[0])
				ck_assert_double_lt(tf32, plain);
			else
				ck_assert_double_le(tf32, plain);
			ck_assert_double_gt(tf32, narrow);
		} else {
			ck_assert_double_eq(tf32, plain);
		}
		if (convolution && m->tf32_flops_per_s > 0)
			ck_assert_double_gt(first, tf32);
		else
			ck_assert_double_eq(first, tf32);
		ck_assert_double_le(first, plain);
		ck_assert_double_eq(us_of(m, *s, FF_F32, false, true), plain);
		if (convolution && m->flops_per_s[1] > m->flops_per_s[0])
			ck_assert_double_gt(us_of(m, *s, FF_BF16, false, true), narrow);
	}
	ff_arena_finish(&a);
}
END_TEST

/* In a step products are no faster than the fastest of all shapes that was measured over and over
 * (Bekman, ml-engineering, "Maximum Achievable Matmul FLOPS"), and timed alone no slower than in a
 * step, the less so the longer they take. */
START_TEST(sustained)
{
	static const struct {
		const char *kind;
		double m, n, k, most_flops_per_s;
	} best[] = {{"A100-80GB", 6912, 16384, 2048, 267.9e12},
			{"H100-80GB", 6144, 17920, 2816, 792.1e12}};
	struct ff_arena a;

	ff_arena_init(&a);
	for (size_t i = 0; i < sizeof(best) / sizeof(*best); i++) {
		struct ff_kernel_shape s =
				ff_kernel_product(FF_BF16, 1, best[i].m, best[i].n, best[i].k);
		double us = ff_device_model_us(model_of(best[i].kind, &a), &s, NULL);
		double flops_per_s = 2e6 * s.m * s.n * s.k / us;

		ck_assert_double_lt(flops_per_s, best[i].most_flops_per_s);
		ck_assert_double_gt(flops_per_s, 0.8 * best[i].most_flops_per_s);
	}
	for (size_t k = 0; k < N_KINDS; k++) {
		const struct ff_device_model *m = model_of(kinds[k], &a);
		bool held = strstr(kinds[k], "H") == kinds[k] || strstr(kinds[k], "B200");
		bool bursts = strstr(kinds[k], "V100"); /* alone they never get so far */
		double before = 2;

		for (double side = 4096; side <= 32768; side *= 2) {
			struct ff_kernel_shape s = ff_kernel_product(FF_BF16, 1, side, side, side);
			double us = ff_device_model_us(m, &s, NULL), ratio;

			s.brief = true;
			ratio = us / ff_device_model_us(m, &s, NULL);
			if (bursts)
				ck_assert(ratio > 1.18 && ratio < 1 / 0.83);
			else if (held)
				ck_assert(ratio > 1 && ratio < before);
			else
				ck_assert_double_eq(ratio, 1);
			before = ratio;
		}
	}
	ff_arena_finish(&a);
}
END_TEST

/* The time of a product in bfloat16 over that of whole vectors. */
static double slower(const struct ff_device_model *m, double rows, double columns, double inner,
		bool a_transposed)
{
	struct ff_kernel_shape s = ff_kernel_product(FF_BF16, 1, rows, columns, inner);
	struct ff_kernel_shape even = ff_kernel_product(FF_BF16, 1, 4096, 4096, 4096);

	s.a_transposed = a_transposed;
	return ff_device_model_us(m, &s, NULL) / ff_device_model_us(m, &even, NULL);
}

/* Rows are of columns, and of what is contracted, or of the first factor's own: the fewer bytes
 * they are a multiple of, the slower (bench/h100_kernels.csv: 2.8 times of 8 bytes, 5 to 8 times
 * of 2). */
START_TEST(rows_that_are_no_whole_vectors)
{
	const struct ff_device_model *m;
	struct ff_arena a;

	ff_arena_init(&a);
	m = model_of("H100-80GB", &a);
	ck_assert_double_eq_tol(slower(m, 4095, 4096, 4096, false), 1, 0.01);
	ck_assert_double_eq_tol(slower(m, 4096, 4096, 4095, true), 1, 0.01);
	ck_assert_double_gt(slower(m, 4096, 4095, 4096, false), 5);
	ck_assert_double_gt(slower(m, 4096, 4096, 4095, false), 5);
	ck_assert_double_gt(slower(m, 4095, 4096, 4096, true), 5);
	ck_assert_double_eq_tol(slower(m, 4096, 4092, 4096, false), 2.8, 0.3);
	ck_assert_double_eq_tol(slower(m, 4096, 4094, 4096, false), 3.9, 0.4);
	/* of other kinds aligned rows are less far ahead */
	ck_assert_double_eq_tol(slower(model_of("A100-80GB", &a), 4096, 4095, 4096, false), 3, 0.2);
	ff_arena_finish(&a);
}
END_TEST

START_TEST(which_model)
{
	const struct ff_device_kind unknown = {.name = "abacus"}, path = {.name = "../models/T4"};
	const struct ff_device_kind named = {.name = "some card", .model = "T4"};
	const struct ff_device_kind missing = {.name = "some card", .model = "T5"};
	const struct ff_device_model *m;
	struct ff_machine machine;
	struct ff_error err;
	struct ff_arena a;

	ff_arena_init(&a);
	ck_assert_int_eq(ff_device_model_find(&unknown, &a, &m, &err), FF_OK);
	ck_assert_ptr_null(m);
	ck_assert_int_eq(ff_device_model_find(&path, &a, &m, &err), FF_OK);
	ck_assert_ptr_null(m);
	ck_assert_int_eq(ff_device_model_find(&named, &a, &m, &err), FF_OK);
	ck_assert_str_eq(m->name, "T4");
	ck_assert_int_eq(ff_device_model_find(&missing, &a, &m, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "there is no model \"T5\""));
	ck_assert_int_eq(ff_machine_load("p100x16", &a, &machine, &err), FF_OK);
	ck_assert_int_eq(ff_device_model_find(machine.kinds, &a, &m, &err), FF_OK);
	ck_assert_str_eq(m->name, "P100-16GB");
	ff_arena_finish(&a);
}
END_TEST

#define BOUND                                                                                      \
	"{\"basis\": \"measured\", \"parameters\": {\"floor_us\": 2, \"share\": 1, \"backward\": " \
	"1}}"
#define ROOT                                                                                       \
	"\"format\": \"ffsoap-device-model\", \"version\": 1, \"name\": \"n\", \"source\": "       \
	"\"s\", "                                                                                  \
	"\"multiprocessors\": 4, \"flops_per_s\": 1e12, \"memory_bytes_per_s\": 1e11"

static const struct {
	const char *text, *why;
} bad[] = {
		{"{" ROOT "}", "classes"},
		{"{" ROOT ", \"classes\": {}}", "the class \"stream\" is missing"},
		{"{" ROOT ", \"classes\": {\"steam\": {}}}", "there is no such class of kernels"},
		{"{" ROOT ", \"surplus\": 1, \"classes\": {}}", "surplus"},
		{"{" ROOT ", \"classes\": {\"stream\": 3}}", "expected an object"},
		{"{" ROOT
		 ", \"classes\": {\"stream\": {\"basis\": \"guessed\", \"parameters\": {}}}}",
				"expected \"measured\" or \"inferred from\""},
		{"{" ROOT ", \"classes\": {\"stream\": {\"basis\": \"measured\", \"parameters\": "
		 "{\"floor_us\": 2, \"share\": 0, \"backward\": 1}}}}",
				"share"},
		{"{" ROOT ", \"classes\": {\"stream\": {\"basis\": \"measured\", \"parameters\": "
		 "{\"floor_us\": 2, \"share\": 1}}}}",
				"backward"},
		{"{" ROOT ", \"classes\": {\"stream\": " BOUND ", \"softmax\": " BOUND
		 ", \"norm\": " BOUND ", \"pool\": " BOUND ", \"lookup\": " BOUND "}}",
				"the class \"product\" is missing in float32"},
		{"{" ROOT ", \"classes\": {\"stream\": {\"basis\": \"measured\", \"parameters\": "
		 "{\"floor_us\": 2, \"share\": 1.09, \"backward\": 1}}}}",
				"share: expected a number from 0.0001 to 1"},
		{"{\"format\": \"ffsoap-machine\", \"version\": 1}", "format"},
};

START_TEST(bad_files)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct ff_device_model m;
		struct ff_error err = {0};
		struct ff_arena a;

		ff_arena_init(&a);
		ck_assert_int_eq(ff_device_model_parse("m.json", bad[i].text, strlen(bad[i].text),
						 &a, &m, &err),
				FF_E_INPUT);
		ck_assert_msg(strstr(err.text, bad[i].why) && strstr(err.text, "m.json"),
				"%s: expected %s", err.text, bad[i].why);
		ff_arena_finish(&a);
	}
}
END_TEST

/* The kernel of a recurrence of so many samples and features, and of 20 steps. */
static struct ff_kernel_shape steps_of(enum ff_op op, int gates, int samples, int hidden,
		const char *attrs, struct ff_arena *a)
{
	struct ff_kernel_shape s[FF_MOST_KERNELS];
	struct ff_region box = {.rank = 2, .hi = {samples, 20}};
	struct ff_error err;
	struct ff_graph g;
	struct ff_work w;
	char text[500];

	snprintf(text, sizeof(text),
			"{\"format\": \"ffsoap-graph\", \"version\": 2, \"name\": \"g\", "
			"\"nodes\": "
			"[{\"name\": \"x\", \"op\": \"input\", \"shape\": [%d, 20, %d]}, "
			"{\"name\": \"t\", \"op\": \"input\", \"shape\": [%d, 20, %d]}, "
			"{\"name\": \"y\", \"op\": \"%s\", \"in\": [\"x\"]%s}, "
			"{\"name\": \"loss\", \"op\": \"mse\", \"in\": [\"y\", \"t\"]}]}",
			samples, gates * hidden, samples, hidden, ff_op_row(op)->name, attrs);
	ck_assert_msg(ff_graph_parse("g.json", text, strlen(text), a, &g, &err) == FF_OK, "%s",
			err.text);
	ff_work_fill(&g, ff_graph_find(&g, "y"), &box, FF_FORWARD, &w);
	ck_assert_uint_eq(ff_work_kernels(&w, s), 1);
	ck_assert_int_eq(s[0].class, FF_KERNEL_RECURRENT);
	ck_assert_double_eq(s[0].m * s[0].n * s[0].k, (double)samples * gates * hidden * hidden);
	return s[0];
}

/* What the CUDA backend launches is what is priced: one kernel where a step is short, else two a
 * step, or a half of one. */
START_TEST(steps_of_recurrences)
{
	struct ff_kernel_shape whole, launched, halves;
	struct ff_arena a;

	ff_arena_init(&a);
	whole = steps_of(FF_OP_LSTM, 4, 16, 512, "", &a); /* 2^24 multiplications */
	launched = steps_of(FF_OP_LSTM, 4, 17, 512, "", &a);
	halves = steps_of(FF_OP_GRU, 3, 4, 32, ", \"reset_first\": true", &a);
	ck_assert_int_eq(whole.steps, FF_STEPS_WHOLE);
	ck_assert_int_eq(launched.steps, FF_STEPS_LAUNCHED);
	ck_assert_int_eq(halves.steps, FF_STEPS_LAUNCHED);
	ck_assert_int_eq(steps_of(FF_OP_GRU, 3, 4, 32, "", &a).steps, FF_STEPS_WHOLE);
	ck_assert_double_eq(whole.count, 20);
	ck_assert_double_eq(halves.count, 40);
	for (size_t k = 0; k < N_KINDS; k++) {
		const struct ff_device_model *m = model_of(kinds[k], &a);
		double nothing_us = ff_device_model_stream_us(m, 0);
		struct ff_kernel_shape s = whole;
		bool inferred;
		double us;

		us = ff_device_model_us(m, &whole, &inferred);
		ck_assert(inferred);
		ck_assert_double_gt(us, 20 * nothing_us);
		s.steps = FF_STEPS_LAUNCHED;
		if (strstr(kinds[k], "00-")) /* other caches are smaller than the weights */
			ck_assert_double_lt(us, ff_device_model_us(m, &s, NULL));
		ck_assert_double_gt(ff_device_model_us(m, &halves, NULL), 40 * nothing_us);
	}
	ff_arena_finish(&a);
}
END_TEST

/* The kernels of eight groups with so many channels each, going in and out. */
static uint32_t kernels_of_groups(
		int in, int out, enum ff_pass pass, struct ff_kernel_shape *s, struct ff_arena *a)
{
	struct ff_region box = {0};
	struct ff_error err;
	struct ff_graph g;
	struct ff_work w;
	uint32_t node;
	char text[500];

	snprintf(text, sizeof(text),
			"{\"format\": \"ffsoap-graph\", \"version\": 2, \"name\": \"g\", "
			"\"dtype\": \"bfloat16\", \"nodes\": "
			"[{\"name\": \"x\", \"op\": \"input\", \"shape\": [4, %d, 100]}, "
			"{\"name\": \"t\", \"op\": \"input\", \"shape\": [4, %d, 100]}, "
			"{\"name\": \"y\", \"op\": \"conv1d\", \"in\": [\"x\"], \"kernel\": 1, "
			"\"out_channels\": %d, \"groups\": 8, \"bias\": false}, "
			"{\"name\": \"loss\", \"op\": \"mse\", \"in\": [\"y\", \"t\"]}]}",
			8 * in, 8 * out, 8 * out);
	ck_assert_msg(ff_graph_parse("g.json", text, strlen(text), a, &g, &err) == FF_OK, "%s",
			err.text);
	node = ff_graph_find(&g, "y");
	box.rank = g.nodes[node].n_dims;
	for (uint32_t i = 0; i < box.rank; i++)
		box.hi[i] = g.nodes[node].dim[i].extent;
	ff_work_fill(&g, node, &box, pass, &w);
	return ff_work_kernels(&w, s);
}

/* Experts' layers are products, which were measured on more devices than convolutions. */
START_TEST(groups_of_one_tap)
{
	struct ff_kernel_shape s[FF_MOST_KERNELS];
	struct ff_arena a;

	ff_arena_init(&a);
	for (int pass = FF_FORWARD; pass <= FF_BACKWARD; pass++) {
		uint32_t n = kernels_of_groups(64, 256, (enum ff_pass)pass, s, &a);

		ck_assert_uint_eq(n, 1); /* nobody asks for the gradient of an input */
		ck_assert_int_eq(s[0].class, FF_KERNEL_PRODUCT);
		ck_assert_double_eq(s[0].count, 8);
		ck_assert_double_eq(s[0].m * s[0].n * s[0].k, 400. * 64 * 256);
	}
	kernels_of_groups(60, 256, FF_FORWARD, s, &a); /* rows do not begin where vectors may */
	ck_assert_int_eq(s[0].class, FF_KERNEL_CONVOLUTION);
	ff_arena_finish(&a);
}
END_TEST

/* What backward of a part of convolution `name` multiplies for images, or for its filter. */
static double multiplied(const struct ff_graph *g, const char *name, const struct ff_region *box,
		enum ff_conv_pass pass)
{
	struct ff_kernel_shape s[FF_MOST_KERNELS];
	uint32_t node = 0;
	struct ff_work w;
	double sum = 0;

	while (strcmp(g->nodes[node].name, name) != 0)
		node++;
	ff_work_fill(g, node, box, FF_BACKWARD, &w);
	for (uint32_t i = 0, n = ff_work_kernels(&w, s); i < n; i++) {
		ck_assert_int_eq(s[i].class, FF_KERNEL_CONVOLUTION);
		sum += s[i].pass == pass ? s[i].m * s[i].n * s[i].k : 0;
	}
	return sum;
}

/* Parts of a convolution, all together, multiply no less than the whole: of strides each does what
 * they pass over, too, and few channels of one group are still a product. */
START_TEST(parts_of_convolutions)
{
	const struct ff_region all = {.rank = 5, .hi = {4, 2048, 7, 7, 1024}};
	const struct ff_region place = {
			.rank = 5, .lo = {0, 0, 3, 3, 0}, .hi = {4, 2048, 4, 4, 1024}};
	const struct ff_region image = {.rank = 5, .hi = {4, 64, 112, 112, 3}};
	const struct ff_region few = {.rank = 5, .hi = {4, 2, 112, 112, 3}};
	static const char strided[] = "layer4.0.downsample.0";
	struct ff_error err;
	struct ff_graph g;
	struct ff_arena a;

	ff_arena_init(&a);
	ck_assert_msg(ff_zoo_build("resnet50", 4, NULL, 0, &a, &g, &err) == FF_OK, "%s", err.text);
	ck_assert_double_eq(multiplied(&g, strided, &all, FF_CONV_IMAGE), 4. * 2048 * 49 * 1024);
	ck_assert_double_eq(49 * multiplied(&g, strided, &place, FF_CONV_IMAGE),
			multiplied(&g, strided, &all, FF_CONV_IMAGE));
	ck_assert_double_eq(32 * multiplied(&g, "conv1", &few, FF_CONV_FILTER),
			multiplied(&g, "conv1", &image, FF_CONV_FILTER));
	ff_arena_finish(&a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("device_model");
	TCase *t = tcase_create("device_model");

	tcase_add_test(t, every_row);
	tcase_add_test(t, any_shape);
	tcase_add_test(t, monotone_in_batch);
	tcase_add_test(t, tensor_cores);
	tcase_add_test(t, sustained);
	tcase_add_test(t, rows_that_are_no_whole_vectors);
	tcase_add_test(t, steps_of_recurrences);
	tcase_add_test(t, groups_of_one_tap);
	tcase_add_test(t, parts_of_convolutions);
	tcase_add_test(t, which_model);
	tcase_add_test(t, bad_files);
	suite_add_tcase(s, t);
	return ff_check_main(s);
}
