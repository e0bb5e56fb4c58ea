// Writes keys that begin with the architecture's name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/format/gguf_metadata.h"

namespace moepack {

// Writes "<architecture>.<name>" keys with exactly the type that the runtime reads, because it
// refuses a file whose u32 is an i32 or whose f32 is an f64. Borrows the metadata.
class ArchKeys {
 public:
  ArchKeys(std::string_view architecture, GgufMetadata& metadata)
      : architecture_(architecture), metadata_(metadata) {}

  const std::string& architecture() const { return architecture_; }

  void U32(std::string_view name, uint32_t value) { Set(name, GgufValue::U32(value)); }
  void F32(std::string_view name, float value) { Set(name, GgufValue::F32(value)); }
  void Bool(std::string_view name, bool value) { Set(name, GgufValue::Bool(value)); }
  void String(std::string_view name, std::string_view text) { Set(name, GgufValue::String(text)); }
  void I32s(std::string_view name, std::span<const int32_t> values) {
    Set(name, GgufValue::I32s(values));
  }
  void F32s(std::string_view name, std::span<const float> values) {
    Set(name, GgufValue::F32s(values));
  }
  void Bools(std::string_view name, const std::vector<bool>& values) {
    Set(name, GgufValue::Bools(values));
  }

 private:
  void Set(std::string_view name, GgufValue value) {
    metadata_.Set(architecture_ + "." + std::string(name), std::move(value));
  }
  std::string architecture_;
  GgufMetadata& metadata_;
};

}  // namespace moepack
