// A file of a distribution as a source of bytes.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/source_tree.h"
#include "libshard/format/checkpoint.h"
#include "libshard/format/gguf_metadata.h"
#include "manifest/document/manifest.h"

namespace manifest {

// A tensor of the distribution: what the manifest says of it, and where it is.
struct PartTensor {
  const TensorRecord* record = nullptr;
  shard::TensorEntry entry;
};

struct OpenedBundle {
  shard::SourceFile source;
  std::vector<PartTensor> tensors;  // in file order; entry.file is `file`
  shard::GgufMetadata metadata;     // of GGUF files
  std::string model;                // moepack.model; "" in a head
};

// Reads the file's own header and compares it with the manifest (kMismatch). `file` is the number
// it gets among the sources. Borrows the record.
Result<OpenedBundle> OpenBundle(const shard::SourceTreePtr& distribution,
                                const BundleRecord& bundle, uint32_t file);

// The same, and what the file says of itself: model, role, group, overlay and experts (kMismatch,
// with the first thing that is not as the manifest says).
Status CheckHeader(const shard::SourceTree& distribution, const Manifest& manifest,
                   const BundleRecord& bundle);

// Alignment of the tensors in a GGUF bundle, by its own header.
Result<uint64_t> AlignmentOf(const shard::SourceTree& distribution, const BundleRecord& bundle);

// Hint of errors that verify explains. Where the distribution is known, NameDamaged makes a command
// of it, and leaves every other error as it is.
extern const char* const kDamagedHint;
shard::Error NameDamaged(const std::string& distribution, shard::Error error);
// "`moepack verify PATH`", as /bin/sh reads it.
std::string VerifyCommand(const std::string& path);

}  // namespace manifest
