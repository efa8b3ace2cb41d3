/* Loops compiled for several processors, of which the one at hand is chosen when the program
 * starts.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CLONES_H
#define FF_CLONES_H

#define FF_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))

#endif
