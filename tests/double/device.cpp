/* Devices, errors, what is drawn.  SPDX-License-Identifier: Apache-2.0 */
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <set>
#include <sys/file.h>
#include <unistd.h>

#include "inside.hpp"

namespace twin
{

std::mutex mutex;
std::condition_variable changed;
thread_local bool in_host_function;

static thread_local int current;
static thread_local cudaError_t last;
static cudaError_t sticky;
static char sentence[512];

struct Seed {
	uint64_t seed, state;
	Seed()
	{
		const char *text = getenv("FF_DOUBLE_SEED");

		seed = state = text ? strtoull(text, nullptr, 0) : 1;
	}
};

static Seed &seed()
{
	static Seed s;

	return s;
}

static int count()
{
	static const char *text = getenv("FF_DOUBLE_DEVICES");
	static const int n = text ? atoi(text) : 8;

	return n;
}

/* Compute capability (FF_DOUBLE_CAPABILITY), as 90 for 9.0. */
static int capability()
{
	static const char *text = getenv("FF_DOUBLE_CAPABILITY");

	return text ? atoi(text) : 90;
}

/* What makes a context of this process on a device; in exclusive-process mode (FF_DOUBLE_EXCLUSIVE)
 * there is one at most, of any process ("Compute Modes", CUDA C++ Programming Guide). */
static cudaError_t context(int device)
{
	static const bool exclusive = getenv("FF_DOUBLE_EXCLUSIVE") != nullptr;
	static const char *where = getenv("FF_DOUBLE_FOLDER");
	static std::set<int> own;
	std::string name;
	int file;

	if (!exclusive || own.count(device))
		return cudaSuccess;
	name = std::string(where ? where : "/dev/shm") + "/ffdouble-device-" +
	       std::to_string(device);
	file = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0 || flock(file, LOCK_EX | LOCK_NB))
		return complain(cudaErrorDevicesUnavailable,
				"device %d is another process's, which alone may have it", device);
	own.insert(device); /* until the process ends */
	return cudaSuccess;
}

/* Whose memory kernels of which device may be given. */
static std::set<std::pair<int, int>> &peers()
{
	static auto *p = new std::set<std::pair<int, int>>;

	return *p;
}

bool reaches(int device, int other)
{
	return device == other || peers().count({device, other});
}

cudaError_t complain(cudaError_t code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	fprintf(stderr, "CUDA double (FF_DOUBLE_SEED=%llu): %s\n",
			static_cast<unsigned long long>(seed().seed), sentence);
	return noted(code);
}

cudaError_t fail(cudaError_t code)
{
	if (sticky == cudaSuccess)
		sticky = code;
	return code;
}

cudaError_t failure()
{
	return sticky;
}

cudaError_t noted(cudaError_t code)
{
	if (code != cudaSuccess)
		last = code;
	return code;
}

bool drawn()
{
	return seed().seed != 0;
}

static std::atomic<uint64_t> questions;

void asked()
{
	questions++;
}

bool lacks(const char *what)
{
	const char *list = getenv("FF_DOUBLE_LACKS");
	size_t n = strlen(what);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, what, n) && (at[n] == ',' || !at[n]))
			return true;
	}
	return false;
}

/* splitmix64 */
uint32_t draw(uint32_t n)
{
	uint64_t z;

	if (!drawn() || n < 2)
		return 0;
	z = seed().state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return static_cast<uint32_t>((z ^ z >> 31) >> 32) % n;
}

int device()
{
	return current;
}

double clock_ms()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

static const double OPERATION_MS = 5e-3, EACH_MS = 2e-5; /* FF_DOUBLE_STEADY's */
static double spent_ms;

double device_ms()
{
	static const bool steady = getenv("FF_DOUBLE_STEADY");

	return steady ? spent_ms : clock_ms();
}

/* An operation, with so many threads of a kernel, or elements of a message. */
void spend(uint64_t n)
{
	spent_ms += OPERATION_MS + EACH_MS * double(n);
}

Call::Call(const char *name) : lock(mutex), code(sticky)
{
	if (code == cudaSuccess)
		code = context(current);
	if (in_host_function)
		code = complain(cudaErrorNotPermitted, "%s is called from a host function", name);
	noted(code);
}

Call::~Call()
{
	gate(false);
}

} // namespace twin

using namespace twin;

extern "C" {

void ff_double_seed(uint64_t value)
{
	Lock l(mutex);

	seed().seed = seed().state = value;
}

uint64_t ff_double_asked(void)
{
	return questions;
}

const char *ff_double_complaint(void)
{
	static char kept[sizeof(sentence)];
	Lock l(mutex);

	memcpy(kept, sentence, sizeof(kept));
	sentence[0] = 0;
	forget_streams();
	sticky = last = cudaSuccess;
	return kept;
}

cudaError_t cudaGetDeviceCount(int *n)
{
	*n = count();
	return *n ? cudaSuccess : noted(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
	if (device < 0 || device >= count())
		return complain(cudaErrorInvalidDevice, "device %d of %d is set", device, count());
	current = device;
	return context(device);
}

cudaError_t cudaGetDevice(int *device)
{
	*device = current;
	return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned int)
{
	return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned int, unsigned int)
{
	return cudaSetDevice(device);
}

cudaError_t cudaDeviceReset(void)
{
	Lock l(mutex);

	forget_streams();
	forget_memory();
	sticky = last = cudaSuccess;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
	if (device < 0 || device >= count())
		return complain(cudaErrorInvalidDevice, "device %d of %d is asked", device,
				count());
	memset(p, 0, sizeof(*p));
	snprintf(p->name, sizeof(p->name), "host double");
	memcpy(p->uuid.bytes, "host double", 11);
	p->uuid.bytes[15] = char(device);
	p->major = capability() / 10;
	p->minor = capability() % 10;
	p->totalGlobalMem = size_t(16) << 30;
	p->sharedMemPerBlock = 48 << 10;
	p->sharedMemPerBlockOptin = p->sharedMemPerMultiprocessor = 227 << 10;
	p->regsPerBlock = p->regsPerMultiprocessor = 65536;
	p->warpSize = 32;
	p->maxThreadsPerBlock = 1024;
	p->maxThreadsPerMultiProcessor = 2048;
	p->maxBlocksPerMultiProcessor = 32;
	p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
	p->maxThreadsDim[2] = 64;
	p->maxGridSize[0] = INT32_MAX;
	p->maxGridSize[1] = p->maxGridSize[2] = 65535;
	p->multiProcessorCount = 4;
	p->l2CacheSize = 1 << 20;
	p->textureAlignment = p->texturePitchAlignment = 512;
	p->memPitch = INT32_MAX;
	p->asyncEngineCount = 3;
	p->concurrentKernels = p->unifiedAddressing = p->canMapHostMemory = 1;
	p->streamPrioritiesSupported = p->cooperativeLaunch = 1;
	p->pciBusID = device;
	return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr, int device)
{
	cudaDeviceProp p;
	cudaError_t code = cudaGetDeviceProperties(&p, device);
	const struct {
		cudaDeviceAttr attr;
		int value;
	} known[] = {
			{cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock},
			{cudaDevAttrMaxGridDimX, p.maxGridSize[0]},
			{cudaDevAttrMaxGridDimY, p.maxGridSize[1]},
			{cudaDevAttrMaxGridDimZ, p.maxGridSize[2]},
			{cudaDevAttrMaxSharedMemoryPerBlock, int(p.sharedMemPerBlock)},
			{cudaDevAttrMaxSharedMemoryPerBlockOptin, int(p.sharedMemPerBlockOptin)},
			{cudaDevAttrMaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor},
			{cudaDevAttrMultiProcessorCount, p.multiProcessorCount},
			{cudaDevAttrCooperativeLaunch, p.cooperativeLaunch},
			{cudaDevAttrWarpSize, p.warpSize},
			{cudaDevAttrL2CacheSize, p.l2CacheSize},
			{cudaDevAttrComputeCapabilityMajor, p.major},
			{cudaDevAttrComputeCapabilityMinor, p.minor},
			{cudaDevAttrAsyncEngineCount, p.asyncEngineCount},
			{cudaDevAttrClockRate, 1000000},
			{cudaDevAttrMemoryClockRate, 1000000},
			{cudaDevAttrGlobalMemoryBusWidth, 64},
			{cudaDevAttrPciBusId, p.pciBusID},
	};

	if (code != cudaSuccess)
		return code;
	for (const auto &k : known)
		if (k.attr == attr) {
			*value = k.value;
			return cudaSuccess;
		}
	return complain(cudaErrorInvalidValue, "the double knows no device attribute %d",
			int(attr));
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int len, int device)
{
	snprintf(id, size_t(len), "0000:%02x:00.0", device);
	return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	*can = device != peer && !lacks("peers");
	return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int)
{
	Call c("cudaDeviceEnablePeerAccess");

	if (c.code == cudaSuccess && (peer == current || peer < 0 || peer >= count()))
		c.code = complain(
				cudaErrorInvalidDevice, "device %d as a peer of %d", peer, current);
	if (c.code == cudaSuccess)
		c.code = context(peer);
	if (c.code == cudaSuccess && lacks("room for peers"))
		c.code = noted(cudaErrorTooManyPeers);
	if (c.code == cudaSuccess && !peers().insert({current, peer}).second)
		c.code = noted(cudaErrorPeerAccessAlreadyEnabled);
	return c.code;
}

cudaError_t cudaDriverGetVersion(int *version)
{
	*version = CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t code = last;

	last = sticky;
	return code;
}

cudaError_t cudaPeekAtLastError(void)
{
	return last;
}

static const struct {
	cudaError_t code;
	const char *name, *text;
} errors[] = {
		{cudaSuccess, "cudaSuccess", "no error"},
		{cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
		{cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
		{cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
				"invalid configuration argument"},
		{cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
		{cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
		{cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
				"invalid resource handle"},
		{cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
		{cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
				"CUDA-capable device(s) is/are busy or unavailable"},
		{cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
				"peer access is already enabled"},
		{cudaErrorTooManyPeers, "cudaErrorTooManyPeers",
				"peer mapping resources exhausted"},
		{cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
		{cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
				"an illegal memory access was encountered"},
		{cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
		{cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
		{cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
				"operation not permitted when stream is capturing"},
		{cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
				"operation failed due to a previous error during capture"},
		{cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
				"capturing stream has unjoined work"},
		{cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
				"dependency created on uncaptured work in another stream"},
		{cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
				"operation not permitted on an event last recorded in a capturing "
				"stream"},
		{cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
				"attempt to terminate a thread-local capture sequence from another "
				"thread"},
		{cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
		{cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
				"the capture was not initiated in this stream"},
};

const char *cudaGetErrorString(cudaError_t code)
{
	for (const auto &e : errors)
		if (e.code == code)
			return e.text;
	return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t code)
{
	for (const auto &e : errors)
		if (e.code == code)
			return e.name;
	return "unrecognized error code";
}

cudaError_t cudaProfilerStart(void)
{
	return cudaSuccess;
}

cudaError_t cudaProfilerStop(void)
{
	return cudaSuccess;
}

} // extern "C"
