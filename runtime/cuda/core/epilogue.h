/* What a library does with a product or a convolution, bias added, before it writes that; and what
 * kernels of ours do with what they write, or with the gradient that they read.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_EPILOGUE_H
#define FF_CUDA_EPILOGUE_H

enum ff_epilogue {
	FF_EPILOGUE_NONE,
	FF_EPILOGUE_RELU,
	FF_EPILOGUE_GELU,       /* by tanh */
	FF_EPILOGUE_GELU_KEEPS, /* and writes what that is of, too */
	FF_EPILOGUE_GELU_SLOPE, /* times its derivative, at what was kept of it */
	FF_EPILOGUE_RELU_SLOPE, /* the gradient is of a relu of the output (out[0]; dout[1]) */
	FF_EPILOGUE_ADD,        /* to what is read behind the inputs */
	FF_EPILOGUE_ADD_RELU,
	FF_EPILOGUE_ADD_SLOPE,       /* the gradient is of such a sum (dout[1]) */
	FF_EPILOGUE_ADD_RELU_SLOPE,  /* or of its relu (out[0], too) */
	FF_EPILOGUE_CLIP,            /* within the kernel's limits; and writes what that is of,
				      * if it is to be kept (the output behind all) */
	FF_EPILOGUE_CLIP_SLOPE,      /* the gradient is of such (dout[1]) of out[0] */
	FF_EPILOGUE_TRANSPOSE,       /* features are written before all axes but samples */
	FF_EPILOGUE_TRANSPOSE_SLOPE, /* the gradient is of such (dout[1]); dout[0] is room for it */
	FF_EPILOGUE_COUNT
};

#endif
