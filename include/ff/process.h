/* What a command is to the system that runs it.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROCESS_H
#define FF_PROCESS_H

/* The first thing that a command does, so that whatever ends it has words.  A file that grows
 * beyond what `ulimit -f` allows is an error of the write, not a signal.  What is closed of
 * standard input, output and error is opened on nothing, so that no other file takes its place:
 * reading ends, writing fails.  A fault (SIGSEGV and the like: an error in the program, or a
 * library that has run out of memory) is told in a sentence, beginning with `name`, before it ends
 * the process as it would have. */
void ff_process_begin(const char *name);
/* Another process tells what ends this one, which is silent from now on. */
void ff_process_watched(void);

#endif
