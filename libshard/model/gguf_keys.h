// Reads the keys "<architecture>.<name>" of GGUF metadata and checks their types, and the names of
// tensors of a block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"

namespace moepack {

// Names are given without the architecture. Borrows both arguments; `where` names the file in
// errors, which are kCorrupt.
class GgufKeys {
 public:
  GgufKeys(const std::string& where, const GgufMetadata& metadata)
      : where_(where), metadata_(metadata), architecture_(metadata.Architecture()) {}

  const std::string& where() const { return where_; }
  const std::string& architecture() const { return architecture_; }
  std::string Key(std::string_view name) const { return architecture_ + "." + std::string(name); }
  const GgufValue* Find(std::string_view name) const { return metadata_.Find(Key(name)); }

  // Reads a number; 0 if the key is absent.
  Result<uint32_t> Number(std::string_view name, uint64_t limit) const;
  // Reads the numbers of a key that has one number, or one per layer; empty if it is absent.
  Result<std::vector<uint32_t>> Numbers(std::string_view name, uint64_t limit) const;
  // Reads the largest of them; 0 if the key is absent.
  Result<uint32_t> Largest(std::string_view name, uint64_t limit) const;

  // The size of the vocabulary: the number of tokens if the file has them, otherwise vocab_size.
  Result<uint32_t> Vocabulary() const;

  // The error 'key "...": expected ..., found ...', with the key's value.
  Error Wrong(std::string_view name, const std::string& expected) const;

 private:
  const std::string& where_;
  const GgufMetadata& metadata_;
  std::string architecture_;
};

// Names of tensors in a GGUF file that belong to a block (layer): "blk.7.attn_q.weight".

struct BlockName {
  uint64_t block = 0;     // 2^64 - 1 for any number that is too large
  std::string_view rest;  // "attn_q.weight"; a part of the name that was given
};

// No value for a name that is not "blk.", decimal digits, a dot, and anything.
std::optional<BlockName> ParseBlockName(std::string_view name);

}  // namespace moepack
