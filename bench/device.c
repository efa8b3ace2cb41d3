/* Prints what kernels take by a model of a device: of each line of standard input, "CLASS key=value
 * ...", the microseconds (bench/fit_devices.py fits models by it); or of each pass of a graph's
 * operators its cost key, kernels, as such lines, and their times, in JSON (bench/model_errors.py).
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/backward.h"
#include "ff/cli.h"
#include "ff/device_model.h"
#include "ff/graph_file.h"
#include "ff/json.h"

#define LINE 512

struct tables {
	struct ff_arena arena;
	struct ff_device_model model;
	struct ff_graph graph;
	struct ff_out out;
};

static int read_word(const char *word, struct ff_kernel_shape *s, struct ff_error *err)
{
	double flags[5] = {s->back, s->pass, s->type == FF_BF16, s->steps, s->a_transposed};
	const struct {
		const char *key;
		double *at;
	} fields[] = {{"bytes", &s->bytes}, {"m", &s->m}, {"n", &s->n}, {"k", &s->k},
			{"count", &s->count}, {"share", &s->share}, {"taps", &s->taps},
			{"stride", &s->stride}, {"winograd", &s->winograd}, {"back", &flags[0]},
			{"pass", &flags[1]}, {"bfloat16", &flags[2]}, {"steps", &flags[3]},
			{"a_transposed", &flags[4]}};
	size_t n = strcspn(word, "="), i = 0;

	while (i < sizeof(fields) / sizeof(*fields) &&
			(strlen(fields[i].key) != n || memcmp(fields[i].key, word, n) != 0))
		i++;
	if (i == sizeof(fields) / sizeof(*fields) || !word[n])
		return ff_fail(err, FF_E_INPUT, "\"%.40s\" is no key=value of a kernel", word);
	*fields[i].at = atof(word + n + 1);
	s->back = flags[0] > 0;
	s->pass = (enum ff_conv_pass)flags[1];
	s->type = flags[2] > 0 ? FF_BF16 : FF_F32;
	s->steps = (enum ff_steps)flags[3];
	s->a_transposed = flags[4] > 0;
	return FF_OK;
}

static int read_shape(char *line, struct ff_kernel_shape *s, struct ff_error *err)
{
	char *word = strtok(line, " \n");
	uint32_t c = 0;
	int code = FF_OK;

	*s = (struct ff_kernel_shape){
			.count = 1, .share = 1, .taps = 1, .stride = 1, .brief = true};
	while (c < FF_KERNEL_CLASS_COUNT && word &&
			strcmp(ff_kernel_class_name((enum ff_kernel_class)c), word) != 0)
		c++;
	if (!word || c == FF_KERNEL_CLASS_COUNT)
		return ff_fail(err, FF_E_INPUT, "\"%.40s\" is no class of kernels",
				word ? word : "");
	s->class = (enum ff_kernel_class)c;
	while (code == FF_OK && (word = strtok(NULL, " \n")))
		code = read_word(word, s, err);
	return code;
}

/* As read_shape reads it; what is 0 means nothing to the class. */
static void write_shape(const struct ff_kernel_shape *s, char line[LINE])
{
	const struct {
		const char *key;
		double value;
	} fields[] = {{"bytes", s->bytes}, {"m", s->m}, {"n", s->n}, {"k", s->k},
			{"count", s->count}, {"share", s->share}, {"taps", s->taps},
			{"stride", s->stride}, {"back", s->back}, {"winograd", s->winograd},
			{"pass", s->pass}, {"bfloat16", s->type == FF_BF16}, {"steps", s->steps},
			{"a_transposed", s->a_transposed}};
	size_t at = (size_t)snprintf(line, LINE, "%s", ff_kernel_class_name(s->class));

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		if (fields[i].value != 0)
			at += (size_t)snprintf(line + at, LINE - at, " %s=%.17g", fields[i].key,
					fields[i].value);
}

/* Each kernel as ffprof times it, alone. */
static void write_work(const struct ff_device_model *m, const struct ff_work *w, const char *key,
		struct ff_out *o)
{
	struct ff_kernel_shape kernel[FF_MOST_KERNELS];
	uint32_t n = ff_work_kernels(w, kernel);
	char line[LINE];

	ff_out_object(o, NULL);
	ff_out_string(o, "key", key);
	ff_out_string(o, "operator", ff_op_row(w->node->op)->name);
	ff_out_bool(o, "backward", w->pass == FF_BACKWARD);
	ff_out_array(o, "kernels");
	for (uint32_t i = 0; i < n; i++) {
		bool inferred;
		double us;

		kernel[i].brief = true;
		us = ff_device_model_us(m, &kernel[i], &inferred);
		write_shape(&kernel[i], line);
		ff_out_object(o, NULL);
		ff_out_string(o, "shape", line);
		ff_out_real(o, "us", us);
		ff_out_bool(o, "inferred", inferred);
		ff_out_close(o);
	}
	ff_out_close(o);
	ff_out_close(o);
}

/* One pass of a whole operator. */
static void tell(struct tables *t, uint32_t node, enum ff_pass pass)
{
	const struct ff_node *n = &t->graph.nodes[node];
	struct ff_region box = {.rank = n->n_dims};
	char key[FF_KEY_BYTES];
	struct ff_work w;

	for (uint32_t d = 0; d < n->n_dims; d++)
		box.hi[d] = n->dim[d].extent;
	ff_work_fill(&t->graph, node, &box, pass, &w);
	ff_work_key(&w, key);
	write_work(&t->model, &w, key, &t->out);
}

/* All works of a step on one device. */
static int run_graph(struct tables *t, const char *graph, struct ff_error *err)
{
	int code = ff_graph_load(graph, &t->arena, &t->graph, err);

	ff_out_init(&t->out);
	ff_out_array(&t->out, NULL);
	for (uint32_t i = 0; code == FF_OK && i < t->graph.n_nodes; i++) {
		if (!ff_node_is_computed(&t->graph, i))
			continue;
		tell(t, i, FF_FORWARD);
		if (ff_node_needs_grad(&t->graph, i))
			tell(t, i, FF_BACKWARD);
	}
	ff_out_close(&t->out);
	if (code == FF_OK)
		code = ff_out_save(&t->out, "-", err);
	ff_out_finish(&t->out);
	return code;
}

static int run_shapes(const struct ff_device_model *m, struct ff_error *err)
{
	struct ff_kernel_shape s;
	char line[LINE];
	int code = FF_OK;

	while (code == FF_OK && fgets(line, sizeof(line), stdin)) {
		code = read_shape(line, &s, err);
		if (code == FF_OK)
			printf("%.17g\n", ff_device_model_us(m, &s, NULL));
	}
	return code;
}

int main(int argc, char **argv)
{
	const char *graph = NULL;
	const struct ff_option options[] = {{"--graph", FF_OPTION_TEXT, &graph, "GRAPH",
			"instead of reading kernels, tell of each pass of its operators the cost "
			"key, "
			"kernels and what they take, as JSON"}};
	const struct ff_command command = {.name = "bench-device",
			.usage = "MODEL < KERNELS\nMODEL --graph GRAPH",
			.summary = "Prints what kernels take by a model of a device.",
			.options = options,
			.n_options = sizeof(options) / sizeof(*options),
			.min_args = 1,
			.max_args = 1};
	struct tables t = {0};
	struct ff_error err = {0};
	const char *path;
	uint32_t n;
	bool done = false;
	int code;

	ff_arena_init(&t.arena);
	code = ff_cli_parse(&command, argc, argv, &path, &n, &done, &err);
	if (code == FF_OK && !done)
		code = ff_device_model_load(path, &t.arena, &t.model, &err);
	if (code == FF_OK && !done)
		code = graph ? run_graph(&t, graph, &err) : run_shapes(&t.model, &err);
	ff_arena_finish(&t.arena);
	return ff_cli_end(&command, code, &err);
}
