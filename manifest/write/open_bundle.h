// Opens a file of a distribution as a source of bytes.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/format/checkpoint.h"
#include "libshard/format/gguf_metadata.h"
#include "manifest/document/corrupt.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// A tensor of the distribution: its record in the manifest, and its place in the file.
struct PartTensor {
  const TensorRecord* record = nullptr;
  TensorEntry entry;
};

struct OpenedBundle {
  SourceFile source;
  std::vector<PartTensor> tensors;  // in file order; entry.file is `file`
  GgufMetadata metadata;            // of GGUF files
  std::string model;                // moepack.model; "" in a head
};

// Opens a file of a distribution. A directory that was pulled has only the groups and the overlay
// that were requested, so an absent file is kNotFound with a hint there.
Result<ByteSourcePtr> OpenBundleFile(const SourceTree& distribution, const std::string& file);
// Names the file that says what was pulled, then what to do about a file that was not.
std::string NotPulledHint(const SourceTree& distribution, const std::string& what_to_do);

// Reads the file's header and compares it with the manifest (kMismatch). `file` is its index among
// the sources. Borrows the record.
Result<OpenedBundle> OpenBundle(const SourceTreePtr& distribution, const BundleRecord& bundle,
                                uint32_t file);

// Reads the alignment of a GGUF bundle from its header.
Result<uint64_t> AlignmentOf(const SourceTree& distribution, const BundleRecord& bundle);

}  // namespace moepack::manifest
