/* Threads of a block that wait for each other.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DOUBLE_FIBERS_HPP
#define FF_DOUBLE_FIBERS_HPP

#include <cstdint>
#include <functional>

namespace twin
{

/* Runs `body` for n threads, which it is told by `become` and which begin in a drawn order; false
 * when they wait for each other for ever. */
bool fibers_run(uint32_t n, const std::function<void(uint32_t)> &become,
		const std::function<void()> &body);
/* From within `body`: others run until `done` says that this thread may go on. */
void fibers_wait(bool (*done)(uint32_t thread));
/* Whether threads have waited in this run. */
uint32_t fibers_waiting();
/* After a fault within one: forgets where they were. */
void fibers_abandon();

} // namespace twin

#endif
