/* What numbers a model has of each class of kernels.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_GRAPHS_DEVICE_MODEL_H
#define FF_GRAPHS_DEVICE_MODEL_H

#include "ff/device_model.h"

#define FF_MODEL_TILES 6

/* By class; what each is for, docs/device-models.md says. */
enum { FF_BY_FLOOR, FF_BY_SHARE, FF_BY_BACK }; /* bound by memory */
enum {
	FF_OF_FLOOR,
	FF_OF_MEMORY,
	FF_OF_STARTUP,
	FF_OF_WAVES,
	FF_OF_SPLIT,
	FF_OF_ODD,
	FF_OF_HALF,
	FF_OF_BATCHED,
	FF_OF_TILE,                                    /* as many as there are tiles */
	FF_OF_SUSTAINED = FF_OF_TILE + FF_MODEL_TILES, /* a product's */
	FF_OF_BURST,                                   /* likewise */
	FF_CONV_FACTOR = FF_OF_SUSTAINED               /* a convolution's: by pass and form */
};
enum { FF_CONV_POINTWISE, FF_CONV_WINDOW, FF_CONV_STRIDED, FF_CONV_WINOGRAD, FF_CONV_FORMS };
enum { FF_CONV_MOST = FF_CONV_FACTOR + 3 * FF_CONV_FORMS }; /* of the peak, that a tile reaches */
enum {
	FF_ATTENTION_FLOOR,
	FF_ATTENTION_SHARE,
	FF_ATTENTION_STARTUP,
	FF_ATTENTION_WAVES,
	FF_ATTENTION_BACK,
	FF_ATTENTION_BLOCK,
	FF_ATTENTION_NARROW
};
enum { FF_RECURRENT_STEP, FF_RECURRENT_SHARE, FF_RECURRENT_BACK };

struct ff_parameter_row {
	const char *name;
	double min, max;
	double preset; /* where a file has none; 0: it must */
};
/* Ends with a name NULL. */
extern const struct ff_parameter_row *const ff_model_parameters[FF_KERNEL_CLASS_COUNT];

#endif
