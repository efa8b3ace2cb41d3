/* What a backend's kernels take as scratch: of each convolution and attention of graphs, whole and
 * in parts, a line.  No kernel is run, so that it does for a GPU that is described alone
 * (tests/double/described.cpp).  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "ff/backends.h"
#include "ff/cli.h"
#include "ff/graph_file.h"
#include "ff/hash.h"
#include "ff/kernel_shape.h"
#include "ff/philox.h"
#include "ff/scratch.h"

#define MOST_DEGREE 8
#define MOST_GRAPHS 64

struct bench {
	const struct ff_backend *on;
	struct ff_device *dev;
	struct ff_arena arena;
	struct ff_table seen; /* ff_work_hash */
	struct ff_scratch scratch;
	uint64_t drawn, parts;
	bool sums;  /* gradients are to be added */
	uint32_t n; /* works so far */
};

static bool is_of_library(const struct ff_work *w)
{
	struct ff_kernel_shape kernel[FF_MOST_KERNELS];
	uint32_t n = ff_work_kernels(w, kernel);

	for (uint32_t i = 0; i < n; i++)
		if (kernel[i].class == FF_KERNEL_CONVOLUTION ||
				kernel[i].class == FF_KERNEL_ATTENTION)
			return true;
	return false;
}

/* Gradients of the first two inputs that the kernel makes, and those of them that it can add. */
static int print_sums(
		struct bench *b, const struct ff_work *w, struct ff_kernel *k, struct ff_error *err)
{
	int made = 0, added = 0, code = FF_OK;
	bool adds;

	for (uint32_t i = 0; i < 2 && w->pass == FF_BACKWARD && code == FF_OK; i++) {
		if (!w->need_din[i])
			continue;
		code = b->on->kernel.add(k, i, &adds, err);
		made++;
		added += adds;
	}
	printf("\t%d\t%d", made, added);
	return code;
}

/* One that there was before is passed over. */
static int tell(struct bench *b, const struct ff_work *w, struct ff_error *err)
{
	uint64_t hash = ff_work_hash(w);
	char key[FF_KEY_BYTES];
	struct ff_kernel *k;
	uint32_t at;
	int code;

	if (!is_of_library(w) || ff_table_first(&b->seen, hash, &at) != FF_NONE)
		return FF_OK;
	if (ff_table_put(&b->seen, hash, b->n++) < 0)
		return ff_fail_memory(err);
	ff_work_key(w, key);
	code = b->on->kernel.open(b->dev, w, &k, err);
	if (code < 0)
		return code;
	printf("%" PRId64 "\t%" PRId64 "\t%s\t%s", b->on->kernel.workspace(k),
			ff_scratch_bytes(&b->scratch, w), w->graph->name, key);
	if (b->sums && b->on->kernel.add)
		code = print_sums(b, w, k, err);
	putchar('\n');
	b->on->kernel.close(k);
	return code;
}

static int below(struct bench *b, int n)
{
	float u;

	ff_philox_uniform(7, 0, b->drawn++, 1, &u);
	return (int)(u * (float)n) % n;
}

/* The first of parts along every axis, as many as powers of two say. */
static void draw(struct bench *b, const struct ff_node *node, struct ff_region *ret)
{
	int left = MOST_DEGREE;

	for (uint32_t i = 0; i < node->n_dims; i++) {
		int degree = 1 << below(b, 4);

		if (degree > left || degree > node->dim[i].extent)
			continue;
		ret->hi[i] = (node->dim[i].extent + degree - 1) / degree;
		left /= degree;
	}
}

static int tell_node(struct bench *b, const struct ff_graph *g, uint32_t node, struct ff_error *err)
{
	const struct ff_node *n = &g->nodes[node];
	int code = FF_OK;

	if (!ff_node_is_computed(g, node))
		return FF_OK;
	for (uint64_t part = 0; part <= b->parts && code == FF_OK; part++) {
		struct ff_region box = {.rank = n->n_dims};
		struct ff_work work;

		for (uint32_t i = 0; i < n->n_dims; i++)
			box.hi[i] = n->dim[i].extent;
		if (part)
			draw(b, n, &box);
		for (int pass = 0; pass < 2 && code == FF_OK; pass++) {
			ff_work_fill(g, node, &box, (enum ff_pass)pass, &work);
			code = tell(b, &work, err);
		}
	}
	return code;
}

static int tell_graph(struct bench *b, const char *path, struct ff_error *err)
{
	struct ff_graph g;
	int code = ff_graph_load(path, &b->arena, &g, err);

	for (uint32_t i = 0; code == FF_OK && i < g.n_nodes; i++)
		code = tell_node(b, &g, i, err);
	return code;
}

int main(int argc, char **argv)
{
	struct bench b = {.scratch = {.cuda = true, .threads = 1}, .parts = 4};
	const struct ff_option options[] = {
			{"--parts", FF_OPTION_COUNT, &b.parts, "N",
					"parts that are drawn of each operator, beside the whole "
					"(preset 4)"},
			{"--sums", FF_OPTION_FLAG, &b.sums, NULL,
					"also gradients of two inputs that are made, and that can "
					"be added"}};
	const struct ff_command command = {.name = "bench-workspaces",
			.usage = "GRAPH... [--parts N] [--sums]",
			.summary = "prints the scratch of CUDA kernels, and what is estimated of "
				   "it",
			.options = options,
			.n_options = sizeof(options) / sizeof(options[0]),
			.min_args = 1,
			.max_args = MOST_GRAPHS};
	const char *path[MOST_GRAPHS];
	struct ff_error err;
	uint32_t n;
	bool done = false;
	int code = ff_cli_parse(&command, argc, argv, path, &n, &done, &err);

	ff_arena_init(&b.arena);
	b.on = ff_backend_find("cuda");
	if (code == FF_OK && !done)
		code = b.on->device.open(0, &b.dev, &err);
	for (uint32_t i = 0; i < n && code == FF_OK && !done; i++)
		code = tell_graph(&b, path[i], &err);
	if (b.dev)
		b.on->device.close(b.dev);
	ff_table_finish(&b.seen);
	ff_arena_finish(&b.arena);
	return ff_cli_end(&command, code, &err);
}
