/* What tests of the double share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DOUBLE_CHECKED_HPP
#define FF_DOUBLE_CHECKED_HPP

#include <cstring>
#include <vector>

#include <cuda_runtime.h>

#include "check_main.h"
#include "double.h"

#define OK(call) ck_assert_msg(int(call) == 0, "%s", ff_double_complaint())

static inline void expect(const char *part)
{
	const char *text = ff_double_complaint();

	ck_assert_msg(strstr(text, part) != nullptr, "\"%s\", expected \"%s\"", text, part);
}

/* Device memory with numbers in it. */
static inline float *device_array(const std::vector<float> &from)
{
	void *p;

	OK(cudaMalloc(&p, from.size() * sizeof(float)));
	OK(cudaMemcpy(p, from.data(), from.size() * sizeof(float), cudaMemcpyHostToDevice));
	return static_cast<float *>(p);
}

static inline std::vector<float> host_array(const float *p, size_t n)
{
	std::vector<float> ret(n);

	OK(cudaMemcpy(ret.data(), p, n * sizeof(float), cudaMemcpyDeviceToHost));
	return ret;
}

static inline std::vector<float> numbers(size_t n, float first)
{
	std::vector<float> ret(n);

	for (size_t i = 0; i < n; i++)
		ret[i] = first + float(i * 7 % 11);
	return ret;
}

#endif
