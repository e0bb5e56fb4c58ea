// Types of tensors that AllFormats() lacks, so that messages can say whose they are: those that
// ggml has removed or uses only in memory, and those of ik_llama.cpp, a fork of llama.cpp.
#pragma once

#include <cstdint>
#include <string_view>

namespace quant {

enum class TypeOwner : uint8_t { kRemoved, kInMemory, kIkLlamaCpp };

struct OtherType {
  uint32_t id;            // in a GGUF file
  std::string_view name;  // as its project prints it
  TypeOwner owner;
};

// Null if the type is not known either. Names are read without regard to case.
const OtherType* FindOtherType(uint32_t id);
const OtherType* FindOtherType(std::string_view name);

// "which ggml has removed", "a type of ik_llama.cpp"
std::string_view OwnerText(TypeOwner owner);

}  // namespace quant
