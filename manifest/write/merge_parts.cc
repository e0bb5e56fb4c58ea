#include "manifest/write/merge_parts.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "libshard/base/text/text.h"
#include "manifest/document/parts.h"

namespace moepack::manifest {
namespace {

bool SamePart(const BundleRecord& a, const BundleRecord& b) { return PartOf(a) == PartOf(b); }

// Options that one run may have and another may lack, in the order of a command line.
constexpr const char* kOptionsOfSomeParts[] = {"--keep-remainder", "--hash-source",
                                               "--verify-source", "--chunk-map"};

// Adopts whichever of two digests exists.
Status MergeDigest(const std::string& where, const std::string& fresh, std::string& known) {
  if (fresh.empty() || fresh == known) return Ok();
  if (known.empty()) {
    known = fresh;
    return Ok();
  }
  return Error{Code::kMismatch, Cat(where, ": SHA-256: expected ", known, ", found ", fresh),
               "the other parts were made from other weights"};
}

std::string ShownOrigin(const Origin& origin) {
  return Cat(Quoted(origin.url), origin.validator.empty() ? "" : Cat(" with ", origin.validator));
}

// Parts with the same content may come from several addresses, but only digests can prove that it
// is the same. For a local copy nothing more is known than that the model version agrees.
Status CheckSameContent(const std::string& where, const SourceRecord& fresh,
                        const SourceRecord& known) {
  const Origin &a = *known.origin, &b = *fresh.origin;
  const bool published = !a.sha256.empty() && a.sha256 == b.sha256;
  const bool hashed = !known.sha256.empty() && known.sha256 == fresh.sha256;
  if (published || hashed || a == b) return Ok();
  return Error{Code::kMismatch,
               Cat(where, ": expected ", ShownOrigin(a), ", found ", ShownOrigin(b)),
               "the source is another one or was changed in between; parts that were written with "
               "--hash-source can be compared by their digests"};
}

// Adopts the origin. If there are two, the one whose address comes first is named, so that the
// order of parts does not matter.
Status MergeOrigin(const std::string& where, const SourceRecord& fresh, SourceRecord& known) {
  // One run that read the file only in ranges leaves the rest of it unproved.
  known.whole = known.whole && fresh.whole;
  if (!fresh.origin) return Ok();
  if (!known.origin) {
    known.origin = fresh.origin;
    return Ok();
  }
  std::string sha256 = known.origin->sha256;
  SHARD_CHECK(MergeDigest(where, fresh.origin->sha256, sha256));
  SHARD_CHECK(CheckSameContent(where, fresh, known));
  if (std::tie(fresh.origin->url, fresh.origin->commit, fresh.origin->validator) <
      std::tie(known.origin->url, known.origin->commit, known.origin->validator)) {
    known.origin = fresh.origin;
  }
  known.origin->sha256 = std::move(sha256);
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
    // Parts may be written in any order, and the manifest must come out the same.
    return std::tie(a.role, a.group, a.file) < std::tie(b.role, b.group, b.file);
  });
}

Status MergeSourceRecords(const std::string& where, const std::vector<SourceRecord>& fresh,
                          std::vector<SourceRecord>& records) {
  for (size_t i = 0; i < records.size() && i < fresh.size(); ++i) {
    const std::string file = Cat(where, ": source file ", Quoted(records[i].file));
    SHARD_CHECK(MergeOrigin(file, fresh[i], records[i]));
    SHARD_CHECK(MergeDigest(file, fresh[i].sha256, records[i].sha256));
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
