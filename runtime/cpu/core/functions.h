/* Functions without branches, so that loops over them are vector instructions: within a few
 * units in the last place of the true ones.  Polynomials are least in their largest error
 * (weighted least squares, Lawson's reweighting) over the range that they are used for.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_FUNCTIONS_H
#define FF_CPU_FUNCTIONS_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define FF_FUNCTION static inline __attribute__((always_inline))

FF_FUNCTION uint32_t ff_float_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}
FF_FUNCTION float ff_float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* exp(x) = 2^n exp(r), |r| <= log(2) / 2; the power in two steps, so that what is too small
 * or too large for one number comes out as such. */
FF_FUNCTION float ff_exp(float x)
{
	const float shift = 12582912; /* 1.5 2^23: added, it leaves a whole number */
	float limited = x > 89 ? 89 : x < -104 ? -104 : x;
	float shifted = limited * 1.44269504f + shift, n = shifted - shift;
	float r = limited - n * 0.693145752f - n * 1.42860677e-6f;
	float p = 1.395047075e-3f;
	uint32_t k = ff_float_bits(shifted) - ff_float_bits(shift);
	uint32_t half = (uint32_t)((int32_t)k >> 1);

	p = p * r + 8.368883028e-3f;
	p = p * r + 4.166620610e-2f;
	p = p * r + 1.666651889e-1f;
	p = p * r + 5.000000095e-1f;
	p = p * r * r + r + 1;
	return p * ff_float_of((half + 127) << 23) * ff_float_of((k - half + 127) << 23);
}

/* log(x) = n log(2) + log(1 + t), 1 + t from sqrt(1/2) to sqrt(2). */
FF_FUNCTION float ff_log(float x)
{
	const uint32_t least = 0x3f3504f3; /* sqrt(1/2) */
	float scaled = x < FLT_MIN ? x * 8388608 : x;
	uint32_t bits = ff_float_bits(scaled);
	int32_t k = (int32_t)(bits - least) >> 23;
	float n = (float)k - (x < FLT_MIN ? 23.0f : 0.0f);
	float t = ff_float_of(bits - ((uint32_t)k << 23)) - 1;
	float p = 6.915183038e-2f, r;

	p = p * t - 1.178971392e-1f;
	p = p * t + 1.187300977e-1f;
	p = p * t - 1.238436673e-1f;
	p = p * t + 1.421865586e-1f;
	p = p * t - 1.666924968e-1f;
	p = p * t + 2.000222669e-1f;
	p = p * t - 2.499998662e-1f;
	p = p * t + 3.333331044e-1f;
	r = p * t * t * t - 0.5f * t * t + n * 1.42860677e-6f + t + n * 0.693145752f;
	r = x < INFINITY ? r : x;
	r = x > 0 ? r : x == 0 ? -INFINITY : NAN;
	return r;
}

FF_FUNCTION float ff_tanh(float x)
{
	float size = fabsf(x), z = x * x, p = -5.905837002e-3f;
	float large = copysignf(1 - 2 / (ff_exp(2 * size) + 1), x);

	p = p * z + 2.080535623e-2f;
	p = p * z - 5.378667464e-2f;
	p = p * z + 1.333195813e-1f;
	p = p * z - 3.333329927e-1f;
	return size < 0.6f ? x + x * z * p : large;
}

/* Near 0 x P(x^2), further out 1 - exp(-Q(|x|)). */
FF_FUNCTION float ff_erf(float x)
{
	float size = fabsf(x), limited = size > 4 ? 4 : size, z = x * x;
	float p = 7.889108937e-5f, q = -1.855775250e-4f, large;

	p = p * z - 8.020838108e-4f;
	p = p * z + 5.189534983e-3f;
	p = p * z - 2.685444441e-2f;
	p = p * z + 1.128360017e-1f;
	p = p * z - 3.761262714e-1f;
	p = p * z + 1.128379166f;
	q = q * limited + 2.939640859e-3f;
	q = q * limited - 2.180544897e-2f;
	q = q * limited + 1.030376345e-1f;
	q = q * limited + 6.382253792e-1f;
	q = q * limited + 1.127040211f;
	q = q * limited + 3.536774595e-4f;
	large = copysignf(1 - ff_exp(-q), x);
	return size < 1 ? x * p : large;
}

/* Not lgammaf, which writes a sign that all threads share. */
FF_FUNCTION float ff_lgamma(float x)
{
	int sign;

	return lgammaf_r(x, &sign);
}

#include "kernels/functions.h"

#endif
