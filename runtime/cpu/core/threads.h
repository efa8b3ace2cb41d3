/* Threads that share a kernel's work.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_THREADS_H
#define FF_CPU_THREADS_H

/* Ends those that the calling thread has, and waits for them.  A thread that ends without leaves
 * them to end by themselves, later, while others may already unload libraries. */
void ff_cpu_threads_end(void);

#endif
