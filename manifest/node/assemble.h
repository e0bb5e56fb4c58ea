// Turns one node of a distribution into a model directory: routers are cut to the node's experts,
// experts are renumbered from 0, and the expert count is changed. Safetensors bundles give a
// directory for runtimes that read Hugging Face checkpoints, GGUF bundles one for a stock
// llama.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/format/gguf.h"
#include "libshard/pack/pack.h"
#include "libshard/pack/slice.h"
#include "manifest/document/manifest.h"
#include "manifest/write/link_file.h"

namespace moepack::manifest {

// kSplit is a split set that shares the trunk's file with other nodes; kSingle is one file with
// everything.
enum class NodeLayout : uint8_t { kSplit, kSingle };

// An option that does not apply to the bundles or the layout is refused.
struct AssembleOptions {
  SourceTreePtr distribution;  // opened; null: a directory on this machine
  uint32_t group = 0;
  std::string overlay;               // version of the overlay; "": the current one
  bool with_overlay = true;          // false: only the group
  std::optional<NodeLayout> layout;  // GGUF; no value: a split set
  // GGUF split sets: how the trunk gets into them; no value: kAuto
  std::optional<LinkKind> link;
  uint64_t max_part_size = 0;  // GGUF split sets: of each experts file; 0: one file
  // GGUF: the alignment of tensors in the written files; the trunk of a split set keeps its own.
  uint64_t alignment = kGgufDefaultAlignment;
  std::string name;         // GGUF: <name>-00001-of-00003.gguf, or <name>.gguf; "": node
  std::string family_file;  // safetensors: as in ModelOptions, for models split with one
  PackOptions pack;
  bool force = false;    // replace an existing output
  bool dry_run = false;  // only say what would be written
};

struct AssembleReport {
  struct File {
    std::string name;
    uint64_t bytes = 0;
    std::string link = {};  // "hardlink", ...; "" for a separate file
  };
  std::vector<File> files;            // weights and assets that were (or would be) written
  uint32_t expert_count = 0;          // per layer
  uint64_t source_bytes = 0;          // of the distribution's files that it is made from
  std::string model_file;             // GGUF: the file to give to llama-server
  std::vector<std::string> notes;     // changes to the routing that a user should know
  std::vector<std::string> warnings;  // about what was left on disk
  uint64_t total_bytes() const;
};

// Assembles the node. It refuses (kInvalidArgument or kUnsupported, with the reason) options that
// would have no effect, missing parts of the group, layers with different numbers of eligible
// experts, and hash-routing tables. Digests of tensors that are copied whole or cut, and of linked
// files, are compared with the manifest before the node appears (kMismatch).
Result<AssembleReport> AssembleNode(const std::string& distribution, const std::string& out,
                                    const AssembleOptions& options);

}  // namespace moepack::manifest
