// One node of a safetensors distribution as a model directory of its own, for runtimes that read
// Hugging Face checkpoints: routers cut to the node's experts, experts renumbered from 0, the
// expert count in config.json changed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/pack.h"
#include "libshard/result.h"
#include "libshard/slice.h"
#include "manifest/manifest.h"

namespace manifest {

inline constexpr const char* kNodeFile = "moepack_node.json";

struct AssembleOptions {
  uint32_t group = 0;
  std::string family_file;  // as in shard::ModelOptions, for models that were split with one
  shard::PackOptions pack;
  bool force = false;    // replace an existing output
  bool dry_run = false;  // say what would be written
};

struct AssembleReport {
  struct File {
    std::string name;
    uint64_t bytes = 0;
  };
  std::vector<File> files;         // weights and assets that were (or would be) written
  uint32_t experts = 0;            // per layer
  std::vector<std::string> notes;  // changes to the routing that a user should know
  uint64_t total_bytes() const;
};

// Refused (kInvalidArgument or kUnsupported, with the reason): parts of the group that are not
// there, layers with different numbers of eligible experts, hash-routing tables. Digests of tensors
// that are copied whole are checked against the manifest on the way (kMismatch).
Result<AssembleReport> AssembleNode(const std::string& distribution, const std::string& out,
                                    const AssembleOptions& options);

}  // namespace manifest
