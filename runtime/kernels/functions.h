/* Functions that the formulas in unary.h have in common.  Whoever includes this has defined
 * FF_FUNCTION, what stands before a function's type, and ff_exp, ff_log, ff_tanh, ff_erf and
 * ff_lgamma. SPDX-License-Identifier: Apache-2.0 */
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

/* The series that slopes of the gamma function's logarithm have far from zero, with z = 1 / x^2
 * (Abramowitz and Stegun, 6.3.18, 6.4.12): of numbers not above zero the slope is reflected
 * (6.3.7, 6.4.7), of small ones it is that of larger ones and terms (6.3.5, 6.4.6).  The loops end
 * for all alike. */
#define FF_PI 3.14159265f
#define FF_GAMMA_STEPS 6

FF_FUNCTION float ff_digamma(float x)
{
	float up = x > 0 ? x : 1 - x, sum = 0, z, y;

	for (int i = 0; i < FF_GAMMA_STEPS; i++)
		sum += 1 / (up + (float)i);
	up += FF_GAMMA_STEPS;
	z = 1 / (up * up);
	y = ff_log(up) - 0.5f / up - z * (1.0f / 12 - z * (1.0f / 120 - z / 252)) - sum;
	return x > 0 ? y : y - FF_PI / tanf(FF_PI * (x - rintf(x)));
}

FF_FUNCTION float ff_trigamma(float x)
{
	float up = x > 0 ? x : 1 - x, sum = 0, z, y, s;

	for (int i = 0; i < FF_GAMMA_STEPS; i++)
		sum += 1 / ((up + (float)i) * (up + (float)i));
	up += FF_GAMMA_STEPS;
	z = 1 / (up * up);
	y = (1 + 0.5f / up + z * (1.0f / 6 - z * (1.0f / 30 - z / 42))) / up + sum;
	s = sinf(FF_PI * (x - rintf(x))) / FF_PI;
	return x > 0 ? y : 1 / (s * s) - y;
}

#endif
