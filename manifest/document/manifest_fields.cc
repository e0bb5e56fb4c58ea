// Checked reading of single fields, shared by the sections of the manifest.
#include <algorithm>

#include "libshard/base/digest.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/files/publish_inside.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest_json.h"

namespace moepack::manifest {

Result<std::string> HexField(const JsonFields& fields, const char* key, size_t digits) {
  SHARD_TRY(std::string text, fields.String(key));
  if (!IsHex(text, digits)) {
    return Error{Code::kCorrupt, Cat(fields.where(), ": ", key, ": expected ", digits,
                                     " lower-case hexadecimal digits, found ", Quoted(text))};
  }
  return text;
}

Result<uint64_t> NumberField(const JsonFields& fields, const char* key, uint64_t limit) {
  SHARD_TRY(const uint64_t number, fields.Unsigned(key));
  if (number > limit) {
    return Error{Code::kCorrupt,
                 Cat(fields.where(), ": ", key, ": expected at most ", limit, ", found ", number)};
  }
  return number;
}

Status CheckRelativePath(const std::string& where, const std::string& path) {
  if (IsKeptName(path)) {
    return Error{Code::kCorrupt, Cat(where, ": file: expected a path that is not in lost+found or ",
                                     kInsideName, ".*, found ", Quoted(path))};
  }
  if (IsSafeRelativePath(path) && path != kManifestFile) return Ok();
  return Error{Code::kCorrupt,
               Cat(where,
                   ": file: expected a relative path inside the distribution with '/' between "
                   "parts and no \".\" or \"..\", found ",
                   Quoted(path))};
}

Json LayerNumbersToJson(const std::map<uint32_t, uint32_t>& numbers) {
  Json out = Json::object();
  if (numbers.empty()) return out;
  const uint32_t first = numbers.begin()->second;
  const bool same = std::all_of(numbers.begin(), numbers.end(),
                                [&](const auto& entry) { return entry.second == first; });
  if (same) {
    out["*"] = first;
    return out;
  }
  for (const auto& [layer, number] : numbers) out[std::to_string(layer)] = number;
  return out;
}

Result<std::map<uint32_t, uint32_t>> LayerNumbersFromJson(const std::string& where,
                                                          const Json& value,
                                                          const ExpertIds& layers, uint32_t limit) {
  const JsonFields fields(value, where);
  std::map<uint32_t, uint32_t> numbers;
  size_t used = value.contains("*") ? 1 : 0;
  for (uint32_t layer : layers) {
    const std::string name = std::to_string(layer);
    const bool own = value.contains(name);
    SHARD_TRY(const uint64_t number, NumberField(fields, own ? name.c_str() : "*", limit));
    numbers[layer] = static_cast<uint32_t>(number);
    used += own ? 1 : 0;
  }
  if (used != value.size()) {
    return Error{Code::kCorrupt, Cat(where,
                                     ": expected \"*\" and layers of \"moe_layers\" as keys, "
                                     "found another key")};
  }
  return numbers;
}

}  // namespace moepack::manifest
