/* Models of devices against what cannot be: of networks and sizes that nobody fitted anything to,
 * no kernel is faster than arithmetic and memory allow, none of much work is far slower, more
 * samples never take less time, and a newer device is no slower.  SPDX-License-Identifier:
 * Apache-2.0 */
#include <math.h>
#include <string.h>

#include "check_main.h"
#include "ff/device_model.h"
#include "ff/op.h"
#include "ff/philox.h"
#include "ff/zoo.h"

/* Slowest first where `follows` says that the next is of a later generation. */
static const struct {
	const char *name;
	bool follows;
} kinds[] = {{"P100-16GB", false}, {"V100-16GB", true}, {"A100-80GB", true}, {"H100-80GB", true},
		{"H200-141GB", true}, {"B200-180GB", true}, {"K80", false}, {"T4", false},
		{"A100-PCIE-40GB", false}, {"A100-40GB", false}, {"H100-PCIE-80GB", false},
		{"V100-32GB", false}, {"V100-SXM3-32GB", false}, {"L4", false}};
#define N_KINDS (sizeof(kinds) / sizeof(*kinds))

#define MOST_SETS 3
#define MOST_BATCHES 4
/* Of 36 multiplications Winograd's F(2x2, 3x3) leaves 16 (Lavin, Gray, CVPR 2016). */
#define WINOGRAD (16.0 / 36)
#define WINOGRAD_OF_FIVE (36.0 / 100) /* F(2x2, 5x5) */
#define LARGE_US 100 /* of arithmetic or memory: much work, whatever a kernel takes to begin */
#define FAR 50       /* times what arithmetic and memory allow */
#define FAR_PART 250 /* the same of parts, which may leave most of a tile empty */
#define KEPLER 1.5   /* on K80, whose best products reach two thirds of its peak */
#define SLOWER 1.1   /* what the whole step of a newer device may take, times the older one's */

/* Batches ascend, each twice the one before it or more. */
static const struct net {
	const char *name, *set[MOST_SETS];
	uint32_t batch[MOST_BATCHES];
} nets[] = {
		{"resnet50", {0}, {1, 64, 4096}},
		{"resnext50_32x4d", {0}, {1, 32, 256}}, /* groups of few channels */
		{"mobilenet_v2", {0}, {1, 128, 1024}},  /* of one */
		{"densenet121", {0}, {2, 256}},         /* few channels, many reads */
		{"inception_v3", {0}, {1, 256}},        /* 1 x 7, 7 x 1, 5 x 5 */
		{"unet", {"image=512"}, {1, 2, 16}},    /* transposed convolutions */
		{"cosmoflow", {0}, {1, 64}},            /* three axes */
		{"vgg16", {0}, {1, 256, 4096}},         /* large layers */
		{"lenet", {0}, {1, 4096, 65536}},       /* tiny products, many of them */
		{"mlp", {"hidden=1", "image=64"}, {1, 4096, 65536}}, /* one column */
		{"mlp", {"hidden=3", "layers=8"}, {2, 65536}},
		{"mlp", {"hidden=65536", "layers=1"}, {1, 2, 4096}}, /* one row */
		{"lm", {"vocabulary=1048576"}, {1, 4096}},
		{"dlrm", {0}, {1, 2048, 65536}}, /* tables of millions of rows */
		{"dlrm_terabyte", {0}, {1, 65536}},
		{"gpt2", {"sequence=128"}, {1, 64, 4096}},
		{"gpt2", {"sequence=32768"}, {1, 8}},
		{"gpt2", {"width=1600", "heads=25", "layers=2"}, {1, 16}}, /* odd heads */
		{"bert", {"sequence=16", "layers=1"}, {1, 4096}},
		{"llama", {"layers=2"}, {1, 16}},
		{"moe", {"layers=1"}, {1, 4}},
		{"vit_b16", {"image=1024"}, {1, 32}},
		{"rnnlm", {0}, {1, 64, 1024}},
		{"nmt", {0}, {1, 256}},
};
#define N_NETS (sizeof(nets) / sizeof(*nets))

static struct ff_device_model model[N_KINDS];

static void load(struct ff_arena *a)
{
	for (size_t k = 0; k < N_KINDS; k++) {
		const struct ff_device_kind kind = {.name = kinds[k].name};
		const struct ff_device_model *found;
		struct ff_error err;

		ck_assert_msg(ff_device_model_find(&kind, a, &found, &err) == FF_OK && found, "%s",
				err.text);
		model[k] = *found;
	}
}

static double bytes_of(const struct ff_region *r, enum ff_dtype type)
{
	return (double)ff_region_volume(r) * (double)ff_dtype_bytes(type);
}

static enum ff_dtype type_of(const struct ff_graph *g, const struct ff_node *n, uint32_t in)
{
	return g->values[g->edges[n->in + in].value].dtype;
}

/* What must cross the bus at least: what is made, and what that cannot be made without, but for
 * tables of which a part is read, and rows of which slots take some, or places; backward gradients
 * of what is made, at one end and the other. */
static double least_bytes(const struct ff_work *w)
{
	const struct ff_node *n = w->node;
	const struct ff_graph *g = w->graph;
	bool lookup = ff_op_row(n->op)->flags & FF_OP_LOOKUP;
	double bytes = bytes_of(&w->out[0], g->values[n->out].dtype);

	if (n->op == FF_OP_DISPATCH && w->pass == FF_FORWARD)
		return bytes + fmin(bytes, bytes_of(&w->in[0], type_of(g, n, 0)));
	if (n->op == FF_OP_COMBINE && w->pass == FF_FORWARD)
		return bytes + bytes_of(&w->in[0], type_of(g, n, 0)) *
					       ff_region_size(&w->out[0], 1) /
					       n->out_map[0].shape[1];
	for (uint32_t i = 0; i < n->n_in; i++)
		if (w->pass == FF_FORWARD ? !lookup : w->need_din[i] && !lookup)
			bytes += bytes_of(&w->in[i], type_of(g, n, i));
	return fmin(bytes, (double)ff_work_bytes(w));
}

/* Of multiplications that are left at least. */
static double winograd_share(const struct ff_kernel_shape *s, uint32_t n)
{
	double share = 1;

	for (uint32_t i = 0; i < n; i++)
		if (s[i].class == FF_KERNEL_CONVOLUTION && s[i].winograd)
			share = fmin(share, s[i].taps > 9 ? WINOGRAD_OF_FIVE : WINOGRAD);
	return share;
}

/* What tensor cores are of little use for, as DeepBench has it of V100 and T4: rows that are no
 * whole vectors of 16 bytes, and groups of few channels. */
static bool is_odd(const struct ff_kernel_shape *s, uint32_t n)
{
	bool any = false;

	for (uint32_t i = 0; i < n; i++)
		any = any || (s[i].class == FF_KERNEL_CONVOLUTION &&
					     (s[i].count > 1 || fmod(s[i].n, 8) > 0 ||
							     fmod(s[i].k, 8) > 0));
	return any;
}

/* Steps of a recurrence wait for each other, so they are as slow as they are many. */
static bool is_recurrent(const struct ff_kernel_shape *s, uint32_t n)
{
	return n && s[0].class == FF_KERNEL_RECURRENT;
}

/* A part as searches have them: of every dim all, or a share. */
static struct ff_region draw_box(struct ff_random *r, const struct ff_node *n)
{
	struct ff_region box = {.rank = n->n_dims};

	for (uint32_t i = 0; i < n->n_dims; i++) {
		int32_t all = n->dim[i].extent, cut = 1 << (r ? ff_random_below(r, 7) : 0);

		box.hi[i] = cut < 16 && cut <= all ? all / cut : all;
	}
	return box;
}

/* The time of one pass of a part of an operator, of all of it where `r` is NULL, checked. */
static double checked_us(const struct ff_device_model *m, const struct net *net,
		const struct ff_graph *g, uint32_t node, enum ff_pass pass, struct ff_random *r)
{
	const struct ff_node *n = &g->nodes[node];
	struct ff_region box = draw_box(r, n);
	struct ff_kernel_shape s[FF_MOST_KERNELS];
	double us, arithmetic_us, memory_us, all_us, far, share;
	struct ff_inferred inferred;
	struct ff_work w;
	uint32_t kernels;

	ff_work_fill(g, node, &box, pass, &w);
	kernels = ff_work_kernels(&w, s);
	share = winograd_share(s, kernels);
	us = ff_device_model_work_us(m, &w, &inferred);
	if (!kernels)
		return 0;
	arithmetic_us = (double)ff_work_flops(&w) * 1e6 /
			m->flops_per_s[ff_work_type(&w) == FF_BF16];
	memory_us = least_bytes(&w) * 1e6 / m->memory_bytes_per_s;
	all_us = (double)ff_work_bytes(&w) * 1e6 / m->memory_bytes_per_s;
	ck_assert_msg(us >= memory_us, "%s of %s, batch %d, %s on %s: %g us, memory takes %g",
			n->name, net->name, g->batch, pass ? "backward" : "forward", m->name, us,
			memory_us);
	ck_assert_msg(s[0].class < FF_KERNEL_PRODUCT || us >= share * arithmetic_us * (1 - 1e-9),
			"%s of %s, batch %d, %s on %s: %g us, arithmetic takes %g", n->name,
			net->name, g->batch, pass ? "backward" : "forward", m->name, us,
			share * arithmetic_us);
	arithmetic_us *= share < WINOGRAD ? 1 : share; /* of few channels it is of no use */
	if (is_odd(s, kernels))
		arithmetic_us *= m->flops_per_s[ff_work_type(&w) == FF_BF16] / m->flops_per_s[0];
	all_us = fmax(all_us, arithmetic_us);
	far = (r ? FAR_PART : FAR) * (strcmp(m->name, "K80") ? 1 : KEPLER);
	ck_assert_msg(all_us < LARGE_US || is_recurrent(s, kernels) || us <= far * all_us,
			"%s of %s, batch %d, %s on %s: %g us, arithmetic and memory take %g",
			n->name, net->name, g->batch, pass ? "backward" : "forward", m->name, us,
			all_us);
	return us;
}

static double step_us(
		const struct ff_device_model *m, const struct net *net, const struct ff_graph *g)
{
	double us = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (int pass = 0; pass < 2 && ff_node_is_computed(g, i); pass++)
			us += checked_us(m, net, g, i, (enum ff_pass)pass, NULL);
	return us;
}

static void build(const struct net *net, uint32_t batch, bool narrow, struct ff_arena *a,
		struct ff_graph *g)
{
	const char *set[MOST_SETS + 1];
	struct ff_error err;
	uint32_t n = 0;

	while (n < MOST_SETS && net->set[n]) {
		set[n] = net->set[n];
		n++;
	}
	set[n++] = narrow ? "dtype=bfloat16" : "dtype=float32";
	ck_assert_msg(ff_zoo_build(net->name, batch, set, n, a, g, &err) == FF_OK, "%s", err.text);
}

/* One network in one type, on all kinds. */
static void check_net(const struct net *net, bool narrow)
{
	double before[N_KINDS] = {0}, us[N_KINDS];

	for (uint32_t b = 0; b < MOST_BATCHES && net->batch[b]; b++) {
		struct ff_graph g;
		struct ff_arena a;

		ff_arena_init(&a);
		build(net, net->batch[b], narrow, &a, &g);
		for (size_t k = 0; k < N_KINDS; k++) {
			us[k] = step_us(&model[k], net, &g);
			ck_assert_msg(us[k] >= before[k], "%s on %s: batch %u takes %g us, %g less",
					net->name, kinds[k].name, net->batch[b], us[k], before[k]);
			ck_assert_msg(!kinds[k].follows || us[k] <= SLOWER * us[k - 1],
					"%s, batch %u%s: %g us on %s, %g on %s", net->name,
					net->batch[b], narrow ? ", bfloat16" : "", us[k],
					kinds[k].name, us[k - 1], kinds[k - 1].name);
			before[k] = us[k];
		}
		ff_arena_finish(&a);
	}
}

/* Parts of all operators, on some kind. */
static void check_parts(struct ff_random *r, const struct net *net, const struct ff_graph *g)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (int pass = 0; pass < 2 && ff_node_is_computed(g, i); pass++)
			checked_us(&model[ff_random_below(r, N_KINDS)], net, g, i,
					(enum ff_pass)pass, r);
}

START_TEST(parts)
{
	struct ff_random r = {.seed = ff_test_seed(61), .stream = 1};
	uint32_t rounds = ff_test_rounds(4);
	struct ff_arena a;

	ff_arena_init(&a);
	load(&a);
	for (size_t i = 0; i < N_NETS; i++)
		for (uint32_t b = 0; b < MOST_BATCHES && nets[i].batch[b]; b++) {
			struct ff_arena_mark mark = ff_arena_mark(&a);
			struct ff_graph g;

			build(&nets[i], nets[i].batch[b], ff_random_below(&r, 2), &a, &g);
			for (uint32_t k = 0; k < rounds; k++)
				check_parts(&r, &nets[i], &g);
			ff_arena_rewind(&a, mark);
		}
	ff_arena_finish(&a);
}
END_TEST

START_TEST(networks)
{
	struct ff_arena a;

	ff_arena_init(&a);
	load(&a);
	for (size_t i = 0; i < N_NETS; i++)
		for (int narrow = 0; narrow < 2; narrow++)
			check_net(&nets[i], narrow);
	ff_arena_finish(&a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("roofline");
	TCase *t = tcase_create("roofline");

	tcase_add_test(t, networks);
	tcase_add_test(t, parts);
	suite_add_tcase(s, t);
	return ff_check_main(s);
}
