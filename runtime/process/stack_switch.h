/* AddressSanitizer has to be told when a thread goes on on another stack.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STACK_SWITCH_H
#define FF_STACK_SWITCH_H

/* Before and after, as its common_interface_defs.h has it; nothing elsewhere. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define FF_STACK_LEAVE(keep, bottom, size) __sanitizer_start_switch_fiber(keep, bottom, size)
#define FF_STACK_ENTER(keep, bottom, size) __sanitizer_finish_switch_fiber(keep, bottom, size)
#else
#define FF_STACK_LEAVE(keep, bottom, size) ((void)(keep), (void)(bottom), (void)(size))
#define FF_STACK_ENTER(keep, bottom, size) ((void)(keep), (void)(bottom), (void)(size))
#endif

#endif
