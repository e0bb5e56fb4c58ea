// Strict JSON: nlohmann's SAX parser behind one gate that refuses duplicate keys, bad UTF-8,
// nesting deeper than 32, numbers that are not finite or do not fit in 64 bits, and anything after
// the document.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack {

// A parsed document; objects keep the order of their keys.
using Json = nlohmann::ordered_json;

// The events that a streaming reader gets. Return an error to stop; it is passed unchanged to the
// caller of StreamJson.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual Status StartObject() = 0;
  virtual Status Key(std::string_view key) = 0;
  virtual Status EndObject() = 0;
  virtual Status StartArray() = 0;
  virtual Status EndArray() = 0;
  virtual Status String(std::string_view text) = 0;
  virtual Status Unsigned(uint64_t number) = 0;
  virtual Status Negative(int64_t number) = 0;
  virtual Status Float(double number) = 0;
  virtual Status Bool(bool value) = 0;
  virtual Status Null() = 0;
};

// `where` names the document in errors ("model.safetensors: header"). All format errors are
// kCorrupt.
Status StreamJson(const std::string& where, std::string_view text, JsonEvents& events);
Result<Json> ParseJson(const std::string& where, std::string_view text);
// Reads and parses a file of at most `limit` bytes.
Result<Json> ReadJsonFile(const std::string& path, uint64_t limit = 256u << 20);

// The text of an optional member; "" if it is absent or not a string.
std::string TextMember(const Json& object, const char* key);

// Writes two spaces of indentation, LF and a final newline. Arrays of scalars stay on one line, and
// keys keep their order.
std::string WriteJson(const Json& document);

// Typed access to the fields of one object, with errors like "<where>: <key>: expected <type>,
// found <value>". Borrows the object. Absent or null optional fields give the fallback.
class JsonFields {
 public:
  JsonFields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  bool Has(const char* key) const;  // present and not null
  Result<std::string> String(const char* key) const;
  Result<uint64_t> Unsigned(const char* key) const;
  Result<double> Number(const char* key) const;
  Result<bool> Bool(const char* key) const;
  Result<std::string> StringOr(const char* key, std::string fallback) const;
  Result<uint64_t> UnsignedOr(const char* key, uint64_t fallback) const;
  Result<bool> BoolOr(const char* key, bool fallback) const;
  // The value under `key`, which must be an object or an array; the returned pointer borrows the
  // document.
  Result<const Json*> Object(const char* key) const;
  Result<const Json*> Array(const char* key) const;

  const std::string& where() const { return where_; }
  Error Wrong(const char* key, const char* expected) const;

 private:
  const Json& object_;
  std::string where_;
};

// A short rendering of a value for messages: `"abc"`, `12`, `an object of 3 keys`.
std::string DescribeJson(const Json& value);

}  // namespace moepack
