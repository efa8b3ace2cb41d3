/* Fibers: stacks of their own, entered by a jump.  SPDX-License-Identifier: Apache-2.0
 *
 * One fiber runs thread after thread until one has to wait; that fiber is then its alone, and the
 * next runs the rest.  So threads that never wait cost a call each.  A fiber begins by
 * makecontext, once; from then on switches are the compiler's own jumps, which save no signal
 * mask and know no sanitizer but what they are told here. */
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

#include "../../runtime/process/stack_switch.h"
#include "fibers.hpp"
#include "inside.hpp"

namespace twin
{

static const size_t STACK = 256 << 10;

struct Fiber {
	void *jump[5];
	void *fake; /* AddressSanitizer's */
	char *stack;
	bool begun, waits;
	uint32_t thread;
	bool (*done)(uint32_t thread);
};

static std::vector<Fiber *> &pool = *new std::vector<Fiber *>; /* outlives everything */
static Fiber *running;
static ucontext_t first_context;
static void *home[5], *home_fake;
static const void *home_stack;
static size_t home_size;

static uint32_t next_thread, n_threads, n_finished, n_waiting;
static uint32_t first_thread, is_down; /* the order in which they begin */
static const std::function<void(uint32_t)> *turn_into;
static const std::function<void()> *work;

/* Before what never returns, AddressSanitizer clears the whole stack's marks and asks the kernel
 * for its bounds, which took half of the tests' time; a fiber's stack stays as it is. */
#define UNMARKED __attribute__((noinline, no_sanitize("address")))

UNMARKED static void jump(void **to)
{
	__builtin_longjmp(to, 1);
}

/* Back to whoever resumed; returns when resumed again. */
UNMARKED static void yield(Fiber *f)
{
	FF_STACK_LEAVE(&f->fake, home_stack, home_size);
	if (!__builtin_setjmp(f->jump))
		jump(home);
	FF_STACK_ENTER(running->fake, &home_stack, &home_size);
}

/* From a drawn one on, upwards or downwards: who reads what another thread writes, and does not
 * wait for it, comes before it in some order. */
static uint32_t beginner(uint32_t k)
{
	return (first_thread + (is_down ? n_threads - k : k)) % n_threads;
}

__attribute__((noinline)) static void take_threads(Fiber *f)
{
	while (next_thread < n_threads) {
		f->thread = beginner(next_thread++);
		(*turn_into)(f->thread);
		(*work)();
		n_finished++;
	}
}

static void live()
{
	FF_STACK_ENTER(nullptr, &home_stack, &home_size);
	for (;;) {
		take_threads(running);
		running->waits = false;
		running->done = nullptr;
		yield(running);
	}
}

UNMARKED static void begin(Fiber *f)
{
	f->begun = true;
	getcontext(&first_context);
	first_context.uc_stack.ss_sp = f->stack;
	first_context.uc_stack.ss_size = STACK;
	first_context.uc_link = nullptr;
	makecontext(&first_context, live, 0);
	setcontext(&first_context);
}

UNMARKED static void resume(Fiber *f)
{
	running = f;
	FF_STACK_LEAVE(&home_fake, f->stack, STACK);
	if (!__builtin_setjmp(home)) {
		if (f->begun)
			jump(f->jump);
		else
			begin(f);
	}
	FF_STACK_ENTER(home_fake, nullptr, nullptr);
	running = nullptr;
}

static Fiber *fiber(size_t i)
{
	while (pool.size() <= i) {
		auto *f = new Fiber{};

		f->stack = static_cast<char *>(mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
		pool.push_back(f);
	}
	return pool[i];
}

void fibers_wait(bool (*done)(uint32_t thread))
{
	Fiber *f = running;

	f->done = done;
	if (!f->waits)
		n_waiting++;
	f->waits = true;
	yield(f);
}

uint32_t fibers_waiting()
{
	return n_waiting;
}

/* Every fiber that may go on does, from a drawn one on, upwards or downwards. */
static bool round()
{
	size_t n = pool.size(), first = draw(uint32_t(n)), down = draw(2);
	bool moved = false;

	for (size_t k = 0; k < n; k++) {
		Fiber *f = pool[(first + (down ? n - k : k)) % n];

		if (!f->waits || !f->done(f->thread))
			continue;
		(*turn_into)(f->thread);
		moved = true;
		resume(f);
		if (!f->waits)
			n_waiting--;
	}
	return moved;
}

bool fibers_run(uint32_t n, const std::function<void(uint32_t)> &become,
		const std::function<void()> &body)
{
	next_thread = n_finished = n_waiting = 0;
	n_threads = n;
	first_thread = draw(n);
	is_down = draw(2);
	turn_into = &become;
	work = &body;
	for (size_t i = 0; next_thread < n; i++)
		resume(fiber(i));
	while (n_waiting)
		if (!round()) {
			fibers_abandon();
			return false;
		}
	return true;
}

void fibers_abandon()
{
#if defined(__SANITIZE_ADDRESS__)
	if (running) {
		FF_STACK_LEAVE(nullptr, home_stack, home_size);
		FF_STACK_ENTER(home_fake, nullptr, nullptr);
	}
#endif
	for (Fiber *f : pool)
		f->begun = f->waits = false;
	running = nullptr;
}

} // namespace twin
