/* Graphs of products, functions and reductions of tensors of four axes, which attention is.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DOUBLE_ATTENTION_HPP
#define FF_DOUBLE_ATTENTION_HPP

#include <map>
#include <string>
#include <vector>

#include <cudnn.h>

#include "convolution.hpp"

namespace twin
{

/* y of x, b and t, of which the latter may be none (id 0). */
struct Step {
	enum Kind { NONE, PRODUCT, FUNCTION, REDUCTION, TURN } kind;
	int mode;     /* cudnnPointwiseMode_t or cudnnReduceTensorOp_t */
	int64_t axis; /* of a position */
	Tensor x, b, t, y;
};

/* Whether attention has such a cudnnPointwiseMode_t. */
bool is_function(int mode);
/* What is wrong with a step by itself; empty: nothing. */
std::string fault(const Step &s);

struct Attention {
	std::vector<Step> steps;
	std::map<int64_t, Tensor> given; /* tensors that have memory or are numbers, by id */
	bool backward;
	int64_t scores() const; /* of the first product */
};

/* What is wrong with them as attention that cuDNN knows; empty: nothing, and `ret` is it. */
std::string attention_of(const std::vector<Step> &steps, Attention *ret);

/* `at`: of every tensor that is given, by id. */
void attend(const Attention &a, const std::map<int64_t, void *> &at);

} // namespace twin

#endif
