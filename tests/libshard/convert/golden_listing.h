// The listings of golden/convert: the output of llama.cpp's converter and llama-quantize for a tiny
// checkpoint of each family, compared with a GgufModel by actually making the bytes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libshard/base/digest.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/format/checkpoint.h"
#include "tests/libshard/pack/tensor_bytes.h"

namespace moepack::golden {

namespace fs = std::filesystem;

// The folder of a family that has `file`: in the source tree, otherwise beside it or in
// $MOEPACK_SHARED. Empty if there is none: then the test has to be skipped.
inline fs::path Folder(const std::string& family, const std::string& file) {
  const fs::path source = MOEPACK_SOURCE_DIR;
  const char* shared = std::getenv("MOEPACK_SHARED");
  const fs::path beside = shared != nullptr ? fs::path(shared) : source / "../shared";
  for (const fs::path& root : {source / "fixtures/golden/convert", beside / "golden/convert",
                               beside / "golden/convert-2026"}) {
    if (fs::exists(root / family / file)) return root / family;
  }
  return {};
}

inline Json Read(const fs::path& path) { return ReadJsonFile(path.string()).value(); }

// A listing's {"type", "value"} as our own value; of type kU8 without bytes for types that we do
// not write.
inline GgufValue ValueOf(const Json& entry) {
  const std::string type = entry.at("type");
  const Json& value = entry.at("value");
  if (type == "u32") return GgufValue::U32(value);
  if (type == "i32") return GgufValue::I32(value);
  if (type == "f32") return GgufValue::F32(static_cast<float>(value.get<double>()));
  if (type == "bool") return GgufValue::Bool(value);
  if (type == "str") return GgufValue::String(value.get<std::string>());
  if (type == "arr[str]") return GgufValue::Strings(value.get<std::vector<std::string>>());
  if (type == "arr[i32]") return GgufValue::I32s(value.get<std::vector<int32_t>>());
  if (type == "arr[u64]") return GgufValue::U64s(value.get<std::vector<uint64_t>>());
  if (type == "arr[bool]") return GgufValue::Bools(value.get<std::vector<bool>>());
  if (type == "arr[f32]") return GgufValue::F32s(value.get<std::vector<float>>());
  return {};
}

// The differences that README.md of the folder allows.
inline bool MayDiffer(const std::string& key) {
  // Derived from the folder's name; nothing of a path gets into our output.
  if (key == "general.name" || key == "general.basename" || key == "general.version") return true;
  return key == "general.file_type" || key == "general.quantization_version" ||
         key.starts_with("split.") || key == "general.alignment";
}

// Takes the entry of `key` from a list of keys.
inline void LeaveOut(std::string_view key, Json& list) {
  Json kept = Json::array();
  for (const Json& entry : list) {
    if (entry.at("key") != key) kept.push_back(entry);
  }
  list = std::move(kept);
}

// One sentence per listed key that the model lacks or has with another type or value, and per key
// that it has beyond the list (`whole`: the list covers all keys).
inline std::vector<std::string> CompareKeys(const GgufMetadata& metadata, const Json& list,
                                            bool whole) {
  std::vector<std::string> problems;
  std::map<std::string, const Json*> expected;
  for (const Json& entry : list) {
    const std::string key = entry.at("key");
    expected[key] = &entry;
    const GgufValue* value = metadata.Find(key);
    if (value != nullptr && *value == ValueOf(entry)) continue;
    if (whole && MayDiffer(key)) continue;
    problems.push_back(Cat(key, value == nullptr ? " is missing" : " differs"));
  }
  for (const GgufEntry& entry : metadata.entries()) {
    if (!whole || expected.contains(entry.key) || MayDiffer(entry.key)) continue;
    problems.push_back(entry.key + " is not expected");
  }
  return problems;
}

inline std::vector<uint64_t> WithoutOnes(std::vector<uint64_t> dims) {
  while (dims.size() > 1 && dims.back() == 1) dims.pop_back();
  return dims;
}

// Results of transcendental functions are listed and may be off by one unit in the last place.
inline bool IsClose(const std::string& made, const Json& entry) {
  const auto values = entry.find("values");
  if (values == entry.end() || made.size() != values->size() * sizeof(float)) return false;
  for (size_t i = 0; i < values->size(); ++i) {
    const auto expected = static_cast<float>((*values)[i].get<double>());
    float value = 0;
    std::memcpy(&value, made.data() + i * sizeof(float), sizeof(float));
    if (std::nextafter(expected, value) != value) return false;
  }
  return true;
}

// One sentence per tensor that is missing, not expected, or differs in type, shape or bytes.
inline std::vector<std::string> CompareTensors(const Checkpoint& checkpoint, const GgufModel& model,
                                               const Json& list) {
  std::vector<std::string> problems;
  std::map<std::string, const Json*> expected;
  for (const Json& entry : list) expected[entry.at("name").get<std::string>()] = &entry;
  for (const GgufTensor& tensor : model.tensors) {
    const auto found = expected.extract(tensor.name);
    if (found.empty()) {
      problems.push_back(tensor.name + " is not expected");
      continue;
    }
    const Json& entry = *found.mapped();
    std::vector<uint64_t> dims = tensor.shape;
    std::reverse(dims.begin(), dims.end());
    const bool shape = WithoutOnes(dims) == WithoutOnes(entry.at("dims"));
    const bool type = Lower(tensor.type->name) == Lower(entry.at("type").get<std::string>());
    if (!shape) problems.push_back(Cat(tensor.name, ": shape ", FormatShape(dims)));
    if (!type) problems.push_back(Cat(tensor.name, ": type ", tensor.type->name));
    if (!shape || !type) continue;
    const std::string made = MadeBytes(checkpoint, tensor);
    if (entry.at("sha256") == Sha256Hex(made) || IsClose(made, entry)) continue;
    problems.push_back(tensor.name + ": other bytes");
  }
  for (const auto& [name, entry] : expected) problems.push_back(name + " is missing");
  return problems;
}

}  // namespace moepack::golden
