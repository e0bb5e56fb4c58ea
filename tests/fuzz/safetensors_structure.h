// Damage that knows the structure of a safetensors file: its header stays JSON and its length
// matches, while tensors move, overlap, leave holes, change shape and type, or data are missing.
// Format: https://github.com/huggingface/safetensors, section "Format"
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/json_mutation.h"
#include "tests/fuzz/mutation.h"

namespace fuzz {

inline constexpr size_t kLengthBytes = 8;

// Changes one tensor's entry of the header.
inline void ChangeTensor(JsonNode& tensor, Random& random) {
  constexpr const char* kTypes[] = {"F64", "F32",     "F16",     "BF16", "I64", "I32",
                                    "I16", "I8",      "U8",      "BOOL", "F4",  "F8_E4M3",
                                    "U64", "F8_E5M2", "F8_E8M0", "f32",  "X"};
  // A new member moves the others, so all are there before one is referred to.
  for (const char* member : {"dtype", "data_offsets", "shape"}) tensor[member];
  JsonNode& offsets = tensor["data_offsets"];
  JsonNode& shape = tensor["shape"];
  const auto step = static_cast<uint64_t>(random.Below(9));
  switch (random.Below(6)) {
    case 0:
      tensor["dtype"] = kTypes[random.Below(std::size(kTypes))];
      break;
    case 1:  // another range
      if (!offsets.is_array() || offsets.size() != 2) break;
      for (JsonNode& number : offsets)
        if (number.is_number_unsigned()) number = number.get<uint64_t>() + step - 4;
      break;
    case 2:  // another end
      if (offsets.is_array() && offsets.size() == 2 && offsets[1].is_number_unsigned())
        offsets[1] = offsets[1].get<uint64_t>() + step - 4;
      break;
    case 3:
      if (offsets.is_array() && offsets.size() == 2) std::swap(offsets[0], offsets[1]);
      break;
    case 4:
      if (shape.is_array()) shape.push_back(step);
      break;
    default:
      if (!shape.is_array() || shape.empty()) break;
      shape[random.Below(shape.size())] = step == 8 ? uint64_t{1} << 63 : step;
  }
}

// Two tensors become equal or change places.
inline void ChangeTwo(JsonNode& first, JsonNode& second, Random& random) {
  if (random.Below(2) == 0) {
    std::swap(first["data_offsets"], second["data_offsets"]);
  } else {
    first["data_offsets"] = second["data_offsets"];
  }
}

inline void ChangeHeader(JsonNode& header, Random& random) {
  std::vector<JsonNode*> tensors;
  for (auto& [name, value] : header.items())
    if (value.is_object() && name != "__metadata__") tensors.push_back(&value);
  if (tensors.empty()) return;
  JsonNode& tensor = *tensors[random.Below(tensors.size())];
  if (random.Below(4) == 0) {
    ChangeTwo(tensor, *tensors[random.Below(tensors.size())], random);
  } else {
    ChangeTensor(tensor, random);
  }
}

// A file with one to three changes; anything other than a safetensors file is returned unchanged.
inline std::string ChangeSafetensors(const std::string& file, uint64_t seed) {
  uint64_t length = 0;
  if (file.size() < kLengthBytes) return file;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > file.size() - kLengthBytes) return file;
  JsonNode header = JsonNode::parse(file.substr(kLengthBytes, length), nullptr, false);
  if (!header.is_object()) return file;
  Random random(seed);
  std::string data = file.substr(kLengthBytes + length);
  for (size_t changes = 1 + random.Below(3); changes > 0; --changes) ChangeHeader(header, random);
  if (random.Below(4) == 0) data.resize(random.Below(data.size() + 16), 'x');
  std::string text = TextOf(header);
  text.append(random.Below(9), ' ');
  length = text.size() + (random.Below(16) == 0 ? random.Below(5) - 2 : 0);
  std::string out(kLengthBytes, '\0');
  std::memcpy(out.data(), &length, kLengthBytes);
  return out + text + data;
}

}  // namespace fuzz
