#include "runtime-shim/session/pass.h"

#include <algorithm>
#include <cmath>

#include "libshard/base/files/mapped_file.h"
#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

// Errors that are not about numbers.
bool IsFinal(const Status& status) {
  return !status &&
         (status.error().code == Code::kUnavailable || status.error().code == Code::kInterrupted);
}

}  // namespace

// A pass that fails is run again to find where the first NaN appeared. This is safe, because it
// writes the same rows of the caches again.
Status Pass::Run(uint32_t layers) {
  Status done = forward_.Run(segments_, layers, /*trace=*/false);
  // Errors of the device come with the next Read or Finish, and a pass for routers reads no logits.
  if (done && layers != 0) done = model_.executor().Finish();
  SHARD_CHECK(CheckMappedFiles());  // weights in a file that was truncated meanwhile read as zeros
  if (done || IsFinal(done)) return done;
  SHARD_CHECK(forward_.Run(segments_, layers, /*trace=*/true));
  return done;
}

Status Pass::ReadSome(std::span<const uint32_t> rows, std::span<float> logits) {
  Status done = forward_.PutLogits(rows, /*trace=*/false);
  const auto count = static_cast<uint32_t>(rows.size());
  if (done) done = model_.executor().Read(model_.scratch().logits.Slice(0, count), logits);
  SHARD_CHECK(CheckMappedFiles());
  if ((done && AllFinite(logits)) || IsFinal(done)) return done;
  SHARD_CHECK(forward_.Run(segments_, 0, /*trace=*/true));
  SHARD_CHECK(forward_.PutLogits(rows, /*trace=*/true));
  if (!done) return done;
  return Error{Code::kCorrupt, Cat(model_.weights().path,
                                   ": logits: expected finite numbers, found NaN or infinity that "
                                   "a second run of the same tokens did not have")};
}

Status Pass::Read(std::span<const uint32_t> rows, std::span<float> logits) {
  const size_t most = model_.scratch().logits.count, width = model_.vocabulary();
  for (size_t first = 0; first < rows.size(); first += most) {
    const auto some = rows.subspan(first, std::min(most, rows.size() - first));
    SHARD_CHECK(ReadSome(some, logits.subspan(first * width, some.size() * width)));
  }
  // On the host, because executors have no such operation, and the logits are here.
  const float cap = model_.spec().logit_cap;
  for (float& logit : logits.first(cap == 0 ? 0 : logits.size()))
    logit = std::tanh(logit / cap) * cap;
  return Ok();
}

}  // namespace moepack::runtime
