/* Graphs and weights of ONNX models (https://onnx.ai): what torch.onnx.export writes, in
 * training and in evaluation mode, opsets 11 and later.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_H
#define FF_IMPORT_H

#include "ff/graph.h"
#include "ff/paths.h"

/* What the user should know of an import, a sentence each. */
#define FF_IMPORT_NOTES 8
struct ff_import_notes {
	char *text[FF_IMPORT_NOTES];
	uint32_t n;
};

struct ff_import_options {
	const char *model;         /* path */
	const char *name;          /* of the graph; NULL: of the file */
	const char *output;        /* which output goes to the loss; NULL: the first */
	const char *loss;          /* name of its operator; NULL: softmax_cross_entropy */
	uint64_t batch;            /* where the model leaves it open; 0: it must not */
	bool classes_last;         /* the output's last axis has the classes, not axis 1 */
	const char *weights;       /* safetensors file to write; NULL: none */
	const struct ff_path *out; /* what is written of it: none of the model's files */
	uint32_t n_out;
	struct ff_import_notes *notes; /* added to, in the graph's arena; or NULL */
};

/* Reads the model, builds its graph with a loss behind the output, and
 * writes the weights.  FF_E_INPUT names all operators that are not supported at once. */
int ff_import_onnx(const struct ff_import_options *opt, struct ff_arena *a, struct ff_graph *ret,
		struct ff_error *err);

#endif
