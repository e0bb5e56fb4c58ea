// Which family reads the names of a distribution's tensors.
#pragma once

#include <memory>
#include <string>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/model/family.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

class TensorNames {
 public:
  // GGUF bundles have llama.cpp's names. For safetensors, `family_file` is the table that the model
  // was split with, or "" for a built-in family named by the config asset: kNotFound without the
  // asset.
  static Result<TensorNames> Of(const SourceTree& tree, const Manifest& manifest,
                                const std::string& family_file);
  const Family& family() const { return *family_; }

 private:
  std::shared_ptr<const Family> family_;
};

}  // namespace moepack::manifest
