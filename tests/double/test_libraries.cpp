/* The double of cuDNN and NCCL: what is right, and planted faults.  (What the backend computes with
 * them the backend's own tests compare with definitions.)
 * SPDX-License-Identifier: Apache-2.0 */
#include <cmath>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <cudnn.h>
#include <nccl.h>

#include "checked.hpp"

/* ---- convolutions ---- */

static cudnnBackendDescriptor_t tensor(int64_t id, int64_t channels)
{
	const int64_t n[4] = {1, channels, 2, 2},
		      stride[4] = {4 * channels, 1, 2 * channels, channels};
	const int64_t align = 16;
	const cudnnDataType_t type = CUDNN_DATA_FLOAT;
	cudnnBackendDescriptor_t d;

	OK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &d));
	OK(cudnnBackendSetAttribute(
			d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
	OK(cudnnBackendSetAttribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, n));
	OK(cudnnBackendSetAttribute(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride));
	OK(cudnnBackendSetAttribute(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id));
	OK(cudnnBackendSetAttribute(
			d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align));
	OK(cudnnBackendFinalize(d));
	return d;
}

/* y = x `mode` b; what finalizing it says. */
static cudnnStatus_t pointwise(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x,
		cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y)
{
	const cudnnDataType_t type = CUDNN_DATA_FLOAT;
	cudnnBackendDescriptor_t what, d;
	cudnnStatus_t code;

	OK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, &what));
	OK(cudnnBackendSetAttribute(
			what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
	OK(cudnnBackendSetAttribute(
			what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type));
	OK(cudnnBackendFinalize(what));
	OK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, &d));
	OK(cudnnBackendSetAttribute(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
			CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &what));
	OK(cudnnBackendSetAttribute(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
			CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x));
	if (b)
		OK(cudnnBackendSetAttribute(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
				CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b));
	OK(cudnnBackendSetAttribute(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
			CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y));
	code = cudnnBackendFinalize(d);
	OK(cudnnBackendDestroyDescriptor(d));
	OK(cudnnBackendDestroyDescriptor(what));
	return code;
}

START_TEST(pointwise_operations)
{
	cudnnBackendDescriptor_t x = tensor(1, 3), y = tensor(2, 3), other = tensor(3, 4);

	ff_double_complaint();
	OK(pointwise(CUDNN_POINTWISE_RELU_FWD, x, nullptr, y));
	ck_assert_int_eq(pointwise(CUDNN_POINTWISE_RELU_FWD, x, other, y), CUDNN_STATUS_BAD_PARAM);
	expect("a relu of two");
	ck_assert_int_eq(pointwise(CUDNN_POINTWISE_ADD, x, nullptr, y), CUDNN_STATUS_BAD_PARAM);
	expect("an addition of one");
	ck_assert_int_eq(pointwise(CUDNN_POINTWISE_RELU_FWD, x, nullptr, other),
			CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
	expect("from one shape to another");
	ck_assert_int_eq(pointwise(CUDNN_POINTWISE_TANH_FWD, x, nullptr, y),
			CUDNN_STATUS_NOT_SUPPORTED);
	expect("that the double does not know");
	for (cudnnBackendDescriptor_t d : {x, y, other})
		OK(cudnnBackendDestroyDescriptor(d));
}
END_TEST

START_TEST(convolution_descriptors)
{
	cudnnBackendDescriptor_t d;
	const int64_t n[4] = {1, 1, 1, 1}, id = 1;
	const cudnnDataType_t type = CUDNN_DATA_FLOAT;

	ff_double_complaint();
	OK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &d));
	OK(cudnnBackendSetAttribute(
			d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
	OK(cudnnBackendSetAttribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, n));
	OK(cudnnBackendSetAttribute(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id));
	ck_assert_int_eq(cudnnBackendSetAttribute(
					 d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT32, 4, n),
			CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
	expect("is set to 4 values of type");
	ck_assert_int_eq(cudnnBackendFinalize(d), CUDNN_STATUS_BAD_PARAM);
	expect("of a descriptor of type 17 is missing");
	OK(cudnnBackendDestroyDescriptor(d));
	ck_assert_int_eq(cudnnBackendFinalize(d), CUDNN_STATUS_BAD_PARAM);
	expect("nothing is finalized");
}
END_TEST

/* ---- communication ---- */

#define RANKS 3
#define LENGTH 12 /* of each rank's part */

/* Ranks of one process, each with a device, a stream and two arrays. */
struct Ranks {
	ncclComm_t comm[RANKS];
	cudaStream_t stream[RANKS];
	float *from[RANKS], *to[RANKS];

	explicit Ranks(uint64_t seed)
	{
		ncclUniqueId id;

		ff_double_complaint();
		ff_double_seed(seed);
		OK(ncclGetUniqueId(&id));
		OK(ncclGroupStart());
		for (int r = 0; r < RANKS; r++) {
			OK(cudaSetDevice(r));
			OK(ncclCommInitRank(&comm[r], RANKS, id, r));
			OK(cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking));
			from[r] = device_array(numbers(RANKS * LENGTH, float(r)));
			to[r] = device_array(std::vector<float>(RANKS * LENGTH, NAN));
		}
		OK(ncclGroupEnd());
		OK(cudaSetDevice(0));
	}
	~Ranks()
	{
		ff_double_complaint();
		for (int r = 0; r < RANKS; r++) {
			ncclCommAbort(comm[r]);
			cudaStreamDestroy(stream[r]);
			cudaFree(from[r]);
			cudaFree(to[r]);
		}
		ff_double_complaint();
	}
	void wait()
	{
		for (int r = RANKS; r-- > 0;)
			OK(cudaStreamSynchronize(stream[r]));
	}
	std::vector<float> got(int r)
	{
		return host_array(to[r], RANKS * LENGTH);
	}
};

START_TEST(collectives)
{
	for (uint64_t seed = 0; seed < 40; seed++) {
		Ranks k(seed);
		std::vector<float> zero = numbers(RANKS * LENGTH, 0);

		for (int r = 0; r < RANKS; r++)
			OK(ncclAllReduce(k.from[r], k.to[r], RANKS * LENGTH, ncclFloat32, ncclSum,
					k.comm[r], k.stream[r]));
		k.wait();
		for (int r = 0; r < RANKS; r++)
			for (size_t i = 0; i < RANKS * LENGTH; i++)
				ck_assert_float_eq(k.got(r)[i], 3 * zero[i] + 3);
		for (int r = 0; r < RANKS; r++) {
			OK(ncclReduceScatter(k.from[r], k.to[r], LENGTH, ncclFloat32, ncclMax,
					k.comm[r], k.stream[r]));
			OK(ncclAllGather(k.to[r], k.from[r], LENGTH, ncclFloat32, k.comm[r],
					k.stream[r]));
			OK(ncclBroadcast(k.from[r], k.to[r], RANKS * LENGTH, ncclFloat32, 1,
					k.comm[r], k.stream[r]));
		}
		k.wait();
		for (int r = 0; r < RANKS; r++)
			for (size_t i = 0; i < RANKS * LENGTH; i++)
				ck_assert_float_eq(k.got(r)[i], zero[i] + 2);
		ck_assert_str_eq(ff_double_complaint(), "");
	}
}
END_TEST

/* Each to the next, at once. */
START_TEST(messages)
{
	for (uint64_t seed = 0; seed < 40; seed++) {
		Ranks k(seed);

		OK(ncclGroupStart());
		for (int r = 0; r < RANKS; r++) {
			OK(ncclSend(k.from[r], LENGTH, ncclFloat32, (r + 1) % RANKS, k.comm[r],
					k.stream[r]));
			OK(ncclRecv(k.to[r], LENGTH, ncclFloat32, (r + RANKS - 1) % RANKS,
					k.comm[r], k.stream[r]));
		}
		OK(ncclGroupEnd());
		k.wait();
		for (int r = 0; r < RANKS; r++) {
			ck_assert_float_eq(k.got(r)[0], float((r + RANKS - 1) % RANKS));
			ck_assert_float_nan(k.got(r)[LENGTH]);
		}
	}
}
END_TEST

/* One rank has two calls the other way round. */
START_TEST(swapped_calls)
{
	Ranks k(1);
	ncclResult_t error;

	for (int r = 0; r < RANKS; r++) {
		for (int turn = 0; turn < 2; turn++)
			if (turn == (r == 1))
				OK(ncclAllReduce(k.from[r], k.to[r], LENGTH, ncclFloat32, ncclSum,
						k.comm[r], k.stream[r]));
			else
				OK(ncclAllGather(k.from[r], k.to[r], LENGTH, ncclFloat32, k.comm[r],
						k.stream[r]));
	}
	ck_assert_int_eq(cudaStreamSynchronize(k.stream[0]), cudaErrorLaunchFailure);
	OK(ncclCommGetAsyncError(k.comm[0], &error));
	ck_assert_int_eq(error, ncclInvalidUsage);
	expect("rank 0 calls an all-reduce of 12 elements");
}
END_TEST

START_TEST(wrong_counts)
{
	Ranks k(0);

	OK(ncclGroupStart());
	OK(ncclSend(k.from[0], LENGTH, ncclFloat32, 1, k.comm[0], k.stream[0]));
	OK(ncclRecv(k.to[1], LENGTH - 1, ncclFloat32, 0, k.comm[1], k.stream[1]));
	OK(ncclGroupEnd());
	ck_assert_int_eq(cudaStreamSynchronize(k.stream[1]), cudaErrorLaunchFailure);
	expect("rank 1 calls a receive of 11 elements");
}
END_TEST

/* Each sends before it receives, not at once. */
START_TEST(circle)
{
	Ranks k(0);

	for (int r = 0; r < 2; r++) {
		OK(ncclSend(k.from[r], LENGTH, ncclFloat32, 1 - r, k.comm[r], k.stream[r]));
		OK(ncclRecv(k.to[r], LENGTH, ncclFloat32, 1 - r, k.comm[r], k.stream[r]));
	}
	ck_assert_int_eq(cudaStreamSynchronize(k.stream[0]), cudaErrorLaunchFailure);
	expect("in a circle");
}
END_TEST

START_TEST(missing_rank)
{
	Ranks k(0);

	setenv("FF_DOUBLE_TIMEOUT", "2", 1); /* the others are there by then */
	for (int r = 0; r < 2; r++)
		OK(ncclAllReduce(k.from[r], k.to[r], LENGTH, ncclFloat32, ncclSum, k.comm[r],
				k.stream[r]));
	ck_assert_int_eq(cudaStreamSynchronize(k.stream[0]), cudaErrorLaunchFailure);
	unsetenv("FF_DOUBLE_TIMEOUT");
	expect("rank 0 waits in vain for rank 2 to begin an all-reduce");
}
END_TEST

START_TEST(too_short)
{
	Ranks k(0);

	for (int r = 0; r < RANKS; r++)
		OK(ncclAllGather(k.from[r], k.to[r], LENGTH + 1, ncclFloat32, k.comm[r],
				k.stream[r]));
	ck_assert_int_eq(cudaStreamSynchronize(k.stream[0]), cudaErrorIllegalAddress);
	expect("an all-gather: 156 bytes");
}
END_TEST

/* A sum in place, and a message to the other rank of two. */
static void talk(int rank, ncclRedOp_t op, float *x, float *y, ncclComm_t comm, cudaStream_t stream)
{
	ncclAllReduce(x, x, LENGTH, ncclFloat32, op, comm, stream);
	ncclGroupStart();
	ncclSend(x, LENGTH, ncclFloat32, 1 - rank, comm, stream);
	ncclRecv(y, LENGTH, ncclFloat32, 1 - rank, comm, stream);
	ncclGroupEnd();
}

/* That, captured, and launched every other time. */
static bool talk_captured(int rank, float *x, float *y, ncclComm_t comm, cudaStream_t stream)
{
	cudaGraphExec_t exec = nullptr;
	cudaGraph_t graph = nullptr;
	bool right;

	cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
	talk(rank, ncclSum, x, y, comm, stream);
	right = cudaStreamEndCapture(stream, &graph) == cudaSuccess &&
		cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess;
	for (int i = 0; i < 20 && right; i++)
		if (i % 2)
			right = cudaGraphLaunch(exec, stream) == cudaSuccess;
		else
			talk(rank, ncclSum, x, y, comm, stream);
	right &= cudaStreamSynchronize(stream) == cudaSuccess;
	cudaGraphDestroy(graph);
	/* which waits for the graph, for ever */
	right &= ncclCommDestroy(comm) == ncclInvalidUsage &&
		 strstr(ff_double_complaint(), "goes before the graphs");
	cudaGraphExecDestroy(exec);
	return right;
}

/* One rank launches what the other calls for. */
static void talk_apart(int rank, float *x, float *y, ncclComm_t comm, cudaStream_t stream)
{
	cudaGraphExec_t exec = nullptr;
	cudaGraph_t graph = nullptr;

	if (rank) {
		talk(rank, ncclSum, x, y, comm, stream);
		return;
	}
	cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
	talk(rank, ncclSum, x, y, comm, stream);
	cudaStreamEndCapture(stream, &graph);
	cudaGraphInstantiate(&exec, graph, 0);
	cudaGraphLaunch(exec, stream);
}

enum { PLAIN, SWAPPED, CAPTURED, APART, WAYS };

/* As rank of two processes; 0 when all is as it should be. */
static int be(int rank, ncclUniqueId id, int way)
{
	cudaStream_t stream;
	ncclComm_t comm;
	float *x, *y;
	bool right = true;

	cudaSetDevice(rank);
	cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
	if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess)
		return 1;
	x = device_array(numbers(LENGTH, float(rank)));
	y = device_array(std::vector<float>(2 * LENGTH, NAN));
	if (way == CAPTURED)
		right = talk_captured(rank, x, y, comm, stream);
	if (way == APART)
		talk_apart(rank, x, y, comm, stream);
	for (int i = 0; i < 20 && way < CAPTURED; i++)
		talk(rank, way == SWAPPED && rank ? ncclMax : ncclSum, x, y, comm, stream);
	if (cudaStreamSynchronize(stream) != cudaSuccess)
		return strstr(ff_double_complaint(), way == APART ? "is in a graph on rank 0"
								  : "calls an all-reduce of 12")
				       ? 2
				       : 3;
	for (size_t i = 0; i < LENGTH; i++)
		right &= host_array(y, LENGTH)[i] ==
			 (2 * numbers(LENGTH, 0)[i] + 1) * float(1 << 19);
	right &= ncclCommDestroy(comm) == ncclSuccess;
	cudaStreamDestroy(stream);
	cudaFree(x);
	cudaFree(y);
	return right ? 0 : 4;
}

START_TEST(processes)
{
	for (int way = 0; way < WAYS; way++) {
		ncclUniqueId id;
		int status[2];
		pid_t child[2];

		ff_double_complaint();
		ff_double_seed(3);
		OK(ncclGetUniqueId(&id));
		for (int r = 0; r < 2; r++) {
			child[r] = fork();
			if (child[r] == 0)
				_exit(be(r, id, way));
		}
		for (int r = 0; r < 2; r++) {
			ck_assert_int_eq(waitpid(child[r], &status[r], 0), child[r]);
			ck_assert(WIFEXITED(status[r]));
			ck_assert_int_eq(WEXITSTATUS(status[r]),
					way == SWAPPED || way == APART ? 2 : 0);
		}
	}
}
END_TEST

/* Launches of one process may wait for each other; and what NCCL or the double does not take. */
START_TEST(captured_calls)
{
	Ranks k(1);
	cudaStream_t other;
	cudaGraph_t graph;
	ncclUniqueId id;
	ncclComm_t comm, alone;

	OK(cudaStreamBeginCapture(k.stream[0], cudaStreamCaptureModeThreadLocal));
	ck_assert_int_eq(ncclAllReduce(k.from[0], k.to[0], LENGTH, ncclFloat32, ncclSum, k.comm[0],
					 k.stream[0]),
			ncclInvalidUsage);
	expect("several ranks of one process communicate in graphs");
	OK(ncclGetUniqueId(&id));
	OK(ncclCommInitRank(&alone, 1, id, 0));
	OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	OK(cudaStreamBeginCapture(k.stream[0], cudaStreamCaptureModeThreadLocal));
	ck_assert_int_eq(ncclCommInitRank(&comm, 1, id, 0), ncclInvalidUsage);
	expect("a communicator is made in a capture");
	OK(cudaStreamBeginCapture(k.stream[0], cudaStreamCaptureModeThreadLocal));
	OK(ncclGroupStart());
	OK(ncclAllReduce(k.from[0], k.to[0], LENGTH, ncclFloat32, ncclSum, alone, k.stream[0]));
	ck_assert_int_eq(ncclAllReduce(k.from[0], k.to[0], LENGTH, ncclFloat32, ncclSum, alone,
					 other),
			ncclInvalidUsage);
	expect("a group is captured in part");
	OK(ncclGroupEnd());
	cudaStreamEndCapture(k.stream[0], &graph);
	ff_double_complaint();
	cudaStreamDestroy(other);
	ncclCommAbort(alone);
}
END_TEST

START_TEST(one_device_for_two)
{
	ncclUniqueId id;
	ncclComm_t comm[2];

	OK(ncclGetUniqueId(&id));
	OK(ncclGroupStart());
	for (int r = 0; r < 2; r++)
		OK(ncclCommInitRank(&comm[r], 2, id, r));
	ck_assert_int_eq(ncclGroupEnd(), ncclInvalidUsage);
	expect("two ranks are on one device");
	for (int r = 0; r < 2; r++)
		OK(ncclCommDestroy(comm[r]));
}
END_TEST

static Suite *suite()
{
	Suite *s = suite_create("libraries");
	TCase *c = tcase_create("libraries");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, pointwise_operations);
	tcase_add_test(c, convolution_descriptors);
	tcase_add_test(c, collectives);
	tcase_add_test(c, messages);
	tcase_add_test(c, swapped_calls);
	tcase_add_test(c, wrong_counts);
	tcase_add_test(c, circle);
	tcase_add_test(c, missing_rank);
	tcase_add_test(c, too_short);
	tcase_add_test(c, processes);
	tcase_add_test(c, captured_calls);
	tcase_add_test(c, one_device_for_two);
	suite_add_tcase(s, c);
	return s;
}

int main()
{
	return ff_check_main(suite());
}
