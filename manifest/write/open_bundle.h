// Opens a file of a distribution as a source of bytes.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/checkpoint.h"
#include "libshard/format/gguf_metadata.h"
#include "manifest/document/manifest.h"

namespace manifest {

// A tensor of the distribution: what the manifest says about it, and where it is.
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
Result<OpenedBundle> OpenBundle(const std::string& distribution, const BundleRecord& bundle,
                                uint32_t file);

// The same, and also compares what the file says about itself: model, role, group, overlay and
// experts (kMismatch, with the first difference from the manifest).
Status CheckHeader(const std::string& distribution, const Manifest& manifest,
                   const BundleRecord& bundle);

// The alignment of the tensors in a GGUF bundle, from its own header.
Result<uint64_t> AlignmentOf(const std::string& distribution, const BundleRecord& bundle);

// The hint of errors that verify explains. Where the distribution is known, NameDamaged turns it
// into a command; it does not change other errors.
extern const char* const kDamagedHint;
shard::Error NameDamaged(const std::string& distribution, shard::Error error);
// "`moepack verify PATH`", as /bin/sh reads it.
std::string VerifyCommand(const std::string& path);

}  // namespace manifest
