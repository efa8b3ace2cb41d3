/* Times of the CPU backend's kernels, node by node of a network of the zoo, on
 * one device: GFLOP/s where there is arithmetic, GB/s of what is read and
 * written.  OMP_NUM_THREADS=1 gives the figures of one core.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/backend.h"
#include "ff/cli.h"
#include "ff/philox.h"
#include "ff/zoo.h"

#define LEAST_US 50000 /* of measuring each kernel */

static const struct ff_backend *const cpu = &ff_backend_cpu;

struct bench {
	struct ff_graph graph;
	struct ff_device *dev;
	struct ff_stream *stream;
};

/* Random memory in [-1/2, 1/2), of which a shorter type reads but the start; labels of class
 * 0. */
static int fill(struct bench *b, int64_t n, enum ff_dtype type, void *ret, struct ff_error *err)
{
	float *v;
	int code = n ? cpu->alloc(b->dev, (size_t)n * FF_F32_BYTES, (void **)&v, err) : FF_OK;
	uint16_t *halves;

	if (code < 0 || n == 0)
		return code;
	halves = (uint16_t *)v;
	if (type != FF_I32)
		ff_philox_uniform(1, 0, 0, (size_t)n, v);
	for (int64_t i = 0; i < n && type != FF_I32; i++)
		v[i] -= 0.5f;
	for (int64_t i = 0; i < n && type == FF_BF16; i++)
		halves[i] = ff_bf16_from_f32(v[i]);
	memcpy(ret, &v, sizeof(v));
	return FF_OK;
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
		if (t->dtype == FF_I32)
			io->valid = volume;
		if (code == FF_OK && w->need_din[i])
			code = fill(b, volume, FF_F32, &io->din[i], err);
	}
	for (uint32_t i = 0; i < n->n_out && code == FF_OK; i++) {
		enum ff_dtype type = n->out_map[i].dtype == FF_BF16 ? FF_BF16 : FF_F32;

		code = fill(b, ff_region_volume(&w->out[i]), type, &io->out[i], err);
		if (code == FF_OK)
			code = fill(b, ff_region_volume(&w->out[i]), type, &io->dout[i], err);
	}
	return code < 0 ? code : fill(b, workspace / FF_F32_BYTES, FF_F32, &io->workspace, err);
}

static void free_io(struct bench *b, struct ff_kernel_io *io)
{
	for (uint32_t i = 0; i < FF_MAX_INPUTS; i++) {
		cpu->free(b->dev, (void *)(uintptr_t)io->in[i]);
		cpu->free(b->dev, io->din[i]);
	}
	for (uint32_t i = 0; i < FF_MAX_OUTPUTS; i++) {
		cpu->free(b->dev, io->out[i]);
		cpu->free(b->dev, (void *)(uintptr_t)io->dout[i]);
	}
	cpu->free(b->dev, io->workspace);
}

/* The fastest of several runs. */
static int measure(struct bench *b, struct ff_kernel *k, const struct ff_kernel_io *io, double *us,
		struct ff_error *err)
{
	double begin = ff_clock_us(), at = begin;

	*us = 1e30;
	for (int i = 0; i < 3 || at - begin < LEAST_US; i++) {
		int code = cpu->run(b->stream, k, io, err);
		double now = ff_clock_us();

		if (code < 0)
			return code;
		*us = now - at < *us ? now - at : *us;
		at = now;
	}
	return FF_OK;
}

static int bench_pass(struct bench *b, uint32_t node, enum ff_pass pass, struct ff_error *err)
{
	struct ff_region whole = {.rank = b->graph.nodes[node].n_dims};
	struct ff_kernel_io io;
	struct ff_kernel *k;
	struct ff_work w;
	double us;
	int code;

	for (uint32_t d = 0; d < whole.rank; d++)
		whole.hi[d] = b->graph.nodes[node].dim[d].extent;
	ff_work_fill(&b->graph, node, &whole, pass, &w);
	code = cpu->kernel(b->dev, &w, &k, err);
	if (code < 0)
		return code;
	code = fill_io(b, &w, cpu->workspace(k), &io, err);
	if (code == FF_OK)
		code = measure(b, k, &io, &us, err);
	if (code == FF_OK)
		printf("%-16s %-22s %-8s %11.1f %9.1f %8.1f %10.2f\n", w.node->name,
				ff_op_row(w.node->op)->name,
				pass == FF_FORWARD ? "forward" : "backward", us,
				(double)ff_work_flops(&w) / us * 1e-3,
				(double)ff_work_bytes(&w) / us * 1e-3,
				(double)cpu->workspace(k) / (1 << 20));
	free_io(b, &io);
	cpu->kernel_close(k);
	return code;
}

static int bench_all(struct bench *b, struct ff_error *err)
{
	int code = cpu->open(0, &b->dev, err);

	if (code == FF_OK)
		code = cpu->stream(b->dev, false, &b->stream, err);
	if (code == FF_OK)
		printf("%-16s %-22s %-8s %11s %9s %8s %10s\n", "node", "operator", "pass", "us",
				"GFLOP/s", "GB/s", "scratch MiB");
	for (uint32_t i = 0; i < b->graph.n_nodes && code == FF_OK; i++) {
		bool source = !ff_node_is_computed(&b->graph, i);

		for (int pass = FF_FORWARD; pass <= FF_BACKWARD && code == FF_OK && !source; pass++)
			code = bench_pass(b, i, (enum ff_pass)pass, err);
	}
	cpu->stream_close(b->stream);
	cpu->close(b->dev);
	return code;
}

int main(int argc, char **argv)
{
	uint64_t batch = 64;
	struct ff_texts sets = {0};
	const struct ff_option options[] = {{"--batch", FF_OPTION_COUNT, &batch, "N", "batch size"},
			{"--set", FF_OPTION_TEXTS, &sets, "KEY=VALUE",
					"change a parameter of the network; may be repeated"}};
	const struct ff_command command = {.name = "bench-kernels",
			.usage = "[NETWORK] [--batch N] [--set KEY=VALUE]...",
			.summary = "times the CPU backend's kernels",
			.details = "NETWORK is one that ffzoo --list names; alexnet when absent.",
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
		code = ff_zoo_build(name[0], batch, sets.text, sets.n, &arena, &b.graph, &err);
	if (code == FF_OK && !done)
		code = bench_all(&b, &err);
	ff_arena_finish(&arena);
	return ff_cli_end(&command, code, &err);
}
