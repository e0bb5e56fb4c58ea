#include "libshard/model/gguf_keys.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/model/config.h"

namespace moepack {

Error GgufKeys::Wrong(std::string_view name, const std::string& expected) const {
  const GgufValue* value = Find(name);
  std::string found = "none";
  if (value != nullptr) {
    const auto number = value->AsUint();
    found = number ? Cat(*number) : Cat("a value of type ", GgufTypeName(value->type));
  }
  return {Code::kCorrupt,
          Cat(where_, ": key ", Quoted(Key(name)), ": expected ", expected, ", found ", found)};
}

Result<std::vector<uint32_t>> GgufKeys::Numbers(std::string_view name, uint64_t limit) const {
  const GgufValue* value = Find(name);
  if (value == nullptr) return std::vector<uint32_t>();
  const auto numbers = value->AsUints();
  if (!numbers || numbers->size() > kMaxModelCount ||
      std::any_of(numbers->begin(), numbers->end(), [&](uint64_t n) { return n > limit; })) {
    return Wrong(name, Cat("whole numbers from 0 to ", limit));
  }
  return std::vector<uint32_t>(numbers->begin(), numbers->end());
}

Result<uint32_t> GgufKeys::Number(std::string_view name, uint64_t limit) const {
  const GgufValue* value = Find(name);
  if (value == nullptr) return 0u;
  const auto number = value->AsUint();
  if (!number || *number > limit) return Wrong(name, Cat("a whole number from 0 to ", limit));
  return static_cast<uint32_t>(*number);
}

Result<uint32_t> GgufKeys::Largest(std::string_view name, uint64_t limit) const {
  SHARD_TRY(const std::vector<uint32_t> numbers, Numbers(name, limit));
  return numbers.empty() ? 0u : *std::max_element(numbers.begin(), numbers.end());
}

Result<uint32_t> GgufKeys::Vocabulary() const {
  SHARD_TRY(const uint32_t stated, Number("vocab_size", kMaxModelWidth));
  const GgufValue* tokens = metadata_.Find("tokenizer.ggml.tokens");
  // Not all files have vocab_size, and token ids are indexes of the list.
  if (tokens == nullptr || tokens->type != GgufType::kArray) return stated;
  return static_cast<uint32_t>(tokens->Count());  // at most 2^30
}

std::optional<BlockName> ParseBlockName(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const size_t dot = name.find('.');
  if (dot == 0 || dot == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(0, dot);
  if (digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return BlockName{ParseUint(digits).value_or(UINT64_MAX), name.substr(dot + 1)};
}

}  // namespace moepack
