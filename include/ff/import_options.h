/* What an import is asked for, and what it tells.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_OPTIONS_H
#define FF_IMPORT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
