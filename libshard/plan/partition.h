// Who owns which expert: the partitions by name, one row each. Help and messages are made from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/plan/plan.h"

namespace moepack {

// What a partition is made from besides the layers of the model. What one more partition needs,
// such as statistics, gets a member here; the command that knows it sets it.
struct PartitionInput {
  uint32_t groups = 0;  // 0 where the file says how many
  std::string file;     // of a partition that takes one
};

struct Partition {
  std::string_view name;
  bool takes_file;        // spelled name:FILE; the file lists the groups
  std::string_view help;  // a few words, in brackets behind the name

  // Sets groups[].owned and remainder, and scheme if it is not to be the name.
  // REQUIRES: plan.layers is set, and nothing else but plan.scheme.
  Status (*make)(const PartitionInput& input, Plan& plan);
};

// For the help: "contiguous (0-5, 6-10, ...; the default), modulo (...) or explicit:FILE (...)".
std::string PartitionHelp();

struct PartitionChoice {
  const Partition* partition = nullptr;
  std::string file;
};
// What `text` asks for: "modulo", "explicit:groups.json". kInvalidArgument lists the partitions.
Result<PartitionChoice> ParsePartition(std::string_view text);

}  // namespace moepack
