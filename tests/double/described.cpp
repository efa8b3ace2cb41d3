/* The real cuDNN for a GPU that is described, not here: in place of the double's.  The backend's
 * own code puts its graphs to cuDNN's heuristics and has plans of them finalised; nothing runs.
 * cuDNN takes a description of a device wherever it takes a handle (since 9.8: "Deviceless
 * ahead-of-time compilation" in its backend API's manual), and so that is what handles become.
 *
 * FF_DESCRIBED_DEVICE (a100): a100, h100 or b200.  FF_DESCRIBED_MODE: the one mode of heuristics
 * that is asked, instant, a, b or fallback.  FF_DESCRIBED_REPORT: what was put and found is written
 * there when the process ends, as lines.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <string>

#include <cudnn.h>

namespace
{

/* Of NVIDIA's data sheets and cudaDeviceProp's documentation. */
struct Device {
	const char *name, *text;
};

#define COMMON                                                                                     \
	"\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"                \
	"\"regsPerBlock\":65536,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"                \
	"\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"   \
	"\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,"                  \
	"\"isTccDriver\":0,\"supportCoopLaunch\":1,\"driverVer\":13000,\"cudaDeviceId\":0,"

const Device devices[] = {
		{"a100", "{" COMMON "\"multiProcessorCount\":108,"
			 "\"maxSharedMemoryPerBlockOptin\":166912,\"smClockRateKHz\":1410000,"
			 "\"memClockRateKHz\":1593000,\"l2CacheSize\":41943040,"
			 "\"deviceName\":\"NVIDIA A100-SXM4-80GB\",\"deviceVer\":800,"
			 "\"totalGlobalMem\":85000000000}"},
		{"h100", "{" COMMON "\"multiProcessorCount\":132,"
			 "\"maxSharedMemoryPerBlockOptin\":232448,\"smClockRateKHz\":1980000,"
			 "\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,"
			 "\"deviceName\":\"NVIDIA H100 80GB HBM3\",\"deviceVer\":900,"
			 "\"totalGlobalMem\":85000000000}"},
		{"b200", "{" COMMON "\"multiProcessorCount\":148,"
			 "\"maxSharedMemoryPerBlockOptin\":232448,\"smClockRateKHz\":1965000,"
			 "\"memClockRateKHz\":3996000,\"l2CacheSize\":132644864,"
			 "\"deviceName\":\"NVIDIA B200\",\"deviceVer\":1000,"
			 "\"totalGlobalMem\":190000000000}"},
};

void end(const char *why)
{
	fprintf(stderr, "cuDNN for a described device: %s\n", why);
	exit(EXIT_FAILURE);
}

template <typename F> F real(const char *name, F)
{
	static void *library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
	void *f = library ? dlsym(library, name) : nullptr;

	if (!f)
		end(dlerror());
	return reinterpret_cast<F>(f);
}
#define REAL(f) real(#f, &f)

/* What was put to it. */
struct Graphs {
	long put = 0, refused = 0, planned = 0; /* refused: not as much as a graph */
	bool open = false;                      /* one that has no plan yet */
	std::map<std::string, long> why;        /* of those without a plan: how often */
	std::string last;

	void close()
	{
		if (open)
			why[last]++;
		open = false;
	}

	~Graphs()
	{
		const char *path = getenv("FF_DESCRIBED_REPORT");
		FILE *f = path ? fopen(path, "w") : nullptr;

		close();
		if (!f)
			return;
		fprintf(f, "put %ld\nrefused %ld\nplanned %ld\n", put, refused, planned);
		for (auto &w : why)
			fprintf(f, "without %ld %s\n", w.second, w.first.c_str());
		fclose(f);
	}
} graphs;

std::map<cudnnBackendDescriptor_t, cudnnBackendDescriptorType_t> types;
cudnnBackendDescriptor_t device;

cudnnStatus_t open_device()
{
	const char *name = getenv("FF_DESCRIBED_DEVICE");
	cudnnStatus_t code;

	for (auto &d : devices) {
		if (strcmp(d.name, name ? name : "a100") != 0)
			continue;
		code = REAL(cudnnBackendCreateDescriptor)(
				CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device);
		if (code == CUDNN_STATUS_SUCCESS)
			code = REAL(cudnnBackendSetAttribute)(device,
					CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
					int64_t(strlen(d.text)), d.text);
		return code == CUDNN_STATUS_SUCCESS ? REAL(cudnnBackendFinalize)(device) : code;
	}
	end("FF_DESCRIBED_DEVICE: expected a100, h100 or b200");
	return CUDNN_STATUS_BAD_PARAM;
}

/* In place of the mode that the backend asks for. */
const cudnnBackendHeurMode_t *mode_for(const void *asked)
{
	static const std::map<std::string, cudnnBackendHeurMode_t> modes = {
			{"instant", CUDNN_HEUR_MODE_INSTANT}, {"a", CUDNN_HEUR_MODE_A},
			{"b", CUDNN_HEUR_MODE_B}, {"fallback", CUDNN_HEUR_MODE_FALLBACK}};
	const char *name = getenv("FF_DESCRIBED_MODE");

	if (!name)
		return static_cast<const cudnnBackendHeurMode_t *>(asked);
	if (!modes.count(name))
		end("FF_DESCRIBED_MODE: expected instant, a, b or fallback");
	return &modes.at(name);
}

cudnnStatus_t describe(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name)
{
	return REAL(cudnnBackendSetAttribute)(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
}

} // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
	*handle = reinterpret_cast<cudnnHandle_t>(&device);
	return device ? CUDNN_STATUS_SUCCESS : open_device();
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t)
{
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t)
{
	return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t)
{
	return CUDNN_STATUS_NOT_SUPPORTED;
}

size_t cudnnGetVersion(void)
{
	return REAL(cudnnGetVersion)();
}

const char *cudnnGetErrorString(cudnnStatus_t code)
{
	return REAL(cudnnGetErrorString)(code);
}

void cudnnGetLastErrorString(char *text, size_t size)
{
	REAL(cudnnGetLastErrorString)(text, size);
}

cudnnStatus_t cudnnBackendCreateDescriptor(
		cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *ret)
{
	cudnnStatus_t code = REAL(cudnnBackendCreateDescriptor)(type, ret);

	if (code == CUDNN_STATUS_SUCCESS)
		types[*ret] = type;
	return code;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
	types.erase(d);
	return REAL(cudnnBackendDestroyDescriptor)(d);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
		cudnnBackendAttributeType_t type, int64_t n, const void *value)
{
	cudnnStatus_t code;

	if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
		return CUDNN_STATUS_SUCCESS;
	if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
		return describe(d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
	if (name == CUDNN_ATTR_ENGINEHEUR_MODE)
		value = mode_for(value);
	code = REAL(cudnnBackendSetAttribute)(d, name, type, n, value);
	if (code == CUDNN_STATUS_SUCCESS && name == CUDNN_ATTR_ENGINEHEUR_MODE)
		code = describe(d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
	return code;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
		cudnnBackendAttributeType_t type, int64_t room, int64_t *n, void *value)
{
	return REAL(cudnnBackendGetAttribute)(d, name, type, room, n, value);
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d)
{
	cudnnStatus_t code = REAL(cudnnBackendFinalize)(d);
	char why[256] = "";

	if (code != CUDNN_STATUS_SUCCESS) {
		REAL(cudnnGetLastErrorString)(why, sizeof(why));
		graphs.last = std::string(REAL(cudnnGetErrorString)(code)) + " " + why;
	}
	if (types[d] == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
		graphs.close();
		graphs.put++;
		graphs.open = true;
		if (code == CUDNN_STATUS_SUCCESS)
			graphs.last = "no engine that is welcome";
		else
			graphs.refused++;
	} else if (types[d] == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
			code == CUDNN_STATUS_SUCCESS && graphs.open) {
		graphs.planned++;
		graphs.open = false;
	}
	return code;
}

} // extern "C"
