/* Data sets: the order of samples, shards of batches, and files that are not as
 * they should be.  SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "ff/builder.h"
#include "ff/dataset.h"
#include "ff/philox.h"

#define ROWS 3
#define COLS 4
#define TRAIN 10
#define TEST 7
#define CLASSES 5

static void check_fill(int code, const struct ff_error *err)
{
	ck_assert_msg(code == FF_OK, "%s", err->text);
}

static int64_t valid(const struct ff_dataset *d, bool train, uint64_t step)
{
	struct ff_error err;
	int64_t n;

	check_fill(ff_dataset_valid(d, train, step, &n, &err), &err);
	return n;
}

/* A graph that takes images of some shape, rank 2 to 4. */
static void make_graph(struct ff_arena *a, int32_t batch, uint32_t rank, const int32_t *rest,
		struct ff_graph *g)
{
	union ff_attrs x = {.input = {.rank = (int32_t)rank, .shape = {batch}}};
	union ff_attrs y = {.input = {.rank = 1,
					    .shape = {batch},
					    .dtype = FF_I32,
					    .classes = CLASSES}};
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in[2];

	memcpy(x.input.shape + 1, rest, (rank - 1) * sizeof(*rest));
	ck_assert_int_eq(ff_builder_create("data", a, &b, &err), FF_OK);
	in[0] = ff_builder_add(b, FF_OP_INPUT, "image", &x, NULL, 0);
	in[0] = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, in, 1);
	fc.linear.out_features = CLASSES;
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, in, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "label", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	ck_assert_msg(ff_builder_finish(b, g, &err) == FF_OK, "%s", err.text);
}

/* A folder with the four files, each of which a test may spoil. */
struct folder {
	char path[64];
	bool gz;
};
enum file { TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS };
static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
		"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

static void file_path(const struct folder *f, enum file file, char path[160])
{
	snprintf(path, 160, "%s/%s%s", f->path, names[file], f->gz ? ".gz" : "");
}

static void write_file(const struct folder *f, enum file file, const uint8_t *bytes, size_t n)
{
	char path[160];
	gzFile out;

	file_path(f, file, path);
	out = gzopen(path, f->gz ? "wb" : "wbT");
	ck_assert_ptr_nonnull(out);
	ck_assert_int_eq(gzwrite(out, bytes, (unsigned int)n), (int)n);
	ck_assert_int_eq(gzclose(out), Z_OK);
}

static size_t put_size(uint8_t *at, uint32_t n)
{
	at[0] = (uint8_t)(n >> 24);
	at[1] = (uint8_t)(n >> 16);
	at[2] = (uint8_t)(n >> 8);
	at[3] = (uint8_t)n;
	return 4;
}

/* Pixel k of training image i is 10 * i + k, its label i % CLASSES. */
static size_t good_file(enum file file, uint8_t *bytes)
{
	uint32_t n = file < TEST_IMAGES ? TRAIN : TEST;
	bool images = file == TRAIN_IMAGES || file == TEST_IMAGES;
	size_t at = put_size(bytes, images ? 0x803 : 0x801);

	at += put_size(bytes + at, n);
	if (images) {
		at += put_size(bytes + at, ROWS);
		at += put_size(bytes + at, COLS);
	}
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < (images ? ROWS * COLS : 1); k++)
			bytes[at++] = (uint8_t)(images ? 10 * i + k : i % CLASSES);
	return at;
}

static void folder_open(struct folder *f, bool gz)
{
	uint8_t bytes[512];

	snprintf(f->path, sizeof(f->path), "/tmp/ff-test-data-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(f->path));
	f->gz = gz;
	for (int i = 0; i < 4; i++)
		write_file(f, (enum file)i, bytes, good_file((enum file)i, bytes));
}

static void folder_close(struct folder *f)
{
	for (int i = 0; i < 4; i++)
		for (int gz = 0; gz < 2; gz++) {
			char path[160];

			f->gz = gz;
			file_path(f, (enum file)i, path);
			unlink(path);
		}
	rmdir(f->path);
}

static const int32_t image_shape[3] = {1, ROWS, COLS};

/* The value that a grey level gets: in [0, 1], then mean 0 and deviation 1 over
 * the training set. */
static double expected_value(int grey)
{
	double mean = 0, square = 0, n = TRAIN * ROWS * COLS;

	for (int i = 0; i < TRAIN; i++)
		for (int k = 0; k < ROWS * COLS; k++) {
			double v = (10 * i + k) / 255.0;

			mean += v / n;
			square += v * v / n;
		}
	return (grey / 255.0 - mean) / sqrt(square - mean * mean);
}

static void check_files(bool gz, uint32_t rank, const int32_t *shape)
{
	struct ff_region rows = {.rank = 1, .hi = {4}}, box;
	struct folder f;
	struct ff_arena a;
	struct ff_graph g;
	struct ff_dataset *d;
	struct ff_error err;
	int32_t label[4];
	float pixel[4 * ROWS * COLS];

	ff_arena_init(&a);
	make_graph(&a, 4, rank, shape, &g);
	folder_open(&f, gz);
	ck_assert_msg(ff_dataset_open(f.path, &g, 1, &d, &err) == FF_OK, "%s", err.text);
	ck_assert_int_eq(ff_dataset_samples(d, true), TRAIN);
	ck_assert_int_eq(ff_dataset_samples(d, false), TEST);
	ck_assert_int_eq(ff_dataset_steps(d, true), TRAIN / 4);
	ck_assert_int_eq(ff_dataset_steps(d, false), (TEST + 3) / 4);
	/* testing goes in order; behind the last sample come labels of -1 */
	box = (struct ff_region){.rank = rank, .hi = {4}};
	for (uint32_t i = 1; i < rank; i++)
		box.hi[i] = shape[i - 1];
	check_fill(ff_dataset_fill(d, false, 1, ff_graph_find(&g, "label"), &rows, label, &err),
			&err);
	ck_assert_int_eq(valid(d, false, 0), 4);
	ck_assert_int_eq(valid(d, false, 1), TEST - 4);
	ck_assert_int_eq(valid(d, true, 1), 4);
	check_fill(ff_dataset_fill(d, false, 1, ff_graph_find(&g, "image"), &box, pixel, &err),
			&err);
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(label[i], 4 + i < TEST ? (4 + i) % CLASSES : -1);
		for (int k = 0; k < ROWS * COLS && 4 + i < TEST; k++)
			ck_assert_double_eq_tol((double)pixel[i * ROWS * COLS + k],
					expected_value(10 * (4 + i) + k), 1e-6);
	}
	ff_dataset_close(d);
	folder_close(&f);
	ff_arena_finish(&a);
}

START_TEST(files)
{
	const int32_t flat[1] = {ROWS * COLS}, plain[2] = {ROWS, COLS};

	check_files(true, 4, image_shape);
	check_files(false, 4, image_shape);
	check_files(true, 2, flat);
	check_files(true, 3, plain);
}
END_TEST

/* Opens a spoilt folder: one sentence with the file's name and `expected`. */
static void check_spoilt(struct folder *f, enum file file, const char *expected)
{
	struct ff_arena a;
	struct ff_graph g;
	struct ff_dataset *d = NULL;
	struct ff_error err;

	ff_arena_init(&a);
	make_graph(&a, 4, 4, image_shape, &g);
	ck_assert_int_eq(ff_dataset_open(f->path, &g, 1, &d, &err), FF_E_INPUT);
	ck_assert_ptr_null(d);
	ck_assert_msg(strstr(err.text, names[file]) != NULL, "no file in: %s", err.text);
	ck_assert_msg(strstr(err.text, expected) != NULL, "no \"%s\" in: %s", expected, err.text);
	ck_assert_ptr_null(strchr(err.text, '\n'));
	ff_arena_finish(&a);
}

static void spoil(enum file file, size_t at, uint8_t byte, const char *expected)
{
	uint8_t bytes[512];
	size_t n = good_file(file, bytes);
	struct folder f;

	for (int gz = 0; gz < 2; gz++) {
		folder_open(&f, gz);
		bytes[at] = byte;
		write_file(&f, file, bytes, n);
		check_spoilt(&f, file, expected);
		folder_close(&f);
	}
}

START_TEST(spoilt_files)
{
	spoil(TRAIN_IMAGES, 3, 1, "magic number is 0x00000801, expected 0x00000803");
	spoil(TRAIN_LABELS, 2, 9, "expected 0x00000801");
	spoil(TRAIN_IMAGES, 7, 0, "size 0 is zero");
	spoil(TRAIN_IMAGES, 7, TRAIN + 1, "truncated");
	spoil(TRAIN_IMAGES, 4, 0xff, "truncated"); /* four thousand million images */
	spoil(TRAIN_IMAGES, 7, TRAIN - 1, "goes on");
	spoil(TEST_IMAGES, 11, 2, "goes on");
	spoil(TRAIN_LABELS, 10, CLASSES, "byte 10: label 5, but the graph has 5 classes");
	spoil(TEST_LABELS, 8 + TEST - 1, 200, "label 200");
}
END_TEST

START_TEST(truncated_anywhere)
{
	uint8_t bytes[512];
	size_t n = good_file(TRAIN_LABELS, bytes);
	struct folder f;

	for (size_t len = 0; len < n; len++) {
		folder_open(&f, len % 2);
		write_file(&f, TRAIN_LABELS, bytes, len);
		check_spoilt(&f, TRAIN_LABELS, "truncated");
		folder_close(&f);
	}
}
END_TEST

START_TEST(spoilt_compression)
{
	struct folder f;
	char path[160];

	folder_open(&f, true);
	file_path(&f, TRAIN_IMAGES, path);
	ck_assert_int_eq(truncate(path, 60), 0);
	check_spoilt(&f, TRAIN_IMAGES, "byte");
	folder_close(&f);
}
END_TEST

START_TEST(missing_and_unequal)
{
	uint8_t bytes[512];
	struct folder f;
	char path[160];
	size_t n = good_file(TRAIN_LABELS, bytes);

	folder_open(&f, true);
	bytes[7] = TRAIN - 1;
	write_file(&f, TRAIN_LABELS, bytes, n - 1);
	check_spoilt(&f, TRAIN_LABELS, "holds 9 labels");
	file_path(&f, TRAIN_LABELS, path);
	ck_assert_int_eq(unlink(path), 0);
	check_spoilt(&f, TRAIN_LABELS, "neither");
	folder_close(&f);
}
END_TEST

/* Opening `spec` for images of `shape` and `batch` fails and says `expected`. */
static void check_refused(const char *spec, int32_t batch, uint32_t rank, const int32_t *shape,
		const char *expected)
{
	struct ff_arena a;
	struct ff_graph g;
	struct ff_dataset *d;
	struct ff_error err;

	ff_arena_init(&a);
	make_graph(&a, batch, rank, shape, &g);
	ck_assert_int_eq(ff_dataset_open(spec, &g, 1, &d, &err), FF_E_INPUT);
	ck_assert_msg(strstr(err.text, expected) != NULL, "no \"%s\" in: %s", expected, err.text);
	ff_arena_finish(&a);
}

START_TEST(refused)
{
	const int32_t wide[3] = {1, ROWS, COLS + 1}, colours[3] = {3, ROWS, COLS};
	const int32_t flat[1] = {ROWS * COLS - 1};
	struct folder f;
	char file[160];

	folder_open(&f, false);
	check_refused(f.path, 4, 4, wide, "samples are 3x4, the graph's input wants 1x3x5");
	check_refused(f.path, 4, 4, colours, "wants 3x3x4");
	check_refused(f.path, 4, 2, flat, "wants 11");
	check_refused(f.path, TRAIN + 1, 4, image_shape, "fewer than the graph's batch of 11");
	file_path(&f, TRAIN_IMAGES, file);
	check_refused(file, 4, 4, image_shape, "is no set of data that can be recognised");
	folder_close(&f);
	check_refused(f.path, 4, 4, image_shape, "No such file");
	check_refused("no-such-data-set", 4, 4, image_shape, "No such file");
	check_refused("synthetic:", 4, 4, image_shape, "expected synthetic:SAMPLES");
	check_refused("synthetic:-5", 4, 4, image_shape, "expected synthetic:SAMPLES");
	check_refused("synthetic:12x", 4, 4, image_shape, "expected synthetic:SAMPLES");
	check_refused("synthetic:99999999999999999999", 4, 4, image_shape, "expected synthetic");
	check_refused("synthetic:3", 4, 4, image_shape, "fewer than the graph's batch");
}
END_TEST

/* Whatever part of a batch is asked for, it has the same values. */
START_TEST(shards_agree)
{
	const int32_t shape[3] = {3, 5, 4}, batch = 6;
	struct ff_random r = {ff_test_seed(7), 0, 0};
	struct ff_region all = {.rank = 4, .hi = {batch, 3, 5, 4}};
	float whole[6 * 60], shard[6 * 60];
	struct ff_arena a;
	struct ff_graph g;
	struct ff_dataset *d;
	struct ff_error err;
	const uint8_t *order;
	uint32_t node;

	ff_arena_init(&a);
	make_graph(&a, batch, 4, shape, &g);
	node = ff_graph_find(&g, "image");
	order = g.values[g.nodes[node].out].order;
	ck_assert_int_eq(ff_dataset_open("synthetic:20", &g, 3, &d, &err), FF_OK);
	for (int i = 0; i < 200; i++) {
		uint64_t step = ff_random_below(&r, 12);
		bool train = ff_random_below(&r, 2);
		struct ff_region box = {.rank = 4};
		int32_t at[FF_MAX_RANK];

		if (!train)
			step %= (uint64_t)ff_dataset_steps(d, false);
		for (uint32_t k = 0; k < 4; k++) {
			box.lo[k] = (int32_t)ff_random_below(&r, (uint32_t)all.hi[k]);
			box.hi[k] = box.lo[k] + 1 +
				    (int32_t)ff_random_below(&r, (uint32_t)(all.hi[k] - box.lo[k]));
		}
		check_fill(ff_dataset_fill(d, train, step, node, &all, whole, &err), &err);
		check_fill(ff_dataset_fill(d, train, step, node, &box, shard, &err), &err);
		for (at[0] = box.lo[0]; at[0] < box.hi[0]; at[0]++)
			for (at[1] = box.lo[1]; at[1] < box.hi[1]; at[1]++)
				for (at[2] = box.lo[2]; at[2] < box.hi[2]; at[2]++)
					for (at[3] = box.lo[3]; at[3] < box.hi[3]; at[3]++)
						ck_assert_float_eq(shard[ff_region_offset(order,
										   &box, at)],
								whole[ff_region_offset(
										order, &all, at)]);
	}
	ff_dataset_close(d);
	ff_arena_finish(&a);
}
END_TEST

/* An epoch visits every sample once, in an order of its own, whatever was asked
 * for before; the images tell which sample it is. */
START_TEST(epochs)
{
	struct ff_region box = {.rank = 4, .hi = {2, 1, 1, 1}};
	struct folder f;
	struct ff_arena a;
	struct ff_graph g;
	struct ff_dataset *d, *again;
	struct ff_error err;
	int order[3][TRAIN], same = 0;

	ff_arena_init(&a);
	make_graph(&a, 2, 4, image_shape, &g);
	folder_open(&f, false);
	ck_assert_int_eq(ff_dataset_open(f.path, &g, 11, &d, &err), FF_OK);
	ck_assert_int_eq(ff_dataset_open(f.path, &g, 11, &again, &err), FF_OK);
	for (int epoch = 0; epoch < 3; epoch++) {
		bool seen[TRAIN] = {false};

		for (int step = 0; step < TRAIN / 2; step++) {
			uint64_t at = (uint64_t)epoch * (TRAIN / 2) + (uint64_t)step;
			float one[2], other[2];

			check_fill(ff_dataset_fill(d, true, at, 0, &box, one, &err), &err);
			/* backwards through the other one */
			check_fill(ff_dataset_fill(again, true, 14 - at, 0, &box, other, &err),
					&err);
			check_fill(ff_dataset_fill(again, true, at, 0, &box, other, &err), &err);
			ck_assert_mem_eq(one, other, sizeof(one));
			for (int i = 0; i < 2; i++) {
				int sample = 0;

				while (sample < TRAIN &&
						fabs((double)one[i] - expected_value(10 * sample)) >
								1e-5)
					sample++;
				ck_assert_int_lt(sample, TRAIN);
				ck_assert(!seen[sample]);
				seen[sample] = true;
				order[epoch][2 * step + i] = sample;
			}
		}
	}
	for (int i = 0; i < TRAIN; i++)
		same += order[0][i] == order[1][i] && order[1][i] == order[2][i];
	ck_assert_int_lt(same, TRAIN);
	ff_dataset_close(d);
	ff_dataset_close(again);
	folder_close(&f);
	ff_arena_finish(&a);
}
END_TEST

/* Samples of one class are closer to each other than to those of others. */
START_TEST(synthetic_can_be_learned)
{
	const int32_t shape[1] = {400}, batch = 40;
	struct ff_region box = {.rank = 2, .hi = {batch, 400}}, rows = {.rank = 1, .hi = {batch}};
	static float x[40][400];
	int32_t label[40];
	double alike = 0, unlike = 0;
	int n_alike = 0, n_unlike = 0;
	struct ff_arena a;
	struct ff_graph g;
	struct ff_dataset *d;
	struct ff_error err;

	ff_arena_init(&a);
	make_graph(&a, batch, 2, shape, &g);
	ck_assert_int_eq(ff_dataset_open("synthetic", &g, 5, &d, &err), FF_OK);
	check_fill(ff_dataset_fill(d, true, 3, ff_graph_find(&g, "image"), &box, x, &err), &err);
	check_fill(ff_dataset_fill(d, true, 3, ff_graph_find(&g, "label"), &rows, label, &err),
			&err);
	for (int i = 0; i < batch; i++) {
		ck_assert(label[i] >= 0 && label[i] < CLASSES);
		for (int j = 0; j < i; j++) {
			double dot = 0;

			for (int k = 0; k < 400; k++)
				dot += (double)x[i][k] * (double)x[j][k] / 400;
			if (label[i] == label[j]) {
				alike += dot;
				n_alike++;
			} else {
				unlike += dot;
				n_unlike++;
			}
		}
	}
	ck_assert_int_gt(n_alike, 0);
	ck_assert_double_gt(alike / n_alike, 0.3);
	ck_assert_double_lt(fabs(unlike / n_unlike), 0.2);
	ff_dataset_close(d);
	ff_arena_finish(&a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("dataset");
	TCase *t = tcase_create("all");

	tcase_add_test(t, files);
	tcase_add_test(t, spoilt_files);
	tcase_add_test(t, truncated_anywhere);
	tcase_add_test(t, spoilt_compression);
	tcase_add_test(t, missing_and_unequal);
	tcase_add_test(t, refused);
	tcase_add_test(t, shards_agree);
	tcase_add_test(t, epochs);
	tcase_add_test(t, synthetic_can_be_learned);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
