/* Functions that the formulas in unary.h have in common.  Whoever includes this has defined
 * FF_FUNCTION, what stands before a function's type, and ff_exp, ff_log, ff_tanh and ff_erf.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_FUNCTIONS_H
#define FF_RUNTIME_FUNCTIONS_H

#include <math.h>

#define FF_SQRT2 1.41421356f

FF_FUNCTION float ff_between(float x, float lo, float hi)
{
	return x < lo ? lo : x > hi ? hi : x;
}

/* What is no number is larger than all, as PyTorch has it: it does not get lost. */
FF_FUNCTION float ff_larger(float x, float y)
{
	return x > y || x != x ? x : y;
}

FF_FUNCTION float ff_sigmoid(float x)
{
	return 1 / (1 + ff_exp(-x));
}

/* The normal distribution: its density, and the share below x. */
FF_FUNCTION float ff_bell(float x)
{
	return 0.398942280f * ff_exp(-0.5f * x * x);
}
FF_FUNCTION float ff_normal(float x)
{
	return 0.5f * (1 + ff_erf(x * (1 / FF_SQRT2)));
}

/* That share as Hendrycks and Gimpel approximate it ("Gaussian Error Linear Units", 2016):
 * 1/2 (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3). */
FF_FUNCTION float ff_gelu_argument(float x)
{
	return 0.797884561f * x * (1 + 0.044715f * x * x);
}
FF_FUNCTION float ff_normal_tanh(float x)
{
	return 0.5f * (1 + ff_tanh(ff_gelu_argument(x)));
}
FF_FUNCTION float ff_gelu_tanh_slope(float x)
{
	float t = ff_tanh(ff_gelu_argument(x));
	float du = 0.797884561f * (1 + 3 * 0.044715f * x * x);

	return 0.5f * (1 + t) + 0.5f * x * (1 - t) * (1 + t) * du;
}

FF_FUNCTION float ff_silu_slope(float x)
{
	float s = ff_sigmoid(x);

	return s * (1 + x * (1 - s));
}

#endif
