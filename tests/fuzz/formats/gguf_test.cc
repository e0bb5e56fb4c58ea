// ParseGguf, given whole files and headers alone.
#include "libshard/format/gguf.h"

#include <set>

#include "fixtures/gguf_writer.h"
#include "libshard/base/bytes.h"
#include "tests/fuzz/gguf_structure.h"
#include "tests/fuzz/target.h"

namespace gguf_target {

constexpr const char* kPath = "damaged.gguf";

std::vector<std::string> Seeds() {
  fixtures::GgufFile types;
  types.alignment = 64;
  types.pairs = {fixtures::GgufPairU32("general.alignment", 64),
                 {"bools", fixtures::kGgufArray, fixtures::GgufList(7, 2, std::string("\0\1", 2))},
                 {"texts", fixtures::kGgufArray,
                  fixtures::GgufList(8, 2, fixtures::GgufText("a") + fixtures::GgufText(""))},
                 {"wide", 10, std::string(8, 'w')},
                 {"f", fixtures::kGgufF32, fixtures::GgufFloat(1.5f)}};
  types.tensors = {
      {.name = "q", .dims = {64, 2}, .type = fixtures::kGgufTypeQ8, .bytes = std::string(136, 'q')},
      {.name = "e", .dims = {0, 3}, .type = 0, .bytes = ""},
      {.name = "s", .dims = {}, .type = 0, .bytes = "ssss"}};
  fixtures::GgufFile old = fixtures::MiniGguf("qwen3moe", 1, 2);
  old.version = 2;
  return {fixtures::GgufBytes(fixtures::MiniGguf("qwen3moe", 1, 2)), fixtures::GgufBytes(old),
          fixtures::GgufBytes(types), fixtures::GgufBytes({})};
}

// Tensors are consecutive, aligned, and inside the file.
std::string RangesProblem(const moepack::GgufHeader& header, uint64_t file_size) {
  if (header.data_start > file_size) return "the data starts after the file";
  uint64_t next = header.data_start;
  for (const moepack::TensorEntry& tensor : header.tensors) {
    if (tensor.offset % header.alignment != 0) return tensor.name + " is not aligned";
    if (tensor.offset < next || tensor.offset - next >= header.alignment) {
      return tensor.name + " is not where the one before it ends";
    }
    if (tensor.offset > file_size || tensor.bytes > file_size - tensor.offset) {
      return tensor.name + " leaves the file";
    }
    next = tensor.offset + tensor.bytes;
  }
  return "";
}

std::string TensorsProblem(const moepack::GgufHeader& header) {
  std::set<std::string> names, keys;
  for (const moepack::TensorEntry& tensor : header.tensors) {
    if (tensor.name.empty() || !names.insert(tensor.name).second) return "a name twice, or none";
    if (tensor.name.size() > moepack::kMaxGgufTensorName) return "a name that is too long";
    if (tensor.format == nullptr || tensor.format->BytesFor(tensor.Elements()) != tensor.bytes) {
      return tensor.name + ": its bytes are not those of its shape";
    }
  }
  for (const moepack::GgufEntry& entry : header.metadata.entries()) {
    if (entry.key.empty() || !keys.insert(entry.key).second) return "a key twice, or none";
    // Must not fail for any well-formed value.
    (void)entry.value.AsUints();
    (void)entry.value.AsStrings();
    if (entry.value.AsUints() && entry.value.AsUints()->size() != entry.value.Count()) {
      return "a list with another number of elements";
    }
  }
  return "";
}

// A header reads back equal after writing.
std::string RoundTripProblem(const moepack::GgufHeader& header) {
  const std::string prefix =
      moepack::BuildGgufHeader(header.metadata, header.tensors, header.alignment);
  uint64_t data = 0;
  for (const moepack::TensorEntry& tensor : header.tensors) {
    data = moepack::AlignUp(data + tensor.bytes, header.alignment);
  }
  const auto again =
      moepack::ParseGguf(kPath, std::as_bytes(std::span(prefix)), prefix.size() + data);
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  if (again->tensors.size() != header.tensors.size()) return "other tensors after writing";
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    if (again->tensors[i].name != header.tensors[i].name) return "another name after writing";
    if (again->tensors[i].shape != header.tensors[i].shape) return "another shape after writing";
  }
  for (const moepack::GgufEntry& entry : header.metadata.entries()) {
    if (entry.key == moepack::kGgufAlignmentKey) continue;
    const moepack::GgufValue* value = again->metadata.Find(entry.key);
    if (value == nullptr || !(*value == entry.value)) return "another value after writing";
  }
  return "";
}

std::string Check(std::string_view input) {
  const auto header = moepack::ParseGguf(kPath, std::as_bytes(std::span(input)), input.size());
  if (!header) return fuzz::ErrorProblem(header.error(), kPath);
  // Alignments that would only make the test write gigabytes of zeros.
  constexpr uint64_t kLargest = 1u << 20;
  for (const std::string& problem :
       {RangesProblem(*header, input.size()), TensorsProblem(*header),
        header->alignment <= kLargest ? RoundTripProblem(*header) : std::string()}) {
    if (!problem.empty()) return problem;
  }
  return "";
}

constexpr fuzz::Target kTarget{Check, Seeds, 20'000, 1000, fuzz::ChangeGguf};

}  // namespace gguf_target

FUZZ_STRUCTURE_TARGET(FuzzGguf, gguf_target::kTarget)
