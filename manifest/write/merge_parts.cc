#include "manifest/write/merge_parts.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "libshard/base/text.h"

namespace moepack::manifest {
namespace {

bool SamePart(const BundleRecord& a, const BundleRecord& b) {
  return a.role == b.role && a.group == b.group;
}

// The options that one run may have and another may lack, in the order of a command line.
constexpr const char* kOptionsOfSomeParts[] = {"--keep-remainder", "--hash-source"};

}  // namespace

void ReplaceParts(std::vector<BundleRecord> fresh, std::vector<BundleRecord>& records) {
  std::erase_if(records, [&](const BundleRecord& old) {
    return std::any_of(fresh.begin(), fresh.end(),
                       [&](const BundleRecord& record) { return SamePart(old, record); });
  });
  std::move(fresh.begin(), fresh.end(), std::back_inserter(records));
  std::stable_sort(records.begin(), records.end(), [](const auto& a, const auto& b) {
    return std::tie(a.role, a.group, a.file) < std::tie(b.role, b.group, b.file);
  });
}

Status MergeSourceDigests(const std::string& where, const std::vector<SourceRecord>& fresh,
                          std::vector<SourceRecord>& records) {
  for (size_t i = 0; i < records.size() && i < fresh.size(); ++i) {
    if (fresh[i].sha256.empty()) continue;
    if (records[i].sha256.empty()) records[i].sha256 = fresh[i].sha256;
    if (records[i].sha256 == fresh[i].sha256) continue;
    return Error{Code::kMismatch,
                 Cat(where, ": source file ", Quoted(records[i].file), ": SHA-256: expected ",
                     records[i].sha256, ", found ", fresh[i].sha256),
                 "the other parts were made from other weights"};
  }
  return Ok();
}

std::optional<std::vector<std::string>> MergeCommands(const std::vector<std::string>& a,
                                                      const std::vector<std::string>& b) {
  std::vector<std::string> merged;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const bool both = i < a.size() && j < b.size();
    if (both && a[i] == b[j]) {
      merged.push_back(a[i]);
      ++i, ++j;
      continue;
    }
    const size_t before = merged.size();
    for (const char* option : kOptionsOfSomeParts) {
      const bool in_a = i < a.size() && a[i] == option;
      const bool in_b = j < b.size() && b[j] == option;
      if (!in_a && !in_b) continue;
      merged.emplace_back(option);
      i += in_a ? 1 : 0;
      j += in_b ? 1 : 0;
      break;
    }
    if (merged.size() == before) return std::nullopt;
  }
  return merged;
}

}  // namespace moepack::manifest
