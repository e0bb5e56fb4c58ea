// Reads an architecture's keys from GGUF metadata. The first that is missing or wrong is kept as
// the error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"

namespace moepack {

class SpecKeys {
 public:
  // Borrows both arguments; `path` names the file in errors.
  SpecKeys(const std::string& path, const GgufMetadata& metadata)
      : path_(path), metadata_(metadata), architecture_(metadata.Architecture()) {}

  const std::string& architecture() const { return architecture_; }
  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // Keys are given without "<architecture>.". A missing required key is an error, and so is any key
  // with the wrong type or a value that makes no sense (over 2^24, not finite).
  uint32_t Required(std::string_view key);
  uint32_t Uint(std::string_view key, uint32_t otherwise);
  float Float(std::string_view key, float otherwise);
  float RequiredFloat(std::string_view key);
  bool Bool(std::string_view key, bool otherwise);
  std::string String(std::string_view key, const std::string& otherwise);
  // Reads one value for each of `count` layers, from a list of at least that many or from one
  // number for all.
  std::vector<uint32_t> PerLayer(std::string_view key, uint32_t count, uint32_t otherwise);

  // Reads a list of at least `count` finite numbers; empty if the key is absent.
  std::vector<float> Floats(std::string_view key, uint32_t count);
  // Reads a list of at least `count` bools, or of numbers; empty if the key is absent.
  std::vector<bool> Flags(std::string_view key, uint32_t count);

  void Refuse(std::string_view key, const std::string& expected, const std::string& found);
  // Sets kUnsupported for a model that is well-formed but cannot run here.
  void Decline(const std::string& what);
  // The first error.
  Status status() const;

 private:
  const GgufValue* Find(std::string_view key) const;
  uint32_t Checked(std::string_view key, const GgufValue& value);
  float CheckedFloat(std::string_view key, const GgufValue& value);

  const std::string& path_;
  const GgufMetadata& metadata_;
  std::string architecture_;
  std::optional<Error> error_;
};

}  // namespace moepack
