/* The double of cuDNN's graphs of attention: a right one, and planted faults.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cmath>
#include <vector>

#include <cudnn.h>

#include "check_main.h"
#include "double.h"
#include "elements.hpp"

#define OK(call) ck_assert_msg(int(call) == 0, "%s", ff_double_complaint())

#define ROWS 3
#define SIZE 8

enum { QUERY = 1, KEY, VALUE, OUT, STATS, SCALE, VIRTUAL };

/* What is planted, and what the double then says. */
enum Fault {
	NONE,
	KEYS_AS_ROWS,  /* not as columns */
	ODD_SIZE,      /* heads of 12 elements */
	GAPS,          /* between the numbers by row */
	ROUNDED_STATS, /* which are float32 */
	NO_SOFTMAX,    /* the weights are scores */
	UNWRITTEN,     /* a virtual tensor that nobody writes */
	WRITTEN_TWICE,
	UNREAD,
	OTHER_FUNCTION, /* that attention does not have */
	IN_BFLOAT16,    /* computed so */
	NOT_ALIGNED,    /* rows that are promised to lie anywhere */
	NO_POINTER,     /* of the statistics */
	SCALE_ON_DEVICE,
	FAULTS
};

static const char *const sentences[FAULTS] = {
		[NONE] = "",
		[KEYS_AS_ROWS] = "matrices that do not fit",
		[ODD_SIZE] = "a multiple of 8",
		[GAPS] = "float32 without gaps",
		[ROUNDED_STATS] = "is not float32 by row",
		[NO_SOFTMAX] = "no two products with a softmax",
		[UNWRITTEN] = "read before it is written",
		[WRITTEN_TWICE] = "written twice",
		[UNREAD] = "that nobody reads",
		[OTHER_FUNCTION] = "the double does not know",
		[IN_BFLOAT16] = "not computed in its type",
		[NOT_ALIGNED] = "aligned to 16 bytes",
		[NO_POINTER] = "4 pointers for 6 tensors",
		[SCALE_ON_DEVICE] = "in the device's memory",
};

/* One head of attention; after the first failure nothing is done. */
struct Head {
	Fault fault;
	int64_t size, next = VIRTUAL;
	cudnnStatus_t code = CUDNN_STATUS_SUCCESS;
	std::vector<cudnnBackendDescriptor_t> made, ops;

	explicit Head(Fault planted) : fault(planted), size(planted == ODD_SIZE ? 12 : SIZE)
	{
	}
	~Head()
	{
		for (cudnnBackendDescriptor_t d : made)
			cudnnBackendDestroyDescriptor(d);
	}

	void check(cudnnStatus_t status)
	{
		code = code == CUDNN_STATUS_SUCCESS ? status : code;
	}
	cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type)
	{
		cudnnBackendDescriptor_t d = nullptr;

		OK(cudnnBackendCreateDescriptor(type, &d));
		made.push_back(d);
		return d;
	}
	void set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
			cudnnBackendAttributeType_t type, int64_t n, const void *value)
	{
		if (code == CUDNN_STATUS_SUCCESS)
			check(cudnnBackendSetAttribute(d, name, type, n, value));
	}
	void set_part(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
			cudnnBackendDescriptor_t part)
	{
		set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
	}
	void finish(cudnnBackendDescriptor_t d)
	{
		if (code == CUDNN_STATUS_SUCCESS)
			check(cudnnBackendFinalize(d));
	}

	/* id 0: virtual; `across`: columns lie behind each other */
	cudnnBackendDescriptor_t tensor(int64_t id, cudnnDataType_t type, int64_t rows,
			int64_t columns, bool across = false)
	{
		cudnnBackendDescriptor_t d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
		int64_t gap = fault == GAPS && id == STATS ? 2 : 1;
		const int64_t n[] = {1, 1, rows, columns}, align = fault == NOT_ALIGNED ? 8 : 16;
		const int64_t stride[] = {rows * columns, rows * columns,
				across ? 1 : columns * gap, across ? rows : 1};
		const bool yes = true;
		const int64_t own = id ? id : next++;

		set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
		set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, n);
		set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
		set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &own);
		set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
		if (!id)
			set(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
		if (id == SCALE)
			set(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
		finish(d);
		return d;
	}
	cudnnBackendDescriptor_t scores(cudnnDataType_t type = CUDNN_DATA_FLOAT)
	{
		return tensor(0, type, ROWS, ROWS);
	}
	cudnnBackendDescriptor_t by_row()
	{
		return tensor(0, CUDNN_DATA_FLOAT, ROWS, 1);
	}

	cudnnBackendDescriptor_t pointwise(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x,
			cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y)
	{
		cudnnBackendDescriptor_t what = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR), op;
		const cudnnDataType_t type =
				fault == IN_BFLOAT16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;

		set(what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
		set(what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
		finish(what);
		op = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
		set_part(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
		set_part(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
		if (b)
			set_part(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
		set_part(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
		finish(op);
		ops.push_back(op);
		return y;
	}
	cudnnBackendDescriptor_t multiply(cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
			cudnnBackendDescriptor_t y)
	{
		cudnnBackendDescriptor_t what = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR), op;
		const cudnnDataType_t type = CUDNN_DATA_FLOAT;

		set(what, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
		finish(what);
		op = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
		set_part(op, CUDNN_ATTR_OPERATION_MATMUL_DESC, what);
		set_part(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
		set_part(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
		set_part(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
		finish(op);
		ops.push_back(op);
		return y;
	}
	cudnnBackendDescriptor_t reduce(cudnnReduceTensorOp_t how, cudnnBackendDescriptor_t x)
	{
		cudnnBackendDescriptor_t what = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR), op;
		cudnnBackendDescriptor_t y = by_row();
		const cudnnDataType_t type = CUDNN_DATA_FLOAT;

		set(what, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
		set(what, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
				&how);
		finish(what);
		op = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
		set_part(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, what);
		set_part(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
		set_part(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
		finish(op);
		ops.push_back(op);
		return y;
	}

	/* exp(scale q k^T - most) / sum, and log(sum) + most */
	cudnnBackendDescriptor_t weights(cudnnBackendDescriptor_t x)
	{
		const cudnnDataType_t bf16 = CUDNN_DATA_BFLOAT16;
		cudnnBackendDescriptor_t most, sum, log;

		if (fault == NO_SOFTMAX)
			return pointwise(CUDNN_POINTWISE_MUL, x,
					tensor(SCALE, CUDNN_DATA_FLOAT, 1, 1), scores(bf16));
		most = reduce(CUDNN_REDUCE_TENSOR_MAX, x);
		x = pointwise(CUDNN_POINTWISE_SUB, x, most, scores());
		x = pointwise(fault == OTHER_FUNCTION ? CUDNN_POINTWISE_TANH_FWD
						      : CUDNN_POINTWISE_EXP,
				x, nullptr, scores());
		if (fault == UNREAD)
			pointwise(CUDNN_POINTWISE_EXP, x, nullptr, scores());
		if (fault == WRITTEN_TWICE)
			pointwise(CUDNN_POINTWISE_EXP, x, nullptr, x);
		sum = reduce(CUDNN_REDUCE_TENSOR_ADD, x);
		log = pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, by_row());
		pointwise(CUDNN_POINTWISE_ADD, most, fault == UNWRITTEN ? by_row() : log,
				tensor(STATS, fault == ROUNDED_STATS ? bf16 : CUDNN_DATA_FLOAT,
						ROWS, 1));
		return pointwise(CUDNN_POINTWISE_DIV, x, sum, scores(bf16));
	}
	cudnnBackendDescriptor_t graph(cudnnHandle_t handle)
	{
		const cudnnDataType_t bf16 = CUDNN_DATA_BFLOAT16;
		cudnnBackendDescriptor_t query = tensor(QUERY, bf16, ROWS, size);
		cudnnBackendDescriptor_t key =
				fault == KEYS_AS_ROWS ? tensor(KEY, bf16, ROWS, size)
						      : tensor(KEY, bf16, size, ROWS, true);
		cudnnBackendDescriptor_t x = multiply(query, key, scores()), g;

		x = pointwise(CUDNN_POINTWISE_MUL, x, tensor(SCALE, CUDNN_DATA_FLOAT, 1, 1),
				scores());
		multiply(weights(x), tensor(VALUE, bf16, ROWS, size),
				tensor(OUT, bf16, ROWS, size));
		g = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
		set(g, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
		set(g, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
				int64_t(ops.size()), ops.data());
		finish(g);
		return g;
	}
	cudnnBackendDescriptor_t plan(cudnnHandle_t handle)
	{
		cudnnBackendDescriptor_t g = graph(handle), engine, config, ret;
		const int64_t number = 0;

		engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
		set_part(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, g);
		set(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &number);
		finish(engine);
		config = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
		set_part(config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
		finish(config);
		ret = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
		set_part(ret, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
		finish(ret);
		return ret;
	}
};

/* Rows of bfloat16 on the device, and what runs on them. */
struct Run {
	cudnnHandle_t handle;
	cudaStream_t stream;
	void *memory[VIRTUAL];
	float scale = 0.5f;
	void *workspace;

	Run()
	{
		ff_double_complaint();
		OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
		OK(cudnnCreate(&handle));
		OK(cudnnSetStream(handle, stream));
		OK(cudaMalloc(&workspace, 4096));
		for (int id = QUERY; id <= STATS; id++) {
			std::vector<uint16_t> rows(ROWS * 12);

			for (size_t i = 0; i < rows.size(); i++)
				rows[i] = twin::to_bf16(value(id, int64_t(i)));
			OK(cudaMalloc(&memory[id], rows.size() * 2));
			OK(cudaMemcpy(memory[id], rows.data(), rows.size() * 2,
					cudaMemcpyHostToDevice));
		}
	}
	~Run()
	{
		for (int id = QUERY; id <= STATS; id++)
			cudaFree(memory[id]);
		cudaFree(workspace);
		cudnnDestroy(handle);
		cudaStreamDestroy(stream);
	}
	static float value(int id, int64_t i)
	{
		return float((i * 5 + id * 3) % 7 - 3) / 4;
	}
	cudnnStatus_t run(Head *h, cudnnBackendDescriptor_t plan)
	{
		std::vector<int64_t> ids = {QUERY, KEY, VALUE, OUT, SCALE, STATS};
		std::vector<void *> at = {memory[QUERY], memory[KEY], memory[VALUE], memory[OUT],
				h->fault == SCALE_ON_DEVICE ? memory[STATS] : &scale,
				memory[STATS]};
		cudnnBackendDescriptor_t pack = h->make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
		int64_t n = h->fault == NO_POINTER ? 4 : 6;

		h->set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids.data());
		h->set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n,
				at.data());
		h->set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
		h->finish(pack);
		if (h->code == CUDNN_STATUS_SUCCESS)
			h->check(cudnnBackendExecute(handle, plan, pack));
		return h->code;
	}
};

START_TEST(right)
{
	std::vector<uint16_t> out(ROWS * SIZE);
	std::vector<float> stats(ROWS);
	Run r;
	Head h(NONE);

	OK(r.run(&h, h.plan(r.handle)));
	OK(cudaStreamSynchronize(r.stream));
	OK(cudaMemcpy(out.data(), r.memory[OUT], out.size() * 2, cudaMemcpyDeviceToHost));
	OK(cudaMemcpy(stats.data(), r.memory[STATS], stats.size() * 4, cudaMemcpyDeviceToHost));
	for (int64_t q = 0; q < ROWS; q++) {
		double weight[ROWS], sum = 0;

		for (int64_t k = 0; k < ROWS; k++) {
			double score = 0;

			for (int64_t d = 0; d < SIZE; d++)
				score += Run::value(QUERY, q * SIZE + d) *
					 Run::value(KEY, k * SIZE + d);
			weight[k] = exp(score / 2);
			sum += weight[k];
		}
		ck_assert_double_eq_tol(double(stats[size_t(q)]), log(sum), 1e-5);
		for (int64_t d = 0; d < SIZE; d++) {
			double want = 0;

			for (int64_t k = 0; k < ROWS; k++)
				want += weight[k] / sum * Run::value(VALUE, k * SIZE + d);
			ck_assert_double_eq_tol(double(twin::from_bf16(out[size_t(q * SIZE + d)])),
					want, 1.0 / 128);
		}
	}
}
END_TEST

START_TEST(planted)
{
	Fault fault = Fault(_i);
	Run r;
	Head h(fault);
	const char *said;

	r.run(&h, h.plan(r.handle));
	said = ff_double_complaint();
	ck_assert_msg(h.code != CUDNN_STATUS_SUCCESS, "nothing was said of fault %d", _i);
	ck_assert_msg(strstr(said, sentences[fault]) != nullptr, "\"%s\", expected \"%s\"", said,
			sentences[fault]);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("attention");
	TCase *c = tcase_create("graphs");

	tcase_add_test(c, right);
	tcase_add_loop_test(c, planted, NONE + 1, FAULTS);
	suite_add_tcase(s, c);
	return s;
}

int main()
{
	return ff_check_main(suite());
}
