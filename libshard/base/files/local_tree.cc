#include "libshard/base/files/local_tree.h"

#include <algorithm>
#include <utility>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/directory_names.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/text/address.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr const char* kAddressHint =
    "that is an address, not a local file: download it first, then name the directory or file";

}  // namespace

LocalTree::LocalTree(fs::path directory, LinkRule links, std::string named)
    : directory_(std::move(directory)),
      name_(directory_.string()),
      links_(links),
      named_(std::move(named)),
      bare_(!named_.empty() && directory_ == ".") {}

std::string LocalTree::NameOf(const std::string& file) const {
  return (bare_ ? fs::path(file) : directory_ / file).string();
}

// A directory that cannot be listed is an error. Missing subdirectories are fine.
Result<std::vector<std::string>> LocalTree::List(const std::string& folder,
                                                 std::string_view suffix) const {
  const fs::path path = folder.empty() ? directory_ : directory_ / folder;
  if (!folder.empty()) {
    SHARD_TRY(const bool there, Has(folder));
    if (!there) return std::vector<std::string>();
  }
  Result<std::vector<std::string>> listed = NamesIn(path);
  if (!listed) return Error{Code::kIo, std::move(listed).error().message};
  std::vector<std::string> names = *std::move(listed);
  std::erase_if(names, [&](const std::string& name) {
    std::error_code unknown;
    return !name.ends_with(suffix) || fs::is_directory(path / name, unknown);
  });
  return names;
}

Result<bool> LocalTree::Has(const std::string& file) const {
  if (!StaysBelow(file)) return LeadsOutside(name_, file);
  return IsThere(directory_ / file);
}

Status LocalTree::CheckRule(const std::string& file) const {
  if (!StaysBelow(file)) return LeadsOutside(name_, file);
  if (file == named_ || links_ == LinkRule::kAnywhere) return Ok();
  if (links_ == LinkRule::kPartsAnywhere && file.ends_with(".gguf")) return Ok();
  Status inside = CheckInside(directory_, file);
  // Opening a missing file gives a better message.
  return !inside && inside.error().code == Code::kNotFound ? Ok() : inside;
}

Result<ByteSourcePtr> LocalTree::Open(const std::string& file) const {
  SHARD_CHECK(CheckRule(file));
  // Opening a missing file reports it, and looking up a dangling link does.
  if (const auto there = IsThere(NameOf(file)); !there) return there.error();
  SHARD_TRY(InputFile opened, InputFile::Open(NameOf(file)));
  return ByteSourcePtr(std::make_shared<const InputFile>(std::move(opened)));
}

std::optional<fs::path> LocalTree::LocalPath(const std::string& file) const {
  return file.empty() ? directory_ : directory_ / file;
}

Result<Source> LocalSource(const fs::path& path, LinkRule links) {
  SHARD_TRY(const bool there, IsThere(path));
  if (!there) {
    return Error{Code::kNotFound, Cat(WithoutSecrets(path.string()), ": no such file or directory"),
                 SchemeOf(path.string()).empty() ? "" : kAddressHint};
  }
  SHARD_TRY(const bool directory_given, IsDirectory(path));
  if (directory_given) {
    return Source{path, std::make_shared<const LocalTree>(path, links), ""};
  }
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const std::string file = path.filename().string();
  return Source{path, std::make_shared<const LocalTree>(directory, links, file), file};
}

}  // namespace moepack
