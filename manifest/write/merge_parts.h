// Joins the records of parts that several runs wrote, on one machine or on many, so that the
// manifest is the one that a single run would write.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// Replaces the records of the parts in `fresh`, and sorts all of them as a run writes them.
void ReplaceParts(std::vector<BundleRecord> fresh, std::vector<BundleRecord>& records);

// Adopts the digests and the origins of source files. kMismatch, with `where` in front, for a
// digest that is already known and differs. REQUIRES: both list the same files.
Status MergeSourceRecords(const std::string& where, const std::vector<SourceRecord>& fresh,
                          std::vector<SourceRecord>& records);

// Returns the command line of a run that writes what two runs wrote: it has --keep-remainder,
// --hash-source and --verify-source if one of them has them. No value if they differ in other ways.
std::optional<std::vector<std::string>> MergeCommands(const std::vector<std::string>& a,
                                                      const std::vector<std::string>& b);

}  // namespace moepack::manifest
