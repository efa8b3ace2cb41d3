/* Where initializers come from: parameters of the module that was exported, or not.  PyTorch's
 * exporter (torch.onnx.export with dynamo=True) says so beside the model.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_ORIGIN_H
#define FF_IMPORT_ORIGIN_H

#include "importing.h"

/* Reads what the file says. */
int ff_origins_read(struct ff_import *im);
/* Whether an initializer is trained: as the file says, else by what it is like. */
bool ff_origin_trains(struct ff_import *im, const struct ff_constant *c);
/* Of a constant that node `n` takes for a parameter: which of the module's it is, where the file
 * says so, and how it lies. */
int ff_origin_name(struct ff_import *im, const Onnx__NodeProto *n, struct ff_constant *c);
/* Of an initializer that was made from one parameter alone, the parameter's name; else its own. */
const char *ff_origin_sole(struct ff_import *im, const char *name);
/* Whether the file does not say so: then it is noted that it is taken for a constant. */
bool ff_origin_is_guess(struct ff_import *im, const struct ff_constant *c);
/* Notes that `c`, an operand of an operator of two, is taken for a parameter, unless the file says
 * that it is one: constants stand there just so. */
void ff_origin_doubt(struct ff_import *im, const struct ff_constant *c);

enum ff_onnx_list {
	FF_ONNX_GUESSED, /* taken for constants */
	FF_ONNX_DOUBTED, /* taken for parameters */
	FF_ONNX_BUFFERS, /* trained, though the module does not */
	FF_ONNX_TIED,    /* parameters that are one in the file */
	FF_ONNX_REMADE,  /* weights that an exporter for evaluation made anew */
	FF_ONNX_LISTS
};
/* What the file says of one input of the exported program. */
struct ff_onnx_spec {
	const char *placeholder, *target; /* p_fc_weight, fc.weight */
	bool parameter;                   /* or a buffer, or another constant */
	bool there;                       /* an initializer has the name, or is computed from it */
	bool wanted;                      /* a node of the program takes it */
	bool used;                        /* a node of the graph has it */
};
struct ff_origins {
	bool told;     /* there is a signature */
	bool complete; /* and each of its parameters is there, or a node takes it */
	uint32_t n;
	struct ff_onnx_spec *spec;
	struct ff_names by_placeholder, by_target;
	struct ff_names folded; /* values that were computed, to what of */
	uint32_t n_folded;
	const char **folded_from; /* "['fc.weight', 'val_3']" */
	struct ff_names listed[FF_ONNX_LISTS];
};

#endif
