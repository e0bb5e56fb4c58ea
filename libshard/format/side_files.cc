#include "libshard/format/side_files.h"

#include "libshard/base/text.h"
#include "libshard/format/checkpoint_index.h"

namespace shard {
namespace {

constexpr const char* kNames[] = {"config.json",       "generation_config.json",
                                  "tokenizer.json",    "tokenizer_config.json",
                                  "added_tokens.json", "merges.txt",
                                  "vocab.json",        "tokenizer.model",
                                  "tiktoken.model",    "chat_template.jinja",
                                  "README.md",         "special_tokens_map.json",
                                  "chat_template.json"};

// No value for a file that is not there or cannot be opened; whoever reads it reports that.
std::optional<FileIdentity> IdentityAt(const fs::path& path) {
  const auto file = InputFile::Open(path);
  return file ? std::optional(file->identity()) : std::nullopt;
}

}  // namespace

SideFiles SideFiles::Note(const fs::path& source, const std::string& config_file) {
  std::error_code ignored;
  const fs::path root = fs::is_directory(source, ignored) ? source : source.parent_path();
  SideFiles noted;
  for (const char* name : kNames) noted.files_[root / name] = IdentityAt(root / name);
  if (!config_file.empty()) noted.files_[config_file] = IdentityAt(config_file);
  const auto indexes = ListFiles(root.empty() ? "." : root, ".index.json");
  if (!indexes) return noted;
  for (const std::string& name : *indexes) noted.files_[root / name] = IdentityAt(root / name);
  return noted;
}

Status SideFiles::CheckUnchanged() const {
  for (const auto& [path, identity] : files_) {
    if (IdentityAt(path) == identity) continue;
    return Error{Code::kCorrupt, Cat(path.string(), ": the file was changed while it was read"),
                 "wait until whatever writes it (a download?) is done, then run the command again"};
  }
  return Ok();
}

}  // namespace shard
