/* Convolutions of images, and their gradients.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DOUBLE_CONVOLUTION_HPP
#define FF_DOUBLE_CONVOLUTION_HPP

#include <cstdint>

namespace twin
{

/* Five axes with any strides: N C D H W of images, K C/groups Q R S of weights; of images of two
 * axes D is 1. */
struct Tensor {
	int64_t id, align;
	bool bf16, is_virtual;
	int type;      /* cudnnDataType_t */
	bool by_value; /* a number that the host has */
	int64_t n[5], stride[5];
	int axes;               /* spatial ones that it was told of */
	int64_t extent() const; /* elements from the first to behind the last */
};

struct Convolution {
	enum Kind { FORWARD, DATA, FILTER } kind;
	Tensor image, weight, result; /* x or dx, w or dw, y or dy */
	int64_t pad[3], stride[3], dilation[3];
	double alpha, beta;
	bool tf32, half; /* rounds what it multiplies, to TF32 or to float16 */
	bool has_bias;
	Tensor bias; /* one number a channel, added to the result of a forward pass */
	bool relu;   /* behind that */
	bool uneven; /* more padding behind an image than before it */
	int64_t groups() const
	{
		return image.n[1] / weight.n[1];
	}
	const Tensor &sink() const
	{
		return kind == FORWARD ? result : kind == DATA ? image : weight;
	}
};

/* Pointers as they are named (`bias` NULL: none); the one of the sink is written. */
void convolve(const Convolution &c, void *image, void *weight, void *result, const void *bias);

} // namespace twin

#endif
