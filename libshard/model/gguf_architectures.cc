#include "libshard/model/gguf_architectures.h"

#include <algorithm>

#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// Architectures with experts that only ik_llama.cpp has (its src/llama-arch.cpp of 2026-08-15).
constexpr std::string_view kOfIkLlamaCpp[] = {"cohere2_moe", "openpangu"};

}  // namespace

bool IsAmong(std::span<const ModelShape> shapes, uint64_t blocks, uint64_t vocabulary) {
  return std::any_of(shapes.begin(), shapes.end(), [&](const ModelShape& shape) {
    return shape.blocks == blocks && (shape.vocabulary == 0 || shape.vocabulary == vocabulary);
  });
}

bool HasSingleParts(std::string_view architecture) {
  const GgufArchitecture* found = FindArchitecture(architecture);
  return found != nullptr && found->single_parts;
}

bool NeedsMtp(std::string_view architecture) {
  const GgufArchitecture* const row = FindArchitecture(architecture);
  return row == nullptr || !row->routing || row->needs_mtp;
}

std::string DescribeUnknownArchitecture(std::string_view name) {
  const bool of_ik = std::find(std::begin(kOfIkLlamaCpp), std::end(kOfIkLlamaCpp), name) !=
                     std::end(kOfIkLlamaCpp);
  if (of_ik) return "an architecture of ik_llama.cpp";
  std::vector<std::string> names;
  for (const std::string_view known : ArchitectureNames()) names.emplace_back(known);
  const std::string closest = ClosestWord(name, names);
  return closest.empty() ? "" : Cat("the closest name is ", Quoted(closest));
}

}  // namespace moepack
