#include "libshard/refit/refit_part.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/even_shares.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/format_version.h"
#include "libshard/base/text/record.h"
#include "libshard/base/text/text.h"
#include "libshard/refit/calibration_text.h"

namespace moepack {
namespace {

constexpr const char* kPartFormat = "moepack-refit-part";
constexpr unsigned kPartMajor = 1;
constexpr uint64_t kMaxPartBytes = 1u << 20;
constexpr const char* kPartParameter = "part";
constexpr const char* kInstructionsParameter = "instructions";
constexpr const char* kMoepackParameter = "moepack";
constexpr size_t kPartDigits = 16;

Result<ExpertIds> ReadGroups(const JsonFields& fields, const char* name) {
  SHARD_TRY(const std::string text, fields.String(name));
  return ParseIds(Cat(fields.where(), ": ", name), text, kMaxExpertsPerLayer - 1);
}

// No group has a later one as its first twin.
Result<std::vector<uint32_t>> ReadTwins(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* list, fields.Array(name));
  if (list->empty() || list->size() > kMaxExpertsPerLayer)
    return fields.Wrong(name, "a group or more, and a shorter list");
  std::vector<uint32_t> twins;
  for (const Json& twin : *list) {
    const uint64_t own = twins.size();
    const uint64_t first = twin.is_number_unsigned() ? twin.get<uint64_t>() : own + 1;
    if (first > own || (first < own && twins[first] != first))
      return fields.Wrong(name, "for each group itself, or an earlier one of which this holds");
    twins.push_back(static_cast<uint32_t>(first));
  }
  return twins;
}

constexpr Field<RefitPart> kPartFields[] = {
    {"groups", As<&RefitPart::groups, ReadGroups, FormatIds>},
    {"twins", As<&RefitPart::twins, ReadTwins>},
    {"instructions", As<&RefitPart::instructions, ReadShortText>},
    {"moepack", As<&RefitPart::moepack, ReadShortText>},
};

Error PartDiffers(const fs::path& where, const char* thing, const std::string& expected,
                  const std::string& found, std::string hint) {
  return {Code::kMismatch,
          Cat(Shown(where.string()), ": ", thing, ": expected ", expected, ", found ", found),
          std::move(hint)};
}

constexpr const char* kOtherBits =
    "other instructions and other versions round differently: all parts of a refit are computed "
    "alike, or again in another directory";

Status CheckComputedAlike(const fs::path& where, const RefitPart& wanted, const RefitPart& found,
                          const std::string& hint) {
  if (wanted.instructions != found.instructions)
    return PartDiffers(where, "instructions", Shown(wanted.instructions), Shown(found.instructions),
                       hint);
  if (wanted.moepack != found.moepack)
    return PartDiffers(where, "moepack", Shown(wanted.moepack), Shown(found.moepack), hint);
  return Ok();
}

std::pair<uint32_t, uint32_t> KeyOf(const RefitOutcome& outcome) {
  return {outcome.layer, outcome.group};
}

}  // namespace

std::string RefitGroupImatrix(uint32_t group) {
  return Cat("imatrix-group-", ZeroPadded(group, 3), ".gguf");
}

std::string RefitPartText(const RefitPart& part) {
  Json document = Json::object();
  document["format"] = kPartFormat;
  document["format_version"] = Cat(kPartMajor, ".0");
  WriteFields(kPartFields, part, document);
  return WriteJson(document);
}

Result<RefitPart> ParseRefitPart(const std::string& where, const std::string& text) {
  SHARD_TRY(const Json document, ParseJson(where, text));
  SHARD_CHECK(CheckObject(where, document));
  const JsonFields fields(document, where);
  SHARD_CHECK(CheckFormat(fields, kPartFormat, kPartMajor));
  RefitPart part;
  SHARD_CHECK(ReadFields(kPartFields, fields, part));
  if (part.groups.empty() || part.groups.back() >= part.twins.size())
    return fields.Wrong("groups", "some of those that have twins");
  return part;
}

Result<std::optional<RefitPart>> ReadRefitPart(const SourceTree& tree) {
  SHARD_TRY(const bool there, tree.Has(kRefitPartFile));
  if (!there) return std::optional<RefitPart>();
  SHARD_TRY(const std::string text, tree.ReadText(kRefitPartFile, kMaxPartBytes));
  SHARD_TRY(RefitPart part, ParseRefitPart(tree.NameOf(kRefitPartFile), text));
  return std::optional(std::move(part));
}

std::string GroupsText(const std::vector<uint32_t>& groups) {
  return Cat(groups.size() == 1 ? "group " : "groups ", FormatIds(groups));
}

std::string PartGroupsText(const std::optional<RefitPart>& part) {
  if (!part) return "all groups";
  return Cat(GroupsText(part->groups), " of ", part->twins.size());
}

void NamePart(const RefitPart& part, RefitRecord& record) {
  record.parameters[kPartParameter] = Sha256Hex(RefitPartText(part)).substr(0, kPartDigits);
  record.parameters[kInstructionsParameter] = part.instructions;
  record.parameters[kMoepackParameter] = part.moepack;
}

bool IsPart(const RefitRecord& record) { return record.parameters.contains(kPartParameter); }

void ForgetGroups(RefitRecord& record) { record.parameters.erase(kPartParameter); }

void ForgetPart(RefitRecord& record) {
  for (const char* name : {kPartParameter, kInstructionsParameter, kMoepackParameter})
    record.parameters.erase(name);
}

Status CheckSamePart(const fs::path& where, const std::optional<RefitPart>& wanted,
                     const std::optional<RefitPart>& found) {
  const bool same_groups =
      wanted.has_value() == found.has_value() &&
      (!wanted || (wanted->groups == found->groups && wanted->twins.size() == found->twins.size()));
  if (!same_groups)
    return PartDiffers(where, "refit", PartGroupsText(wanted), PartGroupsText(found),
                       "each part of a refit has a store of its own: name another directory, or "
                       "remove this one; `moepack join` makes one store of all parts");
  if (!wanted) return Ok();
  return CheckComputedAlike(where, *wanted, *found,
                            Cat("expected those of this run; ", kOtherBits));
}

Status CheckPartsFit(const fs::path& where, const RefitPart& found, const std::string& expected,
                     const RefitPart& first) {
  const std::string hint = Cat("expected as in ", expected, "; ", kOtherBits);
  SHARD_CHECK(CheckComputedAlike(where, first, found, hint));
  if (first.twins == found.twins) return Ok();
  return PartDiffers(where, "twins of the groups", "those of the other part", "others", hint);
}

Status MergeOutcomes(const std::string& where, const RefitRecord& part, RefitRecord& into) {
  for (const RefitOutcome& outcome : part.outcomes) {
    const auto place = std::lower_bound(
        into.outcomes.begin(), into.outcomes.end(), outcome,
        [](const RefitOutcome& a, const RefitOutcome& b) { return KeyOf(a) < KeyOf(b); });
    if (place == into.outcomes.end() || KeyOf(*place) != KeyOf(outcome)) {
      into.outcomes.insert(place, outcome);
    } else if (!(*place == outcome)) {
      return Error{Code::kMismatch,
                   Cat(where, ": layer ", outcome.layer, ", group ", outcome.group,
                       ": expected what another part has of it, found another outcome"),
                   "leave out the part that is wrong"};
    }
  }
  return Ok();
}

std::vector<uint32_t> GroupsOfTask(const std::vector<uint32_t>& twins,
                                   const std::vector<uint64_t>& costs, uint32_t index,
                                   uint32_t count) {
  std::vector<uint32_t> firsts;
  std::vector<uint64_t> costs_of_firsts;
  for (uint32_t group = 0; group < twins.size(); ++group) {
    if (twins[group] != group) continue;
    firsts.push_back(group);
    costs_of_firsts.push_back(costs[group]);
  }
  const std::vector<uint32_t> shares = EvenShares(costs_of_firsts, count);
  std::vector<uint32_t> groups;
  for (uint32_t group = 0; group < twins.size(); ++group) {
    const auto first = std::lower_bound(firsts.begin(), firsts.end(), twins[group]);
    if (shares[static_cast<size_t>(first - firsts.begin())] == index) groups.push_back(group);
  }
  return groups;
}

}  // namespace moepack
