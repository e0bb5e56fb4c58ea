#include "runtime-shim/refit/overlap.h"

#include <algorithm>

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

// FNV-1a over the tokens of each run. A collision in 64 bits would only count one run too many.
std::vector<uint64_t> RunsOf(std::span<const uint32_t> tokens) {
  std::vector<uint64_t> runs;
  for (size_t first = 0; first + kOverlapTokens <= tokens.size(); ++first) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const uint32_t token : tokens.subspan(first, kOverlapTokens))
      hash = (hash ^ token) * 0x100000001b3;
    runs.push_back(hash);
  }
  return runs;
}

}  // namespace

std::vector<Overlap> FindOverlaps(std::span<const TokenSession> calibration,
                                  std::span<const TokenSession> held_out) {
  std::vector<uint64_t> known;
  for (const TokenSession& session : calibration) {
    const std::vector<uint64_t> runs = RunsOf(session.tokens);
    known.insert(known.end(), runs.begin(), runs.end());
  }
  std::sort(known.begin(), known.end());
  std::vector<Overlap> overlaps;
  for (const TokenSession& session : held_out) {
    const std::vector<uint64_t> runs = RunsOf(session.tokens);
    const auto shared = std::count_if(runs.begin(), runs.end(), [&](uint64_t run) {
      return std::binary_search(known.begin(), known.end(), run);
    });
    if (shared > 0)
      overlaps.push_back(
          {session.name, static_cast<double>(shared) / static_cast<double>(runs.size())});
  }
  return overlaps;
}

Status CheckOverlaps(std::span<const Overlap> overlaps) {
  for (const Overlap& overlap : overlaps) {
    if (overlap.share <= kMostOverlap) continue;
    return Error{Code::kInvalidArgument,
                 Cat("held-out session ", Quoted(overlap.session), ": expected other text than ",
                     "for calibration, found ", FormatShare(overlap.share), " of its runs of ",
                     kOverlapTokens, " tokens there too")};
  }
  return Ok();
}

}  // namespace moepack::runtime
