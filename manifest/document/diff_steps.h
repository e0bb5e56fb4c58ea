// Steps shared by comparing manifests (diff.cc) and comparing nodes (diff_nodes.cc).
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "libshard/base/text/expert_ids.h"
#include "manifest/document/diff.h"
#include "manifest/document/manifest_json.h"

namespace moepack::manifest {

using Changes = std::vector<Change>;

// Adds one change per field that differs, except for the fields in `skip`. "" means an absent
// field.
void CompareFields(const char* what, const Json& a, const Json& b,
                   const std::set<std::string>& skip, Changes& changes);

// Returns text such as "12 bytes, sha256 0123456789abcdef".
std::string FileText(uint64_t size, const std::string& sha256);

// Compares the files of `a` and `b` by name, and adds new, removed and changed ones.
template <class Record>
void CompareFiles(const char* what, const std::vector<Record>& a, const std::vector<Record>& b,
                  Changes& changes) {
  std::map<std::string, std::pair<const Record*, const Record*>> files;
  for (const Record& record : a) files[record.file].first = &record;
  for (const Record& record : b) files[record.file].second = &record;
  for (const auto& [file, records] : files) {
    const auto& [before, after] = records;
    if (before && after && before->sha256 == after->sha256) continue;
    changes.push_back({what, file, before ? FileText(before->size, before->sha256) : "",
                       after ? FileText(after->size, after->sha256) : ""});
  }
}

// Collects changes of single layers; equal changes of several layers become one.
class LayerChanges {
 public:
  void Add(uint32_t layer, Change change);
  void MoveTo(Changes& changes);

 private:
  using Key = std::array<std::string, 3>;
  std::map<Key, size_t> index_;
  std::vector<std::pair<Change, ExpertIds>> list_;
};

}  // namespace moepack::manifest
