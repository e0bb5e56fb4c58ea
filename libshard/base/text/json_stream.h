// JSON in pieces: documents that need not be in memory as a whole, neither their text nor their
// values.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack {

// Returns the next piece of a text, valid until the next call; an empty one after the last.
using NextPiece = std::function<Result<std::string_view>()>;

// StreamJson for a text in pieces, with its errors and those of `next`.
Status StreamJson(const std::string& where, const NextPiece& next, JsonEvents& events);

// Builds a value from its events: a document or, if the caller passes on only some of the events, a
// part of one. What was built is handed out by Take, and another may follow.
class JsonBuilder final : public JsonEvents {
 public:
  Json Take() { return std::move(root_); }

  Status StartObject() override { return Open(Json::object()); }
  Status Key(std::string_view key) override {
    key_ = key;
    return Ok();
  }
  Status EndObject() override { return Close(); }
  Status StartArray() override { return Open(Json::array()); }
  Status EndArray() override { return Close(); }
  Status String(std::string_view text) override { return Add(Json(text)); }
  Status Unsigned(uint64_t number) override { return Add(Json(number)); }
  Status Negative(int64_t number) override { return Add(Json(number)); }
  Status Float(double number) override { return Add(Json(number)); }
  Status Bool(bool value) override { return Add(Json(value)); }
  Status Null() override { return Add(Json(nullptr)); }

  Status Add(Json value);

 private:
  struct Level {
    std::string key;  // of this value in its parent
    Json value;
  };
  Status Open(Json value);
  Status Close();

  std::vector<Level> open_;  // objects and arrays that are not closed yet, the innermost last
  std::string key_;
  Json root_;
};

// A value as WriteJson writes it inside a document, `indent` columns from the left.
std::string WriteJsonValue(const Json& value, size_t indent);

}  // namespace moepack
