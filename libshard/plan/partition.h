// Decides which group owns which expert. The partitions are rows of one table, from which help and
// messages are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/plan/plan.h"
#include "libshard/strategies/strategy.h"

namespace moepack {

// The input of a partition besides the model's layers and overlay. A partition that needs more gets
// a member here, and its command sets it.
struct PartitionInput {
  uint32_t groups = 0;  // 0 if the file says how many
  std::string file;     // for a partition that takes one

  // For partitions that decide from scores. They fit the model.
  const ExpertScores* scores = nullptr;
  std::vector<size_t> sessions = {};  // of `scores`: those to decide from
  // rooms[group][i]: how many experts the group may hold in the i-th layer of the plan, besides the
  // overlay's.
  std::vector<std::vector<uint32_t>> rooms = {};
  LayerExperts pinned = {};  // held by every group
  uint64_t seed = 0;
};

struct Partition {
  std::string_view name;
  bool takes_file = false;     // spelled name:FILE; the file lists the groups
  bool by_scores = false;      // decides from statistics
  bool reads_pairs = false;    // of them also which experts tokens chose together
  bool random_starts = false;  // uses PartitionInput::seed
  std::string_view help;       // a few words that stand in brackets after the name

  // Sets groups[].owned and remainder, and scheme if it differs from the name. Null for one that
  // decides from statistics. REQUIRES: plan.layers, top_k and overlay are set, and nothing else but
  // plan.scheme.
  Status (*make)(const PartitionInput& input, Plan& plan) = nullptr;
  const Strategy* strategy = nullptr;  // otherwise
};

// The partition without statistics.
inline constexpr std::string_view kContiguous = "contiguous";

// The text of the help: "contiguous (0-5, 6-10, ...; the default without statistics), modulo (...)
// or explicit:FILE (...)".
std::string PartitionHelp();

struct PartitionChoice {
  const Partition* partition = nullptr;
  std::string file;
};
// Parses the user's choice: "modulo", "explicit:groups.json". kInvalidArgument lists the
// partitions.
Result<PartitionChoice> ParsePartition(std::string_view text);

// The names that ParsePartition takes without a file.
std::vector<std::string> PartitionsWithoutFile();

// The partition of options that name none. `why` continues the sentence "partition: <name>, ...";
// "" without statistics.
struct PartitionDefault {
  std::string_view name;
  std::string why;
};
PartitionDefault DefaultPartition(const PlanOptions& options);
// options.partition, or the default's name.
std::string PartitionOf(const PlanOptions& options);

// True for the name of a partition that decides from statistics.
bool DecidesFromScores(std::string_view scheme);
// True for a choice (ParsePartition) that reads the pairs of the statistics, which are large.
bool ReadsPairs(std::string_view choice);
// The names of the first partition of the table and of those that decide from statistics, which are
// worth comparing with it.
std::vector<std::string> ComparedPartitions();

}  // namespace moepack
