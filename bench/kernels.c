/* Times of a backend's kernels, node by node of a network of the zoo, on
 * one device: GFLOP/s where there is arithmetic, GB/s of what is read and
 * written.  OMP_NUM_THREADS=1 gives the figures of one core.  What fits a cache lies there.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/backends.h"
#include "ff/cli.h"
#include "ff/graph_file.h"
#include "ff/philox.h"
#include "ff/zoo.h"
#include "prof/watch.h"

#define LEAST_US 50000 /* of measuring each kernel */

struct bench {
	struct ff_graph graph;
	const struct ff_backend *on;
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_watch watch;
};

/* What is run and timed. */
struct job {
	struct bench *b;
	struct ff_kernel *kernel;
	const struct ff_kernel_io *io;
};

/* Random memory in [-1/2, 1/2), of which a shorter type reads but the start; labels of class
 * 0, and so are all whole numbers. */
static int fill(struct bench *b, int64_t n, enum ff_dtype type, void *ret, struct ff_error *err)
{
	bool real = type == FF_F32 || type == FF_BF16;
	size_t bytes = (size_t)n * FF_F32_BYTES;
	float *v;
	void *there;
	int code = n ? b->on->memory.alloc(b->dev, bytes, &there, err) : FF_OK;
	uint16_t *halves;

	if (code < 0 || n == 0)
		return code;
	memcpy(ret, &there, sizeof(there));
	v = calloc((size_t)n, sizeof(*v));
	if (!v)
		return ff_fail_memory(err);
	halves = (uint16_t *)v;
	if (real)
		ff_philox_uniform(1, 0, 0, (size_t)n, v);
	for (int64_t i = 0; i < n && real; i++)
		v[i] -= 0.5f;
	for (int64_t i = 0; i < n && type == FF_BF16; i++)
		halves[i] = ff_bf16_from_f32(v[i]);
	code = b->on->move.upload(b->stream, there, v, bytes, err);
	if (code == FF_OK)
		code = b->on->stream.drain(b->stream, err);
	free(v);
	return code;
}

static int fill_io(struct bench *b, const struct ff_work *w, int64_t workspace,
		struct ff_kernel_io *io, struct ff_error *err)
{
	const struct ff_node *n = w->node;
	int code = FF_OK;

	*io = (struct ff_kernel_io){.training = true};
	for (uint32_t i = 0; i < n->n_in && code == FF_OK; i++) {
		int64_t volume = ff_region_volume(&w->in[i]);
		const struct ff_value *t = &b->graph.values[b->graph.edges[n->in + i].value];

		code = fill(b, volume, t->dtype, &io->in[i], err);
		if (i == 1 && (ff_op_row(n->op)->flags & FF_OP_LOSS))
			io->valid = volume;
		if (code == FF_OK && w->need_din[i])
			code = fill(b, volume, FF_F32, &io->din[i], err);
	}
	for (uint32_t i = 0; i < n->n_out && code == FF_OK; i++) {
		enum ff_dtype type = n->out_map[i].dtype;

		code = fill(b, ff_region_volume(&w->out[i]), type, &io->out[i], err);
		if (code == FF_OK)
			code = fill(b, ff_region_volume(&w->out[i]), type, &io->dout[i], err);
	}
	return code < 0 ? code : fill(b, workspace / FF_F32_BYTES, FF_F32, &io->workspace, err);
}

static void free_io(struct bench *b, struct ff_kernel_io *io)
{
	for (uint32_t i = 0; i < FF_MAX_INPUTS; i++) {
		b->on->memory.free(b->dev, (void *)(uintptr_t)io->in[i]);
		b->on->memory.free(b->dev, io->din[i]);
	}
	for (uint32_t i = 0; i < FF_MAX_OUTPUTS; i++) {
		b->on->memory.free(b->dev, io->out[i]);
		b->on->memory.free(b->dev, (void *)(uintptr_t)io->dout[i]);
	}
	b->on->memory.free(b->dev, io->workspace);
}

static int run(void *arg, struct ff_error *err)
{
	const struct job *j = arg;

	return j->b->on->kernel.run(j->b->stream, j->kernel, j->io, err);
}

/* The fastest of several runs. */
static int measure(struct bench *b, struct ff_kernel *k, const struct ff_kernel_io *io, double *us,
		struct ff_error *err)
{
	struct job job = {b, k, io};
	double begin = ff_clock_us();

	*us = 1e30;
	for (int i = 0; i < 3 || ff_clock_us() - begin < LEAST_US; i++) {
		double now_us;
		int code = ff_watch_time(&b->watch, run, &job, &now_us, err);

		if (code < 0)
			return code;
		*us = now_us < *us ? now_us : *us;
	}
	return FF_OK;
}

static void fill_work(const struct bench *b, uint32_t node, enum ff_pass pass, struct ff_work *ret)
{
	struct ff_region whole = {.rank = b->graph.nodes[node].n_dims};

	for (uint32_t d = 0; d < whole.rank; d++)
		whole.hi[d] = b->graph.nodes[node].dim[d].extent;
	ff_work_fill(&b->graph, node, &whole, pass, ret);
}

static int bench_pass(struct bench *b, uint32_t node, enum ff_pass pass, struct ff_error *err)
{
	struct ff_kernel_io io;
	struct ff_kernel *k;
	struct ff_work w;
	double us;
	int code;

	fill_work(b, node, pass, &w);
	code = b->on->kernel.open(b->dev, &w, &k, err);
	if (code < 0)
		return code;
	code = fill_io(b, &w, b->on->kernel.workspace(k), &io, err);
	if (code == FF_OK)
		code = measure(b, k, &io, &us, err);
	if (code == FF_OK)
		printf("%-16s %-22s %-8s %11.1f %9.1f %8.1f %10.2f\n", w.node->name,
				ff_op_row(w.node->op)->name,
				pass == FF_FORWARD ? "forward" : "backward", us,
				(double)ff_work_flops(&w) / us * 1e-3,
				(double)ff_work_bytes(&w) / us * 1e-3,
				(double)b->on->kernel.workspace(k) / (1 << 20));
	free_io(b, &io);
	b->on->kernel.close(k);
	return code;
}

/* Kernels of a GPU without what a launch alone takes longer than one of many. */
static int open_all(struct bench *b, struct ff_error *err)
{
	struct ff_launches launches;
	int code = b->on->device.open(0, &b->dev, err);

	if (code == FF_OK)
		code = b->on->device.computes(b->dev, b->graph.dtype, err);
	if (code == FF_OK)
		code = b->on->stream.open(b->dev, false, &b->stream, err);
	if (code == FF_OK)
		code = ff_watch_open(&b->watch, b->on, b->dev, b->stream, err);
	return code < 0 || b->on->memory.of_host ? code
						 : ff_watch_launches(&b->watch, &launches, err);
}

/* Of all kernels of a step; updates are none. */
static double step_flops(const struct bench *b)
{
	double flops = 0;

	for (uint32_t i = 0; i < b->graph.n_nodes; i++)
		for (int pass = FF_FORWARD; pass <= FF_BACKWARD; pass++)
			if (ff_node_is_computed(&b->graph, i)) {
				struct ff_work w;

				fill_work(b, i, (enum ff_pass)pass, &w);
				flops += (double)ff_work_flops(&w);
			}
	return flops;
}

static int bench_all(struct bench *b, struct ff_error *err)
{
	int code = open_all(b, err);

	if (code == FF_OK)
		printf("%-16s %-22s %-8s %11s %9s %8s %10s\n", "node", "operator", "pass", "us",
				"GFLOP/s", "GB/s", "scratch MiB");
	for (uint32_t i = 0; i < b->graph.n_nodes && code == FF_OK; i++) {
		bool source = !ff_node_is_computed(&b->graph, i);

		for (int pass = FF_FORWARD; pass <= FF_BACKWARD && code == FF_OK && !source; pass++)
			code = bench_pass(b, i, (enum ff_pass)pass, err);
	}
	ff_watch_close(&b->watch);
	if (b->stream)
		b->on->stream.close(b->stream);
	if (b->dev)
		b->on->device.close(b->dev);
	return code;
}

/* What the command line calls a network: a name or a graph's file. */
static int build(struct bench *b, const char *name, uint64_t batch, const struct ff_texts *sets,
		struct ff_arena *arena, struct ff_error *err)
{
	return strchr(name, '.') ? ff_graph_load(name, arena, &b->graph, err)
				 : ff_zoo_build(name, batch, sets->text, sets->n, arena, &b->graph,
						   err);
}

int main(int argc, char **argv)
{
	uint64_t batch = 64;
	bool flops = false;
	struct ff_texts sets = {0};
	const char *device = "cpu";
	const struct ff_option options[] = {{"--batch", FF_OPTION_COUNT, &batch, "N", "batch size"},
			{"--device", FF_OPTION_TEXT, &device, "KIND", "cpu or cuda"},
			{"--set", FF_OPTION_TEXTS, &sets, "KEY=VALUE",
					"change a parameter of the network; may be repeated"},
			{"--flops", FF_OPTION_FLAG, &flops, NULL,
					"time nothing, tell how many FLOPs a step has"}};
	const struct ff_command command = {.name = "bench-kernels",
			.usage = "[NETWORK] [--batch N] [--device KIND] [--set KEY=VALUE]... "
				 "[--flops]",
			.summary = "times a backend's kernels",
			.details = "NETWORK is one that ffzoo --list names, or a graph's file; "
				   "alexnet when absent.",
			.options = options,
			.n_options = sizeof(options) / sizeof(options[0]),
			.max_args = 1};
	const char *name[1] = {"alexnet"};
	struct bench b = {0};
	struct ff_arena arena;
	struct ff_error err;
	uint32_t n;
	bool done = false;
	int code = ff_cli_parse(&command, argc, argv, name, &n, &done, &err);

	ff_arena_init(&arena);
	if (code == FF_OK && !done)
		code = build(&b, name[0], batch, &sets, &arena, &err);
	if (code == FF_OK && !done)
		code = ff_backends_tune(&err);
	b.on = ff_backend_find(device);
	if (code == FF_OK && !done && (!b.on || b.on == &ff_backend_null))
		code = ff_fail(&err, FF_E_INPUT, "--device %s: expected cpu or cuda", device);
	if (code == FF_OK && !done && flops)
		printf("%.0f\n", step_flops(&b));
	else if (code == FF_OK && !done)
		code = bench_all(&b, &err);
	ff_arena_finish(&arena);
	return ff_cli_end(&command, code, &err);
}
