/* cuDNN's operations beside convolutions: each by itself.  SPDX-License-Identifier: Apache-2.0 */
#include "descriptor.hpp"

namespace dnn
{

/* Takes the tensors over; an operation has an x and a y, and of b and t what it names. */
static cudnnStatus_t take(Descriptor *d, int x, int b, int t, int y)
{
	const struct {
		int name;
		twin::Tensor *to;
	} parts[] = {{x, &d->step.x}, {b, &d->step.b}, {t, &d->step.t}, {y, &d->step.y}};

	for (const auto &p : parts) {
		const Descriptor *from = p.name ? part(d, p.name) : nullptr;

		if (!from && p.name && d->values.count(p.name))
			return complain(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
					"an operation's tensor was destroyed");
		if (from && from->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR)
			return complain(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
					"an operation's parts are not what they are called");
		*p.to = from ? from->tensor : twin::Tensor{};
	}
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t judge(const Descriptor *d)
{
	std::string why = twin::fault(d->step);

	return why.empty() ? CUDNN_STATUS_SUCCESS
			   : complain(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "%s", why.c_str());
}

static bool same(const twin::Tensor &a, const twin::Tensor &b)
{
	return !memcmp(a.n, b.n, sizeof(a.n));
}

/* Behind convolutions: of a sum, what is added is looked at in its graph. */
static cudnnStatus_t judge_relu(const Descriptor *d)
{
	if (d->step.b.id)
		return complain(CUDNN_STATUS_BAD_PARAM, "a relu of two");
	return same(d->step.x, d->step.y) ? CUDNN_STATUS_SUCCESS
					  : complain(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
							    "a relu from one shape to another");
}

/* What a function is computed in: positions and their sums as whole numbers, comparisons as true or
 * false, all else in float32. */
static bool is_computed_right(const twin::Step &s, cudnnDataType_t type)
{
	bool whole = s.y.type == CUDNN_DATA_INT32 && s.mode != CUDNN_POINTWISE_GEN_INDEX;

	return type == (s.mode == CUDNN_POINTWISE_CMP_GE ? CUDNN_DATA_BOOLEAN
				       : whole           ? CUDNN_DATA_INT32
							 : CUDNN_DATA_FLOAT);
}

cudnnStatus_t finalize_pointwise(Descriptor *d)
{
	const Descriptor *what = part(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
	cudnnStatus_t code = take(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
			CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
			CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
	bool relu;

	if (!what || what->type != CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
		return complain(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
				"an operation's parts are not what they are called");
	if (code != CUDNN_STATUS_SUCCESS)
		return code;
	d->step.kind = twin::Step::FUNCTION;
	d->step.mode = one(what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_TAN);
	d->step.axis = one<int64_t>(what, CUDNN_ATTR_POINTWISE_AXIS, -1);
	relu = d->step.mode == CUDNN_POINTWISE_RELU_FWD;
	if (!is_computed_right(d->step, one(what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_HALF)))
		return complain(CUDNN_STATUS_NOT_SUPPORTED,
				"a function that is not computed in its type");
	if (relu)
		return judge_relu(d);
	if (!twin::is_function(d->step.mode))
		return complain(CUDNN_STATUS_NOT_SUPPORTED, "a function that the double does not "
							    "know");
	if (d->step.mode == CUDNN_POINTWISE_ADD && !d->step.b.id)
		return complain(CUDNN_STATUS_BAD_PARAM, "an addition of one");
	return judge(d);
}

/* A descriptor that says in what type an operation computes. */
static const Descriptor *says(const Descriptor *d, int name, cudnnBackendDescriptorType_t type,
		cudnnBackendAttributeName_t computes)
{
	const Descriptor *what = part(d, name);

	return what && what->type == type &&
					       one(what, computes, CUDNN_DATA_HALF) ==
							       CUDNN_DATA_FLOAT
			       ? what
			       : nullptr;
}

cudnnStatus_t finalize_product(Descriptor *d)
{
	cudnnStatus_t code = take(d, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
			CUDNN_ATTR_OPERATION_MATMUL_BDESC, 0, CUDNN_ATTR_OPERATION_MATMUL_CDESC);

	if (!says(d, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_BACKEND_MATMUL_DESCRIPTOR,
			    CUDNN_ATTR_MATMUL_COMP_TYPE))
		return complain(CUDNN_STATUS_NOT_SUPPORTED, "a product that is not in float32");
	d->step.kind = twin::Step::PRODUCT;
	return code == CUDNN_STATUS_SUCCESS ? judge(d) : code;
}

cudnnStatus_t finalize_reduction(Descriptor *d)
{
	cudnnStatus_t code = take(d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, 0, 0,
			CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
	const Descriptor *what = says(d, CUDNN_ATTR_OPERATION_REDUCTION_DESC,
			CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_COMP_TYPE);

	if (!what)
		return complain(CUDNN_STATUS_NOT_SUPPORTED, "a reduction that is not in float32");
	d->step.kind = twin::Step::REDUCTION;
	d->step.mode = one(what, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_REDUCE_TENSOR_MUL);
	return code == CUDNN_STATUS_SUCCESS ? judge(d) : code;
}

cudnnStatus_t finalize_turn(Descriptor *d)
{
	cudnnStatus_t code = take(d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, 0, 0,
			CUDNN_ATTR_OPERATION_RESHAPE_YDESC);

	d->step.kind = twin::Step::TURN;
	return code == CUDNN_STATUS_SUCCESS ? judge(d) : code;
}

} // namespace dnn
