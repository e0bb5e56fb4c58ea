// ParseSafetensors, given whole files and, after a matching length, headers alone.
#include "libshard/format/safetensors.h"

#include <set>

#include "fixtures/safetensors_writer.h"
#include "tests/fuzz/safetensors_structure.h"
#include "tests/fuzz/target.h"

namespace safetensors_target {

constexpr const char* kPath = "damaged.safetensors";
// What the header-only seeds describe.
constexpr uint64_t kData = 64;

std::vector<std::string> Seeds() {
  const std::string half(32, 'x');
  const std::string data(kData, 'x');
  return {fixtures::SafetensorsBytes({{"a.weight", "BF16", {4, 4}, half}, {"b", "F32", {8}, half}}),
          fixtures::SafetensorsBytes({{"empty", "F32", {0, 3}, ""}, {"s", "F64", {8}, data}},
                                     {{"format", "pt"}, {"k", "v"}}),
          fixtures::SafetensorsBytes({}),
          R"({"a":{"dtype":"F32","shape":[4,4],"data_offsets":[0,64]}})",
          R"({"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
          R"("b":{"dtype":"X9","shape":[1,2,3],"data_offsets":[3,64]}})",
          R"({"s":{"dtype":"I8","shape":[],"data_offsets":[0,1]},)"
          R"("t":{"data_offsets":[1,64],"shape":[63],"dtype":"F8_E4M3"}})"};
}

// The tensors are consecutive from data_start to the end of the file.
std::string RangesProblem(const moepack::SafetensorsHeader& header, uint64_t file_size) {
  uint64_t next = header.data_start;
  for (const moepack::TensorEntry& tensor : header.tensors) {
    if (tensor.offset != next) return moepack::Cat("a hole or an overlap before ", tensor.name);
    if (tensor.bytes > file_size - tensor.offset)
      return moepack::Cat(tensor.name, " leaves the file");
    next += tensor.bytes;
  }
  return next == file_size ? "" : "the tensors do not end where the file ends";
}

std::string TensorsProblem(const moepack::SafetensorsHeader& header) {
  std::set<std::string> names;
  for (const moepack::TensorEntry& tensor : header.tensors) {
    if (tensor.name.empty() || !names.insert(tensor.name).second) return "a name twice, or none";
    if (tensor.format == nullptr) continue;
    if (tensor.format->BytesFor(tensor.Elements()) != tensor.bytes) {
      return moepack::Cat(tensor.name, ": its bytes are not those of its shape");
    }
  }
  return "";
}

// The header that BuildSafetensorsHeader writes for the tensors reads back as the same tensors.
std::string RoundTripProblem(const moepack::SafetensorsHeader& header, uint64_t file_size) {
  const std::string prefix = moepack::BuildSafetensorsHeader(header.tensors, header.metadata, 16);
  const auto again = moepack::ParseSafetensors(kPath, std::as_bytes(std::span(prefix)),
                                               prefix.size() + file_size - header.data_start);
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  if (again->metadata != header.metadata) return "other metadata after writing";
  if (again->tensors.size() != header.tensors.size()) return "other tensors after writing";
  // Empty tensors may change places with the tensor at their offset.
  std::multiset<std::string> before, after;
  for (const auto& t : header.tensors) before.insert(moepack::Cat(t.name, t.dtype, t.bytes));
  for (const auto& t : again->tensors) after.insert(moepack::Cat(t.name, t.dtype, t.bytes));
  return before == after ? "" : "other tensors after writing";
}

std::string CheckFile(std::string_view bytes, uint64_t file_size) {
  const auto header = moepack::ParseSafetensors(kPath, std::as_bytes(std::span(bytes)), file_size);
  if (!header) return fuzz::ErrorProblem(header.error(), kPath);
  for (const std::string& problem : {RangesProblem(*header, file_size), TensorsProblem(*header),
                                     RoundTripProblem(*header, file_size)}) {
    if (!problem.empty()) return problem;
  }
  return "";
}

std::string Check(std::string_view input) {
  const std::string problem = CheckFile(input, input.size());
  if (!problem.empty()) return problem;
  const std::string file = fixtures::WithHeader(std::string(input));
  return CheckFile(file, file.size() + kData);
}

constexpr fuzz::Target kTarget{Check, Seeds, 20'000, 1000, fuzz::ChangeSafetensors};

}  // namespace safetensors_target

FUZZ_STRUCTURE_TARGET(FuzzSafetensors, safetensors_target::kTarget)
