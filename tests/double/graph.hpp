/* Graphs and their capture.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DOUBLE_GRAPH_HPP
#define FF_DOUBLE_GRAPH_HPP

#include "inside.hpp"

namespace twin
{

struct Node {
	Op op;
	std::set<size_t> after;
};

struct Capture {
	CUstream_st *origin;
	cudaStreamCaptureMode mode;
	std::thread::id thread;
	bool broken;
	std::vector<Node> nodes;
};

/* A stream's wait for an event while either is captured. */
cudaError_t join(CUstream_st *s, const std::shared_ptr<Capture> &capture,
		const std::set<size_t> &frontier, bool recorded);
void forget_captures();
/* stream.cpp: its streams are captured no more. */
void leave(const std::shared_ptr<Capture> &capture);

} // namespace twin

#endif
