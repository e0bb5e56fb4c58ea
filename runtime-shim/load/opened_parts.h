// Opens the files of a distribution that are loaded: compares their headers with the manifest, and
// maps their bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"
#include "manifest/write/open_bundle.h"
#include "runtime-shim/load/part_selection.h"
#include "runtime-shim/load/source_bytes.h"

namespace moepack::runtime {

struct OpenedPart {
  manifest::OpenedBundle bundle;
  FilePtr file;
  // Returns the bytes of a tensor of the bundle.
  ByteView Bytes(const manifest::PartTensor& tensor) const {
    return file->bytes().subspan(tensor.entry.offset, tensor.entry.bytes);
  }
};

// Opens the files of one split. kMismatch if a file's header differs from the manifest, or two
// files belong to different models. Borrows the split.
class PartOpener {
 public:
  explicit PartOpener(const Split& split) : split_(split) {}
  Result<std::vector<OpenedPart>> Open(const Bundles& files);

 private:
  const Split& split_;
  std::string model_, first_;  // the model of the first file, and the name of that file
};

// Reads what a distribution says about its model, without any weights.

struct ModelMetadata {
  GgufMetadata keys;
  std::optional<Error> no_tokenizer;  // as in Weights
};
// Returns the GGUF metadata of the whole model, with its tokenizer if it has a usable one. GGUF
// bundles have it in the head; for safetensors bundles config and tokenizer are converted, for
// which the headers of the trunk and of one group are read. kNotFound if these files are missing;
// otherwise the errors of opening and converting them. `split.parts` is replaced.
Result<ModelMetadata> ReadModelMetadata(Split& split);

}  // namespace moepack::runtime
