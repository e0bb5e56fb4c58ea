// Options that describe the machines that a plan is for.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/sizing/cache_shape.h"
#include "tools/base/command.h"
#include "tools/options/quantize_options.h"

namespace moepack::cli {

struct MachineArguments {
  std::vector<std::string> nodes;  // --node
  std::optional<uint64_t> reserve;
  uint64_t context = 0;  // 0: not given
  uint64_t sessions = 1;
  std::string kv_type = "f16";
  uint32_t stages = 0;  // 0: not given
  bool sweep = false;
  std::vector<std::string> recipes;  // --recipes
  bool damage = false;               // --damage
  QuantizeArguments quantize;

  // Whether machine sizes are requested.
  bool wanted() const { return !nodes.empty() || context > 0 || stages > 0; }
  // Whether every machine is a node and gets what it has room for.
  bool fills_nodes() const { return !nodes.empty() && stages == 0; }
};

// The context that --node assumes unless --context is given.
inline constexpr uint64_t kUsualContext = 4096;

// Adds --node, --reserve, --context, --sessions, --kv-type, --stages, --sweep, --recipes, --damage,
// and the options that choose types. Options of `app` that contradict --node or --sweep are
// excluded.
void AddMachineOptions(CLI::App& app, MachineArguments& arguments);

// The bytes of each machine: {"24GB", "16GBx3"} are four. kInvalidArgument, naming --node, for text
// that is not a size, for 0 bytes, and for more than kMaxGroups machines.
Result<std::vector<uint64_t>> ParseNodes(const std::vector<std::string>& texts);

// Tokens: "32k" is 32,768, "1m" is 1,048,576. No value for other text, for 0 and for more than
// 2^30.
std::optional<uint64_t> ParseTokens(std::string_view text);

// kInvalidArgument for options that have no effect or contradict each other. `groups` is 0 if it
// was not given.
Status CheckMachineOptions(const MachineArguments& arguments, uint32_t groups);

// The cache that the options request.
Result<CacheUse> CacheUseOf(const MachineArguments& arguments);

// The types that the options choose, or no value.
Result<std::optional<QuantizeOptions>> TypesOf(const MachineArguments& arguments);

}  // namespace moepack::cli
