// Keeps the fields of a distribution.json that this version does not know, so that a manifest loses
// nothing when it is read and written again.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "libshard/base/text/json.h"
#include "libshard/base/text_map.h"

namespace moepack::manifest {

// Finds fields of an object by name. An ordered object compares key after key, which takes
// quadratic time where two documents with many keys are compared. Borrows.
class FieldIndex {
 public:
  // What is no object has no fields.
  explicit FieldIndex(const Json& object);
  // Null if there is none.
  const Json* Find(std::string_view key) const;

 private:
  const Json& object_;
  TextMap<std::string_view, const Json*> fields_;  // empty for a small object
};

// Returns `document` without everything that `known`, the canonical form of the same object,
// contains. Objects are compared in depth. In an array of records (objects with a "file" or
// "name"), records with something left are kept, reduced to that and the naming field. Keys of
// digits and "*" are layers and never fields, so they are left out.
Json UnknownFields(const Json& document, const Json& known);

// Adds to the object `target` each field of `unknown` that it lacks; records are matched by name,
// not by place. Records that `target` does not have are dropped.
void KeepUnknown(const Json& unknown, Json& target);

// The field that names a record: "file", otherwise "name"; null if it has neither as text.
const char* RecordKey(const Json& record);

// Indexes `records` by name. Borrows; a value that is absent or not an array gives an empty index.
using RecordIndex = TextMap<std::string, const Json*>;
RecordIndex IndexRecords(const Json& parent, const char* key);

}  // namespace moepack::manifest
