/* The zoo: every network builds, with as many parameters as it is known for.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "check_main.h"
#include "ff/zoo.h"

#define MAX_SETS 6

struct zoo_case {
	const char *name;
	uint64_t batch;
	const char *sets[MAX_SETS];
	int64_t parameters; /* 0: not known */
	int32_t samples;
};

static uint32_t count_sets(const struct zoo_case *z)
{
	uint32_t n = 0;

	while (n < MAX_SETS && z->sets[n])
		n++;
	return n;
}

static void build(const struct zoo_case *z, struct ff_arena *a, struct ff_graph *g)
{
	struct ff_error err = {0};
	int code = ff_zoo_build(z->name, z->batch, z->sets, count_sets(z), a, g, &err);

	ck_assert_msg(code == FF_OK, "%s", err.text);
}

START_TEST(parameters)
{
	static const struct zoo_case cases[] = {
			/* 784 * 4096 + 2 * 4096 * 4096 + 4096 * 10 and the biases */
			{"mlp", 0, {NULL}, 36818954, 128},
			{"mlp", 32, {"layers=0"}, 7850, 32},
			{"mlp", 32, {"layers=1", "hidden=10", "classes=3", "image=4", "channels=2"},
					10 * 33 + 3 * 11, 32},
			/* LeCun et al. 1998 with full tables */
			{"lenet", 0, {NULL}, 61706, 64},
			{"lenet", 1, {"pool=max", "activation=relu"}, 61706, 1},
			/* torchvision.models.alexnet */
			{"alexnet", 0, {NULL}, 61100840, 256},
			{"alexnet", 8, {"dropout=0"}, 61100840, 8},
			{"alexnet", 8, {"image=28"}, 1434826, 8},
			{"branchnet", 0, {NULL}, 0, 64},
			{"branchnet", 3, {"image=224", "channels=3", "classes=1000"}, 0, 3},
			{"branchnet", 3, {"image=4", "blocks=1", "width=2"}, 0, 3},
			{"branchnet", 3, {"image=64", "blocks=9", "width=7"}, 0, 3},
			/* torchvision's; without norms, each norm's two numbers a channel are
			 * exchanged for the bias of the convolution before it */
			{"vgg16", 0, {NULL}, 138357544, 64},
			{"vgg16", 2, {"image=32", "fc=8", "classes=10", "dropout=0"},
					14714688 + 8 * 513 + 8 * 9 + 10 * 9, 2},
			{"resnet50", 0, {NULL}, 25557032, 64},
			{"resnet50", 0, {"norm=none"}, 25530472, 64},
			{"resnet50", 2, {"image=1", "channels=1", "classes=3"},
					25557032 - 2 * 64 * 49 - 997 * 2049, 2},
			{"resnet101", 0, {NULL}, 44549160, 64},
			{"resnet101", 0, {"norm=none"}, 44496488, 64},
			{"resnet152", 0, {NULL}, 60192808, 64},
			{"resnext50_32x4d", 0, {NULL}, 25028904, 64},
			{"resnext50_32x4d", 2, {"image=1"}, 25028904, 2},
			{"resnext101_32x4d", 0, {NULL}, 44177704, 64}, /* as timm counts */
			{"mobilenet_v2", 0, {NULL}, 3504872, 64},
			{"mobilenet_v2", 2, {"image=1", "dropout=0"}, 3504872, 2},
			/* without the auxiliary classifiers */
			{"googlenet", 0, {NULL}, 6624904, 64},
			{"googlenet", 2, {"image=31", "dropout=0"}, 6624904, 2},
			/* without the auxiliary classifier */
			{"inception_v3", 0, {NULL}, 23834568, 64},
			{"inception_v3", 0, {"norm=none"}, 23817352, 64},
			{"inception_v3", 2, {"image=75", "dropout=0"}, 23834568, 2},
			{"densenet121", 0, {NULL}, 7978856, 64},
			{"densenet121", 0, {"norm=none"}, 7905448, 64},
			{"densenet121", 2, {"image=29"}, 7978856, 2},
			/* milesial's Pytorch-UNet, by its decoder; as published */
			{"unet", 0, {NULL}, 31037698, 8},
			{"unet", 0, {"decoder=upsample"}, 17263042, 8},
			{"unet", 1, {"padding=valid", "norm=none", "image=572", "channels=1"},
					31030658, 1},
			{"unet", 2,
					{"image=9", "depth=2", "width=4", "norm=none", "channels=1",
							"classes=3"},
					7407, 2},
			{"unet", 2,
					{"image=9", "depth=2", "width=4", "decoder=upsample",
							"channels=2", "classes=3"},
					4239, 2},
			/* 2x2x2 kernels of 4, 32 ... 512 channels; 4 x 4 x 4 places are left */
			{"cosmoflow", 0, {NULL},
					8 * (4 * 32 + 32 * 64 + 64 * 128 + 128 * 256 + 256 * 512) +
							32 * 31 + 32768 * 128 + 128 + 128 * 64 +
							64 + 64 * 4 + 4,
					4},
			{"cosmoflow", 2, {"image=5", "layers=2", "width=3", "channels=1", "fc1=4"},
					8 * (3 + 18) + 9 + 4 * 7 + 64 * 5 + 4 * 65, 2},
			/* one bias a cell, the same weights at all steps */
			{"rnn", 0, {NULL}, 128 * (28 + 128 + 1) + 10 * 129, 64},
			{"rnn", 2, {"steps=1", "hidden=3"}, 3 * 29 + 10 * 4, 2},
			{"rnn", 2, {"cell=lstm", "layers=2", "hidden=3", "features=5"},
					12 * (5 + 3 + 1) + 12 * (3 + 3 + 1) + 10 * 4, 2},
			{"rnn", 2, {"cell=lstm", "steps=1", "hidden=3", "features=5"},
					12 * 6 + 10 * 4, 2},
			/* words, of each layer 4 gates of its input and state, one bias, classes */
			{"rnnlm", 0, {NULL},
					10000 * 2048 + 2 * 8192 * (2 * 2048 + 1) + 10000 * 2049,
					64},
			{"rnnlm", 3, {"form=cells"},
					10000 * 2048 + 2 * 8192 * (2 * 2048 + 1) + 10000 * 2049, 3},
			{"rnntc", 0, {NULL}, 10000 * 1024 + 4 * 4096 * (2 * 1024 + 1) + 2 * 1025,
					64},
			{"rnntc", 3, {"form=cells", "steps=1", "classes=5"},
					10000 * 1024 + 4 * 4096 * (1024 + 1) + 5 * 1025, 3},
			{"rnntc", 3, {"pieces=1000", "steps=7"},
					10000 * 1024 + 4 * 4096 * (2 * 1024 + 1) + 2 * 1025, 3},
			/* two vocabularies, both halves, what joins states and what was read */
			{"nmt", 0, {NULL},
					2 * 32000 * 1024 + 4 * 4096 * (2 * 1024 + 1) + 1024 * 2049 +
							32000 * 1025,
					64},
			{"nmt", 2, {"form=cells", "steps=230", "hidden=8", "layers=1"},
					2 * 32000 * 8 + 2 * 32 * 17 + 8 * 17 + 32000 * 9, 2},
			/* rows of all tables, layers before and behind 13 numbers' and their pairs
			 */
			{"dlrm", 0, {NULL},
					33762577 * (int64_t)16 + 512 * 14 + 256 * 513 + 64 * 257 +
							16 * 65 + 512 * (351 + 17) + 256 * 513 +
							257,
					128},
			{"dlrm", 3, {"tables=2", "rows=1000", "features=5"},
					1583 * 5 + 512 * 14 + 256 * 513 + 64 * 257 + 5 * 65 +
							512 * (3 + 6) + 256 * 513 + 257,
					3},
			{"dlrm_terabyte", 0, {NULL},
					187767399 * (int64_t)128 + 512 * 14 + 256 * 513 +
							128 * 257 + 1024 * (351 + 129) +
							1024 * 1025 + 512 * 1025 + 256 * 513 + 257,
					2048},
			/* with the words' vectors as weights of the last layer */
			{"gpt2", 0, {NULL}, 124439808, 8},
			{"gpt2_medium", 0, {NULL}, 354823168, 8},
			{"gpt2_large", 0, {NULL}, 774030080, 8},
			{"gpt2_xl", 0, {NULL}, 1557611200, 8},
			/* the encoder with its pooler, and two classes */
			{"bert", 0, {NULL}, 109482240 + 2 * 769, 16},
			{"bert_large", 0, {NULL}, 335141888 + 2 * 1025, 16},
			/* without the pooler, with the layer before the words, and their biases */
			{"bert", 0, {"task=words"}, 109482240 + 2 * 768 + 30522, 16},
			{"llama", 0, {NULL}, 6738415616, 1},
			{"llama", 2,
					{"layers=1", "width=8", "heads=4", "key_heads=2",
							"hidden=6", "vocabulary=10"},
					2 * 10 * 8 + 8 * (8 + 4 + 4 + 8) + 3 * 8 * 6 + 3 * 8, 2},
			/* as published */
			{"moe", 0, {NULL}, 46702792704, 8},
			{"moe", 2,
					{"layers=1", "width=8", "heads=4", "key_heads=2",
							"hidden=6", "vocabulary=10"},
					2 * 10 * 8 + 8 * (8 + 4 + 4 + 8) + 8 * 8 + 8 * 3 * 8 * 6 +
							3 * 8,
					2},
			{"vit_b16", 0, {NULL}, 86567656, 32},
			{"lm", 0, {NULL}, 2560000 + 512 * 2049 + 10000 * 513, 64},
			{"lm", 2, {"tie=yes"}, 2560000 + 512 * 2049 + 256 * 513 + 10000, 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ff_arena a;
		struct ff_graph g;

		ff_arena_init(&a);
		build(&cases[i], &a, &g);
		ck_assert_str_eq(g.name, cases[i].name);
		ck_assert_int_eq(g.batch, cases[i].samples);
		if (cases[i].parameters)
			ck_assert_int_eq(ff_graph_parameters(&g), cases[i].parameters);
		/* the names that data sets and tests rely on */
		ck_assert_uint_ne(ff_graph_find(&g, "data"), FF_NONE);
		ck_assert_uint_ne(ff_graph_find(&g, "labels"), FF_NONE);
		ck_assert_uint_eq(ff_graph_find(&g, "loss"), g.loss[0]);
		ff_arena_finish(&a);
	}
}
END_TEST

/* Multiply-adds of convolutions and linear layers for one image. */
static int64_t multiply_adds(const char *net)
{
	struct ff_arena a;
	struct ff_graph g;
	int64_t macs = 0;

	ff_arena_init(&a);
	build(&(struct zoo_case){net, 1, {NULL}, 0, 1}, &a, &g);
	for (uint32_t i = 0; i < g.n_nodes; i++)
		if (g.nodes[i].op == FF_OP_CONV2D || g.nodes[i].op == FF_OP_CONV_TRANSPOSE2D ||
				g.nodes[i].op == FF_OP_CONV3D || g.nodes[i].op == FF_OP_LINEAR) {
			const struct ff_value *t = &g.values[g.nodes[i].out];
			int64_t bias = g.nodes[i].n_in > g.nodes[i].n_data + 1;

			for (uint32_t k = 0; k < t->rank; k++)
				bias *= t->shape[k];
			macs += (g.nodes[i].flops_forward - bias) / 2;
		}
	ff_arena_finish(&a);
	return macs;
}

/* Billions of them as torchvision publishes them with its weights, to three
 * digits behind the point. */
START_TEST(flops)
{
	ck_assert_int_eq(multiply_adds("alexnet"), 714188480);
	ck_assert_int_eq((multiply_adds("vgg16") + 500000) / 1000000, 15470);
	ck_assert_int_eq((multiply_adds("resnet50") + 500000) / 1000000, 4089);
	ck_assert_int_eq((multiply_adds("resnet101") + 500000) / 1000000, 7801);
	ck_assert_int_eq((multiply_adds("resnet152") + 500000) / 1000000, 11514);
	ck_assert_int_eq((multiply_adds("resnext50_32x4d") + 500000) / 1000000, 4230);
	ck_assert_int_eq((multiply_adds("mobilenet_v2") + 500000) / 1000000, 301);
	ck_assert_int_eq((multiply_adds("googlenet") + 500000) / 1000000, 1498);
	ck_assert_int_eq((multiply_adds("inception_v3") + 500000) / 1000000, 5713);
	/* without what is looked up and the products of pairs */
	ck_assert_int_eq(multiply_adds("dlrm"),
			13 * 512 + 512 * 256 + 256 * 64 + 64 * 16 + 367 * 512 + 512 * 256 + 256);
	ck_assert_int_eq((multiply_adds("densenet121") + 500000) / 1000000, 2834);
	/* of nobody's publishing: from the widths and sizes of its levels */
	ck_assert_int_eq(multiply_adds("unet"), 48171581440);
	ck_assert_int_eq(multiply_adds("cosmoflow"), 10204750080);
}
END_TEST

/* Of all steps of a sample: what linear layers and recurrences do forward. */
static int64_t flops_of(const char *net, const char *form)
{
	struct ff_arena a;
	struct ff_graph g;
	int64_t sum = 0;

	ff_arena_init(&a);
	build(&(struct zoo_case){net, 1, {form}, 0, 1}, &a, &g);
	for (uint32_t i = 0; i < g.n_nodes; i++)
		if (g.nodes[i].op == FF_OP_LINEAR || g.nodes[i].op == FF_OP_LSTM)
			sum += g.nodes[i].flops_forward;
	ff_arena_finish(&a);
	return sum;
}

/* What experts do to their slots: 5120 places, 2 choices, 125 %; however places get there. */
START_TEST(experts)
{
	static const char *const ways[] = {"dispatch=index", "dispatch=ones"};
	struct ff_arena a;
	struct ff_graph g;
	int64_t sum = 0;

	ff_arena_init(&a);
	build(&(struct zoo_case){"moe", 1, {"layers=1", "sequence=5120", ways[_i]}, 0, 1}, &a, &g);
	for (uint32_t i = 0; i < g.n_nodes; i++)
		if (g.nodes[i].op == FF_OP_CONV1D || g.nodes[i].op == FF_OP_CONV2D)
			sum += g.nodes[i].flops_forward;
	ck_assert_int_eq(sum, 2 * 3 * (int64_t)4096 * 14336 * 5120 * 2 * 5 / 4);
	ff_arena_finish(&a);
}
END_TEST

/* A product 2 a weight, a bias 1, and what a cell does to a number of a gate 6. */
START_TEST(recurrences)
{
	int64_t h = 2048, in = 4 * h * (2 * h + 1), state = 4 * h * (2 * h + 6);

	ck_assert_int_eq(flops_of("rnnlm", "form=sequence"),
			40 * (2 * (in + state) + 10000 * (2 * h + 1)));
	ck_assert_int_eq(flops_of("rnnlm", "pieces=7"), flops_of("rnnlm", "form=sequence"));
	/* nothing is made of a state of zeros; cells are nodes of their own */
	ck_assert_int_eq(flops_of("rnnlm", "form=cells"),
			40 * (2 * in + 10000 * (2 * h + 1)) + 39 * 2 * 4 * h * 2 * h);
	h = 1024;
	in = 4 * h * (2 * h + 1);
	state = 4 * h * (2 * h + 6);
	ck_assert_int_eq(flops_of("rnntc", "pieces=3"), 40 * 4 * (in + state) + 2 * (2 * h + 1));
	ck_assert_int_eq(flops_of("nmt", "pieces=3"),
			40 * (4 * (in + state) + h * (4 * h + 1) + 32000 * (2 * h + 1)));
}
END_TEST

/* A branching network: concat and add, with tensors used more than once. */
START_TEST(branches)
{
	struct ff_arena a;
	struct ff_graph g;
	uint32_t concats = 0, adds = 0, shared = 0;

	ff_arena_init(&a);
	build(&(struct zoo_case){"branchnet", 4, {"blocks=5"}, 0, 4}, &a, &g);
	for (uint32_t i = 0; i < g.n_nodes; i++) {
		concats += g.nodes[i].op == FF_OP_CONCAT && g.nodes[i].n_in == 4;
		adds += g.nodes[i].op == FF_OP_ADD;
	}
	for (uint32_t i = 0; i < g.n_values; i++)
		shared += g.values[i].n_uses == 5;
	ck_assert_uint_eq(concats, 5);
	ck_assert_uint_eq(adds, 5);
	ck_assert_uint_eq(shared, 5);
	ff_arena_finish(&a);
}
END_TEST

/* The published U-Net makes maps of 388x388 of images of 572x572. */
START_TEST(sizes)
{
	static const struct {
		struct zoo_case z;
		int32_t size;
	} cases[] = {
			{{"unet", 1, {"padding=valid", "image=572"}, 0, 1}, 388},
			{{"unet", 1, {NULL}, 0, 1}, 256},
			{{"unet", 1, {"image=191"}, 0, 1}, 191},
			{{"unet", 1, {"image=45", "decoder=upsample"}, 0, 1}, 45},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ff_arena a;
		const struct ff_value *labels;
		struct ff_graph g;

		ff_arena_init(&a);
		build(&cases[i].z, &a, &g);
		labels = &g.values[g.nodes[ff_graph_find(&g, "labels")].out];
		ck_assert_uint_eq(labels->rank, 3);
		ck_assert_int_eq(labels->shape[1], cases[i].size);
		ck_assert_int_eq(labels->shape[2], cases[i].size);
		ff_arena_finish(&a);
	}
}
END_TEST

START_TEST(bad)
{
	static const struct {
		struct zoo_case z;
		const char *sentence;
	} cases[] = {
			{{"resnet", 0, {NULL}, 0, 0}, "; did you mean resnet50?"},
			{{"something", 0, {NULL}, 0, 0}, "only mlp, lenet, alexnet, branchnet"},
			{{"mlp", 0, {"width=3"}, 0, 0},
					"there is no \"width\", only image, channels"},
			{{"mlp", 0, {"hidden"}, 0, 0}, "expected key=value"},
			{{"mlp", 0, {"hidden="}, 0, 0}, "from 1 to 1048576"},
			{{"mlp", 0, {"hidden=0"}, 0, 0}, "from 1 to 1048576, not \"0\""},
			{{"mlp", 0, {"hidden=-5"}, 0, 0}, "from 1 to 1048576"},
			{{"mlp", 0, {"hidden=12x"}, 0, 0}, "from 1 to 1048576"},
			{{"mlp", 0, {"hidden=99999999999999999999"}, 0, 0}, "from 1 to 1048576"},
			{{"mlp", 0, {"=1"}, 0, 0}, "there is no \"\""},
			{{"lenet", 0, {"pool=sum"}, 0, 0}, "expected one of max|avg"},
			{{"lenet", 0, {"image=5"}, 0, 0}, "the kernel spans 5"},
			{{"vgg16", 0, {"image=31"}, 0, 0}, "from 32 to 4096"},
			{{"resnet50", 0, {"dropout=5"}, 0, 0},
					"only image, channels, classes, norm"},
			{{"inception_v3", 0, {"image=74"}, 0, 0}, "from 75 to 4096"},
			{{"googlenet", 0, {"image=30"}, 0, 0}, "from 31 to 4096"},
			{{"densenet121", 0, {"image=28"}, 0, 0}, "from 29 to 4096"},
			{{"mlp", 1 << 25, {NULL}, 0, 0}, "--batch: expected 1 to 16777216"},
			{{"densenet121", 1 << 24, {NULL}, 0, 0}, "tensors exceed 2^50"},
			{{"mlp", 1, {"hidden=1048576", "layers=100"}, 0, 0},
					"parameters exceed 2^46"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct zoo_case *z = &cases[i].z;
		struct ff_arena a;
		struct ff_graph g;
		struct ff_error err = {0};

		ff_arena_init(&a);
		ck_assert_int_eq(ff_zoo_build(z->name, z->batch, z->sets, count_sets(z), &a, &g,
						 &err),
				FF_E_INPUT);
		ck_assert_msg(strstr(err.text, cases[i].sentence), "got \"%s\", expected \"%s\"",
				err.text, cases[i].sentence);
		ff_arena_finish(&a);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("zoo");
	TCase *c = tcase_create("zoo");

	tcase_add_test(c, parameters);
	tcase_add_test(c, flops);
	tcase_add_test(c, recurrences);
	tcase_add_loop_test(c, experts, 0, 2);
	tcase_add_test(c, branches);
	tcase_add_test(c, sizes);
	tcase_add_test(c, bad);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
