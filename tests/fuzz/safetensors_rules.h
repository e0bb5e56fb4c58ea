// The rules of a safetensors file, read a second time by code that knows nothing of our reader:
// those of the format's description and of its own library.
// Source: https://github.com/huggingface/safetensors, README.md "Format" and
// safetensors/src/tensor.rs (SafeTensors::read_metadata, Metadata::validate)
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

struct RuledTensor {
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;  // from the start of the data
};
using RuledFile = std::map<std::string, RuledTensor>;

// Bytes per element. Later types with less than a byte are not among them.
inline const std::map<std::string, uint64_t>& RuledTypes() {
  static const std::map<std::string, uint64_t> types = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
      {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
  return types;
}

// Notes duplicate names, of which nlohmann would keep the last.
inline std::optional<nlohmann::json> ParseWithoutTwins(std::string_view text) {
  std::vector<std::set<std::string>> open;
  bool twins = false;
  const auto note = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key && !open.back().insert(value.get<std::string>()).second) twins = true;
    return true;
  };
  nlohmann::json document = nlohmann::json::parse(text, note, /*allow_exceptions=*/false);
  if (document.is_discarded() || twins) return std::nullopt;
  return document;
}

inline std::optional<std::vector<uint64_t>> RuledNumbers(const nlohmann::json& list) {
  if (!list.is_array()) return std::nullopt;
  std::vector<uint64_t> numbers;
  for (const auto& number : list) {
    if (!number.is_number_unsigned()) return std::nullopt;
    numbers.push_back(number.get<uint64_t>());
  }
  return numbers;
}

inline std::optional<RuledTensor> ReadRuled(const nlohmann::json& entry) {
  if (!entry.is_object() || entry.size() != 3) return std::nullopt;
  for (const char* field : {"dtype", "shape", "data_offsets"})
    if (!entry.contains(field)) return std::nullopt;
  if (!entry["dtype"].is_string()) return std::nullopt;
  const auto shape = RuledNumbers(entry["shape"]), offsets = RuledNumbers(entry["data_offsets"]);
  if (!shape || !offsets || offsets->size() != 2) return std::nullopt;
  return RuledTensor{entry["dtype"], *shape, (*offsets)[0], (*offsets)[1]};
}

// Whether elements times bytes equals the length of the range, without overflow.
inline bool HasItsBytes(const RuledTensor& tensor) {
  if (tensor.end < tensor.begin) return false;
  uint64_t bytes = 1;
  for (const uint64_t dimension : tensor.shape)
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) return false;
  if (__builtin_mul_overflow(bytes, RuledTypes().at(tensor.dtype), &bytes)) return false;
  return bytes == tensor.end - tensor.begin;
}

// The tensors of a file that follows the rules, otherwise none.
inline std::optional<RuledFile> ReadByTheRules(std::string_view file) {
  constexpr uint64_t kMostHeader = 100'000'000;
  uint64_t length = 0;
  if (file.size() < sizeof(length)) return std::nullopt;
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > kMostHeader || length > file.size() - sizeof(length)) return std::nullopt;
  const std::string_view text = file.substr(sizeof(length), length);
  // The description requires it to begin with '{'; the library does not.
  if (!text.starts_with('{')) return std::nullopt;
  if (text.find('\0') != text.npos) return std::nullopt;  // where nlohmann would stop reading
  const auto header = ParseWithoutTwins(text);
  if (!header || !header->is_object()) return std::nullopt;
  RuledFile tensors;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) return std::nullopt;
      for (const auto& [key, value] : entry.items())
        if (!value.is_string()) return std::nullopt;
      continue;
    }
    const auto tensor = ReadRuled(entry);
    if (!tensor || !RuledTypes().contains(tensor->dtype) || !HasItsBytes(*tensor))
      return std::nullopt;
    ranges.emplace_back(tensor->begin, tensor->end);
    tensors[name] = *tensor;
  }
  std::sort(ranges.begin(), ranges.end());
  uint64_t next = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != next) return std::nullopt;
    next = end;
  }
  if (next != file.size() - sizeof(length) - length) return std::nullopt;
  return tensors;
}

}  // namespace fuzz
