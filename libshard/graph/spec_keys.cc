#include "libshard/graph/spec_keys.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "libshard/base/text/text.h"

namespace moepack {

namespace {

// Larger than any width, layer count or context of a real model, and small enough that products of
// two fit in 64 bits with room to spare.
constexpr uint64_t kMaxCount = 1 << 24;

std::string KindOf(const GgufValue& value) {
  if (value.type == GgufType::kArray) return Cat("an array of ", value.Count());
  return Cat("a ", GgufTypeName(value.type));
}

}  // namespace

const GgufValue* SpecKeys::Find(std::string_view key) const {
  return metadata_.Find(Cat(architecture_, ".", key));
}

void SpecKeys::Refuse(std::string_view key, const std::string& expected, const std::string& found) {
  if (error_.has_value()) return;
  error_ = Error{Code::kCorrupt, Cat(path_, ": ", architecture_, ".", key, ": expected ", expected,
                                     ", found ", found)};
}

void SpecKeys::Decline(const std::string& what) {
  if (error_.has_value()) return;
  error_ = Error{Code::kUnsupported, Cat(path_, ": ", architecture_, ": ", what)};
}

Status SpecKeys::status() const {
  if (error_.has_value()) return *error_;
  return Ok();
}

uint32_t SpecKeys::Checked(std::string_view key, const GgufValue& value) {
  const auto number = value.AsUint();
  if (number.has_value() && *number <= kMaxCount) return static_cast<uint32_t>(*number);
  Refuse(key, Cat("a number up to ", kMaxCount),
         number.has_value() ? Cat(*number) : Cat("a ", GgufTypeName(value.type)));
  return 0;
}

float SpecKeys::CheckedFloat(std::string_view key, const GgufValue& value) {
  const auto number = value.AsFloat();
  // NaN is not smaller, and a finite f64 may be infinite as an f32.
  if (number.has_value() && std::abs(*number) <= std::numeric_limits<float>::max())
    return static_cast<float>(*number);
  Refuse(key, "a finite f32",
         number.has_value() ? Cat(*number) : Cat("a ", GgufTypeName(value.type)));
  return 0;
}

uint32_t SpecKeys::Required(std::string_view key) {
  const GgufValue* value = Find(key);
  if (value == nullptr) {
    Refuse(key, "a number", "no such key");
    return 0;
  }
  const uint32_t number = Checked(key, *value);
  if (number == 0) Refuse(key, "at least 1", "0");
  return number;
}

uint32_t SpecKeys::Uint(std::string_view key, uint32_t otherwise) {
  const GgufValue* value = Find(key);
  return value == nullptr ? otherwise : Checked(key, *value);
}

float SpecKeys::Float(std::string_view key, float otherwise) {
  const GgufValue* value = Find(key);
  return value == nullptr ? otherwise : CheckedFloat(key, *value);
}

float SpecKeys::RequiredFloat(std::string_view key) {
  if (!Has(key)) Refuse(key, "a number", "no such key");
  return Float(key, 0);
}

bool SpecKeys::Bool(std::string_view key, bool otherwise) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return otherwise;
  if (const auto flag = value->AsBool()) return *flag;
  Refuse(key, "a bool", Cat("a ", GgufTypeName(value->type)));
  return otherwise;
}

std::string SpecKeys::String(std::string_view key, const std::string& otherwise) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return otherwise;
  if (const auto text = value->AsString()) return std::string(*text);
  Refuse(key, "a string", Cat("a ", GgufTypeName(value->type)));
  return otherwise;
}

std::vector<float> SpecKeys::Floats(std::string_view key, uint32_t count) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return {};
  std::vector<float> numbers;
  if (value->ElementType() == GgufType::kF32) {
    constexpr size_t kListHead = 4 + 8;  // element type and count
    numbers.resize((value->bytes.size() - kListHead) / sizeof(float));
    std::memcpy(numbers.data(), value->bytes.data() + kListHead, numbers.size() * sizeof(float));
  }
  const bool finite = std::all_of(numbers.begin(), numbers.end(),
                                  [](float number) { return std::isfinite(number); });
  if (numbers.size() >= count && finite) return numbers;
  Refuse(key, Cat("a list of ", count, " finite f32"), KindOf(*value));
  return std::vector<float>(count);
}

std::vector<bool> SpecKeys::Flags(std::string_view key, uint32_t count) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return {};
  std::vector<bool> flags;
  if (value->ElementType() == GgufType::kBool) {
    constexpr size_t kListHead = 4 + 8;  // element type and count
    for (const char byte : std::string_view(value->bytes).substr(kListHead))
      flags.push_back(byte != 0);
  } else if (value->type == GgufType::kArray) {
    for (const uint64_t number : value->AsUints().value_or(std::vector<uint64_t>()))
      flags.push_back(number != 0);
  }
  if (flags.size() >= count) return flags;
  Refuse(key, Cat("a list of ", Plural(count, "bool")), KindOf(*value));
  return std::vector<bool>(count);
}

std::vector<uint32_t> SpecKeys::PerLayer(std::string_view key, uint32_t count, uint32_t otherwise) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::vector<uint32_t>(count, otherwise);
  if (value->type != GgufType::kArray) return std::vector<uint32_t>(count, Checked(key, *value));
  const auto numbers = value->AsUints();
  std::vector<uint32_t> layers(count);
  if (!numbers.has_value() || numbers->size() < count) {
    Refuse(key, Cat("numbers for ", Plural(count, "layer")), Cat("an array of ", value->Count()));
    return layers;
  }
  for (uint32_t layer = 0; layer < count; ++layer) {
    if ((*numbers)[layer] > kMaxCount)
      Refuse(key, Cat("numbers up to ", kMaxCount), Cat((*numbers)[layer]));
    layers[layer] = static_cast<uint32_t>((*numbers)[layer]);
  }
  return layers;
}

}  // namespace moepack
