// Decides which group owns which expert. The partitions are one table with a row each, from which
// help and messages are made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/plan/plan.h"

namespace moepack {

// The input of a partition besides the model's layers. A partition that needs more, such as
// statistics, gets a member here, and its command sets it.
struct PartitionInput {
  uint32_t groups = 0;  // 0 when the file says how many
  std::string file;     // for a partition that takes one
};

struct Partition {
  std::string_view name;
  bool takes_file;        // spelled name:FILE; the file lists the groups
  std::string_view help;  // a few words that stand in brackets after the name

  // Sets groups[].owned and remainder, and also scheme where it differs from the name. REQUIRES:
  // plan.layers is set, and nothing else but plan.scheme.
  Status (*make)(const PartitionInput& input, Plan& plan);
};

// The text of the help: "contiguous (0-5, 6-10, ...; the default), modulo (...) or explicit:FILE
// (...)".
std::string PartitionHelp();

struct PartitionChoice {
  const Partition* partition = nullptr;
  std::string file;
};
// Parses the user's choice: "modulo", "explicit:groups.json". kInvalidArgument lists the
// partitions.
Result<PartitionChoice> ParsePartition(std::string_view text);

}  // namespace moepack
