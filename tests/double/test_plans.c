/* Choices of cuBLASLt and cuDNN that are kept on disk, on the double, which counts how often its
 * heuristics are asked.  Each run is a process of its own.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_main.h"
#include "chosen.h"
#include "double.h"
#include "ff/backend.h"
#include "ff/builder.h"
#include "scene.h"

/* What a process has to say. */
struct said {
	uint64_t asked;
	uint64_t bits; /* of its weights, after two steps */
	double sum;    /* of the squares of these */
};

static char folder[] = "/tmp/ff-plans-XXXXXX";

/* ---- one process ---- */

/* A layer of three features, and a loss of `batch` labels. */
static void end_graph(struct ff_builder *b, int32_t batch, uint32_t node, struct ff_graph *ret)
{
	union ff_attrs y = {.input = {.rank = 1, .shape = {batch}, .dtype = FF_I32, .classes = 3}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_error err;
	uint32_t in[2];

	fc.linear.out_features = 3;
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "last", &fc, &node, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	RIG_OK(ff_builder_finish(b, ret, &err));
}

/* Rows of heads, each its own query, key and value. */
static void make_attention(struct ff_arena *a, struct ff_graph *ret)
{
	union ff_attrs x = {.input = {.rank = 3, .shape = {4, 5, 3}}};
	union ff_attrs heads = ff_attrs_preset(FF_OP_ATTENTION);
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in[3];

	RIG_OK(ff_builder_create("plans", a, &b, &err));
	ff_builder_set_dtype(b, FF_BF16);
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	fc.linear.out_features = 16;
	in[0] = in[1] = in[2] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, in, 1);
	heads.attention.head_dim = 8;
	heads.attention.causal = true;
	in[0] = ff_builder_add(b, FF_OP_ATTENTION, "heads", &heads, in, 3);
	in[0] = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, in, 1);
	end_graph(b, 4, in[0], ret);
}

static enum ff_dtype type = FF_F32; /* another for one test */

/* A convolution; behind it (`deeper`) another one, whose filters' gradients can be had by unfolded
 * images, else a layer. */
static void make_images(struct ff_arena *a, bool deeper, struct ff_graph *ret)
{
	union ff_attrs x = {.input = {.rank = 4, .shape = {6, 3, 5, 5}}};
	union ff_attrs conv = ff_attrs_preset(FF_OP_CONV2D), fc = ff_attrs_preset(FF_OP_LINEAR);
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in;

	RIG_OK(ff_builder_create("plans", a, &b, &err));
	ff_builder_set_dtype(b, type);
	in = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	conv.conv.out_channels = deeper ? 8 : 6;
	conv.conv.kernel[0] = conv.conv.kernel[1] = 3;
	in = ff_builder_add(b, FF_OP_CONV2D, "conv", &conv, &in, 1);
	in = ff_builder_add(b, FF_OP_RELU, "relu", NULL, &in, 1);
	for (int i = 0; i < 2; i++)
		conv.conv.pad[0][i] = conv.conv.pad[1][i] = 1;
	if (deeper)
		in = ff_builder_add(b, FF_OP_CONV2D, "deeper", &conv, &in, 1);
	in = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, &in, 1);
	fc.linear.out_features = 7;
	if (!deeper) {
		in = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, &in, 1);
		in = ff_builder_add(b, FF_OP_TANH, "tanh", NULL, &in, 1);
	}
	end_graph(b, 6, in, ret);
}

static void make_graph(struct ff_arena *a, struct ff_graph *ret)
{
	make_images(a, false, ret);
}

static void make_deeper(struct ff_arena *a, struct ff_graph *ret)
{
	make_images(a, true, ret);
}

static uint64_t count_asked(void)
{
	void *module = dlopen(getenv("FF_CUDA_MODULE"), RTLD_NOW | RTLD_NOLOAD);
	uint64_t (*asked)(void);

	ck_assert_ptr_nonnull(module);
	*(void **)&asked = dlsym(module, "ff_double_asked");
	ck_assert_ptr_nonnull((void *)asked);
	return asked();
}

/* Of what is trained; another for one test. */
static void (*make)(struct ff_arena *a, struct ff_graph *ret) = make_graph;

static void train(struct said *ret)
{
	struct ff_random r = {5, 0, 0};
	struct scene s = {.data = NULL};
	struct ff_error err;
	struct rig rig;
	const float *weights;
	int64_t n;

	ff_arena_init(&s.arena);
	make(&s.arena, &s.graph);
	RIG_OK(random_machine(&r, 1, &s.arena, &s.one, &err));
	RIG_OK(ff_strategy_single(&s.graph, 0, &s.arena, &s.single, &err));
	RIG_OK(ff_dataset_open("synthetic:12", &s.graph, 1, &s.data, &err));
	scene_optimizer(&s, 0);
	rig_open(&rig, scene_single(&s, chosen_backend()));
	for (uint64_t step = 0; step < 2; step++)
		RIG_OK(ff_executor_step(rig.x, step, &err));
	weights = rig_weights(&rig, false, &s.arena, &n);
	ret->bits = ff_fnv1a(weights, (size_t)n * sizeof(*weights));
	ret->sum = 0;
	for (int64_t i = 0; i < n; i++)
		ret->sum += (double)weights[i] * (double)weights[i];
	ret->asked = count_asked();
	rig_close(&rig);
	scene_close(&s);
}

/* ---- processes ---- */

/* Of one, what it says is read from the pipe that is returned. */
static int start(const char *cudnn)
{
	struct said said;
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	fflush(NULL);
	switch (fork()) {
	case -1:
		ck_abort_msg("there is no process");
		break;
	case 0:
		if (cudnn)
			setenv("FF_DOUBLE_CUDNN", cudnn, 1);
		train(&said); /* a failed check ends this process without a word */
		if (write(ends[1], &said, sizeof(said)) != sizeof(said))
			_exit(EXIT_FAILURE);
		_exit(EXIT_SUCCESS);
	}
	close(ends[1]);
	return ends[0];
}

static struct said finish(int end)
{
	struct said ret = {0};
	int status;

	ck_assert_int_eq(read(end, &ret, sizeof(ret)), sizeof(ret));
	close(end);
	ck_assert_int_gt(wait(&status), 0);
	ck_assert_int_eq(status, 0);
	return ret;
}

static struct said run(void)
{
	return finish(start(NULL));
}

/* ---- what is kept ---- */

/* Calls `each` for the files of the only folder in the cache, or of all of them; how many. */
static uint32_t walk(const char *path, void (*each)(const char *path))
{
	DIR *d = opendir(path);
	struct dirent *e;
	uint32_t n = 0;

	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d))) {
		char name[1024];
		struct stat st;

		snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
		ck_assert_int_eq(stat(name, &st), 0);
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (S_ISDIR(st.st_mode)) {
			n += walk(name, each);
			continue;
		}
		ck_assert_msg(!strstr(e->d_name, "tmp"), "%s is left behind", name);
		if (each)
			each(name);
		n++;
	}
	closedir(d);
	return n;
}

static int remove_folder(void)
{
	char command[1100];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static void setup(void)
{
	make = make_graph;
	ck_assert_int_eq(remove_folder(), 0);
	ck_assert_int_eq(mkdir(folder, 0700), 0);
	ck_assert_int_eq(setenv("FF_CACHE_DIR", folder, 1), 0);
}

static void change(const char *path, long at, int from_end, char by)
{
	FILE *f = fopen(path, "r+");
	int c;

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fseek(f, at, from_end ? SEEK_END : SEEK_SET), 0);
	c = fgetc(f);
	ck_assert_int_eq(fseek(f, -1, SEEK_CUR), 0);
	ck_assert_int_ne(fputc(c ^ by, f), EOF);
	ck_assert_int_eq(fclose(f), 0);
}

/* The second but last line ends in what a library is told: another digit. */
static void spoil_choice(const char *path)
{
	change(path, -19, 1, 1);
}

/* The same behind a sum that is right: what was chosen cannot be had. */
static void spoil_all(const char *path)
{
	char text[4096] = "", *digit;
	FILE *f = fopen(path, "r");
	size_t n;

	ck_assert_ptr_nonnull(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	digit = strstr(text, "algorithm ");
	digit = digit ? digit + strlen("algorithm ") : text + n - 19;
	*digit ^= 1;
	snprintf(text + n - 17, 18, "%016llx\n", (unsigned long long)ff_fnv1a(text, n - 17));
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(text, 1, n, f), n);
	ck_assert_int_eq(fclose(f), 0);
}

static void spoil_head(const char *path)
{
	change(path, 14, 0, 1);
}

static void cut(const char *path)
{
	struct stat st;

	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(truncate(path, st.st_size / 2), 0);
}

static void empty(const char *path)
{
	ck_assert_int_eq(truncate(path, 0), 0);
}

static void make_folder(const char *path)
{
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(mkdir(path, 0700), 0);
}

/* ---- tests ---- */

START_TEST(kept)
{
	struct said first = run(), second = run();

	printf("# asked %d times, %u files\n", (int)first.asked, walk(folder, NULL));
	ck_assert_uint_ge(first.asked, 8); /* products and convolutions, three each but for data */
	ck_assert_uint_eq(walk(folder, NULL), first.asked);
	ck_assert_uint_eq(second.asked, 0);
	ck_assert_uint_eq(second.bits, first.bits);
}
END_TEST

/* Attention's are kept as well, and choices that are damaged or gone are made anew. */
START_TEST(attention_kept)
{
	struct said first, second, without;

	make = make_attention;
	first = run();
	second = run();
	ck_assert_uint_eq(walk(folder, NULL), first.asked);
	ck_assert_uint_eq(second.asked, 0);
	ck_assert_uint_eq(second.bits, first.bits);
	walk(folder, spoil_all);
	ck_assert_uint_eq(run().bits, first.bits);
	ck_assert_int_eq(setenv("FF_CUDA_SDPA", "0", 1), 0);
	ck_assert_int_eq(remove_folder(), 0);
	without = run();
	/* forward and backward; and of versions that are too old */
	ck_assert_uint_eq(without.asked + 2, first.asked);
	ck_assert_uint_eq(finish(start("91500")).asked, without.asked);
	ck_assert_uint_ne(without.bits, first.bits);
	ck_assert_int_eq(unsetenv("FF_CUDA_SDPA"), 0);
}
END_TEST

START_TEST(turned_off)
{
	struct said first, second;

	ck_assert_int_eq(setenv("FF_CACHE_DIR", "", 1), 0);
	first = run();
	second = run();
	ck_assert_uint_eq(walk(folder, NULL), 0);
	ck_assert_uint_eq(second.asked, first.asked);
	ck_assert_uint_gt(second.asked, 0);
	/* where nothing can be kept */
	ck_assert_int_eq(setenv("FF_CACHE_DIR", "/dev/null/no/folder", 1), 0);
	second = run();
	ck_assert_uint_eq(second.asked, first.asked);
	ck_assert_uint_eq(second.bits, first.bits);
}
END_TEST

/* Beside the folder that is named, where the user's is. */
START_TEST(preset_folder)
{
	char path[1024];

	ck_assert_int_eq(unsetenv("FF_CACHE_DIR"), 0);
	ck_assert_int_eq(setenv("XDG_CACHE_HOME", folder, 1), 0);
	ck_assert_uint_gt(run().asked, 0);
	ck_assert_uint_eq(run().asked, 0);
	snprintf(path, sizeof(path), "%s/ffsoap", folder);
	ck_assert_uint_gt(walk(path, NULL), 0);
	ck_assert_int_eq(unsetenv("XDG_CACHE_HOME"), 0);
	ck_assert_int_eq(setenv("HOME", folder, 1), 0);
	ck_assert_uint_gt(run().asked, 0);
	ck_assert_uint_eq(run().asked, 0);
	snprintf(path, sizeof(path), "%s/.cache/ffsoap", folder);
	ck_assert_uint_gt(walk(path, NULL), 0);
}
END_TEST

static const struct {
	const char *name;
	void (*spoil)(const char *path);
	bool heals;
} damages[] = {
		{"a digit of what was chosen", spoil_choice, true},
		{"that and the sum", spoil_all, true},
		{"another format", spoil_head, true},
		{"half a file", cut, true},
		{"an empty file", empty, true},
		{"a folder", make_folder, false},
};

START_TEST(damaged)
{
	struct said first = run(), next;

	printf("# %s\n", damages[_i].name);
	ck_assert_uint_eq(walk(folder, damages[_i].spoil), first.asked);
	next = run();
	ck_assert_uint_ge(next.asked, first.asked);
	ck_assert_uint_eq(next.bits, first.bits);
	ck_assert_uint_eq(run().asked, damages[_i].heals ? 0 : next.asked);
}
END_TEST

/* What another version has chosen is not for this one, and stays. */
START_TEST(other_version)
{
	struct said first = run(), other = finish(start("91500"));

	ck_assert_uint_eq(other.asked, first.asked);
	ck_assert_uint_eq(walk(folder, NULL), 2 * first.asked);
	ck_assert_uint_eq(run().asked, 0);
	ck_assert_uint_eq(finish(start("91500")).asked, 0);
}
END_TEST

/* Kept, but no longer there: it is asked again, and what is there is taken. */
START_TEST(no_longer_there)
{
	struct said first = run(), next;

	ck_assert_int_eq(setenv("FF_DOUBLE_LACKS", "conv,bias-sums", 1), 0);
	next = run();
	ck_assert_int_eq(unsetenv("FF_DOUBLE_LACKS"), 0);
	ck_assert_uint_gt(next.asked, 0);
	ck_assert_uint_lt(next.asked, 2 * first.asked);
}
END_TEST

#define LINE 4096

/* The third one says of what a choice is, the fourth which. */
static void read_lines(const char *path, char line[4][LINE])
{
	FILE *f = fopen(path, "r");

	ck_assert_ptr_nonnull(f);
	for (int i = 0; i < 4; i++)
		if (!fgets(line[i], LINE, f))
			line[i][0] = '\0';
	fclose(f);
}

/* What was timed, as files name it: how many engines of convolutions and algorithms of products,
 * and of those slow ones. */
static uint32_t n_engines, n_products, n_slow;

/* Of the double's two algorithms the first one has a workspace. */
static bool is_slow_product(const char *choice)
{
	bool is_first = atoi(choice + strlen("workspace ")) > 0;

	return is_first == (atoi(getenv("FF_DOUBLE_SLOW_PRODUCT")) == 0);
}

static void count_timed(const char *path)
{
	char line[4][LINE];

	read_lines(path, line);
	if (!strstr(line[2], ", timed"))
		return;
	if (strstr(line[2], "product")) {
		n_products++;
		n_slow += is_slow_product(line[3]);
	}
	if (!strstr(line[2], "convolution"))
		return;
	n_engines++;
	ck_assert_str_ne(line[3], "engine 4\n"); /* is compiled at run time, and proposed first */
	n_slow += atoi(line[3] + strlen("engine ")) == atoi(getenv("FF_DOUBLE_SLOW"));
}

static void count_all(void)
{
	n_engines = n_products = n_slow = 0;
	walk(folder, count_timed);
}

/* Of several that will do the fastest is kept, for those who do not time, too. */
START_TEST(timed)
{
	static const char *const engines[] = {"0", "2"}, *const algorithms[] = {"0", "1"};
	struct said first, plain;

	type = FF_BF16;
	for (int i = 0; i < 2; i++) {
		setup();
		ck_assert_int_eq(setenv("FF_DOUBLE_SLOW", engines[i], 1), 0);
		ck_assert_int_eq(setenv("FF_DOUBLE_SLOW_PRODUCT", algorithms[i], 1), 0);
		ck_assert_int_eq(setenv("FF_CUDA_TUNE", "1", 1), 0);
		first = run();
		ck_assert_int_eq(unsetenv("FF_CUDA_TUNE"), 0);
		count_all();
		ck_assert_uint_ge(n_engines, 2);
		ck_assert_uint_ge(n_products, 2);
		ck_assert_uint_eq(n_slow, 0);
		plain = run();
		ck_assert_uint_eq(plain.asked, 0);
		ck_assert_uint_eq(plain.bits, first.bits);
	}
	/* of a process that was told to, but not of those that it starts */
	setup();
	ck_assert_int_eq(setenv(FF_TUNING_PROCESS, "1", 1), 0);
	run();
	count_all();
	ck_assert_uint_eq(n_engines + n_products, 0);
	ck_assert_int_eq(unsetenv(FF_TUNING_PROCESS), 0);
	/* where no choice is kept none is timed, since another might be slower next time */
	ck_assert_int_eq(setenv("FF_CUDA_TUNE", "1", 1), 0);
	ck_assert_int_eq(setenv("FF_CACHE_DIR", "", 1), 0);
	plain = run();
	ck_assert_uint_eq(run().bits, plain.bits);
	ck_assert_int_eq(unsetenv("FF_CUDA_TUNE"), 0);
	ck_assert_int_eq(unsetenv("FF_DOUBLE_SLOW"), 0);
	ck_assert_int_eq(unsetenv("FF_DOUBLE_SLOW_PRODUCT"), 0);
	type = FF_F32;
}
END_TEST

static uint32_t n_unfolded, n_convolved;

static void count_ways(const char *path)
{
	char line[4][LINE];

	read_lines(path, line);
	n_unfolded += !strcmp(line[3], "unfolded\n");
	n_convolved += !strcmp(line[3], "convolved\n");
}

/* Gradients of filters, by what takes less time, and the same but for rounding; of bfloat16 images
 * cuDNN's way is to widen them. */
START_TEST(ways)
{
	static const char *const slow[] = {"FF_DOUBLE_SLOW", "FF_DOUBLE_SLOW_PRODUCT"};
	struct said said[2], plain;

	if (_i)
		ck_assert_int_eq(setenv("FF_DOUBLE_LACKS", "conv-widen", 1), 0);
	for (int i = 0; i < 2; i++) {
		setup();
		make = make_deeper;
		type = _i ? FF_BF16 : FF_F32;
		ck_assert_int_eq(setenv(slow[i], "-1", 1), 0);
		ck_assert_int_eq(setenv("FF_CUDA_TUNE", "1", 1), 0);
		said[i] = run();
		ck_assert_int_eq(unsetenv("FF_CUDA_TUNE"), 0);
		ck_assert_int_eq(unsetenv(slow[i]), 0);
		n_unfolded = n_convolved = 0;
		walk(folder, count_ways);
		ck_assert_uint_eq(n_unfolded, i == 0);
		ck_assert_uint_eq(n_convolved, i == 1);
		plain = run(); /* as was kept; that there is no plan is not */
		ck_assert(_i || plain.asked == 0);
		ck_assert_uint_eq(plain.bits, said[i].bits);
	}
	type = FF_F32;
	ck_assert_int_eq(unsetenv("FF_DOUBLE_LACKS"), 0);
	ck_assert_double_eq_tol(said[0].sum, said[1].sum, 1e-5 * said[1].sum);
}
END_TEST

START_TEST(at_once)
{
	int end[4];

	for (uint32_t round = 0; round < 3; round++) {
		setup();
		for (uint32_t i = 0; i < 4; i++)
			end[i] = start(NULL);
		for (uint32_t i = 0; i < 4; i++)
			finish(end[i]);
		ck_assert_uint_eq(run().asked, 0);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("plans");
	TCase *t = tcase_create("plans");

	tcase_set_timeout(t, 0);
	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, kept);
	tcase_add_test(t, attention_kept);
	tcase_add_test(t, turned_off);
	tcase_add_test(t, preset_folder);
	tcase_add_loop_test(t, damaged, 0, sizeof(damages) / sizeof(damages[0]));
	tcase_add_test(t, other_version);
	tcase_add_test(t, no_longer_there);
	tcase_add_test(t, timed);
	tcase_add_loop_test(t, ways, 0, 2);
	tcase_add_test(t, at_once);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	int failed;

	if (!mkdtemp(folder))
		return EXIT_FAILURE;
	failed = ff_check_main(suite());
	return remove_folder() ? EXIT_FAILURE : failed;
}
