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
constexpr const char* kOptionsOfSomeParts[] = {"--keep-remainder", "--hash-source",
                                               "--verify-source"};

// Takes over the one of two digests that is there.
Status MergeDigest(const std::string& where, const std::string& fresh, std::string& known) {
  if (fresh.empty() || fresh == known) return Ok();
  if (known.empty()) {
    known = fresh;
    return Ok();
  }
  return Error{Code::kMismatch, Cat(where, ": SHA-256: expected ", known, ", found ", fresh),
               "the other parts were made from other weights"};
}

// Parts of one content may come from several addresses, or from a local copy. One of them is named,
// and which does not depend on the order; a local copy is known by its bytes and needs no name.
Status MergeOrigin(const std::string& where, const std::optional<Origin>& fresh,
                   std::optional<Origin>& known) {
  if (!fresh || !known) {
    if (!known) known = fresh;
    return Ok();
  }
  std::string sha256 = known->sha256;
  SHARD_CHECK(MergeDigest(where, fresh->sha256, sha256));
  if (std::tie(fresh->url, fresh->commit, fresh->validator) <
      std::tie(known->url, known->commit, known->validator)) {
    known = fresh;
  }
  known->sha256 = std::move(sha256);
  return Ok();
}

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

Status MergeSourceRecords(const std::string& where, const std::vector<SourceRecord>& fresh,
                          std::vector<SourceRecord>& records) {
  for (size_t i = 0; i < records.size() && i < fresh.size(); ++i) {
    const std::string file = Cat(where, ": source file ", Quoted(records[i].file));
    SHARD_CHECK(MergeDigest(file, fresh[i].sha256, records[i].sha256));
    SHARD_CHECK(MergeOrigin(file, fresh[i].origin, records[i].origin));
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
