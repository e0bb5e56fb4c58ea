// The C header: every call unpacks, runs under Guarded, packs.
#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/text/text.h"
#include "runtime-shim/moepack_runtime.h"
#include "runtime-shim/session/node.h"
#include "runtime-shim/session/placer.h"

namespace runtime = moepack::runtime;

// NOLINTBEGIN(readability-identifier-naming): names of C
struct moepack_node {
  std::shared_ptr<const runtime::Node> node;
};

struct moepack_session {
  std::shared_ptr<const runtime::Node> node;  // outlives what borrows it
  std::unique_ptr<runtime::Generation> generation;
};

struct moepack_placer {
  std::unique_ptr<const runtime::Placer> placer;
};
// NOLINTEND(readability-identifier-naming)

namespace moepack::runtime {
namespace {

thread_local std::string last_error;

int StatusOf(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return MOEPACK_INVALID_ARGUMENT;
    case Code::kCorrupt:
      return MOEPACK_CORRUPT;
    case Code::kUnsupported:
      return MOEPACK_UNSUPPORTED;
    case Code::kIo:
    case Code::kNotFound:
      return MOEPACK_NOT_FOUND;
    case Code::kMismatch:
      return MOEPACK_MISMATCH;
    case Code::kUnavailable:
      return MOEPACK_UNAVAILABLE;
    case Code::kInterrupted:
      return MOEPACK_INTERRUPTED;
  }
  return MOEPACK_INTERNAL;
}

// Storing the message may itself run out of memory; assigning "" does not.
int Fail(int status, const char* message) noexcept {
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();
  }
  return status;
}

template <class Body>
int Guarded(Body body) noexcept {
  try {
    const Status status = body();
    if (status) return MOEPACK_OK;
    const Error& error = status.error();
    const std::string hint = error.hint.empty() ? "" : Cat(" (", error.hint, ")");
    return Fail(StatusOf(error.code), (error.message + hint).c_str());
  } catch (const std::bad_alloc&) {
    return Fail(MOEPACK_INTERNAL, "out of memory");
  } catch (const std::exception& exception) {
    return Fail(MOEPACK_INTERNAL, exception.what());
  } catch (...) {
    return Fail(MOEPACK_INTERNAL, "unknown error");
  }
}

Error Missing(const char* what) {
  return {Code::kInvalidArgument, Cat(what, ": expected a pointer, found NULL")};
}

// A pointer to no elements may point nowhere.
template <class T>
Status CheckArray(const char* what, const T* values, size_t count) {
  if (values == nullptr && count > 0) return Missing(what);
  return Ok();
}

template <class T, class U>
void Fill(std::span<const T> from, std::span<U> to) {
  std::copy_n(from.begin(), std::min(from.size(), to.size()), to.begin());
}

void InitNode(moepack_node_options& options) {
  options = {};
  options.group = -1;
  options.executor = "cpu";
}

void InitSession(moepack_session_options& options) {
  options = {};
  options.top_p = 1;
}

// The defaults, then as much as the caller's version of the struct has.
template <class Options>
Status ReadOptions(const Options* given, Options& options) {
  if (given == nullptr) return Ok();
  size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < sizeof size || size > (1u << 16))
    return Error{Code::kInvalidArgument,
                 Cat("options: struct_size: expected ", sizeof(Options), ", found ", size),
                 "call the *_init function before setting fields"};
  std::memcpy(static_cast<void*>(&options), given, std::min(size, sizeof options));
  return Ok();
}

// Writes no more than the caller's struct has.
template <class Options>
void WriteDefaults(Options options, Options* to, size_t struct_size) {
  if (to == nullptr || struct_size < sizeof struct_size) return;
  options.struct_size = struct_size;
  std::memset(static_cast<void*>(to), 0, struct_size);
  std::memcpy(static_cast<void*>(to), &options, std::min(struct_size, sizeof options));
}

NodeOptions ToNodeOptions(const moepack_node_options& given) {
  NodeOptions options;
  if (given.group >= 0) options.group = static_cast<uint32_t>(given.group);
  if (given.executor != nullptr) options.executor = given.executor;
  options.device.device = given.device;
  options.device.threads = given.threads;
  options.load.overlay = given.no_overlay == 0;
  options.load.verify = given.no_verify == 0;
  if (given.overlay_version != nullptr) options.load.overlay_version = given.overlay_version;
  return options;
}

Sampling ToSampling(const moepack_session_options& given) {
  return {given.temperature, given.top_k, given.top_p, given.min_p, given.seed};
}

Status Detokenize(const Node& node, std::span<const uint32_t> tokens, std::string& text) {
  SHARD_TRY(const Tokenizer* tokenizer, node.tokenizer());
  for (const uint32_t token : tokens) text += tokenizer->Piece(token);
  return Ok();
}

// Where a placement is written: a struct of the caller's size, and an array that may be empty.
struct PlacementOutput {
  moepack_placement* placement;
  std::span<double> scores;
  size_t* count;
};

Status CheckPlacementOutput(const moepack_placer* placer, const PlacementOutput& out) {
  if (placer == nullptr) return Missing("placer");
  if (out.placement == nullptr) return Missing("placement");
  if (out.count == nullptr) return Missing("count");
  SHARD_CHECK(CheckArray("scores", out.scores.data(), out.scores.size()));
  const size_t size = out.placement->struct_size;
  if (size >= sizeof size && size <= (1u << 16)) return Ok();
  return Error{Code::kInvalidArgument, Cat("placement: struct_size: expected ",
                                           sizeof(moepack_placement), ", found ", size)};
}

// Writes no more than the caller's struct has.
void WritePlacement(const PlacementAnswer& answer, const PlacementOutput& out) {
  moepack_placement placement = {};
  placement.struct_size = out.placement->struct_size;
  placement.group = answer.best;
  placement.second = answer.second;
  placement.sure = answer.sure ? 1 : 0;
  placement.tokens = answer.tokens;
  placement.margin = answer.margin;
  placement.known_share = answer.known_share;
  std::memcpy(static_cast<void*>(out.placement), &placement,
              std::min(placement.struct_size, sizeof placement));
  std::vector<double> scores;
  for (const std::optional<double>& score : answer.scores)
    scores.push_back(score.value_or(-std::numeric_limits<double>::infinity()));
  Fill(std::span<const double>(scores), out.scores);
  *out.count = scores.size();
}

}  // namespace
}  // namespace moepack::runtime

extern "C" {

using moepack::Ok;
using moepack::Status;
using runtime::Guarded;
using runtime::Missing;

uint32_t moepack_abi_version(void) { return MOEPACK_ABI_VERSION; }

const char* moepack_last_error(void) { return runtime::last_error.c_str(); }

void moepack_node_options_init(moepack_node_options* options, size_t struct_size) {
  moepack_node_options defaults;
  runtime::InitNode(defaults);
  runtime::WriteDefaults(defaults, options, struct_size);
}

void moepack_session_options_init(moepack_session_options* options, size_t struct_size) {
  moepack_session_options defaults;
  runtime::InitSession(defaults);
  runtime::WriteDefaults(defaults, options, struct_size);
}

int moepack_node_open(const char* source, const moepack_node_options* options,
                      moepack_node** node) {
  return Guarded([&]() -> Status {
    if (source == nullptr) return Missing("source");
    if (node == nullptr) return Missing("node");
    moepack_node_options read;
    runtime::InitNode(read);
    SHARD_CHECK(runtime::ReadOptions(options, read));
    SHARD_TRY(std::unique_ptr<runtime::Node> opened,
              runtime::Node::Open(source, runtime::ToNodeOptions(read)));
    *node = new moepack_node{std::move(opened)};
    return Ok();
  });
}

void moepack_node_close(moepack_node* node) { delete node; }

uint32_t moepack_node_vocabulary(const moepack_node* node) {
  return node == nullptr ? 0 : node->node->model().vocabulary();
}

uint32_t moepack_node_groups(const moepack_node* node) {
  if (node == nullptr || !node->node->weights().plan) return 0;
  return static_cast<uint32_t>(node->node->weights().plan->groups.size());
}

int moepack_tokenize(const moepack_node* node, const char* text, size_t bytes, uint32_t* tokens,
                     size_t capacity, size_t* count) {
  return Guarded([&]() -> Status {
    if (node == nullptr || count == nullptr) return Missing(node == nullptr ? "node" : "count");
    SHARD_CHECK(runtime::CheckArray("text", text, bytes));
    SHARD_CHECK(runtime::CheckArray("tokens", tokens, capacity));
    SHARD_TRY(const runtime::Tokenizer* tokenizer, node->node->tokenizer());
    SHARD_TRY(const std::vector<uint32_t> ids,
              tokenizer->Encode(bytes == 0 ? std::string_view() : std::string_view(text, bytes),
                                runtime::Tokenizer::Options()));
    runtime::Fill(std::span(ids), std::span(tokens, capacity));
    *count = ids.size();
    return Ok();
  });
}

int moepack_detokenize(const moepack_node* node, const uint32_t* tokens, size_t token_count,
                       char* text, size_t capacity, size_t* count) {
  return Guarded([&]() -> Status {
    if (node == nullptr || count == nullptr) return Missing(node == nullptr ? "node" : "count");
    SHARD_CHECK(runtime::CheckArray("tokens", tokens, token_count));
    SHARD_CHECK(runtime::CheckArray("text", text, capacity));
    std::string bytes;
    SHARD_CHECK(runtime::Detokenize(*node->node, {tokens, token_count}, bytes));
    runtime::Fill(std::span<const char>(bytes), std::span(text, capacity));
    *count = bytes.size();
    return Ok();
  });
}

int moepack_is_end(const moepack_node* node, uint32_t token) {
  if (node == nullptr) return 0;
  const auto tokenizer = node->node->tokenizer();
  return tokenizer && (*tokenizer)->IsEnd(token) ? 1 : 0;
}

int moepack_probe_score(const moepack_node* node, const uint32_t* tokens, size_t token_count,
                        uint32_t moe_layers, double* scores, size_t capacity, size_t* count) {
  return Guarded([&]() -> Status {
    if (node == nullptr || count == nullptr) return Missing(node == nullptr ? "node" : "count");
    SHARD_CHECK(runtime::CheckArray("tokens", tokens, token_count));
    SHARD_CHECK(runtime::CheckArray("scores", scores, capacity));
    SHARD_TRY(const std::vector<double> found,
              node->node->ProbeScore({tokens, token_count}, moe_layers));
    runtime::Fill(std::span(found), std::span(scores, capacity));
    *count = found.size();
    return Ok();
  });
}

int moepack_placer_open(const char* distribution, moepack_placer** placer) {
  return Guarded([&]() -> Status {
    if (distribution == nullptr) return Missing("distribution");
    if (placer == nullptr) return Missing("placer");
    SHARD_TRY(std::unique_ptr<runtime::Placer> opened, runtime::Placer::Open(distribution));
    *placer = new moepack_placer{std::move(opened)};
    return Ok();
  });
}

void moepack_placer_close(moepack_placer* placer) { delete placer; }

uint32_t moepack_placer_groups(const moepack_placer* placer) {
  return placer == nullptr ? 0 : static_cast<uint32_t>(placer->placer->groups());
}

int moepack_place_tokens(const moepack_placer* placer, const uint32_t* tokens, size_t token_count,
                         moepack_placement* placement, double* scores, size_t capacity,
                         size_t* count) {
  return Guarded([&]() -> Status {
    const runtime::PlacementOutput out{placement, {scores, capacity}, count};
    SHARD_CHECK(runtime::CheckPlacementOutput(placer, out));
    SHARD_CHECK(runtime::CheckArray("tokens", tokens, token_count));
    SHARD_TRY(const moepack::PlacementAnswer answer,
              placer->placer->Place(std::span(tokens, token_count)));
    runtime::WritePlacement(answer, out);
    return Ok();
  });
}

int moepack_place_text(const moepack_placer* placer, const char* text, size_t bytes,
                       moepack_placement* placement, double* scores, size_t capacity,
                       size_t* count) {
  return Guarded([&]() -> Status {
    const runtime::PlacementOutput out{placement, {scores, capacity}, count};
    SHARD_CHECK(runtime::CheckPlacementOutput(placer, out));
    SHARD_CHECK(runtime::CheckArray("text", text, bytes));
    SHARD_TRY(
        const moepack::PlacementAnswer answer,
        placer->placer->Place(bytes == 0 ? std::string_view() : std::string_view(text, bytes)));
    runtime::WritePlacement(answer, out);
    return Ok();
  });
}

int moepack_session_open(moepack_node* node, const moepack_session_options* options,
                         moepack_session** session) {
  return Guarded([&]() -> Status {
    if (node == nullptr || session == nullptr) return Missing(node == nullptr ? "node" : "session");
    moepack_session_options read;
    runtime::InitSession(read);
    SHARD_CHECK(runtime::ReadOptions(options, read));
    runtime::SessionOptions of_session;
    of_session.context = read.context;
    SHARD_TRY(std::unique_ptr<runtime::Generation> generation,
              node->node->OpenGeneration(of_session, runtime::ToSampling(read)));
    *session = new moepack_session{node->node, std::move(generation)};
    return Ok();
  });
}

void moepack_session_close(moepack_session* session) { delete session; }

int moepack_prefill(moepack_session* session, const uint32_t* tokens, size_t token_count) {
  return Guarded([&]() -> Status {
    if (session == nullptr) return Missing("session");
    SHARD_CHECK(runtime::CheckArray("tokens", tokens, token_count));
    return session->generation->Prefill({tokens, token_count});
  });
}

int moepack_decode(moepack_session* session, uint32_t* token, double* logprob) {
  return Guarded([&]() -> Status {
    if (session == nullptr || token == nullptr)
      return Missing(session == nullptr ? "session" : "token");
    SHARD_TRY(const runtime::NextToken next, session->generation->Decode());
    *token = next.id;
    if (logprob != nullptr) *logprob = next.logprob;
    return Ok();
  });
}

}  // extern "C"
