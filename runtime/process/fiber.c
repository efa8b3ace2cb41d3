/* Fibers.  A thread that computes may so go on with communication between two tasks, wherever that
 * had to wait: what waits is written as if it blocked.  SPDX-License-Identifier: Apache-2.0 */
#include "fiber.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "stack_switch.h"

#define STACK ((size_t)4 << 20) /* of which is used what is touched */

struct ff_fiber {
	ucontext_t here, home; /* it, and who resumed it */
	struct ff_fiber *outer;
	void (*run)(void *arg);
	void *arg;
	char *stack;
	void *fake; /* AddressSanitizer's, as those below */
	const void *home_stack;
	size_t home_size;
};

/* What a thread is at is the thread's. */
static _Thread_local struct ff_fiber *running;

static void live(void)
{
	struct ff_fiber *f = running;

	FF_STACK_ENTER(NULL, &f->home_stack, &f->home_size);
	f->run(f->arg);
	for (;;) /* there is nothing to return to */
		ff_fiber_yield();
}

int ff_fiber_create(void (*run)(void *arg), void *arg, struct ff_fiber **ret, struct ff_error *err)
{
	size_t guard = (size_t)sysconf(_SC_PAGESIZE);
	struct ff_fiber *f = calloc(1, sizeof(*f));

	if (!f)
		return ff_fail_memory(err);
	f->run = run;
	f->arg = arg;
	f->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (f->stack == MAP_FAILED || mprotect(f->stack, guard, PROT_NONE) ||
			getcontext(&f->here)) {
		ff_fiber_destroy(f);
		return ff_fail_memory(err);
	}
	f->here.uc_stack.ss_sp = f->stack;
	f->here.uc_stack.ss_size = STACK;
	makecontext(&f->here, live, 0);
	*ret = f;
	return FF_OK;
}

void ff_fiber_destroy(struct ff_fiber *f)
{
	if (!f)
		return;
	if (f->stack != MAP_FAILED)
		munmap(f->stack, STACK);
	free(f);
}

void ff_fiber_resume(struct ff_fiber *f)
{
	void *fake = NULL;

	f->outer = running;
	running = f;
	FF_STACK_LEAVE(&fake, f->stack, STACK);
	swapcontext(&f->home, &f->here);
	FF_STACK_ENTER(fake, NULL, NULL);
	running = f->outer;
}

void ff_fiber_yield(void)
{
	struct ff_fiber *f = running;

	FF_STACK_LEAVE(&f->fake, f->home_stack, f->home_size);
	swapcontext(&f->here, &f->home);
	FF_STACK_ENTER(f->fake, &f->home_stack, &f->home_size);
}

bool ff_fiber_is_here(void)
{
	return running;
}
