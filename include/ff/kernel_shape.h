/* What kernels a part of an operator asks its device for, by class and shape: what a model of a
 * device prices.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_KERNEL_SHAPE_H
#define FF_KERNEL_SHAPE_H

#include "ff/work.h"

/* X(enumerator, name in files of models, whether types differ) */
#define FF_KERNEL_CLASSES(X)                                                                       \
	X(FF_KERNEL_STREAM, stream, false)          /* bound by memory: bytes */                   \
	X(FF_KERNEL_SOFTMAX, softmax, false)        /* bytes, in rows that are gone over again */  \
	X(FF_KERNEL_NORM, norm, false)              /* likewise */                                 \
	X(FF_KERNEL_POOL, pool, false)              /* bytes */                                    \
	X(FF_KERNEL_LOOKUP, lookup, false)          /* bytes at addresses that data say */         \
	X(FF_KERNEL_PRODUCT, product, true)         /* m x n = m x k times k x n, `count` times */ \
	X(FF_KERNEL_CONVOLUTION, convolution, true) /* as a product, and windows */                \
	X(FF_KERNEL_ATTENTION, attention, true)     /* `count` heads, m queries, n keys, k long */ \
	X(FF_KERNEL_RECURRENT, recurrent, true)     /* `count` steps, each a product; `steps` */

enum ff_kernel_class {
#define FF_KERNEL_ENUM(e, name, typed) e,
	FF_KERNEL_CLASSES(FF_KERNEL_ENUM)
#undef FF_KERNEL_ENUM
			FF_KERNEL_CLASS_COUNT
};

/* What a convolution computes: the output, or the gradient of the image or of the filters. */
enum ff_conv_pass { FF_CONV_FORWARD, FF_CONV_IMAGE, FF_CONV_FILTER, FF_CONV_PASSES };

/* Who has the steps of a recurrence: a library, as files of models have it; a launch of a product
 * and one of a kernel each; one kernel for all. */
enum ff_steps { FF_STEPS_LIBRARY, FF_STEPS_LAUNCHED, FF_STEPS_WHOLE };

/* "stream", as files of models say. */
const char *ff_kernel_class_name(enum ff_kernel_class c);

struct ff_kernel_shape {
	enum ff_kernel_class class;
	enum ff_dtype type; /* computed in */
	enum ff_steps steps;
	enum ff_conv_pass pass;
	bool fused;          /* stream: by a neighbour's kernel, which starts without it */
	bool back;           /* attention, softmax, norm, recurrent: gradients */
	bool tf32;           /* products, convolutions: of float32, in TF32 where a device can */
	bool brief;          /* product: timed alone, before the device clocks down */
	bool channels_first; /* convolution: operands lie so, tensor cores take channels last */
	bool a_transposed;   /* product: the first factor lies k x m, as for weights' gradients */
	double bytes;        /* read and written, each operand once */
	double m, n, k;      /* of a product; of attention as above */
	double count;        /* products, heads or steps */
	double share;        /* attention: of all pairs, those that are computed */
	const double *attention; /* NULL, or an older GPU's kernel, in place of the model's */
	double taps;             /* convolution: elements of a window */
	double stride;           /* convolution: windows apart, all axes together */
	/* Convolution of 3 x 3 or 5 x 5 windows side by side in one group: places that Winograd's
	 * tiles have for one of the image, which they need not divide.  0: any other. */
	double winograd;
};

#define FF_MOST_KERNELS 8 /* of one part, one pass */

/* The kernels of `w`, of which there may be none. */
uint32_t ff_work_kernels(const struct ff_work *w, struct ff_kernel_shape ret[FF_MOST_KERNELS]);

/* For rows: as many bytes as ff_work_bytes says, one kernel of `class`. */
struct ff_kernel_shape ff_kernel_of_bytes(const struct ff_work *w, enum ff_kernel_class class);
/* A product of operands of `type`, each read or written once. */
struct ff_kernel_shape ff_kernel_product(
		enum ff_dtype type, double count, double m, double n, double k);

#endif
