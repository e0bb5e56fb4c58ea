// ParseSafetensors beside a second reader: both accept the same files, with the same tensors.
#include "tests/fuzz/safetensors_rules.h"

#include "fixtures/safetensors_writer.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/utf8.h"
#include "libshard/format/safetensors.h"
#include "tests/fuzz/safetensors_structure.h"
#include "tests/fuzz/target.h"

namespace safetensors_rules_target {

constexpr const char* kPath = "damaged.safetensors";

std::vector<std::string> Seeds() {
  const std::string half(32, 'x'), data(64, 'x');
  return {fixtures::SafetensorsBytes({{"a.weight", "BF16", {4, 4}, half}, {"b", "F32", {8}, half}}),
          fixtures::SafetensorsBytes({{"empty", "F32", {0, 3}, ""}, {"s", "F64", {8}, data}},
                                     {{"format", "pt"}, {"k", "v"}}),
          fixtures::SafetensorsBytes({{"scalar", "I64", {}, std::string(8, 'x')},
                                      {"q", "F8_E4M3", {4, 2}, std::string(8, 'x')},
                                      {"r", "U8", {3}, "xxx"}}),
          fixtures::SafetensorsBytes({})};
}

// Our reader is deliberately stricter here (libshard/format/safetensors.cc, limits.h): names are
// printable text of at most 1024 bytes and shapes have few dimensions.
bool IsPlain(const fuzz::RuledFile& file) {
  return std::all_of(file.begin(), file.end(), [](const auto& entry) {
    return !entry.first.empty() && entry.first.size() <= 1024 &&
           !moepack::HasControlCharacter(entry.first) &&
           entry.second.shape.size() <= moepack::kMaxDimensions;
  });
}

std::string Check(std::string_view input) {
  const auto ruled = fuzz::ReadByTheRules(input);
  const auto ours = moepack::ParseSafetensors(kPath, std::as_bytes(std::span(input)), input.size());
  if (!ours) {
    if (ruled && IsPlain(*ruled)) return "refused against the rules: " + ours.error().message;
    return fuzz::ErrorProblem(ours.error(), kPath);
  }
  // A type without a rule is kept unchanged, and only its range is checked.
  for (const moepack::TensorEntry& tensor : ours->tensors)
    if (!fuzz::RuledTypes().contains(tensor.dtype)) return "";
  if (!ruled) return "accepted against the rules";
  if (ruled->size() != ours->tensors.size()) return "another number of tensors";
  for (const moepack::TensorEntry& tensor : ours->tensors) {
    const auto twin = ruled->find(tensor.name);
    if (twin == ruled->end()) return "another name: " + tensor.name;
    const uint64_t begin = tensor.offset - ours->data_start;
    if (twin->second.dtype != tensor.dtype || twin->second.shape != tensor.shape ||
        twin->second.begin != begin || twin->second.end != begin + tensor.bytes)
      return "another tensor: " + tensor.name;
  }
  return "";
}

constexpr fuzz::Target kTarget{Check, Seeds, 20'000, 1000, fuzz::ChangeSafetensors};

}  // namespace safetensors_rules_target

FUZZ_STRUCTURE_TARGET(FuzzSafetensorsRules, safetensors_rules_target::kTarget)
