/* Device and pinned memory.  SPDX-License-Identifier: Apache-2.0
 *
 * All devices' memory lies in one reserved range that nobody may touch but while the gate is
 * open.  A piece ends where its last page does, up to alignment, and the page behind belongs to
 * nobody, so what runs over its end faults; what little lies around it is checked when it is
 * freed.  Addresses are never given out twice. */
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "fibers.hpp"
#include "inside.hpp"

namespace twin
{

static const size_t RESERVED = size_t(1) << 40, PAGE = 4096, ALIGN = 256;
static const int GARBAGE = 0xff, CANARY = 0xfb;

struct Piece {
	char *pages; /* whole pages */
	size_t room, bytes;
	int device;
	bool live;
};

/* What lives, and what was freed, which is only talked about. */
static std::map<uintptr_t, Piece> &pieces()
{
	static auto *m = new std::map<uintptr_t, Piece>;

	return *m;
}

static std::map<uintptr_t, Piece> &freed()
{
	static auto *m = new std::map<uintptr_t, Piece>;

	return *m;
}

static std::map<uintptr_t, size_t> &pinned()
{
	static auto *m = new std::map<uintptr_t, size_t>;

	return *m;
}

static char *base, *top;
/* All pieces have a protection key of the processor's, which a thread opens and closes by writing a
 * register; -1: it has none.  Then a piece is opened when it is first touched while the gate is
 * open: of hundreds an operation touches a few, and each takes the kernel microseconds. */
static int key = -1;
static bool opened;                /* without keys: for all threads */
static thread_local bool unlocked; /* with keys: for this one */
/* Without keys: pieces that were touched since the gate was opened. */
static std::vector<Piece> &touched()
{
	static auto *v = new std::vector<Piece>;

	return *v;
}

static thread_local sigjmp_buf escape;
static thread_local bool guarding;
static thread_local const char *guarded_what;
static struct sigaction before_us;

static uintptr_t number(const void *p)
{
	return reinterpret_cast<uintptr_t>(p);
}

static const Piece *find_in(const std::map<uintptr_t, Piece> &all, const void *p)
{
	auto at = all.upper_bound(number(p));

	if (at == all.begin())
		return nullptr;
	--at;
	return number(p) < number(at->second.pages) + at->second.room + PAGE ? &at->second
									     : nullptr;
}

static const Piece *find(const void *p)
{
	const Piece *k = find_in(pieces(), p);

	return k ? k : find_in(freed(), p);
}

static bool reserved(const void *p)
{
	return base && p >= base && p < base + RESERVED;
}

/* Where an address is, in words. */
static const char *place(const void *p)
{
	static thread_local char text[160];
	const Piece *k = find(p);

	if (!reserved(p))
		return "which is no device's memory";
	if (!k)
		return "where nothing was allocated";
	snprintf(text, sizeof(text), "%s%zd bytes into %zu bytes of device %d",
			k->live ? "" : "in freed memory, ",
			static_cast<const char *>(p) -
					(k->pages + k->room -
							(k->bytes + ALIGN - 1) / ALIGN * ALIGN),
			k->bytes, k->device);
	return text;
}

static void protect(const Piece &p, bool open)
{
	if (key < 0)
		mprotect(p.pages, p.room, open ? PROT_READ | PROT_WRITE : PROT_NONE);
	else
		pkey_mprotect(p.pages, p.room, PROT_READ | PROT_WRITE, key);
}

/* Whether there was a piece to open.  What faults is an access to device memory, so nothing of the
 * host's is half done. */
static bool touch(const void *p)
{
	const Piece *k = key < 0 && opened ? find_in(pieces(), p) : nullptr;

	if (!k || number(p) < number(k->pages) || number(p) >= number(k->pages) + k->room)
		return false;
	protect(*k, true);
	touched().push_back(*k);
	return true;
}

/* A fault in reserved memory is a failure of the operation that runs, or the host's fault. */
static void fault(int, siginfo_t *info, void *)
{
	if (!reserved(info->si_addr)) {
		sigaction(SIGSEGV, &before_us, nullptr);
		return; /* and faults again */
	}
	if (touch(info->si_addr))
		return; /* and goes on */
	if (guarding) {
		fail(complain(cudaErrorIllegalAddress, "%s touches %p, %s", guarded_what,
				info->si_addr, place(info->si_addr)));
		siglongjmp(escape, 1);
	}
	complain(cudaErrorIllegalAddress, "the host touches device memory: %p, %s", info->si_addr,
			place(info->si_addr));
	sigaction(SIGSEGV, &before_us, nullptr);
}

static cudaError_t reserve()
{
	struct sigaction action = {};
	void *p;

	if (base)
		return cudaSuccess;
	p = mmap(nullptr, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return complain(cudaErrorMemoryAllocation, "no address space for device memory");
	base = top = static_cast<char *>(p);
	if (!getenv("FF_DOUBLE_NO_KEYS"))
		key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
	action.sa_sigaction = fault;
	action.sa_flags = SA_SIGINFO | SA_NODEFER;
	sigaction(SIGSEGV, &action, &before_us);
	return cudaSuccess;
}

void gate(bool open)
{
	if (key >= 0 && open != unlocked) {
		pkey_set(key, open ? 0 : PKEY_DISABLE_ACCESS);
		unlocked = open;
	}
	if (key >= 0 || open == opened)
		return;
	for (const Piece &p : touched())
		protect(p, false);
	touched().clear();
	opened = open;
}

bool gate_is_open()
{
	return key >= 0 ? unlocked : opened;
}

/* The piece lies between what aligns it and what fills its last 256 bytes. */
static void canaries(const Piece &p, char **low, size_t *n_low, char **high, size_t *n_high)
{
	size_t rounded = (p.bytes + ALIGN - 1) / ALIGN * ALIGN;

	*low = p.pages;
	*n_low = p.room - rounded;
	*high = p.pages + *n_low + p.bytes;
	*n_high = rounded - p.bytes;
}

static cudaError_t allocate(size_t bytes, void **ret)
{
	size_t rounded = (bytes + ALIGN - 1) / ALIGN * ALIGN;
	size_t room = (rounded + PAGE - 1) / PAGE * PAGE, n_low, n_high;
	char *low, *high;
	Piece p = {};

	if (reserve() != cudaSuccess)
		return cudaErrorMemoryAllocation;
	if (bytes > 512 && planted("memory is too small"))
		return allocate(bytes - 512, ret);
	if (room > RESERVED / 4 || top + room + PAGE > base + RESERVED ||
			mprotect(top, room, PROT_READ | PROT_WRITE))
		return noted(cudaErrorMemoryAllocation);
	p = {top, room, bytes, device(), true};
	top += room + PAGE;
	canaries(p, &low, &n_low, &high, &n_high);
	memset(low, CANARY, n_low);
	memset(low + n_low, GARBAGE, bytes);
	memset(high, CANARY, n_high);
	protect(p, false);
	pieces()[number(low + n_low)] = p;
	*ret = low + n_low;
	if (planted("memory is not aligned"))
		*ret = low + n_low + 4;
	return cudaSuccess;
}

static bool intact(const char *at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (at[i] != static_cast<char>(CANARY))
			return false;
	return true;
}

static cudaError_t release(void *memory)
{
	auto at = pieces().find(number(memory));
	size_t n_low, n_high, bytes;
	char *low, *high;
	bool whole;

	if (at == pieces().end()) /* for good, as nobody looks at what it returns */
		return fail(complain(cudaErrorInvalidValue, "cudaFree of %p, %s", memory,
				place(memory)));
	protect(at->second, true);
	if (key >= 0)
		gate(true); /* the call's end closes it */
	canaries(at->second, &low, &n_low, &high, &n_high);
	whole = intact(low, n_low) && intact(high, n_high);
	mmap(at->second.pages, at->second.room, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	at->second.live = false;
	bytes = at->second.bytes;
	freed().insert(*at);
	pieces().erase(at);
	if (!whole)
		return fail(complain(cudaErrorIllegalAddress,
				"something wrote just outside of %zu bytes of device memory",
				bytes));
	return cudaSuccess;
}

static std::map<uintptr_t, size_t>::iterator pinned_at(const void *p)
{
	auto at = pinned().upper_bound(number(p));

	if (at == pinned().begin())
		return pinned().end();
	--at;
	return number(p) < at->first + at->second ? at : pinned().end();
}

Side side_of(const void *p)
{
	if (reserved(p))
		return DEVICE;
	return pinned_at(p) != pinned().end() ? PINNED : PAGEABLE;
}

bool reachable(const char *what, const void *p, size_t bytes)
{
	const Piece *k = reserved(p) ? find(p) : nullptr;
	auto host = pinned_at(p);
	uintptr_t start, end;

	if (!bytes)
		return true;
	if (k) {
		size_t rounded = (k->bytes + ALIGN - 1) / ALIGN * ALIGN;

		start = number(k->pages) + k->room - rounded;
		end = k->live ? start + k->bytes : start;
	} else if (host != pinned().end()) {
		start = host->first;
		end = start + host->second;
	} else {
		start = end = 0;
	}
	if (number(p) >= start && number(p) + bytes <= end)
		return true;
	complain(cudaErrorIllegalAddress, "%s: %zu bytes at %p, %s", what, bytes, p, place(p));
	return false;
}

bool argument(const void *p)
{
	const Piece *k = p && reserved(p) ? find(p) : nullptr;

	if (k && !reaches(device(), k->device)) {
		complain(cudaErrorIllegalAddress,
				"a kernel of device %d is given %p, %s, which it has no access to",
				device(), p, place(p));
		return false;
	}
	if (!p || side_of(p) != PAGEABLE)
		return true;
	complain(cudaErrorIllegalAddress, "a kernel is given %p, %s", p, place(p));
	return false;
}

cudaError_t guarded(const char *what, const std::function<cudaError_t()> &fn)
{
	cudaError_t code;

	gate(true);
	guarded_what = what;
	if (sigsetjmp(escape, 0)) {
		unlocked = false; /* the kernel locks it for the handler */
		fibers_abandon();
		guarding = false;
		return cudaErrorIllegalAddress;
	}
	guarding = true;
	code = fn();
	guarding = false;
	return code;
}

void free_first()
{
	if (!pieces().empty())
		release(reinterpret_cast<void *>(pieces().begin()->first));
}

void forget_memory()
{
	while (!pieces().empty())
		release(reinterpret_cast<void *>(pieces().begin()->first));
	gate(false);
}

} // namespace twin

using namespace twin;

extern "C" {

cudaError_t cudaMalloc(void **ret, size_t bytes)
{
	Call c("cudaMalloc");

	if (c.code == cudaSuccess && capturing())
		c.code = capture_broken("cudaMalloc");
	if (c.code != cudaSuccess)
		return c.code;
	*ret = nullptr;
	return bytes ? allocate(bytes, ret) : cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
	Call c("cudaFree");

	if (!memory)
		return c.code;
	if (capturing())
		return capture_broken("cudaFree");
	if (hangs(device())) {
		complain(cudaErrorNotReady,
				"cudaFree waits for ever for what the device was given");
		abort();
	}
	if (planted("memory is freed twice"))
		release(memory);
	return release(memory);
}

cudaError_t cudaHostAlloc(void **ret, size_t bytes, unsigned int)
{
	Call c("cudaHostAlloc");

	if (c.code == cudaSuccess && capturing())
		c.code = capture_broken("cudaHostAlloc");
	if (c.code != cudaSuccess)
		return c.code;
	if (posix_memalign(ret, PAGE, bytes ? bytes : 1))
		return noted(cudaErrorMemoryAllocation);
	memset(*ret, counting() ? 0 : GARBAGE, bytes);
	pinned()[number(*ret)] = planted("pinned memory is too small") ? bytes / 2 : bytes;
	return cudaSuccess;
}

cudaError_t cudaMallocHost(void **ret, size_t bytes)
{
	return cudaHostAlloc(ret, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *memory)
{
	Call c("cudaFreeHost");

	if (!memory)
		return c.code;
	if (capturing())
		return capture_broken("cudaFreeHost");
	if (!pinned().erase(number(memory)))
		return complain(cudaErrorInvalidValue, "cudaFreeHost of %p, which it did not give",
				memory);
	free(memory);
	return cudaSuccess;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned int)
{
	Call c("cudaHostRegister");

	pinned()[number(memory)] = bytes;
	return c.code;
}

cudaError_t cudaHostUnregister(void *memory)
{
	Call c("cudaHostUnregister");

	if (!pinned().erase(number(memory)))
		return complain(cudaErrorInvalidValue, "cudaHostUnregister of %p", memory);
	return c.code;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
	cudaDeviceProp p;

	cudaGetDeviceProperties(&p, 0);
	*left = *all = p.totalGlobalMem;
	return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *a, const void *p)
{
	Call c("cudaPointerGetAttributes");
	const Piece *k = find(p);

	*a = {};
	a->type = side_of(p) == DEVICE   ? cudaMemoryTypeDevice
		  : side_of(p) == PINNED ? cudaMemoryTypeHost
					 : cudaMemoryTypeUnregistered;
	a->device = k ? k->device : 0;
	a->devicePointer = a->type == cudaMemoryTypeUnregistered ? nullptr : const_cast<void *>(p);
	a->hostPointer = a->type == cudaMemoryTypeDevice ? nullptr : const_cast<void *>(p);
	return c.code;
}

} // extern "C"
