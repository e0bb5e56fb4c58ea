#include "manifest/document/unknown_fields.h"

#include <algorithm>
#include <vector>

namespace moepack::manifest {
namespace {

// The same layers may be spelled "*" in one file and one by one in another, so a layer key that is
// not in the canonical form is not an unknown field.
bool IsLayerKey(const std::string& key) {
  return key == "*" || (!key.empty() && std::all_of(key.begin(), key.end(),
                                                    [](char c) { return c >= '0' && c <= '9'; }));
}

// operator[] of an ordered object compares key after key, which takes quadratic time for a hostile
// document with many keys.
void Append(Json& object, const std::string& key, Json value) {
  object.get_ref<Json::object_t&>().push_back({key, std::move(value)});
}

// REQUIRES: `known` has the same records in the same order.
Json UnknownRecords(const Json& records, const Json& known) {
  Json rest = Json::array();
  for (size_t i = 0; i < std::min(records.size(), known.size()); ++i) {
    const char* key = RecordKey(records[i]);
    if (key == nullptr) continue;
    Json fields = UnknownFields(records[i], known[i]);
    if (fields.empty()) continue;
    fields[key] = records[i][key];
    rest.push_back(std::move(fields));
  }
  return rest;
}

// Few enough to be compared one after another.
constexpr size_t kFewFields = 16;

}  // namespace

FieldIndex::FieldIndex(const Json& object) : object_(object) {
  if (!object.is_object() || object.size() <= kFewFields) return;
  for (const auto& [key, value] : object.get_ref<const Json::object_t&>())
    fields_.emplace(key, &value);
}

const Json* FieldIndex::Find(std::string_view key) const {
  if (!object_.is_object()) return nullptr;
  if (object_.size() <= kFewFields) {
    for (const auto& [own, value] : object_.get_ref<const Json::object_t&>()) {
      if (own == key) return &value;
    }
    return nullptr;
  }
  const auto found = fields_.find(key);
  return found == fields_.end() ? nullptr : found->second;
}

const char* RecordKey(const Json& record) {
  for (const char* key : {"file", "name"}) {
    if (record.is_object() && record.contains(key) && record[key].is_string()) return key;
  }
  return nullptr;
}

Json UnknownFields(const Json& document, const Json& known) {
  Json rest = Json::object();
  const FieldIndex index(known);
  for (const auto& [key, value] : document.items()) {
    const Json* const found = index.Find(key);
    if (found == nullptr) {
      if (!IsLayerKey(key)) Append(rest, key, value);
      continue;
    }
    Json inner;
    if (value.is_object() && found->is_object()) inner = UnknownFields(value, *found);
    if (value.is_array() && found->is_array()) inner = UnknownRecords(value, *found);
    if (!inner.empty()) Append(rest, key, std::move(inner));
  }
  return rest;
}

RecordIndex IndexRecords(const Json& parent, const char* key) {
  RecordIndex index;
  const auto records = parent.is_object() ? parent.find(key) : parent.end();
  if (records == parent.end() || !records->is_array()) return index;
  for (const Json& record : *records) {
    if (const char* name = RecordKey(record)) {
      index.emplace(record[name].get_ref<const std::string&>(), &record);
    }
  }
  return index;
}

void KeepUnknown(const Json& unknown, Json& target) {
  if (unknown.empty()) return;
  std::vector<const Json::object_t::value_type*> fresh;  // appended last, so that the index holds
  const FieldIndex fields(target);
  for (const auto& entry : unknown.get_ref<const Json::object_t&>()) {
    const auto& [key, value] = entry;
    // Not a constant: the index borrows from `target`.
    Json* const found = const_cast<Json*>(fields.Find(key));
    if (found == nullptr) {
      fresh.push_back(&entry);
    } else if (found->is_object() && value.is_object()) {
      KeepUnknown(value, *found);
    } else if (found->is_array() && value.is_array()) {
      const RecordIndex index = IndexRecords(unknown, key.c_str());
      for (Json& record : *found) {
        const char* name = RecordKey(record);
        if (name == nullptr) continue;
        const auto kept = index.find(record[name].get<std::string>());
        if (kept != index.end()) KeepUnknown(*kept->second, record);
      }
    }
  }
  for (const auto* entry : fresh) Append(target, entry->first, entry->second);
}

}  // namespace moepack::manifest
