// A part of a refit: the store of some of its groups, which one machine of several makes. part.json
// says which; `join` makes one store of all parts. docs/refit.md describes the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/refit/refit_record.h"

namespace moepack {

inline constexpr const char* kRefitPartFile = "part.json";
// "imatrix-group-001.gguf": a part has an importance matrix for each of its groups, written when
// all its layers are there.
std::string RefitGroupImatrix(uint32_t group);

struct RefitPart {
  std::vector<uint32_t> groups;  // ascending
  // Of all groups of the plan: the first one that is refitted to the same experts (FirstTwins).
  std::vector<uint32_t> twins;
  // What must be the same in all parts, because it changes bits: the vector instructions of the
  // machine, and the version of moepack.
  std::string instructions, moepack;
  bool operator==(const RefitPart&) const = default;
};

std::string RefitPartText(const RefitPart& part);
// The text may be hostile. kCorrupt for a wrong structure, kUnsupported for another major version.
Result<RefitPart> ParseRefitPart(const std::string& where, const std::string& text);
// No value for the store of a whole refit.
Result<std::optional<RefitPart>> ReadRefitPart(const SourceTree& tree);

// "group 3", or "groups 0-1".
std::string GroupsText(const std::vector<uint32_t>& groups);
// "all groups", or "groups 0-1 of 4".
std::string PartGroupsText(const std::optional<RefitPart>& part);

// A part's record names it by a digest among its parameters, so that no part is taken for a whole
// refit, or for another part; and it says how the part was computed, since distributions that are
// made from parts have only the record.
void NamePart(const RefitPart& part, RefitRecord& record);
bool IsPart(const RefitRecord& record);
// Leaves the parameters that all parts of one refit have alike.
void ForgetGroups(RefitRecord& record);
// Leaves the parameters of a whole refit.
void ForgetPart(RefitRecord& record);

// kMismatch, naming what differs, unless both are the same groups, computed with the same
// instructions and moepack. `where` is the directory of `found`.
Status CheckSamePart(const fs::path& where, const std::optional<RefitPart>& wanted,
                     const std::optional<RefitPart>& found);
// The same for two parts that are to be joined, which have other groups. `expected` names the
// directory of `first`.
Status CheckPartsFit(const fs::path& where, const RefitPart& found, const std::string& expected,
                     const RefitPart& first);

// Adds the outcomes of a part's record to those of others, in the order of layers and groups, and
// keeps those that are there. kMismatch for a group that both have with different outcomes.
Status MergeOutcomes(const std::string& where, const RefitRecord& part, RefitRecord& into);

// The sets of twins are divided, so that each is refitted once: the groups of task `index` of
// `count`, ascending. `costs` are those of the groups' refits. Groups that cost the same go to the
// tasks in turns. With more tasks than sets, some have none.
std::vector<uint32_t> GroupsOfTask(const std::vector<uint32_t>& twins,
                                   const std::vector<uint64_t>& costs, uint32_t index,
                                   uint32_t count);

}  // namespace moepack
