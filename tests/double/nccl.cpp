/* NCCL among ranks in one process and in several on one host.  SPDX-License-Identifier: Apache-2.0
 *
 * What a rank calls at once (a call, or those of a group) is one operation of its stream.  When
 * that is its turn it first says what it was called for, and with it what it sends; then it waits
 * until all whom it concerns have said so, which drives their streams where they are in this
 * process; then it checks that all were called for the same, and takes what it receives. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <unistd.h>

#include <nccl.h>

#include "board.hpp"
#include "elements.hpp"
#include "inside.hpp"

namespace
{

enum Kind : int32_t { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, REDUCE, SEND, RECEIVE };

const char *const names[] = {"an all-reduce", "a reduce-scatter", "an all-gather", "a broadcast",
		"a reduction", "a send", "a receive"};

/* What ranks must agree on. */
struct Header {
	Kind kind;
	int32_t type, op, root, ranks, none; /* no gaps, as all of it is compared */
	uint64_t count;
};

struct Call {
	Header header;
	const void *send;
	void *recv;
	int peer;
	uint64_t number; /* among the communicator's collectives, or messages of the two */
};

struct Bundle;

} // namespace

struct ncclComm {
	std::string folder;
	int n, rank, device;
	bool wide;
	ncclResult_t error;
	uint64_t collectives;
	std::map<int, uint64_t> sent, received; /* by peer */
	std::vector<Bundle *> unsaid;           /* posted, in order */
	uint64_t pending;
};

namespace
{

std::vector<ncclComm *> comms;

ncclResult_t complain(ncclResult_t code, const char *text)
{
	twin::complain(cudaSuccess, "NCCL: %s", text);
	return code;
}

double timeout_ms()
{
	const char *text = getenv("FF_DOUBLE_TIMEOUT");

	return text ? atof(text) * 1e3 : 20e3;
}

size_t size_of(int32_t type)
{
	static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 0, 4, 8, 2};

	return type >= 0 && type < 10 ? bytes[type] : 0;
}

ncclComm *local(const std::string &folder, int rank)
{
	for (ncclComm *c : comms)
		if (c->folder == folder && c->rank == rank)
			return c;
	return nullptr;
}

/* ---- arithmetic ---- */

template <typename T> void reduce(int32_t op, T *sum, const T *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum[i] = op == ncclSum    ? T(sum[i] + x[i])
			 : op == ncclProd ? T(sum[i] * x[i])
			 : op == ncclMax  ? (sum[i] < x[i] ? x[i] : sum[i])
					  : (x[i] < sum[i] ? x[i] : sum[i]);
}

/* Rounded at each addition, as from rank to rank. */
void reduce_bf16(int32_t op, uint16_t *sum, const uint16_t *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float a = twin::from_bf16(sum[i]), b = twin::from_bf16(x[i]);

		reduce(op, &a, &b, 1);
		sum[i] = twin::to_bf16(a);
	}
}

void reduce(const Header &h, char *sum, const char *x, size_t n)
{
	switch (h.type) {
	case ncclFloat32:
		return reduce(h.op, reinterpret_cast<float *>(sum),
				reinterpret_cast<const float *>(x), n);
	case ncclFloat64:
		return reduce(h.op, reinterpret_cast<double *>(sum),
				reinterpret_cast<const double *>(x), n);
	case ncclBfloat16:
		return reduce_bf16(h.op, reinterpret_cast<uint16_t *>(sum),
				reinterpret_cast<const uint16_t *>(x), n);
	case ncclInt32:
		return reduce(h.op, reinterpret_cast<int32_t *>(sum),
				reinterpret_cast<const int32_t *>(x), n);
	case ncclUint8:
		return reduce(h.op, reinterpret_cast<uint8_t *>(sum),
				reinterpret_cast<const uint8_t *>(x), n);
	}
}

bool reduces(Kind k)
{
	return k == ALL_REDUCE || k == REDUCE_SCATTER || k == REDUCE;
}

/* ---- operations ---- */

/* Elements that `rank` sends and receives. */
uint64_t sends(const Call &c, int rank)
{
	const Header &h = c.header;

	if (h.kind == RECEIVE || (h.kind == BROADCAST && rank != h.root))
		return 0;
	return h.kind == REDUCE_SCATTER ? h.count * uint64_t(h.ranks) : h.count;
}

uint64_t receives(const Call &c, int rank)
{
	const Header &h = c.header;

	if (h.kind == SEND || (h.kind == REDUCE && rank != h.root))
		return 0;
	return h.kind == ALL_GATHER ? h.count * uint64_t(h.ranks) : h.count;
}

std::string collective_name(const Call &c, int rank)
{
	return "c" + std::to_string(c.number) + "." + std::to_string(rank);
}

/* What the sender leaves, and what the receiver. */
std::string message_name(bool sender, int from, int to, uint64_t number)
{
	return (sender ? "s" : "r") + std::to_string(from) + "." + std::to_string(to) + "." +
	       std::to_string(number);
}

struct Bundle : twin::Joint {
	ncclComm *comm;
	CUstream_st *stream;
	uint64_t number; /* the stream has done it when it has done so many */
	std::vector<Call> calls;
	bool said = false;

	~Bundle() override
	{
		forget();
	}
	cudaError_t meet(twin::Lock &lock) override;
	cudaError_t say();
	void forget();
	cudaError_t wait_for(int rank, const std::string &name, std::vector<char> *ret,
			twin::Lock &lock);
	cudaError_t take(const Call &c, twin::Lock &lock);
	cudaError_t take_message(const Call &c, twin::Lock &lock);
	cudaError_t agree(const Call &c, int rank, const std::vector<char> &said_there);
	cudaError_t write(const Call &c, const std::vector<std::vector<char>> &all);
	cudaError_t broken(ncclResult_t code);
};

void Bundle::forget()
{
	auto at = comm ? std::find(comm->unsaid.begin(), comm->unsaid.end(), this)
		       : std::vector<Bundle *>::iterator();

	if (comm && at != comm->unsaid.end())
		comm->unsaid.erase(at);
}

cudaError_t Bundle::broken(ncclResult_t code)
{
	comm->error = code;
	return twin::fail(cudaErrorLaunchFailure);
}

/* Its name, for whom, and how many read it. */
cudaError_t Bundle::say()
{
	said = true;
	forget();
	return twin::guarded("NCCL", [this] {
		for (const Call &c : calls) {
			size_t bytes = sends(c, comm->rank) * size_of(c.header.type);
			std::vector<char> text(sizeof(c.header) + bytes);

			if (!twin::reachable(names[c.header.kind], c.send, bytes))
				return cudaErrorIllegalAddress;
			memcpy(text.data(), &c.header, sizeof(c.header));
			if (bytes)
				memcpy(text.data() + sizeof(c.header), c.send, bytes);
			if (c.header.kind == SEND)
				twin::board_put(comm->folder,
						message_name(true, comm->rank, c.peer, c.number),
						text, comm->wide, 1);
			else if (c.header.kind == RECEIVE)
				twin::board_put(comm->folder,
						message_name(false, c.peer, comm->rank, c.number),
						text, comm->wide, 1);
			else
				twin::board_put(comm->folder, collective_name(c, comm->rank), text,
						comm->wide, comm->n);
		}
		return cudaSuccess;
	});
}

/* The first that a rank of this process has not said; its stream is driven there. */
bool drive(ncclComm *peer, twin::Lock &lock)
{
	Bundle *b = peer->unsaid.empty() ? nullptr : peer->unsaid.front();

	if (!b)
		return false;
	if (b->stream->done + 1 < b->number)
		twin::force(b->stream, b->number - 1, lock);
	else if (!b->stream->busy && !b->said)
		b->say();
	else
		return false;
	return true;
}

/* What `rank` says under this name. */
cudaError_t Bundle::wait_for(
		int rank, const std::string &name, std::vector<char> *ret, twin::Lock &lock)
{
	double until = twin::clock_ms() + timeout_ms();
	char text[200];

	while (!twin::board_get(comm->folder, name, comm->wide, ret)) {
		ncclComm *peer = local(comm->folder, rank);

		if (twin::failure() != cudaSuccess)
			return twin::failure();
		if (peer && drive(peer, lock))
			continue;
		if (twin::clock_ms() > until) {
			snprintf(text, sizeof(text),
					"rank %d waits in vain for rank %d to begin %s (%s)",
					comm->rank, rank, names[calls[0].header.kind],
					name.c_str());
			complain(ncclSystemError, text);
			return broken(ncclSystemError);
		}
		twin::gate(false);
		lock.unlock();
		usleep(50);
		lock.lock();
	}
	return cudaSuccess;
}

cudaError_t Bundle::agree(const Call &c, int rank, const std::vector<char> &said_there)
{
	char text[300];
	Header h;

	memcpy(&h, said_there.data(), sizeof(h));
	if (c.header.kind == SEND || c.header.kind == RECEIVE)
		h.kind = c.header.kind;
	if (!memcmp(&h, &c.header, sizeof(h)))
		return cudaSuccess;
	snprintf(text, sizeof(text),
			"rank %d calls %s of %llu elements of type %d (operation %d, root %d, %d "
			"ranks), rank %d %s of %llu of type %d (operation %d, root %d, %d ranks)",
			comm->rank, names[c.header.kind],
			static_cast<unsigned long long>(c.header.count), c.header.type, c.header.op,
			c.header.root, c.header.ranks, rank, names[h.kind],
			static_cast<unsigned long long>(h.count), h.type, h.op, h.root, h.ranks);
	complain(ncclInvalidUsage, text);
	return broken(ncclInvalidUsage);
}

/* Reduced from another rank on each time. */
cudaError_t Bundle::write(const Call &c, const std::vector<std::vector<char>> &all)
{
	const Header &h = c.header;
	size_t size = size_of(h.type), bytes = receives(c, comm->rank) * size;
	size_t skip = sizeof(h) + (h.kind == REDUCE_SCATTER ? size_t(comm->rank) * bytes : 0);
	size_t first = c.number % size_t(comm->n);
	char *to = static_cast<char *>(c.recv);
	std::vector<char> sum(bytes);

	if (!bytes)
		return cudaSuccess;
	if (!twin::reachable(names[h.kind], to, bytes))
		return cudaErrorIllegalAddress;
	if (h.kind == ALL_GATHER)
		for (size_t r = 0; r < all.size(); r++)
			memcpy(to + r * h.count * size, all[r].data() + skip, h.count * size);
	else if (!reduces(h.kind))
		memcpy(to, all[h.kind == BROADCAST ? size_t(h.root) : 0].data() + skip, bytes);
	else {
		memcpy(sum.data(), all[first].data() + skip, bytes);
		for (size_t k = 1; k < all.size(); k++)
			reduce(h, sum.data(), all[(first + k) % all.size()].data() + skip,
					bytes / size);
		memcpy(to, sum.data(), bytes);
	}
	return cudaSuccess;
}

cudaError_t Bundle::take_message(const Call &c, twin::Lock &lock)
{
	bool sender = c.header.kind == SEND;
	int from = sender ? comm->rank : c.peer, to = sender ? c.peer : comm->rank;
	std::string name = message_name(!sender, from, to, c.number);
	std::vector<std::vector<char>> all(1);
	cudaError_t code = wait_for(c.peer, name, &all[0], lock);

	if (code == cudaSuccess)
		code = agree(c, c.peer, all[0]);
	if (code == cudaSuccess && comm->wide)
		twin::board_drop(comm->folder, name);
	if (code != cudaSuccess || sender)
		return code;
	return twin::guarded("NCCL", [&] { return write(c, all); });
}

cudaError_t Bundle::take(const Call &c, twin::Lock &lock)
{
	std::vector<std::vector<char>> all(size_t(comm->n));
	Call before = c;

	if (c.header.kind == SEND || c.header.kind == RECEIVE)
		return take_message(c, lock);
	for (int r = 0; r < comm->n; r++) {
		cudaError_t code = wait_for(r, collective_name(c, r), &all[size_t(r)], lock);

		if (code == cudaSuccess)
			code = agree(c, r, all[size_t(r)]);
		if (code != cudaSuccess)
			return code;
	}
	/* who got here has read what came long before */
	if (comm->wide && c.number >= 8) {
		before.number -= 8;
		twin::board_drop(comm->folder, collective_name(before, comm->rank));
	}
	return twin::guarded("NCCL", [&] { return write(c, all); });
}

cudaError_t Bundle::meet(twin::Lock &lock)
{
	cudaError_t code = said ? cudaSuccess : say();

	for (size_t i = 0; i < calls.size() && code == cudaSuccess; i++)
		code = take(calls[i], lock);
	comm->pending--;
	return code;
}

/* ---- posting ---- */

struct Posted {
	ncclComm *comm;
	cudaStream_t stream;
	Call call;
};

thread_local int depth;
thread_local std::vector<Posted> posted;
thread_local std::vector<ncclComm *> joining;

bool known(ncclComm_t c)
{
	return std::find(comms.begin(), comms.end(), c) != comms.end();
}

ncclResult_t enqueue(std::vector<Posted> all)
{
	while (!all.empty()) {
		auto b = std::make_shared<Bundle>();
		twin::Op op;

		b->comm = all[0].comm;
		b->stream = all[0].stream;
		for (auto at = all.begin(); at != all.end();) {
			if (at->comm != b->comm || at->stream != b->stream) {
				++at;
				continue;
			}
			b->calls.push_back(at->call);
			at = all.erase(at);
		}
		op.what = names[b->calls[0].header.kind];
		op.joint = b;
		if (twin::enqueue(b->stream, std::move(op)) != cudaSuccess)
			return ncclUnhandledCudaError;
		b->number = b->stream->issued;
		b->comm->unsaid.push_back(b.get());
		b->comm->pending++;
	}
	twin::changed.notify_all();
	return ncclSuccess;
}

/* Arrays that overlap must be in place. */
bool in_place(const Call &c, int rank)
{
	uint64_t size = size_of(c.header.type), s = sends(c, rank) * size,
		 r = receives(c, rank) * size;
	auto *send = static_cast<const char *>(c.send);
	auto *recv = static_cast<const char *>(c.recv);

	if (!s || !r || send + s <= recv || recv + r <= send)
		return true;
	if (c.header.kind == ALL_GATHER)
		return send == recv + uint64_t(rank) * s;
	if (c.header.kind == REDUCE_SCATTER)
		return recv == send + uint64_t(rank) * r;
	return send == recv;
}

ncclResult_t check(const Call &c, ncclComm_t comm, cudaStream_t stream)
{
	const Header &h = c.header;

	if (!known(comm))
		return complain(ncclInvalidArgument, "there is no such communicator");
	if (!twin::known(stream) || stream->device != comm->device)
		return complain(ncclInvalidArgument, "a stream is not the communicator's device's");
	if (stream->capture)
		return complain(ncclInvalidUsage, "the double captures no communication");
	if (!size_of(h.type) || (reduces(h.kind) && (h.op < 0 || h.op > ncclMin)) ||
			(reduces(h.kind) && h.type != ncclFloat32 && h.type != ncclFloat64 &&
					h.type != ncclBfloat16 && h.type != ncclInt32 &&
					h.type != ncclUint8))
		return complain(ncclInvalidArgument, "the double has no such type or operation");
	if (h.root < 0 || h.root >= comm->n || c.peer < 0 || c.peer >= comm->n)
		return complain(ncclInvalidArgument, "there is no such rank");
	if (!in_place(c, comm->rank))
		return complain(ncclInvalidArgument, "arrays overlap and are not in place");
	return ncclSuccess;
}

ncclResult_t post(Call c, ncclComm_t comm, cudaStream_t stream)
{
	twin::Call call("NCCL");
	ncclResult_t code;

	if (call.code != cudaSuccess)
		return ncclUnhandledCudaError;
	c.header.ranks = known(comm) ? comm->n : 0;
	code = check(c, comm, stream);
	if (code != ncclSuccess)
		return code;
	if (c.header.kind == SEND)
		c.number = comm->sent[c.peer]++;
	else if (c.header.kind == RECEIVE)
		c.number = comm->received[c.peer]++;
	else
		c.number = comm->collectives++;
	posted.push_back({comm, stream, c});
	return depth ? ncclSuccess : enqueue(std::move(posted));
}

Call collective(Kind kind, const void *send, void *recv, uint64_t count, ncclDataType_t type,
		int op, int root)
{
	Call c = {};

	c.header.kind = kind;
	c.header.count = count;
	c.header.type = type;
	c.header.op = op;
	c.header.root = root;
	c.send = send;
	c.recv = recv;
	return c;
}

/* ---- communicators ---- */

struct Person {
	int64_t process, device;
	char host[64];
};

std::string person_name(int rank)
{
	return "i" + std::to_string(rank);
}

void introduce(const ncclComm *c)
{
	std::vector<char> text(sizeof(Person));
	const char *host = getenv("NCCL_HOSTID");
	Person p = {};

	p.process = getpid();
	p.device = c->device;
	snprintf(p.host, sizeof(p.host), "%s", host ? host : "");
	memcpy(text.data(), &p, sizeof(p));
	twin::board_put(c->folder, person_name(c->rank), text, true, 0);
}

/* Waits until all ranks are there; two of a host on one device are refused. */
ncclResult_t assemble(ncclComm *c, twin::Lock &lock)
{
	double until = twin::clock_ms() + timeout_ms();
	std::vector<Person> all(size_t(c->n));
	std::vector<char> text;

	for (int r = 0; r < c->n; r++) {
		while (!twin::board_get(c->folder, person_name(r), true, &text)) {
			if (twin::clock_ms() > until)
				return complain(ncclSystemError,
						"a communicator waits in vain for all its ranks");
			lock.unlock();
			usleep(100);
			lock.lock();
		}
		memcpy(&all[size_t(r)], text.data(), sizeof(Person));
		c->wide |= all[size_t(r)].process != getpid();
		for (int k = 0; k < r; k++)
			if (all[size_t(k)].device == all[size_t(r)].device &&
					!strcmp(all[size_t(k)].host, all[size_t(r)].host))
				return complain(ncclInvalidUsage,
						"two ranks are on one device of one host");
	}
	return ncclSuccess;
}

ncclResult_t assemble_all(twin::Lock &lock)
{
	std::vector<ncclComm *> all = std::move(joining);
	ncclResult_t code = ncclSuccess;

	joining.clear();
	for (const ncclComm *c : all)
		introduce(c);
	for (size_t i = 0; i < all.size() && code == ncclSuccess; i++)
		code = assemble(all[i], lock);
	return code;
}

ncclResult_t leave(ncclComm_t c, bool abort)
{
	twin::Call call("ncclCommDestroy");
	std::vector<char> text;
	bool last = true;

	if (!known(c))
		return complain(ncclInvalidArgument, "there is no such communicator");
	if (c->pending && !abort && twin::failure() == cudaSuccess)
		return complain(ncclInvalidUsage, "a communicator goes before its work is done");
	for (Bundle *b : c->unsaid)
		b->comm = nullptr;
	comms.erase(std::find(comms.begin(), comms.end(), c));
	twin::board_put(c->folder, "bye" + std::to_string(c->rank), {}, true, 0);
	for (int r = 0; r < c->n && last; r++)
		last = twin::board_get(c->folder, "bye" + std::to_string(r), true, &text);
	if (last)
		twin::board_remove(c->folder);
	delete c;
	return ncclSuccess;
}

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int *version)
{
	*version = NCCL_VERSION_CODE;
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t code)
{
	static const char *const texts[] = {"no error", "unhandled cuda error",
			"unhandled system error", "internal error", "invalid argument",
			"invalid usage", "remote process exited or there was a network error",
			"NCCL operation in progress"};

	return code >= 0 && code < 8 ? texts[code] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t)
{
	return "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	twin::Call call("ncclGetUniqueId");

	memset(id, 0, sizeof(*id));
	snprintf(id->internal, sizeof(id->internal), "%s", twin::board_new().c_str());
	return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *ret, int n, ncclUniqueId id, int rank)
{
	twin::Call call("ncclCommInitRank");
	auto *c = new ncclComm{};

	c->folder = id.internal;
	c->n = n;
	c->rank = rank;
	c->device = twin::device();
	*ret = c;
	if (n < 1 || rank < 0 || rank >= n || local(c->folder, rank)) {
		delete c;
		*ret = nullptr;
		return complain(ncclInvalidArgument, "a rank is twice there or out of range");
	}
	comms.push_back(c);
	joining.push_back(c);
	return depth ? ncclSuccess : assemble_all(call.lock);
}

ncclResult_t ncclCommInitRankConfig(
		ncclComm_t *ret, int n, ncclUniqueId id, int rank, ncclConfig_t *config)
{
	if (config && (config->size != sizeof(*config) || config->magic != 0xcafebeef))
		return complain(ncclInvalidArgument, "a configuration is not initialised");
	return ncclCommInitRank(ret, n, id, rank);
}

ncclResult_t ncclCommFinalize(ncclComm_t)
{
	return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
	return leave(c, false);
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
	return leave(c, true);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error)
{
	*error = known(c) ? c->error : ncclInvalidArgument;
	return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t c, int *n)
{
	*n = c->n;
	return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t c, int *rank)
{
	*rank = c->rank;
	return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
	depth++;
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	twin::Call call("ncclGroupEnd");
	std::vector<Posted> all;
	ncclResult_t code;

	if (!depth)
		return complain(ncclInvalidUsage, "a group ends that has not begun");
	if (--depth)
		return ncclSuccess;
	all = std::move(posted);
	posted.clear();
	code = assemble_all(call.lock);
	return code == ncclSuccess ? enqueue(std::move(all)) : code;
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
		ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	return post(collective(ALL_REDUCE, send, recv, count, type, op, 0), comm, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
		ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	return post(collective(REDUCE_SCATTER, send, recv, count, type, op, 0), comm, stream);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
		ncclComm_t comm, cudaStream_t stream)
{
	return post(collective(ALL_GATHER, send, recv, count, type, 0, 0), comm, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
		int root, ncclComm_t comm, cudaStream_t stream)
{
	return post(collective(BROADCAST, send, recv, count, type, 0, root), comm, stream);
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
		ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	return post(collective(REDUCE, send, recv, count, type, op, root), comm, stream);
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
		ncclComm_t comm, cudaStream_t stream)
{
	Call c = collective(SEND, send, nullptr, count, type, 0, 0);

	c.peer = peer;
	return post(c, comm, stream);
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
		cudaStream_t stream)
{
	Call c = collective(RECEIVE, nullptr, recv, count, type, 0, 0);

	c.peer = peer;
	return post(c, comm, stream);
}

} // extern "C"
