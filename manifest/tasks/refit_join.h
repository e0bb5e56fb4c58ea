// Joins the parts of a refit, which several machines made, into what one machine makes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/refit/refit_record.h"
#include "manifest/write/join.h"

namespace moepack::manifest {

// The name of a task's part, behind that of its distribution if it has one.
inline constexpr const char* kRefitPartSuffix = ".refit";

// The parts that `inputs` name: stores of parts, or directories of tasks that contain some.
struct RefitParts {
  std::vector<std::string> stores;
  // Of tasks that write distributions, too: as many.
  std::vector<std::string> distributions;
};
// Empty if no input has a part of a refit. kInvalidArgument if some have and others have not, or if
// only some tasks have distributions.
Result<RefitParts> FindRefitParts(const std::vector<std::string>& inputs);

struct RefitJoinReport {
  uint32_t parts = 0;
  RefitRecord record;
  std::string store;                    // the directory
  std::vector<JoinReport::File> files;  // of the store; in a dry run without importance matrix
  bool was_there = false;               // the store, from a join that was killed later
  std::optional<JoinReport> distribution;
  std::vector<std::string> warnings;
  uint64_t total_bytes() const;  // of the store
};

// Writes the store that a single refit of all groups writes: at `out`, or, if the parts have
// distributions, beside the joined one, which is at `out` (kRefitPartSuffix). Errors:
//   kNotFound   groups that no part has, parts that are not finished
//   kMismatch   parts of different refits, texts, instructions or versions; corrupt files
Result<RefitJoinReport> JoinRefits(const RefitParts& parts, const std::string& out,
                                   const JoinOptions& options);

}  // namespace moepack::manifest
