#include "libshard/format/gguf_set.h"

#include <algorithm>
#include <limits>
#include <map>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr std::string_view kSuffix = ".gguf", kOf = "-of-";
constexpr size_t kDigits = 5;
constexpr size_t kMaxListed = 8;
constexpr const char* kMixedHint =
    "the set may be mixed from two downloads: fetch or split it again";

std::optional<uint64_t> ParseFiveDigits(std::string_view text) {
  return text.size() == kDigits ? ParseUint(text) : std::nullopt;
}

Error WrongKey(const GgufPart& part, std::string_view key, const std::string& expected) {
  const GgufValue* value = part.metadata->Find(key);
  std::string found = "none";
  if (value != nullptr) {
    found = std::string(GgufTypeName(value->type));
    if (const auto number = value->AsUint()) found = Cat(*number, " (", found, ")");
  }
  return {Code::kCorrupt,
          Cat(part.path.string(), ": key ", key, ": expected ", expected, ", found ", found),
          kMixedHint};
}

// Checks that the key has this type and value or, where that is allowed, is absent.
Status CheckKey(const GgufPart& part, std::string_view key, const GgufValue& expected,
                bool may_be_absent) {
  const GgufValue* value = part.metadata->Find(key);
  if (value == nullptr ? may_be_absent : *value == expected) return Ok();
  return WrongKey(part, key, Cat(*expected.AsUint(), " (", GgufTypeName(expected.type), ")"));
}

Status CheckSingle(const GgufPart& part) {
  const uint64_t count = part.metadata->Uint(kSplitCountKey).value_or(1);
  const uint64_t number = part.metadata->Uint(kSplitNoKey).value_or(0);
  if (count <= 1 && number == 0) return Ok();
  const std::string_view key = number != 0 ? kSplitNoKey : kSplitCountKey;
  return Error{Code::kCorrupt,
               Cat(part.path.string(), ": key ", key,
                   ": expected a model in one file, as its name is not that of a part, found ",
                   number != 0 ? number : count),
               "give the parts of a set their names back: PREFIX-00001-of-00003.gguf and so on"};
}

// Compares a later part with the first.
Status CheckSameModel(const GgufPart& first, const GgufPart& part) {
  const std::string expected = first.metadata->Architecture();
  const std::string found = part.metadata->Architecture();
  if (found.empty() || found == expected) return Ok();
  return Error{Code::kCorrupt,
               Cat(part.path.string(), ": key general.architecture: expected ", Quoted(expected),
                   " as in ", first.path.filename().string(), ", found ", Quoted(found)),
               kMixedHint};
}

}  // namespace

std::optional<GgufPartName> ParseGgufPartName(std::string_view file_name) {
  constexpr size_t kTail = 1 + kDigits + kOf.size() + kDigits;
  if (!file_name.ends_with(kSuffix)) return std::nullopt;
  file_name.remove_suffix(kSuffix.size());
  if (file_name.size() <= kTail) return std::nullopt;
  const std::string_view prefix = file_name.substr(0, file_name.size() - kTail);
  const std::string_view tail = file_name.substr(prefix.size());
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  const auto number = ParseFiveDigits(tail.substr(1, kDigits));
  const auto count = ParseFiveDigits(tail.substr(1 + kDigits + kOf.size()));
  if (!number || !count || *number == 0 || *number > *count) return std::nullopt;
  if (*count > std::numeric_limits<uint16_t>::max()) return std::nullopt;
  return GgufPartName{std::string(prefix), static_cast<uint32_t>(*number - 1),
                      static_cast<uint32_t>(*count)};
}

std::string GgufFileName(const std::string& prefix, uint32_t index, uint32_t count) {
  return count == 1 ? Cat(prefix, kSuffix) : GgufPartFileName(prefix, index, count);
}

std::string GgufNameProblem(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const bool fits = name.size() > kSuffix.size() && name.ends_with(kSuffix);
  if (fits && name.find(kOf) == name.npos) return "";
  return Cat("expected a file name that ends in .gguf and has no \"-of-\" in it, found ",
             Quoted(path));
}

std::string GgufPartFileName(const std::string& prefix, uint32_t index, uint32_t count) {
  return Cat(prefix, "-", ZeroPadded(index + 1, kDigits), kOf, ZeroPadded(count, kDigits), kSuffix);
}

std::vector<std::string> GgufPartsOf(const std::string& file_name) {
  const std::optional<GgufPartName> part = ParseGgufPartName(file_name);
  if (!part) return {file_name};
  std::vector<std::string> names;
  for (uint32_t i = 0; i < part->count; ++i) {
    names.push_back(GgufPartFileName(part->prefix, i, part->count));
  }
  return names;
}

Result<std::vector<std::string>> FindGgufModel(const SourceTree& tree) {
  SHARD_TRY(const std::vector<std::string> names, tree.List("", kSuffix));
  // the name that their parts have in common -> one of the parts
  std::map<std::string, std::string> models;
  for (const std::string& name : names) {
    const std::optional<GgufPartName> part = ParseGgufPartName(name);
    models.emplace(part ? Cat(part->prefix, " in ", Plural(part->count, "part")) : name, name);
  }
  if (models.empty()) return std::vector<std::string>();
  if (models.size() == 1) return GgufPartsOf(models.begin()->second);
  std::vector<std::string> found;
  for (const auto& [model, name] : models) {
    if (found.size() < kMaxListed) found.push_back(Quoted(model));
  }
  if (found.size() < models.size()) found.push_back("...");
  return Error{
      Code::kInvalidArgument,
      Cat(tree.name(), ": expected one GGUF model, found ", models.size(), ": ", Join(found, ", ")),
      "name one of the files instead of the directory"};
}

Status CheckGgufPartsPresent(const SourceTree& tree, const std::vector<std::string>& parts) {
  std::vector<std::string> missing;
  for (const std::string& part : parts) {
    SHARD_TRY(const bool there, tree.Has(part));
    if (!there) missing.push_back(part);
  }
  if (missing.empty()) return Ok();
  return Error{Code::kNotFound,
               Cat(tree.NameOf(missing[0]), ": expected ", Plural(parts.size(), "part"), ", found ",
                   parts.size() - missing.size(), " (", missing.size(), " missing)"),
               "finish the download: a model in several files is read only if all are there"};
}

Status CheckGgufSet(const std::vector<GgufPart>& parts) {
  const GgufPart& first = parts.front();
  if (parts.size() == 1) return CheckSingle(first);
  uint64_t tensors = 0;
  for (const GgufPart& part : parts) tensors += part.tensors;
  const GgufValue count = GgufValue::U16(static_cast<uint16_t>(parts.size()));
  const GgufValue total = GgufValue::I32(static_cast<int32_t>(tensors));
  // Numbers are checked first, because the message for a duplicate part should say so, not complain
  // about its counts.
  for (size_t i = 0; i < parts.size(); ++i) {
    const GgufValue number = GgufValue::U16(static_cast<uint16_t>(i));
    SHARD_CHECK(CheckKey(parts[i], kSplitNoKey, number, false));
  }
  for (const GgufPart& part : parts) {
    const bool later = &part != &first;
    SHARD_CHECK(CheckKey(part, kSplitCountKey, count, later));
    SHARD_CHECK(CheckKey(part, kSplitTensorsKey, total, later));
    if (later) SHARD_CHECK(CheckSameModel(first, part));
  }
  return Ok();
}

}  // namespace moepack
