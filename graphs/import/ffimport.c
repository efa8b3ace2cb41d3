/* ffimport: the graph and the weights of an ONNX model.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "ff/cli.h"
#include "ff/graph_file.h"
#include "ff/import.h"
#include "ff/process.h"

static int run(const struct ff_import_options *o, const char *output, struct ff_error *err)
{
	struct ff_arena a;
	struct ff_graph g;
	struct ff_out out;
	int code;

	ff_arena_init(&a);
	code = ff_import_onnx(o, &a, &g, err);
	for (uint32_t i = 0; i < o->notes->n && code == FF_OK; i++)
		fprintf(stderr, "ffimport: %s\n", o->notes->text[i]);
	if (code == FF_OK) {
		ff_out_init(&out);
		ff_graph_write(&g, &out);
		code = ff_out_save(&out, output, err);
		ff_out_finish(&out);
	}
	ff_arena_finish(&a);
	return code;
}

static const char details[] =
		"A loss is put behind the model's output, with an input of labels or targets.\n"
		"Operators that are not supported are told all at once.\n"
		"\n"
		"  torch.onnx.export(model, x, \"model.onnx\", dynamo=False, "
		"do_constant_folding=False,\n"
		"                    training=torch.onnx.TrainingMode.TRAINING)\n"
		"  ffimport model.onnx -o model.json --weights model.safetensors\n"
		"  ffrun model.json data-parallel --weights model.safetensors --data synthetic "
		"--steps 9\n"
		"\n"
		"Exit status: 0 done, 1 failed, 2 bad usage or a model that cannot be imported.";

static const struct ff_command names = {.name = "ffimport"};

static int parse(int argc, char **argv, struct ff_import_options *o, const char **output,
		bool *done, struct ff_error *err)
{
	const struct ff_option options[] = {
			{"-o", FF_OPTION_TEXT, output, "GRAPH",
					"the graph to write (preset: standard output)"},
			{"--weights", FF_OPTION_TEXT, &o->weights, "FILE",
					"the weights to write (safetensors); ffrun --weights "
					"begins "
					"with them"},
			{"--batch", FF_OPTION_COUNT, &o->batch, "N",
					"samples, where the model leaves them open"},
			{"--output", FF_OPTION_TEXT, &o->output, "NAME",
					"the value that goes to the loss (preset: the first "
					"output)"},
			{"--loss", FF_OPTION_TEXT, &o->loss, "NAME",
					"softmax_cross_entropy (preset), mse, l1, smooth_l1 "
					"or bce_with_logits"},
			{"--classes-last", FF_OPTION_FLAG, &o->classes_last, NULL,
					"the classes are its last axis, not axis 1 (sequences)"},
			{"--name", FF_OPTION_TEXT, &o->name, "NAME",
					"what the graph is called (preset: as the file)"},
	};
	const struct ff_command command = {
			.name = names.name,
			.usage = "MODEL.onnx [-o GRAPH] [--weights FILE] [options]",
			.summary = "Writes the operator graph and the weights of an ONNX model.",
			.details = details,
			.options = options,
			.n_options = sizeof(options) / sizeof(options[0]),
			.min_args = 1,
			.max_args = 1,
	};
	const char *args[1];
	uint32_t n_args;
	int code = ff_cli_parse(&command, argc, argv, args, &n_args, done, err);

	if (code == FF_OK && !*done)
		o->model = args[0];
	return code;
}

/* Once no file would be written over another. */
static int check_and_run(struct ff_import_options *o, const char *output, struct ff_error *err)
{
	const struct ff_path in = {.name = "MODEL", .path = o->model};
	const struct ff_path out[] = {
			{.name = "-o", .path = output}, {.name = "--weights", .path = o->weights}};
	int code;

	o->out = out;
	o->n_out = sizeof(out) / sizeof(out[0]);
	code = ff_paths_check(out, o->n_out, &in, 1, err);
	return code == FF_OK ? run(o, output, err) : code;
}

int main(int argc, char **argv)
{
	struct ff_import_notes notes = {0};
	struct ff_import_options o = {.notes = &notes};
	const char *output = "-";
	struct ff_error err = {0};
	bool done = false;
	int code;

	ff_process_begin(names.name);
	code = parse(argc, argv, &o, &output, &done, &err);
	if (code == FF_OK && !done)
		code = check_and_run(&o, output, &err);
	return ff_cli_end(&names, code, &err);
}
