/* What a command is to the system that runs it.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* Handlers read it. */
static const char *volatile command;

static const struct fault {
	int number;
	const char *words;
} faults[] = {
		{SIGSEGV, ": was ended by signal SIGSEGV (segmentation fault), an error in it, or "
			  "in a "
			  "library that found no memory\n"},
		{SIGBUS, ": was ended by signal SIGBUS (bus error): a file that it reads, or "
			 "memory that "
			 "it shares, has become shorter\n"},
		{SIGFPE, ": was ended by signal SIGFPE (arithmetic), an error in it\n"},
		{SIGILL, ": was ended by signal SIGILL (instruction): it was built for another "
			 "processor, "
			 "or has an error\n"},
		{SIGABRT, ": was ended by signal SIGABRT: a library gave up, as where it finds no "
			  "memory\n"},
};

/* Only what a handler may call.  The fault itself then ends the process: a debugger, or a core,
 * shows where. */
static void tell(int number)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		if (faults[i].number == number &&
				(write(STDERR_FILENO, command, strlen(command)) < 0 ||
						write(STDERR_FILENO, faults[i].words,
								strlen(faults[i].words)) < 0))
			break;
	raise(number); /* with its own action, once the handler returns */
}

/* A sanitizer's own words are better. */
static void listen_to(int number)
{
	const struct sigaction action = {.sa_handler = tell, .sa_flags = (int)SA_RESETHAND};
	struct sigaction old;

	if (sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
		sigaction(number, &action, NULL);
}

/* From the lowest on, so that each gets the number that is free. */
static void fill_standard(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			open("/dev/null", O_RDONLY);
}

void ff_process_begin(const char *name)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};

	command = name;
	fill_standard();
	sigaction(SIGXFSZ, &ignore, NULL);
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		listen_to(faults[i].number);
}

void ff_process_watched(void)
{
	const struct sigaction preset = {.sa_handler = SIG_DFL};
	struct sigaction old;

	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		if (sigaction(faults[i].number, NULL, &old) == 0 && old.sa_handler == tell)
			sigaction(faults[i].number, &preset, NULL);
}
